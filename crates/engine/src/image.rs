//! Images in an engine.

use std::collections::BTreeMap;

use serde_json::Value;

/// An engine's ID for an image: the digest of the config on podman and on docker's own store, or
/// the digest of the manifest on docker with containerd's store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageId(String);

impl ImageId {
    /// Parses an ID of 64 hexadecimal digits, with or without `sha256:` in front.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.trim().strip_prefix("sha256:").unwrap_or_else(|| text.trim());
        let is_id = hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        is_id.then(|| Self(format!("sha256:{hex}")))
    }

    /// Returns it as `sha256:…`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for ImageId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The result of an image inspect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspect {
    /// The image.
    pub id: ImageId,
    /// Its names, as `name:tag`.
    pub tags: Vec<String>,
    /// The names under which it was pulled or pushed, as `name@digest`.
    pub digests: Vec<String>,
    /// The `diff_id`s of its layers, lowest first.
    pub diff_ids: Vec<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its architecture, such as `amd64`.
    pub architecture: String,
    /// Its size in the engine's store in bytes, including shared layers.
    pub size: u64,
    /// The engine's complete response.
    pub raw: Value,
}

impl Inspect {
    /// Parses the response of `GET /images/{name}/json`.
    pub(crate) fn read(raw: Value) -> Option<Self> {
        let texts = |pointer: &str| {
            let items = raw.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
            items.filter_map(|item| item.as_str().map(str::to_owned)).collect::<Vec<_>>()
        };
        let labels = raw.pointer("/Config/Labels").and_then(Value::as_object);
        let labels = labels.into_iter().flatten();
        Some(Self {
            id: ImageId::parse(raw.get("Id")?.as_str()?)?,
            tags: texts("/RepoTags"),
            digests: texts("/RepoDigests"),
            diff_ids: texts("/RootFS/Layers"),
            labels: labels
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect(),
            architecture: raw.get("Architecture")?.as_str()?.to_owned(),
            size: raw.get("Size").and_then(Value::as_u64).unwrap_or_default(),
            raw,
        })
    }
}
