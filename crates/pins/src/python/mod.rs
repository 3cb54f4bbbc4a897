//! `versions/python.toml`: the inputs of each Python lock, and the locks themselves.
//!
//! Start at [`PythonSet`], a table of that file, and [`PythonLock`], the result. `read` parses the
//! file, `lock` reads and writes locks, and `requirements` reads other projects' requirement files.
//! A set is for one version of Python on one platform, so a lock lists few files, and every project
//! in it is installed.

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

/// The inputs of a Python lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonSet {
    /// The version of Python, for example `3.13`.
    pub python: String,
    /// The platform of the wheels, in uv's terms, for example `x86_64-manylinux_2_40`.
    pub platform: String,
    /// The source or archive pin that contains `files`.
    pub source: Option<PinName>,
    /// Requirement files of that source; from a `pyproject.toml`, the build requirements are used.
    pub files: Vec<String>,
    /// The release pin whose packages are required at their exact versions. Its index is queried
    /// before the default index, and a package on that index is taken only from it.
    pub release: Option<PinName>,
    /// Further requirements (PEP 508).
    pub requirements: BTreeSet<String>,
    /// Packages that are already present where the lock is installed. They are left out, even if
    /// other packages need them.
    pub provided: BTreeSet<String>,
}

/// The sets of `python.toml`, by name.
pub type PythonSets = BTreeMap<PinName, PythonSet>;

impl PythonSet {
    /// Returns the digest of everything that determines the lookup, or `None` if the source is
    /// unresolved, or if the source or release is not a pin. The lock contains this digest, so a
    /// lock that was made from other inputs is recognised.
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
            // Writing to a string cannot fail.
            let _ = writeln!(text, "source {}", value?);
        }
        if let Some(name) = release {
            let pin = pins.releases.get(name)?;
            let _ = writeln!(text, "index {}", pin.index);
            for (package, version) in &pin.packages {
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

/// Returns the normalised name of a Python project, as indexes write it (PEP 503).
pub fn normalised(name: &str) -> String {
    let parts = name.split(['-', '_', '.']).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

/// Returns the path of a set's lock (PEP 751), from the root of the project.
pub fn python_lock_path(name: &str) -> String {
    format!("versions/locks/pylock.{name}.toml")
}

/// Returns the path of the same lock in pip's format.
pub fn requirements_lock_path(name: &str) -> String {
    format!("versions/locks/{name}.requirements.lock")
}

#[cfg(test)]
mod tests;
