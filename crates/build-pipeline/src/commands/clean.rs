//! `build-pipeline clean`: cleans up after interrupted runs, in engines and on disk.

use failure::{Failure, Kind};
use launch::clean::{Asked, State, clean};

use crate::cli::{Clean, Format, Only};
use terminal::output;

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
        Format::Text => output::page(&report.page())?,
    }
    if report.found.iter().any(|one| one.state == State::Kept) || !report.unanswered.is_empty() {
        Err(Failure::told(Kind::Failed))
    } else {
        Ok(())
    }
}
