//! Files of the cache, and locks between processes. Files are written to a temporary name, synced
//! and renamed, and they are hashed before they are trusted.
//!
//! A file that was hashed once is recognised by its [`stamp`]. Changing, replacing or restoring a
//! file changes the stamp, and then the file is hashed again.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use atomic_write_file::AtomicWriteFile;
use names::Sha256;

use crate::error::{ErrorKind, Failure};
use crate::text;
use names::Hasher;

/// Holds a lock until it is dropped, or until the process ends.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    file: File,
}

/// The locks that this process holds. Two of its steps may need the same file.
static OWN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn own_locks() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Lock {
    fn drop(&mut self) {
        let mut own = own_locks();
        // Closing the file would not be enough: a child process that was started just now has the
        // file open until it executes its program, and would hold the lock until then.
        drop(self.file.unlock());
        own.remove(&self.path);
    }
}

/// The pause between attempts to take a lock.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

impl Lock {
    /// Waits for the lock on `path` for at most `patience`. Calls `on_wait` once if it has
    /// to wait for another process.
    pub(crate) async fn take(
        path: &Path,
        patience: Duration,
        on_wait: impl FnOnce(&Path),
    ) -> Result<Self, Failure> {
        if let Some(parent) = path.parent() {
            create_folder(parent)?;
        }
        let file = File::options().create(true).truncate(false).write(true).open(path);
        let file = file.map_err(|error| Failure::disk("opened", path, &error))?;
        let started = Instant::now();
        let mut on_wait = Some(on_wait);
        loop {
            let (locked, is_own) = {
                let mut own = own_locks();
                let locked = file.try_lock();
                let is_own = own.contains(path);
                if locked.is_ok() {
                    own.insert(path.to_owned());
                }
                (locked, is_own)
            };
            match locked {
                Ok(()) => return Ok(Self { path: path.to_owned(), file }),
                Err(fs::TryLockError::WouldBlock) if started.elapsed() >= patience => {
                    let path = text::quoted(&path.display().to_string());
                    let seconds = patience.as_secs_f32();
                    return Err(Failure::fatal(
                        ErrorKind::Timeout,
                        format!("{path} was locked for more than {seconds:.1} s"),
                    ));
                }
                Err(fs::TryLockError::WouldBlock) => {
                    if !is_own && let Some(on_wait) = on_wait.take() {
                        on_wait(path);
                    }
                    tokio::time::sleep(LOCK_PAUSE).await;
                }
                Err(fs::TryLockError::Error(error)) => {
                    return Err(Failure::disk("locked", path, &error));
                }
            }
        }
    }
}

/// Returns the SHA-256 and the size of a file.
pub(crate) fn hash_file(path: &Path) -> Result<(Sha256, u64), Failure> {
    let hash = || -> io::Result<([u8; 32], u64)> {
        let mut file = File::open(path)?;
        let mut hasher = Hasher::new();
        let mut buffer = vec![0; 256 << 10];
        let mut size = 0;
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok((hasher.finish(), size)),
                count => {
                    hasher.update(&buffer[..count]);
                    size += count as u64;
                }
            }
        }
    };
    let (hash, size) = hash().map_err(|error| Failure::disk("read", path, &error))?;
    Ok((crate::sha256_of(hash)?, size))
}

/// Returns whether there is a file with this size and hash.
pub(crate) fn is_file_with(path: &Path, size: u64, sha256: &Sha256) -> bool {
    let is_size = fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == size);
    is_size && hash_file(path).is_ok_and(|(found, _)| found == *sha256)
}

/// Returns a string that identifies a file and its state: its device and inode, its size, and the
/// time of its last status change (`st_ctim` in POSIX), which programs cannot set.
pub(crate) fn stamp(path: &Path) -> Option<String> {
    let found = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
    let changed = (found.ctime(), found.ctime_nsec());
    Some(format!("{} {} {} {changed:?}", found.dev(), found.ino(), found.size()))
}

/// Returns the size of a file if it has this hash. The file is read only if its stamp differs from
/// the [remembered](remember) one.
pub(crate) fn find_by_hash(path: &Path, sha256: &Sha256, seen: &Path) -> Option<u64> {
    let stamp = stamp(path)?;
    if fs::read_to_string(seen).is_ok_and(|text| text == memory(sha256, &stamp)) {
        return fs::metadata(path).ok().map(|found| found.len());
    }
    let (found, size) = hash_file(path).ok().filter(|(found, _)| found == sha256)?;
    remember(path, &found, seen, &stamp);
    Some(size)
}

/// Records the hash of the file `path` in the file `seen`. `before` is the stamp that `path` had
/// before it was read. If recording fails, or if `path` changed in the meantime, the next run reads
/// it again.
pub(crate) fn remember(path: &Path, sha256: &Sha256, seen: &Path, before: &str) {
    if stamp(path).as_deref() == Some(before) {
        drop(write_unsynced(seen, memory(sha256, before).as_bytes()));
    }
}

fn memory(sha256: &Sha256, stamp: &str) -> String {
    format!("{sha256} {stamp}\n")
}

/// Creates a folder and its parents.
pub(crate) fn create_folder(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path).map_err(|error| Failure::disk("created", path, &error))
}

/// Removes a folder and its content, if it exists.
pub(crate) fn remove_folder(path: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::disk("removed", path, &error))
        }
        _ => Ok(()),
    }
}

/// Removes a file, if it exists.
pub(crate) fn remove_file(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::disk("removed", path, &error))
        }
        _ => Ok(()),
    }
}

/// Removes everything from `folder` except the names for which `keep` returns true.
pub(crate) fn keep_only(folder: &Path, keep: impl Fn(&str) -> bool) -> Result<(), Failure> {
    let fail = |error: io::Error| Failure::disk("read", folder, &error);
    for entry in fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if entry.file_name().to_str().is_some_and(&keep) {
            continue;
        }
        if entry.file_type().map_err(fail)?.is_dir() {
            remove_folder(&entry.path())?;
        } else {
            remove_file(&entry.path())?;
        }
    }
    Ok(())
}

/// Writes a file to a temporary name, syncs and renames it.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let write = || -> io::Result<()> {
        let mut file = AtomicWriteFile::open(path)?;
        file.write_all(bytes)?;
        file.commit()
    };
    write().map_err(|error| Failure::disk("written", path, &error))
}

/// Writes a file without syncing. Its readers must verify it and be able to write it again.
pub(crate) fn write_unsynced(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    fs::write(path, bytes).map_err(|error| Failure::disk("written", path, &error))
}

/// Makes sure that a file survives a power failure.
pub(crate) fn sync(path: &Path) -> Result<(), Failure> {
    let synced = File::open(path).and_then(|file| file.sync_all());
    synced.map_err(|error| Failure::disk("synced", path, &error))
}

/// Makes sure that the names in a folder survive a power failure.
pub(crate) fn sync_folder(path: &Path) -> Result<(), Failure> {
    sync(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lock_ends_although_a_child_process_has_the_file_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let take = || Lock::take(&path, Duration::ZERO, |_| panic!("nobody holds the lock"));
        let lock = take().await.unwrap();
        // Between fork and exec, a child process has such a copy of each descriptor.
        let _copy = lock.file.try_clone().unwrap();
        drop(lock);
        drop(take().await.unwrap());
    }
}
