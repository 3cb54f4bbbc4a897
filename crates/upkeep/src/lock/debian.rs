//! Locks of Debian packages. apt resolves the sets of a lock.

use std::collections::BTreeMap;
use std::path::Path;

use debian::{Mirror, Mirrors, Programs, Resolve, ResolveError, WantedSet};
use failure::{Failure, Kind};
use pins::{LockedPackage, PackageLock, parse_package_lock, parse_wanted_packages};
use project::clock::today;
use project::mirrors::Mirrors as Rules;
use project::{Project, environment};
use sources::{Asked, Service};

use super::content::{Content, FOLDER, Found, Locked};
use super::report::Index;
use super::uv::of_disk;

/// Debian's public keys, from the package debian-archive-keyring.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Unreleased distributions, which have no updates suite.
const IN_THE_MAKING: [&str; 4] = ["sid", "unstable", "experimental", "rc-buggy"];

fn path(name: &str) -> String {
    format!("{FOLDER}/{name}.toml")
}

fn read(project: &Project, file: &str) -> Result<String, Failure> {
    let text = project.text(file).map_err(|error| project.unreadable(file, &error))?;
    Ok(text.to_string())
}

/// Asks apt which packages the sets of a lock need.
pub(crate) fn look_up(
    project: &Project,
    name: &str,
    rules: &Rules,
    is_snapshot: bool,
) -> Result<Found, Failure> {
    let file = path(name);
    let text = read(project, &file)?;
    let wanted = match parse_wanted_packages(&file, &text) {
        Ok(wanted) => wanted,
        Err(error) => return Err(Failure::places(error, text)),
    };
    let before = content(&wanted.found);
    let machine =
        |what: &str, error: &dyn std::error::Error| Failure::caused(Kind::Machine, what, error);
    let mirrors = mirrored(rules, Mirrors::of_machine(&environment::apt_folder()))?;
    let work =
        tempfile::tempdir().map_err(|error| machine("cannot create a temporary folder", &error))?;
    let (_, day) = today()?;
    let sets: BTreeMap<_, _> = wanted
        .sets
        .into_iter()
        .map(|(set, (on, wanted))| (set, WantedSet { on, wanted }))
        .collect();
    let request = Resolve {
        suite: &wanted.suite,
        architecture: &wanted.architecture,
        checked: &day,
        from: &wanted.from,
        known: &wanted.indexes,
        sets: &sets,
        mirrors: &mirrors,
        keyring: Path::new(KEYRING),
        with_updates: !IN_THE_MAKING.contains(&wanted.suite.as_str()),
        is_snapshot,
        work: work.path(),
    };
    let programs = Programs {
        path: environment::program_path(),
        variables: environment::network_variables(rules)?,
    };
    let lock = project::runtime::start()?
        .block_on(debian::resolve(&programs, &request))
        .map_err(|error| failed(&error, is_snapshot))?;
    let after = content(lock.packages(lock.sets.keys()));
    // Packages that no longer match the requirements are not an error here: this command replaces
    // them.
    let old = parse_package_lock(&file, &text).ok();
    // A new date or index alone is not a change: images depend on the text of the lock.
    let is_same = old.is_some_and(|old| {
        let (checked, indexes) = (lock.checked.clone(), lock.indexes.clone());
        PackageLock { checked, indexes, ..old } == lock
    });
    let new = if is_same { text } else { lock.to_toml() };
    let indexes = lock.indexes.into_iter().map(|(suite, index)| Index {
        suite,
        date: index.date,
        valid_until: index.valid_until,
        sha256: index.sha256.to_string(),
    });
    let (name, indexes, files) = (name.to_owned(), indexes.collect(), vec![(file, new)]);
    Ok(Found { name, kind: "debian", before, after, indexes, files })
}

/// Returns the mirrors with the rules of `--mirror` applied.
fn mirrored(rules: &Rules, mirrors: Mirrors) -> Result<Mirrors, Failure> {
    let one = |mirror: Mirror| -> Result<Mirror, Failure> {
        // Mirror rules are for https URLs. apt may read an index over http, because it is signed.
        let url = project::fetch::url(mirror.file("").trim_end_matches('/'))?;
        let asked = project::fetch::mirrored(rules, &url)?;
        if asked == url {
            return Ok(mirror);
        }
        let parsed = asked.as_str().parse::<Mirror>();
        parsed.map_err(|error| Failure::from_chain(Kind::Input, &error))
    };
    let all = |list: Vec<Mirror>| list.into_iter().map(one).collect::<Result<Vec<_>, _>>();
    let (archive, security) = (all(mirrors.archive)?, all(mirrors.security)?);
    Ok(Mirrors { archive, security, old: mirrors.old })
}

fn content<'l>(packages: impl IntoIterator<Item = &'l LockedPackage>) -> Content {
    let one = |package: &LockedPackage| {
        let files = BTreeMap::from([(package.file_name().to_owned(), package.sha256.to_string())]);
        (package.name.clone(), Locked { version: package.version.clone(), files })
    };
    packages.into_iter().map(one).collect()
}

fn failed(error: &ResolveError, is_snapshot: bool) -> Failure {
    let code = match error {
        ResolveError::NoMirror { .. } | ResolveError::Setup { .. } => Kind::Machine,
        ResolveError::Order { .. } | ResolveError::Choose { .. } | ResolveError::Unused { .. } => {
            Kind::Input
        }
        ResolveError::Older { .. } => Kind::Integrity,
        ResolveError::Index { .. } => Kind::Failed,
        ResolveError::Update { .. } => Kind::Network,
        ResolveError::Answer { .. } => Kind::Failed,
    };
    let mut told = Failure::from_chain(code, error);
    told.log = error.last_lines().to_vec();
    told = told.hint("nothing was written");
    if let Some(why) = of_disk(&error.last_lines().join("\n")) {
        return Failure { kind: Kind::Machine, ..told }.first_hint(format!(
            "{why}: apt writes temporary files below `TMPDIR` (default `/tmp`)"
        ));
    }
    if let Some((url, kind)) = error.refused() {
        let mirror = Asked { url, is_mirror: true, service: Service::Debian };
        told = failure::at_server(told, kind, &mirror);
    }
    match error {
        ResolveError::Update { .. } if !is_snapshot && error.refused().is_none() => told
            .hint("`--snapshot` accepts the package indexes of a mirror that serves the state of an earlier day")
            .hint(failure::DEBIAN_MIRROR),
        ResolveError::Update { .. } if error.refused().is_some() => {
            told.hint(failure::DEBIAN_MIRROR)
        }
        ResolveError::Choose { .. } => told
            .hint("change `wanted` of that set in its lock")
            .hint("if a package needs a newer version from another suite, list that package too: `[from]` in the lock lists the packages of each suite"),
        ResolveError::Older { .. } => told
            .hint("an old index has a valid signature, but brings back packages with known flaws; use a mirror that is up to date")
            .hint("to use the older index on purpose, delete the tables `[index.…]` from the lock and run the command again"),
        ResolveError::Unused { .. } => told.hint("correct or remove the name in `[from]` of the lock"),
        _ => told,
    }
}

/// Returns why a lock does not match the requirements, if it does not.
pub(crate) fn stale(project: &Project, name: &str) -> Result<Option<String>, Failure> {
    let file = path(name);
    let text = read(project, &file)?;
    let Err(error) = parse_package_lock(&file, &text) else { return Ok(None) };
    // If the requirements are valid, the lock is only stale and can be looked up again; otherwise,
    // it is damaged.
    match parse_wanted_packages(&file, &text) {
        Ok(_) => Ok(error.problems.first().map(|first| first.message.clone())),
        Err(damage) => Err(Failure::places(damage, text)),
    }
}
