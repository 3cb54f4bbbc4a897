//! Writes the start of a bundle: its index, and the lists of inputs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use names::Digest;
use serde_json::{Value, json};

use super::{INPUTS, InputBlob, InputList};
use crate::archive::{ArchiveWriter, Content};
use crate::layout::{LayoutError, REF_NAME};
use crate::media::{EMPTY_CONFIG, OCI_INDEX, OCI_MANIFEST};

/// The annotation of an index with the IDs of the bundles that it needs.
pub(super) const NEEDS: &str = "io.github.build-pipeline.needs";

/// The maximum number of blobs in a bundle. Readers accept 10,000 entries in an archive, which
/// leaves room for the lists and the index.
const MOST_BLOBS: usize = 9_000;

/// The content of a bundle.
#[derive(Debug, Clone)]
pub struct BundleIndex {
    /// The lists, in the order of their tracks.
    pub lists: Vec<InputList>,
    /// The IDs of the bundles that contain the blobs missing from this one.
    pub needs: Vec<Digest>,
}

impl BundleIndex {
    /// Returns the text of `index.json`. Its digest is the ID of the bundle.
    pub fn text(&self) -> String {
        let entries: BTreeMap<_, _> =
            self.lists.iter().map(|list| (&list.track, entry(list))).collect();
        let mut index = json!({
            "schemaVersion": 2,
            "mediaType": OCI_INDEX,
            "manifests": entries.into_values().collect::<Vec<_>>(),
        });
        if !self.needs.is_empty() {
            let needs: Vec<&str> = self.needs.iter().map(Digest::as_str).collect();
            index["annotations"] = json!({ NEEDS: needs.join(" ") });
        }
        index.to_string()
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

/// Starts the archive of a bundle and writes its index and lists. The blobs follow, as layers.
///
/// # Errors
/// Fails if there are too many blobs, if the file cannot be written, or if something other than an
/// archive is at its path.
pub fn begin_bundle(path: &Path, index: &BundleIndex) -> Result<ArchiveWriter, LayoutError> {
    let (text, count) = (index.text(), index.blobs().len());
    if count > MOST_BLOBS {
        return Err(LayoutError::TooMany { name: path.display().to_string(), count });
    }
    let mut archive = ArchiveWriter::open(path, Content::Bundle)?;
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
