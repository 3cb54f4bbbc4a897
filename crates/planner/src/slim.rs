//! Decides which GPU code stays in an image, and adds the step that removes the rest.
//!
//! Code for the image's GPU is always kept, and so is code for a GPU that the image imitates. If
//! the image's GPU is not in the track's list, the list is ignored.

use std::collections::BTreeSet;

use names::GpuTarget;
use plan::{Action, Draft, SlimContract, Step};

use crate::chain::Chain;
use crate::{BuildRequest, PlanError, PlanningInput, SlimChoice};

/// The contract of slimmed layers.
const CONTRACT: SlimContract = SlimContract::Slim1;

/// Adds the step to a plan, if the image is slimmed, and records the choice if it differs from the
/// track's. Returns the step with the resulting image. `imitated` is the GPU that the image
/// imitates.
pub(crate) fn add(
    draft: &mut Draft,
    image: String,
    chain: &Chain<'_>,
    request: &BuildRequest,
    input: &PlanningInput,
    imitated: Option<GpuTarget>,
) -> Result<String, PlanError> {
    let imitated = imitated.filter(|imitated| *imitated != draft.gpu);
    let whole = |mut gpus: BTreeSet<GpuTarget>| {
        gpus.insert(draft.gpu.clone());
        gpus.extend(imitated.clone());
        gpus
    };
    let of_track = match chain.slim {
        [] => None,
        gpus if gpus.contains(&draft.gpu) => Some(whole(gpus.iter().cloned().collect())),
        _ => Some(whole(BTreeSet::new())),
    };
    let kept = match &request.slim {
        SlimChoice::OfTrack => of_track.clone(),
        SlimChoice::Off => None,
        SlimChoice::For(gpus) => Some(whole(gpus.clone())),
    };
    let named = chain.slim.iter().chain(match &request.slim {
        SlimChoice::For(gpus) => Vec::from_iter(gpus),
        SlimChoice::OfTrack | SlimChoice::Off => Vec::new(),
    });
    for gpu in named {
        if !input.gpus.gpus.contains_key(gpu) {
            let known = input.gpus.gpus.keys().map(ToString::to_string).collect();
            return Err(PlanError::UnknownSlimGpu { gpu: gpu.to_string(), known });
        }
    }
    if kept != of_track {
        let spelled = kept.iter().flatten().map(GpuTarget::as_str).collect::<Vec<_>>().join(",");
        let spelled = if spelled.is_empty() { "off".to_owned() } else { spelled };
        draft.overrides.insert("slim".to_owned(), spelled);
    }
    let Some(kept) = kept else { return Ok(image) };
    let is_optional = |gpu: &GpuTarget| imitated.is_some() && *gpu == draft.gpu;
    let (if_present, gpus) = kept.into_iter().partition(is_optional);
    let id = "slim-image".to_owned();
    let action = Action::SlimImage { image, contract: CONTRACT, gpus, if_present };
    draft.steps.push(Step { id: id.clone(), action });
    Ok(id)
}
