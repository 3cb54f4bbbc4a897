//! Finished images of steps, by the key of the step, with their layers by digest.
//!
//! Everything in this folder may be deleted at any time; the next run that needs it makes it again.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use names::{Digest, ImageRef};
use oci::media::{Descriptor, Document, Manifest};
use oci::{DerivedImage, Verified};
use record::SlimSummary;
use seal::Listing;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::damaged::Damaged;
use crate::{BaseImage, ExecuteError};

/// The schema version of a step's note.
const SCHEMA: u32 = 1;

/// A folder of finished images. Several processes may share it.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
    verified: Verified,
    pub(crate) damaged: Damaged,
}

/// An image made by a step, or its base.
#[derive(Debug, Clone)]
pub(crate) struct StoredImage {
    /// Its manifest.
    pub(crate) manifest: Manifest,
    /// The bytes of the manifest.
    pub(crate) manifest_bytes: Bytes,
    /// The bytes of the config.
    pub(crate) config: Bytes,
    /// The origin of layers that are not in the store.
    pub(crate) remote: Option<ImageRef>,
    /// The shared store that the image came from, if another run made it.
    pub(crate) origin: Option<String>,
}

/// The record of a finished step.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    schema: u32,
    manifest: Digest,
    config: Digest,
    remote: Option<ImageRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    /// The layers that were in the store when the step was finished. `remote` may not have them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    own: BTreeSet<Digest>,
}

impl StoredImage {
    /// Creates the value for an assembled image.
    pub(crate) fn new(
        image: &DerivedImage,
        remote: Option<ImageRef>,
    ) -> Result<Self, ExecuteError> {
        let manifest = parse(&image.manifest)?;
        let (manifest_bytes, config) = (image.manifest.clone(), image.config.clone());
        Ok(Self { manifest, manifest_bytes, config, remote, origin: None })
    }

    /// Creates the value for a fetched base.
    pub(crate) fn of_base(base: &BaseImage) -> Self {
        Self {
            manifest: base.manifest.clone(),
            manifest_bytes: Bytes::from(base.manifest.json.to_string()),
            config: base.config.clone(),
            remote: Some(base.image.clone()),
            origin: None,
        }
    }
}

pub(crate) fn parse(bytes: &[u8]) -> Result<Manifest, ExecuteError> {
    match Document::parse(bytes, None) {
        Ok(Document::Manifest(manifest)) => Ok(manifest),
        Ok(Document::Index(_)) => Err(ExecuteError::plan("the image is an index".to_owned())),
        Err(error) => {
            Err(ExecuteError::media("cannot read the manifest of the image".to_owned(), error))
        }
    }
}

impl Store {
    /// Returns the store in a folder. Nothing is created on disk yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        let verified = Verified::new(folder.join("verified"));
        Self { folder, verified, damaged: Damaged::default() }
    }

    /// Returns the path of a blob, if it is stored.
    pub(crate) fn blob(&self, digest: &Digest) -> Option<PathBuf> {
        let path = self.blob_path(digest);
        path.is_file().then_some(path)
    }

    fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.folder.join("blobs").join(digest.hex())
    }

    /// Returns the folder for temporary files.
    pub(crate) fn work(&self) -> Result<PathBuf, ExecuteError> {
        let work = self.folder.join("work");
        fs::create_dir_all(&work).map_err(|error| failed("creating", &work, error))?;
        Ok(work)
    }

    /// Creates a file that will become a blob.
    pub(crate) fn begin(&self) -> Result<NamedTempFile, ExecuteError> {
        let work = self.work()?;
        NamedTempFile::new_in(&work).map_err(|error| failed("writing into", &work, error))
    }

    /// Stores a complete file as the blob with that digest.
    pub(crate) fn keep(&self, file: NamedTempFile, digest: &Digest) -> Result<(), ExecuteError> {
        let path = self.blob_path(digest);
        let kept = || {
            fs::create_dir_all(self.folder.join("blobs"))?;
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|error| error.error)?;
            File::open(self.folder.join("blobs"))?.sync_all()
        };
        kept().map_err(|error| failed("writing", &path, error))
    }

    fn keep_bytes(&self, bytes: &[u8]) -> Result<Digest, ExecuteError> {
        let digest = Digest::of(bytes);
        if !fs::read(self.blob_path(&digest)).is_ok_and(|found| found == bytes) {
            let mut file = self.begin()?;
            file.write_all(bytes).map_err(|error| failed("writing", file.path(), error))?;
            self.keep(file, &digest)?;
        }
        Ok(digest)
    }

    /// Returns the image of a finished step, if it is complete: every layer is here and intact, or
    /// its registry has it.
    pub(crate) fn finished(&self, key: &Digest) -> Option<StoredImage> {
        let note = fs::read(self.note(key)).ok()?;
        let note: Note = serde_json::from_slice(&note).ok()?;
        if note.schema != SCHEMA {
            return None;
        }
        let checked = |digest: &Digest| {
            let bytes = fs::read(self.blob(digest)?).ok()?;
            let is_intact = Digest::of(&bytes) == *digest;
            if !is_intact {
                self.damaged.add(&self.blob_path(digest));
            }
            is_intact.then(|| Bytes::from(bytes))
        };
        let (manifest_bytes, config) = (checked(&note.manifest)?, checked(&note.config)?);
        let manifest = parse(&manifest_bytes).ok()?;
        let mut verified = self.verified.of(&self.folder.join("blobs"));
        let mut is_there = |layer: &Descriptor| match self.blob(&layer.digest) {
            Some(path) => {
                let is_intact = verified.has(&path, &layer.digest, layer.size);
                if !is_intact {
                    self.damaged.add(&path);
                }
                is_intact
            }
            None => note.remote.is_some() && !note.own.contains(&layer.digest),
        };
        let is_whole = manifest.layers.iter().all(&mut is_there);
        verified.save();
        let Note { remote, origin, .. } = note;
        is_whole.then_some(StoredImage { manifest, manifest_bytes, config, remote, origin })
    }

    /// Records that a step is finished. The layers that its registry does not have have already been
    /// stored.
    pub(crate) fn finish(&self, key: &Digest, made: &StoredImage) -> Result<(), ExecuteError> {
        let layers = made.manifest.layers.iter().map(|layer| &layer.digest);
        let note = Note {
            schema: SCHEMA,
            manifest: self.keep_bytes(&made.manifest_bytes)?,
            config: self.keep_bytes(&made.config)?,
            remote: made.remote.clone(),
            origin: made.origin.clone(),
            own: layers.filter(|digest| self.blob(digest).is_some()).cloned().collect(),
        };
        let text = serde_json::to_vec_pretty(&note)
            .map_err(|error| ExecuteError::plan(format!("cannot serialise a note: {error}")))?;
        self.write(&self.note(key), &text)
    }

    fn note(&self, key: &Digest) -> PathBuf {
        self.folder.join("steps").join(format!("{}.json", key.hex()))
    }

    /// Returns what was removed by a finished step that slims an image.
    pub fn slimmed(&self, key: &Digest) -> Option<SlimSummary> {
        serde_json::from_slice(&fs::read(self.slim_path(key)).ok()?).ok()
    }

    /// Records what was removed by a step that slims an image.
    pub(crate) fn keep_slimmed(
        &self,
        key: &Digest,
        summary: &SlimSummary,
    ) -> Result<(), ExecuteError> {
        let text = serde_json::to_vec_pretty(summary)
            .map_err(|error| ExecuteError::plan(format!("cannot serialise a summary: {error}")))?;
        self.write(&self.slim_path(key), &text)
    }

    fn slim_path(&self, key: &Digest) -> PathBuf {
        self.folder.join("steps").join(format!("{}.slim.json", key.hex()))
    }

    /// Returns the path of a layer if it is stored and intact.
    pub(crate) fn layer(&self, layer: &Descriptor) -> Option<PathBuf> {
        let path = self.blob(&layer.digest)?;
        let mut verified = self.verified.of(&self.folder.join("blobs"));
        let is_whole = verified.has(&path, &layer.digest, layer.size);
        verified.save();
        is_whole.then_some(path)
    }

    /// Stores a complete file on this store's file system as the blob with that digest.
    pub(crate) fn keep_file(&self, file: &Path, digest: &Digest) -> Result<(), ExecuteError> {
        let path = self.blob_path(digest);
        let kept = || {
            fs::create_dir_all(self.folder.join("blobs"))?;
            fs::rename(file, &path)?;
            File::open(self.folder.join("blobs"))?.sync_all()
        };
        kept().map_err(|error| failed("writing", &path, error))
    }

    /// Returns the listing of a layer, if it is stored.
    pub(crate) fn listing(&self, layer: &Digest) -> Option<Listing> {
        fs::read_to_string(self.listing_path(layer)).ok()?.parse().ok()
    }

    /// Stores the listing of a layer.
    pub(crate) fn keep_listing(
        &self,
        layer: &Digest,
        listing: &Listing,
    ) -> Result<(), ExecuteError> {
        self.write(&self.listing_path(layer), listing.to_string().as_bytes())
    }

    fn listing_path(&self, layer: &Digest) -> PathBuf {
        self.folder.join("listings").join(layer.hex())
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), ExecuteError> {
        let write = || {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            let mut file = atomic_write_file::AtomicWriteFile::open(path)?;
            file.write_all(bytes)?;
            file.commit()
        };
        write().map_err(|error| failed("writing", path, error))
    }
}

fn failed(doing: &str, path: &Path, error: io::Error) -> ExecuteError {
    ExecuteError::disk(format!("{doing} `{}` failed", path.display()), error)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tests::support::{image, tar_of};

    fn keep(store: &Store, bytes: &[u8]) -> Digest {
        let mut file = store.begin().unwrap();
        file.write_all(bytes).unwrap();
        store.keep(file, &Digest::of(bytes)).unwrap();
        Digest::of(bytes)
    }

    #[test]
    fn a_step_with_a_flipped_byte_is_not_finished_and_can_be_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        let layer = b"the bytes of a layer".as_slice();
        let descriptor = |bytes: &[u8]| json!({ "mediaType": "m", "digest": Digest::of(bytes), "size": bytes.len() });
        let config = b"{}".as_slice();
        let manifest = json!({ "config": descriptor(config), "layers": [descriptor(layer)] });
        let manifest_bytes = Bytes::from(manifest.to_string());
        let made = StoredImage {
            manifest: parse(&manifest_bytes).unwrap(),
            manifest_bytes: manifest_bytes.clone(),
            config: Bytes::from_static(config),
            remote: None,
            origin: None,
        };
        let key = Digest::of(b"key");
        let finish = || {
            keep(&store, layer);
            store.finish(&key, &made).unwrap();
        };
        finish();
        for damaged in [layer, config, &manifest_bytes] {
            assert!(store.finished(&key).is_some());
            let path = store.blob(&Digest::of(damaged)).unwrap();
            let mut bytes = fs::read(&path).unwrap();
            bytes[0] ^= 1;
            fs::write(&path, bytes).unwrap();
            assert!(store.finished(&key).is_none(), "a blob is damaged");
            finish();
        }
        assert!(store.finished(&key).is_some());
    }

    #[test]
    fn a_step_is_finished_only_with_a_note_of_this_version_and_all_its_layers() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        let (tar, key) = (tar_of(&[("a", "text")]), Digest::of(b"key"));
        let mut made = image(&[&tar]);
        store.finish(&key, &made).unwrap();
        assert!(store.finished(&key).is_none(), "its layer is missing");
        // The layer may stay in a registry.
        made.remote = Some("registry.invalid/base:1".parse().unwrap());
        made.origin = Some("dir:/steps".to_owned());
        store.finish(&key, &made).unwrap();
        let found = store.finished(&key).unwrap();
        assert_eq!((&found.remote, &found.origin), (&made.remote, &made.origin));
        assert_eq!((&found.manifest, &found.config), (&made.manifest, &made.config));
        assert!(store.layer(&made.manifest.layers[0]).is_none());
        keep(&store, &tar);
        assert_eq!(store.layer(&made.manifest.layers[0]), store.blob(&Digest::of(&tar)));
        let text = fs::read_to_string(store.note(&key)).unwrap();
        for other in [text.replace("\"schema\": 1", "\"schema\": 2"), text[1..].to_owned()] {
            fs::write(store.note(&key), other).unwrap();
            assert!(store.finished(&key).is_none());
        }
        fs::write(store.note(&key), text).unwrap();
        assert!(store.finished(&key).is_some());
    }

    #[test]
    fn a_deleted_layer_that_this_machine_made_makes_its_step_run_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        let (own, of_base) = (tar_of(&[("a", "text")]), tar_of(&[("b", "text")]));
        let mut made = image(&[&of_base, &own]);
        made.remote = Some("registry.invalid/base:1".parse().unwrap());
        let key = Digest::of(b"key");
        keep(&store, &own);
        store.finish(&key, &made).unwrap();
        assert!(store.finished(&key).is_some(), "the registry has the other layer");
        fs::remove_file(store.blob(&Digest::of(&own)).unwrap()).unwrap();
        assert!(store.finished(&key).is_none(), "no registry has the layer");
    }
}
