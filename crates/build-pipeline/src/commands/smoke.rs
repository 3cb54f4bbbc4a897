//! `build-pipeline smoke`: smoke-tests a track's image, level by level, each in its own container.

use failure::{Failure, Kind};
use host::run::Level;
use launch::prepare::Prepared;
use launch::smoke::{Asked, Outcome, SmokeReport, Tried, levels};

use crate::cli::{Format, LevelChoice, Smoke};
use crate::global;
use terminal::output;
use text::{Page, Tone};

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
        Format::Text => output::page(&text(&report))?,
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

fn text(report: &SmokeReport) -> Page {
    let mut page = Page::default();
    let gpu = if report.gpu { "with a GPU" } else { "without a GPU" };
    page.line(format_args!("{} on {}, {gpu}\n", report.image, report.engine));
    for tried in &report.levels {
        let (outcome, tone) = match tried.outcome {
            Outcome::Passed => ("ok", Tone::Good),
            Outcome::Failed => ("FAILED", Tone::Bad),
            Outcome::NotTried => ("-", Tone::Doubtful),
        };
        let software = if tried.software { " (on a software device)" } else { "" };
        page.column(outcome, tone, 7);
        page.line(format_args!(" {:8} {}{software}", tried.level.name(), tried.why));
        tried.output.iter().for_each(|line| page.line(format_args!("        | {line}")));
        for line in tried.kernel.iter().flatten() {
            page.line(format_args!("        kernel: {line}"));
        }
        for known in &tried.failures {
            page.line(format_args!("        known: {} [{}]", known.cause, known.name));
            known.fix.iter().for_each(|fix| page.line(format_args!("        fix    {fix}")));
        }
    }
    let of = |outcome| report.levels.iter().filter(|one| one.outcome == outcome).count();
    page.line(format_args!(
        "\n{} passed, {} failed, {} not run",
        of(Outcome::Passed),
        of(Outcome::Failed),
        of(Outcome::NotTried)
    ));
    page
}
