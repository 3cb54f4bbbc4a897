//! The steps of a plan and what each of them does.

use std::collections::BTreeMap;
use std::fmt;

use names::{Digest, Sha256};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One unit of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The step's name, unique in its plan, for example `fetch-base`.
    pub id: String,
    /// What is done.
    pub action: Action,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Action {
    /// Fetches the manifest and the config of a base by digest. No layer byte moves.
    FetchBase {
        /// The image input.
        input: String,
        /// The platform to choose where the digest is that of an index.
        platform: Platform,
    },
    /// Fetches a source tree by commit or hash, and patches it.
    FetchSource {
        /// The source or archive input.
        input: String,
        /// The patches, in the order in which they are applied. The build stops unless each of them
        /// comes to what is expected of it, and no other patch of the component changes anything.
        patches: Vec<PatchUse>,
    },
    /// Fetches the Debian packages of a lock, each by its SHA-256.
    FetchPackages {
        /// The lock input.
        input: String,
        /// The sets of the lock that are fetched, with the digests of what they bring. Changes of
        /// other sets do not concern the step.
        sets: BTreeMap<String, Digest>,
    },
    /// Fetches the wheels of a Python lock, each by its SHA-256.
    FetchWheels {
        /// The lock input.
        input: String,
    },
    /// Makes a base image of fetched packages in an engine: a root file system of one sealed layer.
    BootstrapBase {
        /// The contract that decides what is in the root file system.
        contract: BootstrapContract,
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
        /// The file input that is the Dockerfile.
        dockerfile: String,
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
        /// The contract that decides every byte of the result.
        contract: DeriveContract,
        /// What changes.
        edit: ImageEdit,
    },
}

/// A patch that a source is built with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchUse {
    /// The component, a folder of `patches/`.
    pub component: String,
    /// The patch, a file of that folder without `.toml`.
    pub id: String,
    /// The SHA-256 of what the patch does. Comments, provenance and tests of its file do not count.
    pub effect: Sha256,
    /// What must be true of the source once the patch was applied.
    pub expect: Expectation,
}

/// What the build expects of a patch. It stops where the patch comes to anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Expectation {
    /// The source has the patch's effect: the patch changed it, or upstream has it already.
    InEffect,
    /// Upstream has it already: the patch changes nothing.
    Upstream,
}

/// The numbered rules by which layers are made canonical; the bytes are the crate `seal`'s to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SealContract {
    /// `seal/1`: equal content gives equal bytes.
    #[serde(rename = "seal/1")]
    Seal1,
}

/// The numbered rules by which packages become a root file system; the crate `debian` has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BootstrapContract {
    /// `bootstrap/1`: the packages are unpacked over each other, and then installed by their own dpkg.
    #[serde(rename = "bootstrap/1")]
    Bootstrap1,
}

/// The numbered rules by which an image is derived from a base; the bytes are `oci::derive`'s to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeriveContract {
    /// `derive/1`: an equal base and equal edits give equal bytes.
    #[serde(rename = "derive/1")]
    Derive1,
}

impl fmt::Display for SealContract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Seal1 => "seal/1",
        })
    }
}

impl fmt::Display for DeriveContract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Derive1 => "derive/1",
        })
    }
}

/// How layers are made canonical.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Seal {
    /// The contract that decides every byte of the layer.
    pub contract: SealContract,
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

impl Action {
    /// Returns the steps that must be done before, each once, in the order in which the action names
    /// them.
    pub fn needs(&self) -> Vec<&str> {
        let named: Vec<&String> = match self {
            Self::FetchBase { .. }
            | Self::FetchSource { .. }
            | Self::FetchPackages { .. }
            | Self::FetchWheels { .. } => Vec::new(),
            Self::BootstrapBase { packages, .. } => vec![packages],
            Self::BuildImage { base, context, .. } => {
                std::iter::once(base).chain(context.values()).collect()
            }
            Self::SealImage { image, base, .. } => vec![image, base],
            Self::DeriveImage { base, .. } => vec![base],
        };
        let mut needs: Vec<&str> = Vec::new();
        for step in named {
            if !needs.contains(&step.as_str()) {
                needs.push(step);
            }
        }
        needs
    }

    /// Returns the name of the input that the action reads, where it reads one.
    pub fn input(&self) -> Option<&str> {
        match self {
            Self::FetchBase { input, .. }
            | Self::FetchSource { input, .. }
            | Self::FetchPackages { input, .. }
            | Self::FetchWheels { input } => Some(input),
            Self::BuildImage { dockerfile, .. } => Some(dockerfile),
            Self::BootstrapBase { .. } | Self::SealImage { .. } | Self::DeriveImage { .. } => None,
        }
    }
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
