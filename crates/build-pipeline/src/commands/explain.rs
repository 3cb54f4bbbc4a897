//! `build-pipeline explain`: explains a `lint` rule, or why a track needs a rebuild.

use failure::{Failure, Kind};
use project::prepare::prepare;
use project::request::Subject;
use project::state;
use record::{BuildRecord, InputChange, Standing, Status, StepChange, step_changes};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::{Explain, Format, Global};
use crate::commands::lint;
use crate::global;
use terminal::output;
use text::Page;

/// The version of the JSON format.
const SCHEMA: u32 = 1;

/// The differences between a track's current plan and its last build.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExplainReport {
    /// The version of this JSON format.
    schema: u32,
    /// The name of the image.
    name: String,
    /// The record of the last successful build; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<String>,
    /// The steps of the current plan, in order.
    steps: Vec<StepChange>,
}

/// Runs `explain`.
pub(crate) fn run(global: &Global, args: &Explain) -> Result<(), Failure> {
    let name = args.name.as_deref();
    // Explaining a rule needs no project.
    if name.is_none_or(|name| ::lint::rule(name).is_some()) {
        if args.format == Format::Json {
            let what = "`explain --format json` describes a track, not a rule";
            return Err(
                Failure::new(Kind::Input, what).hint("pass a track, or leave out `--format`")
            );
        }
        return lint::explain(name, None);
    }
    let project = global::project();
    // Outside a project, the tracks are the built-in ones.
    let tracks = match &project {
        Ok(project) => project.tracks()?,
        Err(_) => global::data()?.tracks()?,
    };
    let Some(track) = name.and_then(|name| tracks.find(name)) else {
        return lint::explain(name, Some(&tracks));
    };
    let subject = Subject {
        tracks: vec![track.to_string()],
        variant: args.variant.clone(),
        rehearse: args.rehearse,
        ..Subject::default()
    };
    let project = project?;
    for planned in prepare(&global.mirror, &project, &subject)?.plans {
        let records = state::read_records_of(&project.root, output::warn)?;
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
        page.line(format_args!("{}: there is no record of a successful build", report.name));
        return page.into_text();
    };
    page.line(format_args!("{} compared with record {record}", report.name));
    for change in &report.steps {
        let because = change.because.join(", ");
        match change.standing {
            Standing::Same => page.line(format_args!("  = {}", change.step)),
            Standing::New => page.line(format_args!("  + {}: new", change.step)),
            Standing::Behind => {
                page.line(format_args!("  ~ {}: depends on {because}", change.step));
            }
            Standing::Changed if because.is_empty() => {
                page.line(format_args!("  ~ {}", change.step));
            }
            Standing::Changed => {
                page.line(format_args!(
                    "  ~ {}: depends on {because}, and its own inputs changed:",
                    change.step
                ));
            }
        }
        for InputChange { input, before, after } in &change.inputs {
            match (before, after) {
                (Some(before), Some(after)) => {
                    page.line(format_args!(
                        "      {input}\n        was {before}\n        is  {after}"
                    ));
                }
                (Some(before), None) => {
                    page.line(format_args!("      {input} was removed: {before}"));
                }
                (None, after) => {
                    let after = after.as_deref().unwrap_or_default();
                    page.line(format_args!("      {input} is new: {after}"));
                }
            }
        }
    }
    if report.steps.iter().all(|change| change.standing == Standing::Same) {
        page.line(format_args!("nothing changed: the image is the same"));
    }
    page.into_text()
}
