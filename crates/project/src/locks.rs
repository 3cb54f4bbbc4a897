//! Locks that make runs with the same output wait for each other.
//!
//! An output is identified by its place on disk, not by its name: because of links, relative paths
//! and bind mounts, one place can have many names. Two locks guard a place: one for its name in the
//! parent folder, which exists before the output does, and one for the folder itself once it
//! exists. Their files are in the state folder. An existing folder is locked too, so that runs of
//! other users also wait.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use executor::Output;
use failure::{Failure, Kind};
use names::Digest;
use rustix::fs::OFlags;

use crate::environment;

/// How long a run waits for another by default: longer than it takes to push a large image.
const TIMEOUT: Duration = Duration::from_secs(600);
/// How often to retry a lock.
const POLL: Duration = Duration::from_millis(50);

/// Locks that this run holds until the value is dropped. The system releases them when the process
/// ends, even if it is killed.
#[derive(Debug, Default)]
pub struct Locks(Vec<File>);

/// The places to lock for some outputs, by identity, with the name for messages and the folder if
/// it exists.
type Places = BTreeMap<String, (String, Option<PathBuf>)>;

/// How long this run waits, and how it describes itself to other runs.
struct Wait<'a> {
    started: Instant,
    limit: Duration,
    command: &'a str,
    tell: &'a dyn Fn(&str),
}

impl Locks {
    /// Takes the locks of all outputs of a run, and waits for runs that hold one of them, at most
    /// `timeout` seconds. `command` is how other runs describe this one, and `tell` gets a sentence
    /// about each lock that this run waits for.
    ///
    /// # Errors
    /// Another run holds a lock for too long, or the files of the locks cannot be written.
    pub async fn take(
        outputs: &[&Output],
        timeout: Option<u64>,
        command: &str,
        tell: &dyn Fn(&str),
    ) -> Result<Self, Failure> {
        let folder = environment::state_folder()?.join("locks");
        fs::create_dir_all(&folder).map_err(|error| failed("creating", &folder, &error))?;
        let limit = timeout.map_or(TIMEOUT, Duration::from_secs);
        let mut wait = Wait { started: Instant::now(), limit, command, tell };
        loop {
            let wanted = wanted(outputs)?;
            let mut locks = Self::default();
            // All runs use the same order, so that no two runs wait for each other.
            for (key, (name, place)) in &wanted {
                let path = folder.join(format!("{}.lock", Digest::of(key.as_bytes()).hex()));
                locks.add(&path, place.as_deref(), name, &mut wait).await?;
            }
            // The run that held the lock may have created the folder of an output.
            if self::wanted(outputs)? == wanted {
                return Ok(locks);
            }
        }
    }

    /// Takes the lock of one place.
    async fn add(
        &mut self,
        path: &Path,
        place: Option<&Path>,
        name: &str,
        wait: &mut Wait<'_>,
    ) -> Result<(), Failure> {
        let no_follow = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or(0);
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).custom_flags(no_follow);
        let file = options.open(path).map_err(|error| failed("opening", path, &error))?;
        wait.for_lock(&file, path, &file, name).await?;
        if let Some(place) = place {
            let folder = File::open(place).map_err(|error| unusable("opening", place, &error))?;
            wait.for_lock(&folder, place, &file, name).await?;
            self.0.push(folder);
        }
        let text = format!(
            "process {} ({}, since {})\n",
            std::process::id(),
            wait.command,
            jiff::Timestamp::now().strftime("%H:%M:%S UTC")
        );
        // The holder's name is only for messages; a lock without it still works.
        drop((&file).rewind().and_then(|()| (&file).write_all(text.as_bytes())));
        self.0.push(file);
        Ok(())
    }
}

impl Wait<'_> {
    /// Waits for a lock. `note` names the holder.
    async fn for_lock(
        &mut self,
        lock: &File,
        path: &Path,
        note: &File,
        name: &str,
    ) -> Result<(), Failure> {
        let mut is_told = false;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(()),
                // The file system cannot lock folders; the file in the state folder is locked
                // instead.
                Err(TryLockError::Error(_)) if !std::ptr::eq(lock, note) => return Ok(()),
                Err(TryLockError::Error(error)) => return Err(failed("locking", path, &error)),
                Err(TryLockError::WouldBlock) if self.started.elapsed() >= self.limit => {
                    let (holder, seconds) = (holder(note), self.limit.as_secs());
                    let message = format!("`{name}` is still held by {holder} after {seconds} s");
                    return Err(Failure::new(Kind::Busy, message).hint(
                        "wait for that run, stop it, or wait longer with `--lock-timeout SECONDS`",
                    ));
                }
                Err(TryLockError::WouldBlock) => {
                    if !is_told {
                        let holder = holder(note);
                        (self.tell)(&format!("waiting for `{name}`: held by {holder}"));
                        is_told = true;
                    }
                    tokio::time::sleep(POLL).await;
                }
            }
        }
    }
}

/// Returns the first line of a lock's file. The rest may come from an earlier holder.
fn holder(mut file: &File) -> String {
    let mut text = Vec::new();
    let read = file.rewind().and_then(|()| file.take(4096).read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text);
    match (read, text.lines().next().map(str::trim)) {
        (Ok(_), Some(holder)) if !holder.is_empty() => holder.to_owned(),
        _ => "another run".to_owned(),
    }
}

/// Returns the places to lock for some outputs. Creates their parent folders.
fn wanted(outputs: &[&Output]) -> Result<Places, Failure> {
    let mut wanted = Places::new();
    for output in outputs {
        for (key, place) in identities(output)? {
            wanted.entry(key).or_insert_with(|| (output.to_string(), place));
        }
    }
    Ok(wanted)
}

/// Returns whether two outputs refer to the same place, whatever their names.
///
/// # Errors
/// The folder of a place cannot be created or read.
pub fn are_one(one: &Output, other: &Output) -> Result<bool, Failure> {
    let [one, other] = [identities(one)?, identities(other)?];
    Ok(one.iter().any(|(key, _)| other.iter().any(|(found, _)| found == key)))
}

/// Returns the identities of an output, whatever its name, with its folder if it exists.
fn identities(output: &Output) -> Result<Vec<(String, Option<PathBuf>)>, Failure> {
    let (path, is_folder) = match output {
        Output::Layout { path, .. } => (path, true),
        Output::Archive { path } => (path, false),
        Output::Registry { .. } | Output::Engine { .. } => {
            return Ok(vec![(output.to_string(), None)]);
        }
    };
    // Links are followed: a run replaces the target of a link, not the link.
    let real = fs::canonicalize(path).ok();
    let path = real.as_deref().unwrap_or(path);
    let mut all = Vec::new();
    if let Some(name) = path.file_name() {
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        fs::create_dir_all(parent).map_err(|error| {
            let kind = Kind::of_write(&error);
            Failure::caused(kind, format!("creating `{}` failed", parent.display()), &error)
                .hint("choose another location, or create the folder")
        })?;
        let found = fs::metadata(parent).map_err(|error| unusable("reading", parent, &error))?;
        all.push((format!("name {} {} {name:?}", found.dev(), found.ino()), None));
    }
    match fs::metadata(path) {
        Ok(found) if is_folder && found.is_dir() => {
            let key = format!("folder {} {}", found.dev(), found.ino());
            all.push((key, Some(path.to_owned())));
        }
        _ => {}
    }
    Ok(all)
}

fn failed(what: &str, path: &Path, error: &io::Error) -> Failure {
    unusable(what, path, error)
        .hint("locks are under `XDG_STATE_HOME` (default `~/.local/state`); check its space and permissions")
}

fn unusable(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::caused(Kind::Machine, format!("{what} `{}` failed", path.display()), error)
}
