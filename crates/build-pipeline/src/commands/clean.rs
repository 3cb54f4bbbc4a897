//! `build-pipeline clean`: cleans up after interrupted runs, in engines and on disk.

use failure::{Failure, Kind};
use launch::clean::{Asked, CleanReport, State, clean};

use crate::cli::{Clean, Format, Only};
use terminal::output;
use text::{Page, size};

/// Finds leftovers, removes them, and reports the result.
pub(crate) fn run(args: &Clean) -> Result<(), Failure> {
    let asked = Asked {
        in_engines: args.engine != Some(Only::None),
        engine: match args.engine {
            Some(Only::Engine(kind)) => Some(kind),
            Some(Only::None) | None => None,
        },
        is_dry: args.dry_run,
        takes_cache: args.cache,
    };
    let report = clean(&asked, output::warn)?;
    match args.format {
        Format::Json => output::json(&report)?,
        Format::Text => output::sanitised_result(&page(&report))?,
    }
    if report.found.iter().any(|one| one.state == State::Kept) || !report.unanswered.is_empty() {
        Err(Failure::told(Kind::Failed))
    } else {
        Ok(())
    }
}

fn page(report: &CleanReport) -> String {
    let mut page = Page::default();
    for one in &report.unanswered {
        page.line(format_args!("cannot query {}: {}", one.engine, one.reason));
    }
    let headed = [
        (State::Removed, "removed"),
        (State::Found, "would be removed"),
        (State::UnderWay, "not touched, because its run is still in progress"),
        (State::Kept, "could not be removed"),
    ];
    for (state, heading) in headed {
        let mut found = report.found.iter().filter(|one| one.state == state).peekable();
        if found.peek().is_some() {
            page.line(format_args!("{heading}:"));
        }
        for one in found {
            let engine = one.engine.as_deref().map(|name| format!("{name}: "));
            let run = one.run.as_deref().map(|run| format!(", of {run}"));
            let bytes = one.bytes.map(|bytes| format!(", {}", size(bytes)));
            page.line(format_args!(
                "  {}{} {}{}{}",
                engine.unwrap_or_default(),
                one.kind.word(),
                one.name,
                run.unwrap_or_default(),
                bytes.unwrap_or_default(),
            ));
            if let Some(reason) = &one.reason {
                page.line(format_args!("    {reason}"));
            }
        }
    }
    if report.build_cache > 0 {
        page.line(format_args!(
            "docker's BuildKit has a cache of {}, and does not record which program filled it; `docker builder prune` removes it",
            size(report.build_cache),
        ));
    }
    let of = |state| report.found.iter().filter(|one| one.state == state).count();
    let (count, verb) = if report.dry_run {
        (of(State::Found), "would be removed")
    } else {
        (of(State::Removed), "removed")
    };
    let place = match report.engines.as_slice() {
        [] => "on disk".to_owned(),
        engines => format!("in {} and on disk", engines.join(", ")),
    };
    if count == 0 {
        page.line(format_args!("nothing to remove ({place})"));
    } else {
        let bytes = size(report.bytes);
        page.line(format_args!("{count} {verb}, {bytes} ({place})"));
    }
    page.into_text()
}
