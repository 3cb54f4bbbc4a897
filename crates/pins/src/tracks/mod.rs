//! `versions/tracks.toml`: the settings of each track.
//!
//! Start at [`parse_tracks_with`], which also checks that the base of each track exists. The
//! planner decides how the settings of a track take effect.

use std::collections::BTreeMap;

use crate::built::{self, Variants};
use crate::checks::{self, line};
use crate::environment;
use crate::files::{TrackFile, read_files};
use crate::forms;
use crate::problem::{Report, Reported, Wrong, list, nearest, quote, wrong};
use crate::reader::{Entry, Table, collect, document};
use crate::{ParseError, PinKind, Pins};
use names::{GpuTarget, PinName, TrackName};

mod relations;
pub(crate) mod secrets;

/// The content of `tracks.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracks {
    /// The default GPU target of images.
    pub gpu: GpuTarget,
    /// All tracks.
    pub tracks: BTreeMap<TrackName, Track>,
}

/// A named way to build an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Track {
    /// The letter that the project's documents use for the track, if any; an alias for its name.
    pub letter: Option<char>,
    /// The title for the image's label.
    pub title: String,
    /// One sentence for the image's label.
    pub description: String,
    /// The settings of the image.
    pub image: ImageSettings,
    /// Project files that the image contains.
    pub files: Vec<TrackFile>,
    /// The disk space that the image needs in an engine's store, if it was measured.
    pub disk: Option<Disk>,
    /// How the image is made.
    pub build: Build,
}

/// How the image of a track is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Build {
    /// The image is its base with changes that need no engine.
    Derive {
        /// The base.
        base: Base,
        /// Whether the image sets `HSA_OVERRIDE_GFX_VERSION` to the GPU's value in `gpus.toml`.
        /// With `None`, the track that it is based on decides.
        spoof: Option<bool>,
        /// The GPU targets whose code is kept in the image. If empty, all code is kept.
        slim: Vec<GpuTarget>,
        /// The variants that are built only on request, by name, each with the GPU targets whose
        /// code is kept.
        variants: BTreeMap<String, Vec<GpuTarget>>,
    },
    /// An engine builds it from Dockerfiles.
    Stages(Variants),
}

/// The base of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// An image pin.
    Image(PinName),
    /// A root file system made from the packages in `base` of a lock, `versions/locks/NAME.toml`.
    Packages(String),
    /// The image of another track.
    Track(TrackName),
}

/// The settings that a track gives its image. Anything that is absent stays as in the base.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageSettings {
    /// Environment variables, by name.
    pub env: BTreeMap<String, String>,
    /// Labels, by name, without those that the tool sets itself.
    pub labels: BTreeMap<String, String>,
    /// The program that a container starts, with its first arguments.
    pub entrypoint: Option<Vec<String>>,
    /// The default arguments.
    pub cmd: Option<Vec<String>>,
    /// The user, `NAME` or `UID`, optionally with `:GROUP`.
    pub user: Option<String>,
    /// The working directory.
    pub workdir: Option<String>,
}

impl ImageSettings {
    /// Returns these settings merged with `lower`, the settings of the base. These settings take
    /// precedence. As in a Dockerfile, a new entrypoint drops the arguments of the old one.
    #[must_use]
    pub fn over(&self, lower: &Self) -> Self {
        let mut all = lower.clone();
        all.env.extend(self.env.clone());
        all.labels.extend(self.labels.clone());
        if self.entrypoint.is_some() {
            all.entrypoint.clone_from(&self.entrypoint);
            all.cmd = None;
        }
        all.cmd = self.cmd.clone().or(all.cmd);
        all.user = self.user.clone().or(all.user);
        all.workdir = self.workdir.clone().or(all.workdir);
        all
    }
}

/// The disk space that an image needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// The size in units of 10^9 bytes.
    pub gigabytes: u16,
    /// The source of the number.
    pub source: String,
}

impl Tracks {
    /// Returns the name of the track with that name or letter. Names take precedence over letters.
    pub fn find(&self, text: &str) -> Option<&TrackName> {
        let by_name = self.tracks.keys().find(|name| name.as_str() == text);
        by_name.or_else(|| {
            let has_letter = |track: &Track| {
                track.letter.is_some_and(|letter| text.eq_ignore_ascii_case(&letter.to_string()))
            };
            self.tracks.iter().find(|(_, track)| has_letter(track)).map(|(name, _)| name)
        })
    }

    /// Returns all tracks, those with a letter first, sorted by letter and name.
    pub fn in_order(&self) -> Vec<(&TrackName, &Track)> {
        let mut all: Vec<_> = self.tracks.iter().collect();
        all.sort_by_key(|(name, track)| (track.letter.is_none(), track.letter, *name));
        all
    }

    /// Returns the track that new users should start with: the first one in order.
    pub fn first(&self) -> Option<&TrackName> {
        self.in_order().first().map(|(name, _)| *name)
    }

    /// Returns the chain of tracks that a track is based on, starting with the track itself.
    /// It ends at the first track that does not exist or that is in the chain already.
    pub fn chain(&self, name: &TrackName) -> Vec<(&TrackName, &Track)> {
        let mut chain: Vec<(&TrackName, &Track)> = Vec::new();
        let mut next = self.tracks.get_key_value(name);
        while let Some((current, track)) = next {
            if chain.iter().any(|(known, _)| *known == current) {
                break;
            }
            chain.push((current, track));
            next = track.parent().and_then(|parent| self.tracks.get_key_value(parent));
        }
        chain
    }

    /// Returns whether the track's image sets `HSA_OVERRIDE_GFX_VERSION`.
    pub fn is_spoof(&self, name: &TrackName) -> bool {
        self.chain(name).iter().find_map(|(_, track)| track.spoof()).unwrap_or(false)
    }

    /// Returns whether an engine builds the track, or a track that it is based on. Returns `false`
    /// for a track that does not exist.
    pub fn needs_engine(&self, name: &TrackName) -> bool {
        self.chain(name).iter().any(|(_, track)| matches!(track.build, Build::Stages(_)))
    }

    /// Returns whether the default build of the track, or of a track that it is based on, checks
    /// that the image contains code for its GPU.
    pub fn has_gpu_code(&self, name: &TrackName) -> bool {
        let is_checked = |all: &Variants| {
            all.variants.get(&all.variant).is_some_and(|variant| variant.has_gpu_code)
        };
        self.chain(name).iter().filter_map(|(_, track)| track.variants()).any(is_checked)
    }

    /// Returns whether a track can be rehearsed: every track of its chain that an engine builds has
    /// a variant for rehearsals.
    pub fn can_be_rehearsed(&self, name: &TrackName) -> bool {
        let variants = |track: &&Track| track.variants().map(|all| all.rehearsal.is_some());
        self.chain(name).iter().filter_map(|(_, track)| variants(track)).all(|has| has)
    }
}

impl Track {
    /// Returns the variants, if an engine builds the track.
    pub fn variants(&self) -> Option<&Variants> {
        match &self.build {
            Build::Stages(variants) => Some(variants),
            Build::Derive { .. } => None,
        }
    }

    /// Returns the names of the variants that are built only on request, if no engine builds the
    /// track.
    pub fn derived_variants(&self) -> impl Iterator<Item = &String> {
        let variants = match &self.build {
            Build::Derive { variants, .. } => Some(variants.keys()),
            Build::Stages(_) => None,
        };
        variants.into_iter().flatten()
    }

    /// Returns whether the track's image sets `HSA_OVERRIDE_GFX_VERSION`, if the track specifies
    /// it.
    pub fn spoof(&self) -> Option<bool> {
        match self.build {
            Build::Derive { spoof, .. } => spoof,
            Build::Stages(_) => None,
        }
    }

    /// Returns the pins that the track's own settings name: bases and sources.
    pub fn pins(&self) -> Vec<&PinName> {
        fn of_base(base: &Base) -> Option<&PinName> {
            match base {
                Base::Image(pin) => Some(pin),
                Base::Packages(_) | Base::Track(_) => None,
            }
        }
        match &self.build {
            Build::Derive { base, .. } => of_base(base).into_iter().collect(),
            Build::Stages(all) => {
                let variants = || all.variants.values();
                let stages = variants().flat_map(|variant| &variant.stages);
                let sources = stages.flat_map(|stage| stage.sources.values());
                variants().filter_map(|variant| of_base(&variant.base)).chain(sources).collect()
            }
        }
    }

    /// Returns the image pin that the track's image is directly based on, unless an engine builds
    /// it.
    pub fn base_pin(&self) -> Option<&PinName> {
        match &self.build {
            Build::Derive { base: Base::Image(pin), .. } => Some(pin),
            Build::Derive { .. } | Build::Stages(_) => None,
        }
    }

    /// Returns the track that this one is based on. If it has variants, its default variant
    /// decides.
    fn parent(&self) -> Option<&TrackName> {
        let base = match &self.build {
            Build::Derive { base, .. } => Some(base),
            Build::Stages(all) => all.variants.get(&all.variant).map(|variant| &variant.base),
        };
        match base? {
            Base::Track(name) => Some(name),
            Base::Image(_) | Base::Packages(_) => None,
        }
    }
}

/// The pins and tracks that the tracks of a file may refer to.
#[derive(Debug, Clone, Copy)]
pub struct References<'a> {
    /// The pins; `None` if they are unknown because their file is invalid.
    pub pins: Option<&'a Pins>,
    /// Tracks that exist in addition to those in the file. A table in the file replaces the track
    /// of the same name.
    pub tracks: Option<&'a Tracks>,
}

/// Parses the text of `tracks.toml`. `file` is its name in messages.
///
/// # Errors
/// Returns all problems in the file, each with its position, the value and the correct form.
pub fn parse_tracks(file: &str, text: &str) -> Result<Tracks, ParseError> {
    parse(file, text, None)
}

/// Parses the text of `tracks.toml` like [`parse_tracks`], and checks that the pins and tracks that
/// it names exist. The result also contains the tracks of `known` that the file does not replace.
///
/// # Errors
/// Returns all problems in the file, each with its position, the value and the correct form.
pub fn parse_tracks_with(
    file: &str,
    text: &str,
    known: References<'_>,
) -> Result<Tracks, ParseError> {
    parse(file, text, Some(known))
}

fn parse(file: &str, text: &str, known: Option<References<'_>>) -> Result<Tracks, ParseError> {
    let mut report = Report::new(file, text);
    let inherited = known.and_then(|known| known.tracks);
    let tracks = document(&mut report).and_then(|entries| {
        let root = Table::root(&mut report, &entries)?;
        let gpu = match (root.get("gpu"), inherited) {
            (None, Some(inherited)) => Ok(inherited.gpu.clone()),
            _ => root.required(&mut report, "gpu", "gpu = \"gfx1151\"", checks::gpu_target),
        };
        let named = || root.entries().filter(|entry| !matches!(entry.key, "schema" | "gpu"));
        let pins = known.and_then(|known| known.pins);
        let (own, failed) = read_tracks(&mut report, named(), pins);
        let mut tracks = inherited.map(|inherited| inherited.tracks.clone()).unwrap_or_default();
        tracks.retain(|name, _| named().all(|entry| entry.key != name.as_str()));
        tracks.extend(own);
        let without_secrets = secrets::check(&mut report, named());
        let related = relations::check(&mut report, &named().collect::<Vec<_>>(), &tracks);
        failed.map_or(Ok(()), Err)?;
        related.and(without_secrets)?;
        Ok(Tracks { gpu: gpu?, tracks })
    });
    report.finish(tracks)
}

/// Reads the tracks one by one. Returns the valid ones, and whether any track is invalid.
fn read_tracks<'t>(
    report: &mut Report<'_>,
    entries: impl Iterator<Item = Entry<'t>>,
    pins: Option<&Pins>,
) -> (BTreeMap<TrackName, Track>, Option<Reported>) {
    let (mut tracks, mut failed) = (BTreeMap::new(), None);
    for entry in entries {
        if let Some(reported) = report.is_full() {
            return (tracks, Some(reported));
        }
        match read_track(report, &entry, pins) {
            Ok((name, track)) => drop(tracks.insert(name, track)),
            Err(reported) => failed = Some(reported),
        }
    }
    (tracks, failed)
}

/// Returns whether an engine builds the track of a table. A track that specifies its base outside
/// its variants, and has no stages, needs no engine.
fn is_built(table: &Table<'_>) -> bool {
    let has = |keys: &[&str]| keys.iter().any(|key| table.get(key).is_some());
    has(&["stage", "variant"]) || (has(&["variants"]) && !has(&["base", "track"]))
}

fn read_track(
    report: &mut Report<'_>,
    entry: &Entry<'_>,
    pins: Option<&Pins>,
) -> Result<(TrackName, Track), Reported> {
    if entry.as_table().is_none() {
        let help = match nearest(entry.key, ["gpu", "schema"]) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("a track is a table: write `[{}]`", entry.key),
        };
        let message = format!("{} is not a table or a key of this file", quote(entry.key));
        return Err(report.add(&entry.key_span, wrong(message, help)));
    }
    let name: TrackName = entry.key.parse().map_err(|error: names::ParseNameError| {
        let message = format!("{} is not {}", quote(entry.key), error.what);
        report.add(&entry.key_span, wrong(message, "rename the table, for example `[my-track]`"))
    })?;
    let place = quote(&format!("[{}]", entry.key));
    let table = entry.table(report, &place)?;
    let is_built = is_built(&table);
    let of_kind = if is_built { forms::BUILT } else { forms::DERIVED };
    let groups = [forms::TRACK_ABOUT, forms::BASE, forms::IMAGE, of_kind];
    table.check_form(report, &groups);
    let title = table.required(report, "title", "title = \"vLLM for gfx1151\"", line(100));
    let description = table.required(
        report,
        "description",
        "description = \"The vendor's image with this project's labels.\"",
        line(400),
    );
    let letter = table.optional(report, "letter", letter);
    let disk = table.get("disk").map(|disk| read_disk(report, &disk)).transpose();
    let image = read_image(report, &table);
    let files = read_files(report, &table);
    let build = if is_built {
        built::read_variants(report, &table, pins).map(Build::Stages)
    } else {
        let base = built::read_base(report, &table, pins, "base = \"vllm-openai-rocm\"");
        let spoof = table.get("spoof").map(|_| table.flag(report, "spoof")).transpose();
        let (slim, variants) =
            (built::read_slim(report, &table), built::read_slim_variants(report, &table));
        base.and_then(|base| {
            Ok(Build::Derive { base, spoof: spoof?, slim: slim?, variants: variants? })
        })
    };
    let track = Track {
        letter: letter?,
        title: title?,
        description: description?,
        image: image?,
        files: files?,
        disk: disk?,
        build: build?,
    };
    Ok((name, track))
}

fn letter(text: &str) -> Result<char, Wrong> {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) if letter.is_ascii_uppercase() => Ok(letter),
        _ => Err(wrong(
            format!("{} is not one upper-case letter", quote(text)),
            "write a letter from A to Z, or remove the line",
        )),
    }
}

fn read_disk(report: &mut Report<'_>, entry: &Entry<'_>) -> Result<Disk, Reported> {
    let table = entry.table(report, "`disk`")?;
    table.check_form(report, forms::DISK.keys);
    let gigabytes = match table.get("gb") {
        None => Err(table.add_missing(report, "gb", "gb = 25")),
        Some(gb) => match gb.integer().map(u16::try_from) {
            Some(Ok(number)) if number > 0 => Ok(number),
            found => {
                let help = match (found, gb.text()) {
                    (None, Some(text)) if text.parse::<u16>().is_ok() => {
                        format!("write it without quotes: `gb = {text}`")
                    }
                    _ => "write such a number, for example `gb = 25`".to_owned(),
                };
                Err(gb.add_type(report, "a number from 1 to 65535", &help))
            }
        },
    };
    let source =
        table.required(report, "source", "source = \"measured with podman 5.4\"", line(200));
    Ok(Disk { gigabytes: gigabytes?, source: source? })
}

fn read_image(report: &mut Report<'_>, table: &Table<'_>) -> Result<ImageSettings, Reported> {
    let env = match table.get("env") {
        None => Ok(BTreeMap::new()),
        Some(entry) => read_env(report, &entry),
    };
    let labels = match table.get("labels") {
        None => Ok(BTreeMap::new()),
        Some(entry) => read_labels(report, &entry),
    };
    let entrypoint = read_words(report, table, "entrypoint");
    let cmd = read_words(report, table, "cmd");
    let user = table.optional(report, "user", user);
    let workdir = table.optional(report, "workdir", folder);
    Ok(ImageSettings {
        env: env?,
        labels: labels?,
        entrypoint: entrypoint?,
        cmd: cmd?,
        user: user?,
        workdir: workdir?,
    })
}

/// Reads the array of words of `key`.
fn read_words(
    report: &mut Report<'_>,
    table: &Table<'_>,
    key: &str,
) -> Result<Option<Vec<String>>, Reported> {
    let Some(entry) = table.get(key) else { return Ok(None) };
    let Some(items) = entry.items() else {
        let help = format!("write `{key} = [\"/usr/local/bin/serve\", \"--port\", \"8000\"]`");
        return Err(entry.add_type(report, "an array", &help));
    };
    let words = items.iter().map(|item| item.checked_text(report, line(1000)));
    words.collect::<Result<_, _>>().map(Some)
}

/// Accepts a user as in `USER` of a Dockerfile.
fn user(text: &str) -> Result<String, Wrong> {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.len() <= 32
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
    };
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() <= 2 && parts.iter().all(|part| is_part(part)) {
        Ok(text.to_owned())
    } else {
        Err(wrong(
            format!("{} is not a user", quote(text)),
            "write a user, optionally with a group, as names or numbers, for example `1000` or `app:video`",
        ))
    }
}

/// Accepts an absolute path without `..`.
fn folder(text: &str) -> Result<String, Wrong> {
    let is_plain = text.starts_with('/')
        && text.len() <= 400
        && !text.contains(char::is_control)
        && !text.split('/').any(|part| part == "..");
    if is_plain {
        Ok(text.to_owned())
    } else {
        Err(wrong(
            format!("{} is not an absolute path", quote(text)),
            "write a path that starts with `/`, without `..`",
        ))
    }
}

/// The prefix of labels that only the tool sets.
const OWN_PREFIX: &str = "io.github.build-pipeline.";

/// Labels that the tool sets itself.
const OWN_LABELS: [&str; 12] = [
    "architecture",
    "build-date",
    "org.opencontainers.image.base.digest",
    "org.opencontainers.image.base.name",
    "org.opencontainers.image.created",
    "org.opencontainers.image.description",
    "org.opencontainers.image.revision",
    "org.opencontainers.image.source",
    "org.opencontainers.image.title",
    "org.opencontainers.image.version",
    "vcs-ref",
    "vcs-type",
];

fn read_labels(
    report: &mut Report<'_>,
    labels: &Entry<'_>,
) -> Result<BTreeMap<String, String>, Reported> {
    let table = labels.table(report, "`labels`")?;
    collect(report, table.entries(), |report, entry| {
        let name = label(entry.key).map_err(|wrong| report.add(&entry.key_span, wrong))?;
        Ok((name, entry.checked_text(report, line(1000))?))
    })
}

/// Accepts the name of a label (OCI image-spec, annotations.md) that the tool does not set.
fn label(text: &str) -> Result<String, Wrong> {
    if text.starts_with(OWN_PREFIX) || OWN_LABELS.contains(&text) {
        let message = format!("label {} is set by build-pipeline", quote(text));
        let help = if text.ends_with(".title") || text.ends_with(".description") {
            "remove it; its value comes from the track's `title` or `description`"
        } else {
            "remove it, or use a name of your own, for example `org.example.team`"
        };
        return Err(wrong(message, help));
    }
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"._-/".contains(&b);
    if !text.is_empty() && text.len() <= 200 && text.bytes().all(is_plain) {
        Ok(text.to_owned())
    } else {
        Err(wrong(
            format!("{} is not the name of a label", quote(text)),
            "write letters, digits, `.`, `-`, `_` and `/`, for example `org.example.team`",
        ))
    }
}

pub(crate) fn check_base(name: &PinName, pins: &Pins) -> Result<(), Wrong> {
    if pins.images.contains_key(name) {
        return Ok(());
    }
    if let Some(kind) = pins.kind(name) {
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
    env: &Entry<'_>,
) -> Result<BTreeMap<String, String>, Reported> {
    let Some(table) = env.as_table() else {
        let example = "write `env.VLLM_ROCM_USE_AITER = \"0\"`";
        return Err(env.add_type(report, "a table of names and values", example));
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
