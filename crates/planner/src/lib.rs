//! Creates a [`plan::Plan`] from a [`BuildRequest`] and a [`PlanningInput`].
//!
//! Start at [`plan()`]. No track has code of its own: `metadata` plans the tracks that need no
//! engine, and `built` plans those that an engine builds. `slim` decides which GPU code is kept,
//! and `chain` finds the tracks that a track is based on. The planner never reads files, the
//! network, the environment or the clock. Tags are resolved and files are read before it is called,
//! so the same arguments always produce the same plan, byte for byte.

#![cfg_attr(
    test,
    expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")
)]

mod built;
mod chain;
mod error;
mod files;
mod metadata;
mod patches;
mod request;
mod slim;
mod spoof;
mod warning;

pub use built::{Needs, needs};
pub use error::{PlanError, UsedPins};
pub use files::OwnFilesOfTrack;
pub use request::{
    BuildRequest, ImageOverride, ParseOverrideError, PlanningInput, SlimChoice, SpoofChoice,
    StandIn,
};
pub use spoof::{OPT_OUT_VARIABLE, OVERRIDE_VARIABLE, WRAPPER_SCRIPT};
pub use warning::Warning;

use chain::Chain;
use pins::Base;

/// A plan, and its warnings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// The plan.
    pub plan: plan::Plan,
    /// The warnings about it. They are not part of the plan, so a better wording never changes an
    /// image's digest.
    pub warnings: Vec<Warning>,
}

/// Creates the plan of one track.
///
/// # Errors
/// Fails if no plan can be made; [`PlanError`] lists the reasons.
pub fn plan(request: &BuildRequest, input: &PlanningInput) -> Result<Planned, PlanError> {
    let chain = Chain::find(request, input)?;
    if chain.needs_engine() {
        built::plan(request, input, &chain)
    } else {
        metadata::plan(request, input, &chain)
    }
}

/// Returns the image pin that the image of a request is based on, before anything is planned.
/// Returns `None` if it is based on packages, or if the track or variant does not exist.
///
/// The caller uses it to ask a registry for the digest of a followed tag.
pub fn base_pin<'a>(
    request: &BuildRequest,
    input: &'a PlanningInput,
) -> Option<(&'a names::PinName, &'a pins::ImagePin)> {
    match Chain::find(request, input).ok()?.base {
        Base::Image(name) => input.pins.images.get_key_value(name),
        Base::Packages(_) | Base::Track(_) => None,
    }
}

/// Returns whether a request is a rehearsal, or requests its track's variant for rehearsals.
/// Returns `false` if the track or variant does not exist.
pub fn is_rehearsal(request: &BuildRequest, input: &PlanningInput) -> bool {
    Chain::find(request, input).is_ok_and(|chain| chain.is_rehearsal)
}

/// Returns whether an engine must build a part of the requested image. Returns `false` if the track
/// or variant does not exist.
pub fn needs_engine(request: &BuildRequest, input: &PlanningInput) -> bool {
    Chain::find(request, input).is_ok_and(|chain| chain.needs_engine())
}

/// Returns whether code for other GPUs is removed from a request's image. Returns `false` if the
/// track or variant does not exist.
pub fn is_slimmed(request: &BuildRequest, input: &PlanningInput) -> bool {
    match request.slim {
        SlimChoice::Off => false,
        SlimChoice::For(_) => true,
        SlimChoice::OfTrack => {
            Chain::find(request, input).is_ok_and(|chain| !chain.slim.is_empty())
        }
    }
}

#[cfg(test)]
mod tests;
