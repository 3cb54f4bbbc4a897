//! Creates a [`plan::Plan`] from a [`BuildRequest`] and a [`PlanningInput`].
//!
//! Start at [`plan()`]. The tracks that only add metadata to a vendor's image differ only in their
//! settings, so one module, `metadata`, plans them all; `built` plans the tracks that an engine
//! builds. The planner never reads files, the network, the environment or the clock. Tags are
//! resolved and files are read before it is called, so equal arguments give byte-equal plans.

mod built;
mod error;
mod metadata;
mod patches;
mod request;
mod spoof;
mod warning;

pub use built::{Needs, needs};
pub use error::{PlanError, UsedPins};
pub use request::{
    BuildRequest, ImageOverride, ParseOverrideError, PlanningInput, SpoofChoice, StandIn,
};
pub use spoof::{OPT_OUT_VARIABLE, OVERRIDE_VARIABLE, WRAPPER_SCRIPT};
pub use warning::Warning;

use pins::Track;

/// A plan, and its warnings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// The plan.
    pub plan: plan::Plan,
    /// Stale or dangerous facts about it, the most important first. They are not part of the plan,
    /// so a better wording never changes an image's digest.
    pub warnings: Vec<Warning>,
}

/// Creates the plan of one track.
///
/// # Errors
/// Fails if the request names a pin, GPU or spoof that cannot be used, or if the track is based on
/// an unresolved pin.
pub fn plan(request: &BuildRequest, input: &PlanningInput) -> Result<Planned, PlanError> {
    if request.track.is_built() {
        built::plan(request, input)
    } else {
        metadata::plan(request, input)
    }
}

/// Returns the image pin that a track is based on, before anything is planned.
///
/// The caller uses it to ask a registry for the digest of a followed tag.
///
/// # Errors
/// Fails if an engine builds the track, if the track has no settings, or if they name a pin that
/// does not exist.
pub fn base_pin(
    track: Track,
    input: &PlanningInput,
) -> Result<(&names::PinName, &pins::ImagePin), PlanError> {
    metadata::base(track, input).map(|(settings, pin)| (&settings.base, pin))
}

/// Returns whether the image of a request is based on an image pin. Returns `false` for a track or
/// variant that does not exist.
pub fn stands_on(request: &BuildRequest, pin: &names::PinName, input: &PlanningInput) -> bool {
    match input.tracks.built.get(&request.track) {
        Some(settings) => {
            let variant = request.variant.as_ref().unwrap_or(&settings.variant);
            let base = settings.variants.get(variant).map(|variant| &variant.base);
            matches!(base, Some(pins::VariantBase::Image(base)) if base == pin)
        }
        None => base_pin(request.track, input).is_ok_and(|(base, _)| base == pin),
    }
}

#[cfg(test)]
mod tests;
