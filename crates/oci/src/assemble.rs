//! Assembles an image of a pinned base and sealed layers: the JSON half of the contract `seal/1`.
//!
//! Engines write configs that name themselves, the host and the time. What is kept of theirs is
//! what a Dockerfile says; all else comes from the pinned base and the plan, so that equal builds
//! have equal image IDs whichever engine ran them:
//!
//! - `config` keeps the keys of [`KEPT`] (OCI image-spec, config.md), sorted, without empty values.
//!   Labels that engines set about themselves go; the edit's environment, entrypoint and labels come
//!   as in `derive/1`.
//!   Volumes are the base's and the built image's; a range of exposed ports becomes single ports.
//! - `created` is the edit's. `history` is the base's and one entry per layer. `rootfs` is the base's
//!   and the new layers. Platform keys are the base's. All keys are sorted.
//! - The manifest has the base's layers as the pinned manifest names them, never as an engine does,
//!   and the new ones as gzip; media types and annotations are as in `derive/1`.

use std::collections::BTreeMap;

use names::Digest;
use plan::{ImageEdit, Platform};
use serde_json::{Map, Value, json};

use crate::derive::{
    DeriveError, DerivedImage, edit_entrypoint, edit_env, edit_labels, finished, oci_layer,
    parse_config,
};
use crate::document::{DocumentError, read_config};
use crate::media::{Descriptor, Manifest};

/// What of a built image's `config` says something about the image.
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
/// Keys of the base's config that name its platform.
const PLATFORM: [&str; 5] = ["architecture", "os", "os.features", "os.version", "variant"];
/// Labels that an engine sets about itself (buildah's version).
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
    /// What the history says of it.
    pub created_by: String,
}

/// Why an image cannot be assembled.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// The base cannot be built on.
    #[error(transparent)]
    Base(#[from] DeriveError),
    /// The built config is not a JSON object, or readers do not agree on what it says.
    #[error("the built image's config cannot be read")]
    Document(#[source] DocumentError),
    /// A part of the built config has the wrong type.
    #[error("the built image's config has no valid `{0}`")]
    Field(&'static str),
    /// The built image's lowest layers are others than the base's.
    #[error(
        "the built image does not stand on the pinned base: its layer {layer} is `{found}`, not `{wanted}`; build again from nothing"
    )]
    NotOnBase {
        /// Which layer, counted from 1.
        layer: usize,
        /// The built image's, or `none`.
        found: String,
        /// The base's.
        wanted: String,
    },
}

/// Makes the image of a base and sealed layers, lowest first. `built` is the config that the engine
/// wrote.
///
/// # Errors
/// The base is not for the platform or damaged, or the built image does not stand on it.
pub fn assemble(
    (base, base_config): (&Manifest, &[u8]),
    platform: &Platform,
    built: &[u8],
    new: &[NewLayer],
    edit: &ImageEdit,
) -> Result<DerivedImage, AssembleError> {
    let base_config = parse_config(base, base_config, platform)?;
    let built = read_config(built).map_err(AssembleError::Document)?;
    let mut diff_ids = diff_ids(&base_config).ok_or(DeriveError::Field("rootfs.diff_ids"))?;
    stands_on(&diff_ids, &built)?;
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

    let below = base.layers.iter().map(oci_layer);
    let layers = below.chain(new.iter().map(|layer| Ok(descriptor(layer))));
    let layers = layers.collect::<Result<Vec<_>, DeriveError>>()?;
    Ok(finished(base, config, layers, edit, &edit.labels, reset))
}

/// Returns the layers that a config names.
fn diff_ids(config: &Map<String, Value>) -> Option<Vec<Value>> {
    config.get("rootfs")?.get("diff_ids")?.as_array().cloned()
}

/// Checks that a built image has the base's layers below its own.
fn stands_on(base: &[Value], built: &Map<String, Value>) -> Result<(), AssembleError> {
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

/// Returns what is kept of the built image's `config`, with the edit.
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
    // Only now: what an edit or the list above emptied is not there either.
    inner.retain(|_, value| !is_blank(value));
    Ok(inner)
}

/// Adds the volumes of the base. Engines build on a base without them, because they do not agree
/// what becomes of files that a `RUN` writes there.
fn add_volumes(inner: &mut Map<String, Value>, base: &Map<String, Value>) {
    let volumes = base.get("config").and_then(|config| config.get("Volumes"));
    let Some(Value::Object(volumes)) = volumes else { return };
    match inner.get_mut("Volumes") {
        Some(Value::Object(all)) => all.extend(volumes.clone()),
        _ => drop(inner.insert("Volumes".to_owned(), json!(volumes))),
    }
}

/// Returns the single ports of a range: podman keeps `EXPOSE 1-3` as it is, docker has three ports.
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

/// Returns whether a value says nothing: engines write `null`, `""`, `[]`, `{}` or no key at all.
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
