//! `build-pipeline records`: what was built, when, and what became of it.

use record::{BuildRecord, Status};

use crate::cli::{Format, Records};
use crate::error::CommandError;
use crate::exit_code::ExitCode;
use crate::{output, state};

/// Lists the records, or shows one.
pub(crate) fn run(args: &Records) -> Result<(), CommandError> {
    let records = state::read_records()?;
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
        ([], _) => {
            Err(CommandError::new(ExitCode::Input, format!("there is no record `{wanted}`"))
                .hint("`build-pipeline records` lists them"))
        }
        (several, _) => Err(CommandError::new(
            ExitCode::Input,
            format!("{} records begin or end with `{wanted}`", several.len()),
        )
        .hint(format!("name one in full, for example `{}`", several[several.len() - 1].id))),
    }
}

fn list(records: &[BuildRecord]) -> Result<(), CommandError> {
    if records.is_empty() {
        output::say("nothing was built yet");
        return Ok(());
    }
    let mut out = String::new();
    for record in records {
        let digest = record.image.as_ref().map_or("-", |image| image.manifest_digest.short());
        out.push_str(&format!("{}  {:11}  {}\n", record.id, status(record), digest));
    }
    output::sanitised_result(&out)
}

/// Returns how a run stands; one that never ended and whose process is gone was killed.
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
    let mut out =
        format!("{}\n  status   {}\n  began    {}\n", record.id, status(record), record.began);
    if let Some(ended) = &record.ended {
        out.push_str(&format!("  ended    {ended}\n"));
    }
    out.push_str(&format!(
        "  command  {}\n  plan     {}\n",
        record.command.join(" "),
        record.plan_digest
    ));
    for (name, value) in &record.plan.pins {
        out.push_str(&format!("  pin      {name} = {value}\n"));
    }
    if let Some(image) = &record.image {
        out.push_str(&format!(
            "  digest   {}\n  image ID {}\n",
            image.manifest_digest, image.config_digest
        ));
    }
    for outcome in &record.outputs {
        out.push_str(
            &format!("  output   {} ({:?})\n", outcome.output, outcome.state).to_lowercase(),
        );
    }
    for step in &record.steps {
        out.push_str(
            &format!("  step     {} ({:?}, {} ms)\n", step.step, step.state, step.milliseconds)
                .to_lowercase(),
        );
    }
    for line in &record.error {
        out.push_str(&format!("  error    {line}\n"));
    }
    for warning in &record.warnings {
        out.push_str(&format!("  warning  {warning}\n"));
    }
    out
}
