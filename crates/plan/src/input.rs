//! The inputs of a plan: everything that is fetched or read, each identified by an immutable value.

use std::collections::BTreeMap;
use std::fmt;

use names::{CommitId, Digest, ImageRef, Sha256};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ManifestKind;

/// One input of a plan.
///
/// Pins are identified by their name in `versions.toml`, locks and files by their path from the
/// root of the project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Input {
    /// A container image.
    Image {
        /// The image with its digest. The tag is only for people.
        reference: ImageRef,
        /// The kind of object that the digest identifies, if the pin states it.
        #[serde(skip_serializing_if = "Option::is_none")]
        manifest: Option<ManifestKind>,
    },
    /// A commit of a git repository, with its submodules.
    Source {
        /// The repository.
        url: String,
        /// The commit.
        commit: CommitId,
        /// The version for choosing patches, if the pin states one.
        #[serde(skip_serializing_if = "Option::is_none")]
        version: Option<String>,
    },
    /// A release archive on a Python package index.
    Archive {
        /// The project.
        project: String,
        /// The version.
        version: String,
        /// The SHA-256 of the archive.
        sha256: Sha256,
        /// The directory inside the archive to use.
        #[serde(skip_serializing_if = "Option::is_none")]
        subdirectory: Option<String>,
    },
    /// A lock file in the project: packages or wheels, each with its hash.
    Lock {
        /// The SHA-256 of the lock's text.
        digest: Digest,
    },
    /// A project file, for example a Dockerfile.
    File {
        /// The SHA-256 of the file's bytes.
        digest: Digest,
    },
}

/// The inputs of a plan, by name.
pub type Inputs = BTreeMap<String, Input>;

impl Input {
    /// Returns the version for choosing patches and for the Dockerfile, if one is known.
    pub fn version(&self) -> Option<&str> {
        match self {
            Self::Source { version, .. } => version.as_deref(),
            Self::Archive { version, .. } => Some(version),
            Self::Image { .. } | Self::Lock { .. } | Self::File { .. } => None,
        }
    }

    /// Returns whether the input comes from outside the project, and is therefore pinned by
    /// `versions.toml` or a lock.
    pub fn is_pinned(&self) -> bool {
        !matches!(self, Self::File { .. })
    }

    /// Returns the kind, as the plan's JSON names it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Image { .. } => "image",
            Self::Source { .. } => "source",
            Self::Archive { .. } => "archive",
            Self::Lock { .. } => "lock",
            Self::File { .. } => "file",
        }
    }
}

/// The value without the name, as messages and labels show it.
impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image { reference, .. } => write!(f, "{reference}"),
            Self::Source { url, commit, .. } => write!(f, "{url}@{commit}"),
            Self::Archive { project, version, sha256, .. } => {
                write!(f, "{project}=={version}#sha256={sha256}")
            }
            Self::Lock { digest } | Self::File { digest } => write!(f, "{digest}"),
        }
    }
}
