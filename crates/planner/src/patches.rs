//! Which patches a source is built with: chosen by GPU target and version, before anything is fetched.

use names::{GpuTarget, PinName, Version};
use patcher::{PatchSet, Selection};
use plan::{Expectation, PatchUse};

use crate::PlanError;

/// What patches are chosen for.
pub(crate) struct Target<'a> {
    /// The pin of the source.
    pub(crate) pin: &'a PinName,
    /// The GPU target.
    pub(crate) gpu: &'a GpuTarget,
    /// The version of the source, where the pin states one. Without it the version is no reason to
    /// leave a patch out.
    pub(crate) version: Option<&'a str>,
}

impl Target<'_> {
    /// Returns the patches of a component that the source is built with, in the order in which they
    /// are applied.
    ///
    /// # Errors
    /// The version cannot be read, a patch does harm to it, or two patches exclude each other.
    pub(crate) fn choose(&self, set: &PatchSet) -> Result<Vec<PatchUse>, PlanError> {
        let pin = || self.pin.to_string();
        let version = self.version.map(|text| {
            text.parse::<Version>().map_err(|source| PlanError::PatchVersion {
                pin: pin(),
                version: text.to_owned(),
                source,
            })
        });
        let version = version.transpose()?;
        let mut uses = Vec::new();
        for selected in set.select(self.gpu, version.as_ref()) {
            let (component, id) = (selected.patch.component.clone(), selected.patch.id.clone());
            let expect = match selected.selection {
                Selection::NotApplicable { .. } => continue,
                Selection::Apply => Expectation::InEffect,
                Selection::ExpectUpstream { .. } => Expectation::Upstream,
                Selection::Refuse { because } => {
                    return Err(PlanError::PatchRefuses {
                        pin: pin(),
                        component,
                        patch: id,
                        because,
                    });
                }
                Selection::Conflict { with } => {
                    return Err(PlanError::PatchConflict {
                        pin: pin(),
                        component,
                        first: id,
                        second: with,
                    });
                }
            };
            uses.push(PatchUse { component, id, effect: selected.patch.sha256(), expect });
        }
        Ok(uses)
    }
}
