//! `build-pipeline outdated`: checks whether pinned inputs changed upstream. Changes no pin, but
//! records since when each pin has had its state.

use failure::{Failure, Kind};
use project::fetch;
use project::pins_file::read;
use upkeep::outdated::{Class, Clients, check, select};

use crate::cli::{Global, Outdated, OutdatedFormat};
use crate::global;
use terminal::output;

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Outdated) -> Result<(), Failure> {
    let project = global::project()?;
    let (file, own) = read(&project.root)?;
    let pins = select(&project, &own, &args.pins)?;
    let index = fetch::index(args.index.url.as_deref());
    let clients = Clients {
        // The report lists the hosts that cannot be reached, so retries need no messages.
        sources: fetch::sources(&global.mirror, |_| {})?,
        client: global::registry(global)?,
        index: index.map_err(|error| error.lines().join(": ")),
    };
    let report = check(&file, &pins, clients, output::warn)?;
    match args.format {
        OutdatedFormat::Json => output::json(&report)?,
        OutdatedFormat::Text => output::page(&report.page())?,
        OutdatedFormat::Github => output::sanitised_result(&report.annotations())?,
    }
    if report.pins.is_empty() {
        output::hint(
            "neither the project's versions.toml nor its tracks have pins; `build-pipeline outdated PIN` checks a built-in pin",
        );
    }
    if report.worst >= Class::Unreachable && !report.hosts().is_empty() {
        output::hint(
            "`build-pipeline outdated PIN --format json` shows why a host cannot be reached",
        );
    }
    match report.worst.kind() {
        Kind::ReaderLeft => Ok(()),
        kind => Err(Failure::told(kind)),
    }
}
