//! Manifests and configs that were fetched before, by digest.
//!
//! Nothing in the cache is trusted: a file whose bytes are not what its name says is removed and
//! fetched anew. So nothing needs to be synced either.

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
    /// Returns the cache in a folder, which is made when the first blob is kept.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder: Some(folder) }
    }

    /// Returns the cache that keeps nothing, for rehearsals.
    pub fn none() -> Self {
        Self { folder: None }
    }

    fn path(&self, digest: &Digest) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join("sha256").join(digest.hex()))
    }

    /// Returns a blob that was kept and is intact.
    pub(crate) fn get(&self, digest: &Digest) -> Option<Bytes> {
        let path = self.path(digest)?;
        let bytes = Bytes::from(fs::read(&path).ok()?);
        if Digest::of(&bytes) == *digest {
            return Some(bytes);
        }
        let removed = fs::remove_file(&path);
        tracing::warn!(path = %path.display(), removed = removed.is_ok(), "a cached blob was damaged");
        None
    }

    /// Keeps a blob. A cache that cannot be written is no failure: the blob is fetched again.
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
            tracing::debug!(path = %path.display(), %error, "a blob was not cached");
        }
    }
}
