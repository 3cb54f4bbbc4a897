//! `build-pipeline records`: prints past builds and their results, and removes old records.

use std::num::NonZeroUsize;

use failure::{Failure, Kind};
use names::Digest;
use project::state::{self, Old};
use record::{BuildRecord, Status};

use crate::cli::{Format, Prune, Records, RecordsCommand};
use crate::global;
use terminal::output;
use text::{Page, Tone, counted, seconds, shell_line};

/// A record as `records --format json` prints it.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub(crate) struct ListedRecord<'a> {
    #[serde(flatten)]
    record: &'a BuildRecord,
    /// The fields that the text output shows.
    summary: Summary<'a>,
}

/// The fields that the text output shows for each record.
#[derive(serde::Serialize, schemars::JsonSchema)]
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
    fn of(record: &'a BuildRecord) -> Self {
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

/// Lists the records, shows one, or removes old ones.
pub(crate) fn run(args: &Records) -> Result<(), Failure> {
    let mut records = state::read_records(output::warn)?;
    if let Some(RecordsCommand::Prune(args)) = &args.command {
        return prune(&records, args);
    }
    // A record that is given by name may belong to any project.
    let project = global::project().ok().filter(|_| !args.all && args.record.is_none());
    if let Some(project) = project {
        records.retain(|record| state::is_of_project(record, &project.root));
    }
    if args.last {
        return match records.last() {
            Some(last) => show(last, args.format),
            None => Err(Failure::new(Kind::Input, "there are no records")
                .hint("every build writes a record, even if it fails")),
        };
    }
    let Some(wanted) = &args.record else {
        let newest = records.len().saturating_sub(args.limit.map_or(usize::MAX, NonZeroUsize::get));
        let listed: Vec<ListedRecord<'_>> =
            records.iter().skip(newest).map(ListedRecord::of).collect();
        return match args.format {
            Format::Json => output::json(&listed),
            Format::Text => list(&listed),
        };
    };
    let matching: Vec<&BuildRecord> = records
        .iter()
        .filter(|record| {
            record.id.ends_with(wanted.as_str()) || record.id.starts_with(wanted.as_str())
        })
        .collect();
    match matching.as_slice() {
        [one] => show(one, args.format),
        [] => Err(Failure::new(Kind::Input, format!("there is no record `{wanted}`"))
            .hint("`build-pipeline records` lists all records")),
        several => Err(Failure::new(
            Kind::Input,
            format!("{} records have names that begin or end with `{wanted}`", several.len()),
        )
        .hint(format!("write the full name, for example `{}`", several[several.len() - 1].id))),
    }
}

fn show(record: &BuildRecord, format: Format) -> Result<(), Failure> {
    match format {
        Format::Json => output::json(record),
        Format::Text => output::page(&text(record)),
    }
}

fn list(listed: &[ListedRecord<'_>]) -> Result<(), Failure> {
    if listed.is_empty() {
        output::say("no builds yet");
        return Ok(());
    }
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
    output::page(&page)
}

/// Removes old records of all projects, and prints their names.
fn prune(records: &[BuildRecord], args: &Prune) -> Result<(), Failure> {
    let rule = match (args.keep, args.older_than) {
        (Some(count), _) => Old::Beyond(count),
        (None, days) => {
            let span = jiff::SignedDuration::from_hours(i64::from(days.unwrap_or(u32::MAX)) * 24);
            // If the time cannot be represented, no record is older.
            let oldest = jiff::Timestamp::now().checked_sub(span).unwrap_or(jiff::Timestamp::MIN);
            Old::Before(oldest)
        }
    };
    let old = state::old_records(records, rule);
    let mut page = Page::default();
    for record in &old {
        if !args.dry_run {
            state::remove_record(record)?;
        }
        page.line(format_args!("{}", record.id));
    }
    let verb = if args.dry_run { "would be removed" } else { "removed" };
    let kept = records.len().saturating_sub(old.len());
    page.line(format_args!("{} {verb}, {kept} kept", counted(old.len(), "record")));
    output::page(&page)
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

fn text(record: &BuildRecord) -> Page {
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
