//! `build-pipeline smoke`: smoke-tests a track's image, level by level, each in its own container.

use failure::{Failure, Kind};
use host::run::Level;
use launch::prepare::Prepared;
use launch::smoke::{Asked, Outcome, Tried, levels};

use crate::cli::{Format, LevelChoice, Smoke};
use crate::global;
use terminal::output;

fn level(choice: LevelChoice) -> Level {
    match choice {
        LevelChoice::Import => Level::Import,
        LevelChoice::Device => Level::Device,
        LevelChoice::Compute => Level::Compute,
        LevelChoice::Serve => Level::Serve,
    }
}

/// Runs the levels and reports the results.
pub(crate) fn run(args: &Smoke) -> Result<(), Failure> {
    let here = global::working_folder()?;
    let wanted = global::container(&args.given, None);
    let asked = Asked { level: args.level.map(level), model: args.model.clone() };
    let report = project::runtime::start()?.block_on(async {
        let prepared = Prepared::read(&here, &args.track, &wanted, true, &output::notice).await?;
        prepared.check_project().await?;
        levels(&here, prepared, &asked).await
    })?;
    match args.format {
        Format::Text => output::page(&report.page())?,
        Format::Json => output::json(&report)?,
    }
    let is_tried = |tried: &Tried| tried.outcome != Outcome::NotTried;
    match asked.level {
        _ if !report.passed => Err(Failure::told(Kind::Failed)),
        Some(level) if !report.levels.iter().any(|one| one.level == level && is_tried(one)) => {
            Err(Failure::told(Kind::Machine))
        }
        _ => Ok(()),
    }
}
