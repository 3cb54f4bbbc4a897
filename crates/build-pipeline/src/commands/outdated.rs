//! `build-pipeline outdated`: checks whether pinned inputs changed upstream. Changes no pin, but
//! records since when each pin has had its state.

use std::collections::BTreeMap;

use failure::{Failure, Kind};
use project::fetch;
use project::pins_file::{FILE, read};
use upkeep::outdated::{Class, Clients, OutdatedReport, PinReport, check, select};

use crate::cli::{Global, Outdated, OutdatedFormat};
use crate::global;
use terminal::output;
use text::annotations::{self, Annotation, Level};
use text::{Page, Tone, counted};

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Outdated) -> Result<(), Failure> {
    let project = global::project()?;
    let (file, mut pins) = read(&project.root)?;
    select(&mut pins, &args.pins)?;
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
        OutdatedFormat::Text => output::page(&text(&report))?,
        OutdatedFormat::Github => output::sanitised_result(&annotations(&report))?,
    }
    if report.worst >= Class::Unreachable && !hosts(&report).is_empty() {
        output::hint(
            "`build-pipeline outdated PIN --format json` shows why a host cannot be reached",
        );
    }
    match report.worst.kind() {
        Kind::ReaderLeft => Ok(()),
        kind => Err(Failure::told(kind)),
    }
}

fn text(report: &OutdatedReport) -> Page {
    let mut page = Page::default();
    let width = report.pins.iter().map(|one| one.pin.len()).max().unwrap_or(0);
    let class_column = |out: &mut Page, class: Class| {
        out.column(class.name(), tone(class), 12);
    };
    let is_asked = |one: &&PinReport| one.host.is_none() && one.class != Class::Current;
    for one in report.pins.iter().filter(is_asked) {
        class_column(&mut page, one.class);
        page.add(format_args!("{:width$}  {}", one.pin, one.detail));
        if one.class == Class::Held {
            page.line(format_args!(""));
        } else {
            page.line(format_args!(" (first seen {})", one.since));
        }
    }
    for (host, pins) in hosts(report) {
        class_column(&mut page, Class::Unreachable);
        let names: Vec<&str> = pins.iter().take(NAMED).map(|one| one.pin.as_str()).collect();
        let more = if pins.len() > NAMED { ", …" } else { "" };
        let noun = if pins.len() == 1 { "pin" } else { "pins" };
        page.line(format_args!("{host}: {} {noun} ({}{more})", pins.len(), names.join(", ")));
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
        Class::Held,
        Class::Current,
    ];
    let counts: Vec<String> = classes
        .into_iter()
        .filter(|class| count(*class) > 0)
        .map(|class| format!("{} {}", count(class), class.name()))
        .collect();
    page.line(format_args!("{}: {}", counted(report.pins.len(), "pin"), counts.join(", ")));
    page
}

/// The maximum number of pins that are listed for an unreachable host.
const NAMED: usize = 3;

/// Returns the hosts that could not be reached, with their pins.
fn hosts(report: &OutdatedReport) -> BTreeMap<&str, Vec<&PinReport>> {
    let mut hosts: BTreeMap<&str, Vec<&PinReport>> = BTreeMap::new();
    for one in &report.pins {
        if let Some(host) = &one.host {
            hosts.entry(host).or_default().push(one);
        }
    }
    hosts
}

fn tone(class: Class) -> Tone {
    match level(class) {
        Level::Notice if class == Class::Current => Tone::Good,
        Level::Notice | Level::Warning => Tone::Doubtful,
        Level::Error => Tone::Bad,
    }
}

fn annotations(report: &OutdatedReport) -> String {
    let is_worth = |one: &&PinReport| one.class > Class::Held;
    let worth = report.pins.iter().filter(is_worth);
    let marks = worth.map(|one| Annotation {
        level: level(one.class),
        file: FILE,
        line: one.line,
        title: format!("pin {} {}", one.pin, one.class.name()),
        message: format!("{} (first seen {})", one.detail, one.since),
    });
    // Somebody who reads only one line should see the worst finding.
    let first = report.pins.first().filter(|one| one.class >= Class::Expired);
    let first = first.map(|one| format!("pin {} {}: {}\n", one.pin, one.class.name(), one.detail));
    first.unwrap_or_default() + &annotations::lines(marks)
}

/// Returns the annotation level for a class.
fn level(class: Class) -> Level {
    match class {
        Class::Current | Class::Held | Class::Newer => Level::Notice,
        Class::Unresolved | Class::Unreachable => Level::Warning,
        Class::Expired | Class::Moved | Class::Rewritten | Class::Yanked | Class::Vanished => {
            Level::Error
        }
    }
}
