//! Finds images that podman had not finished when it was killed, in the files of
//! containers/storage.
//!
//! An unfinished image has a record but no name and no config. It cannot be used, and as long as it
//! exists, podman cannot list any image.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use base64::Engine as _;
use serde_json::Value;

use crate::build::{BASE_LABEL, RUN_LABEL};
use crate::client::EngineInfo;

/// Returns the ID, in hexadecimal digits, of the image that podman cannot read.
pub(crate) fn named_in(detail: &str) -> Option<String> {
    let (_, rest) = detail.split_once("image with ID \"")?;
    let (id, _) = rest.split_once('"')?;
    let is_id = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| id.to_owned())
}

/// Returns whether an unfinished image belongs to a build of this tool: it is empty, or it was
/// built on one of this tool's images.
pub(crate) fn is_ours(info: &EngineInfo, id: &str) -> bool {
    let folder = |name: &str| info.storage_root.join(format!("{}-{name}", info.storage_driver));
    let images = folder("images");
    let records = read(&images.join("images.json"));
    let of = |record: &Value, key: &str| record[key].as_str().map(str::to_owned);
    let (mut unfinished, mut ours, mut others) = (None, BTreeSet::new(), BTreeSet::new());
    for record in records.as_array().into_iter().flatten() {
        let (Some(found), layer) = (of(record, "id"), of(record, "layer")) else { continue };
        if found == id {
            unfinished = Some(record);
        } else if has_our_label(&images, &found) {
            ours.extend(layer);
        } else {
            others.extend(layer);
        }
    }
    let is_empty = |record: &Value, key: &str| record[key].as_array().is_none_or(Vec::is_empty);
    let Some(record) = unfinished.filter(|record| is_empty(record, "names")) else { return false };
    if has_our_label(&images, id) {
        return true;
    }
    if !is_empty(record, "big-data-names") {
        return false;
    }
    let Some(layer) = of(record, "layer") else { return true };
    let layers = read(&folder("layers").join("layers.json"));
    let parents: BTreeMap<String, Option<String>> = layers
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|layer| Some((of(layer, "id")?, of(layer, "parent"))))
        .collect();
    let parent = parents.get(&layer).cloned().flatten();
    !others.contains(&layer)
        && (ours.contains(&layer) || parent.is_none_or(|parent| ours.contains(&parent)))
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
