//! Changes in locks.

use schemars::JsonSchema;
use serde::Serialize;

use super::content::{Content, Locked};

/// The output of `lock --format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LockReport {
    /// The version of this JSON format.
    pub schema: u32,
    /// The locks that were looked up.
    pub locks: Vec<LockChange>,
}

impl Default for LockReport {
    fn default() -> Self {
        Self { schema: 1, locks: Vec::new() }
    }
}

/// The changes in one lock.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LockChange {
    /// The lock.
    pub name: String,
    /// Its kind: debian or python.
    pub kind: &'static str,
    /// The number of packages in it.
    pub packages: usize,
    /// Packages that were added, with their versions.
    pub added: Vec<PackageAt>,
    /// Packages that were removed, with their versions.
    pub removed: Vec<PackageAt>,
    /// Packages whose version changed.
    pub changed: Vec<PackageFromTo>,
    /// The files that differ, by path from the project's root.
    pub files: Vec<String>,
    /// Whether the files were written.
    pub written: bool,
}

/// A package at a version.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PackageAt {
    /// The package.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// A package whose version changed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PackageFromTo {
    /// The package.
    pub name: String,
    /// The old version.
    pub from: String,
    /// The new version.
    pub to: String,
}

impl LockChange {
    /// Compares the old content of a lock with the new one.
    pub(crate) fn new(
        name: &str,
        kind: &'static str,
        (before, after): (&Content, &Content),
    ) -> Self {
        let only = |one: &Content, other: &Content| -> Vec<PackageAt> {
            let missing = one.iter().filter(|(name, _)| !other.contains_key(*name));
            let at = |(name, locked): (&String, &Locked)| PackageAt {
                name: name.clone(),
                version: locked.version.clone(),
            };
            missing.map(at).collect()
        };
        let changed = after.iter().filter_map(|(name, now)| {
            let from = before.get(name)?.version.clone();
            let to = now.version.clone();
            (from != to).then(|| PackageFromTo { name: name.clone(), from, to })
        });
        Self {
            name: name.to_owned(),
            kind,
            packages: after.len(),
            added: only(after, before),
            removed: only(before, after),
            changed: changed.collect(),
            files: Vec::new(),
            written: false,
        }
    }
}
