//! `build-pipeline diagnose`: finds known failures in a log.

use std::fs::File;
use std::io;
use std::path::Path;

use failure::{Failure, Kind};
use host::failures::{Assessment, Diagnoses, Diagnosis, Failures, LogText, NotText};
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
        read(&failures, io::stdin().lock())
    } else {
        File::open(&log).and_then(|file| read(&failures, file))
    };
    let found = found.map_err(unread)?.map_err(|what| not_text(what, args, &named()))?;
    let report = DiagnoseReport::from(&found);
    match args.format {
        Format::Text => output::page(&report.page())?,
        Format::Json => output::json(&report)?,
    }
    if found.has_failure() { Err(Failure::told(Kind::Failed)) } else { Ok(()) }
}

/// Reads a log to its end, unless it is not text.
fn read(failures: &Failures, log: impl io::Read) -> io::Result<Result<Diagnoses<'_>, NotText>> {
    match LogText::new(log)? {
        Ok(text) => failures.diagnose(text).map(Ok),
        Err(other) => Ok(Err(other)),
    }
}

/// Returns the failure for a log that is not text.
fn not_text(what: NotText, args: &Diagnose, named: &str) -> Failure {
    match what {
        NotText::Compressed { format, program } => {
            let file = args.log.to_str().filter(|name| *name != "-").unwrap_or("FILE");
            let file = host::shell_word(file);
            let told = Failure::new(Kind::Input, format!("`{named}` is compressed with {format}"));
            told.hint(format!("unpack it: `{program} {file} | build-pipeline diagnose -`"))
        }
        NotText::Binary => {
            Failure::new(Kind::Input, format!("`{named}` contains binary data, not text"))
                .hint("pass the log of a build or a run as text, or `-` for standard input")
        }
    }
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
