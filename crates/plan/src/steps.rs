//! The steps of a plan and what each of them does.

use std::collections::BTreeMap;
use std::fmt;

use names::{Digest, ImageRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One unit of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The step's name, unique in its plan, for example `fetch-base`.
    pub id: String,
    /// The steps that must be done before.
    pub needs: Vec<String>,
    /// What is done.
    pub action: Action,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Action {
    /// Fetches the manifest and the config of a base by digest. No layer byte moves.
    FetchBase {
        /// The image, at a digest; the tag is for readers.
        image: ImageRef,
        /// What the digest is the digest of, where the pin says so.
        #[serde(skip_serializing_if = "Option::is_none")]
        kind: Option<ManifestKind>,
        /// The platform to choose where the digest is that of an index.
        platform: Platform,
    },
    /// Fetches a source tree by commit or hash, and patches it.
    FetchSource {
        /// The pin.
        pin: String,
        /// What is fetched.
        source: Source,
        /// The version that patches go by, where the pin states one.
        #[serde(skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// The patches, in the order in which they are applied; every one must fit.
        patches: Vec<PatchUse>,
    },
    /// Fetches the Debian packages of a lock, each by its SHA-256.
    FetchPackages {
        /// The lock, a path from the root of the project.
        lock: String,
        /// The SHA-256 of the lock's text.
        digest: Digest,
        /// The sets of the lock that are fetched.
        sets: Vec<String>,
    },
    /// Fetches the wheels of a Python lock, each by its SHA-256.
    FetchWheels {
        /// The lock, a path from the root of the project.
        lock: String,
        /// The SHA-256 of the lock's text.
        digest: Digest,
    },
    /// Makes a base image of fetched packages: a root file system of one sealed layer.
    BootstrapBase {
        /// The step that fetched the packages.
        packages: String,
        /// The set that the base is made of.
        set: String,
        /// `created` of its config, RFC 3339 in UTC.
        created: String,
        /// How the layer is sealed.
        seal: Seal,
    },
    /// Runs the instructions of a Dockerfile in an engine.
    BuildImage {
        /// The step whose image the Dockerfile stands on; it is the build argument `BASE`.
        base: String,
        /// The Dockerfile, a path from the root of the project.
        dockerfile: String,
        /// The SHA-256 of the Dockerfile's text.
        digest: Digest,
        /// Build arguments beside `BASE`.
        args: BTreeMap<String, String>,
        /// The steps whose trees lie in the build context, by folder.
        context: BTreeMap<String, String>,
        /// Whether RUN instructions may use the network.
        network: bool,
    },
    /// Makes the canonical image of what an engine built: the same bytes whichever engine it was.
    SealImage {
        /// The step that built it.
        image: String,
        /// The step whose image it stands on.
        base: String,
        /// How the layers are sealed.
        seal: Seal,
        /// What the config has beside what the Dockerfile says.
        edit: ImageEdit,
    },
    /// Writes a new config and manifest over a fetched base, by the rules of a numbered contract.
    DeriveImage {
        /// The step that fetched the base.
        base: String,
        /// The contract, `derive/1`: equal inputs give equal bytes for as long as the number stands.
        contract: String,
        /// What changes.
        edit: ImageEdit,
    },
}

/// A source tree, by something that cannot move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "from", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Source {
    /// A commit of a git repository, with its submodules.
    Git {
        /// The repository.
        url: String,
        /// The commit, 40 hexadecimal digits.
        commit: String,
    },
    /// A release archive on a Python package index.
    Archive {
        /// The project.
        project: String,
        /// The version.
        version: String,
        /// The SHA-256 of the archive.
        sha256: String,
        /// The directory inside that is meant.
        #[serde(skip_serializing_if = "Option::is_none")]
        subdirectory: Option<String>,
    },
}

/// A patch that a source is built with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchUse {
    /// The component, a folder of `patches/`.
    pub component: String,
    /// The patch.
    pub id: String,
    /// The SHA-256 of the patch file.
    pub digest: Digest,
}

/// How layers are made canonical.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Seal {
    /// The contract, `seal/1`: equal content gives equal bytes for as long as the number stands.
    pub contract: String,
    /// Paths that are left out, as patterns: what differs from run to run and nobody needs.
    pub scrub: Vec<String>,
    /// The latest time that a file has, in seconds since 1970-01-01 UTC.
    pub epoch: u64,
}

/// What a digest is the digest of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ManifestKind {
    /// An image index (a list of platform manifests).
    Index,
    /// An image manifest, for one platform.
    Manifest,
}

/// A platform of the OCI image index specification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Platform {
    /// The operating system, as Go names it.
    pub os: String,
    /// The processor architecture, as Go names it.
    pub architecture: String,
}

/// How the config and manifest of an image differ from those of its base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageEdit {
    /// `created` of the config and of the new history entry, RFC 3339 in UTC.
    pub created: String,
    /// `created_by` of the new history entry.
    pub created_by: String,
    /// Environment variables that are set, in place of the base's of the same name.
    pub env: BTreeMap<String, String>,
    /// Words put before the base's entrypoint.
    pub entrypoint_prefix: Vec<String>,
    /// Labels and annotations of the base that are dropped: whole keys, or prefixes with a final `*`.
    pub reset: Vec<String>,
    /// Labels that are set. The plan digest comes on top; it cannot stand in the plan itself.
    pub labels: BTreeMap<String, String>,
}

impl ImageEdit {
    /// Returns whether a label or annotation of the base is dropped.
    pub fn resets(&self, key: &str) -> bool {
        self.reset.iter().any(|rule| match rule.strip_suffix('*') {
            Some(prefix) => key.starts_with(prefix),
            None => key == rule,
        })
    }
}

impl Platform {
    /// Returns `linux/amd64`, the only platform that gfx1151 machines have.
    pub fn linux_amd64() -> Self {
        Self { os: "linux".to_owned(), architecture: "amd64".to_owned() }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)
    }
}

impl fmt::Display for ManifestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Index => "index",
            Self::Manifest => "manifest",
        })
    }
}
