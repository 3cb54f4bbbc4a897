//! Small stand-in bases for a rehearsal. They have the structure of the real ones in a few
//! kilobytes, and are generated when needed.
//!
//! A stand-in depends only on the repository that it replaces, on the kind of its manifest, and on
//! the files that the caller adds. Its layers are gzip without compression, so that its digest does
//! not depend on the version of a compressor.

use std::io::Write as _;

use bytes::Bytes;
use names::{Digest, ManifestKind, Repository};
use serde_json::{Value, json};

use crate::loopback::LoopbackRegistry;
use crate::media::{DOCKER_CONFIG, DOCKER_MANIFEST, OCI_CONFIG, OCI_INDEX, OCI_MANIFEST};

/// The documents and blobs of a stand-in.
#[derive(Debug, Clone)]
pub struct StandIn {
    repository: Repository,
    /// The digest for the plan: that of the index, or of the manifest if there is no index.
    pub digest: Digest,
    /// Whether the digest is that of an index or of a manifest.
    pub kind: ManifestKind,
    manifests: Vec<(&'static str, Bytes)>,
    blobs: Vec<Bytes>,
}

impl StandIn {
    /// Makes the stand-in for an image in `repository`, as an index or as a bare docker manifest.
    /// `more` is the content of one more layer, as paths and bytes. If it is empty, there is no
    /// such layer.
    pub fn new(repository: &Repository, kind: ManifestKind, more: &[(String, Vec<u8>)]) -> Self {
        let name = repository.to_string();
        let text = |path: &str, text: String| tar_of(&[(path.to_owned(), text.into_bytes())]);
        let mut layers = vec![
            text("etc/os-release", "ID=ubuntu\nVERSION_ID=\"24.04\"\n".to_owned()),
            text("opt/stand-in", format!("stands in for {name}\n")),
            text("opt/rocm/.info/version", "0.0.0-rehearsal\n".to_owned()),
        ];
        if !more.is_empty() {
            layers.push(tar_of(more));
        }
        let diff_ids: Vec<_> = layers.iter().map(|tar| Digest::of(tar)).collect();
        let blobs: Vec<_> = layers.iter().map(|tar| gzip_stored(tar)).collect();
        let config = Bytes::from(config_of(&diff_ids).to_string());
        let docker = kind == ManifestKind::Manifest;
        let manifest_type = if docker { DOCKER_MANIFEST } else { OCI_MANIFEST };
        let layer_type = if docker {
            "application/vnd.docker.image.rootfs.diff.tar.gzip"
        } else {
            "application/vnd.oci.image.layer.v1.tar+gzip"
        };
        let descriptors: Vec<_> = blobs.iter().map(|blob| descriptor(layer_type, blob)).collect();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": manifest_type,
            "config": descriptor(if docker { DOCKER_CONFIG } else { OCI_CONFIG }, &config),
            "layers": descriptors,
        });
        let manifest = Bytes::from(manifest.to_string());
        let mut manifests = vec![(manifest_type, manifest.clone())];
        if !docker {
            manifests.push((OCI_INDEX, index_of(&manifest)));
        }
        let digest = manifests
            .last()
            .map(|(_, bytes)| Digest::of(bytes))
            .unwrap_or_else(|| Digest::of(&manifest));
        let blobs = blobs.into_iter().chain([config]).collect();
        Self { repository: repository.clone(), digest, kind, manifests, blobs }
    }

    /// Returns the repository that the stand-in replaces.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Adds the stand-in to a registry, under the repository path of the real image.
    pub fn serve_from(&self, registry: &LoopbackRegistry) {
        for blob in &self.blobs {
            registry.add_blob(blob.clone());
        }
        for (media_type, bytes) in &self.manifests {
            registry.add_manifest(self.repository.path(), None, media_type, bytes.clone());
        }
    }
}

/// Returns a config like those of the vendor's images: an environment, a command, and labels
/// inherited from Ubuntu that would be wrong for any derived image.
fn config_of(diff_ids: &[Digest]) -> Value {
    let created = "2025-01-01T00:00:00Z";
    let entry = |text: &str, empty: bool| json!({ "created": created, "created_by": text, "empty_layer": empty });
    let mut history = vec![
        entry("ADD rootfs", false),
        entry("COPY marker", false),
        entry("ENV ROCM_PATH=/opt/rocm", true),
        entry("RUN install ROCm", false),
    ];
    if diff_ids.len() > 3 {
        history.push(entry("RUN install kernels", false));
    }
    json!({
        "architecture": "amd64",
        "os": "linux",
        "created": created,
        "config": {
            "Env": [
                "PATH=/opt/rocm/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "ROCM_PATH=/opt/rocm",
                "PYTORCH_ROCM_ARCH=gfx90a;gfx942;gfx1100;gfx1101",
            ],
            "Entrypoint": null,
            "Cmd": ["/bin/bash"],
            "WorkingDir": "/",
            "Labels": {
                "org.opencontainers.image.ref.name": "ubuntu",
                "org.opencontainers.image.version": "24.04",
                "maintainer": "the vendor",
                "com.example.kept": "a label that says nothing about the image itself",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": diff_ids },
        "history": history,
    })
}

/// Returns an index with the image, an image for another architecture and an attestation, like
/// vendors' indexes.
fn index_of(manifest: &Bytes) -> Bytes {
    let with_platform = |digest: Value, size: usize, os: &str, architecture: &str| {
        json!({
            "mediaType": OCI_MANIFEST, "digest": digest, "size": size,
            "platform": { "architecture": architecture, "os": os },
        })
    };
    let index = json!({
        "schemaVersion": 2,
        "mediaType": OCI_INDEX,
        "manifests": [
            with_platform(json!(Digest::of(b"an image for another processor")), 1, "linux", "arm64"),
            with_platform(json!(Digest::of(manifest)), manifest.len(), "linux", "amd64"),
            with_platform(json!(Digest::of(b"an attestation")), 1, "unknown", "unknown"),
        ],
    });
    Bytes::from(index.to_string())
}

fn descriptor(media_type: &str, bytes: &Bytes) -> Value {
    json!({ "mediaType": media_type, "digest": Digest::of(bytes), "size": bytes.len() })
}

/// Returns a tar with files. It does not depend on the machine.
fn tar_of(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        let added = archive.append_data(&mut header, path, &content[..]);
        added.expect("a short path and bytes in memory");
    }
    archive.into_inner().expect("bytes in memory")
}

/// Returns the bytes as a gzip member of stored blocks.
fn gzip_stored(bytes: &[u8]) -> Bytes {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    gzip.write_all(bytes).expect("bytes in memory");
    Bytes::from(gzip.finish().expect("bytes in memory"))
}
