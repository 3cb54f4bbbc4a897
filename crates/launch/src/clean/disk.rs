//! Leftovers on disk: folders and sockets of podman services, and temporary files of interrupted
//! runs. With `--cache`, also data that can be fetched or built again.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::ServiceSettings;

use super::report::{Found, Kind, State};
use super::task::Task;

/// The age from which a temporary file counts as abandoned. Not all commands leave a record that
/// shows whether they are running.
const OLD: Duration = Duration::from_secs(3600);

/// The folders of the cache that `clean --cache` removes. Each may be deleted at any time.
const CACHES: [&str; 8] = [
    "blobs",
    "sources",
    "store/blobs",
    "store/caches",
    "store/listings",
    "store/steps",
    "tools",
    "uv",
];

/// The folder of the cache for work in progress.
const WORK: &str = "store/work";

/// Entries in this tool's folders that are not known to be in use.
#[derive(Debug)]
pub(crate) struct Listed {
    /// Folders and sockets of podman services, with their size in bytes.
    services: Vec<(PathBuf, u64)>,
    /// Working files of builds, which are leftovers if no build is running.
    work: Vec<PathBuf>,
    /// Old temporary files.
    old: Vec<PathBuf>,
    /// Links in place of this tool's folders. What they refer to may belong to others.
    links: BTreeSet<PathBuf>,
}

/// Lists the leftovers, without removing anything.
pub(crate) fn list(task: &Task) -> Listed {
    let mut links = BTreeSet::new();
    let mut entries = |root: &Path, folder: &str| match link_below(root, folder) {
        None => names_in(&root.join(folder)),
        Some(link) => {
            links.insert(link);
            Vec::new()
        }
    };
    let services = settings(task).map(|settings| engine::abandoned(&settings)).unwrap_or_default();
    let cache = task.cache.as_deref();
    let work = cache.map(|cache| entries(cache, WORK)).unwrap_or_default();
    let is_service = |path: &PathBuf| name(path).starts_with("podman-") && !path.is_symlink();
    let mut old = Vec::new();
    let blobs = cache.map(|cache| (cache, "blobs/sha256"));
    let state = ["", "records", "verified"].map(|name| (task.state.as_path(), name));
    for (root, folder) in blobs.into_iter().chain(state) {
        let temporary = entries(root, folder).into_iter().filter(|path| is_old_temporary(path));
        old.extend(temporary);
    }
    for folder in CACHES.iter().filter(|_| task.takes_cache) {
        links.extend(cache.and_then(|cache| link_above(cache, folder)));
    }
    Listed {
        services: services.into_iter().map(|path| (path.clone(), bytes_of(&path))).collect(),
        work: work.into_iter().filter(|path| !is_service(path)).collect(),
        old,
        links,
    }
}

/// Returns the settings of podman services, unless a link is in place of the folder for work.
fn settings(task: &Task) -> Option<ServiceSettings> {
    let settings = task.service(Path::new(""))?;
    link_below(task.cache.as_deref()?, WORK).is_none().then_some(settings)
}

/// Returns the first part of `folder`, a path below `root`, that is a link. `root` itself may be
/// reached through links, because only the user chooses it.
fn link_below(root: &Path, folder: &str) -> Option<PathBuf> {
    let mut path = root.to_owned();
    folder.split('/').filter(|part| !part.is_empty()).find_map(|part| {
        path.push(part);
        path.is_symlink().then(|| path.clone())
    })
}

/// Like [`link_below`], for the folders that contain `folder`.
fn link_above(root: &Path, folder: &str) -> Option<PathBuf> {
    link_below(root, folder.rsplit_once('/')?.0)
}

/// Stops the processes in folders of abandoned podman services, and removes the folders.
pub(crate) async fn sweep(task: &Task) {
    if let Some(settings) = settings(task).filter(|_| !task.is_dry) {
        drop(engine::sweep(&settings).await);
    }
}

/// Removes the listed entries and reports the results.
pub(crate) fn clean(task: &Task, listed: Listed, found: &mut Vec<Found>) {
    let mut note = |kind, path: &Path, state, (bytes, reason)| {
        let name = path.display().to_string();
        found.push(Found { kind, engine: None, name, run: None, bytes, state, reason });
    };
    for (path, bytes) in listed.services {
        let (state, reason) = match (task.is_dry, path.exists()) {
            (true, _) => (State::Found, None),
            (false, false) => (State::Removed, None),
            (false, true) => (State::Kept, Some("something is mounted under it".to_owned())),
        };
        note(Kind::Service, &path, state, (Some(bytes), reason));
    }
    let caches = task.cache.iter().filter(|_| task.takes_cache).flat_map(|cache| {
        let own = CACHES.iter().filter(|folder| link_above(cache, folder).is_none());
        own.map(|name| cache.join(name)).filter(|folder| folder.is_dir())
    });
    // A cache is moved away only into a folder of this tool.
    let away = task.cache.as_deref().filter(|cache| link_below(cache, WORK).is_none());
    let away = away.map(|cache| cache.join(WORK));
    let work = listed.work.into_iter().map(|path| (Kind::Temporary, path, task.is_busy));
    let old = listed.old.into_iter().map(|path| (Kind::Temporary, path, false));
    let caches = caches.map(|path| (Kind::Cache, path, task.is_busy));
    for (kind, path, is_busy) in work.chain(old).chain(caches) {
        let bytes = Some(bytes_of(&path));
        let (state, reason) = match (is_busy, task.is_dry) {
            (true, _) => (State::UnderWay, None),
            (false, true) => (State::Found, None),
            (false, false) => {
                match remove(&path, away.as_deref().filter(|_| kind == Kind::Cache)) {
                    Ok(()) => (State::Removed, None),
                    Err(error) => (State::Kept, Some(error.to_string())),
                }
            }
        };
        note(kind, &path, state, (bytes, reason));
    }
    // With `--cache`, a link in place of a cache was removed above.
    for link in listed.links.iter().filter(|link| link.is_symlink()) {
        let reason = "it is a link, and its target may belong to others; nothing in it was touched";
        note(Kind::Temporary, link, State::LeftAlone, (None, Some(reason.to_owned())));
    }
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

fn names_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Returns whether a file is temporary (it would be renamed once complete) and old.
fn is_old_temporary(path: &Path) -> bool {
    let age = fs::symlink_metadata(path).and_then(|found| found.modified()).map(|at| at.elapsed());
    name(path).starts_with('.') && matches!(age, Ok(Ok(age)) if age > OLD) && path.is_file()
}

/// Returns the size in bytes of a file, or of all files below a folder.
fn bytes_of(path: &Path) -> u64 {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => names_in(path).iter().map(|one| bytes_of(one)).sum(),
        Ok(found) if found.is_file() => found.len(),
        _ => 0,
    }
}

/// Removes a file or folder. Never crosses a mount point. Moves a cache away first, because runs
/// that start in the meantime add files to it; if this run is killed, the next `clean` finds the
/// moved folder.
fn remove(path: &Path, away: Option<&Path>) -> io::Result<()> {
    let is_folder = fs::symlink_metadata(path)?.is_dir();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    if points.any(|point| Path::new(point).starts_with(path)) {
        return Err(io::Error::other("something is mounted under it"));
    }
    let moved = away.and_then(|work| {
        fs::create_dir_all(work).ok()?;
        let name = format!("removed-{}-{}", std::process::id(), name(path));
        fs::rename(path, work.join(&name)).is_ok().then(|| work.join(name))
    });
    // A folder on another disk is removed in place.
    let path = moved.as_deref().unwrap_or(path);
    if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}
