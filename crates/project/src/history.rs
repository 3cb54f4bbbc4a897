//! Builds as text: a list of them, one in detail, and the result of one that just ended.

use std::path::Path;

use executor::Output;
use names::Digest;
use plan::{Action, Step};
use record::{BuildRecord, ImageSummary, OutputState, Status};
use schemars::JsonSchema;
use serde::Serialize;
use text::sanitise::sanitise_line;
use text::{Page, Tone, counted, seconds, shell_line, size};

use crate::outputs::{moved, pushed_reference};
use crate::state;

/// A record as `records --format json` prints it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ListedRecord<'a> {
    #[serde(flatten)]
    record: &'a BuildRecord,
    /// The fields that the text output shows.
    summary: Summary<'a>,
}

/// The fields that the text output shows for each record.
#[derive(Debug, Serialize, JsonSchema)]
struct Summary<'a> {
    /// When the run started, RFC 3339.
    time: &'a str,
    /// How long it took. Absent if it has not ended or was killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    milliseconds: Option<u64>,
    /// The name of the image: the track, with the variant and the GPU if they are not the defaults,
    /// after `rehearsal-` if it is a rehearsal.
    track: &'a str,
    /// How the run ended: succeeded, failed, interrupted or killed; or running.
    status: &'static str,
    /// The digest of the image's manifest, if an image was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<&'a Digest>,
}

impl<'a> ListedRecord<'a> {
    /// Creates the list entry of a record.
    pub fn of(record: &'a BuildRecord) -> Self {
        let time = |text: &str| text.parse::<jiff::Timestamp>().ok();
        let ended = record.ended.as_deref().and_then(time);
        let taken =
            time(&record.began).zip(ended).map(|(began, ended)| began.duration_until(ended));
        let summary = Summary {
            time: &record.began,
            milliseconds: taken.and_then(|taken| u64::try_from(taken.as_millis()).ok()),
            track: &record.plan.name,
            status: status(record),
            digest: record.image.as_ref().map(|image| &image.manifest_digest),
        };
        Self { record, summary }
    }
}

/// Returns the records as text, one per line.
pub fn list(listed: &[ListedRecord<'_>]) -> Page {
    let mut page = Page::default();
    let width = listed.iter().map(|one| one.summary.track.len()).max().unwrap_or(0);
    for ListedRecord { record, summary } in listed {
        let time = summary.time.get(..19).unwrap_or(summary.time).replace('T', " ");
        let taken = summary.milliseconds.map_or_else(|| "-".to_owned(), seconds);
        page.add(format_args!("{time}  {taken:>9}  {:width$}  ", summary.track));
        page.column(summary.status, tone(summary.status), 11);
        let digest = summary.digest.map_or("-", Digest::short);
        page.line(format_args!("  {digest:12}  {}", record.id));
    }
    page
}

/// Returns the tone of a status.
fn tone(status: &str) -> Tone {
    match status {
        "succeeded" => Tone::Good,
        "failed" | "killed" => Tone::Bad,
        _ => Tone::Doubtful,
    }
}

/// Marks the runs that were killed: their records have no end, and their processes no longer exist.
pub fn mark_killed(records: &mut [BuildRecord]) {
    for record in records {
        if record.status == Status::Running && !state::is_alive(record) {
            record.status = Status::Killed;
        }
    }
}

/// Returns the status of a run, after [`mark_killed`].
fn status(record: &BuildRecord) -> &'static str {
    match record.status {
        Status::Running => "running",
        Status::Killed => "killed",
        Status::Succeeded => "succeeded",
        Status::Failed => "failed",
        Status::Interrupted => "interrupted",
    }
}

/// Returns a record as text.
pub fn page(record: &BuildRecord) -> Page {
    let mut page = Page::default();
    page.line(format_args!("{}", record.id));
    page.add(format_args!("  status   "));
    page.verdict(status(record), tone(status(record)));
    page.line(format_args!(""));
    if let Some(place) = &record.place {
        page.line(format_args!("  project  {}", place.project));
    }
    page.line(format_args!("  started  {}", record.began));
    if let Some(ended) = &record.ended {
        page.line(format_args!("  ended    {ended}"));
    }
    page.line(format_args!("  command  {}", shell_line(&record.command)));
    page.line(format_args!("  plan     {}", record.plan_digest));
    if let Some(commit) = &record.recipe.commit {
        page.line(format_args!("  commit   {commit}"));
    }
    for file in &record.recipe.modified {
        page.line(format_args!("  changed  {file} (uncommitted)"));
    }
    for (name, input) in record.plan.inputs.iter().filter(|(_, input)| input.is_pinned()) {
        page.line(format_args!("  pin      {name} = {input}"));
    }
    if let Some(image) = &record.image {
        page.line(format_args!("  digest   {}", image.manifest_digest));
        page.line(format_args!("  image ID {}", image.config_digest));
    }
    if let Some(engine) = &record.engine {
        page.line(format_args!("  engine   {engine}"));
        for one in &engine.passed_over {
            page.line(format_args!("  skipped  {}: {}", one.origin, one.reason));
        }
    }
    for outcome in &record.outputs {
        page.line(format_args!("  output   {} ({})", outcome.output, outcome.state));
    }
    for step in &record.steps {
        page.line(format_args!(
            "  step     {} ({}, {} ms)",
            step.step, step.state, step.milliseconds
        ));
    }
    for line in &record.error {
        page.line(format_args!("  error    {line}"));
    }
    for warning in &record.warnings {
        page.line(format_args!("  warning  {warning}"));
    }
    for note in &record.notes {
        page.line(format_args!("  note     {}: {}", note.rule, note.message));
    }
    page
}

/// Returns the result of a successful build as text. `outputs` are the places that the image was
/// written to, and `path` is the file of the record.
pub fn built(record: &BuildRecord, image: &ImageSummary, outputs: &[Output], path: &Path) -> Page {
    let mut text = Page::default();
    text.line(format_args!("{}", record.plan.name));
    text.line(format_args!("  digest    {}", image.manifest_digest));
    text.line(format_args!("  image ID  {}", image.config_digest));
    for (name, input) in record.plan.inputs.iter().filter(|(_, input)| input.is_pinned()) {
        text.line(format_args!("  from      {input} ({name})"));
    }
    if image.base_index.is_some() {
        text.line(format_args!(
            "            its manifest for linux/amd64 is {}",
            image.base_manifest
        ));
    }
    if let Some(slim) = &image.slim {
        let smaller = counted(slim.files_smaller, "file");
        text.line(format_args!(
            "  slimmed   {} of layers before, {} after: {smaller} smaller, {} removed; only code for {} is left",
            size(slim.layer_bytes_before),
            size(slim.layer_bytes_after),
            slim.files_removed,
            slim.gpus.join(", ")
        ));
        for file in &slim.whole {
            text.line(format_args!("  unchanged {}", sanitise_line(file)));
        }
    }
    for outcome in &record.outputs {
        let is_thin = outputs.iter().any(|output| {
            matches!(output, Output::Layout { with_layers: false, .. })
                && output.to_string() == outcome.output
        });
        let layers = match (outcome.layers_copied, outcome.layers_mounted) {
            (0, 0) if is_thin && outcome.state != OutputState::UpToDate => {
                layers_left_at_the_registry(record, image)
            }
            _ => moved(outcome),
        };
        text.add(format_args!("  output    {} (", outcome.output));
        let tone = match outcome.state {
            OutputState::Written | OutputState::UpToDate => Tone::Good,
            OutputState::Failed | OutputState::Interrupted => Tone::Bad,
        };
        text.verdict(&outcome.state.to_string(), tone);
        text.line(format_args!("; {layers})"));
        if let Some(pushed) = pushed_reference(&outcome.output, &image.manifest_digest) {
            text.line(format_args!("  pull      {pushed}"));
        }
    }
    if let Some(engine) = &record.engine {
        text.line(format_args!("  engine    {engine}"));
    }
    let traffic = record.traffic;
    text.line(format_args!(
        "  traffic   with registries: {}, {} received, {} sent",
        counted(traffic.requests, "request"),
        size(traffic.bytes_received),
        size(traffic.bytes_sent)
    ));
    text.line(format_args!("  record    {}", path.display()));
    text
}

/// Describes the layers of a thin layout.
fn layers_left_at_the_registry(record: &BuildRecord, image: &ImageSummary) -> String {
    let adds_files = |step: &&Step| matches!(step.action, Action::AddFiles { .. });
    let own = record.plan.steps.iter().filter(adds_files).count();
    let own_layers = match own {
        0 => String::new(),
        count => format!("{} with the project's own files here, ", counted(count, "layer")),
    };
    let others = counted(image.layers.saturating_sub(own), "layer");
    format!("{own_layers}{others}, {}, left in the base's registry", size(image.layer_bytes))
}
