//! Assembles an image from a pinned base and sealed layers: the JSON half of the contract `seal/1`.
//!
//! Engines write configs that name the engine, the host and the time. Only what the Dockerfile
//! defines is kept. Everything else comes from the pinned base and the plan, so that identical
//! builds have identical image IDs, whichever engine ran them:
//!
//! - `config` keeps the keys in [`KEPT`] (OCI image-spec, config.md), sorted, without empty values.
//!   Labels that engines add about themselves are removed. The edit's environment, entrypoint and
//!   labels are set as in `derive/1`. The volumes of the base and of the built image are merged. A
//!   range of exposed ports is split into single ports.
//! - `created` comes from the edit. `history` is the base's, plus one entry for each new layer.
//!   `rootfs` lists the base's layers and the new ones. Platform keys come from the base. All keys
//!   are sorted.
//! - The manifest lists the base's layers as in the pinned manifest, never as the engine describes
//!   them, and the new ones as gzip. Media types and annotations are as in `derive/1`.

use std::collections::BTreeMap;

use names::{Digest, ImageEdit, Platform};
use serde_json::{Map, Value, json};

use crate::derive::{
    DeriveError, DerivedImage, edit_entrypoint, edit_env, edit_labels, finished, oci_layer,
    parse_config,
};
use crate::document::{DocumentError, read_config};
use crate::media::{Descriptor, Manifest};

/// The keys of a built image's `config` that describe the image.
const KEPT: [&str; 12] = [
    "Cmd",
    "Entrypoint",
    "Env",
    "ExposedPorts",
    "Healthcheck",
    "Labels",
    "OnBuild",
    "Shell",
    "StopSignal",
    "User",
    "Volumes",
    "WorkingDir",
];
/// Keys of the base's config that describe its platform.
const PLATFORM: [&str; 5] = ["architecture", "os", "os.features", "os.version", "variant"];
/// Labels that an engine adds about itself (buildah's version).
const ENGINE_LABELS: [&str; 1] = ["io.buildah.version"];
/// The media type of sealed layers.
const OCI_LAYER_GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// A sealed layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLayer {
    /// The digest of the uncompressed tar.
    pub diff_id: Digest,
    /// The digest of the gzip file.
    pub digest: Digest,
    /// The size of the gzip file, in bytes.
    pub size: u64,
    /// Its `created_by` in the history.
    pub created_by: String,
}

/// The base of a new image.
#[derive(Debug, Clone, Copy)]
pub struct Base<'a> {
    /// Its manifest.
    pub manifest: &'a Manifest,
    /// The bytes of its config.
    pub config: &'a [u8],
}

/// Why an image cannot be assembled.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// The base is not usable.
    #[error(transparent)]
    Base(#[from] DeriveError),
    /// The built config is not a JSON object, or parsers disagree on its meaning.
    #[error("cannot read the built image's config")]
    Document(#[source] DocumentError),
    /// A part of the built config has the wrong type.
    #[error("the built image's config has no valid `{0}`")]
    Field(&'static str),
    /// The lowest layers of the built image are not those of the base.
    #[error(
        "the built image is not based on the pinned base: its layer {layer} is `{found}`, not `{wanted}`; rebuild without caches"
    )]
    NotOnBase {
        /// The number of the layer, counted from 1.
        layer: usize,
        /// The layer of the built image, or `none`.
        found: String,
        /// The layer of the base.
        wanted: String,
    },
}

/// Assembles the image from a base and sealed layers, lowest first. `built` is the config that the
/// engine wrote.
///
/// # Errors
/// Fails if the base is damaged or not for the platform, if the built config is not valid, or if
/// the built image is not based on the base.
pub fn assemble(
    base: Base<'_>,
    platform: &Platform,
    built: &[u8],
    new: &[NewLayer],
    edit: &ImageEdit,
) -> Result<DerivedImage, AssembleError> {
    let base_config = parse_config(base.manifest, base.config, platform)?;
    let built = read_config(built).map_err(AssembleError::Document)?;
    let mut diff_ids = diff_ids(&base_config).ok_or(DeriveError::Field("rootfs.diff_ids"))?;
    check_base(&diff_ids, &built)?;
    diff_ids.extend(new.iter().map(|layer| json!(layer.diff_id)));

    let mut reset = Vec::new();
    let mut inner = sealed_inner(&built, edit, &mut reset)?;
    add_volumes(&mut inner, &base_config);
    let mut history = match base_config.get("history") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(entries)) => entries.clone(),
        Some(_) => return Err(DeriveError::Field("history").into()),
    };
    history.extend(
        new.iter().map(|layer| json!({ "created": edit.created, "created_by": layer.created_by })),
    );
    let mut config: Map<String, Value> = PLATFORM
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), base_config.get(*key)?.clone())))
        .filter(|(_, value)| !is_blank(value))
        .collect();
    config.insert("config".to_owned(), Value::Object(inner));
    config.insert("created".to_owned(), json!(edit.created));
    config.insert("history".to_owned(), json!(history));
    config.insert("rootfs".to_owned(), json!({ "type": "layers", "diff_ids": diff_ids }));
    let config = sorted(config);

    let below = base.manifest.layers.iter().map(oci_layer);
    let layers = below.chain(new.iter().map(|layer| Ok(descriptor(layer))));
    let layers = layers.collect::<Result<Vec<_>, DeriveError>>()?;
    Ok(finished(base.manifest, config, layers, edit, &edit.labels, reset))
}

/// Returns an image with some of its layers replaced. `new` has an element for each layer, lowest
/// first; `None` keeps the layer. Of the edit, only the labels are applied. Nothing else changes,
/// except that the manifest becomes an OCI manifest.
///
/// # Errors
/// Fails if the image is damaged or not for the platform.
pub fn replace_layers(
    base: Base<'_>,
    platform: &Platform,
    new: &[Option<NewLayer>],
    edit: &ImageEdit,
) -> Result<DerivedImage, DeriveError> {
    let mut config = parse_config(base.manifest, base.config, platform)?;
    let mut diff_ids = diff_ids(&config).ok_or(DeriveError::Field("rootfs.diff_ids"))?;
    let mut layers = base.manifest.layers.iter().map(oci_layer).collect::<Result<Vec<_>, _>>()?;
    for ((diff_id, layer), replacement) in diff_ids.iter_mut().zip(&mut layers).zip(new) {
        if let Some(replacement) = replacement {
            *diff_id = json!(replacement.diff_id);
            *layer = descriptor(replacement);
        }
    }
    config.insert("rootfs".to_owned(), json!({ "type": "layers", "diff_ids": diff_ids }));
    let mut reset = Vec::new();
    let inner = config.entry("config").or_insert_with(|| json!({}));
    if inner.is_null() {
        *inner = json!({});
    }
    let inner = inner.as_object_mut().ok_or(DeriveError::Field("config"))?;
    edit_labels(inner, edit, &edit.labels, &mut reset)?;
    Ok(finished(base.manifest, config, layers, edit, &edit.labels, reset))
}

/// Returns an image with another layer on top, and a history entry for it. Nothing else changes,
/// except that the manifest becomes an OCI manifest.
///
/// # Errors
/// Fails if the image is damaged or not for the platform.
pub fn add_layer(
    base: Base<'_>,
    platform: &Platform,
    new: &NewLayer,
    created: &str,
) -> Result<DerivedImage, DeriveError> {
    let mut config = parse_config(base.manifest, base.config, platform)?;
    let mut diff_ids = diff_ids(&config).ok_or(DeriveError::Field("rootfs.diff_ids"))?;
    diff_ids.push(json!(new.diff_id));
    config.insert("rootfs".to_owned(), json!({ "type": "layers", "diff_ids": diff_ids }));
    let entry = json!({ "created": created, "created_by": new.created_by });
    match config.entry("history").or_insert_with(|| json!([])) {
        Value::Array(history) => history.push(entry),
        null @ Value::Null => *null = json!([entry]),
        _ => return Err(DeriveError::Field("history")),
    }
    let below = base.manifest.layers.iter().map(oci_layer);
    let layers = below.chain([Ok(descriptor(new))]).collect::<Result<Vec<_>, _>>()?;
    Ok(finished(base.manifest, config, layers, &ImageEdit::default(), &BTreeMap::new(), Vec::new()))
}

/// Returns the `rootfs.diff_ids` of a config.
fn diff_ids(config: &Map<String, Value>) -> Option<Vec<Value>> {
    config.get("rootfs")?.get("diff_ids")?.as_array().cloned()
}

/// Checks that the lowest layers of a built image are those of the base.
fn check_base(base: &[Value], built: &Map<String, Value>) -> Result<(), AssembleError> {
    let found = diff_ids(built).ok_or(AssembleError::Field("rootfs.diff_ids"))?;
    let text = |id: Option<&Value>| id.and_then(Value::as_str).unwrap_or("none").to_owned();
    let differs = |at: &usize| found.get(*at) != base.get(*at);
    match (0..base.len()).find(differs) {
        None => Ok(()),
        Some(at) => Err(AssembleError::NotOnBase {
            layer: at + 1,
            found: text(found.get(at)),
            wanted: text(base.get(at)),
        }),
    }
}

/// Returns the parts of the built image's `config` that are kept, with the edit applied.
fn sealed_inner(
    built: &Map<String, Value>,
    edit: &ImageEdit,
    reset: &mut Vec<String>,
) -> Result<Map<String, Value>, AssembleError> {
    let built = match built.get("config") {
        None | Some(Value::Null) => None,
        Some(Value::Object(inner)) => Some(inner),
        Some(_) => return Err(AssembleError::Field("config")),
    };
    let kept = built.into_iter().flatten().filter(|(key, _)| KEPT.contains(&key.as_str()));
    let mut inner: Map<String, Value> =
        kept.map(|(key, value)| (key.clone(), value.clone())).collect();
    if let Some(Value::Object(labels)) = inner.get_mut("Labels") {
        labels.retain(|key, _| !ENGINE_LABELS.contains(&key.as_str()));
    }
    if let Some(Value::Object(ports)) = inner.get_mut("ExposedPorts") {
        *ports = std::mem::take(ports)
            .into_iter()
            .flat_map(|(port, value)| {
                single_ports(&port).into_iter().map(move |port| (port, value.clone()))
            })
            .collect();
    }
    edit_env(&mut inner, edit)?;
    edit_entrypoint(&mut inner, edit)?;
    edit_labels(&mut inner, edit, &edit.labels, reset)?;
    // This comes last, because the edit and the list above may have left empty values.
    inner.retain(|_, value| !is_blank(value));
    Ok(inner)
}

/// Adds the base's volumes. Engines build on a base without volumes, because they differ in how
/// they treat files that a `RUN` writes to a volume.
fn add_volumes(inner: &mut Map<String, Value>, base: &Map<String, Value>) {
    let volumes = base.get("config").and_then(|config| config.get("Volumes"));
    let Some(Value::Object(volumes)) = volumes else { return };
    match inner.get_mut("Volumes") {
        Some(Value::Object(all)) => all.extend(volumes.clone()),
        _ => drop(inner.insert("Volumes".to_owned(), json!(volumes))),
    }
}

/// Splits a range into single ports: podman keeps `EXPOSE 1-3` unchanged, docker writes three
/// ports.
fn single_ports(text: &str) -> Vec<String> {
    let (ports, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
    match (first.parse::<u16>(), last.parse::<u16>()) {
        (Ok(first), Ok(last)) if first < last => {
            (first..=last).map(|port| format!("{port}/{protocol}")).collect()
        }
        _ => vec![text.to_owned()],
    }
}

/// Returns whether a value is empty: engines write `null`, `""`, `[]`, `{}` or no key at all.
fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(values) => values.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Sorts the keys of all objects.
fn sorted(values: Map<String, Value>) -> Map<String, Value> {
    let values: BTreeMap<String, Value> =
        values.into_iter().map(|(key, value)| (key, with_sorted_keys(value))).collect();
    values.into_iter().collect()
}

fn with_sorted_keys(value: Value) -> Value {
    match value {
        Value::Object(values) => Value::Object(sorted(values)),
        Value::Array(values) => Value::Array(values.into_iter().map(with_sorted_keys).collect()),
        other => other,
    }
}

fn descriptor(layer: &NewLayer) -> Descriptor {
    Descriptor {
        media_type: OCI_LAYER_GZIP.to_owned(),
        digest: layer.digest.clone(),
        size: layer.size,
        json: json!({ "mediaType": OCI_LAYER_GZIP, "digest": layer.digest, "size": layer.size }),
    }
}
