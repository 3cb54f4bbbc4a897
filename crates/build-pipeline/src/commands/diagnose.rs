//! `build-pipeline diagnose`: finds known failures in a log.

use std::fs::File;
use std::io;
use std::path::Path;

use failure::{Failure, Kind};
use host::failures::{Assessment, Diagnoses, Diagnosis};
use launch::known::DiagnoseReport;
use project::kinds::{PathKind, refuse_others};

use crate::cli::{Diagnose, Format};
use crate::global::{self, working_folder};
use terminal::output;

/// Reads the log and prints the known failures in it.
pub(crate) fn run(args: &Diagnose) -> Result<(), Failure> {
    let failures = global::data()?.failures()?;
    let is_input = args.log == Path::new("-");
    let log = working_folder()?.join(&args.log);
    let named = || if is_input { "standard input".to_owned() } else { log.display().to_string() };
    if !is_input {
        refuse_others(&log, &args.log.display().to_string(), "a log", &[PathKind::Log])?;
    }
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
    let report = DiagnoseReport::from(&found);
    match args.format {
        Format::Text => output::page(&report.page())?,
        Format::Json => output::json(&report)?,
    }
    if found.has_failure() { Err(Failure::told(Kind::Failed)) } else { Ok(()) }
}

/// Prints the known failures in the output of another command, and an assessment, if there are any.
/// The commands of this program are about AMD GPUs, whether their output names one or not.
pub(crate) fn offer(found: &Diagnoses<'_>) {
    let failures = found.found.iter().filter(|one| !one.failure.is_harmless);
    let failures = failures.chain(&found.possible);
    for Diagnosis { failure, cause, fix, lines, .. } in failures {
        output::known_failure(&failure.name, cause, lines.first().map(|line| line.text.as_str()));
        fix.iter().for_each(|one| output::advise(one));
    }
    if let Some(Assessment { kind, what, lines, fix, more, .. }) = &found.assessment {
        output::assessment(kind, what, lines.first().map(|line| line.text.as_str()));
        fix.iter().chain(more).for_each(|one| output::advise(one));
    }
}
