//! `versions/locks/NAME.toml`: Debian packages, each bound to a version, a file and its SHA-256.
//!
//! Start at [`PackageLock`]; `read` parses the file, [`PackageLock::to_toml`] writes it: sets and
//! packages sorted, one package on a line, so that the difference of two locks reads well.
//!
//! A *set* is what one place installs. It stands on other sets, whose packages are there already,
//! and names only what it adds. Where the files are downloaded from is not in the lock: a pool
//! path is the same on every mirror of an archive.

mod read;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use names::{Digest, PinName, Sha256};

pub use read::{parse_package_lock, parse_wanted_packages};

/// The content of a package lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageLock {
    /// The Debian release by its code name, for example `trixie`.
    pub suite: String,
    /// The architecture, as dpkg names it, for example `amd64`.
    pub architecture: String,
    /// The day on which the packages were looked up, as `YYYY-MM-DD`.
    pub checked: String,
    /// The sets by name, for example `base` and `vulkan-build`.
    pub sets: BTreeMap<PinName, PackageSet>,
}

/// What a person asks of a package lock: all of it but the packages that were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedPackages {
    /// The Debian release by its code name.
    pub suite: String,
    /// The architecture, as dpkg names it.
    pub architecture: String,
    /// The sets by name: those that each stands on, and what was asked for.
    pub sets: BTreeMap<PinName, (BTreeSet<PinName>, BTreeSet<String>)>,
}

/// Packages that are installed together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageSet {
    /// The sets that this one stands on.
    pub on: BTreeSet<PinName>,
    /// What a person asked for: package names, or `?essential`.
    pub wanted: BTreeSet<String>,
    /// All that is installed, beyond the packages of `on`, sorted by name.
    pub packages: Vec<LockedPackage>,
}

/// One package file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockedPackage {
    /// The name of the binary package.
    pub name: String,
    /// The whole version, with its epoch.
    pub version: String,
    /// The lock's architecture, or `all`.
    pub architecture: String,
    /// The path of the file below the archive, for example `pool/main/a/apt/apt_3.0.3_amd64.deb`.
    /// In Debian's archive of security updates it begins with `pool/updates/`.
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

    /// Returns whether the file lies in Debian's archive of security updates.
    pub fn is_security_update(&self) -> bool {
        self.file.starts_with("pool/updates/")
    }
}

impl PackageLock {
    /// Returns all that is installed once `set` is: its packages and those of the sets below it,
    /// sorted by name. Nothing where there is no such set.
    pub fn closure(&self, set: &str) -> Option<Vec<&LockedPackage>> {
        let mut open = vec![self.sets.get_key_value(&set.parse::<PinName>().ok()?)?];
        let mut seen = BTreeSet::new();
        let mut packages = Vec::new();
        while let Some((name, set)) = open.pop() {
            if seen.insert(name) {
                packages.extend(&set.packages);
                open.extend(set.on.iter().filter_map(|name| self.sets.get_key_value(name)));
            }
        }
        packages.sort();
        Some(packages)
    }

    /// Returns the digest of all that is installed once `set` is: the SHA-256 over release,
    /// architecture, and name, version, architecture and hash of each package, sorted. Other sets do
    /// not change it, nor where a mirror has the files. Nothing where there is no such set.
    pub fn digest_of(&self, set: &str) -> Option<Digest> {
        let mut text = format!("{} {}\n", self.suite, self.architecture);
        for package in self.closure(set)? {
            let LockedPackage { name, version, architecture, sha256, .. } = package;
            // Writing to a text cannot fail.
            let _ = writeln!(text, "{name} {version} {architecture} {sha256}");
        }
        Some(Digest::of(text.as_bytes()))
    }

    /// Returns the packages of the sets that `names` lists, and of no other, sorted, each file once.
    pub fn packages<'a>(
        &'a self,
        names: impl IntoIterator<Item = &'a PinName>,
    ) -> Vec<&'a LockedPackage> {
        let sets = names.into_iter().filter_map(|name| self.sets.get(name));
        let packages: BTreeSet<&LockedPackage> = sets.flat_map(|set| &set.packages).collect();
        packages.into_iter().collect()
    }

    /// Returns the text of the file, the same for the same lock.
    pub fn to_toml(&self) -> String {
        let mut text = String::from(
            "# Written by `build-pipeline lock`; do not edit. The hashes were read in indexes that Debian signed.\n",
        );
        let Self { suite, architecture, checked, sets } = self;
        // Writing to a text cannot fail.
        let _ = write!(
            text,
            "schema = 1\nsuite = \"{suite}\"\narchitecture = \"{architecture}\"\nchecked = {checked}\n"
        );
        for (name, set) in sets {
            let _ = writeln!(text, "\n[set.{name}]");
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
