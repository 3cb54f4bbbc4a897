//! What became of steps and outputs.

use std::fmt;

use names::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What became of one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepOutcome {
    /// The step.
    pub step: String,
    /// What became of it.
    pub state: StepState,
    /// How long it took, in milliseconds.
    pub milliseconds: u64,
}

/// What became of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StepState {
    /// It was carried out.
    Done,
    /// Its result was there already.
    Cached,
    /// It went wrong.
    Failed,
    /// A signal came while it was under way.
    Interrupted,
    /// It was not begun, because something before it went wrong.
    NotBegun,
}

/// The image that a run made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageSummary {
    /// The digest of the manifest.
    pub manifest_digest: Digest,
    /// The digest of the config: the image ID of podman and of docker's classic store.
    pub config_digest: Digest,
    /// The digest of the base's index, where the pin names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_index: Option<Digest>,
    /// The digest of the base's manifest for the platform.
    pub base_manifest: Digest,
    /// How many layers it has.
    pub layers: usize,
    /// Their size as they travel, in bytes.
    pub layer_bytes: u64,
    /// Labels and annotations of the base that were dropped because they would lie.
    pub reset: Vec<String>,
}

/// Where an image was put.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputOutcome {
    /// The output, spelled as `--output` takes it.
    pub output: String,
    /// What became of it.
    pub state: OutputState,
    /// How many layers were copied byte by byte.
    pub layers_copied: usize,
    /// How many bytes of layers were copied.
    pub layer_bytes_copied: u64,
    /// How many layers the registry linked without a byte moving.
    pub layers_mounted: usize,
}

/// What became of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutputState {
    /// The image was written.
    Written,
    /// Exactly this image was there already.
    UpToDate,
    /// Writing went wrong; what was there before is there still.
    Failed,
    /// A signal came while it was being written; what was there before is there still.
    Interrupted,
}

/// Something a person should know that only the run could see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    /// The rule's name, for example `spoof-not-needed`.
    pub rule: String,
    /// What is so, and what follows.
    pub message: String,
}

/// What went over the wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Traffic {
    /// How many requests were sent.
    pub requests: u64,
    /// How many bytes of bodies were received.
    pub bytes_received: u64,
    /// How many bytes of bodies were sent.
    pub bytes_sent: u64,
}

impl fmt::Display for StepState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::Cached => "cached",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::NotBegun => "not begun",
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
