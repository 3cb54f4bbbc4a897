//! Changes in locks, as text and JSON.

use schemars::JsonSchema;
use serde::Serialize;

use super::Content;
use crate::output::Page;

/// The output of `lock --format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LockReport {
    /// The version of this JSON format.
    schema: u32,
    /// The locks that were looked up.
    pub(super) locks: Vec<LockChange>,
}

impl Default for LockReport {
    fn default() -> Self {
        Self { schema: 1, locks: Vec::new() }
    }
}

/// The changes in one lock.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LockChange {
    /// The lock.
    name: String,
    /// Its kind: debian or python.
    kind: &'static str,
    /// The number of packages in it.
    packages: usize,
    /// Packages that were added, with their versions.
    added: Vec<PackageAt>,
    /// Packages that were removed, with their versions.
    removed: Vec<PackageAt>,
    /// Packages whose version changed.
    changed: Vec<PackageFromTo>,
    /// The files that differ, by path from the project's root.
    pub(super) files: Vec<String>,
    /// Whether the files were written.
    pub(super) written: bool,
}

/// A package at a version.
#[derive(Debug, Serialize, JsonSchema)]
struct PackageAt {
    /// The package.
    name: String,
    /// Its version.
    version: String,
}

/// A package whose version changed.
#[derive(Debug, Serialize, JsonSchema)]
struct PackageFromTo {
    /// The package.
    name: String,
    /// The old version.
    from: String,
    /// The new version.
    to: String,
}

impl LockChange {
    /// Compares the old content of a lock with the new one.
    pub(super) fn new(
        name: &str,
        kind: &'static str,
        (before, after): (&Content, &Content),
    ) -> Self {
        let only = |one: &Content, other: &Content| -> Vec<PackageAt> {
            let missing = one.iter().filter(|(name, _)| !other.contains_key(*name));
            let at = |(name, locked): (&String, &super::Locked)| PackageAt {
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

impl LockReport {
    /// Returns the report as text.
    pub(super) fn text(&self, is_dry: bool) -> String {
        let mut page = Page::default();
        for one in &self.locks {
            let LockChange { name, packages, added, removed, changed, files, .. } = one;
            if files.is_empty() {
                page.line(format_args!("{name}: {packages} packages, unchanged"));
                continue;
            }
            let would = if is_dry { "would have " } else { "" };
            page.line(format_args!(
                "{name}: {would}{packages} packages: {} added, {} removed, {} with another version",
                added.len(),
                removed.len(),
                changed.len()
            ));
            added
                .iter()
                .for_each(|one| page.line(format_args!("  + {} {}", one.name, one.version)));
            removed
                .iter()
                .for_each(|one| page.line(format_args!("  - {} {}", one.name, one.version)));
            for PackageFromTo { name, from, to } in changed {
                page.line(format_args!("    {name} {from} -> {to}"));
            }
            if !is_dry {
                page.line(format_args!("wrote {}", files.join(", ")));
            }
        }
        page.into_text()
    }
}
