//! What was removed.

use schemars::JsonSchema;
use serde::Serialize;

/// What was removed from the files of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SlimReport {
    /// The files that changed or were removed, in the order of the layers.
    pub changed: Vec<ChangedFile>,
    /// The files that stay as they are, although they have code for other GPUs or cannot be read.
    pub whole: Vec<WholeFile>,
}

/// A file that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangedFile {
    /// The number of its layer, counted from 1.
    pub layer: usize,
    /// Its path.
    pub path: String,
    /// Its size before, in bytes.
    pub before: u64,
    /// Its size after, in bytes; absent if it was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

/// A file that stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WholeFile {
    /// The number of its layer, counted from 1.
    pub layer: usize,
    /// Its path.
    pub path: String,
    /// Why.
    pub why: String,
}
