//! The patches that are applied together to one tree, in the order they are applied in.

use std::collections::{BTreeMap, BTreeSet};

use names::Sha256;

use crate::hash::sha256;
use crate::spec::Patch;

/// Patches for one component, in order: what is required first, then by `order`, then by id.
#[derive(Debug, Clone)]
pub struct PatchSet {
    patches: Vec<Patch>,
}

/// Why patches do not make a set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchSetError {
    /// Two patches have one id.
    #[error("two patches are called `{0}`")]
    Duplicate(String),
    /// The patches are for different components.
    #[error(
        "`{first}` is for `{first_component}` and `{second}` for `{second_component}`; a set is for one component"
    )]
    Components {
        /// A patch.
        first: String,
        /// What it is for.
        first_component: String,
        /// Another patch.
        second: String,
        /// What that is for.
        second_component: String,
    },
    /// A patch requires one that is not there.
    #[error(
        "`{patch}` requires `{required}`, which is not selected; without it the first does harm"
    )]
    Missing {
        /// The patch.
        patch: String,
        /// What it requires.
        required: String,
    },
    /// Patches require each other in the order of application.
    #[error("these patches wait for each other: {0}")]
    Cycle(String),
}

impl PatchSet {
    /// Orders the patches.
    ///
    /// `requires` says that both must be there. It orders them too, unless both require each other:
    /// that is allowed for two patches of which neither may be left out, and `order` decides.
    ///
    /// # Errors
    /// An id stands twice, components differ, a required patch is missing, or three or more patches
    /// wait for each other.
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
                let ids: Vec<&str> = by_id.keys().map(String::as_str).collect();
                return Err(PatchSetError::Cycle(crate::reader::list(&ids)));
            };
            ordered.extend(by_id.remove(&id));
        }
        Ok(Self { patches: ordered })
    }

    /// Returns the patches, in the order they are applied in.
    pub fn patches(&self) -> &[Patch] {
        &self.patches
    }

    /// Returns the SHA-256 over what all patches do, for plan keys and labels.
    pub fn sha256(&self) -> Sha256 {
        let lines: String =
            self.patches.iter().map(|patch| format!("{} {}\n", patch.id, patch.sha256())).collect();
        sha256(lines.as_bytes())
    }
}
