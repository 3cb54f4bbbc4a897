//! A cache of fetched manifests and configs, by digest.
//!
//! Nothing in the cache is trusted: a file that does not match its name is removed and fetched
//! again. For the same reason, nothing needs to be synced to disk.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use bytes::Bytes;
use names::Digest;

/// A folder of small blobs.
#[derive(Debug, Clone)]
pub struct BlobCache {
    folder: Option<PathBuf>,
}

impl BlobCache {
    /// Returns the cache in a folder. The folder is created when the first blob is stored.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder: Some(folder) }
    }

    /// Returns a cache that stores nothing, for rehearsals.
    pub fn none() -> Self {
        Self { folder: None }
    }

    fn path(&self, digest: &Digest) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join("sha256").join(digest.hex()))
    }

    /// Returns a cached blob if it is intact.
    pub(crate) fn get(&self, digest: &Digest) -> Option<Bytes> {
        let path = self.path(digest)?;
        let bytes = Bytes::from(fs::read(&path).ok()?);
        if Digest::of(&bytes) == *digest {
            tracing::info!("{digest} is in the cache");
            return Some(bytes);
        }
        let removed = fs::remove_file(&path);
        tracing::warn!(path = %path.display(), removed = removed.is_ok(), "removed a damaged blob from the cache");
        None
    }

    /// Stores a blob. A failure is only logged, because the blob can be fetched again.
    pub(crate) fn put(&self, digest: &Digest, bytes: &[u8]) {
        let Some(path) = self.path(digest) else { return };
        let keep = || {
            let folder = path.parent().ok_or(std::io::ErrorKind::InvalidInput)?;
            fs::create_dir_all(folder)?;
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(bytes)?;
            file.persist(&path).map_err(|error| error.error)?;
            Ok::<_, std::io::Error>(())
        };
        if let Err(error) = keep() {
            tracing::debug!(path = %path.display(), %error, "cannot cache a blob");
        }
    }
}
