//! Looks up Debian and Python packages again, and writes them with their hashes below
//! `versions/locks`.
//!
//! `debian` runs apt, and `python` runs `uv`; both return [`Found`]. [`look_up`] refuses a file
//! whose hash changed although its name did not, and [`write()`] writes everything at the end.
//! [`check`] makes no requests: it checks that each lock matches the project's current
//! requirements.

mod content;
mod debian;
mod python;
mod report;
mod uv;
mod uv_install;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use failure::{Failure, Kind};
use names::{PinName, TrackName};
use pins::{Base, Tracks};
use project::mirrors::Mirrors;
use project::{Project, python_locks};
use sources::Event;

use self::content::FOLDER;
pub use self::content::Found;
pub use self::report::{Index, LockChange, LockReport, PackageAt, PackageFromTo};
use crate::files::replace;

/// The locks of a project.
#[derive(Debug)]
pub struct Locks {
    debian: BTreeSet<String>,
    python: pins::PythonSets,
}

impl Locks {
    fn has(&self, name: &str) -> bool {
        self.debian.contains(name)
            || name.parse::<PinName>().is_ok_and(|name| self.python.contains_key(&name))
    }
}

/// How to look up packages.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The mirrors.
    pub mirrors: &'a Mirrors,
    /// The Python package index. If absent, pip's index.
    pub index: Option<&'a str>,
    /// Whether to accept a file whose hash changed although its name and version did not.
    pub accepts_moved: bool,
    /// Whether to accept expired Debian package indexes.
    pub is_snapshot: bool,
}

/// The result of a check.
#[derive(Debug)]
pub struct Checked {
    /// The number of locks that were checked.
    pub count: usize,
    /// The locks that do not exist yet.
    pub unmade: Vec<String>,
    /// The locks that do not match the requirements, with the reasons.
    pub stale: Vec<(String, String)>,
}

/// Returns the locks with the given names, and the locks of the tracks with the given names.
/// Without a name, returns all locks.
///
/// # Errors
/// There is no such lock or track, or a data file is wrong.
pub fn choose(project: &Project, names: &[String]) -> Result<Locks, Failure> {
    let python = project.python_sets()?;
    let mut debian = debian_locks(project)?;
    // A lock of the project may have the same name as a built-in lock.
    debian.retain(|name| {
        let is_python = name.parse::<PinName>().is_ok_and(|name| python.contains_key(&name));
        !is_python || project.has_own(&format!("{FOLDER}/{name}.toml"))
    });
    let mut all = Locks { debian, python };
    let twice = all.python.keys().find(|name| all.debian.contains(name.as_str()));
    if let Some(name) = twice {
        return Err(Failure::new(
            Kind::Input,
            format!("`{name}` is the name of both a Debian lock and a Python lock"),
        )
        .hint("rename the table in `versions/python.toml`"));
    }
    if names.is_empty() {
        return Ok(all);
    }
    let tracks = project.tracks()?;
    let mut wanted = BTreeSet::new();
    for name in names {
        match tracks.find(name) {
            _ if all.has(name) => drop(wanted.insert(name.clone())),
            Some(track) => {
                let used = of_track(&tracks, track)?;
                if let Some(missing) = used.iter().find(|lock| !all.has(lock)) {
                    return Err(undefined(missing, track));
                }
                wanted.extend(used);
            }
            None => return Err(unknown(name, &all, &tracks)),
        }
    }
    all.debian.retain(|name| wanted.contains(name));
    all.python.retain(|name, _| wanted.contains(name.as_str()));
    Ok(all)
}

/// Returns the error for a lock that a track uses, but that no file defines.
fn undefined(name: &str, track: &TrackName) -> Failure {
    let what = format!(
        "track `{track}` uses lock `{name}`, but there is neither `{FOLDER}/{name}.toml` nor a table `[{name}]` in `versions/python.toml`"
    );
    Failure::new(Kind::Input, what).hint("create it, or restore the file: `git checkout versions`")
}

/// Refuses locks that a track uses, but that no file defines. Tracks that are wrong are reported by
/// `plan`.
fn check_defined(project: &Project, locks: &Locks) -> Result<(), Failure> {
    let Ok(tracks) = project.tracks() else { return Ok(()) };
    for track in tracks.tracks.keys() {
        let Ok(used) = of_track(&tracks, track) else { continue };
        if let Some(name) = used.iter().find(|name| !locks.has(name)) {
            return Err(undefined(name, track));
        }
    }
    Ok(())
}

fn unknown(name: &str, all: &Locks, tracks: &Tracks) -> Failure {
    let told = Failure::new(Kind::Input, format!("there is no lock or track `{name}`"));
    let known =
        || all.debian.iter().map(String::as_str).chain(all.python.keys().map(PinName::as_str));
    let otherwise = format!("the locks are {}", known().collect::<Vec<_>>().join(", "));
    told.did_you_mean(name, known().chain(tracks.tracks.keys().map(TrackName::as_str)), otherwise)
}

/// Returns the names of the Debian locks: the project's own, and the built-in ones if the project
/// uses the built-in data files.
fn debian_locks(project: &Project) -> Result<BTreeSet<String>, Failure> {
    project.check_inside(FOLDER).map_err(|error| project.unreadable(FOLDER, &error))?;
    let folder = project.root.join(FOLDER);
    if let Err(error) = std::fs::read_dir(&folder)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        let what = format!("reading `{}` failed", folder.display());
        return Err(Failure::caused(Kind::Input, what, &error));
    }
    let names = project.names_in(FOLDER).into_iter();
    let names = names.filter(|name| !name.starts_with(['.']) && !name.starts_with("pylock."));
    Ok(names.filter_map(|name| Some(name.strip_suffix(".toml")?.to_owned())).collect())
}

/// Returns the names of the locks that a track's variants use.
fn of_track(tracks: &Tracks, name: &TrackName) -> Result<BTreeSet<String>, Failure> {
    let chain = tracks.chain(name);
    let variants = chain.iter().filter_map(|(_, track)| track.variants());
    let mut names = BTreeSet::new();
    for variant in variants.flat_map(|variants| variants.variants.values()) {
        if let Base::Packages(lock) = &variant.base {
            names.insert(lock.clone());
        }
        names.extend(variant.stages.iter().flat_map(|stage| stage.python.clone()));
    }
    if names.is_empty() {
        let message = format!("track `{name}` uses no lock");
        return Err(Failure::new(Kind::Input, message)
            .hint("`build-pipeline lock` without a name looks up all locks"));
    }
    Ok(names)
}

/// Looks up the packages of locks. `listener` receives the events of fetches, and `tell` gets a
/// message if this run installs uv. Changes no lock.
///
/// # Errors
/// The requirements are wrong or cannot be met, a source cannot be reached, or a file has changed.
pub fn look_up(
    project: &Project,
    locks: &Locks,
    asked: &Asked<'_>,
    listener: impl Fn(Event<'_>) + Send + Sync + 'static,
    tell: &dyn Fn(&str),
) -> Result<Vec<Found>, Failure> {
    let mut all = Vec::new();
    for name in &locks.debian {
        all.push(debian::look_up(project, name, asked.mirrors, asked.is_snapshot)?);
    }
    if !locks.python.is_empty() {
        let sources = project::fetch::sources(asked.mirrors, listener)?;
        let mut asking = python::Asking::new(project, sources, asked.mirrors, asked.index, tell)?;
        for (name, set) in &locks.python {
            all.push(asking.look_up(name, set)?);
        }
    }
    if !asked.accepts_moved {
        all.iter().try_for_each(refuse_moved)?;
    }
    Ok(all)
}

/// Writes the files of locks that differ, unless `is_dry`. Returns the changes. The report contains
/// the places in `mirrors` that keep old packages.
///
/// # Errors
/// A file cannot be written.
pub fn write(
    project: &Project,
    all: &[Found],
    mirrors: &Mirrors,
    is_dry: bool,
) -> Result<LockReport, Failure> {
    let old_packages = mirrors.old_packages();
    let mut report = LockReport::default();
    for found in all {
        let mut change = LockChange::new(&found.name, found.kind, &found.before, &found.after);
        change.indexes.clone_from(&found.indexes);
        if !found.indexes.is_empty() {
            change.old_packages = old_packages.iter().map(ToString::to_string).collect();
        }
        change.files = write_one(project, found, is_dry)?;
        change.written = !is_dry && !change.files.is_empty();
        report.locks.push(change);
    }
    Ok(report)
}

/// Checks that locks match the current requirements. `is_named` is whether the user named them: a
/// Python lock that does not exist yet is stale only in that case. Makes no requests.
///
/// # Errors
/// A lock or a data file cannot be read or is damaged.
pub fn check(project: &Project, locks: &Locks, is_named: bool) -> Result<Checked, Failure> {
    if !is_named {
        check_defined(project, locks)?;
    }
    let mut stale = Vec::new();
    for name in &locks.debian {
        stale.extend(debian::stale(project, name)?.map(|why| (name.clone(), why)));
    }
    let pins = project.pins()?;
    let mut unmade = Vec::new();
    for (name, set) in &locks.python {
        // Like an unresolved pin, a missing lock stops only the builds that need it.
        if !is_named && !python_locks::is_made(project, name.as_str()) {
            unmade.push(name.to_string());
            continue;
        }
        let why = python_locks::stale(project, &pins, name.as_str(), set)?;
        stale.extend(why.map(|why| (name.to_string(), why)));
    }
    let count = locks.debian.len() + locks.python.len() - unmade.len();
    Ok(Checked { count, unmade, stale })
}

/// Refuses a file whose content changed although its name did not.
fn refuse_moved(found: &Found) -> Result<(), Failure> {
    for (name, now) in &found.after {
        let Some(old) = found.before.get(name).filter(|old| old.version == now.version) else {
            continue;
        };
        let moved = now.files.iter().find_map(|(file, hash)| {
            let before = old.files.get(file).filter(|before| *before != hash)?;
            Some((file, before, hash))
        });
        if let Some((file, before, hash)) = moved {
            let message = format!(
                "`{file}` of lock `{}` has changed: its hash was `{before}`, and is now `{hash}`",
                found.name
            );
            return Err(Failure::new(Kind::Integrity, message)
                .hint("nothing was written; find out why the file changed before you trust it")
                .hint(format!(
                    "`build-pipeline lock {} --accept-moved` accepts the new file",
                    found.name
                )));
        }
    }
    Ok(())
}

/// Writes the files of a lock that differ, atomically. Returns their names.
fn write_one(project: &Project, found: &Found, is_dry: bool) -> Result<Vec<String>, Failure> {
    let mut written = Vec::new();
    for (name, text) in &found.files {
        project.check_inside(name).map_err(|error| project.unreadable(name, &error))?;
        let path = project.root.join(name);
        let now = std::fs::read(&path)
            .or_else(|_| project.text(name).map(|of_program| of_program.as_bytes().to_vec()));
        if now.is_ok_and(|now| now == text.as_bytes()) {
            continue;
        }
        if !is_dry {
            put(&path, text).map_err(|error| {
                let what = format!("writing `{}` failed", path.display());
                Failure::caused(Kind::Machine, what, &error)
                    .hint("the file was not changed; check the space and permissions of its folder")
            })?;
        }
        written.push(name.clone());
    }
    Ok(written)
}

fn put(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder)?;
    // The system releases the lock when the process ends, even if it is killed; no file remains.
    let held = File::open(folder)?;
    held.lock()?;
    replace(path, text)
}
