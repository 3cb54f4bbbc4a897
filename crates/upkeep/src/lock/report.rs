//! Changes in locks.

use schemars::JsonSchema;
use serde::Serialize;
use text::{Page, counted};

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

impl LockReport {
    /// Returns the report as text. `now` is the current time, in the format of the indexes' dates.
    pub fn page(&self, is_dry: bool, now: &str) -> Page {
        let mut page = Page::default();
        for lock in &self.locks {
            let LockChange { name, packages, added, removed, changed, files, .. } = lock;
            if files.is_empty() {
                page.line(format_args!("{name}: {}, unchanged", counted(*packages, "package")));
                lock.describe_indexes(&mut page, now);
                continue;
            }
            let would = if is_dry { "would have " } else { "" };
            page.line(format_args!(
                "{name}: {would}{}: {} added, {} removed, {} with a different version",
                counted(*packages, "package"),
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
            for PackageFromTo { name: package, from, to } in changed {
                page.line(format_args!("    {package} {from} -> {to}"));
            }
            lock.describe_indexes(&mut page, now);
            if !is_dry {
                page.line(format_args!("wrote {}", files.join(", ")));
            }
        }
        page
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
    /// The signed indexes in which Debian packages were found.
    pub indexes: Vec<Index>,
    /// The places that keep Debian packages after the mirrors have deleted them.
    pub old_packages: Vec<String>,
    /// The files that differ, by path from the project's root.
    pub files: Vec<String>,
    /// Whether the files were written.
    pub written: bool,
}

/// The signed index of a Debian suite.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Index {
    /// The suite.
    pub suite: String,
    /// When the archive wrote it.
    pub date: String,
    /// When it expires: until then, every mirror must have its files. Absent if it does not expire.
    pub valid_until: Option<String>,
    /// The hash of the signed file.
    pub sha256: String,
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
    pub(crate) fn new(name: &str, kind: &'static str, before: &Content, after: &Content) -> Self {
        let only = |one: &Content, other: &Content| -> Vec<PackageAt> {
            let missing = one.iter().filter(|(package, _)| !other.contains_key(*package));
            let at = |(package, locked): (&String, &Locked)| PackageAt {
                name: package.clone(),
                version: locked.version.clone(),
            };
            missing.map(at).collect()
        };
        let changed = after.iter().filter_map(|(package, now)| {
            let from = before.get(package)?.version.clone();
            let to = now.version.clone();
            (from != to).then(|| PackageFromTo { name: package.clone(), from, to })
        });
        Self {
            name: name.to_owned(),
            kind,
            packages: after.len(),
            added: only(after, before),
            removed: only(before, after),
            changed: changed.collect(),
            indexes: Vec::new(),
            old_packages: Vec::new(),
            files: Vec::new(),
            written: false,
        }
    }

    /// Returns how long mirrors can be expected to have the packages, if that is known. `now` is
    /// the current time, in the format of the indexes' dates.
    pub fn lasts(&self, now: &str) -> Option<String> {
        let day = |moment: &str| moment.get(..10).unwrap_or(moment).to_owned();
        let first = self.indexes.iter().filter_map(|index| index.valid_until.as_deref()).min();
        let mirrors = match first {
            None if self.indexes.is_empty() => return None,
            None => "mirrors keep these files until the next point release of Debian".to_owned(),
            Some(end) if end < now => {
                format!(
                    "an index expired on {}: mirrors may delete these files at any time",
                    day(end)
                )
            }
            Some(end) => {
                format!(
                    "mirrors have these files until {}; then newer versions may replace them",
                    day(end)
                )
            }
        };
        let old = match self.old_packages.as_slice() {
            [] => "the cache".to_owned(),
            places => format!("the cache, or from {}", places.join(" or ")),
        };
        Some(format!("{mirrors}. After that, a build takes them from {old}."))
    }

    /// Adds the indexes of the packages, and how long builds can be expected to find the packages
    /// there.
    fn describe_indexes(&self, page: &mut Page, now: &str) {
        for Index { suite, date, .. } in &self.indexes {
            page.line(format_args!("  index of {suite}: {date}"));
        }
        if let Some(lasts) = self.lasts(now) {
            page.line(format_args!("  {lasts}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lasts(ends: &[Option<&str>], places: &[&str]) -> Option<String> {
        let index = |end: &Option<&str>| Index {
            suite: "sid".to_owned(),
            date: "2026-10-30T08:08:01Z".to_owned(),
            valid_until: end.map(str::to_owned),
            sha256: String::new(),
        };
        let empty = Content::new();
        let change = LockChange {
            indexes: ends.iter().map(index).collect(),
            old_packages: places.iter().map(|&place| place.to_owned()).collect(),
            ..LockChange::new("rocm", "debian", &empty, &empty)
        };
        change.lasts("2026-11-24T12:00:00Z")
    }

    #[test]
    fn a_lock_lasts_as_long_as_its_first_index() {
        let (past, future) = (Some("2026-11-06T08:08:01Z"), Some("2026-12-01T08:08:01Z"));
        assert_eq!(lasts(&[], &[]), None);
        assert_eq!(
            lasts(&[None], &[]).unwrap(),
            "mirrors keep these files until the next point release of Debian. After that, a build takes them from the cache."
        );
        assert_eq!(
            lasts(&[None, future], &["https://a.test/{file}"]).unwrap(),
            "mirrors have these files until 2026-12-01; then newer versions may replace them. After that, a build takes them from the cache, or from https://a.test/{file}."
        );
        assert_eq!(
            lasts(&[future, past], &[]).unwrap(),
            "an index expired on 2026-11-06: mirrors may delete these files at any time. After that, a build takes them from the cache."
        );
    }
}
