//! Checks whether pinned inputs changed upstream. Changes nothing but the history of states.
//!
//! [`check`] returns the report. `ask` looks up the states of all pins, `history` records when each
//! pin entered its current state, and `page` writes the report.

mod ask;
mod history;
mod page;
mod state;

use std::collections::BTreeMap;

use failure::Failure;
use names::PinName;
use pins::{PinKind, Pins};
use project::Project;
use project::clock::today;
use project::pins_file::pin_name;
use schemars::JsonSchema;
use serde::Serialize;

use crate::bump::pins_of;

pub use self::ask::Clients;
use self::history::History;
pub use self::state::Class;
use self::state::State;

/// The version of this JSON format.
const SCHEMA: u32 = 1;

/// The output of `outdated --format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OutdatedReport {
    /// The version of this JSON format.
    pub schema: u32,
    /// The date of the check, in UTC.
    pub day: String,
    /// The worst state.
    pub worst: Class,
    /// The pins, worst first.
    pub pins: Vec<PinReport>,
}

/// The state of one pin.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PinReport {
    /// The pin.
    pub pin: String,
    /// Its kind: source, archive, image or release.
    pub kind: &'static str,
    /// Its state.
    pub class: Class,
    /// A description.
    pub detail: String,
    /// The host that could not be reached, if the pin is unreachable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The first day on which this state was observed.
    pub since: String,
    /// The pinned value; null if it is unresolved or a set of packages.
    pub pinned: Option<String>,
    /// The current value of its name, if it was looked up.
    pub now: Option<String>,
    /// The newest release, if it is newer than the pin.
    pub newest: Option<String>,
    /// The first line of the pin in the project's versions.toml; 1 for a pin that is not in it.
    pub line: usize,
}

/// Returns the pins with the given names. Without a name, returns the pins in the project's file,
/// which are `own`, and those that its own tracks use.
///
/// # Errors
/// There is no pin with one of the names, or the pins are wrong.
pub fn select(project: &Project, own: &Pins, names: &[String]) -> Result<Pins, Failure> {
    let mut pins = project.pins()?;
    let wanted = if names.is_empty() {
        // The pins can be checked even if the tracks are wrong, which `plan` reports.
        pins_of(project, own).unwrap_or_else(|_| own.names().into_keys().cloned().collect())
    } else {
        names.iter().map(|pin| pin_name(pin, &pins)).collect::<Result<_, _>>()?
    };
    pins.sources.retain(|name, _| wanted.contains(name));
    pins.archives.retain(|name, _| wanted.contains(name));
    pins.images.retain(|name, _| wanted.contains(name));
    pins.releases.retain(|name, _| wanted.contains(name));
    Ok(pins)
}

/// Looks up the state of every pin. `text` is the text of versions.toml. `warn` gets the name and
/// the message of a warning if the history of earlier runs cannot be read.
///
/// # Errors
/// The history has an unsupported format or cannot be written. A pin that cannot be looked up is
/// not an error: its state shows that.
pub fn check(
    text: &str,
    pins: &Pins,
    clients: Clients,
    warn: impl Fn(&str, &str),
) -> Result<OutdatedReport, Failure> {
    let mut history = History::read(warn)?;
    let index = clients.index.as_ref().ok().map(ToString::to_string);
    let mut states = project::runtime::start()?.block_on(ask::all(pins, clients));
    let (_, day) = today()?;
    for (name, state) in &mut states {
        expire(state, pins, name, &day);
        hold(state, pins, name);
    }
    let mut report = report(text, pins, states, &mut history, day);
    let unreachable = report.pins.iter_mut().filter(|one| one.class == Class::Unreachable);
    for one in unreachable {
        one.host = host(pins, &one.pin, index.as_deref());
    }
    history.write()?;
    Ok(report)
}

/// The results of the last [`check`] of each pin.
#[derive(Debug)]
pub struct LastCheck(History);

/// The state of a pin, according to the last check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Remembered {
    /// The pin.
    pub pin: String,
    /// Its state: `newer`, `moved` and so on, as `outdated` prints it.
    pub state: String,
    /// The first day of that state, in UTC.
    pub since: String,
}

impl LastCheck {
    /// Reads the result of the last check of each pin. `warn` gets the name and the message of a
    /// warning if the file cannot be read.
    ///
    /// # Errors
    /// The file has an unsupported format.
    pub fn read(warn: impl Fn(&str, &str)) -> Result<Self, Failure> {
        History::read(warn).map(Self)
    }

    /// Returns the state of a pin, unless it was current or held, or the pin was changed since.
    pub fn outdated(&self, pins: &Pins, name: &PinName) -> Option<Remembered> {
        let kind = pins.kind(name)?;
        let (state, since) = self.0.find(&key(pins, name, kind))?;
        let is_good = [Class::Current, Class::Held].iter().any(|class| class.name() == state);
        (!is_good).then(|| Remembered {
            pin: name.to_string(),
            state: state.to_owned(),
            since: since.to_owned(),
        })
    }
}

/// Returns the history's key for a pin with its current value.
fn key(pins: &Pins, name: &PinName, kind: PinKind) -> String {
    let (from, pinned) = identity(pins, name);
    format!("{} {from} {}", kind.table(), pinned.as_deref().unwrap_or("unresolved"))
}

/// Marks a pin as expired if its date has passed, unless its state is worse.
fn expire(state: &mut State, pins: &Pins, name: &PinName, today: &str) {
    let day = pins.facts(name).and_then(|facts| facts.expires.as_deref());
    if let Some(day) = day.filter(|day| *day < today)
        && state.class < Class::Expired
    {
        let before =
            if state.detail.is_empty() { String::new() } else { format!("; {}", state.detail) };
        state.detail = format!("it expired on {day}{before}");
        state.class = Class::Expired;
    }
}

/// Marks a pin as held, unless it may be unusable or its state is unknown.
fn hold(state: &mut State, pins: &Pins, name: &PinName) {
    let is_usable =
        matches!(state.class, Class::Current | Class::Newer | Class::Unresolved | Class::Moved);
    if let Some(reason) = pins.hold(name).filter(|_| is_usable) {
        let after =
            if state.detail.is_empty() { String::new() } else { format!("; {}", state.detail) };
        state.detail = format!("{reason}{after}");
        state.class = Class::Held;
    }
}

/// Returns the host where a pin is looked up. `index` is the URL of the Python package index.
fn host(pins: &Pins, name: &str, index: Option<&str>) -> Option<String> {
    if let Some(pin) = pins.images.get(name) {
        return Some(pin.repository.registry().to_owned());
    }
    let url = pins.sources.get(name).map(|pin| pin.url.as_str());
    let url = url.or_else(|| pins.releases.get(name).map(|pin| pin.index.as_str())).or(index)?;
    let place = url.split_once("://").map_or(url, |(_, place)| place);
    place.split('/').next().map(str::to_owned)
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
            let (_, pinned) = identity(pins, &name);
            PinReport {
                since: history.note(key(pins, &name, kind), &state, &day),
                line: lines.get(&name).copied().unwrap_or(1),
                pin: name.to_string(),
                kind: kind.table(),
                class: state.class,
                detail: state.detail,
                host: None,
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
