//! Reads images in OCI layouts, for the chores that check sizes.

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::run::root;

/// An image in a layout.
pub(crate) struct Layout {
    /// The digest of the manifest.
    pub(crate) digest: String,
    /// The layers, lowest first: their digests, and their stored sizes in bytes.
    pub(crate) layers: Vec<(String, u64)>,
}

impl Layout {
    /// Reads the layout in a folder, which is relative to the root of the workspace.
    pub(crate) fn read(layout: &str) -> Result<Self> {
        let folder = root()?.join(layout);
        let read = |path: &str| -> Result<Value> {
            let text = std::fs::read_to_string(folder.join(path));
            let text = text.with_context(|| format!("cannot read `{layout}/{path}`"))?;
            Ok(serde_json::from_str(&text)?)
        };
        let digest = read("index.json")?["manifests"][0]["digest"].as_str().map(str::to_owned);
        let digest = digest.with_context(|| format!("`{layout}` has no manifest"))?;
        let manifest = read(&blob(&digest))?;
        let layers = manifest["layers"].as_array().context("the manifest has no layers")?;
        let layer =
            |value: &Value| Some((value["digest"].as_str()?.to_owned(), value["size"].as_u64()?));
        let layers: Option<Vec<_>> = layers.iter().map(layer).collect();
        Ok(Self { digest, layers: layers.context("a layer has no digest or size")? })
    }

    /// Returns the stored size of all layers, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.layers.iter().map(|(_, size)| size).sum()
    }
}

/// Returns the path of a blob in a layout.
pub(crate) fn blob(digest: &str) -> String {
    format!("blobs/{}", digest.replace(':', "/"))
}
