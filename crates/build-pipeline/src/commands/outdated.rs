//! `build-pipeline outdated`: checks whether pinned inputs changed upstream. Changes nothing.

use failure::{Failure, Kind};
use project::fetch;
use project::pins_file::{FILE, read};
use upkeep::outdated::{Class, Clients, OutdatedReport, check, select};

use crate::annotations::{self, Annotation, Level};
use crate::cli::{Global, Outdated, OutdatedFormat};
use crate::global;
use crate::output::{self, Page};

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Outdated) -> Result<(), Failure> {
    let project = global::project(global)?;
    let (text, mut pins) = read(&project.root.join(FILE))?;
    select(&mut pins, &args.pins)?;
    let index = fetch::index(args.index.url.as_deref());
    let clients = Clients {
        sources: global::sources(global)?,
        client: global::registry(global)?,
        index: index.map_err(|error| error.lines().join(": ")),
    };
    let report = check(&text, &pins, clients, output::warn)?;
    match args.format {
        OutdatedFormat::Json => output::json(&report)?,
        OutdatedFormat::Text => output::sanitised_result(&self::text(&report))?,
        OutdatedFormat::Github => output::sanitised_result(&annotations(&report))?,
    }
    match report.worst.kind() {
        Kind::ReaderLeft => Ok(()),
        kind => Err(Failure::told(kind)),
    }
}

fn text(report: &OutdatedReport) -> String {
    let mut page = Page::default();
    let width = report.pins.iter().map(|one| one.pin.len()).max().unwrap_or(0);
    for one in report.pins.iter().filter(|one| one.class != Class::Current) {
        page.line(format_args!(
            "{:11} {:width$}  {} (since {})",
            one.class.name(),
            one.pin,
            one.detail,
            one.since
        ));
    }
    let count = |class| report.pins.iter().filter(|one| one.class == class).count();
    let classes = [
        Class::Vanished,
        Class::Yanked,
        Class::Rewritten,
        Class::Moved,
        Class::Expired,
        Class::Unreachable,
        Class::Unresolved,
        Class::Newer,
        Class::Current,
    ];
    let counts: Vec<String> = classes
        .into_iter()
        .filter(|class| count(*class) > 0)
        .map(|class| format!("{} {}", count(class), class.name()))
        .collect();
    page.line(format_args!("{} pins: {}", report.pins.len(), counts.join(", ")));
    page.into_text()
}

fn annotations(report: &OutdatedReport) -> String {
    let worth = report.pins.iter().filter(|one| one.class != Class::Current);
    let marks = worth.map(|one| Annotation {
        level: level(one.class),
        file: FILE,
        line: one.line,
        title: format!("pin {} {}", one.pin, one.class.name()),
        message: format!("{} (since {})", one.detail, one.since),
    });
    // Somebody who reads only one line should see the worst finding.
    let first = report.pins.first().filter(|one| one.class >= Class::Expired);
    let first = first.map(|one| format!("pin {} {}: {}\n", one.pin, one.class.name(), one.detail));
    first.unwrap_or_default() + &annotations::lines(marks)
}

/// Returns how an annotation marks a state.
fn level(class: Class) -> Level {
    match class {
        Class::Current | Class::Newer => Level::Notice,
        Class::Unresolved | Class::Unreachable => Level::Warning,
        Class::Expired | Class::Moved | Class::Rewritten | Class::Yanked | Class::Vanished => {
            Level::Error
        }
    }
}
