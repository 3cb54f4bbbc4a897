//! The step that adds a track's own files to an image.

use std::collections::BTreeMap;

use names::Digest;
use pins::Stage;
use plan::{Action, Draft, FilesContract, Input, OwnFiles, Step};

use crate::chain::Part;
use crate::metadata::timestamp;
use crate::{PlanError, PlanningInput};

/// The contract for layers with a track's own files.
const CONTRACT: FilesContract = FilesContract::Files1;

/// The project's files for a track or a build context, with their current content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnFilesOfTrack {
    /// The entries of the layer or of the context.
    pub files: OwnFiles,
    /// The digests of the contents, by the names that `files` uses: paths from the root of the
    /// project.
    pub digests: BTreeMap<String, Digest>,
}

/// Adds the step for one track's own files, if it has any. Returns the step whose image the next
/// track of the chain is based on.
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

/// Adds the inputs for the project's files in the build context of a stage. Returns the files.
pub(crate) fn in_context(
    draft: &mut Draft,
    input: &PlanningInput,
    stage: &Stage,
) -> Result<OwnFiles, PlanError> {
    let mut files = OwnFiles::new();
    for row in &stage.files {
        let own = input.context_files.get(&row.from);
        let own = own.ok_or_else(|| PlanError::NoOwnFiles { track: draft.track.clone() })?;
        for (name, digest) in &own.digests {
            draft.inputs.insert(name.clone(), Input::File { digest: digest.clone() });
        }
        files.extend(own.files.clone());
    }
    Ok(files)
}
