//! The base as engines get it: in docker's format, and without volumes.
//!
//! - The OCI format has no place for `HEALTHCHECK`, `SHELL` and `ONBUILD`: podman does not read them
//!   from an OCI image, docker does. In docker's format, both do.
//! - What a `RUN` writes to a volume is dropped by podman and docker's classic builder, and kept by
//!   BuildKit. Without volumes all keep it; sealing takes them from the base.
//! - Where the `HEALTHCHECK` of a Dockerfile leaves out an option, docker's classic builder takes that
//!   of the base; podman and BuildKit take the default. So a base whose health check is replaced is
//!   offered without it.

use bytes::Bytes;
use names::Digest;
use oci::media::{DOCKER_CONFIG, DOCKER_MANIFEST, Document};
use serde_json::{Value, json};

use super::store::Made;
use crate::ExecuteError;

/// What of a config the OCI format has no place for.
const DOCKER_ONLY: [&str; 3] = ["Healthcheck", "OnBuild", "Shell"];

/// What an engine must know of a base before it builds on it.
pub(crate) struct Offered {
    /// The base, to be offered.
    pub(crate) made: Made,
    /// The words of its `SHELL`.
    pub(crate) shell: Option<Vec<String>>,
    /// Whether its `USER` is not root.
    pub(crate) has_user: bool,
}

impl Offered {
    /// Returns the base as engines get it; without its health check, if that is replaced.
    ///
    /// # Errors
    /// Its config cannot be read, or docker's format has no place for its layers and OCI's none for
    /// its config.
    pub(crate) fn new(base: &Made, has_health_check: bool) -> Result<Self, ExecuteError> {
        let bad = || ExecuteError::plan("the config of a base cannot be read".to_owned());
        let mut config: Value = serde_json::from_slice(&base.config).map_err(|_| bad())?;
        let inner = config.get_mut("config").and_then(Value::as_object_mut);
        let is_changed = inner.is_some_and(|inner| {
            let check = has_health_check.then(|| inner.shift_remove("Healthcheck")).flatten();
            inner.shift_remove("Volumes").is_some() || check.is_some()
        });
        let bytes = match is_changed {
            true => Bytes::from(config.to_string()),
            false => base.config.clone(),
        };
        let inner = |key: &str| config.get("config").and_then(|inner| inner.get(key));
        let shell = inner("Shell").cloned().and_then(|shell| serde_json::from_value(shell).ok());
        let user = inner("User").and_then(Value::as_str).unwrap_or_default();
        let has_user = !["", "0", "root"].contains(&user.split(':').next().unwrap_or_default());
        let layers = base.manifest.layers.iter().map(|layer| {
            let mut json = layer.json.clone();
            json["mediaType"] = json!(docker_layer(&layer.media_type)?);
            Some(json)
        });
        let Some(layers) = layers.collect::<Option<Vec<Value>>>() else {
            let is_set = |key: &&&str| inner(key).is_some_and(|value| !value.is_null());
            return match DOCKER_ONLY.iter().find(is_set) {
                Some(key) => Err(ExecuteError::docker_format(key)),
                None => Ok(Self { made: with_config(base, bytes, None)?, shell, has_user }),
            };
        };
        Ok(Self { made: with_config(base, bytes, Some(layers))?, shell, has_user })
    }
}

/// Returns an image with another config, in docker's format where its layers are given.
fn with_config(
    base: &Made,
    config: Bytes,
    docker_layers: Option<Vec<Value>>,
) -> Result<Made, ExecuteError> {
    let mut json = base.manifest.json.clone();
    json["config"]["digest"] = json!(Digest::of(&config));
    json["config"]["size"] = json!(config.len());
    if let Some(layers) = docker_layers {
        json = json!({
            "schemaVersion": 2,
            "mediaType": DOCKER_MANIFEST,
            "config": json["config"],
            "layers": layers,
        });
        json["config"]["mediaType"] = json!(DOCKER_CONFIG);
    }
    let manifest_bytes = Bytes::from(json.to_string());
    match Document::parse(&manifest_bytes, None) {
        Ok(Document::Manifest(manifest)) => {
            Ok(Made { manifest, manifest_bytes, config, remote: base.remote.clone() })
        }
        _ => Err(ExecuteError::plan("the manifest of a base cannot be written".to_owned())),
    }
}

/// Returns docker's name for the media type of a layer, if it has one.
fn docker_layer(media_type: &str) -> Option<&str> {
    match media_type {
        "application/vnd.oci.image.layer.v1.tar" => {
            Some("application/vnd.docker.image.rootfs.diff.tar")
        }
        "application/vnd.oci.image.layer.v1.tar+gzip" => {
            Some("application/vnd.docker.image.rootfs.diff.tar.gzip")
        }
        docker if docker.starts_with("application/vnd.docker.image.rootfs.") => Some(docker),
        _ => None,
    }
}
