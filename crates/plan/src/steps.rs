//! The steps of a plan and their actions.

use std::collections::BTreeMap;
use std::fmt;

use names::{Digest, GpuTarget, ImageEdit, Platform, Sha256};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{FilesContract, OwnFile, OwnFiles};

/// One unit of work in a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The step's name, unique in its plan, for example `fetch-base`.
    pub id: String,
    /// What the step does.
    pub action: Action,
}

/// The action of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Action {
    /// Fetches the manifest and the config of a base by digest. It downloads no layers.
    FetchBase {
        /// The image input.
        input: String,
        /// The platform to choose if the digest is that of an index.
        platform: Platform,
    },
    /// Fetches a source tree by commit or hash, and patches it.
    FetchSource {
        /// The source or archive input.
        input: String,
        /// The patches, in order of application. The build stops if one of them does not have the
        /// expected effect, or if another patch of the component changes anything.
        patches: Vec<PatchUse>,
    },
    /// Fetches the Debian packages of a lock, each by its SHA-256.
    FetchPackages {
        /// The lock input.
        input: String,
        /// The sets of the lock to fetch, with the digests of their contents. Changes to other sets
        /// do not affect the step.
        sets: BTreeMap<String, Digest>,
    },
    /// Fetches the wheels of a Python lock, each by its SHA-256.
    FetchWheels {
        /// The lock input.
        input: String,
    },
    /// Creates a base image from fetched packages in an engine: a root file system as one sealed
    /// layer.
    BootstrapBase {
        /// The contract (versioned specification) that determines the content of the root file
        /// system.
        contract: BootstrapContract,
        /// The step that fetches the packages.
        packages: String,
        /// The set that the base is made from.
        set: String,
        /// `created` of its config, RFC 3339 in UTC.
        created: String,
        /// How the layer is sealed.
        seal: Seal,
    },
    /// Runs the instructions of a Dockerfile in an engine.
    BuildImage {
        /// The step whose image the Dockerfile is based on; it is the build argument `BASE`.
        base: String,
        /// The file input with the Dockerfile.
        dockerfile: String,
        /// Build arguments in addition to `BASE`.
        args: BTreeMap<String, String>,
        /// The steps whose trees are in the build context, by folder.
        context: BTreeMap<String, String>,
        /// The project's own files in the build context, by their path there.
        #[serde(default, skip_serializing_if = "OwnFiles::is_empty")]
        files: OwnFiles,
        /// Whether RUN instructions may use the network.
        network: bool,
    },
    /// Turns the output of an engine into the canonical image, with the same bytes for every
    /// engine.
    SealImage {
        /// The step that builds the image.
        image: String,
        /// The step whose image it is based on.
        base: String,
        /// How the layers are sealed.
        seal: Seal,
        /// What the config contains in addition to the Dockerfile's settings.
        edit: ImageEdit,
    },
    /// Removes code for other GPUs from the layers of an image. No engine is needed.
    SlimImage {
        /// The step whose image is slimmed.
        image: String,
        /// The contract (versioned specification) that determines every byte of the new layers.
        contract: SlimContract,
        /// The GPU targets whose code is kept. The build stops if the image has no code for one of
        /// them.
        gpus: Vec<GpuTarget>,
        /// Other GPU targets whose code is kept if the image has some. If the image imitates
        /// another GPU, this is its own GPU, because the imitation can be switched off.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        if_present: Vec<GpuTarget>,
    },
    /// Checks that an image contains code for a GPU. The build stops if it does not.
    AuditImage {
        /// The step whose image is checked.
        image: String,
        /// The GPU target.
        gpu: GpuTarget,
    },
    /// Checks wheels before they are installed: if they contain GPU code, some of it must be for
    /// the GPU target. The build stops if it is only for other GPUs.
    AuditWheels {
        /// The step that fetches the wheels. Later steps take the checked wheels.
        wheels: String,
        /// The GPU target.
        gpu: GpuTarget,
    },
    /// Adds the project's own files to an image, as one layer. No engine is needed.
    AddFiles {
        /// The step whose image gets the files.
        base: String,
        /// The contract (versioned specification) that determines every byte of the layer.
        contract: FilesContract,
        /// The entries of the layer, by their absolute path in the image. Parent folders are not
        /// added.
        files: OwnFiles,
        /// The time of all entries, in seconds since 1970-01-01 UTC.
        epoch: u64,
        /// `created` of the layer's history entry, RFC 3339 in UTC.
        created: String,
        /// `created_by` of the layer's history entry.
        created_by: String,
    },
    /// Writes a new config and manifest for an image, by the rules of a numbered contract.
    DeriveImage {
        /// The step whose image is changed.
        base: String,
        /// The contract (versioned specification) that determines every byte of the result.
        contract: DeriveContract,
        /// The changes.
        edit: ImageEdit,
    },
}

/// A patch that is applied to a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchUse {
    /// The component: a folder in `patches/`.
    pub component: String,
    /// The patch: the name of its file in that folder, without `.toml`.
    pub id: String,
    /// The SHA-256 of the patch's effect. Comments, provenance and tests in its file do not count.
    pub effect: Sha256,
    /// The expected effect on the source.
    pub expect: Expectation,
}

/// The expected effect of a patch. The build stops if the effect differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Expectation {
    /// The source has the patch's effect: the patch changes it, or upstream includes the change.
    InEffect,
    /// Upstream includes the change, so the patch changes nothing.
    Upstream,
}

/// The numbered rules that make layers canonical. The crate `seal` must not change the bytes that a
/// version produces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SealContract {
    /// `seal/1`: the same content always produces the same bytes.
    #[serde(rename = "seal/1")]
    Seal1,
}

/// The numbered rules that remove code for other GPUs; the crate `slim` implements them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SlimContract {
    /// `slim/1`: the same layers and GPUs always produce the same bytes.
    #[serde(rename = "slim/1")]
    Slim1,
}

/// The numbered rules that turn packages into a root file system; the crate `debian` implements
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BootstrapContract {
    /// `bootstrap/1`: all packages are unpacked into one root, and then installed by the dpkg among
    /// them.
    #[serde(rename = "bootstrap/1")]
    Bootstrap1,
}

/// The numbered rules that derive an image from a base. `oci::derive` must not change the bytes
/// that a version produces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeriveContract {
    /// `derive/1`: the same base and edits always produce the same bytes.
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

impl fmt::Display for SlimContract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Slim1 => "slim/1",
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
    /// The contract (versioned specification) that determines every byte of the layer.
    pub contract: SealContract,
    /// Patterns for paths to leave out: content that differs between runs and is not needed.
    pub scrub: Vec<String>,
    /// The latest modification time that a file can have (later ones are set to this), in seconds
    /// since 1970-01-01 UTC.
    pub epoch: u64,
}

impl Action {
    /// Returns the steps that this action depends on, each once, in the order of its fields.
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
            Self::SlimImage { image, .. } | Self::AuditImage { image, .. } => vec![image],
            Self::AuditWheels { wheels, .. } => vec![wheels],
            Self::AddFiles { base, .. } | Self::DeriveImage { base, .. } => vec![base],
        };
        let mut needs: Vec<&str> = Vec::new();
        for step in named {
            if !needs.contains(&step.as_str()) {
                needs.push(step);
            }
        }
        needs
    }

    /// Returns the names of all inputs that the action reads, each once.
    pub fn inputs(&self) -> Vec<&str> {
        let mut inputs: Vec<&str> = self.input().into_iter().collect();
        inputs.extend(self.files().into_iter().flat_map(OwnFiles::values).filter_map(|file| {
            match file {
                OwnFile::File { from, .. } => Some(from.as_str()),
                OwnFile::Folder { .. } | OwnFile::Link { .. } => None,
            }
        }));
        inputs.sort_unstable();
        inputs.dedup();
        inputs
    }

    /// Returns the project's own files that the action reads, if there are any.
    pub fn files(&self) -> Option<&OwnFiles> {
        match self {
            Self::AddFiles { files, .. } => Some(files),
            Self::BuildImage { files, .. } => Some(files).filter(|files| !files.is_empty()),
            _ => None,
        }
    }

    /// Returns the name of the input that the action reads in addition to the project's own files,
    /// if there is one.
    pub fn input(&self) -> Option<&str> {
        match self {
            Self::FetchBase { input, .. }
            | Self::FetchSource { input, .. }
            | Self::FetchPackages { input, .. }
            | Self::FetchWheels { input } => Some(input),
            Self::BuildImage { dockerfile, .. } => Some(dockerfile),
            Self::BootstrapBase { .. }
            | Self::SealImage { .. }
            | Self::SlimImage { .. }
            | Self::AuditImage { .. }
            | Self::AuditWheels { .. }
            | Self::AddFiles { .. }
            | Self::DeriveImage { .. } => None,
        }
    }
}
