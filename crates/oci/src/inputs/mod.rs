//! The inputs of plans as an OCI artifact: one manifest per track, which lists every blob that the
//! track needs, by kind. docs/adr/0006 describes the format.
//!
//! - [`InputList`] is such a manifest.
//! - [`InputFiles`] are the lists and blobs in folders and archives on this machine ("copies" and
//!   "bundles"). A registry client searches them before it contacts a registry.
//! - [`begin_bundle`] starts an archive, and [`check_bundle`] checks every byte of one.

mod check;
mod files;
mod write;

use std::fmt;

use bytes::Bytes;
use names::{CommitId, Digest};
use serde_json::{Map, Value, json};

use crate::layout::parse_manifest;
use crate::media::{Descriptor, EMPTY_CONFIG, EMPTY_TYPE, MANIFEST_CAP, Manifest, OCI_MANIFEST};

pub use check::{Damage, check_bundle};
pub use files::{InputFiles, InputsError};
pub use write::{BundleIndex, begin_bundle};

/// The type of the manifests.
pub const INPUTS: &str = "application/vnd.build-pipeline.inputs.v1";

/// The annotation with the name of a blob, or with the track of a list.
const TITLE: &str = "org.opencontainers.image.title";
/// The annotation with the commit of a git pack.
const COMMIT: &str = "io.github.build-pipeline.commit";

/// What a blob is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InputKind {
    /// The plan that the list was made from.
    Plan,
    /// A lock file in the project.
    Lock,
    /// The manifest or index of an image.
    Manifest,
    /// The config of an image.
    Config,
    /// A layer of an image.
    Layer,
    /// A git commit with its files, as a pack.
    Git,
    /// A release archive.
    Archive,
    /// A wheel.
    Wheel,
    /// A Debian package.
    Package,
}

impl InputKind {
    /// All kinds, in the order of lists.
    pub const ALL: [Self; 9] = [
        Self::Plan,
        Self::Lock,
        Self::Manifest,
        Self::Config,
        Self::Layer,
        Self::Git,
        Self::Archive,
        Self::Wheel,
        Self::Package,
    ];

    /// Returns the name of the kind, as used in media types.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Lock => "lock",
            Self::Manifest => "manifest",
            Self::Config => "config",
            Self::Layer => "layer",
            Self::Git => "pack",
            Self::Archive => "archive",
            Self::Wheel => "wheel",
            Self::Package => "package",
        }
    }

    /// Returns the media type. It is never an image's media type, so that a registry does not
    /// interpret the blob: a list has only one platform of an index.
    fn media_type(self) -> String {
        format!("application/vnd.build-pipeline.{}.v1", self.name())
    }
}

impl fmt::Display for InputKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One blob that a track needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputBlob {
    /// What it is for.
    pub kind: InputKind,
    /// Its digest.
    pub digest: Digest,
    /// Its size, in bytes.
    pub size: u64,
    /// Its human-readable name: an image, a file or a URL. The top-level document of an image has
    /// the image's reference as its name.
    pub name: String,
    /// The commit of a git pack.
    pub commit: Option<CommitId>,
}

impl InputBlob {
    /// Returns the descriptor in the list.
    pub fn descriptor(&self) -> Descriptor {
        let Self { kind, digest, size, name, commit } = self;
        let media_type = kind.media_type();
        let mut annotations = Map::new();
        annotations.insert(TITLE.to_owned(), json!(name));
        annotations.extend(commit.as_ref().map(|commit| (COMMIT.to_owned(), json!(commit))));
        let json = json!({
            "mediaType": media_type, "digest": digest, "size": size, "annotations": annotations,
        });
        Descriptor { media_type, digest: digest.clone(), size: *size, json }
    }

    fn parse(descriptor: &Descriptor) -> Option<Self> {
        let kind = InputKind::ALL.into_iter().find(|one| one.media_type() == descriptor.media_type);
        let annotation = |key| descriptor.json.get("annotations")?.get(key)?.as_str();
        let commit = annotation(COMMIT).map(str::parse).transpose().ok()?;
        Some(Self {
            kind: kind?,
            digest: descriptor.digest.clone(),
            size: descriptor.size,
            name: annotation(TITLE)?.to_owned(),
            commit,
        })
    }
}

impl fmt::Display for InputBlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}` ({})", self.kind, self.name, self.digest)
    }
}

/// Everything that one track needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputList {
    /// The name of the track's image, for example `vulkan` or `rehearsal-vulkan`.
    pub track: String,
    /// The blobs, sorted by kind, each once.
    pub blobs: Vec<InputBlob>,
}

/// Why bytes are not a list of inputs.
#[derive(Debug, thiserror::Error)]
pub enum ParseListError {
    /// It is not a manifest.
    #[error("it is not a manifest")]
    Manifest(#[source] crate::media::MediaError),
    /// It is the manifest of something else, or a newer version of this tool wrote it.
    #[error("it is not a list of inputs that this version supports")]
    Kind,
    /// The description of a blob does not have the form that this tool writes.
    #[error(
        "its blob number {0} has an unknown kind or no name; a newer build-pipeline may have written it"
    )]
    Blob(usize),
}

impl InputList {
    /// Creates a list. Blobs with the same digest become one.
    pub fn new(track: &str, mut blobs: Vec<InputBlob>) -> Self {
        blobs.sort_by(|a, b| (a.kind, &a.name, &a.digest).cmp(&(b.kind, &b.name, &b.digest)));
        let mut known = std::collections::BTreeSet::new();
        blobs.retain(|blob| known.insert(blob.digest.clone()));
        Self { track: track.to_owned(), blobs }
    }

    /// Returns the manifest. The same list always has the same bytes.
    pub fn to_manifest(&self) -> Bytes {
        let layers: Vec<Value> = self.blobs.iter().map(|blob| blob.descriptor().json).collect();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "artifactType": INPUTS,
            "config": {
                "mediaType": EMPTY_TYPE,
                "digest": Digest::of(EMPTY_CONFIG),
                "size": EMPTY_CONFIG.len(),
            },
            "layers": layers,
            "annotations": { TITLE: self.track },
        });
        manifest.to_string().into()
    }

    /// Returns whether the manifest is larger than registries accept.
    pub fn is_too_long(&self) -> bool {
        self.to_manifest().len() as u64 > MANIFEST_CAP
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// Fails if the bytes are not the manifest of a list of inputs.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseListError> {
        let Manifest { layers, json, .. } =
            parse_manifest(bytes).map_err(ParseListError::Manifest)?;
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        if text(json.get("artifactType")).as_deref() != Some(INPUTS) {
            return Err(ParseListError::Kind);
        }
        let track = text(json.get("annotations").and_then(|all| all.get(TITLE)));
        let track = track.ok_or(ParseListError::Kind)?;
        let blob = |(at, layer)| InputBlob::parse(layer).ok_or(ParseListError::Blob(at + 1));
        let blobs = layers.iter().enumerate().map(blob).collect::<Result<_, _>>()?;
        Ok(Self { track, blobs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> InputList {
        let blob = |kind, text: &str| InputBlob {
            kind,
            digest: Digest::of(text.as_bytes()),
            size: text.len() as u64,
            name: text.to_owned(),
            commit: (kind == InputKind::Git).then(|| "1".repeat(40).parse().unwrap()),
        };
        let all = InputKind::ALL.map(|kind| blob(kind, kind.name()));
        InputList::new(
            "official",
            all.into_iter().rev().chain([blob(InputKind::Wheel, "wheel")]).collect(),
        )
    }

    #[test]
    fn a_list_becomes_a_manifest_and_the_same_list_again() {
        let list = list();
        assert_eq!(list.blobs.len(), 9, "a blob is listed once");
        assert_eq!(InputList::parse(&list.to_manifest()).unwrap(), list);
    }

    #[test]
    fn other_manifests_are_refused_with_the_reason() {
        let text = String::from_utf8(list().to_manifest().to_vec()).unwrap();
        for (from, to, why) in [
            (INPUTS, "application/x", "not a list of inputs"),
            ("pipeline.wheel.v1", "pipeline.wheel.v2", "blob number 8"),
            ("{", "[", "not a manifest"),
        ] {
            let error = InputList::parse(text.replacen(from, to, 1).as_bytes()).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
