//! The report as text and as annotations for GitHub.

use std::collections::BTreeMap;

use project::pins_file::FILE;
use text::annotations::{self, Annotation, Level};
use text::{Page, Tone, counted};

use super::{Class, OutdatedReport, PinReport};

/// The maximum number of pins that are listed for an unreachable host.
const NAMED: usize = 3;

impl OutdatedReport {
    /// Returns the report as text, worst pins first.
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        let width = self.pins.iter().map(|one| one.pin.len()).max().unwrap_or(0);
        let class_column = |out: &mut Page, class: Class| {
            out.column(class.name(), tone(class), 12);
        };
        let is_asked = |one: &&PinReport| one.host.is_none() && one.class != Class::Current;
        for one in self.pins.iter().filter(is_asked) {
            class_column(&mut page, one.class);
            page.add(format_args!("{:width$}  {}", one.pin, one.detail));
            if one.class == Class::Held {
                page.line(format_args!(""));
            } else {
                page.line(format_args!(" (first seen {})", one.since));
            }
        }
        for (host, pins) in self.hosts() {
            class_column(&mut page, Class::Unreachable);
            let names: Vec<&str> = pins.iter().take(NAMED).map(|one| one.pin.as_str()).collect();
            let more = if pins.len() > NAMED { ", …" } else { "" };
            let noun = if pins.len() == 1 { "pin" } else { "pins" };
            page.line(format_args!("{host}: {} {noun} ({}{more})", pins.len(), names.join(", ")));
        }
        let count = |class| self.pins.iter().filter(|one| one.class == class).count();
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
        let colon = if counts.is_empty() { "" } else { ": " };
        let pins = counted(self.pins.len(), "pin");
        page.line(format_args!("{pins}{colon}{}", counts.join(", ")));
        page
    }

    /// Returns the lines that annotate the pins in the log of a workflow.
    pub fn annotations(&self) -> String {
        let is_worth = |one: &&PinReport| one.class > Class::Held;
        let worth = self.pins.iter().filter(is_worth);
        let marks = worth.map(|one| Annotation {
            level: level(one.class),
            file: FILE,
            line: one.line,
            title: format!("pin {} {}", one.pin, one.class.name()),
            message: format!("{} (first seen {})", one.detail, one.since),
        });
        // Somebody who reads only one line should see the worst finding.
        let first = self.pins.first().filter(|one| one.class >= Class::Expired);
        let first =
            first.map(|one| format!("pin {} {}: {}\n", one.pin, one.class.name(), one.detail));
        first.unwrap_or_default() + &annotations::lines(marks)
    }

    /// Returns the hosts that could not be reached, with their pins.
    pub fn hosts(&self) -> BTreeMap<&str, Vec<&PinReport>> {
        let mut hosts: BTreeMap<&str, Vec<&PinReport>> = BTreeMap::new();
        for one in &self.pins {
            if let Some(host) = &one.host {
                hosts.entry(host).or_default().push(one);
            }
        }
        hosts
    }
}

/// Returns the tone of a class.
fn tone(class: Class) -> Tone {
    match level(class) {
        Level::Notice if class == Class::Current => Tone::Good,
        Level::Notice | Level::Warning => Tone::Doubtful,
        Level::Error => Tone::Bad,
    }
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
