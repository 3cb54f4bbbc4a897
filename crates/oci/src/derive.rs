//! Derives an image from a base by writing a new config and manifest: the contract `derive/1`.
//!
//! The same base and the same plan give the same bytes, on any machine, as long as the number of
//! the contract does not change. Golden digests in the tests ensure this. `derive/1` does the
//! following:
//!
//! - The config keeps the base's keys and their order. In `config.Env`, the edit's variables
//!   replace existing ones in place, and new ones follow in alphabetical order. If the base sets
//!   such a variable twice, only one remains, because runtimes disagree on which one counts.
//!   `config.Labels` contains the base's labels that the edit does not reset, plus the edit's,
//!   sorted. The edit's entrypoint replaces `config.Entrypoint` and removes `config.Cmd`; its
//!   arguments, user and working directory replace those of the base. The edit's words are put in
//!   front of `config.Entrypoint` unless they are already there. `created` and one empty-layer
//!   history entry contain the edit's time. Keys that describe the container in which the base was
//!   made are dropped.
//! - The manifest is an OCI image manifest, because docker's format has no annotations. Its layer
//!   descriptors are the base's, with the same digests and the OCI names of the same media types.
//!   Its annotations are the base's annotations that the edit does not reset, plus all of the
//!   edit's labels, sorted.
//! - Both are written as JSON without white space.

use std::collections::BTreeMap;

use bytes::Bytes;
use names::{Digest, ImageEdit, Platform};
use serde_json::{Map, Value, json};

use crate::document::{DocumentError, read_config};
use crate::media::{Descriptor, Manifest, OCI_CONFIG, OCI_MANIFEST};

/// A finished image: its manifest and config, and the descriptors of its layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DerivedImage {
    /// The manifest's bytes.
    pub manifest: Bytes,
    /// The manifest's digest, which identifies the image in a registry or layout.
    pub manifest_digest: Digest,
    /// The config's bytes.
    pub config: Bytes,
    /// The config's digest, which is the image ID on podman and in docker's classic store.
    pub config_digest: Digest,
    /// The descriptors of the layers, lowest first.
    pub layers: Vec<Descriptor>,
    /// The base's labels and annotations that were dropped because they would be wrong.
    pub reset: Vec<String>,
}

/// Why an image cannot be derived from a base.
#[derive(Debug, thiserror::Error)]
pub enum DeriveError {
    /// The config is not a JSON object, or parsers disagree on its meaning.
    #[error("cannot read the base's config")]
    Document(#[source] DocumentError),
    /// A part of the config has the wrong type.
    #[error("the base's config has no valid `{0}`")]
    Field(&'static str),
    /// The base is for a different platform.
    #[error("the base is for {found}, not for {wanted}")]
    Platform {
        /// The base's platform.
        found: String,
        /// The requested platform.
        wanted: String,
    },
    /// The config and the manifest do not match.
    #[error("the base's config lists {diff_ids} layers, but its manifest lists {layers}")]
    LayerCount {
        /// The number of layers in the config.
        diff_ids: usize,
        /// The number of layers in the manifest.
        layers: usize,
    },
    /// A layer contains URLs from which other tools would fetch it.
    #[error("the base's layer `{0}` has `urls`: other tools would fetch it from there")]
    LayerUrls(Digest),
    /// A layer has a media type that cannot be reused.
    #[error("the base's layer `{digest}` has media type `{media_type}`, which is not supported")]
    LayerType {
        /// The layer.
        digest: Digest,
        /// Its media type.
        media_type: String,
    },
}

/// Derives an image from a base, with the changes in `edit`. `labels` contains all labels to set.
///
/// # Errors
/// Fails if the base's config is not an image config for `platform` or does not match the base's
/// manifest, or if a layer of the base is not supported.
pub fn derive(
    base: &Manifest,
    base_config: &[u8],
    platform: &Platform,
    edit: &ImageEdit,
    labels: &BTreeMap<String, String>,
) -> Result<DerivedImage, DeriveError> {
    let mut config = parse_config(base, base_config, platform)?;
    let mut reset = Vec::new();
    edit_config(&mut config, edit, labels, &mut reset)?;
    let layers = base.layers.iter().map(oci_layer).collect::<Result<Vec<_>, _>>()?;
    Ok(finished(base, config, layers, edit, labels, reset))
}

/// Serialises a config, and a manifest that lists the config and `layers` and has the edit's
/// annotations.
pub(crate) fn finished(
    base: &Manifest,
    config: Map<String, Value>,
    layers: Vec<Descriptor>,
    edit: &ImageEdit,
    labels: &BTreeMap<String, String>,
    mut reset: Vec<String>,
) -> DerivedImage {
    let config = Bytes::from(Value::Object(config).to_string());
    let config_digest = Digest::of(&config);
    let inherited = base.json.get("annotations").and_then(Value::as_object);
    let annotations = merged(inherited, edit, labels, &mut reset);
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": { "mediaType": OCI_CONFIG, "digest": config_digest, "size": config.len() },
        "layers": layers.iter().map(|layer| &layer.json).collect::<Vec<_>>(),
        "annotations": annotations,
    });
    let manifest = Bytes::from(manifest.to_string());
    reset.sort();
    reset.dedup();
    DerivedImage {
        manifest_digest: Digest::of(&manifest),
        manifest,
        config_digest,
        config,
        layers,
        reset,
    }
}

/// Returns the GPU targets for which the base's PyTorch was built, according to its config
/// (`PYTORCH_ROCM_ARCH`).
///
/// The variable has no effect at run time. The images of AMD and vLLM still have it from their
/// build.
pub fn native_gpus(base_config: &[u8]) -> Vec<String> {
    let value = variable(base_config, "PYTORCH_ROCM_ARCH").unwrap_or_default();
    let targets = value.split([';', ',', ' ']);
    // `gfx942:xnack+` is a variant of `gfx942`.
    targets
        .map(|target| target.split(':').next().unwrap_or_default().trim().to_owned())
        .filter(|t| !t.is_empty())
        .collect()
}

/// Returns the value of a variable in a config. If it is set twice, the last value counts.
pub fn variable(config: &[u8], name: &str) -> Option<String> {
    let config = read_config(config).ok()?;
    let env = config.get("config")?.get("Env")?.as_array()?;
    let values = env.iter().filter_map(|entry| entry.as_str()?.strip_prefix(name));
    values.filter_map(|value| value.strip_prefix('=')).next_back().map(str::to_owned)
}

/// Reads a base's config, and checks that it is for the platform and matches the manifest.
pub(crate) fn parse_config(
    base: &Manifest,
    bytes: &[u8],
    wanted: &Platform,
) -> Result<Map<String, Value>, DeriveError> {
    let config = read_config(bytes).map_err(DeriveError::Document)?;
    let text = |key| config.get(key).and_then(Value::as_str);
    let found = Platform {
        os: text("os").ok_or(DeriveError::Field("os"))?.to_owned(),
        architecture: text("architecture").ok_or(DeriveError::Field("architecture"))?.to_owned(),
    };
    if found != *wanted {
        return Err(DeriveError::Platform { found: found.to_string(), wanted: wanted.to_string() });
    }
    let diff_ids =
        config.get("rootfs").and_then(|rootfs| rootfs.get("diff_ids")).and_then(Value::as_array);
    let diff_ids = diff_ids.ok_or(DeriveError::Field("rootfs.diff_ids"))?.len();
    if diff_ids != base.layers.len() {
        return Err(DeriveError::LayerCount { diff_ids, layers: base.layers.len() });
    }
    Ok(config)
}

/// Applies the edit to a config.
fn edit_config(
    config: &mut Map<String, Value>,
    edit: &ImageEdit,
    labels: &BTreeMap<String, String>,
    reset: &mut Vec<String>,
) -> Result<(), DeriveError> {
    for key in ["container", "container_config", "docker_version"] {
        config.shift_remove(key);
    }
    config.insert("created".to_owned(), json!(edit.created));

    let inner = config.entry("config").or_insert_with(|| json!({}));
    if inner.is_null() {
        *inner = json!({});
    }
    let inner = inner.as_object_mut().ok_or(DeriveError::Field("config"))?;
    for key in ["Hostname", "Domainname", "Image"] {
        inner.shift_remove(key);
    }
    edit_env(inner, edit)?;
    edit_entrypoint(inner, edit)?;
    edit_labels(inner, edit, labels, reset)?;

    let entry =
        json!({ "created": edit.created, "created_by": edit.created_by, "empty_layer": true });
    match config.entry("history").or_insert_with(|| json!([])) {
        Value::Array(history) => history.push(entry),
        null @ Value::Null => *null = json!([entry]),
        _ => return Err(DeriveError::Field("history")),
    }
    Ok(())
}

/// Sets the edit's entrypoint, arguments, user and working directory, and puts its words in front
/// of `Entrypoint` unless they are already there.
pub(crate) fn edit_entrypoint(
    inner: &mut Map<String, Value>,
    edit: &ImageEdit,
) -> Result<(), DeriveError> {
    if let Some(words) = &edit.entrypoint {
        inner.insert("Entrypoint".to_owned(), json!(words));
        inner.shift_remove("Cmd");
    }
    if let Some(words) = &edit.cmd {
        inner.insert("Cmd".to_owned(), json!(words));
    }
    for (key, value) in [("User", &edit.user), ("WorkingDir", &edit.working_dir)] {
        if let Some(value) = value {
            inner.insert(key.to_owned(), json!(value));
        }
    }
    if !edit.entrypoint_prefix.is_empty() {
        let mut entrypoint: Vec<Value> =
            edit.entrypoint_prefix.iter().map(|word| json!(word)).collect();
        match inner.get("Entrypoint") {
            None | Some(Value::Null) => {}
            Some(Value::Array(words)) => {
                let inherited = words.strip_prefix(&entrypoint[..]).unwrap_or(words);
                entrypoint.extend(inherited.iter().cloned());
            }
            Some(_) => return Err(DeriveError::Field("config.Entrypoint")),
        }
        inner.insert("Entrypoint".to_owned(), Value::Array(entrypoint));
    }
    Ok(())
}

/// Drops the labels that the edit resets, and sets the edit's labels.
pub(crate) fn edit_labels(
    inner: &mut Map<String, Value>,
    edit: &ImageEdit,
    labels: &BTreeMap<String, String>,
    reset: &mut Vec<String>,
) -> Result<(), DeriveError> {
    let inherited = match inner.get("Labels") {
        None | Some(Value::Null) => None,
        Some(Value::Object(inherited)) => Some(inherited),
        Some(_) => return Err(DeriveError::Field("config.Labels")),
    };
    let labels = merged(inherited, edit, labels, reset);
    inner.insert("Labels".to_owned(), labels);
    Ok(())
}

/// Sets the edit's variables in `Env`, in place if the base has them.
pub(crate) fn edit_env(
    inner: &mut Map<String, Value>,
    edit: &ImageEdit,
) -> Result<(), DeriveError> {
    let mut env: Vec<String> = match inner.get("Env") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(entries)) => {
            let texts = entries.iter().map(|entry| entry.as_str().map(str::to_owned));
            texts.collect::<Option<_>>().ok_or(DeriveError::Field("config.Env"))?
        }
        Some(_) => return Err(DeriveError::Field("config.Env")),
    };
    for (name, value) in &edit.env {
        let entry = format!("{name}={value}");
        let is_same = |old: &String| old.split('=').next() == Some(name);
        match env.iter().position(is_same) {
            Some(place) => {
                env.retain(|old| !is_same(old));
                env.insert(place, entry);
            }
            None => env.push(entry),
        }
    }
    if !env.is_empty() {
        inner.insert("Env".to_owned(), json!(env));
    }
    Ok(())
}

/// Returns the inherited keys that the edit does not reset, plus the new keys, sorted. New values
/// replace inherited values.
fn merged(
    inherited: Option<&Map<String, Value>>,
    edit: &ImageEdit,
    labels: &BTreeMap<String, String>,
    reset: &mut Vec<String>,
) -> Value {
    let mut all: BTreeMap<&str, Value> = BTreeMap::new();
    for (key, value) in inherited.into_iter().flatten() {
        if edit.resets(key) {
            reset.push(key.clone());
        } else {
            drop(all.insert(key, value.clone()));
        }
    }
    all.extend(labels.iter().map(|(key, value)| (key.as_str(), json!(value))));
    Value::Object(all.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// Returns the descriptor of a base's layer with the OCI name of its media type.
pub(crate) fn oci_layer(layer: &Descriptor) -> Result<Descriptor, DeriveError> {
    let urls = layer.json.get("urls").and_then(Value::as_array);
    if urls.is_some_and(|urls| !urls.is_empty()) {
        return Err(DeriveError::LayerUrls(layer.digest.clone()));
    }
    let media_type = match layer.media_type.as_str() {
        "application/vnd.docker.image.rootfs.diff.tar.gzip" => {
            "application/vnd.oci.image.layer.v1.tar+gzip"
        }
        "application/vnd.docker.image.rootfs.diff.tar.zstd" => {
            "application/vnd.oci.image.layer.v1.tar+zstd"
        }
        "application/vnd.docker.image.rootfs.diff.tar" => "application/vnd.oci.image.layer.v1.tar",
        oci if is_oci_layer(oci) => oci,
        other => {
            return Err(DeriveError::LayerType {
                digest: layer.digest.clone(),
                media_type: other.to_owned(),
            });
        }
    };
    let mut layer = layer.clone();
    media_type.clone_into(&mut layer.media_type);
    layer.json["mediaType"] = json!(media_type);
    Ok(layer)
}

/// Returns whether a media type is that of an OCI layer, with any compression.
fn is_oci_layer(media_type: &str) -> bool {
    media_type
        .strip_prefix("application/vnd.oci.image.layer.v1.tar")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('+'))
}
