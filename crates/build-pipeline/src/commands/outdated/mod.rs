//! `build-pipeline outdated`: asks what became of every pin, and changes nothing.

mod ask;
mod history;

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use names::PinName;
use pins::{PinKind, Pins};
use schemars::JsonSchema;
use serde::Serialize;

use self::ask::Asked;
use self::history::History;
use crate::annotations::{Annotation, Level};
use crate::cli::Global;
use crate::commands::bump::args::Index;
use crate::commands::bump::{pin_name, read, report::FILE, today};
use crate::error::CommandError;
use crate::exit_code::ExitCode;
use crate::output::{self, Page};
use crate::project::Project;
use crate::{annotations, fetch, registry};

/// Ask what became of the pins: newer, moved, rewritten, yanked, vanished
#[derive(Debug, Args)]
pub(crate) struct Outdated {
    /// Only these pins
    #[arg(value_name = "PIN")]
    pins: Vec<String>,
    /// The form of the result; github marks the pins in the log of a workflow
    #[arg(long, value_enum, default_value_t = OutdatedFormat::Text)]
    format: OutdatedFormat,
    #[command(flatten)]
    index: Index,
}

/// The form of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OutdatedFormat {
    /// For reading
    Text,
    /// For programs
    Json,
    /// Annotations of a GitHub workflow
    Github,
}

/// What became of a pin, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Class {
    /// It is what it was, and nothing newer is out.
    Current,
    /// A newer release is out, or its branch went on.
    Newer,
    /// Nobody has looked its value up yet.
    Unresolved,
    /// It could not be asked for.
    Unreachable,
    /// It is past its `expires`.
    Expired,
    /// Its tag or release is something else now.
    Moved,
    /// Its branch no longer has the commit.
    Rewritten,
    /// The release was withdrawn.
    Yanked,
    /// It is gone.
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

    fn code(self) -> ExitCode {
        match self {
            Self::Current => ExitCode::Done,
            Self::Newer => ExitCode::Newer,
            Self::Unresolved => ExitCode::Unresolved,
            Self::Unreachable => ExitCode::Network,
            Self::Expired => ExitCode::Expired,
            Self::Moved => ExitCode::Moved,
            Self::Rewritten => ExitCode::Rewritten,
            Self::Yanked => ExitCode::Yanked,
            Self::Vanished => ExitCode::Vanished,
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

/// What was found out about a pin.
#[derive(Debug, Clone)]
struct State {
    class: Class,
    /// What is so; empty where nothing is to be said.
    detail: String,
    /// What its name stands for now.
    now: Option<String>,
    /// The newest release, where that is a newer one.
    newest: Option<String>,
}

impl State {
    fn new(class: Class, detail: impl Into<String>) -> Self {
        Self { class, detail: detail.into(), now: None, newest: None }
    }
}

/// The number of this JSON form.
const SCHEMA: u32 = 1;

/// What `outdated --format json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OutdatedReport {
    /// The number of this JSON form.
    schema: u32,
    /// The day it was asked, in UTC.
    day: String,
    /// The worst class.
    worst: Class,
    /// The pins, the worst first.
    pins: Vec<PinReport>,
}

/// What became of one pin.
#[derive(Debug, Serialize, JsonSchema)]
struct PinReport {
    /// The pin.
    pin: String,
    /// Its kind: source, archive, image or release.
    kind: &'static str,
    /// What became of it.
    class: Class,
    /// What is so.
    detail: String,
    /// The day since which it is known to be so.
    since: String,
    /// What it is bound to; null where that is unresolved, or a set of packages.
    pinned: Option<String>,
    /// What its name stands for now, where that was asked.
    now: Option<String>,
    /// The newest release, where that is a newer one.
    newest: Option<String>,
    /// The line of versions.toml that it begins on.
    line: usize,
}

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Outdated) -> Result<(), CommandError> {
    let project = Project::find(&crate::working_folder(global)?)?;
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
        sources: fetch::sources(global)?,
        client: registry::client(global)?,
        index: index.map_err(|error| error.lines().join(": ")),
    };
    let mut history = History::read()?;
    let mut states = crate::runtime()?.block_on(ask::all(&pins, asked));
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
        ExitCode::Done => Ok(()),
        code => Err(CommandError::told(code)),
    }
}

/// Makes a pin expired that is past its day, unless worse is known of it.
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

/// Returns where a pin comes from, and what it is bound to.
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
        // A person who reads one line only reads the worst.
        let first = self.pins.first().filter(|one| one.class >= Class::Expired);
        let first =
            first.map(|one| format!("pin {} {}: {}\n", one.pin, one.class.name(), one.detail));
        first.unwrap_or_default() + &annotations::lines(marks)
    }
}
