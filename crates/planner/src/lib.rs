//! Makes a [`plan::Plan`] from a [`BuildRequest`] and a [`PlanningInput`].
//!
//! Start at [`plan()`]. The tracks that only add metadata to a vendor's image differ in nothing but
//! their settings, so one module, `metadata`, makes them all; `built` makes those that an engine builds. The planner never reads files, the network, the environment or the
//! clock: tags were resolved and files were read before it is called, so equal arguments give
//! byte-equal plans.

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

/// A plan, and what a person should know before it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// What will be done.
    pub plan: plan::Plan,
    /// What is stale or dangerous about it, most important first. Not part of the plan: better
    /// words must not change an image's digest.
    pub warnings: Vec<Warning>,
}

/// Makes the plan of one track.
///
/// # Errors
/// The request names a pin, GPU or spoof that cannot be used, or a pin that the track stands on is
/// unresolved.
pub fn plan(request: &BuildRequest, input: &PlanningInput) -> Result<Planned, PlanError> {
    if request.track.is_built() {
        built::plan(request, input)
    } else {
        metadata::plan(request, input)
    }
}

/// Returns the image pin that a track stands on, before anything is planned.
///
/// The caller uses it to ask a registry for the digest of a followed tag.
///
/// # Errors
/// The track needs an engine, has no settings, or they name a pin that does not exist.
pub fn base_pin(
    track: Track,
    input: &PlanningInput,
) -> Result<(&names::PinName, &pins::ImagePin), PlanError> {
    metadata::base(track, input).map(|(settings, pin)| (&settings.base, pin))
}

/// Returns whether the image of a request stands on an image pin. A track or variant that does not
/// exist stands on none.
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
