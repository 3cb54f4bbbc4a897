//! `build-pipeline diagnose`: finds known failures in a log.

use std::fs::File;
use std::io;
use std::path::Path;

use failure::{Failure, Kind};
use host::failures::{Diagnoses, Diagnosis};
use launch::known::Known;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::{Diagnose, Format};
use crate::global::{self, working_folder};
use terminal::output;
use text::{Page, counted};

/// The output of `diagnose --format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DiagnoseReport {
    /// The version of this JSON format.
    schema: u32,
    /// The number of lines in the log.
    lines: u64,
    /// The size of the log in bytes.
    bytes: u64,
    /// The failures in the log, in order of appearance.
    failures: Vec<Known>,
}

/// Reads the log and prints the known failures in it.
pub(crate) fn run(args: &Diagnose) -> Result<(), Failure> {
    let failures = global::data()?.failures()?;
    let is_input = args.log == Path::new("-");
    let log = working_folder()?.join(&args.log);
    let named = || if is_input { "standard input".to_owned() } else { log.display().to_string() };
    let unread = |error: io::Error| {
        let told = Failure::caused(Kind::Input, format!("reading `{}` failed", named()), &error);
        told.hint("pass the log of a build or a run, or `-` for standard input")
    };
    let found = if is_input {
        failures.diagnose(io::stdin().lock())
    } else {
        File::open(&log).and_then(|file| failures.diagnose(file))
    }
    .map_err(unread)?;
    match args.format {
        Format::Text => output::sanitised_result(&text(&found))?,
        Format::Json => output::json(&DiagnoseReport {
            schema: 1,
            lines: found.lines,
            bytes: found.bytes,
            failures: found.found.iter().map(Known::from).collect(),
        })?,
    }
    if found.has_failure() { Err(Failure::told(Kind::Failed)) } else { Ok(()) }
}

/// Prints the known failures in the output of another command, if there are any.
pub(crate) fn offer(found: &Diagnoses<'_>) {
    let failures = found.found.iter().filter(|one| !one.failure.is_harmless);
    for Diagnosis { failure, lines, .. } in failures {
        output::known_failure(
            &failure.name,
            &failure.cause,
            lines.first().map(|line| line.text.as_str()),
        );
        failure.fix.iter().for_each(|fix| output::advise(fix));
    }
}

fn text(found: &Diagnoses<'_>) -> String {
    let mut page = Page::default();
    for Diagnosis { failure, lines, count } in &found.found {
        let harmless = if failure.is_harmless { " (harmless)" } else { "" };
        page.line(format_args!("{}{harmless}: {}", failure.name, failure.cause));
        for line in lines {
            page.line(format_args!("  line {}: {}", line.number, line.text));
        }
        if *count > lines.len() as u64 {
            page.line(format_args!("  in {}", counted(*count, "line")));
        }
        for (index, fix) in failure.fix.iter().enumerate() {
            let head = if index == 0 { "fix" } else { "" };
            page.line(format_args!("  {head:7} {fix}"));
        }
        page.line(format_args!("  known   {}", failure.known));
        let read = failure.checked.as_ref().map_or_else(String::new, |day| format!(" ({day})"));
        page.line(format_args!("  source  {}{read}\n", failure.evidence));
    }
    let lines = counted(found.lines, "line");
    match found.found.iter().filter(|one| !one.failure.is_harmless).count() {
        0 => page.line(format_args!("no known failure in {lines}")),
        count => page.line(format_args!("{} in {lines}", counted(count, "known failure"))),
    }
    page.into_text()
}
