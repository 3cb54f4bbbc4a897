//! Chooses the patches of a source by GPU target and version, before anything is fetched.

use names::{GpuTarget, PinName, Version};
use patcher::{PatchSet, Selection};
use plan::{Expectation, PatchUse};

use crate::PlanError;

/// The source to choose patches for.
pub(crate) struct Target<'a> {
    /// The pin of the source.
    pub(crate) pin: &'a PinName,
    /// The GPU target.
    pub(crate) gpu: &'a GpuTarget,
    /// The version of the source, if the pin states one. Without it, no patch is excluded by
    /// version.
    pub(crate) version: Option<&'a str>,
}

impl Target<'_> {
    /// Returns the patches of a component that apply to the source, in order of application.
    ///
    /// # Errors
    /// Fails if the version cannot be parsed, if a patch breaks that version, or if two patches
    /// conflict.
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
