//! `versions/tracks.toml`: the few knobs that a track has.

use std::collections::BTreeMap;

use crate::{GpuTarget, ParseError, PinName};

/// A named way to an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Track {
    /// A: the vendor's image at a digest, with our labels.
    Official,
    /// B: ROCm, PyTorch, flash-attention and vLLM from pinned, patched sources.
    Source,
    /// C: the vendor's nightly, its digest asked for now and recorded, with a spoof.
    NightlySpoof,
    /// D: a pinned digest with a spoof.
    LockedSpoof,
    /// E: llama.cpp with its Vulkan back end, from source.
    Vulkan,
    /// F: the official Ollama at a digest, with memory settings that really exist.
    Ollama,
}

/// The content of `tracks.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracks {
    /// The GPU target that images are made for where none is asked for.
    pub gpu: GpuTarget,
    /// The settings of each track that has any.
    pub tracks: BTreeMap<Track, TrackSettings>,
}

/// The settings of a metadata-only track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrackSettings {
    /// The title that the image's label carries.
    pub title: String,
    /// One sentence that the image's label carries.
    pub description: String,
    /// The image pin that the track stands on.
    pub base: PinName,
    /// Environment variables that the image sets, by name.
    pub env: BTreeMap<String, String>,
}

impl Track {
    /// All tracks, in the order of their letters.
    pub const ALL: [Self; 6] = [
        Self::Official,
        Self::Source,
        Self::NightlySpoof,
        Self::LockedSpoof,
        Self::Vulkan,
        Self::Ollama,
    ];

    /// Returns the name, as the command line and the labels spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Official => "official",
            Self::Source => "source",
            Self::NightlySpoof => "nightly-spoof",
            Self::LockedSpoof => "locked-spoof",
            Self::Vulkan => "vulkan",
            Self::Ollama => "ollama",
        }
    }

    /// Returns the letter the project's documents use, `A` to `F`.
    pub fn letter(self) -> char {
        match self {
            Self::Official => 'A',
            Self::Source => 'B',
            Self::NightlySpoof => 'C',
            Self::LockedSpoof => 'D',
            Self::Vulkan => 'E',
            Self::Ollama => 'F',
        }
    }

    /// Returns the track of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|track| track.name() == name)
    }

    /// Returns whether the track's image sets `HSA_OVERRIDE_GFX_VERSION`.
    pub fn is_spoof(self) -> bool {
        matches!(self, Self::NightlySpoof | Self::LockedSpoof)
    }
}

/// Reads the text of `tracks.toml`. `file` is how messages name it.
///
/// # Errors
/// Every problem of the file at once, each with its place, the value and what would be right.
pub fn parse_tracks(file: &str, text: &str) -> Result<Tracks, ParseError> {
    unimplemented!("{file} {text}")
}
