//! Reads `versions/run.toml`: what each track's containers need, and their smoke tests.

use std::collections::BTreeMap;

use names::TrackName;
use pins::reader::{
    Entry, Report, Reported, Table, Wrong, collect, document, list, nearest, program, quote, wrong,
};
use pins::{ParseError, Tracks};
use regex::bytes::Regex;

use crate::forms;

/// The content of `run.toml`: the row of each track.
pub type Rows = BTreeMap<TrackName, Row>;

/// What a container of a track needs.
#[derive(Debug, Clone)]
pub struct Row {
    /// How it reaches the GPU.
    pub gpu: GpuWay,
    /// The program in the image, for example `vllm`, if it is known.
    pub program: Option<String>,
    /// The port that it serves on, if any.
    pub port: Option<u16>,
    /// The size of `/dev/shm` in GiB, if the engine's default is too small.
    pub shared_memory: Option<u16>,
    /// The folder of the host with models; it may start with `~/`.
    pub models: String,
    /// The path of that folder in the container; it may start with `~/`.
    pub models_at: String,
    /// Whether the current folder becomes its working directory.
    pub has_work: bool,
    /// The smoke tests.
    pub smoke: BTreeMap<Level, Trial>,
}

/// How a container reaches the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuWay {
    /// The compute driver: `/dev/kfd` and `/dev/dri`.
    Rocm,
    /// The graphics driver: `/dev/dri`.
    Vulkan,
}

/// A smoke-test level, from the lowest to the highest.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Import: the image's programs start.
    Import,
    /// Device: the programs find the GPU.
    Device,
    /// Compute: the programs compute on the GPU, with correct results.
    Compute,
    /// Serve: the server returns a token.
    Serve,
}

/// How a level is tested.
#[derive(Debug, Clone)]
pub struct Trial {
    /// The script, a file in `versions/smoke`.
    pub script: String,
    /// What it requires of the machine.
    pub needs: Needs,
    /// Whether it needs a model.
    pub has_model: bool,
    /// A pattern that its output must match.
    pub expect: Regex,
    /// A pattern that shows that it ran on a software device.
    pub software: Option<Regex>,
}

/// What a level requires of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// A GPU.
    Gpu,
    /// A GPU, or a software device instead.
    AnyGpu,
}

/// The row of a track that is not in `run.toml`: the devices of ROCm, no port, and no smoke tests.
impl Default for Row {
    fn default() -> Self {
        Self {
            gpu: GpuWay::Rocm,
            program: None,
            port: None,
            shared_memory: None,
            models: "~/.cache/huggingface".to_owned(),
            models_at: "~/.cache/huggingface".to_owned(),
            has_work: false,
            smoke: BTreeMap::new(),
        }
    }
}

impl Level {
    /// All levels, in order.
    pub const ALL: [Self; 4] = [Self::Import, Self::Device, Self::Compute, Self::Serve];

    /// Returns the name in the file and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Import => "import",
            Self::Device => "device",
            Self::Compute => "compute",
            Self::Serve => "serve",
        }
    }
}

impl Trial {
    /// Returns the program that runs the script, based on the file name extension.
    pub fn program(&self) -> &'static str {
        match self.script.rsplit('.').next() {
            Some("py") => "python3",
            Some("bash") => "bash",
            _ => "sh",
        }
    }
}

/// Parses the text of `run.toml`. Messages call it `file`. Each of its tables must be named after
/// one of `tracks`.
///
/// # Errors
/// Returns all problems in the file, each with its position, the value and the correct form.
pub fn parse_rows(file: &str, text: &str, tracks: &Tracks) -> Result<Rows, ParseError> {
    let mut report = Report::new(file, text);
    let rows = document(&mut report).and_then(|entries| {
        let root = Table::root(&mut report, &entries)?;
        let named = root.entries().filter(|entry| entry.key != "schema");
        collect(&mut report, named, |report, entry| read(report, entry, tracks))
    });
    report.finish(rows)
}

fn read(
    report: &mut Report<'_>,
    entry: &Entry<'_>,
    tracks: &Tracks,
) -> Result<(TrackName, Row), Reported> {
    let Some((track, _)) = tracks.tracks.get_key_value(entry.key) else {
        let known = || tracks.in_order().into_iter().map(|(name, _)| name.as_str());
        let help = match nearest(entry.key, known()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("remove it; the tracks are {}", list(known())),
        };
        let message = format!("{} is not a track", quote(entry.key));
        return Err(report.add(&entry.key_span, wrong(message, help)));
    };
    let place = quote(&format!("[{}]", entry.key));
    let table = entry.table(report, &place)?;
    table.check_form(report, forms::ROW.keys);
    let gpu = table.required(report, "gpu", "gpu = \"rocm\"", gpu_way);
    let program = table.optional(report, "program", program);
    let port = number(report, &table, "port");
    let shared_memory = number(report, &table, "shared-memory");
    let models = table.required(report, "models", "models = \"~/models\"", folder);
    let models_at = table.required(report, "models-at", "models-at = \"/models\"", folder);
    let has_work = table.flag(report, "work");
    let smoke = match table.get("smoke") {
        None => Ok(BTreeMap::new()),
        Some(trials) => trials
            .table(report, &quote(&format!("[{track}.smoke]")))
            .and_then(|levels| collect(report, levels.entries(), read_trial)),
    };
    let row = Row {
        gpu: gpu?,
        program: program?,
        port: port?,
        shared_memory: shared_memory?,
        models: models?,
        models_at: models_at?,
        has_work: has_work?,
        smoke: smoke?,
    };
    Ok((track.clone(), row))
}

fn read_trial(report: &mut Report<'_>, entry: &Entry<'_>) -> Result<(Level, Trial), Reported> {
    let Some(level) = Level::ALL.into_iter().find(|level| level.name() == entry.key) else {
        let help = format!("write one of {}", list(Level::ALL.map(Level::name)));
        let message = format!("{} is not a level of a smoke test", quote(entry.key));
        return Err(report.add(&entry.key_span, wrong(message, help)));
    };
    let place = quote(&format!("[….smoke.{}]", entry.key));
    let table = entry.table(report, &place)?;
    table.check_form(report, forms::TRIAL.keys);
    let script = table.required(report, "script", "script = \"torch-device.py\"", script);
    let needs = table.optional(report, "needs", needs);
    let has_model = table.flag(report, "model");
    let expect = table.required(report, "expect", "expect = '^device 0: '", pattern);
    let software = table.optional(report, "software", pattern);
    let trial = Trial {
        script: script?,
        needs: needs?.unwrap_or(Needs::Nothing),
        has_model: has_model?,
        expect: expect?,
        software: software?,
    };
    Ok((level, trial))
}

fn number(report: &mut Report<'_>, table: &Table<'_>, key: &str) -> Result<Option<u16>, Reported> {
    let Some(entry) = table.get(key) else { return Ok(None) };
    match entry.integer().map(u16::try_from) {
        Some(Ok(number)) if number > 0 => Ok(Some(number)),
        found => {
            let example = if key == "port" { 8000 } else { 16 };
            let help = match (found, entry.text()) {
                (None, Some(text)) if text.parse::<u16>().is_ok() => {
                    format!("write it without quotes: `{key} = {text}`")
                }
                _ => format!(
                    "write such a number, for example `{key} = {example}`, or remove the line"
                ),
            };
            Err(entry.add_type(report, "a number from 1 to 65535", &help))
        }
    }
}

fn gpu_way(text: &str) -> Result<GpuWay, Wrong> {
    match text {
        "rocm" => Ok(GpuWay::Rocm),
        "vulkan" => Ok(GpuWay::Vulkan),
        _ => Err(wrong(
            format!("{} is not a value of `gpu`", quote(text)),
            "write `rocm` or `vulkan`",
        )),
    }
}

fn needs(text: &str) -> Result<Needs, Wrong> {
    match text {
        "gpu" => Ok(Needs::Gpu),
        "any-gpu" => Ok(Needs::AnyGpu),
        _ => Err(wrong(
            format!("{} is not a value of `needs`", quote(text)),
            "write `gpu` or `any-gpu`, or remove the line",
        )),
    }
}

/// Accepts an absolute path, or a path below the home. Rejects paths that contain a character that
/// engines use as a separator.
fn folder(text: &str) -> Result<String, Wrong> {
    let is_full = text.starts_with('/') || text.starts_with("~/");
    let is_plain = !text.contains([':', ',', '"', '\'', '\\', '$', '%', '`']);
    let stays = !text.split('/').any(|part| part == "..");
    if is_full && is_plain && stays {
        Ok(text.to_owned())
    } else {
        Err(wrong(
            format!("{} is not a folder that an engine can mount", quote(text)),
            "write a path that starts with `/` or `~/`, without `..`, colons, commas or quotes",
        ))
    }
}

fn script(text: &str) -> Result<String, Wrong> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if text.chars().all(is_plain) && !text.starts_with('.') {
        Ok(text.to_owned())
    } else {
        Err(wrong(
            format!("{} is not the name of a file in versions/smoke", quote(text)),
            "write only its name, for example `torch-device.py`",
        ))
    }
}

fn pattern(text: &str) -> Result<Regex, Wrong> {
    let built = regex::bytes::RegexBuilder::new(text).multi_line(true).size_limit(1 << 20).build();
    built.map_err(|_| {
        wrong(
            format!("{} is not a regular expression", quote(text)),
            "close every bracket and group, and put `\\` before a special character that is meant literally",
        )
    })
}
