//! The patches that are applied together to one tree, in order of application.

use std::collections::{BTreeMap, BTreeSet};

use names::Sha256;

use crate::hash::sha256;
use crate::spec::Patch;

/// Patches for one component. Required patches come first; then `order` decides, then the id.
#[derive(Debug, Clone)]
pub struct PatchSet {
    patches: Vec<Patch>,
}

/// The reason why patches do not form a set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchSetError {
    /// Two patches have the same id.
    #[error("two patches are called `{0}`")]
    Duplicate(String),
    /// The patches are for different components.
    #[error(
        "`{first}` is for `{first_component}` and `{second}` for `{second_component}`; a set is for one component"
    )]
    Components {
        /// A patch.
        first: String,
        /// The component of that patch.
        first_component: String,
        /// Another patch.
        second: String,
        /// The component of that patch.
        second_component: String,
    },
    /// A required patch is missing.
    #[error(
        "`{patch}` requires `{required}`, which is not selected; without it, `{patch}` breaks the source"
    )]
    Missing {
        /// The patch.
        patch: String,
        /// The missing patch.
        required: String,
    },
    /// Three or more patches form a dependency cycle.
    #[error("these patches form a dependency cycle: {0}")]
    Cycle(String),
}

impl PatchSet {
    /// Sorts the patches.
    ///
    /// A patch in `requires` must be part of the set and comes first, except when both patches
    /// require each other. That is allowed for two patches that must always be applied together;
    /// `order` then decides.
    ///
    /// # Errors
    /// Fails if an id occurs twice, components differ, a required patch is missing, or three or
    /// more patches form a dependency cycle.
    pub fn new(patches: Vec<Patch>) -> Result<Self, PatchSetError> {
        let mut by_id = BTreeMap::new();
        if let Some((first, second)) =
            patches.iter().zip(patches.iter().skip(1)).find(|(a, b)| a.component != b.component)
        {
            return Err(PatchSetError::Components {
                first: first.id.clone(),
                first_component: first.component.clone(),
                second: second.id.clone(),
                second_component: second.component.clone(),
            });
        }
        for patch in patches {
            if let Some(twice) = by_id.insert(patch.id.clone(), patch) {
                return Err(PatchSetError::Duplicate(twice.id));
            }
        }
        let requires: BTreeMap<String, BTreeSet<String>> = by_id
            .iter()
            .map(|(id, patch)| (id.clone(), patch.relations.requires.iter().cloned().collect()))
            .collect();
        for (id, required) in &requires {
            if let Some(missing) = required.iter().find(|required| !by_id.contains_key(*required)) {
                return Err(PatchSetError::Missing {
                    patch: id.clone(),
                    required: missing.clone(),
                });
            }
        }
        let mut ordered: Vec<Patch> = Vec::with_capacity(by_id.len());
        while !by_id.is_empty() {
            let waits = |patch: &Patch| {
                requires[&patch.id].iter().any(|required| {
                    by_id.contains_key(required) && !requires[required].contains(&patch.id)
                })
            };
            let ready = by_id
                .values()
                .filter(|patch| !waits(patch))
                .min_by_key(|patch| (patch.relations.order, &patch.id));
            let Some(id) = ready.map(|patch| patch.id.clone()) else {
                let cycle = cycle(&by_id, &requires);
                return Err(PatchSetError::Cycle(crate::reader::list(&cycle)));
            };
            ordered.extend(by_id.remove(&id));
        }
        Ok(Self { patches: ordered })
    }

    /// Returns the patches in order of application.
    pub fn patches(&self) -> &[Patch] {
        &self.patches
    }

    /// Returns the SHA-256 of the effect of all patches, for plan keys and labels.
    pub fn sha256(&self) -> Sha256 {
        let lines: String =
            self.patches.iter().map(|patch| format!("{} {}\n", patch.id, patch.sha256())).collect();
        sha256(lines.as_bytes())
    }
}

/// Returns the patches of a dependency cycle, sorted. Each of the `blocked` patches waits for
/// another one.
fn cycle<'a>(
    blocked: &'a BTreeMap<String, Patch>,
    requires: &'a BTreeMap<String, BTreeSet<String>>,
) -> Vec<&'a str> {
    let mut path: Vec<&str> = Vec::new();
    let mut next = blocked.keys().next().map(String::as_str);
    while let Some(id) = next {
        if let Some(begin) = path.iter().position(|one| *one == id) {
            path.drain(..begin);
            break;
        }
        path.push(id);
        let waits_for =
            |other: &&String| blocked.contains_key(*other) && !requires[*other].contains(id);
        next = requires[id].iter().find(waits_for).map(String::as_str);
    }
    path.sort_unstable();
    path
}
