//! `versions/python.toml`: what each Python lock is made from, and the locks themselves.
//!
//! Start at [`PythonSet`], a table of that file, and [`PythonLock`], what came of it. `read` parses
//! the file, `lock` reads and writes locks, `requirements` reads other people's requirement files.
//! A set is for one version of Python on one platform: a lock then names few files, and each of
//! them is one that is really installed.

mod lock;
mod read;
mod requirements;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use names::Digest;

use crate::{Pinned, Pins};
use names::PinName;

pub use lock::{LockedProject, ParsePythonLockError, PythonLock, Wheel};
pub use read::{parse_python, parse_python_with};
pub use requirements::{RequirementLine, RequirementsError, requirements};

/// What a Python lock is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonSet {
    /// The version of Python, for example `3.13`.
    pub python: String,
    /// What wheels must run on, as uv names it, for example `x86_64-manylinux_2_40`.
    pub platform: String,
    /// The source or archive pin that `files` are read from.
    pub source: Option<PinName>,
    /// Requirement files of that source; of a `pyproject.toml` what its build needs.
    pub files: Vec<String>,
    /// The release pin whose packages are wanted at their versions. Its index comes before the
    /// default one: what it has is taken from it alone.
    pub release: Option<PinName>,
    /// Requirements beside those (PEP 508).
    pub requirements: BTreeSet<String>,
    /// Packages that what the lock is installed on brings along. They are left out, also where
    /// others need them.
    pub provided: BTreeSet<String>,
}

/// The sets of `python.toml`, by name.
pub type PythonSets = BTreeMap<PinName, PythonSet>;

impl PythonSet {
    /// Returns the digest of all that decides what is looked up; nothing where the source is
    /// unresolved or no pin. It stands in the lock, so that a lock of other inputs is known for one.
    pub fn inputs(&self, pins: &Pins) -> Option<Digest> {
        let Self { python, platform, source, files, release, requirements, provided } = self;
        let mut text = format!("python {python}\nplatform {platform}\n");
        if let Some(name) = source {
            let value = match (pins.sources.get(name), pins.archives.get(name)) {
                (Some(pin), _) => pin.commit.resolved().map(ToString::to_string),
                (None, Some(pin)) => match &pin.sha256 {
                    Pinned::Resolved(sha256) => {
                        Some(format!("{sha256} {}", pin.subdirectory.as_deref().unwrap_or("")))
                    }
                    Pinned::Unresolved => None,
                },
                (None, None) => None,
            };
            // Writing to a text cannot fail.
            let _ = writeln!(text, "source {}", value?);
        }
        if let Some(name) = release {
            let release = pins.releases.get(name)?;
            let _ = writeln!(text, "index {}", release.index);
            for (package, version) in &release.packages {
                let _ = writeln!(text, "package {package}=={version}");
            }
        }
        let rows = [
            ("file", files.iter().collect::<Vec<_>>()),
            ("requirement", requirements.iter().collect()),
            ("provided", provided.iter().collect()),
        ];
        for (word, values) in rows {
            for value in values {
                let _ = writeln!(text, "{word} {value}");
            }
        }
        Some(Digest::of(text.as_bytes()))
    }
}

/// Returns the name of a Python project as indexes write it (PEP 503).
pub fn normalised(name: &str) -> String {
    let parts = name.split(['-', '_', '.']).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

/// Returns the path of a set's lock (PEP 751), from the root of the project.
pub fn python_lock_path(name: &str) -> String {
    format!("versions/locks/pylock.{name}.toml")
}

/// Returns the path of the same lock as pip reads it.
pub fn requirements_lock_path(name: &str) -> String {
    format!("versions/locks/{name}.requirements.lock")
}

#[cfg(test)]
mod tests;
