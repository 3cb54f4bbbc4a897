//! `build-pipeline outdated`: checks whether pinned inputs changed upstream. Changes nothing.

mod ask;
mod history;

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use failure::{Failure, Kind};
use names::PinName;
use pins::{PinKind, Pins};
use project::clock::today;
use project::pins_file::{FILE, pin_name, read};
use project::{fetch, registry};
use schemars::JsonSchema;
use serde::Serialize;

use self::ask::Asked;
use self::history::History;
use crate::annotations;
use crate::annotations::{Annotation, Level};
use crate::cli::Global;
use crate::commands::bump::args::Index;
use crate::global;
use crate::output::{self, Page};

/// Check whether pinned inputs changed upstream: newer, moved, rewritten, yanked, vanished
#[derive(Debug, Args)]
pub(crate) struct Outdated {
    /// Check only these pins
    #[arg(value_name = "PIN")]
    pins: Vec<String>,
    /// Output format; github annotates the pins in a workflow's log
    #[arg(long, value_enum, default_value_t = OutdatedFormat::Text)]
    format: OutdatedFormat,
    #[command(flatten)]
    index: Index,
}

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OutdatedFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// Annotations of a GitHub workflow
    Github,
}

/// The state of a pin, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Class {
    /// The pin is unchanged and the newest.
    Current,
    /// A newer release exists, or the branch moved ahead.
    Newer,
    /// Its value is not known yet.
    Unresolved,
    /// Its source could not be asked.
    Unreachable,
    /// It is past its `expires`.
    Expired,
    /// Its tag or release changed.
    Moved,
    /// Its branch no longer contains the commit.
    Rewritten,
    /// The release was yanked.
    Yanked,
    /// It no longer exists.
    Vanished,
}

impl Class {
    fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Newer => "newer",
            Self::Unresolved => "unresolved",
            Self::Unreachable => "unreachable",
            Self::Expired => "expired",
            Self::Moved => "moved",
            Self::Rewritten => "rewritten",
            Self::Yanked => "yanked",
            Self::Vanished => "vanished",
        }
    }

    fn code(self) -> Kind {
        match self {
            Self::Current => Kind::ReaderLeft,
            Self::Newer => Kind::Newer,
            Self::Unresolved => Kind::Unresolved,
            Self::Unreachable => Kind::Network,
            Self::Expired => Kind::Expired,
            Self::Moved => Kind::Moved,
            Self::Rewritten => Kind::Rewritten,
            Self::Yanked => Kind::Yanked,
            Self::Vanished => Kind::Vanished,
        }
    }

    fn level(self) -> Level {
        match self {
            Self::Current | Self::Newer => Level::Notice,
            Self::Unresolved | Self::Unreachable => Level::Warning,
            Self::Expired | Self::Moved | Self::Rewritten | Self::Yanked | Self::Vanished => {
                Level::Error
            }
        }
    }
}

/// The state of a pin, with details.
#[derive(Debug, Clone)]
struct State {
    class: Class,
    /// A description; empty if there is nothing to report.
    detail: String,
    /// The current value of its name.
    now: Option<String>,
    /// The newest release, if it is newer than the pin.
    newest: Option<String>,
}

impl State {
    fn new(class: Class, detail: impl Into<String>) -> Self {
        Self { class, detail: detail.into(), now: None, newest: None }
    }
}

/// The version of this JSON format.
const SCHEMA: u32 = 1;

/// The output of `outdated --format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OutdatedReport {
    /// The version of this JSON format.
    schema: u32,
    /// The day of the check, in UTC.
    day: String,
    /// The worst state.
    worst: Class,
    /// The pins, worst first.
    pins: Vec<PinReport>,
}

/// The state of one pin.
#[derive(Debug, Serialize, JsonSchema)]
struct PinReport {
    /// The pin.
    pin: String,
    /// Its kind: source, archive, image or release.
    kind: &'static str,
    /// Its state.
    class: Class,
    /// A description.
    detail: String,
    /// The first day on which this state was observed.
    since: String,
    /// The pinned value; null if it is unresolved or a set of packages.
    pinned: Option<String>,
    /// The current value of its name, if it was looked up.
    now: Option<String>,
    /// The newest release, if it is newer than the pin.
    newest: Option<String>,
    /// The first line of the pin in versions.toml.
    line: usize,
}

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Outdated) -> Result<(), Failure> {
    let project = global::project(global)?;
    let (text, mut pins) = read(&project.root.join(FILE))?;
    if !args.pins.is_empty() {
        let wanted =
            args.pins.iter().map(|pin| pin_name(pin, &pins)).collect::<Result<Vec<_>, _>>()?;
        pins.sources.retain(|name, _| wanted.contains(name));
        pins.archives.retain(|name, _| wanted.contains(name));
        pins.images.retain(|name, _| wanted.contains(name));
        pins.releases.retain(|name, _| wanted.contains(name));
    }
    let index = fetch::index(args.index.url.as_deref());
    let asked = Asked {
        sources: global::sources(global)?,
        client: registry::client(&global.mirror)?,
        index: index.map_err(|error| error.lines().join(": ")),
    };
    let mut history = History::read()?;
    let mut states = project::runtime::start()?.block_on(ask::all(&pins, asked));
    let (_, day) = today()?;
    for (name, state) in &mut states {
        expire(state, &pins, name, &day);
    }
    let report = report(&text, &pins, states, &mut history, day);
    history.write()?;
    match args.format {
        OutdatedFormat::Json => output::json(&report)?,
        OutdatedFormat::Text => output::sanitised_result(&report.text())?,
        OutdatedFormat::Github => output::sanitised_result(&report.annotations())?,
    }
    match report.worst.code() {
        Kind::ReaderLeft => Ok(()),
        code => Err(Failure::told(code)),
    }
}

/// Marks a pin as expired if its date has passed, unless its state is worse.
fn expire(state: &mut State, pins: &Pins, name: &PinName, today: &str) {
    let facts = [
        pins.sources.get(name).map(|pin| &pin.facts),
        pins.archives.get(name).map(|pin| &pin.facts),
        pins.images.get(name).map(|pin| &pin.facts),
        pins.releases.get(name).map(|pin| &pin.facts),
    ];
    let day = facts.into_iter().flatten().find_map(|facts| facts.expires.as_deref());
    if let Some(day) = day.filter(|day| *day < today)
        && state.class < Class::Expired
    {
        let before =
            if state.detail.is_empty() { String::new() } else { format!("; {}", state.detail) };
        state.detail = format!("it expired on {day}{before}");
        state.class = Class::Expired;
    }
}

fn report(
    text: &str,
    pins: &Pins,
    states: BTreeMap<PinName, State>,
    history: &mut History,
    day: String,
) -> OutdatedReport {
    let lines = pins::pin_lines(text);
    let names = pins.names();
    let mut all: Vec<PinReport> = states
        .into_iter()
        .map(|(name, state)| {
            let kind = names.get(&name).copied().unwrap_or(PinKind::Source);
            let (from, pinned) = identity(pins, &name);
            let key =
                format!("{} {from} {}", kind.table(), pinned.as_deref().unwrap_or("unresolved"));
            PinReport {
                since: history.note(key, &state, &day),
                line: lines.get(&name).copied().unwrap_or(1),
                pin: name.to_string(),
                kind: kind.table(),
                class: state.class,
                detail: state.detail,
                pinned,
                now: state.now,
                newest: state.newest,
            }
        })
        .collect();
    all.sort_by(|one, other| other.class.cmp(&one.class).then_with(|| one.pin.cmp(&other.pin)));
    let worst = all.first().map_or(Class::Current, |one| one.class);
    OutdatedReport { schema: SCHEMA, day, worst, pins: all }
}

/// Returns the origin of a pin and its value.
fn identity(pins: &Pins, name: &PinName) -> (String, Option<String>) {
    if let Some(pin) = pins.sources.get(name) {
        let from = format!("{} {}", pin.url, pin.git_ref.as_deref().unwrap_or_default());
        (from, pin.commit.resolved().map(ToString::to_string))
    } else if let Some(pin) = pins.archives.get(name) {
        (format!("{} {}", pin.project, pin.version), pin.sha256.resolved().map(ToString::to_string))
    } else if let Some(pin) = pins.images.get(name) {
        let tag = pin.tag.as_ref().map(ToString::to_string).unwrap_or_default();
        (format!("{} {tag}", pin.repository), pin.digest.resolved().map(ToString::to_string))
    } else {
        (pins.releases.get(name).map(|pin| pin.index.clone()).unwrap_or_default(), None)
    }
}

impl OutdatedReport {
    fn text(&self) -> String {
        let mut page = Page::default();
        let width = self.pins.iter().map(|one| one.pin.len()).max().unwrap_or(0);
        for one in self.pins.iter().filter(|one| one.class != Class::Current) {
            page.line(format_args!(
                "{:11} {:width$}  {} (since {})",
                one.class.name(),
                one.pin,
                one.detail,
                one.since
            ));
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
            Class::Current,
        ];
        let counts: Vec<String> = classes
            .into_iter()
            .filter(|class| count(*class) > 0)
            .map(|class| format!("{} {}", count(class), class.name()))
            .collect();
        page.line(format_args!("{} pins: {}", self.pins.len(), counts.join(", ")));
        page.into_text()
    }

    fn annotations(&self) -> String {
        let worth = self.pins.iter().filter(|one| one.class != Class::Current);
        let marks = worth.map(|one| Annotation {
            level: one.class.level(),
            file: FILE,
            line: one.line,
            title: format!("pin {} {}", one.pin, one.class.name()),
            message: format!("{} (since {})", one.detail, one.since),
        });
        // Somebody who reads only one line should see the worst finding.
        let first = self.pins.first().filter(|one| one.class >= Class::Expired);
        let first =
            first.map(|one| format!("pin {} {}: {}\n", one.pin, one.class.name(), one.detail));
        first.unwrap_or_default() + &annotations::lines(marks)
    }
}
