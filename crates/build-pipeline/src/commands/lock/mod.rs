//! `build-pipeline lock`: looks up Debian and Python packages again, and writes them with their
//! hashes below `versions/locks`.
//!
//! `debian` asks apt, and `python` has `uv` ask the Python index; both return [`Found`]. This
//! module compares the results, refuses a file whose hash changed although its name did not, and
//! writes everything at the end. `--check` makes no requests: it checks that each lock matches the
//! project's current requirements.

mod debian;
mod python;
pub(crate) mod report;
mod uv;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use atomic_write_file::AtomicWriteFile;
use clap::Args;
use failure::{Failure, Kind, nearest};
use names::PinName;
use pins::{Track, VariantBase};
use project::{Project, python_locks};

use self::report::{LockChange, LockReport};
use crate::cli::{Format, Global};
use crate::commands::bump::args::Index;
use crate::global;
use crate::output;

/// The folder of the locks.
const FOLDER: &str = "versions/locks";

/// Look up Debian and Python packages again, and lock them with their hashes
#[derive(Debug, Args)]
pub(crate) struct Lock {
    /// Locks, or tracks for all locks that they use [default: all locks]
    #[arg(value_name = "LOCK|TRACK")]
    names: Vec<String>,
    /// Print the changes and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Check that each lock matches the current requirements; make no requests and write nothing
    #[arg(long, visible_alias = "locked", conflicts_with = "dry_run")]
    check: bool,
    #[command(flatten)]
    trust: Trust,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    index: Index,
}

/// Changes that are refused unless they are explicitly allowed.
#[derive(Debug, Args)]
struct Trust {
    /// Accept a file whose hash changed although its name and version did not
    #[arg(long)]
    accept_moved: bool,
    /// Accept expired Debian package indexes, such as those of a copy of an earlier day
    #[arg(long)]
    snapshot: bool,
}

/// The content of a lock: each package with its version and the hashes of its files.
type Content = BTreeMap<String, Locked>;

/// One package of a lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Locked {
    version: String,
    /// The hashes, by file name.
    files: BTreeMap<String, String>,
}

/// The new content of a lock.
#[derive(Debug)]
struct Found {
    name: String,
    /// `debian` or `python`.
    kind: &'static str,
    before: Content,
    after: Content,
    /// The files of the lock with their new text, by path from the project's root. The file that
    /// makes the lock valid comes last.
    files: Vec<(String, String)>,
}

/// The locks of a project.
#[derive(Debug)]
struct Locks {
    debian: BTreeSet<String>,
    python: pins::PythonSets,
}

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Lock) -> Result<(), Failure> {
    let project = global::project(global)?;
    let chosen = choose(&project, &args.names)?;
    if args.check {
        return check(&project, &chosen, args);
    }
    let mut all = Vec::new();
    for name in &chosen.debian {
        all.push(debian::look_up((global, &project), name, args.trust.snapshot)?);
    }
    if !chosen.python.is_empty() {
        let mut asking = python::Asking::new(global, &project, args.index.url.as_deref())?;
        for (name, set) in &chosen.python {
            all.push(asking.look_up(name, set)?);
        }
    }
    if !args.trust.accept_moved {
        all.iter().try_for_each(refuse_moved)?;
    }
    let mut report = LockReport::default();
    for found in &all {
        let mut change = LockChange::new(&found.name, found.kind, (&found.before, &found.after));
        change.files = write(&project, found, args.dry_run)?;
        change.written = !args.dry_run && !change.files.is_empty();
        report.locks.push(change);
    }
    match args.format {
        Format::Json => output::json(&report),
        Format::Text => output::sanitised_result(&report.text(args.dry_run)),
    }
}

/// Returns the given locks, and the locks of the given tracks.
fn choose(project: &Project, names: &[String]) -> Result<Locks, Failure> {
    let mut all = Locks { debian: debian_locks(project)?, python: project.python_sets()? };
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
    let mut wanted = BTreeSet::new();
    for name in names {
        let is_lock = all.debian.contains(name)
            || name.parse::<PinName>().is_ok_and(|name| all.python.contains_key(&name));
        match Track::from_name(name) {
            _ if is_lock => drop(wanted.insert(name.clone())),
            Some(track) => wanted.extend(of_track(project, track)?),
            None => return Err(unknown(name, &all)),
        }
    }
    all.debian.retain(|name| wanted.contains(name));
    all.python.retain(|name, _| wanted.contains(name.as_str()));
    Ok(all)
}

fn unknown(name: &str, all: &Locks) -> Failure {
    let told = Failure::new(Kind::Input, format!("there is no lock or track `{name}`"));
    let known =
        || all.debian.iter().map(String::as_str).chain(all.python.keys().map(PinName::as_str));
    match nearest(name, known().chain(Track::ALL.map(Track::name))) {
        Some(near) => told.hint(format!("did you mean `build-pipeline lock {near}`?")),
        None => told.hint(format!("the locks are {}", known().collect::<Vec<_>>().join(", "))),
    }
}

/// Returns the names of the Debian locks.
fn debian_locks(project: &Project) -> Result<BTreeSet<String>, Failure> {
    let folder = project.root.join(FOLDER);
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => {
            let what = format!("reading `{}` failed", folder.display());
            return Err(Failure::caused(Kind::Input, what, &error));
        }
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let names = names.filter(|name| !name.starts_with(['.']) && !name.starts_with("pylock."));
    Ok(names.filter_map(|name| Some(name.strip_suffix(".toml")?.to_owned())).collect())
}

/// Returns the names of the locks that a track's variants use.
fn of_track(project: &Project, track: Track) -> Result<BTreeSet<String>, Failure> {
    let tracks = project.parse("versions/tracks.toml", pins::parse_tracks)?;
    let variants = tracks.built.get(&track).map(|settings| settings.variants.values());
    let mut names = BTreeSet::new();
    for variant in variants.into_iter().flatten() {
        if let VariantBase::Packages(lock) = &variant.base {
            names.insert(lock.clone());
        }
        names.extend(variant.stages.iter().flat_map(|stage| stage.python.clone()));
    }
    if names.is_empty() {
        let message = format!("track `{}` uses no lock", track.name());
        return Err(Failure::new(Kind::Input, message)
            .hint("`build-pipeline lock` without a name looks up all locks"));
    }
    Ok(names)
}

/// Reports stale locks.
fn check(project: &Project, chosen: &Locks, args: &Lock) -> Result<(), Failure> {
    let mut stale = Vec::new();
    for name in &chosen.debian {
        stale.extend(debian::stale(project, name)?.map(|why| (name.clone(), why)));
    }
    let pins = project.pins()?;
    let mut unmade = Vec::new();
    for (name, set) in &chosen.python {
        // Like an unresolved pin, it stops only the builds that need it.
        if args.names.is_empty() && !python_locks::is_made(project, name.as_str()) {
            unmade.push(name.as_str());
            continue;
        }
        let why = python_locks::stale(project, &pins, name.as_str(), set)?;
        stale.extend(why.map(|why| (name.to_string(), why)));
    }
    let count = chosen.debian.len() + chosen.python.len() - unmade.len();
    for name in unmade {
        let hint = format!(
            "lock `{name}` does not exist yet; `build-pipeline lock {name}` creates it, on a machine that reaches its sources"
        );
        output::hint(&hint);
    }
    if stale.is_empty() {
        return match args.format {
            Format::Json => output::json(&LockReport::default()),
            Format::Text if count == 1 => {
                output::result("1 lock matches the current requirements\n")
            }
            Format::Text => {
                output::result(&format!("{count} locks match the current requirements\n"))
            }
        };
    }
    Err(python_locks::refuse_stale(stale))
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
                .hint("nothing was written; find out why it changed before you trust it")
                .hint(format!(
                    "`build-pipeline lock {} --accept-moved` accepts the new file",
                    found.name
                )));
        }
    }
    Ok(())
}

/// Writes the files of a lock that differ, atomically. Returns their names.
fn write(project: &Project, found: &Found, is_dry: bool) -> Result<Vec<String>, Failure> {
    let mut written = Vec::new();
    for (name, text) in &found.files {
        let path = project.root.join(name);
        if std::fs::read(&path).is_ok_and(|now| now == text.as_bytes()) {
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
    let mut file = AtomicWriteFile::open(path)?;
    file.write_all(text.as_bytes())?;
    file.commit()
}
