//! The step that adds a track's own files to an image.

use std::collections::BTreeMap;

use names::Digest;
use plan::{Action, Draft, FilesContract, Input, OwnFiles, Step};

use crate::chain::Part;
use crate::metadata::timestamp;
use crate::{PlanError, PlanningInput};

/// The contract of layers with own files.
const CONTRACT: FilesContract = FilesContract::Files1;

/// The own files of a track, as they are in the project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnFilesOfTrack {
    /// The entries of the layer.
    pub files: OwnFiles,
    /// The digests of the contents, by the names that `files` uses: paths from the root of the
    /// project.
    pub digests: BTreeMap<String, Digest>,
}

/// Adds the step for the own files of one track of a chain, if it has some. Returns the step whose
/// image the next track is based on.
pub(crate) fn add(
    draft: &mut Draft,
    input: &PlanningInput,
    part: &Part<'_>,
    base: String,
) -> Result<String, PlanError> {
    if !part.has_files {
        return Ok(base);
    }
    let track = part.track;
    let own = input.own_files.get(track);
    let own = own.ok_or_else(|| PlanError::NoOwnFiles { track: track.to_string() })?;
    for (name, digest) in &own.digests {
        draft.inputs.insert(name.clone(), Input::File { digest: digest.clone() });
    }
    let action = Action::AddFiles {
        base,
        contract: CONTRACT,
        files: own.files.clone(),
        epoch: draft.source_date_epoch,
        created: timestamp(draft.source_date_epoch)?,
        created_by: format!("build-pipeline {CONTRACT}: {track}"),
    };
    let id = format!("add-files-{track}");
    draft.steps.push(Step { id: id.clone(), action });
    Ok(id)
}
