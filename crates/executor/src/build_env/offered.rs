//! The base as engines receive it: in docker's format, if that supports the layers, and without
//! volumes.
//!
//! - The OCI format cannot represent `HEALTHCHECK`, `SHELL` and `ONBUILD`: podman does not read
//!   them from an OCI image, but docker does. In docker's format, both read them.
//! - podman and docker's classic builder drop what a `RUN` writes to a volume; BuildKit keeps it.
//!   Without volumes, all of them keep it. Sealing restores the volumes from the base.
//! - If the `HEALTHCHECK` of a Dockerfile omits an option, docker's classic builder uses the value
//!   of the base; podman and BuildKit use the default. So if the health check is replaced, the base
//!   is offered without one.
//! - podman refuses a base whose history does not list all of its layers. So each missing layer
//!   gets an entry.

use bytes::Bytes;
use names::Digest;
use oci::media::{DOCKER_CONFIG, DOCKER_MANIFEST, Document};
use serde_json::{Value, json};

use super::store::StoredImage;
use crate::ExecuteError;

/// The parts of a config that the OCI format cannot represent.
const DOCKER_ONLY: [&str; 3] = ["Healthcheck", "OnBuild", "Shell"];

/// The base that an engine builds on, and its settings that affect the build.
pub(crate) struct Offered {
    /// The base to offer.
    pub(crate) made: StoredImage,
    /// The words of its `SHELL`.
    pub(crate) shell: Option<Vec<String>>,
    /// Whether its `USER` is not root.
    pub(crate) has_user: bool,
}

impl Offered {
    /// Returns the base as engines receive it. Its health check is removed if `has_health_check`,
    /// which means that the Dockerfile has its own.
    ///
    /// # Errors
    /// Fails if the config cannot be read, if its layers need OCI's format while its config needs
    /// docker's, or if an `ONBUILD` of the base takes something from outside of the build.
    pub(crate) fn new(base: &StoredImage, has_health_check: bool) -> Result<Self, ExecuteError> {
        let bad = || ExecuteError::plan("cannot read the config of a base".to_owned());
        let mut config: Value = serde_json::from_slice(&base.config).map_err(|_| bad())?;
        let history = history(&config).ok_or_else(bad)?;
        let has_history = config.get("history") == Some(&history);
        config["history"] = history;
        let is_edited =
            config.get_mut("config").and_then(Value::as_object_mut).is_some_and(|inner| {
                let check = has_health_check.then(|| inner.shift_remove("Healthcheck")).flatten();
                inner.shift_remove("Volumes").is_some() || check.is_some()
            });
        let is_same = has_history && !is_edited;
        let bytes = if is_same { base.config.clone() } else { Bytes::from(config.to_string()) };
        let setting = |key: &str| config["config"].get(key);
        let shell = setting("Shell").cloned().and_then(|shell| serde_json::from_value(shell).ok());
        let triggers = setting("OnBuild").and_then(Value::as_array).into_iter().flatten();
        let triggers: Vec<&str> = triggers.filter_map(Value::as_str).collect();
        engine::check_triggers(&triggers).map_err(|error| ExecuteError::triggers(&error))?;
        let user = setting("User").and_then(Value::as_str).unwrap_or_default();
        let has_user = !["", "0", "root"].contains(&user.split(':').next().unwrap_or_default());
        let layers = base.manifest.layers.iter().map(|layer| {
            let mut json = layer.json.clone();
            json["mediaType"] = json!(docker_layer(&layer.media_type)?);
            Some(json)
        });
        let Some(layers) = layers.collect::<Option<Vec<Value>>>() else {
            let is_set = |key: &&&str| setting(key).is_some_and(|value| !value.is_null());
            return match DOCKER_ONLY.iter().find(is_set) {
                Some(key) => Err(ExecuteError::docker_format(key)),
                None => Ok(Self { made: with_config(base, bytes, None)?, shell, has_user }),
            };
        };
        Ok(Self { made: with_config(base, bytes, Some(layers))?, shell, has_user })
    }
}

/// Returns an image with its config replaced, in docker's format if `docker_layers` is given.
fn with_config(
    base: &StoredImage,
    config: Bytes,
    docker_layers: Option<Vec<Value>>,
) -> Result<StoredImage, ExecuteError> {
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
            let remote = base.remote.clone();
            Ok(StoredImage { manifest, manifest_bytes, config, remote, origin: None })
        }
        _ => Err(ExecuteError::plan("cannot write the manifest of a base".to_owned())),
    }
}

/// Returns docker's media type for a layer, if there is one.
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

/// Returns the history of a config, with an entry for each layer; `None` if it is not a list. The
/// history is optional (image specification, "Image configuration"), and some tools write none.
fn history(config: &Value) -> Option<Value> {
    let known = match config.get("history") {
        None | Some(Value::Null) => &[][..],
        Some(known) => known.as_array()?,
    };
    let layers = config.pointer("/rootfs/diff_ids").and_then(Value::as_array).map_or(0, Vec::len);
    let has_layer = |entry: &&Value| entry.get("empty_layer") != Some(&Value::Bool(true));
    let missing = layers.saturating_sub(known.iter().filter(has_layer).count());
    let unknown = std::iter::repeat_n(json!({ "comment": "not recorded" }), missing);
    Some(unknown.chain(known.iter().cloned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::support::{LAYER, config, image_of};

    #[test]
    fn every_layer_has_an_entry_in_the_history() {
        let (unknown, own) = (json!({ "comment": "not recorded" }), json!({ "created_by": "a" }));
        let empty = json!({ "created_by": "b", "empty_layer": true });
        for (layers, given, all) in [
            (0, Value::Null, json!([])),
            (2, Value::Null, json!([unknown, unknown])),
            (1, json!([own]), json!([own])),
            (1, json!([own, empty]), json!([own, empty])),
            (2, json!([own, empty]), json!([unknown, own, empty])),
            (1, json!([own, own]), json!([own, own])),
        ] {
            let config = json!({ "rootfs": { "diff_ids": vec!["x"; layers] }, "history": given });
            assert_eq!(history(&config), Some(all), "{config}");
        }
        assert_eq!(history(&json!({})), Some(json!([])));
        assert_eq!(history(&json!({ "history": "long" })), None);
    }

    /// Returns the config and the manifest of an offered base.
    fn offered(inner: &Value, media_type: &str, has_health_check: bool) -> (Offered, Value, Value) {
        let base = image_of(&config(inner, &[b"tar"]), media_type, &[b"tar"]);
        let offered = Offered::new(&base, has_health_check).unwrap();
        let config = serde_json::from_slice(&offered.made.config).unwrap();
        let manifest: Value = serde_json::from_slice(&offered.made.manifest_bytes).unwrap();
        assert_eq!(manifest["config"]["digest"], json!(Digest::of(&offered.made.config)));
        assert_eq!(manifest["config"]["size"], json!(offered.made.config.len()));
        (offered, config, manifest)
    }

    #[test]
    fn volumes_and_a_replaced_health_check_are_not_offered() {
        let inner = json!({
            "Healthcheck": { "Test": ["NONE"] }, "Volumes": { "/data": {} }, "Env": ["A=1"],
        });
        let (_, config, _) = offered(&inner, LAYER, false);
        assert_eq!(
            config["config"],
            json!({ "Healthcheck": { "Test": ["NONE"] }, "Env": ["A=1"] })
        );
        let (_, config, _) = offered(&inner, LAYER, true);
        assert_eq!(config["config"], json!({ "Env": ["A=1"] }));
        // Nothing else changes: the bytes stay the same.
        let text = config_with_spaces();
        let mut base = image_of(&json!({}), LAYER, &[b"tar"]);
        base.config = Bytes::from(text.clone());
        assert_eq!(Offered::new(&base, true).unwrap().made.config, text);
    }

    fn config_with_spaces() -> String {
        let config = config(&json!({ "Env": ["A=1"] }), &[b"tar"]);
        serde_json::to_string_pretty(&config).unwrap()
    }

    #[test]
    fn the_user_and_the_shell_of_a_base_are_found() {
        for (user, has_user) in [
            (json!(null), false),
            (json!(""), false),
            (json!("0"), false),
            (json!("root"), false),
            (json!("root:staff"), false),
            (json!("0:5"), false),
            (json!("5"), true),
            (json!("rooty:0"), true),
        ] {
            let (offered, ..) = offered(&json!({ "User": user }), LAYER, false);
            assert_eq!(offered.has_user, has_user, "{user}");
            assert_eq!(offered.shell, None);
        }
        let (offered, ..) = offered(&json!({ "Shell": ["sh", "-e"] }), LAYER, false);
        assert_eq!(offered.shell, Some(vec!["sh".to_owned(), "-e".to_owned()]));
    }

    #[test]
    fn a_base_is_offered_in_dockers_format_if_it_has_one_for_its_layers() {
        let docker = "application/vnd.docker.image.rootfs.diff.tar";
        for (found, wanted) in [
            (LAYER.to_owned(), docker.to_owned()),
            (format!("{LAYER}+gzip"), format!("{docker}.gzip")),
            (format!("{docker}.gzip"), format!("{docker}.gzip")),
        ] {
            let (_, _, manifest) = offered(&json!({}), &found, false);
            assert_eq!(manifest["layers"][0]["mediaType"], json!(wanted));
            assert_eq!(manifest["mediaType"], json!(DOCKER_MANIFEST));
            assert_eq!(manifest["config"]["mediaType"], json!(DOCKER_CONFIG));
        }
        let zstd = format!("{LAYER}+zstd");
        let (_, _, manifest) = offered(&json!({ "Shell": null }), &zstd, false);
        assert_eq!(manifest["mediaType"], json!(oci::media::OCI_MANIFEST));
        for key in DOCKER_ONLY {
            let base = image_of(&config(&json!({ key: ["x"] }), &[b"tar"]), &zstd, &[b"tar"]);
            let error = Offered::new(&base, false).err().unwrap();
            assert_eq!(error.kind(), crate::ErrorKind::Base);
            assert!(error.to_string().contains(&format!("podman would ignore `{key}`")), "{error}");
        }
    }
}
