//! Asks apt which packages the sets of a lock need, and records the exact files.
//!
//! Apt resolves for an empty machine, so it lists everything that is needed. A set that is based on
//! others is resolved together with all of their packages, and keeps only the packages that they
//! lack. Hashes come from the indexes, which are checked against Debian's signature.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use names::PinName;
use pins::{FromSuites, LockedPackage, PackageLock, PackageSet, SuiteIndex};
use sources::{ErrorKind, SourceUrl};

use crate::apt::{Apt, Setup, SetupError, Suite};
use crate::index::{IndexError, read_index};
use crate::mirror::{Mirror, Mirrors};
use crate::program::{ProgramError, Programs};

/// The desired content of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedSet {
    /// The sets that it is based on.
    pub on: BTreeSet<PinName>,
    /// Package names, or `?essential`.
    pub wanted: BTreeSet<String>,
}

/// The packages to look up, and the sources to use.
#[derive(Debug)]
pub struct Resolve<'a> {
    /// The code name of the release, for example `trixie`.
    pub suite: &'a str,
    /// The architecture in dpkg's spelling.
    pub architecture: &'a str,
    /// The date of the lookup to record in the lock, as `YYYY-MM-DD`.
    pub checked: &'a str,
    /// The packages that come from other suites.
    pub from: &'a FromSuites,
    /// The indexes in the existing lock. An index that is older than these is refused.
    pub known: &'a BTreeMap<String, SuiteIndex>,
    /// The sets by name.
    pub sets: &'a BTreeMap<PinName, WantedSet>,
    /// The mirrors for the indexes. The first mirror of each list is used.
    pub mirrors: &'a Mirrors,
    /// Debian's public keys, usually `/usr/share/keyrings/debian-archive-keyring.gpg`.
    pub keyring: &'a Path,
    /// Whether to include updates and security updates of the release.
    pub with_updates: bool,
    /// Whether the mirror is a snapshot of an earlier day, whose indexes may have expired.
    pub is_snapshot: bool,
    /// A folder for temporary files.
    pub work: &'a Path,
}

/// Why the packages could not be determined.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// There is no mirror.
    #[error("no mirror of the {archive} is known; give its URL")]
    NoMirror {
        /// The archive without a mirror.
        archive: &'static str,
    },
    /// A set is based on itself, directly or indirectly, or on a set that does not exist.
    #[error("set `{set}` is based on `{on}`, which does not exist or is itself based on `{set}`")]
    Order {
        /// The set.
        set: PinName,
        /// The set that it is based on.
        on: PinName,
    },
    /// Apt's files cannot be read or written.
    #[error("cannot look up the packages of `{suite}`")]
    Setup {
        /// The release.
        suite: String,
        /// The reason.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The indexes cannot be downloaded, or their signature is wrong.
    #[error("cannot download the package indexes of `{suite}` from `{mirror}`")]
    Update {
        /// The release.
        suite: String,
        /// The first mirror.
        mirror: String,
        /// apt's error.
        #[source]
        source: ProgramError,
    },
    /// Apt cannot install a set: a name does not exist, or packages conflict.
    #[error("apt cannot choose the packages of set `{set}` of `{suite}`")]
    Choose {
        /// The set.
        set: PinName,
        /// The release.
        suite: String,
        /// apt's error.
        #[source]
        source: ProgramError,
    },
    /// The mirror's index is older than the index in the lock.
    #[error(
        "the mirror's index of `{suite}` is from {found}, but the lock has a newer one from {known}"
    )]
    Older {
        /// The suite.
        suite: String,
        /// The date of the mirror's index.
        found: String,
        /// The date of the lock's index.
        known: String,
    },
    /// A signed index cannot be read.
    #[error("cannot read the index of `{suite}`")]
    Index {
        /// The suite.
        suite: String,
        /// The reason.
        #[source]
        source: IndexError,
    },
    /// A name in `from` matches no package of the lock.
    #[error("`{name}` should come from `{suite}`, but no set needs a package of that name")]
    Unused {
        /// The name.
        name: String,
        /// The suite.
        suite: String,
    },
    /// apt's output is invalid.
    #[error("cannot parse apt's output for set `{set}`: {why}")]
    Answer {
        /// The set.
        set: PinName,
        /// The reason.
        why: String,
    },
}

impl ResolveError {
    /// Returns the last lines of apt's output, if it failed. They are unsanitised.
    pub fn last_lines(&self) -> &[String] {
        match self {
            Self::Update { source, .. } | Self::Choose { source, .. } => source.last_lines(),
            Self::NoMirror { .. }
            | Self::Order { .. }
            | Self::Setup { .. }
            | Self::Older { .. }
            | Self::Index { .. }
            | Self::Unused { .. }
            | Self::Answer { .. } => &[],
        }
    }

    /// Returns the URL of the first index that apt could not download, with the kind of failure,
    /// if apt reported one.
    pub fn refused(&self) -> Option<(SourceUrl, ErrorKind)> {
        match self {
            Self::Update { source, .. } => refused(source.last_lines()),
            _ => None,
        }
    }
}

/// Finds the first failed download in apt's output: a line `Err:1 URL SUITE FILE`, and the reason on
/// the next line; or a line `E: Failed to fetch URL  REASON`.
fn refused(lines: &[String]) -> Option<(SourceUrl, ErrorKind)> {
    let next = lines.iter().skip(1).map(String::as_str).chain([""]);
    lines.iter().zip(next).find_map(|(line, next)| {
        let (place, reason) = match line.strip_prefix("E: Failed to fetch ") {
            Some(rest) => rest.split_once(' ')?,
            None => (line.strip_prefix("Err:")?.split_once(' ')?.1, next),
        };
        // Apt may read the index over http. The result is the URL from which files are fetched.
        let mirror: Mirror = place.split_whitespace().next()?.parse().ok()?;
        let url = mirror.file("");
        Some((url.trim_end_matches('/').parse().ok()?, kind_of(reason.trim())?))
    })
}

/// Returns the kind of failure that apt gives as the reason: an HTTP status, or a message.
fn kind_of(reason: &str) -> Option<ErrorKind> {
    let status = reason.split_whitespace().next().and_then(|word| word.parse::<u16>().ok());
    match status {
        Some(401 | 403) => Some(ErrorKind::Authentication),
        Some(404 | 410) => Some(ErrorKind::NotFound),
        Some(407) => Some(ErrorKind::Proxy),
        Some(429) => Some(ErrorKind::RateLimited),
        Some(500..=599) => Some(ErrorKind::Server),
        Some(_) => None,
        None if reason.starts_with("Clearsigned file isn't valid") => Some(ErrorKind::Content),
        None if reason.contains("Hash Sum mismatch") => Some(ErrorKind::Integrity),
        None => None,
    }
}

/// Looks up everything that the sets need. The configuration and state of the machine's own apt are
/// neither read nor changed.
///
/// # Errors
/// Fails if a program is missing, a mirror does not respond, a signature is wrong, or apt finds no
/// solution.
pub async fn resolve(
    programs: &Programs,
    request: &Resolve<'_>,
) -> Result<PackageLock, ResolveError> {
    let suite = request.suite.to_owned();
    let suites = suites(request)?;
    let mirror = suites.first().map(|first| first.mirror.to_string()).unwrap_or_default();
    let setup = Setup {
        suites,
        from: request.from,
        architecture: request.architecture,
        keyring: request.keyring,
        accepts_expired: request.is_snapshot,
    };
    let set_up =
        |source: SetupError| ResolveError::Setup { suite: suite.clone(), source: source.into() };
    let apt = Apt::new(programs, request.work, &setup).map_err(set_up)?;
    let updated = apt.run("apt-get", ["-q", "update"]).await;
    updated.map_err(|source| ResolveError::Update { suite: suite.clone(), mirror, source })?;
    let indexes = indexes(&apt, &setup, request.known)?;

    let mut sets: BTreeMap<PinName, PackageSet> = BTreeMap::new();
    let mut names = BTreeSet::new();
    for name in in_order(request.sets)? {
        let WantedSet { on, wanted } = &request.sets[name];
        let below = below(&sets, on);
        let chosen = choose(&apt, request, name, wanted, &below).await?;
        names.extend(chosen.names);
        let packages = chosen.packages.into_iter().filter(|one| !below.contains(&one.name));
        let packages = packages.collect();
        let set = PackageSet { on: on.clone(), wanted: wanted.clone(), packages };
        sets.insert(name.clone(), set);
    }
    for (other_suite, packages) in request.from {
        if let Some(name) = packages.iter().find(|name| !names.contains(*name)) {
            return Err(ResolveError::Unused { name: name.clone(), suite: other_suite.clone() });
        }
    }
    let (architecture, checked) = (request.architecture.to_owned(), request.checked.to_owned());
    Ok(PackageLock { suite, architecture, checked, from: request.from.clone(), indexes, sets })
}

/// Returns the indexes that apt downloaded, by suite. Apt has checked their signatures, but an old
/// index also has a valid signature, and would bring back packages with known vulnerabilities.
fn indexes(
    apt: &Apt<'_>,
    setup: &Setup<'_>,
    known: &BTreeMap<String, SuiteIndex>,
) -> Result<BTreeMap<String, SuiteIndex>, ResolveError> {
    let mut indexes = BTreeMap::new();
    for Suite { name, .. } in &setup.suites {
        let suite = name.clone();
        let index = read_index(&apt.lists(), name)
            .map_err(|source| ResolveError::Index { suite: suite.clone(), source })?;
        if let Some(known) = known.get(name).filter(|known| index.date < known.date) {
            let (found, known) = (index.date, known.date.clone());
            return Err(ResolveError::Older { suite, found, known });
        }
        indexes.insert(suite, index);
    }
    Ok(indexes)
}

fn suites<'a>(request: &Resolve<'a>) -> Result<Vec<Suite<'a>>, ResolveError> {
    let archive = request.mirrors.archive.first();
    let mirror = archive.ok_or(ResolveError::NoMirror { archive: "Debian archive" })?;
    let mut names = vec![request.suite.to_owned()];
    // The release in development has neither updates nor security updates.
    if request.with_updates {
        names.extend(["updates", "security"].map(|part| format!("{}-{part}", request.suite)));
    }
    let also = request.from.keys().filter(|name| !names.contains(name)).cloned();
    let also: Vec<String> = also.collect();
    names.extend(also);
    let suite = |name: String| {
        let security = request.mirrors.security.first();
        let mirror = if name.ends_with("-security") {
            security.ok_or(ResolveError::NoMirror { archive: "archive of security updates" })?
        } else {
            mirror
        };
        Ok(Suite { mirror, name })
    };
    names.into_iter().map(suite).collect()
}

/// Returns the names of the sets, each after the sets that it is based on.
fn in_order(sets: &BTreeMap<PinName, WantedSet>) -> Result<Vec<&PinName>, ResolveError> {
    let mut ordered: Vec<&PinName> = Vec::new();
    while ordered.len() < sets.len() {
        let is_ready = |set: &WantedSet| set.on.iter().all(|on| ordered.contains(&on));
        let mut open = sets.iter().filter(|(name, _)| !ordered.contains(name));
        match open.clone().find(|(_, set)| is_ready(set)) {
            Some((name, _)) => ordered.push(name),
            None => {
                let Some((first, _)) = open.next() else { break };
                return Err(at_fault(sets, &ordered, first));
            }
        }
    }
    Ok(ordered)
}

/// Returns the error for a set that cannot be put in order: it names the set below it that is based
/// on a missing set, or a set that is based on itself.
fn at_fault(
    sets: &BTreeMap<PinName, WantedSet>,
    ordered: &[&PinName],
    first: &PinName,
) -> ResolveError {
    let (mut seen, mut set, mut on) = (BTreeSet::new(), first, first);
    while let Some(next) = sets.get(on).filter(|_| seen.insert(on)) {
        set = on;
        on = next.on.iter().find(|below| !ordered.contains(below)).unwrap_or(on);
    }
    ResolveError::Order { set: set.clone(), on: on.clone() }
}

/// Returns the names of all packages in the sets `on`, and in the sets that these are based on.
fn below(sets: &BTreeMap<PinName, PackageSet>, on: &BTreeSet<PinName>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for set in on.iter().filter_map(|name| sets.get(name)) {
        names.extend(set.packages.iter().map(|package| package.name.clone()));
        names.extend(below(sets, &set.on));
    }
    names
}

/// The packages that apt would install.
#[derive(Debug, PartialEq, Eq)]
struct Chosen {
    /// The packages, sorted.
    packages: Vec<LockedPackage>,
    /// Their names, and the names of their sources as `src:NAME`.
    names: BTreeSet<String>,
}

/// Returns everything that apt would install for `wanted` and `below`.
async fn choose(
    apt: &Apt<'_>,
    request: &Resolve<'_>,
    set: &PinName,
    wanted: &BTreeSet<String>,
    below: &BTreeSet<String>,
) -> Result<Chosen, ResolveError> {
    let failed =
        |source| ResolveError::Choose { set: set.clone(), suite: request.suite.to_owned(), source };
    let odd = |why: String| ResolveError::Answer { set: set.clone(), why };
    let install = ["-q", "--simulate", "install", "--"].map(str::to_owned);
    let names = wanted.union(below).cloned();
    let plan = apt.run("apt-get", install.into_iter().chain(names)).await.map_err(failed)?;
    let chosen = installed(&plan).map_err(odd)?;
    let exact = chosen.iter().map(|(name, version)| format!("{name}={version}"));
    let show = ["show", "--"].map(str::to_owned);
    let shown = apt.run("apt-cache", show.into_iter().chain(exact)).await.map_err(failed)?;
    packages(&shown, &chosen).map_err(odd)
}

/// Parses names and versions from `Inst apt (3.0.3 Debian:13/stable [amd64])` lines.
fn installed(plan: &str) -> Result<BTreeMap<String, String>, String> {
    let mut chosen = BTreeMap::new();
    for line in plan.lines() {
        let Some(rest) = line.strip_prefix("Inst ") else { continue };
        let mut words = rest.split_whitespace();
        let name = words.next().unwrap_or_default();
        // An installed version would be in between, in brackets, but nothing is installed.
        match words.next().and_then(|word| word.strip_prefix('(')) {
            Some(version) => chosen.insert(name.to_owned(), version.to_owned()),
            None => return Err(format!("the line `{line}` has no version")),
        };
    }
    Ok(chosen)
}

/// Parses the paragraphs of an index for the `chosen` packages.
fn packages(index: &str, chosen: &BTreeMap<String, String>) -> Result<Chosen, String> {
    let mut names = BTreeSet::new();
    let mut found: BTreeMap<String, LockedPackage> = BTreeMap::new();
    for paragraph in index.split("\n\n") {
        let field = |name: &str| {
            let mut values = paragraph.lines().filter_map(|line| line.split_once(": "));
            values.find(|(field, _)| *field == name).map(|(_, value)| value.trim().to_owned())
        };
        let (Some(name), Some(version)) = (field("Package"), field("Version")) else { continue };
        if chosen.get(&name) != Some(&version) {
            continue;
        }
        // The field contains the source's version in brackets if it differs. Without the field, the
        // source has the name of the package.
        let source = field("Source").unwrap_or_else(|| name.clone());
        names.extend(source.split_whitespace().next().map(|source| format!("src:{source}")));
        names.insert(name.clone());
        let lacks = |key: &str| format!("`{name}` has no valid field `{key}`");
        let package = LockedPackage {
            architecture: field("Architecture").ok_or_else(|| lacks("Architecture"))?,
            file: field("Filename").ok_or_else(|| lacks("Filename"))?,
            size: field("Size").and_then(|size| size.parse().ok()).ok_or_else(|| lacks("Size"))?,
            sha256: field("SHA256")
                .and_then(|hash| hash.parse().ok())
                .ok_or_else(|| lacks("SHA256"))?,
            name: name.clone(),
            version,
        };
        // Both archives may contain the same file. The main archive keeps it longer.
        let is_better = found.get(&name).is_none_or(|known| known.is_security_update());
        if is_better {
            found.insert(name, package);
        }
    }
    match chosen.keys().find(|name| !found.contains_key(*name)) {
        Some(name) => Err(format!("the index does not contain `{name}`")),
        None => Ok(Chosen { packages: found.into_values().collect(), names }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> PinName {
        text.parse().unwrap()
    }

    fn sets(all: &[(&str, &[&str])]) -> BTreeMap<PinName, WantedSet> {
        let set = |on: &[&str]| WantedSet {
            on: on.iter().map(|on| name(on)).collect(),
            wanted: BTreeSet::new(),
        };
        all.iter().map(|(key, on)| (name(key), set(on))).collect()
    }

    #[test]
    fn sets_come_after_the_sets_they_depend_on() {
        let sets = sets(&[("a", &["c"]), ("b", &["a", "c"]), ("c", &[])]);
        assert_eq!(in_order(&sets).unwrap(), [&name("c"), &name("a"), &name("b")]);
    }

    #[test]
    fn cycles_and_unknown_sets_are_refused() {
        for (all, set, on) in [
            (sets(&[("a", &["b"]), ("b", &["a"])]), "b", "a"),
            (sets(&[("a", &["x"])]), "a", "x"),
            // The message must not name `a`, whose base exists and is not based on it.
            (sets(&[("a", &["b", "ok"]), ("b", &["x"]), ("ok", &[])]), "b", "x"),
            (sets(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]), "c", "b"),
        ] {
            let wanted = format!(
                "set `{set}` is based on `{on}`, which does not exist or is itself based on `{set}`"
            );
            assert_eq!(in_order(&all).unwrap_err().to_string(), wanted);
        }
    }

    #[test]
    fn apt_says_which_mirror_failed_and_why() {
        let err = |reason: &str| {
            format!(
                "Ign:1 http://h:1/x trixie InRelease\nErr:2 http://127.0.0.1:9/debian trixie InRelease\n  {reason} [IP: 127.0.0.1 9]\nReading package lists...\nE: no"
            )
        };
        for (text, wanted) in [
            (err("401  Unauthorized"), Some(ErrorKind::Authentication)),
            (err("403  Forbidden"), Some(ErrorKind::Authentication)),
            (err("404  Not Found"), Some(ErrorKind::NotFound)),
            (err("407  Proxy Authentication Required"), Some(ErrorKind::Proxy)),
            (err("429  Too Many Requests"), Some(ErrorKind::RateLimited)),
            (err("500  Internal Server Error"), Some(ErrorKind::Server)),
            (err("Clearsigned file isn't valid, got 'NOSPLIT'"), Some(ErrorKind::Content)),
            (err("Could not connect to 127.0.0.1:9"), None),
            (
                "E: Failed to fetch http://127.0.0.1:9/debian  Hash Sum mismatch".to_owned(),
                Some(ErrorKind::Integrity),
            ),
            ("E: Unable to locate package x".to_owned(), None),
        ] {
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            let found = refused(&lines);
            assert_eq!(found.as_ref().map(|(_, kind)| *kind), wanted, "{text}");
            assert!(found.is_none_or(|(url, _)| url.as_str() == "http://127.0.0.1:9/debian"));
        }
        let public = "Err:1 http://deb.debian.org/debian sid InRelease\n  404  Not Found";
        let lines: Vec<String> = public.lines().map(str::to_owned).collect();
        assert_eq!(refused(&lines).unwrap().0.as_str(), "https://deb.debian.org/debian");
    }

    #[test]
    fn a_plan_is_read_line_by_line() {
        let plan = "Reading package lists...\nInst libc6 (2.41-12+deb13u4 Debian:13.1/stable [amd64]) []\nInst base-files (13.8 Debian:13.1/stable [amd64])\nConf libc6 (2.41-12 x)\n";
        let chosen = installed(plan).unwrap();
        assert_eq!(chosen.len(), 2);
        assert_eq!(chosen["libc6"], "2.41-12+deb13u4");
        assert!(installed("Inst libc6\n").is_err());
    }

    #[test]
    fn of_two_places_of_a_package_the_main_archive_is_taken() {
        let paragraph = |file: &str| {
            format!(
                "Package: a\nVersion: 1\nArchitecture: all\nFilename: {file}\nSize: 3\nSHA256: {}\nDescription: b\n Package: c\n",
                "0".repeat(64)
            )
        };
        let chosen: BTreeMap<_, _> = [("a".to_owned(), "1".to_owned())].into();
        let both = format!(
            "{}\n{}",
            paragraph("pool/updates/main/a/a/a_1_all.deb"),
            paragraph("pool/main/a/a/a_1_all.deb")
        );
        let taken = packages(&both, &chosen).unwrap();
        assert_eq!(taken.packages[0].file, "pool/main/a/a/a_1_all.deb");
        assert_eq!(taken.names, ["a", "src:a"].map(str::to_owned).into());
        let built = paragraph("x").replace("Package: a", "Package: a\nSource: b (2:1-3)");
        assert!(packages(&built, &chosen).unwrap().names.contains("src:b"));
        let missing = packages("Package: b\nVersion: 1\n", &chosen).unwrap_err();
        assert_eq!(missing, "the index does not contain `a`");
        let damaged = paragraph("x").replace("Size: 3", "Size: many");
        assert_eq!(packages(&damaged, &chosen).unwrap_err(), "`a` has no valid field `Size`");
    }
}
