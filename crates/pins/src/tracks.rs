//! `versions/tracks.toml`: the settings of each track.
//!
//! Start at [`parse_tracks_with`], which also checks that the pins that tracks are based on exist.
//! The planner decides what a track does with its settings.

use std::collections::BTreeMap;

use crate::built::{self, BuiltSettings};
use crate::checks::{self, line};
use crate::environment;
use crate::problem::{Report, Reported, Wrong, list, nearest, quote, wrong};
use crate::reader::{Entry, Table, collect, document};
use crate::{ParseError, PinKind, Pins};
use names::{GpuTarget, PinName};

/// A named way to build an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Track {
    /// A: the vendor's image at a digest, with this project's labels.
    Official,
    /// B: ROCm, PyTorch, flash-attention and vLLM from pinned, patched sources.
    Source,
    /// C: the vendor's nightly image with a spoof; its digest is looked up for each build and
    /// recorded.
    NightlySpoof,
    /// D: a pinned digest with a spoof.
    LockedSpoof,
    /// E: llama.cpp with its Vulkan back end, from source.
    Vulkan,
    /// F: the official Ollama image at a digest, with memory settings that exist.
    Ollama,
    /// G: the vendor's ROCm and PyTorch image at a digest, for training.
    Trainer,
}

/// The content of `tracks.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracks {
    /// The default GPU target of images.
    pub gpu: GpuTarget,
    /// The settings of each track that only adds metadata.
    pub tracks: BTreeMap<Track, TrackSettings>,
    /// The settings of each track that an engine builds.
    pub built: BTreeMap<Track, BuiltSettings>,
}

/// The settings of a track that only adds metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrackSettings {
    /// The title for the image's label.
    pub title: String,
    /// One sentence for the image's label.
    pub description: String,
    /// The image pin that the track is based on.
    pub base: PinName,
    /// Environment variables that the image sets, by name.
    pub env: BTreeMap<String, String>,
}

impl Track {
    /// All tracks, sorted by letter.
    pub const ALL: [Self; 7] = [
        Self::Official,
        Self::Source,
        Self::NightlySpoof,
        Self::LockedSpoof,
        Self::Vulkan,
        Self::Ollama,
        Self::Trainer,
    ];

    /// Returns the name that the command line and the labels use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Official => "official",
            Self::Source => "source",
            Self::NightlySpoof => "nightly-spoof",
            Self::LockedSpoof => "locked-spoof",
            Self::Vulkan => "vulkan",
            Self::Ollama => "ollama",
            Self::Trainer => "trainer",
        }
    }

    /// Returns the letter in the project's documents, `A` to `G`.
    pub fn letter(self) -> char {
        match self {
            Self::Official => 'A',
            Self::Source => 'B',
            Self::NightlySpoof => 'C',
            Self::LockedSpoof => 'D',
            Self::Vulkan => 'E',
            Self::Ollama => 'F',
            Self::Trainer => 'G',
        }
    }

    /// Returns the track with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|track| track.name() == name)
    }

    /// Returns whether an engine builds the track.
    pub fn is_built(self) -> bool {
        matches!(self, Self::Source | Self::Vulkan)
    }

    /// Returns whether the track's image sets `HSA_OVERRIDE_GFX_VERSION`.
    pub fn is_spoof(self) -> bool {
        matches!(self, Self::NightlySpoof | Self::LockedSpoof)
    }
}

/// Parses the text of `tracks.toml`. Messages call it `file`.
///
/// # Errors
/// Returns all problems of the file, each with its place, the value and the correct form.
pub fn parse_tracks(file: &str, text: &str) -> Result<Tracks, ParseError> {
    parse(file, text, None)
}

/// Parses the text of `tracks.toml` like [`parse_tracks`], and checks that every base is the name
/// of an image in `pins`.
///
/// # Errors
/// Returns all problems of the file, each with its place, the value and the correct form.
pub fn parse_tracks_with(file: &str, text: &str, pins: &Pins) -> Result<Tracks, ParseError> {
    parse(file, text, Some(pins))
}

fn parse(file: &str, text: &str, pins: Option<&Pins>) -> Result<Tracks, ParseError> {
    let mut report = Report::new(file, text);
    let tracks = document(&mut report).and_then(|entries| {
        let root = Table::root(&mut report, &entries)?;
        let gpu = root.required(&mut report, "gpu", "gpu = \"gfx1151\"", checks::gpu_target);
        let named = root.entries().filter(|entry| !matches!(entry.key, "schema" | "gpu"));
        let all = collect(&mut report, named, |report, entry| read_track(report, entry, pins));
        let (mut tracks, mut built) = (BTreeMap::new(), BTreeMap::new());
        for (track, settings) in all? {
            match settings {
                Settings::Derived(settings) => drop(tracks.insert(track, settings)),
                Settings::Built(settings) => drop(built.insert(track, settings)),
            }
        }
        Ok(Tracks { gpu: gpu?, tracks, built })
    });
    report.finish(tracks)
}

/// The settings of a track of either kind.
enum Settings {
    Derived(TrackSettings),
    Built(BuiltSettings),
}

fn read_track(
    report: &mut Report<'_>,
    entry: &Entry<'_>,
    pins: Option<&Pins>,
) -> Result<(Track, Settings), Reported> {
    let track = track(entry.key).map_err(|wrong| report.add(&entry.key_span, wrong))?;
    let place = quote(&format!("[{}]", entry.key));
    let table = entry.table(report, &place)?;
    let spoof = table.get("spoof");
    if let Some(spoof) = &spoof {
        let message = format!("`spoof` is not a key of {place}: {}", spoof.source(report));
        let help = "remove it; the value is `spoof` of the GPU in versions/gpus.toml, and the tracks `nightly-spoof` and `locked-spoof` use it";
        report.add(&spoof.key_span, wrong(message, help));
    }
    // `spoof` is reported above.
    let of_sort: &[&str] =
        if track.is_built() { &["variant", "variants", "rehearsal"] } else { &["base"] };
    let spoofed: &[&str] = if spoof.is_some() { &["spoof"] } else { &[] };
    table.check_keys(report, &[&["title", "description"], of_sort, &["env"], spoofed].concat());
    if track.is_built() {
        let env = match table.get("env") {
            None => BTreeMap::new(),
            Some(entry) => read_env(report, &entry)?,
        };
        let settings = built::read_track(report, &table, env, pins)?;
        return Ok((track, Settings::Built(settings)));
    }
    let title = table.required(report, "title", "title = \"vLLM for gfx1151\"", line(100));
    let description = table.required(
        report,
        "description",
        "description = \"The vendor's image with this project's labels.\"",
        line(400),
    );
    let base = table.required(report, "base", "base = \"vllm-openai-rocm\"", |text| {
        if text.contains('/') {
            let help =
                "write the name of an image pin in versions/versions.toml, for example `ollama`";
            return Err(wrong(format!("{} is an image, not the name of a pin", quote(text)), help));
        }
        let name = checks::pin_name(text)?;
        pins.map_or(Ok(()), |pins| check_base(&name, pins)).map(|()| name)
    });
    let env = match table.get("env") {
        None => Ok(BTreeMap::new()),
        Some(entry) => read_env(report, &entry),
    };
    let settings =
        TrackSettings { title: title?, description: description?, base: base?, env: env? };
    Ok((track, Settings::Derived(settings)))
}

fn track(name: &str) -> Result<Track, Wrong> {
    Track::from_name(name).ok_or_else(|| {
        let names = list(Track::ALL.map(Track::name));
        let by_letter = Track::ALL
            .into_iter()
            .find(|track| name.eq_ignore_ascii_case(track.letter().encode_utf8(&mut [0; 4])));
        let near = nearest(name, Track::ALL.map(Track::name).into_iter().chain(["gpu", "schema"]));
        let help = match (by_letter, near) {
            (Some(track), _) => format!("track {} is written `[{}]`", track.letter(), track.name()),
            (None, Some(near)) => format!("did you mean `{near}`? The tracks are {names}"),
            (None, None) => format!("remove it; the tracks are {names}"),
        };
        wrong(format!("{} is not a track or a key", quote(name)), help)
    })
}

fn check_base(name: &PinName, pins: &Pins) -> Result<(), Wrong> {
    if pins.images.contains_key(name) {
        return Ok(());
    }
    if let Some(kind) = pins.names().get(name) {
        return Err(wrong(
            format!("`{name}` is a pin of kind `{}`, not an image", kind.table()),
            format!("a base is one of {}", list(pins.images.keys().map(PinName::as_str))),
        ));
    }
    let images = pins.images.keys().map(PinName::as_str);
    let help = match nearest(name.as_str(), images) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!(
            "add `[{}.{name}]` to versions/versions.toml, or write one of {}",
            PinKind::Image.table(),
            list(pins.images.keys().map(PinName::as_str)),
        ),
    };
    Err(wrong(format!("`{name}` is not an image in versions/versions.toml"), help))
}

fn read_env(
    report: &mut Report<'_>,
    entry: &Entry<'_>,
) -> Result<BTreeMap<String, String>, Reported> {
    let Some(table) = entry.as_table() else {
        let example = "write `env.VLLM_ROCM_USE_AITER = \"0\"`";
        return Err(entry.add_type(report, "a table of names and values", example));
    };
    collect(report, table.entries(), |report, entry| {
        let name =
            environment::name(entry.key).map_err(|wrong| report.add(&entry.key_span, wrong))?;
        let text = entry.any_text(report, |text| environment::value(&name, text))?;
        let value =
            environment::value(&name, text).map_err(|wrong| report.add(&entry.span, wrong))?;
        Ok((name, value))
    })
}
