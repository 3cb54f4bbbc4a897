//! A folder of artifacts: an OCI layout whose `index.json` has an entry for each tag.
//!
//! Several processes may use it at the same time. Blobs are written under their digests. A process
//! that changes `index.json` holds a lock on the folder of blobs, and replaces the file with one
//! rename. A folder that contains something else, for example an image, is neither read nor
//! changed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use futures_util::StreamExt as _;
use names::{Digest, Tag};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::agreement::link_in;
use crate::artifacts::ArtifactError;
use crate::client::BlobStream;
use crate::document;
use crate::files;
use crate::layout::{self, LayoutError, MARKER, REF_NAME, blob_path, blobs_folder, write_file};
use crate::local::LocalBlobs;
use crate::media::{Descriptor, Document, MANIFEST_CAP, MediaError, OCI_INDEX, OCI_MANIFEST};

/// A folder of artifacts. Clones share a cache of `index.json`.
#[derive(Debug, Clone)]
pub struct ArtifactFolder {
    path: PathBuf,
    known: Arc<Mutex<Option<Known>>>,
}

/// The content of `index.json`, and the state of the file when it was read.
#[derive(Debug)]
struct Known {
    stamp: Stamp,
    entries: Entries,
}

/// The entries of `index.json` by their tag.
type Entries = BTreeMap<String, Value>;
/// Inode, size and time of a file.
type Stamp = (u64, u64, i64, i64);

/// The result of [`ArtifactFolder::clean`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removed {
    /// The number of entries that were removed, or would be removed in a dry run.
    pub entries: usize,
    /// The total size of the blobs that are no longer used, in bytes.
    pub bytes: u64,
}

impl ArtifactFolder {
    /// Returns the artifact folder at `path`. Nothing is created yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path, known: Arc::default() }
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the manifest under a tag, or `None` if there is none.
    pub(crate) fn manifest(&self, tag: &Tag) -> Result<Option<Bytes>, LayoutError> {
        let Some(entry) = self.entry(tag.as_str())? else { return Ok(None) };
        let descriptor = self.descriptor(&entry)?;
        self.blob(&descriptor, MANIFEST_CAP).map(Some)
    }

    /// Records that the artifact under a tag has just been used. `clean` removes artifacts that
    /// have not been used for a long time.
    pub fn note_use(&self, tag: &Tag) {
        let touch = || {
            let entry = self.entry(tag.as_str()).ok()??;
            let path = blob_path(&self.path, &self.descriptor(&entry).ok()?.digest);
            File::options().write(true).open(path).ok()?.set_modified(SystemTime::now()).ok()
        };
        if touch().is_none() {
            tracing::debug!(tag = tag.as_str(), "cannot record the use of an artifact");
        }
    }

    pub(crate) fn blob(&self, blob: &Descriptor, cap: u64) -> Result<Bytes, LayoutError> {
        let bytes = self.read(&blob_path(&self.path, &blob.digest), cap).map_err(|error| {
            match error.kind() {
                io::ErrorKind::NotFound => self.missing(&blob.digest),
                _ => self.unreadable(error),
            }
        })?;
        let found = Digest::of(&bytes);
        if found == blob.digest {
            return Ok(bytes);
        }
        Err(LayoutError::Integrity { path: self.path.clone(), digest: blob.digest.clone(), found })
    }

    pub(crate) fn stream(&self, blob: &Descriptor) -> Result<BlobStream, LayoutError> {
        let local = LocalBlobs::find(std::slice::from_ref(&self.path));
        local.layer(blob).ok_or_else(|| self.missing(&blob.digest))
    }

    /// Checks that the folder is absent or empty, or contains only artifacts. If `kind` is given,
    /// they must be of this type.
    ///
    /// # Errors
    /// Fails if it contains something else, or cannot be read.
    pub fn check(&self, kind: Option<&str>) -> Result<(), LayoutError> {
        let read = |source| LayoutError::Read { path: self.path.clone(), source };
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory && self.path.exists() => {
                return Err(LayoutError::NotAFolder(self.path.clone()));
            }
            entries => entries.map_err(read)?,
        };
        let names: Vec<OsString> = entries.flatten().map(|entry| entry.file_name()).collect();
        let is_right = if names.iter().any(|name| name == "index.json") {
            let is_kind = |entry: &Value| kind.is_none_or(|kind| entry["artifactType"] == kind);
            self.path.join("index.json").exists() && self.entries()?.values().all(is_kind)
        } else {
            // Another process is writing the first artifact, or was interrupted while doing so.
            let is_ours = |name: &OsString| {
                name == "blobs"
                    || name == "oci-layout"
                    || name.to_str().is_some_and(layout::is_half_file)
            };
            names.iter().all(is_ours)
        };
        if is_right { Ok(()) } else { Err(LayoutError::NotArtifacts(self.path.clone())) }
    }

    /// Refuses links in place of the files and folders of an artifact folder: what they lead to may
    /// belong to others.
    ///
    /// # Errors
    /// Fails if there is a link.
    pub fn check_no_link(&self) -> Result<(), LayoutError> {
        let names = ["index.json", "oci-layout", "blobs/sha256"];
        match names.iter().find_map(|name| link_in(&self.path, name)) {
            None => Ok(()),
            Some(name) => Err(LayoutError::Link { path: self.path.clone(), name }),
        }
    }

    pub(crate) async fn push(&self, mut blob: BlobStream) -> Result<(), ArtifactError> {
        self.check(None)?;
        let path = blob_path(&self.path, blob.digest());
        let is_there = files::open(&path).and_then(files::hash).is_ok_and(|d| d == *blob.digest());
        if is_there {
            return Ok(());
        }
        let failed = |source| LayoutError::Write { path: path.clone(), source };
        let blobs = blobs_folder(&self.path);
        fs::create_dir_all(&blobs).map_err(failed)?;
        let mut file = NamedTempFile::new_in(&blobs).map_err(failed)?;
        while let Some(piece) = blob.next().await {
            file.write_all(&piece?).map_err(failed)?;
        }
        file.as_file().sync_all().map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(())
    }

    pub(crate) fn push_manifest(&self, tag: &Tag, bytes: &[u8]) -> Result<(), LayoutError> {
        self.check(None)?;
        let digest = Digest::of(bytes);
        let manifest = document::read(bytes, document::MANIFEST)
            .map_err(|source| self.invalid(MediaError::Document(source)))?;
        let blobs = blobs_folder(&self.path);
        let made = fs::create_dir_all(&blobs);
        made.map_err(|source| LayoutError::Write { path: blobs, source })?;
        write_file(&blob_path(&self.path, &digest), bytes)?;
        write_file(&self.path.join("oci-layout"), MARKER.as_bytes())?;
        let entry = json!({
            "mediaType": OCI_MANIFEST,
            "artifactType": manifest.get("artifactType"),
            "digest": digest,
            "size": bytes.len(),
            "annotations": { REF_NAME: tag.as_str() },
        });
        let _lock = self.lock()?;
        let mut entries = self.entries()?;
        entries.insert(tag.as_str().to_owned(), entry);
        self.write(entries)
    }

    /// Removes the artifacts of the types `kinds` that are damaged or have not been used since a
    /// given time, and the blobs of that age that no other artifact uses. Nothing is removed if
    /// `is_dry` is set.
    ///
    /// # Errors
    /// Fails if the folder contains something other than artifacts, or cannot be read or written.
    pub fn clean(
        &self,
        kinds: &[&str],
        unused_since: SystemTime,
        is_dry: bool,
    ) -> Result<Removed, LayoutError> {
        if !self.path.join("index.json").exists() {
            return Ok(Removed::default());
        }
        let _lock = self.lock()?;
        let mut entries = self.entries()?;
        let before = entries.len();
        let mut used = BTreeSet::new();
        entries.retain(|_, entry| {
            let is_meant = kinds.iter().any(|kind| entry["artifactType"] == **kind);
            let since = if is_meant { unused_since } else { SystemTime::UNIX_EPOCH };
            self.keeps(entry, since, &mut used) || !is_meant
        });
        let mut removed = Removed { entries: before - entries.len(), bytes: 0 };
        if !is_dry {
            self.write(entries)?;
        }
        let blobs = fs::read_dir(blobs_folder(&self.path)).map_err(|e| self.unreadable(e))?;
        for blob in blobs.flatten() {
            let Ok(found) = blob.metadata() else { continue };
            let is_used = blob.file_name().to_str().is_some_and(|name| used.contains(name));
            // A run that adds an artifact writes its blobs first.
            let is_new = found.modified().map_or(true, |time| time > unused_since);
            if is_used || is_new {
                continue;
            }
            if is_dry || fs::remove_file(blob.path()).is_ok() {
                removed.bytes += found.len();
            }
        }
        Ok(removed)
    }

    /// Returns whether to keep an entry. If so, adds its blobs to `used`.
    fn keeps(&self, entry: &Value, unused_since: SystemTime, used: &mut BTreeSet<String>) -> bool {
        let Ok(descriptor) = self.descriptor(entry) else { return false };
        let path = blob_path(&self.path, &descriptor.digest);
        let modified = fs::metadata(&path).and_then(|found| found.modified());
        if modified.map_or(true, |time| time <= unused_since) {
            return false;
        }
        // A damaged artifact is useless.
        let Ok(bytes) = self.blob(&descriptor, MANIFEST_CAP) else { return false };
        let Ok(Document::Manifest(manifest)) = Document::parse(&bytes, None) else { return false };
        let blobs = manifest.layers.iter().chain([&manifest.config, &descriptor]);
        used.extend(blobs.map(|blob| blob.digest.hex().to_owned()));
        true
    }

    /// Returns the entry under a tag.
    fn entry(&self, tag: &str) -> Result<Option<Value>, LayoutError> {
        let path = self.path.join("index.json");
        let Some(stamp) = fs::metadata(&path).ok().map(|found| stamp(&found)) else {
            return Ok(None);
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref().is_none_or(|known| known.stamp != stamp) {
            *known = Some(Known { stamp, entries: self.entries()? });
        }
        Ok(known.as_ref().and_then(|known| known.entries.get(tag).cloned()))
    }

    /// Reads `index.json`.
    fn entries(&self) -> Result<Entries, LayoutError> {
        let bytes = match files::open(&self.path.join("index.json")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Entries::new()),
            Err(error) => return Err(self.unreadable(error)),
            Ok(mut file) => {
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes).map_err(|error| self.unreadable(error))?;
                bytes
            }
        };
        let index = document::read(&bytes, document::MANIFEST)
            .map_err(|source| self.invalid(MediaError::Document(source)))?;
        let all = index.get("manifests").and_then(Value::as_array).into_iter().flatten();
        let artifact = |entry: &Value| {
            entry.get("artifactType")?.as_str()?;
            let name = entry.get("annotations")?.get(REF_NAME)?.as_str()?;
            Some((name.to_owned(), entry.clone()))
        };
        let entries = all.map(artifact).collect::<Option<_>>();
        entries.ok_or_else(|| LayoutError::NotArtifacts(self.path.clone()))
    }

    fn write(&self, entries: Entries) -> Result<(), LayoutError> {
        let index = json!({
            "schemaVersion": 2,
            "mediaType": OCI_INDEX,
            "manifests": entries.into_values().collect::<Vec<_>>(),
        });
        write_file(&self.path.join("index.json"), index.to_string().as_bytes())
    }

    /// Waits until no other process is changing `index.json`, and locks it. The lock is on the
    /// folder of blobs, because a command that writes to the artifact folder already holds a lock
    /// on the artifact folder itself.
    fn lock(&self) -> Result<File, LayoutError> {
        let blobs = blobs_folder(&self.path);
        let locked = File::open(&blobs).and_then(|folder| folder.lock().map(|()| folder));
        locked.map_err(|source| LayoutError::Write { path: blobs, source })
    }

    fn descriptor(&self, entry: &Value) -> Result<Descriptor, LayoutError> {
        Descriptor::from_json(entry, "manifests").map_err(|source| self.invalid(source))
    }

    fn read(&self, path: &Path, cap: u64) -> io::Result<Bytes> {
        let mut bytes = Vec::new();
        files::open(path)?.take(cap).read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }

    fn missing(&self, digest: &Digest) -> LayoutError {
        LayoutError::Missing { path: self.path.clone(), digest: digest.clone() }
    }

    fn invalid(&self, source: MediaError) -> LayoutError {
        LayoutError::Document { path: self.path.clone(), source }
    }

    fn unreadable(&self, source: io::Error) -> LayoutError {
        LayoutError::Read { path: self.path.clone(), source }
    }
}

fn stamp(found: &fs::Metadata) -> Stamp {
    (found.ino(), found.len(), found.mtime(), found.mtime_nsec())
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::time::Duration;

    use super::*;

    /// Adds an artifact with `layer` as its only layer.
    fn add(folder: &ArtifactFolder, tag: &str, layer: &[u8]) {
        let config = b"{}".as_slice();
        let blobs = blobs_folder(folder.path());
        fs::create_dir_all(&blobs).unwrap();
        let descriptor = |bytes: &[u8]| {
            fs::write(blobs.join(Digest::of(bytes).hex()), bytes).unwrap();
            json!({ "mediaType": "m", "digest": Digest::of(bytes), "size": bytes.len() })
        };
        let (config, layer) = (descriptor(config), descriptor(layer));
        // Artifacts with different tags have different manifests, like steps with different keys.
        let tags = json!({ "tag": tag });
        let manifest = json!({
            "schemaVersion": 2, "artifactType": "step", "config": config, "layers": [layer],
            "annotations": tags,
        });
        folder.push_manifest(&tag.parse().unwrap(), manifest.to_string().as_bytes()).unwrap();
    }

    fn age(folder: &ArtifactFolder, days: u64) {
        for blob in fs::read_dir(blobs_folder(folder.path())).unwrap().flatten() {
            let time = SystemTime::now() - Duration::from_secs(days * 86_400);
            File::options().write(true).open(blob.path()).unwrap().set_modified(time).unwrap();
        }
    }

    #[test]
    fn artifacts_that_were_not_used_are_removed_with_the_blobs_that_only_they_use() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = ArtifactFolder::new(temporary.path().join("store"));
        let has = |tag: &str| folder.manifest(&tag.parse().unwrap()).unwrap().is_some();
        assert!(!has("old"), "there is no folder yet");
        add(&folder, "old", b"only the old one has it");
        add(&folder, "used", b"shared");
        add(&folder, "other", b"shared");
        age(&folder, 30);
        folder.note_use(&"used".parse().unwrap());
        let since = SystemTime::now() - Duration::from_secs(86_400);
        let dry = folder.clean(&["step"], since, true).unwrap();
        assert_eq!(dry.entries, 2);
        assert!(has("old") && has("other"), "a dry run removes nothing");
        let others = folder.clean(&["something else"], since, false).unwrap();
        assert_eq!(others, Removed::default());
        assert!(has("old") && has("other"), "only artifacts of the types are removed");
        assert_eq!(folder.clean(&["step"], since, false).unwrap(), dry);
        assert!(!has("old") && !has("other") && has("used"));
        let blob = |bytes: &[u8]| blob_path(folder.path(), &Digest::of(bytes)).exists();
        assert!(blob(b"shared") && blob(b"{}") && !blob(b"only the old one has it"));
        assert_eq!(folder.clean(&["step"], since, false).unwrap(), Removed::default());
    }

    #[test]
    fn a_folder_with_something_else_is_not_changed() {
        let image =
            json!({ "digest": Digest::of(b"image"), "annotations": { REF_NAME: "latest" } });
        let unnamed = json!({ "digest": Digest::of(b"image"), "artifactType": "step" });
        for (name, text) in [
            ("index.json", json!({ "manifests": [image] }).to_string()),
            ("index.json", json!({ "manifests": [unnamed] }).to_string()),
            ("letter.txt", "of somebody".to_owned()),
        ] {
            let temporary = tempfile::tempdir().unwrap();
            fs::write(temporary.path().join(name), &text).unwrap();
            let folder = ArtifactFolder::new(temporary.path().to_owned());
            let manifest = json!({ "schemaVersion": 2, "artifactType": "step" }).to_string();
            let pushed = folder.push_manifest(&"new".parse().unwrap(), manifest.as_bytes());
            assert!(matches!(pushed, Err(LayoutError::NotArtifacts(_))), "{name}: {pushed:?}");
            assert_eq!(fs::read_to_string(temporary.path().join(name)).unwrap(), text);
            assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 1, "{name}");
        }
    }

    #[test]
    fn several_writers_lose_no_entry() {
        // The first writes into a new folder differ from later ones, so this test uses many
        // folders.
        for round in 0..20 {
            let temporary = tempfile::tempdir().unwrap();
            let path = temporary.path().join("store");
            let barrier = Barrier::new(8);
            std::thread::scope(|scope| {
                for writer in 0..8 {
                    let (folder, barrier) = (ArtifactFolder::new(path.clone()), &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        for number in 0..3 {
                            add(&folder, &format!("t{writer}.{number}"), b"layer");
                        }
                    });
                }
            });
            assert_eq!(ArtifactFolder::new(path).entries().unwrap().len(), 24, "round {round}");
        }
    }

    #[test]
    fn a_killed_writer_leaves_a_folder_that_the_next_one_uses() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = ArtifactFolder::new(temporary.path().to_owned());
        for name in [".oci-layout.Ab12Cd", "oci-layout", ".index.json.Ab12Cd"] {
            fs::write(temporary.path().join(name), "").unwrap();
            folder.check(Some("step")).unwrap();
        }
        add(&folder, "new", b"layer");
        let half = blobs_folder(folder.path()).join(".tmpAb12Cd");
        fs::write(&half, "half a blob").unwrap();
        folder.check(Some("step")).unwrap();
        let since = SystemTime::now() - Duration::from_secs(86_400);
        folder.clean(&["step"], since, false).unwrap();
        assert!(half.exists(), "its writer may still run");
        age(&folder, 30);
        folder.clean(&["step"], since, false).unwrap();
        assert!(!half.exists());
    }
}
