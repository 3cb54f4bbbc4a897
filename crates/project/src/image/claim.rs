//! Whether an image is the one that a track's last build made, and the errors if it is not.

use std::path::Path;

use failure::{Failure, Kind};
use names::TrackName;
use record::BuildRecord;
use text::sanitise::sanitise_line;

use super::{Image, Place};
use crate::folder::Project;
use crate::state;

impl Image {
    /// Returns whether a build made this image.
    pub(super) fn is_of(&self, record: &BuildRecord) -> bool {
        record.image.as_ref().is_none_or(|image| image.manifest_digest == self.manifest_digest)
    }

    /// Adds the record of the build that made the image: `record`, or that of a newer run of the
    /// same project, which may have failed at another output. Returns the image itself if neither
    /// made it.
    pub(super) fn claimed(
        self,
        record: &BuildRecord,
        project: &Project,
    ) -> Result<Self, Box<Self>> {
        let id = if self.is_of(record) {
            Some(record.id.clone())
        } else {
            state::newer_build(&project.root, record, &self.manifest_digest)
        };
        match id {
            Some(id) => Ok(Self { record: Some(id), ..self }),
            None => Err(Box::new(self)),
        }
    }

    /// Returns what the image is: the track that its label names, and its digest.
    pub fn description(&self) -> String {
        let digest = &self.manifest_digest;
        let rehearsed = if self.is_rehearsal() { ", a rehearsal" } else { "" };
        match self.label(plan::labels::TRACK) {
            Some(track) => {
                format!("an image of track `{}`{rehearsed}, {digest}", sanitise_line(&track))
            }
            None => format!("an image that build-pipeline did not build, {digest}"),
        }
    }

    /// Returns the error if the image is at the place of the image that `record` describes.
    pub(super) fn is_not_of(&self, record: &BuildRecord) -> Failure {
        let (name, id) = (&record.plan.name, &record.id);
        let digest = record.image.as_ref().map(|image| image.manifest_digest.to_string());
        let digest = digest.unwrap_or_default();
        let what = format!(
            "`{}` no longer contains the image that the last build of `{name}` wrote",
            self.name
        );
        Failure::new(Kind::Differs, what)
            .cause(format!("record {id} says {digest}"))
            .cause(format!("there is now {}", self.description()))
            .hint("build the track again, to another output if you need both images")
            .hint(format!(
                "to use the image that is there now, write its location: `{}`",
                self.place_name()
            ))
    }

    /// Returns the error if the image is in the folder of a track, but is not of that track.
    pub(super) fn of_another_track(&self, track: &TrackName) -> Failure {
        let what = format!("`{}` does not contain an image of track `{track}`", self.name);
        Failure::new(Kind::Differs, what)
            .cause(format!("there is {}", self.description()))
            .hint(format!("build the track with `build-pipeline --track {track}`"))
            .hint(format!(
                "to use the image that is there now, write its location: `{}`",
                self.place_name()
            ))
    }

    /// Returns the name that selects this image and no track.
    fn place_name(&self) -> String {
        match &self.place {
            Place::Folder(path, _) => format!("oci:{}", path.display()),
            Place::Archive(path, _) => format!("oci-archive:{}", path.display()),
            Place::Registry(reference) => reference.to_string(),
        }
    }

    /// Returns whether the image was built as an image of a track, and not rehearsed.
    pub(super) fn is_of_track(&self, track: &TrackName) -> bool {
        !self.is_rehearsal()
            && self.label(plan::labels::TRACK).is_none_or(|label| label == track.as_str())
    }
}

/// Returns the error if the last build wrote its image only to places that cannot be read. `folder`
/// is the folder of the image's name in `dist`, which may contain an older image.
pub(super) fn not_the_last(record: &BuildRecord, folder: &Path) -> Failure {
    let name = &record.plan.name;
    let outputs: Vec<String> =
        record.outputs.iter().map(|one| format!("`{}`", one.output)).collect();
    let what = format!(
        "the last build of `{name}` wrote its image to {}, and the image cannot be read there",
        outputs.join(" and ")
    );
    let told = Failure::new(Kind::Input, what).hint(format!(
        "build it again with `--output oci:dist/{name}` as well, which keeps a copy that can be read"
    ));
    if folder.exists() {
        let path = folder.display();
        told.hint(format!("`{path}` contains a different image; write its path to select it"))
    } else {
        told
    }
}

/// Returns the error for a track without an image.
pub(super) fn no_image(name: &TrackName, project: &Project) -> Failure {
    let folder = project.root.join("dist");
    let path = folder.join(name.as_str());
    let what = format!(
        "no image of track `{name}` at `{}`, and no record of a build that wrote one elsewhere",
        path.display()
    );
    let told = Failure::new(Kind::Input, what);
    let rehearsed = format!("rehearsal-{name}");
    if folder.join(&rehearsed).exists() {
        told.hint(format!("a rehearsed image exists: `build-pipeline verify {rehearsed}`"))
    } else {
        told.hint(format!("build the image with `build-pipeline --track {name}`"))
    }
}
