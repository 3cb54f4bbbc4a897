//! The planner's input: the request of one run and the content of the data files.

use std::collections::{BTreeMap, BTreeSet};

use names::{Digest, Tag};
use names::{GfxVersion, GpuTarget, PinName, TrackName};
use patcher::PatchSet;
use pins::{Gpus, Pins, Tracks};

use crate::OwnFilesOfTrack;

/// The request of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildRequest {
    /// The track.
    pub track: TrackName,
    /// The variant, if it is not the default in `tracks.toml`.
    pub variant: Option<String>,
    /// The GPU target, if it is not the default in `tracks.toml`.
    pub gpu: Option<GpuTarget>,
    /// Whether and how the image imitates another GPU.
    pub spoof: SpoofChoice,
    /// Whether and for which GPUs the image is slimmed.
    pub slim: SlimChoice,
    /// Image pins with a different digest in this run: given by the user, or resolved from a tag.
    pub overrides: BTreeMap<PinName, ImageOverride>,
    /// The time of the image in seconds since 1970-01-01 UTC, if not the one in `versions.toml`.
    pub source_date_epoch: Option<u64>,
    /// Whether the image is a rehearsal.
    pub rehearse: bool,
    /// The stand-in for the pinned base, in a rehearsal of a track that needs no engine. A track
    /// that an engine builds has a variant for rehearsals.
    pub stand_in: Option<StandIn>,
    /// The commit for the labels, if the run asks for it.
    pub revision: Option<plan::Revision>,
}

/// A small image that takes the place of a base in a rehearsal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandIn {
    /// Its digest.
    pub digest: Digest,
    /// The kind of object that the digest identifies.
    pub kind: plan::ManifestKind,
}

/// The digest of an image pin in one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageOverride {
    /// The tag that it was resolved from, if any.
    pub tag: Option<Tag>,
    /// The digest.
    pub digest: Digest,
}

/// Whether and how an image of a spoof track sets `HSA_OVERRIDE_GFX_VERSION`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpoofChoice {
    /// The value in `gpus.toml`, or no value if the base is known to support the GPU natively.
    Auto,
    /// No value.
    Off,
    /// This value.
    Version(GfxVersion),
}

/// Whether code for other GPUs is removed from an image. Code for the image's GPU, and for a GPU
/// that it imitates, is always kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SlimChoice {
    /// As the track specifies.
    #[default]
    OfTrack,
    /// The code stays.
    Off,
    /// The code is removed, except for these GPU targets.
    For(BTreeSet<GpuTarget>),
}

/// The content of the project's files. A plan depends only on the data files and on the files that
/// [`crate::needs`] returns for it.
#[derive(Debug, Clone)]
pub struct PlanningInput {
    /// `versions/versions.toml`
    pub pins: Pins,
    /// `versions/gpus.toml`
    pub gpus: Gpus,
    /// `versions/tracks.toml`
    pub tracks: Tracks,
    /// The patches of each component.
    pub patches: BTreeMap<String, PatchSet>,
    /// The SHA-256 of each Dockerfile and lock, by its path from the project's root.
    pub files: BTreeMap<String, Digest>,
    /// The digests of the sets of each package lock ([`pins::PackageLock::digest_of`]), by the path
    /// of the lock and the name of the set.
    pub sets: BTreeMap<String, BTreeMap<String, Digest>>,
    /// Each track's own files, if it has any.
    pub own_files: BTreeMap<TrackName, OwnFilesOfTrack>,
    /// The project's files in build contexts, by the path that stages name.
    pub context_files: BTreeMap<String, OwnFilesOfTrack>,
}

impl PlanningInput {
    /// Returns the content of the data files, without patches, Dockerfiles, locks or own files.
    pub fn new(pins: Pins, gpus: Gpus, tracks: Tracks) -> Self {
        Self {
            pins,
            gpus,
            tracks,
            patches: BTreeMap::new(),
            files: BTreeMap::new(),
            sets: BTreeMap::new(),
            own_files: BTreeMap::new(),
            context_files: BTreeMap::new(),
        }
    }
}

impl BuildRequest {
    /// Returns a request for a track that overrides no settings.
    pub fn new(track: TrackName) -> Self {
        Self {
            track,
            variant: None,
            gpu: None,
            spoof: SpoofChoice::Auto,
            slim: SlimChoice::OfTrack,
            overrides: BTreeMap::new(),
            source_date_epoch: None,
            rehearse: false,
            stand_in: None,
            revision: None,
        }
    }

    /// Returns the settings that the request overrides, as plans and labels spell them. The planner
    /// adds the choice of `slim` if it differs from the track's.
    pub(crate) fn spelled_overrides(&self) -> BTreeMap<String, String> {
        let mut all: BTreeMap<String, String> = self
            .overrides
            .iter()
            .map(|(name, image)| {
                let tag = image.tag.as_ref().map(|tag| format!("{tag}@")).unwrap_or_default();
                (name.to_string(), format!("{tag}{}", image.digest))
            })
            .collect();
        all.extend(self.variant.iter().map(|value| ("variant".to_owned(), value.clone())));
        if let Some(gpu) = &self.gpu {
            all.insert("gpu".to_owned(), gpu.to_string());
        }
        if let Some(epoch) = self.source_date_epoch {
            all.insert("source-date-epoch".to_owned(), epoch.to_string());
        }
        let spoof = match self.spoof {
            SpoofChoice::Auto => None,
            SpoofChoice::Off => Some("off".to_owned()),
            SpoofChoice::Version(version) => Some(version.to_string()),
        };
        all.extend(spoof.map(|value| ("spoof".to_owned(), value)));
        all
    }

    /// Applies the overrides in the label [`plan::labels::OVERRIDES`] to the request.
    ///
    /// # Errors
    /// Fails if an entry is not spelled as in a plan.
    pub fn read_overrides(&mut self, spelled: &str) -> Result<(), ParseOverrideError> {
        spelled.split_whitespace().try_for_each(|entry| {
            self.read_override(entry).ok_or_else(|| ParseOverrideError(entry.to_owned()))
        })
    }

    fn read_override(&mut self, entry: &str) -> Option<()> {
        let (name, value) = entry.split_once('=')?;
        match name {
            "variant" => self.variant = Some(value.to_owned()),
            "gpu" => self.gpu = Some(value.parse().ok()?),
            "source-date-epoch" => self.source_date_epoch = Some(value.parse().ok()?),
            "spoof" if value == "off" => self.spoof = SpoofChoice::Off,
            "spoof" => self.spoof = SpoofChoice::Version(value.parse().ok()?),
            "slim" if value == "off" => self.slim = SlimChoice::Off,
            "slim" => {
                let gpus = value.split(',').map(|gpu| gpu.parse().ok());
                self.slim = SlimChoice::For(gpus.collect::<Option<_>>()?);
            }
            pin => {
                let (tag, digest) = match value.split_once('@') {
                    Some((tag, digest)) => (Some(tag.parse().ok()?), digest),
                    None => (None, value),
                };
                let image = ImageOverride { tag, digest: digest.parse().ok()? };
                self.overrides.insert(pin.parse().ok()?, image);
            }
        }
        Some(())
    }
}

/// An entry of [`plan::labels::OVERRIDES`] is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a change that a request can make")]
pub struct ParseOverrideError(String);
