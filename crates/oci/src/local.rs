//! Layers in layouts and archives on this machine, which need not be fetched.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Seek as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use names::Digest;
use rustix::fs::OFlags;
use tokio_util::io::ReaderStream;

use crate::client::BlobStream;
use crate::files;
use crate::media::Descriptor;
use crate::{LayoutError, archive, layout};

/// How many bytes are read at once.
const PIECE: usize = 256 << 10;

/// How long to wait for an interrupted transfer to release its file.
const ENDING: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(20);

/// A blob as a part of a file.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) file: PathBuf,
    pub(crate) begin: u64,
    pub(crate) size: u64,
}

impl Place {
    /// Returns whether the file is long enough.
    pub(crate) fn is_in_file(&self) -> bool {
        fs::metadata(&self.file).is_ok_and(|found| found.len() >= self.begin + self.size)
    }

    /// Opens the blob, after its first `skip` bytes.
    pub(crate) fn open(&self, skip: u64) -> io::Result<io::Take<File>> {
        let mut file = files::open(&self.file)?;
        file.seek(io::SeekFrom::Start(self.begin + skip))?;
        Ok(io::Read::take(file, self.size.saturating_sub(skip)))
    }

    /// Returns the blob as a stream, without its first `skip` bytes.
    pub(crate) fn stream(&self, skip: u64) -> io::Result<ReaderStream<Part>> {
        let part = self.open(skip)?;
        let left = part.limit();
        let part =
            tokio::io::AsyncReadExt::take(tokio::fs::File::from_std(part.into_inner()), left);
        Ok(ReaderStream::with_capacity(part, PIECE))
    }
}

/// A part of a file.
pub(crate) type Part = tokio::io::Take<tokio::fs::File>;

/// The locations of blobs on this machine.
#[derive(Debug, Clone, Default)]
pub struct LocalBlobs {
    layouts: Vec<PathBuf>,
    places: BTreeMap<Digest, Place>,
}

impl LocalBlobs {
    /// Finds the blobs in layouts and archives. Other paths are skipped.
    pub fn find(paths: &[PathBuf]) -> Self {
        let mut all = Self::default();
        for path in paths {
            if path.is_dir() {
                all.layouts.push(path.clone());
            } else if let Ok(places) = archive::blobs_of(path) {
                all.places.extend(places);
            }
        }
        all
    }

    /// Adds a layer that is in a separate file.
    pub fn add_file(&mut self, layer: &Descriptor, file: PathBuf) {
        self.places.insert(layer.digest.clone(), Place { file, begin: 0, size: layer.size });
    }

    pub(crate) fn of(places: BTreeMap<Digest, Place>) -> Self {
        Self { layouts: Vec::new(), places }
    }

    /// Returns a layer as a stream that verifies it, or `None` if no file has it with the right
    /// size.
    pub fn layer(&self, layer: &Descriptor) -> Option<BlobStream> {
        let place = self.place(layer)?;
        Some(BlobStream::new(layer.digest.clone(), layer.size, move || place.stream(0)))
    }

    fn place(&self, layer: &Descriptor) -> Option<Place> {
        self.found(&layer.digest).find(|place| place.size == layer.size)
    }

    /// Returns the location of a blob, whatever its size.
    pub(crate) fn find_blob(&self, digest: &Digest) -> Option<Place> {
        self.found(digest).next()
    }

    /// Returns the locations of a blob, whatever their sizes. Files that were named come first.
    pub(crate) fn found(&self, digest: &Digest) -> impl Iterator<Item = Place> {
        let in_layout = |layout: &PathBuf| -> Option<Place> {
            let file = layout::blob_path(layout, digest);
            let found = fs::metadata(&file).ok().filter(fs::Metadata::is_file)?;
            Some(Place { file, begin: 0, size: found.len() })
        };
        self.places
            .get(digest)
            .cloned()
            .into_iter()
            .chain(self.layouts.iter().filter_map(in_layout))
    }
}

/// Returns the path of the file that an interrupted transfer to `path` leaves.
pub fn part_of(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".part");
    path.with_file_name(name)
}

/// Opens the unfinished file of a transfer to `path`, or creates it, and locks it until it is
/// closed. Its content may come from an earlier transfer.
///
/// Runs with different state folders, for example of different users, do not share output locks.
/// Without this lock, two such runs would write to the same file.
///
/// # Errors
/// Fails if another run is writing the file, or if it cannot be opened or is not a regular file.
pub fn open_part(path: &Path) -> Result<File, LayoutError> {
    open_part_within(path, ENDING)
}

/// Like [`open_part`], but does not wait for another run.
pub(crate) fn try_open_part(path: &Path) -> Result<File, LayoutError> {
    open_part_within(path, Duration::ZERO)
}

fn open_part_within(path: &Path, limit: Duration) -> Result<File, LayoutError> {
    let part = part_of(path);
    let failed = |source| LayoutError::Write { path: path.to_owned(), source };
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).map_err(io::Error::other).map_err(failed)?;
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).custom_flags(flags);
    let started = Instant::now();
    loop {
        let file = options.open(&part).map_err(failed)?;
        let opened = file.metadata().map_err(failed)?;
        if !opened.is_file() {
            return Err(failed(io::ErrorKind::InvalidInput.into()));
        }
        match file.try_lock() {
            // Some file systems cannot lock files.
            Ok(()) | Err(TryLockError::Error(_)) => {}
            Err(TryLockError::WouldBlock) if started.elapsed() < limit => {
                std::thread::sleep(POLL);
                continue;
            }
            Err(TryLockError::WouldBlock) => return Err(LayoutError::Busy(part)),
        }
        // Another run may have finished or removed the file before it was locked.
        let named = fs::symlink_metadata(&part).map(|found| (found.dev(), found.ino()));
        if named.is_ok_and(|found| found == (opened.dev(), opened.ino())) {
            return Ok(file);
        }
    }
}
