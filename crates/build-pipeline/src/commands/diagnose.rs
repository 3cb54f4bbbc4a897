//! `build-pipeline diagnose`: known failures in a log.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use host::failures::{Diagnoses, Diagnosis};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::{Format, Global};
use crate::error::CommandError;
use crate::exit_code::ExitCode;
use crate::machine::Data;
use crate::output::{self, Page};
use crate::working_folder;

/// Recognise known failures in a log
#[derive(Debug, Args)]
#[command(
    after_help = "Ends with 1 where the log shows a known failure, with 0 where it shows none. versions/failures.toml has what is known."
)]
pub(crate) struct Diagnose {
    /// The log of a build or a run; `-` or nothing for standard input
    #[arg(value_name = "LOG", default_value = "-")]
    log: PathBuf,
    /// The form of the report
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// What `diagnose --format json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DiagnoseReport {
    /// The number of this JSON form.
    schema: u32,
    /// How many lines the log has.
    lines: u64,
    /// How many bytes the log has.
    bytes: u64,
    /// The failures it shows, the first first.
    failures: Vec<Known>,
}

/// A known failure.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Known {
    /// Its name.
    pub(crate) name: String,
    /// What happened.
    pub(crate) cause: String,
    /// What to do, in order of promise.
    pub(crate) fix: Vec<String>,
    /// Where that was read.
    evidence: String,
    /// How many lines show it.
    count: u64,
    /// The first lines that show it.
    lines: Vec<Line>,
}

/// A line of the log.
#[derive(Debug, Serialize, JsonSchema)]
struct Line {
    /// Its number, from 1.
    number: u64,
    /// Its text, cut where it is long.
    text: String,
}

/// Reads the log and prints what it shows.
pub(crate) fn run(global: &Global, args: &Diagnose) -> Result<(), CommandError> {
    let failures = Data::find(global)?.failures()?;
    let is_input = args.log == Path::new("-");
    let log = working_folder(global)?.join(&args.log);
    let named = || if is_input { "standard input".to_owned() } else { log.display().to_string() };
    let unread = |error: io::Error| {
        let told =
            CommandError::caused(ExitCode::Input, format!("reading `{}` failed", named()), &error);
        told.hint("name the log of a build or a run, or `-` for standard input")
    };
    let found = match is_input {
        true => failures.diagnose(io::stdin().lock()),
        false => File::open(&log).and_then(|file| failures.diagnose(file)),
    }
    .map_err(unread)?;
    match args.format {
        Format::Text => output::sanitised_result(&text(&found))?,
        Format::Json => output::json(&DiagnoseReport {
            schema: 1,
            lines: found.lines,
            bytes: found.bytes,
            failures: found.found.iter().map(known).collect(),
        })?,
    }
    match found.found.is_empty() {
        true => Ok(()),
        false => Err(CommandError::told(ExitCode::Failed)),
    }
}

/// Says which known failures something showed that was run for another purpose; nothing where it
/// shows none.
pub(crate) fn offer(found: &Diagnoses<'_>) {
    for Diagnosis { failure, lines, .. } in &found.found {
        output::known_failure(
            &failure.name,
            &failure.cause,
            lines.first().map(|line| line.text.as_str()),
        );
        failure.fix.iter().for_each(|fix| output::hint(fix));
    }
}

fn text(found: &Diagnoses<'_>) -> String {
    let mut page = Page::default();
    for Diagnosis { failure, lines, count } in &found.found {
        page.line(format_args!("{}: {}", failure.name, failure.cause));
        for line in lines {
            page.line(format_args!("  line {}: {}", line.number, line.text));
        }
        if *count > lines.len() as u64 {
            page.line(format_args!("  in {count} lines"));
        }
        for (index, fix) in failure.fix.iter().enumerate() {
            let head = if index == 0 { "fix" } else { "" };
            page.line(format_args!("  {head:7} {fix}"));
        }
        page.line(format_args!("  source  {}\n", failure.evidence));
    }
    let lines = found.lines;
    match found.found.len() {
        0 => page.line(format_args!("no known failure in {lines} lines")),
        1 => page.line(format_args!("1 known failure in {lines} lines")),
        many => page.line(format_args!("{many} known failures in {lines} lines")),
    }
    page.into_text()
}

pub(crate) fn known(diagnosis: &Diagnosis<'_>) -> Known {
    let Diagnosis { failure, lines, count } = diagnosis;
    Known {
        name: failure.name.clone(),
        cause: failure.cause.clone(),
        fix: failure.fix.clone(),
        evidence: failure.evidence.clone(),
        count: *count,
        lines: lines
            .iter()
            .map(|line| Line { number: line.number, text: line.text.clone() })
            .collect(),
    }
}
