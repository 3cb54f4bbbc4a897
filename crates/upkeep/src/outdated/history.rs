//! How long pins have been in their current state, according to the observations of earlier runs.
//! The observations are stored in the state folder.
//!
//! Keys describe what is pinned, not the project, so that two checkouts share their history.

use std::collections::BTreeMap;
use std::io::Write as _;

use atomic_write_file::AtomicWriteFile;
use failure::{Failure, Kind};
use project::environment;
use serde::{Deserialize, Serialize};

use super::state::State;

/// The version of the file format.
const SCHEMA: u32 = 1;

/// The maximum number of entries; the least recently seen entries are dropped first.
const MOST: usize = 5_000;

/// The observations of earlier runs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct History {
    schema: u32,
    seen: BTreeMap<String, Seen>,
}

/// The version of a file, without its other content.
#[derive(Deserialize)]
struct Numbered {
    schema: u32,
}

/// The state of one pin, and the first day of that state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    class: String,
    now: Option<String>,
    since: String,
    last: String,
}

impl History {
    /// Reads the history. If it cannot be read, starts a new one and warns.
    pub(crate) fn read(warn: impl Fn(&str, &str)) -> Result<Self, Failure> {
        let path = environment::state_folder()?.join("outdated.json");
        let fresh = Self { schema: SCHEMA, seen: BTreeMap::new() };
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(fresh),
            text => text.map_err(|error| error.to_string()),
        };
        // Parse the version alone first, to distinguish a newer format from a damaged file.
        let number = text.as_ref().ok().and_then(|text| serde_json::from_str(text).ok());
        let parsed =
            text.and_then(|text| serde_json::from_str::<Self>(&text).map_err(|e| e.to_string()));
        match (number, parsed) {
            (Some(Numbered { schema }), _) if schema != SCHEMA => Err(Failure::new(
                Kind::Input,
                format!(
                    "`{}` has schema {schema}, but this build-pipeline reads only {SCHEMA}",
                    path.display()
                ),
            )
            .hint("use the newer build-pipeline, or remove the file: only dates are lost")),
            (_, Ok(history)) => Ok(history),
            (_, Err(why)) => {
                let message =
                    format!("cannot read `{}`, so a new file is started: {why}", path.display());
                warn("unreadable-history", &message);
                Ok(fresh)
            }
        }
    }

    /// Records a state, and returns the first day of that state.
    pub(crate) fn note(&mut self, key: String, state: &State, today: &str) -> String {
        let class = state.class.name().to_owned();
        let old = self.seen.get(&key).filter(|old| old.class == class && old.now == state.now);
        let since = old.map_or_else(|| today.to_owned(), |old| old.since.clone());
        let last = today.to_owned();
        self.seen.insert(key, Seen { class, now: state.now.clone(), since: since.clone(), last });
        since
    }

    /// Returns the state under a key, and the first day of that state.
    pub(crate) fn find(&self, key: &str) -> Option<(&str, &str)> {
        self.seen.get(key).map(|seen| (seen.class.as_str(), seen.since.as_str()))
    }

    /// Writes the history atomically.
    pub(crate) fn write(mut self) -> Result<(), Failure> {
        if self.seen.len() > MOST {
            let mut days: Vec<String> = self.seen.values().map(|seen| seen.last.clone()).collect();
            days.sort_unstable();
            let oldest = days[days.len() - MOST].clone();
            self.seen.retain(|_, seen| seen.last >= oldest);
        }
        let folder = environment::state_folder()?;
        let path = folder.join("outdated.json");
        let write = || {
            std::fs::create_dir_all(&folder)?;
            let mut file = AtomicWriteFile::open(&path)?;
            file.write_all(&serde_json::to_vec_pretty(&self)?)?;
            file.commit()
        };
        write().map_err(|error: std::io::Error| {
            Failure::caused(Kind::Machine, format!("writing `{}` failed", path.display()), &error)
                .hint("the file is under `XDG_STATE_HOME` (default `~/.local/state`); check its space and permissions")
        })
    }
}
