//! `build-pipeline explain`: a rule of `lint`, or why a track is built again.

use clap::Args;
use record::{BuildRecord, InputChange, Standing, Status, StepChange, step_changes};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::{Format, Global, Subject};
use crate::commands::lint;
use crate::error::CommandError;
use crate::output::Page;
use crate::prepare::prepare;
use crate::project::Project;
use crate::{output, request, state};

/// Explain a rule of `lint`, or which inputs of a track changed since it was built
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The rule or track; all rules are listed without
    #[arg(value_name = "RULE|TRACK")]
    name: Option<String>,
    /// Explain this variant of the track
    #[arg(long, value_name = "VARIANT")]
    variant: Option<String>,
    /// Explain the track's rehearsal
    #[arg(long)]
    rehearse: bool,
    /// How to print what is said of a track
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// The number of the JSON form.
const SCHEMA: u32 = 1;

/// What of a track is another than when it was built.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExplainReport {
    /// The number of this JSON form.
    schema: u32,
    /// The name of the image.
    name: String,
    /// The record of the last build that succeeded; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<String>,
    /// The steps of the plan of today, in order.
    steps: Vec<StepChange>,
}

/// Runs `explain`.
pub(crate) fn run(global: &Global, args: &Explain) -> Result<(), CommandError> {
    let Some(track) = args.name.as_deref().and_then(|name| request::track(name).ok()) else {
        return lint::explain(args.name.as_deref());
    };
    let subject = Subject {
        tracks: vec![track.name().to_owned()],
        variant: args.variant.clone(),
        rehearse: args.rehearse,
        ..Subject::default()
    };
    let project = Project::find(&crate::working_folder(global)?)?;
    for planned in prepare(global, &project, &subject)?.plans {
        let records = state::read_records()?;
        let is_one = |record: &&BuildRecord| {
            record.plan.name == planned.plan.name && record.status == Status::Succeeded
        };
        let last = records.iter().filter(is_one).max_by_key(|record| &record.began);
        let report = ExplainReport {
            schema: SCHEMA,
            name: planned.plan.name.clone(),
            record: last.map(|record| record.id.clone()),
            steps: last.map(|last| step_changes(&last.plan, &planned.plan)).unwrap_or_default(),
        };
        match args.format {
            Format::Json => output::json(&report)?,
            Format::Text => output::sanitised_result(&text(&report))?,
        }
    }
    Ok(())
}

fn text(report: &ExplainReport) -> String {
    let mut page = Page::default();
    let Some(record) = &report.record else {
        page.line(format_args!("{}: there is no record of a build that succeeded", report.name));
        return page.into_text();
    };
    page.line(format_args!("{} against record {record}", report.name));
    for change in &report.steps {
        let because = change.because.join(", ");
        match change.standing {
            Standing::Same => page.line(format_args!("  = {}", change.step)),
            Standing::New => page.line(format_args!("  + {}: new", change.step)),
            Standing::Behind => {
                page.line(format_args!("  ~ {}: behind {because}", change.step));
            }
            Standing::Changed if because.is_empty() => {
                page.line(format_args!("  ~ {}", change.step));
            }
            Standing::Changed => {
                page.line(format_args!("  ~ {}: behind {because}, and", change.step));
            }
        }
        for InputChange { input, before, after } in &change.inputs {
            match (before, after) {
                (Some(before), Some(after)) => {
                    page.line(format_args!(
                        "      {input}\n        was {before}\n        is  {after}"
                    ));
                }
                (Some(before), None) => page.line(format_args!("      {input} is gone: {before}")),
                (None, after) => {
                    let after = after.as_deref().unwrap_or_default();
                    page.line(format_args!("      {input} is new: {after}"));
                }
            }
        }
    }
    if report.steps.iter().all(|change| change.standing == Standing::Same) {
        page.line(format_args!("nothing changed: the same image"));
    }
    page.into_text()
}
