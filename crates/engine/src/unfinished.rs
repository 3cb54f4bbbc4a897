//! Finds images that podman had not finished when it was killed, in the files of
//! containers/storage.
//!
//! An unfinished image has a record but no name and no manifest. It cannot be used. As long as it
//! exists, `podman images --all` fails, while the API may leave it out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use base64::Engine as _;
use serde_json::Value;

use crate::build::{BASE_LABEL, RUN_LABEL};
use crate::client::EngineInfo;

/// Returns the IDs of the unfinished images that belong to builds of this tool: they have its label,
/// or they are empty and were built on one of its images. Another run may be about to finish one.
pub(crate) fn images(info: &EngineInfo) -> BTreeSet<String> {
    let folder = |name: &str| info.storage_root.join(format!("{}-{name}", info.storage_driver));
    let images = folder("images");
    let records = read(&images.join("images.json"));
    let records = || records.as_array().into_iter().flatten();
    let of = |record: &Value, key: &str| record[key].as_str().map(str::to_owned);
    let (mut ours, mut others) = (BTreeSet::new(), BTreeSet::new());
    for record in records().filter(|record| has_manifest(record)) {
        let is_ours = of(record, "id").is_some_and(|id| has_our_label(&images, &id));
        if is_ours { &mut ours } else { &mut others }.extend(of(record, "layer"));
    }
    let layers = read(&folder("layers").join("layers.json"));
    let parents: BTreeMap<String, Option<String>> = layers
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|layer| Some((of(layer, "id")?, of(layer, "parent"))))
        .collect();
    let is_built_on_ours = |layer: String| {
        // Somebody else may have an image with the same layer as one of this tool's bases.
        let parent = parents.get(&layer).cloned().flatten();
        ours.contains(&layer)
            || !others.contains(&layer) && parent.is_none_or(|parent| ours.contains(&parent))
    };
    let is_empty = |record: &Value, key: &str| record[key].as_array().is_none_or(Vec::is_empty);
    let is_ours = |record: &Value, id: &str| {
        has_our_label(&images, id)
            || (is_empty(record, "big-data-names")
                && of(record, "layer").is_none_or(is_built_on_ours))
    };
    records()
        .filter(|record| !has_manifest(record) && is_empty(record, "names"))
        .filter_map(|record| of(record, "id").filter(|id| is_ours(record, id)))
        .collect()
}

/// Returns whether podman can read the image of a record.
fn has_manifest(record: &Value) -> bool {
    let names = record["big-data-names"].as_array();
    names.is_some_and(|names| names.iter().any(|name| name == "manifest"))
}

fn read(path: &Path) -> Value {
    let text = std::fs::read(path).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Returns whether the config of an image contains a label of this tool.
fn has_our_label(images: &Path, id: &str) -> bool {
    let name = base64::engine::general_purpose::STANDARD.encode(format!("sha256:{id}"));
    let config = read(&images.join(id).join(format!("={name}")));
    let labels = &config["config"]["Labels"];
    [BASE_LABEL, RUN_LABEL].iter().any(|label| labels.get(label).is_some())
}
