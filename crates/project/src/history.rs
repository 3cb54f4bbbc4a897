//! Past builds, as a list and one by one.

use names::Digest;
use record::{BuildRecord, Status};
use schemars::JsonSchema;
use serde::Serialize;
use text::{Page, Tone, seconds, shell_line};

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
    /// Adds to a record what the list shows.
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

/// Returns the status of a run. If its record has no end and its process no longer exists, the run
/// was killed.
fn status(record: &BuildRecord) -> &'static str {
    match record.status {
        Status::Running if state::is_alive(record) => "running",
        Status::Running => "killed",
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
