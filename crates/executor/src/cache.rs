//! A cache of fetched manifests and configs, by digest.
//!
//! It also holds layers of bases while a run needs them: an engine pulls a layer, the seal lists its
//! files, and an output may need its bytes, but it is downloaded only once. If a transfer is
//! interrupted, its beginning is kept, and the next run continues it.
//!
//! Nothing in the cache is trusted: a file that does not match its name is removed and fetched
//! again. For the same reason, nothing needs to be synced to disk.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use names::{Digest, Repository};
use oci::client::{BlobStream, KeptPart, RegistryClient, RegistryError};
use oci::media::Descriptor;
use oci::part_of;

use crate::damaged::Damaged;

/// A folder of small blobs.
#[derive(Debug, Clone, Default)]
pub struct BlobCache {
    folder: Option<PathBuf>,
    pub(crate) damaged: Damaged,
}

impl BlobCache {
    /// Returns the cache in a folder. The folder is created when the first blob is stored.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder: Some(folder), damaged: Damaged::default() }
    }

    /// Returns a cache that stores nothing, for rehearsals.
    pub fn none() -> Self {
        Self::default()
    }

    fn path(&self, digest: &Digest) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join("sha256").join(digest.hex()))
    }

    /// Opens the kept beginning of a layer that `client` is about to read. Returns `None` if the
    /// layer is in a file on this machine, if this cache stores nothing, or for the reasons that
    /// [`KeptPart::open`] lists.
    fn part(
        &self,
        layer: &Descriptor,
        client: &RegistryClient,
        room: u64,
    ) -> Option<Arc<KeptPart>> {
        if client.has_file(layer) {
            return None;
        }
        KeptPart::open(&self.path(&layer.digest)?, layer.size, room).map(Arc::new)
    }

    /// Opens a layer of `repository` as a stream. The layer is kept while it is read, if
    /// [`Self::part`] can open its file; the beginning is then read from that file.
    pub(crate) async fn stream(
        &self,
        client: &RegistryClient,
        repository: &Repository,
        layer: &Descriptor,
        room: u64,
    ) -> Result<(BlobStream, Option<Arc<KeptPart>>), RegistryError> {
        let (part, digest, size) = (self.part(layer, client, room), &layer.digest, layer.size);
        let stream = match &part {
            Some(part) => client.kept_blob(repository, digest, size, Arc::clone(part)).await?,
            None => client.blob_stream(repository, digest, size).await?,
        };
        Ok((stream, part))
    }

    /// Returns the layers that were kept completely, with their files.
    pub(crate) fn complete<'a>(
        &self,
        layers: &'a [Descriptor],
    ) -> impl Iterator<Item = (&'a Descriptor, PathBuf)> {
        let file_of = |layer: &'a Descriptor| {
            let part = part_of(&self.path(&layer.digest)?);
            let found = fs::metadata(&part).ok()?;
            (found.len() == layer.size).then_some((layer, part))
        };
        layers.iter().filter_map(file_of)
    }

    /// Returns the layers whose beginning was kept when a transfer was interrupted.
    pub(crate) fn partial<'a>(&self, layers: &'a [Descriptor]) -> Vec<&'a Descriptor> {
        let is_partial = |layer: &&Descriptor| {
            let part = self.path(&layer.digest).map(|path| part_of(&path));
            part.and_then(|part| fs::metadata(part).ok()).is_some_and(|found| found.len() > 0)
        };
        layers.iter().filter(is_partial).collect()
    }

    /// Removes layers that have arrived everywhere, and their beginnings.
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
        self.damaged.add(&path);
        drop(fs::remove_file(&path));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::support::layer;

    #[test]
    fn only_intact_blobs_come_from_the_cache() {
        let folder = tempfile::tempdir().unwrap();
        let cache = BlobCache::new(folder.path().join("cache"));
        let (text, digest) = (b"text", Digest::of(b"text"));
        assert_eq!(cache.get(&digest), None);
        cache.put(&digest, text);
        assert_eq!(cache.get(&digest).as_deref(), Some(&text[..]));
        let path = folder.path().join("cache/sha256").join(digest.hex());
        fs::write(&path, "texT").unwrap();
        assert!(cache.damaged.take().is_empty());
        assert_eq!(cache.get(&digest), None);
        assert!(!path.exists(), "the damaged blob is removed");
        assert!(cache.damaged.take().contains(&path), "and reported");
        cache.put(&digest, text);
        assert!(cache.get(&digest).is_some());
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        let none = BlobCache::none();
        none.put(&digest, text);
        assert_eq!(none.get(&digest), None);
    }

    #[test]
    fn the_beginnings_of_layers_are_found_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = BlobCache::new(folder.path().to_owned());
        let layers = ["begun", "empty", "absent"].map(|name| layer(name, 9));
        fs::create_dir(folder.path().join("sha256")).unwrap();
        let parts = layers.each_ref().map(|layer| part_of(&cache.path(&layer.digest).unwrap()));
        fs::write(&parts[0], "beg").unwrap();
        fs::write(&parts[1], "").unwrap();
        assert_eq!(cache.partial(&layers), [&layers[0]]);
        assert!(BlobCache::none().partial(&layers).is_empty());
        cache.remove_parts(&layers[1..]);
        assert!(parts[0].exists() && !parts[1].exists());
        cache.remove_parts(&layers);
        assert!(cache.partial(&layers).is_empty() && !parts[0].exists());
    }
}
