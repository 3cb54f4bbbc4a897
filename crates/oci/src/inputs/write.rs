//! Writes the lists of inputs: the start of an archive, and the index of a folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bytes::Bytes;
use names::Digest;
use serde_json::{Map, Value, json};

use super::{EMPTY_CONFIG, INPUTS, InputBlob, InputList};
use crate::archive::ArchiveWriter;
use crate::layout::{self, LayoutError, MARKER, REF_NAME, write_file};
use crate::media::{OCI_INDEX, OCI_MANIFEST};
use crate::{document, files};

/// The annotation of an index with the IDs of the bundles that it needs.
pub(super) const NEEDS: &str = "io.github.build-pipeline.needs";

/// The maximum number of blobs in a bundle. Readers accept a few more entries in an archive.
const MOST_BLOBS: usize = 9_000;

/// What a bundle consists of.
#[derive(Debug, Clone)]
pub struct BundleIndex {
    /// The lists, in the order of their tracks.
    pub lists: Vec<InputList>,
    /// The IDs of the bundles that have the other blobs.
    pub needs: Vec<Digest>,
}

impl BundleIndex {
    /// Returns the text of `index.json`. Its digest is the ID of the bundle.
    pub fn text(&self) -> String {
        let entries = self.lists.iter().map(|list| (list.track.clone(), entry(list))).collect();
        index_text(&entries, &self.needs)
    }

    /// Returns every blob of the lists once, in their order.
    pub fn blobs(&self) -> Vec<&InputBlob> {
        let mut known = BTreeSet::new();
        let all = self.lists.iter().flat_map(|list| &list.blobs);
        all.filter(|blob| known.insert(&blob.digest)).collect()
    }
}

fn entry(list: &InputList) -> Value {
    let manifest = list.to_manifest();
    json!({
        "mediaType": OCI_MANIFEST,
        "artifactType": INPUTS,
        "digest": Digest::of(&manifest),
        "size": manifest.len(),
        "annotations": { REF_NAME: list.track },
    })
}

fn index_text(entries: &BTreeMap<String, Value>, needs: &[Digest]) -> String {
    let mut index = json!({
        "schemaVersion": 2,
        "mediaType": OCI_INDEX,
        "manifests": entries.values().collect::<Vec<_>>(),
    });
    if !needs.is_empty() {
        let needs: Vec<&str> = needs.iter().map(Digest::as_str).collect();
        index["annotations"] = json!({ NEEDS: needs.join(" ") });
    }
    index.to_string()
}

/// Starts the archive of a bundle and writes its index and lists. The blobs follow, as layers.
///
/// # Errors
/// The file cannot be written, or is something else than an archive.
pub fn begin_bundle(path: &Path, index: &BundleIndex) -> Result<ArchiveWriter, LayoutError> {
    let (text, count) = (index.text(), index.blobs().len());
    if count > MOST_BLOBS {
        return Err(LayoutError::TooMany { name: path.display().to_string(), count });
    }
    let mut archive = ArchiveWriter::open(path)?;
    archive.add("index.json", text.as_bytes())?;
    // Readers compare the index with this copy.
    archive.add_blob(text.as_bytes())?;
    archive.add_blob(EMPTY_CONFIG)?;
    for list in &index.lists {
        archive.add_blob(&list.to_manifest())?;
    }
    archive.expect_layers();
    Ok(archive)
}

/// Adds lists to the index of a folder, and replaces those of the same tracks. The blobs must be
/// there already.
///
/// # Errors
/// The folder contains something else, or a file cannot be written.
pub fn add_lists(folder: &Path, lists: &[InputList]) -> Result<(), LayoutError> {
    let mut entries = entries_of(folder)?;
    let blobs = layout::blobs_folder(folder);
    std::fs::create_dir_all(&blobs)
        .map_err(|source| LayoutError::Write { path: blobs.clone(), source })?;
    let blob = |bytes: &Bytes| write_file(&layout::blob_path(folder, &Digest::of(bytes)), bytes);
    blob(&Bytes::from_static(EMPTY_CONFIG))?;
    for list in lists {
        blob(&list.to_manifest())?;
        entries.insert(list.track.clone(), entry(list));
    }
    write_file(&folder.join("oci-layout"), MARKER.as_bytes())?;
    write_file(&folder.join("index.json"), index_text(&entries, &[]).as_bytes())
}

/// Checks that lists may be added to a folder: it is absent, or empty, or has such lists.
///
/// # Errors
/// The folder contains something else.
pub fn check_folder(folder: &Path) -> Result<(), LayoutError> {
    entries_of(folder).map(drop)
}

/// Returns the entries in the index of a folder, by track. The folder may be absent or empty.
///
/// # Errors
/// The folder contains something else.
fn entries_of(folder: &Path) -> Result<BTreeMap<String, Value>, LayoutError> {
    let other = || LayoutError::NotALayout(folder.to_owned());
    let path = folder.join("index.json");
    let index = match files::open(&path).and_then(layout::read_capped) {
        Ok(bytes) => document::read(&bytes, document::MANIFEST).map_err(|_| other())?,
        // A copy that was interrupted has only blobs.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
            if names.map(|one| one.file_name()).any(|name| name != "blobs" && name != "oci-layout")
            {
                return Err(other());
            }
            Map::new()
        }
        Err(source) => return Err(LayoutError::Read { path, source }),
    };
    let entries = index.get("manifests").and_then(Value::as_array).into_iter().flatten();
    let entry = |entry: &Value| {
        let is_ours = entry.get("artifactType")? == INPUTS;
        let track = entry.get("annotations")?.get(REF_NAME)?.as_str()?.to_owned();
        is_ours.then(|| (track, entry.clone()))
    };
    entries.map(|one| entry(one).ok_or_else(other)).collect()
}
