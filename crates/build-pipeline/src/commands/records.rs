//! `build-pipeline records`: prints past builds and their results, and removes old records.

use std::path::{Path, PathBuf};

use failure::{Failure, Kind};
use names::Digest;
use project::history::{ListedRecord, list, mark_killed, page};
use project::kinds::explained;
use project::recipe;
use project::state::{self, Old};
use record::{BuildRecord, SbomError};

use crate::cli::{Prune, RecordFormat, Records, RecordsCommand};
use crate::global;
use terminal::output;
use text::{Page, counted};

/// Lists the records, shows one, or removes old ones.
pub(crate) fn run(args: &Records) -> Result<(), Failure> {
    let mut records = state::read_records(output::warn)?;
    if let Some(RecordsCommand::Prune(args)) = &args.command {
        return prune(&records, args);
    }
    mark_killed(&mut records);
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
        let newest = records.len().saturating_sub(args.limit.unwrap_or(usize::MAX));
        let listed: Vec<ListedRecord<'_>> =
            records.iter().skip(newest).map(ListedRecord::of).collect();
        return match args.format {
            RecordFormat::Json => output::json(&listed),
            RecordFormat::Text if listed.is_empty() => {
                output::say("no builds yet");
                Ok(())
            }
            RecordFormat::Text => output::page(&list(&listed)),
            RecordFormat::Slsa => Err(unnamed("slsa")),
            RecordFormat::Cyclonedx => Err(unnamed("cyclonedx")),
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
        [] => {
            let told = Failure::new(Kind::Input, format!("there is no record `{wanted}`"))
                .hint("`build-pipeline records` lists all records");
            Err(explained(told, Path::new(wanted.as_str()), wanted))
        }
        several => Err(Failure::new(
            Kind::Input,
            format!("{} records have names that begin or end with `{wanted}`", several.len()),
        )
        .hint(format!("write the full name, for example `{}`", several[several.len() - 1].id))),
    }
}

fn show(record: &BuildRecord, format: RecordFormat) -> Result<(), Failure> {
    match format {
        RecordFormat::Json => output::json(record),
        RecordFormat::Text => output::page(&page(record)),
        RecordFormat::Slsa => match record.provenance() {
            Some(statement) => output::json(&statement),
            None => Err(missing(record, &SbomError::NoImage(record.id.clone()))),
        },
        RecordFormat::Cyclonedx => {
            let here = global::project().map_or_else(|_| PathBuf::from("."), |found| found.root);
            let text = |path: &str, digest: &Digest| recipe::text_of(record, &here, path, digest);
            output::json(&record.sbom(text).map_err(|error| missing(record, &error))?)
        }
    }
}

/// Returns the failure for a record that cannot be written in a format.
fn missing(record: &BuildRecord, error: &SbomError) -> Failure {
    let told = Failure::from_chain(Kind::Input, error);
    match (error, &record.recipe.commit) {
        (SbomError::NoImage(_), _) => told
            .hint("only a run that succeeded has provenance and an SBOM; `records` lists the runs"),
        (SbomError::NoLock { path, digest }, commit) => {
            let from = commit.as_ref().map_or_else(String::new, |one| {
                format!("; the newest commit of the run's files is {one}")
            });
            told.hint(format!(
                "restore `{path}` with the hash {digest}, or build the image again{from}"
            ))
        }
        (SbomError::PackageLock { .. } | SbomError::PythonLock { .. }, _) => {
            told.hint("`build-pipeline lock` writes the lock again; then build the image again")
        }
    }
}

/// Returns the failure for a format of one record, if no record is named.
fn unnamed(format: &str) -> Failure {
    let message = format!("`--format {format}` writes one record, and none is named");
    Failure::new(Kind::Input, message).hint("name a record, or write `--last` for the newest one")
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
