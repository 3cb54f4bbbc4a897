//! A cache of fetched manifests and configs, by digest.
//!
//! It also holds the beginnings of layers whose transfer to a registry or an engine was
//! interrupted. They are removed as soon as the layers have arrived.
//!
//! Nothing in the cache is trusted: a file that does not match its name is removed and fetched
//! again. For the same reason, nothing needs to be synced to disk.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use names::Digest;
use oci::client::{KeptPart, RegistryClient};
use oci::media::Descriptor;
use oci::part_of;

/// A folder of small blobs.
#[derive(Debug, Clone, Default)]
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

    /// Opens the kept beginning of a layer that `client` is about to read. Returns `None` if the
    /// layer is in a file on this machine, if this cache stores nothing, or for the reasons that
    /// [`KeptPart::open`] lists.
    pub(crate) fn part(
        &self,
        layer: &Descriptor,
        client: &RegistryClient,
        room: u64,
    ) -> Option<Arc<KeptPart>> {
        if client.has_file(&layer.digest) {
            return None;
        }
        KeptPart::open(&self.path(&layer.digest)?, layer.size, room).map(Arc::new)
    }

    /// Returns the layers whose beginning was kept when a transfer was interrupted.
    pub(crate) fn partial<'a>(&self, layers: &'a [Descriptor]) -> Vec<&'a Descriptor> {
        let is_partial = |layer: &&Descriptor| {
            let part = self.path(&layer.digest).map(|path| part_of(&path));
            part.and_then(|part| fs::metadata(part).ok()).is_some_and(|found| found.len() > 0)
        };
        layers.iter().filter(is_partial).collect()
    }

    /// Removes the beginnings of layers that have arrived.
    pub(crate) fn remove_parts(&self, layers: &[Descriptor]) {
        for path in layers.iter().filter_map(|layer| self.path(&layer.digest)) {
            drop(fs::remove_file(part_of(&path)));
        }
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
