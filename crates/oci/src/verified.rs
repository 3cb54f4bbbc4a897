//! Records which files have been verified against their digests.
//!
//! Sizes prove nothing: a blob with a flipped byte has the right size. So a blob counts as verified
//! only after it was hashed, and it is hashed again if its size, inode or times have changed since
//! then. The records may be deleted at any time: without them, files are hashed.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use names::Digest;

use crate::files;

/// The first line of a record. Records with a different first line are ignored.
const FORM: &str = "verified/1";
/// If a file was hashed within this time after a change, it may change again within one tick
/// of the file system's clock and still have the same time ("racy git"). Kernels tick every 1 to 10
/// ms.
const TICK: Duration = Duration::from_millis(100);
/// The same limit for file systems with a resolution of whole seconds, or of two seconds for FAT.
const COARSE_TICK: Duration = Duration::from_secs(3);

/// A folder of records, one for each archive and each folder of blobs.
#[derive(Debug, Clone)]
pub struct Verified {
    folder: Option<PathBuf>,
}

/// The known state of a folder of blobs, or of an archive.
#[derive(Debug)]
pub struct VerifiedFolder {
    blobs: PathBuf,
    record: Option<PathBuf>,
    /// The stamps that files had when they were hashed, keyed by the hex digest.
    known: BTreeMap<String, String>,
    has_changed: bool,
}

impl Verified {
    /// Stores records in a folder. The folder is created when the first record is written.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder: Some(folder) }
    }

    /// Keeps no records, so every file is hashed.
    pub fn none() -> Self {
        Self { folder: None }
    }

    /// Returns the known state of the blobs in a folder, or of an archive. Different paths to the
    /// same folder or archive share one record.
    pub fn of(&self, blobs: &Path) -> VerifiedFolder {
        let identity = fs::metadata(blobs).ok().map(|found| (found.dev(), found.ino()));
        let record = self.folder.as_ref().zip(identity);
        let record =
            record.map(|(folder, (device, inode))| folder.join(format!("{device}-{inode}")));
        let text = record.as_ref().and_then(|record| fs::read_to_string(record).ok());
        let text = text.unwrap_or_default();
        let lines = text.strip_prefix(FORM).unwrap_or_default().lines();
        let entries = lines.filter_map(|line| line.split_once(' '));
        let known = entries.map(|(hex, stamp)| (hex.to_owned(), stamp.to_owned())).collect();
        VerifiedFolder { blobs: blobs.to_owned(), record, known, has_changed: false }
    }
}

impl VerifiedFolder {
    /// Returns whether the file at `path` has this digest and size. It is hashed if it has changed
    /// since the last check.
    pub fn has(&mut self, path: &Path, digest: &Digest, size: u64) -> bool {
        let Ok(before) = fs::symlink_metadata(path) else { return false };
        if !before.is_file() || before.len() != size {
            return false;
        }
        let stamp = stamp(&before);
        if self.known.get(digest.hex()) == Some(&stamp) {
            return true;
        }
        let is_old = is_old(&before, SystemTime::now());
        if !files::open(path).and_then(files::hash).is_ok_and(|found| found == *digest) {
            return false;
        }
        let is_unchanged =
            fs::symlink_metadata(path).is_ok_and(|after| self::stamp(&after) == stamp);
        if is_old && is_unchanged {
            self.known.insert(digest.hex().to_owned(), stamp);
            self.has_changed = true;
        }
        true
    }

    /// Returns whether the archive itself was recorded under `key`, and has not changed since then.
    pub fn is_known(&self, key: &Digest) -> bool {
        let found = fs::symlink_metadata(&self.blobs).ok().filter(Metadata::is_file);
        found.is_some_and(|found| self.known.get(key.hex()) == Some(&stamp(&found)))
    }

    /// Records the archive itself under `key`, unless it could still change unnoticed.
    pub fn learn(&mut self, key: &Digest) {
        let found = fs::symlink_metadata(&self.blobs).ok().filter(Metadata::is_file);
        if let Some(found) = found.filter(|found| is_old(found, SystemTime::now())) {
            self.known = BTreeMap::from([(key.hex().to_owned(), stamp(&found))]);
            self.has_changed = true;
        }
    }

    /// Records the results for files that still exist. If that fails, the next run hashes them
    /// again.
    pub fn save(self) {
        let Some(record) = self.record.filter(|_| self.has_changed) else { return };
        let is_archive = self.blobs.is_file();
        let exists = |hex: &str| is_archive || self.blobs.join(hex).is_file();
        let lines = self.known.iter().filter(|(hex, _)| exists(hex));
        let lines = lines.map(|(hex, stamp)| format!("{hex} {stamp}\n"));
        let text = format!("{FORM}\n{}", lines.collect::<String>());
        let write = || {
            let folder = record.parent().ok_or(io::ErrorKind::InvalidInput)?;
            fs::create_dir_all(folder)?;
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(text.as_bytes())?;
            file.persist(&record).map_err(|error| error.error)
        };
        if let Err(error) = write() {
            tracing::debug!(path = %record.display(), %error, "cannot record which blobs were verified");
        }
    }
}

/// Returns a text that identifies a file and its state.
fn stamp(found: &Metadata) -> String {
    format!(
        "{} {} {} {}.{} {}.{}",
        found.dev(),
        found.ino(),
        found.len(),
        found.mtime(),
        found.mtime_nsec(),
        found.ctime(),
        found.ctime_nsec()
    )
}

/// Returns whether a change at `now` would give the file a new time.
fn is_old(found: &Metadata, now: SystemTime) -> bool {
    let (Ok(seconds), Ok(nanoseconds)) =
        (u64::try_from(found.ctime()), u32::try_from(found.ctime_nsec()))
    else {
        return false;
    };
    let tick = if nanoseconds == 0 { COARSE_TICK } else { TICK };
    let changed = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds);
    now.duration_since(changed).is_ok_and(|age| age > tick)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a folder with one blob that is old enough to be recorded.
    fn blob() -> (tempfile::TempDir, PathBuf, Digest) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("blobs")).unwrap();
        let path = folder.path().join("blobs").join(Digest::of(b"bytes").hex());
        fs::write(&path, b"bytes").unwrap();
        wait_until_old(&path);
        (folder, path, Digest::of(b"bytes"))
    }

    fn wait_until_old(path: &Path) {
        while !is_old(&fs::metadata(path).unwrap(), SystemTime::now()) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Checks a blob once, as a run does.
    fn has(folder: &Path, digest: &Digest) -> bool {
        let mut known = Verified::new(folder.join("records")).of(&folder.join("blobs"));
        let has = known.has(&folder.join("blobs").join(Digest::of(b"bytes").hex()), digest, 5);
        known.save();
        has
    }

    fn record(folder: &Path) -> String {
        let mut entries = fs::read_dir(folder.join("records")).unwrap().flatten();
        fs::read_to_string(entries.next().unwrap().path()).unwrap()
    }

    #[test]
    fn a_file_is_hashed_once_and_again_after_every_change() {
        let (folder, path, digest) = blob();
        let folder = folder.path();
        assert!(has(folder, &digest));
        let written = record(folder);
        assert!(written.contains(digest.hex()), "{written}");
        assert!(has(folder, &digest));
        assert_eq!(record(folder), written);

        // The record does not contain another digest for the same file.
        assert!(!has(folder, &Digest::of(b"other")));

        assert!(has(folder, &digest));
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, b"bytez").unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        assert!(!has(folder, &digest), "size and modification time are the same as before");
        assert!(has(folder, &Digest::of(b"bytez")));
    }

    #[test]
    fn what_is_in_the_record_is_not_hashed_again() {
        let (folder, path, digest) = blob();
        let folder = folder.path();
        assert!(has(folder, &digest));
        // The record of the real file, under a digest that does not match.
        let false_record = record(folder).replace(digest.hex(), Digest::of(b"x").hex());
        let entry = fs::read_dir(folder.join("records")).unwrap().flatten().next().unwrap();
        fs::write(entry.path(), &false_record).unwrap();
        assert!(has(folder, &Digest::of(b"x")), "it was hashed");
        // Missing files are removed from the record.
        assert!(has(folder, &digest));
        assert!(!record(folder).contains(Digest::of(b"x").hex()), "{}", record(folder));
        // Damaged records count as absent.
        for damaged in ["", "verified/2\n", "\0", FORM, "verified/1\nx"] {
            fs::write(entry.path(), damaged).unwrap();
            assert!(has(folder, &digest) && !has(folder, &Digest::of(b"x")), "{damaged:?}");
        }
        fs::remove_file(&path).unwrap();
        assert!(!has(folder, &digest));
    }

    #[test]
    fn a_file_that_changed_within_a_tick_is_not_remembered() {
        let (folder, path, digest) = blob();
        let found = fs::metadata(&path).unwrap();
        let nanoseconds = u32::try_from(found.ctime_nsec()).unwrap();
        let seconds = u64::try_from(found.ctime()).unwrap();
        let changed = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds);
        assert!(!is_old(&found, changed));
        assert!(!is_old(&found, changed - Duration::from_secs(60)), "the clock was set back");
        assert!(!is_old(&found, changed + Duration::from_millis(10)));
        assert!(is_old(&found, changed + COARSE_TICK * 2));

        // If the clock is ahead, the time of every file is in the future.
        let ahead = SystemTime::now() + Duration::from_secs(3600);
        assert!(is_old(&found, ahead));
        let mut known = Verified::none().of(folder.path());
        assert!(known.has(&path, &digest, 5) && known.has(&path, &digest, 5));
        known.save();
    }

    #[test]
    fn links_and_folders_are_no_blobs() {
        let (folder, path, digest) = blob();
        let link = folder.path().join("blobs/link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let mut known = Verified::none().of(folder.path());
        assert!(!known.has(&link, &digest, 5));
        let size = fs::metadata(folder.path()).unwrap().len();
        assert!(!known.has(folder.path(), &digest, size));
    }
}
