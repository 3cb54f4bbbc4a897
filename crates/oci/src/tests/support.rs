//! Fixed bases, and images derived from them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bytes::Bytes;
use names::{Digest, ImageEdit, Platform};
use plan::labels;
use serde_json::{Value, json};

use crate::DerivedImage;
use crate::layout::{self, parse_manifest};
use crate::media::{DOCKER_CONFIG, DOCKER_MANIFEST, Manifest, OCI_CONFIG, OCI_MANIFEST};

/// A base image: real documents, and placeholder layers that match their digests.
#[derive(Debug, Clone)]
pub(crate) struct Base {
    pub(crate) manifest: Value,
    pub(crate) config: Value,
    pub(crate) layers: Vec<Bytes>,
}

/// The layers of every base here. They are never unpacked; one of them is listed twice.
pub(crate) fn layers() -> Vec<Bytes> {
    let second = Bytes::from(b"0123456789abcdef".repeat(700));
    vec![Bytes::from_static(b"the first layer"), second.clone(), second]
}

fn base(types: [&str; 3], config: Value) -> Base {
    let descriptor = |media_type: &str, bytes: &[u8]| json!({ "mediaType": media_type, "size": bytes.len(), "digest": Digest::of(bytes) });
    let layers = layers();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": types[0],
        "config": descriptor(types[1], config.to_string().as_bytes()),
        "layers": layers.iter().map(|layer| descriptor(types[2], layer)).collect::<Vec<_>>(),
    });
    Base { manifest, config, layers }
}

fn diff_ids() -> Value {
    json!({ "type": "layers", "diff_ids": layers().iter().map(|l| Digest::of(l)).collect::<Vec<_>>() })
}

impl Base {
    /// Returns a base as docker's builder makes it.
    pub(crate) fn docker() -> Self {
        let config = json!({
            "architecture": "amd64",
            "config": {
                "Hostname": "0123456789ab",
                "Domainname": "",
                "User": "",
                "Env": ["PATH=/usr/bin:/bin", "KEPT=1", "SET=by the base"],
                "Cmd": ["/bin/bash"],
                "Image": "sha256:0123",
                "WorkingDir": "/app",
                "Entrypoint": ["/entry", "--flag"],
                "OnBuild": null,
                "Labels": { "maintainer": "vendor", "com.example.kept": "yes" },
            },
            "container": "0123",
            "container_config": { "Hostname": "0123" },
            "created": "2025-01-01T00:00:00.123456789Z",
            "docker_version": "20.10.7",
            "history": [{ "created": "2025-01-01T00:00:00Z", "created_by": "ADD rootfs" }],
            "os": "linux",
            "rootfs": diff_ids(),
        });
        let layer = "application/vnd.docker.image.rootfs.diff.tar.gzip";
        base([DOCKER_MANIFEST, DOCKER_CONFIG, layer], config)
    }

    /// Returns a base as BuildKit makes it: zstd layers, annotations, keys in a different order.
    pub(crate) fn oci() -> Self {
        let config = json!({
            "os": "linux",
            "created": "2025-01-01T00:00:00Z",
            "rootfs": diff_ids(),
            "config": { "Env": ["PATH=/bin"], "Labels": { "org.opencontainers.image.version": "24.04" } },
            "architecture": "amd64",
            "variant": "v3",
            "history": [],
            "moby.buildkit.x": { "z": 1, "a": [true, null, 1.5, "ü\u{1f300}"] },
        });
        let layer = "application/vnd.oci.image.layer.v1.tar+zstd";
        let mut base = base([OCI_MANIFEST, OCI_CONFIG, layer], config);
        base.manifest["layers"][1]["annotations"] = json!({ "z": "1", "a": "2" });
        base.manifest["annotations"] = json!({
            "org.opencontainers.image.created": "2025-01-01T00:00:00Z",
            "com.example.kept": "yes",
        });
        base
    }

    pub(crate) fn manifest(&self) -> Manifest {
        parse_manifest(self.manifest.to_string().as_bytes()).unwrap()
    }

    pub(crate) fn config_bytes(&self) -> Vec<u8> {
        self.config.to_string().into_bytes()
    }

    pub(crate) fn derive_with(&self, edit: &ImageEdit) -> Result<DerivedImage, crate::DeriveError> {
        let mut labels = edit.labels.clone();
        labels.insert(labels::PLAN_DIGEST.to_owned(), "sha256:plan".to_owned());
        let platform = Platform::linux_amd64();
        crate::derive(&self.manifest(), &self.config_bytes(), &platform, edit, &labels)
    }

    pub(crate) fn derived(&self) -> DerivedImage {
        self.derive_with(&edit()).unwrap()
    }
}

/// Returns an edit with something in every field.
pub(crate) fn edit() -> ImageEdit {
    let text = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    ImageEdit {
        created: "2027-01-15T08:00:00Z".to_owned(),
        created_by: "build-pipeline derive/1: a test".to_owned(),
        env: text(&[("SET", "by the edit"), ("NEW_B", "2"), ("NEW_A", "1=1")]),
        entrypoint_prefix: ["/bin/sh", "-c", "script", "name"].map(str::to_owned).to_vec(),
        reset: labels::RESET.map(str::to_owned).to_vec(),
        labels: text(&[(labels::TRACK, "locked-spoof"), (labels::ARCHITECTURE, "x86_64")]),
        ..ImageEdit::default()
    }
}

/// Returns another image with the same layers.
pub(crate) fn other(base: &Base) -> DerivedImage {
    base.derive_with(&ImageEdit { created: "2028-01-01T00:00:00Z".to_owned(), ..edit() }).unwrap()
}

/// Puts the layers of a base into a layout.
pub(crate) fn put_layers(path: &Path, base: &Base) {
    fs::create_dir_all(path.join("blobs/sha256")).unwrap();
    for layer in &base.layers {
        fs::write(layout::blob_path(path, &Digest::of(layer)), layer).unwrap();
    }
}

/// Returns the content of every file in a folder and its subfolders, by path.
pub(crate) fn tree(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap().path();
            if entry.is_dir() {
                folders.push(entry);
            } else {
                let name = entry.strip_prefix(path).unwrap().display().to_string();
                all.insert(name, fs::read(&entry).unwrap());
            }
        }
    }
    all
}
