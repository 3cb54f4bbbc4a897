//! `versions/locks/NAME.toml`: Debian packages, each pinned to a version, a file and its SHA-256.
//!
//! Start at [`PackageLock`]. `read` parses the file, and [`PackageLock::to_toml`] writes it. Sets
//! and packages are sorted, with one package per line, so that a diff of two locks is easy to read.
//!
//! A *set* contains the packages that one step installs. It can depend on other sets, whose
//! packages are already installed, and lists only the packages that it adds. The lock does not
//! contain the download location: a pool path is the same on every mirror of an archive.

mod read;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use names::{Digest, PinName, Sha256};

pub use read::{parse_package_lock, parse_wanted_packages};

/// Debian's public mirror of its archive.
pub const PUBLIC_ARCHIVE: &str = "https://deb.debian.org/debian";
/// Debian's public mirror of its archive of security updates.
pub const PUBLIC_SECURITY: &str = "https://deb.debian.org/debian-security";

/// The content of a package lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageLock {
    /// The code name of the Debian release, for example `trixie`.
    pub suite: String,
    /// The architecture in dpkg's terms, for example `amd64`.
    pub architecture: String,
    /// The date on which the packages were looked up, as `YYYY-MM-DD`.
    pub checked: String,
    /// The packages that come from another suite, by suite.
    pub from: FromSuites,
    /// The indexes in which the packages were found, by suite. Older locks have none.
    pub indexes: BTreeMap<String, SuiteIndex>,
    /// The sets by name, for example `base` and `vulkan-build`.
    pub sets: BTreeMap<PinName, PackageSet>,
}

/// The packages that a lock takes from suites other than its own, by suite: package names, or
/// `src:NAME` for all packages that are built from a source.
pub type FromSuites = BTreeMap<String, BTreeSet<String>>;

/// The signed index of a suite at the time of the lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuiteIndex {
    /// When the archive wrote it, as `YYYY-MM-DDTHH:MM:SSZ`.
    pub date: String,
    /// When it expires, in the same format; `None` if it does not expire.
    pub valid_until: Option<String>,
    /// The hash of the signed file.
    pub sha256: Sha256,
}

/// The input of the next lookup: the requirements in a package lock, and what the last lookup found,
/// which the next one is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedPackages {
    /// The code name of the Debian release.
    pub suite: String,
    /// The architecture in dpkg's terms.
    pub architecture: String,
    /// The packages that come from another suite, by suite.
    pub from: FromSuites,
    /// The sets by name. Each has the sets that it depends on, and the packages that it wants.
    pub sets: BTreeMap<PinName, (BTreeSet<PinName>, BTreeSet<String>)>,
    /// The indexes in which the packages were found, by suite.
    pub indexes: BTreeMap<String, SuiteIndex>,
    /// The packages that were found, of all sets. A set that a person has just added has none.
    pub found: Vec<LockedPackage>,
}

/// Packages that are installed together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageSet {
    /// The sets that this one depends on.
    pub on: BTreeSet<PinName>,
    /// The requested packages: package names, or `?essential`.
    pub wanted: BTreeSet<String>,
    /// The packages that this set adds to the sets in `on`, sorted by name.
    pub packages: Vec<LockedPackage>,
}

/// One package file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockedPackage {
    /// The name of the binary package.
    pub name: String,
    /// The full version, including the epoch.
    pub version: String,
    /// The lock's architecture, or `all`.
    pub architecture: String,
    /// The path of the file in the archive, for example `pool/main/a/apt/apt_3.0.3_amd64.deb`. In
    /// Debian's archive of security updates it starts with `pool/updates/`.
    pub file: String,
    /// The size of the file in bytes.
    pub size: u64,
    /// The hash of the file.
    pub sha256: Sha256,
}

impl LockedPackage {
    /// Returns the last part of the path.
    pub fn file_name(&self) -> &str {
        self.file.rsplit('/').next().unwrap_or_default()
    }

    /// Returns whether the file is in Debian's archive of security updates.
    pub fn is_security_update(&self) -> bool {
        self.file.starts_with("pool/updates/")
    }

    /// Returns the name of the source package: the folder of the file in the archive.
    pub fn source(&self) -> &str {
        self.file.rsplit('/').nth(1).unwrap_or_default()
    }

    /// Returns the address of the file on Debian's public mirror, which deletes old versions.
    pub fn public_address(&self) -> String {
        let archive = if self.is_security_update() { PUBLIC_SECURITY } else { PUBLIC_ARCHIVE };
        format!("{archive}/{}", self.file)
    }
}

impl PackageLock {
    /// Returns all packages that are installed with `set`: its own and those of the sets it depends
    /// on, sorted by name. Returns `None` if the set does not exist.
    pub fn closure(&self, set: &str) -> Option<Vec<&LockedPackage>> {
        let mut open = vec![self.sets.get_key_value(&set.parse::<PinName>().ok()?)?];
        let mut seen = BTreeSet::new();
        let mut packages = Vec::new();
        while let Some((name, current)) = open.pop() {
            if seen.insert(name) {
                packages.extend(&current.packages);
                open.extend(current.on.iter().filter_map(|below| self.sets.get_key_value(below)));
            }
        }
        packages.sort();
        Some(packages)
    }

    /// Returns the digest of all packages that are installed with `set`: the SHA-256 of the
    /// release, the architecture, and the sorted names, versions, architectures and hashes of the
    /// packages. Other sets and the file paths do not affect it. Returns `None` if the set does not
    /// exist.
    pub fn digest_of(&self, set: &str) -> Option<Digest> {
        let mut text = format!("{} {}\n", self.suite, self.architecture);
        for package in self.closure(set)? {
            let LockedPackage { name, version, architecture, sha256, .. } = package;
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name} {version} {architecture} {sha256}");
        }
        Some(Digest::of(text.as_bytes()))
    }

    /// Returns the packages of the sets in `names`, sorted, with each file once.
    pub fn packages<'a>(
        &'a self,
        names: impl IntoIterator<Item = &'a PinName>,
    ) -> Vec<&'a LockedPackage> {
        let sets = names.into_iter().filter_map(|name| self.sets.get(name));
        let packages: BTreeSet<&LockedPackage> = sets.flat_map(|set| &set.packages).collect();
        packages.into_iter().collect()
    }

    /// Returns the dates of the lock's indexes as `YYYY-MM-DD`, the latest first. The archive
    /// snapshots of these dates contain all files of the lock. Without indexes, returns the date of
    /// the lookup.
    pub fn days(&self) -> Vec<&str> {
        let days = self.indexes.values().filter_map(|index| index.date.get(..10));
        let days: BTreeSet<&str> = days.collect();
        if days.is_empty() { vec![&self.checked] } else { days.into_iter().rev().collect() }
    }

    /// Returns when the first of the lock's indexes expires, if one does. Until then, every mirror
    /// is expected to have the files; later, newer versions may have replaced them.
    pub fn valid_until(&self) -> Option<&str> {
        self.indexes.values().filter_map(|index| index.valid_until.as_deref()).min()
    }

    /// Returns the text of the file; the same lock always gives the same text.
    pub fn to_toml(&self) -> String {
        let mut text = String::from(
            "# Written by `build-pipeline lock`; do not edit. The hashes were read in indexes that Debian signed.\n",
        );
        let Self { suite: own_suite, architecture: own_architecture, checked, from, indexes, sets } =
            self;
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "schema = 1\nsuite = \"{own_suite}\"\narchitecture = \"{own_architecture}\"\nchecked = {checked}\n"
        );
        if !from.is_empty() {
            text.push_str("\n[from]\n");
        }
        for (suite, packages) in from {
            let _ = writeln!(text, "{suite} = {}", array(packages.iter().map(String::as_str)));
        }
        for (suite, SuiteIndex { date, valid_until, sha256 }) in indexes {
            let _ = writeln!(text, "\n[index.{suite}]\ndate = \"{date}\"");
            if let Some(end) = valid_until {
                let _ = writeln!(text, "valid-until = \"{end}\"");
            }
            let _ = writeln!(text, "sha256 = \"{sha256}\"");
        }
        for (set_name, set) in sets {
            let _ = writeln!(text, "\n[set.{set_name}]");
            if !set.on.is_empty() {
                let _ = writeln!(text, "on = {}", array(set.on.iter().map(PinName::as_str)));
            }
            let _ = writeln!(text, "wanted = {}", array(set.wanted.iter().map(String::as_str)));
            let mut packages: Vec<&LockedPackage> = set.packages.iter().collect();
            packages.sort();
            text.push_str("packages = [\n");
            for package in packages {
                let LockedPackage { name, version, architecture, file, size, sha256 } = package;
                let _ = writeln!(
                    text,
                    "  {{ name = \"{name}\", version = \"{version}\", architecture = \"{architecture}\", file = \"{file}\", size = {size}, sha256 = \"{sha256}\" }},"
                );
            }
            text.push_str("]\n");
        }
        text
    }
}

fn array<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = texts.map(|text| format!("\"{text}\"")).collect();
    format!("[{}]", quoted.join(", "))
}

#[cfg(test)]
mod tests;
