//! The state of each track, from the pins, the records and the last check of the pins. Makes no
//! requests.

use std::collections::BTreeMap;
use std::path::Path;

use failure::Failure;
use names::{Digest, EngineKind, PinName, TrackName};
use planner::BuildRequest;
use project::image::Image;
use project::prepare::Preparer;
use project::request::{self, PendingRequest};
use project::{Project, state};
use record::{BuildRecord, OutputState, Status};
use schemars::JsonSchema;
use serde::Serialize;
use text::{Page, Tone};

use crate::outdated::{LastCheck, Remembered};

/// The result of `status`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StatusReport {
    /// The version of this JSON format.
    schema: u32,
    /// The tracks, in the order of their letters, then by name.
    tracks: Vec<TrackStatus>,
}

/// The state of a track.
#[derive(Debug, Serialize, JsonSchema)]
struct TrackStatus {
    /// The name of the track.
    track: String,
    /// Whether a build would give the same image as the last one.
    state: State,
    /// What prevents a build.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// When the build began that is running now, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    building_since: Option<String>,
    /// Its last successful build.
    #[serde(skip_serializing_if = "Option::is_none")]
    built: Option<LastBuild>,
    /// Its pins that are out of date, or whose source changed, according to the last `outdated`.
    outdated: Vec<Remembered>,
}

/// Whether a build of a track would give the same image as the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum State {
    /// There is no record of a successful build.
    NeverBuilt,
    /// A build would give the same image.
    UpToDate,
    /// An input has changed since the build.
    Changed,
    /// The track follows a tag, which each build looks up.
    FollowsTag,
    /// It cannot be built, because a pin is unresolved or a file is wrong.
    NotReady,
}

impl State {
    /// Returns its name for people.
    fn name(self) -> &'static str {
        match self {
            Self::NeverBuilt => "never built",
            Self::UpToDate => "up to date",
            Self::Changed => "changed",
            Self::FollowsTag => "follows tag",
            Self::NotReady => "not ready",
        }
    }

    /// Returns its tone.
    fn tone(self) -> Tone {
        match self {
            Self::UpToDate => Tone::Good,
            Self::NeverBuilt | Self::Changed | Self::FollowsTag => Tone::Doubtful,
            Self::NotReady => Tone::Bad,
        }
    }
}

/// The last successful build of a track.
#[derive(Debug, Serialize, JsonSchema)]
struct LastBuild {
    /// When it ended, RFC 3339.
    time: String,
    /// The digest of the image's manifest.
    digest: Digest,
    /// The pins that it was made from, with their values.
    pins: BTreeMap<String, String>,
    /// The name of its record.
    record: String,
    /// The engine that it used.
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<String>,
    /// Where the image was written.
    outputs: Vec<Place>,
}

/// A place that an image was written to.
#[derive(Debug, Serialize, JsonSchema)]
struct Place {
    /// The output, in the syntax of `--output`.
    output: String,
    /// Whether the file or folder still exists. Absent for registries and engines, which are not
    /// contacted.
    #[serde(skip_serializing_if = "Option::is_none")]
    exists: Option<bool>,
    /// What is there now instead of the image: another image with its digest, or something that is
    /// not a readable image. Absent if the image is still there, and for registries and engines.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced: Option<String>,
    /// The engine that has the image.
    #[serde(skip)]
    engine: Option<EngineKind>,
}

impl StatusReport {
    /// Finds out the state of every track of a project. Makes no requests. `warn` gets the name and
    /// the message of a warning about each file that cannot be read.
    ///
    /// # Errors
    /// A data file is wrong, or the folder of records cannot be read.
    pub fn new(project: &Project, warn: impl Fn(&str, &str) + Copy) -> Result<Self, Failure> {
        let root = &project.root;
        let records = state::read_records_of(root, warn)?;
        let mut preparer = Preparer::new(project)?;
        let tracks = preparer.input.tracks.clone();
        let checks = LastCheck::read(warn)?;
        let names = tracks.in_order().into_iter().map(|(name, _)| name);
        let statuses = names.map(|name| status(&mut preparer, name, &records, &checks, root));
        Ok(Self { schema: 1, tracks: statuses.collect() })
    }

    /// Returns the report as text, one line per track.
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        let width = self.tracks.iter().map(|one| one.track.len()).max().unwrap_or(0);
        for TrackStatus { track, state, why, building_since, built, outdated } in &self.tracks {
            page.add(format_args!("{track:width$}  "));
            page.column(state.name(), state.tone(), 11);
            if let Some(LastBuild { time, digest, outputs, .. }) = built {
                let time = time.get(..16).unwrap_or(time).replace('T', " ");
                page.add(format_args!("  {time}  {}", digest.short()));
                for Place { output, exists, replaced, engine } in outputs {
                    let gone = match replaced {
                        _ if *exists == Some(false) => " (removed)".to_owned(),
                        Some(found) => format!(" (replaced: {found})"),
                        None => String::new(),
                    };
                    let owner = engine.map(|kind| format!(" ({kind})")).unwrap_or_default();
                    page.add(format_args!("  {output}{owner}{gone}"));
                }
            }
            if let Some(since) = building_since {
                let since = since.get(..16).unwrap_or(since).replace('T', " ");
                page.add(format_args!("  being built since {since}"));
            }
            for Remembered { pin, state: class, since } in outdated {
                page.add(format_args!("  pin {pin}: {class} since {since}"));
            }
            if let Some(why) = why {
                page.add(format_args!("  {why}"));
            }
            page.line(format_args!(""));
        }
        page.line(format_args!(
        "\n`build-pipeline explain TRACK` lists what changed; `build-pipeline outdated` looks for newer versions of the pins"
    ));
        page
    }
}

/// Finds out the state of one track.
fn status(
    preparer: &mut Preparer<'_>,
    name: &TrackName,
    records: &[BuildRecord],
    checks: &LastCheck,
    root: &Path,
) -> TrackStatus {
    let is_of_it = |record: &&BuildRecord| {
        record.plan.name == name.as_str() && record.status == Status::Succeeded
    };
    let last = records.iter().filter(is_of_it).max_by_key(|record| &record.began);
    let built = last.and_then(|record| last_build(record, root));
    let is_running =
        |record: &&BuildRecord| record.plan.name == name.as_str() && state::is_under_way(record);
    let building_since = records.iter().find(is_running).map(|record| record.began.clone());
    let track = name.to_string();
    let of =
        |state, why, outdated| TrackStatus { track, state, why, building_since, built, outdated };
    let request = BuildRequest::new(name.clone());
    if request::followed_tag(&request, &[], &preparer.input).is_some() {
        return of(State::FollowsTag, None, Vec::new());
    }
    let now = match preparer.plan(PendingRequest::new(request)) {
        Ok(now) => now.plan,
        Err(error) => return of(State::NotReady, Some(error.lines().join(": ")), Vec::new()),
    };
    let pins = now.inputs.keys().filter_map(|input| input.parse::<PinName>().ok());
    let outdated = pins.filter_map(|pin| checks.outdated(&preparer.input.pins, &pin)).collect();
    let state = match last {
        None => State::NeverBuilt,
        Some(last) if now.digest() == last.plan_digest => State::UpToDate,
        Some(_) => State::Changed,
    };
    of(state, None, outdated)
}

/// Returns a build as its record describes it, if it made an image.
fn last_build(record: &BuildRecord, root: &Path) -> Option<LastBuild> {
    let digest = record.image.as_ref()?.manifest_digest.clone();
    let is_whole = |state| matches!(state, OutputState::Written | OutputState::UpToDate);
    let outputs = record.outputs.iter().filter(|outcome| is_whole(outcome.state));
    let place = |output: &str| {
        let path = output.strip_prefix("oci:").or_else(|| output.strip_prefix("oci-archive:"));
        let path = path.map(|path| state::output_path(record, root, path));
        let exists = path.as_ref().map(|path| path.exists());
        let replaced = path.filter(|path| path.exists());
        let replaced = replaced.and_then(|place| replacement(&place, &digest));
        let is_in_engine = output.starts_with("engine:");
        let engine = record.engine.as_ref().filter(|_| is_in_engine).map(|engine| engine.kind);
        Place { output: output.to_owned(), exists, replaced, engine }
    };
    let pins = record.plan.inputs.iter().filter(|(_, input)| input.is_pinned());
    Some(LastBuild {
        time: record.ended.clone().unwrap_or_else(|| record.began.clone()),
        pins: pins.map(|(name, input)| (name.clone(), input.to_string())).collect(),
        record: record.id.clone(),
        engine: record.engine.as_ref().map(ToString::to_string),
        outputs: outputs.map(|outcome| place(&outcome.output)).collect(),
        digest,
    })
}

/// Returns what is in a layout or archive, unless it is the image with this digest. Does not read
/// the layers.
fn replacement(path: &Path, digest: &Digest) -> Option<String> {
    match Image::at_to_be_read(path) {
        Ok(found) if found.manifest_digest == *digest => None,
        Ok(found) => Some(found.description()),
        Err(error) => Some(error.lines().join(": ")),
    }
}
