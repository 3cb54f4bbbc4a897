//! The results of steps and outputs.

use std::fmt;

use names::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepOutcome {
    /// The step.
    pub step: String,
    /// The state.
    pub state: StepState,
    /// The duration in milliseconds.
    pub milliseconds: u64,
    /// The store that the result came from, if another run made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
}

/// The state of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StepState {
    /// It was carried out.
    Done,
    /// Its result already existed.
    Cached,
    /// It failed.
    Failed,
    /// A signal interrupted it.
    Interrupted,
    /// It did not start, because an earlier step failed.
    NotBegun,
}

/// The image that a run made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageSummary {
    /// The digest of the manifest.
    pub manifest_digest: Digest,
    /// The digest of the config: the image ID of podman and of docker's classic store.
    pub config_digest: Digest,
    /// The digest of the base's index, if the pin refers to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_index: Option<Digest>,
    /// The digest of the base's manifest for the platform.
    pub base_manifest: Digest,
    /// The number of layers.
    pub layers: usize,
    /// The compressed size of the layers, in bytes.
    pub layer_bytes: u64,
    /// The base's labels and annotations that were dropped because they would be wrong.
    pub reset: Vec<String>,
    /// What was removed, if the image was slimmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slim: Option<SlimSummary>,
}

/// What was removed from an image: code for other GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlimSummary {
    /// The GPU targets whose code is kept.
    pub gpus: Vec<String>,
    /// The stored size of all layers before slimming, in bytes.
    pub layer_bytes_before: u64,
    /// The stored size of all layers after slimming, in bytes.
    pub layer_bytes_after: u64,
    /// The layers that changed, lowest first.
    pub layers: Vec<SlimmedLayer>,
    /// The number of files that became smaller.
    pub files_smaller: usize,
    /// The number of files that were removed.
    pub files_removed: usize,
    /// The files that were not changed, although they contain code for other GPUs or cannot be
    /// read, as `path: why`.
    pub whole: Vec<String>,
}

/// A layer from which code was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlimmedLayer {
    /// The number of the layer, counted from 1.
    pub layer: usize,
    /// Its digest before.
    pub before: Digest,
    /// Its digest after.
    pub after: Digest,
    /// Its stored size before slimming, in bytes.
    pub bytes_before: u64,
    /// Its stored size after slimming, in bytes.
    pub bytes_after: u64,
}

/// The result of an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputOutcome {
    /// The output, in the form that `--output` accepts.
    pub output: String,
    /// The state.
    pub state: OutputState,
    /// The number of layers that were copied byte by byte.
    pub layers_copied: usize,
    /// The number of layer bytes that were copied.
    pub layer_bytes_copied: u64,
    /// The number of layers that the registry mounted without a transfer.
    pub layers_mounted: usize,
}

/// The state of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutputState {
    /// The image was written.
    Written,
    /// Exactly this image already existed.
    UpToDate,
    /// Writing failed; existing output was not changed.
    Failed,
    /// A signal interrupted the write; existing output was not changed.
    Interrupted,
}

/// Information for the user that only the run could provide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    /// The rule's name, for example `spoof-not-needed`.
    pub rule: String,
    /// The fact, and its consequence.
    pub message: String,
}

/// The traffic with registries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Traffic {
    /// The number of requests.
    pub requests: u64,
    /// The number of bytes received in bodies.
    pub bytes_received: u64,
    /// The number of bytes sent in bodies.
    pub bytes_sent: u64,
}

impl fmt::Display for StepState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::Cached => "cached",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::NotBegun => "not started",
        })
    }
}

impl fmt::Display for OutputState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Written => "written",
            Self::UpToDate => "up to date",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        })
    }
}
