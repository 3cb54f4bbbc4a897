//! `build-pipeline records`: prints past builds and their results.

use failure::{Failure, Kind};
use project::state;
use record::{BuildRecord, Status};

use crate::cli::{Format, Records};
use crate::output::Page;
use crate::{output, typed};

/// Lists the records, or shows one.
pub(crate) fn run(args: &Records) -> Result<(), Failure> {
    let records = state::read_records(output::warn)?;
    let Some(wanted) = &args.record else {
        return match args.format {
            Format::Json => output::json(&records),
            Format::Text => list(&records),
        };
    };
    let matching: Vec<&BuildRecord> = records
        .iter()
        .filter(|record| {
            record.id.ends_with(wanted.as_str()) || record.id.starts_with(wanted.as_str())
        })
        .collect();
    match (matching.as_slice(), args.format) {
        ([one], Format::Json) => output::json(one),
        ([one], Format::Text) => output::sanitised_result(&text(one)),
        ([], _) => Err(Failure::new(Kind::Input, format!("there is no record `{wanted}`"))
            .hint("`build-pipeline records` lists them")),
        (several, _) => Err(Failure::new(
            Kind::Input,
            format!("{} records begin or end with `{wanted}`", several.len()),
        )
        .hint(format!("write the full name, for example `{}`", several[several.len() - 1].id))),
    }
}

fn list(records: &[BuildRecord]) -> Result<(), Failure> {
    if records.is_empty() {
        output::say("no builds yet");
        return Ok(());
    }
    let mut page = Page::default();
    for record in records {
        let digest = record.image.as_ref().map_or("-", |image| image.manifest_digest.short());
        page.line(format_args!("{}  {:11}  {digest}", record.id, status(record)));
    }
    output::sanitised_result(&page.into_text())
}

/// Returns the status of a run. A run without an end whose process no longer exists was killed.
fn status(record: &BuildRecord) -> &'static str {
    match record.status {
        Status::Running if state::is_alive(record) => "running",
        Status::Running => "killed",
        Status::Succeeded => "succeeded",
        Status::Failed => "failed",
        Status::Interrupted => "interrupted",
    }
}

fn text(record: &BuildRecord) -> String {
    let mut page = Page::default();
    page.line(format_args!("{}", record.id));
    page.line(format_args!("  status   {}", status(record)));
    page.line(format_args!("  started  {}", record.began));
    if let Some(ended) = &record.ended {
        page.line(format_args!("  ended    {ended}"));
    }
    page.line(format_args!("  command  {}", typed::line(&record.command)));
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
    page.into_text()
}
