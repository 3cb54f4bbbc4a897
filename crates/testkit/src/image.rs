//! Images with random content, which depends only on the seed.

use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

use flate2::Compression;
use flate2::write::GzEncoder;
use names::Digest;
use serde_json::{Value, json};

use crate::http::exchange;

/// The media types of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// Docker's, version 2 schema 2.
    Docker,
    /// The OCI image specification's.
    Oci,
}

/// The image to create.
#[derive(Debug, Clone)]
pub struct RandomImage {
    /// The seed for all random content.
    pub seed: u64,
    /// Tars for the lowest layers, such as the result of [`busybox_root`](crate::busybox_root()).
    pub below: Vec<Vec<u8>>,
    /// The sizes of the files in the layers above, in bytes; the layers are a little larger.
    pub layers: Vec<usize>,
    /// Its media types.
    pub flavour: Flavour,
    /// Whether its tag names an index, with an attestation next to the image.
    pub is_index: bool,
    /// Whether its config has a history.
    pub has_history: bool,
    /// The architecture in its config and its index.
    pub architecture: &'static str,
    /// The media type of its config, if it is not the usual one: then it is no image, but another
    /// artifact.
    pub config_type: Option<&'static str>,
}

/// A blob in a registry.
#[derive(Debug, Clone)]
pub struct PushedBlob {
    /// Its digest.
    pub digest: Digest,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// An image in a registry.
#[derive(Debug, Clone)]
pub struct PushedImage {
    /// `host/path`.
    pub repository: String,
    /// The tag.
    pub tag: String,
    /// The digest that the tag points to: the digest of the index, or of the manifest if there is
    /// no index.
    pub digest: Digest,
    /// The media type of that object.
    pub media_type: String,
    /// The manifest.
    pub manifest: PushedBlob,
    /// The config.
    pub config: PushedBlob,
    /// The layers, lowest first.
    pub layers: Vec<PushedBlob>,
}

impl Flavour {
    fn types(self) -> [&'static str; 4] {
        match self {
            Self::Docker => [
                "application/vnd.docker.distribution.manifest.list.v2+json",
                "application/vnd.docker.distribution.manifest.v2+json",
                "application/vnd.docker.container.image.v1+json",
                "application/vnd.docker.image.rootfs.diff.tar.gzip",
            ],
            Self::Oci => [
                "application/vnd.oci.image.index.v1+json",
                "application/vnd.oci.image.manifest.v1+json",
                "application/vnd.oci.image.config.v1+json",
                "application/vnd.oci.image.layer.v1.tar+gzip",
            ],
        }
    }
}

impl RandomImage {
    /// Returns the description of an OCI image with two small layers.
    pub fn new(seed: u64) -> Self {
        let (below, layers) = (Vec::new(), vec![3000, 5000]);
        Self {
            seed,
            below,
            layers,
            flavour: Flavour::Oci,
            is_index: false,
            has_history: true,
            architecture: "amd64",
            config_type: None,
        }
    }

    /// Creates the image and pushes it to `path`:`tag` in the registry at `host`, over plain http.
    ///
    /// # Panics
    /// Panics if the registry does not accept it.
    pub fn push(&self, host: &str, path: &str, tag: &str) -> PushedImage {
        let [index_type, manifest_type, config_type, layer_type] = self.flavour.types();
        let (mut layers, mut diff_ids) = (Vec::new(), Vec::new());
        let noise = self
            .layers
            .iter()
            .enumerate()
            .map(|(number, size)| layer(self.seed.wrapping_mul(1000) + number as u64, *size));
        for tar in self.below.iter().cloned().chain(noise) {
            diff_ids.push(Digest::of(&tar).to_string());
            let mut gzip = GzEncoder::new(Vec::new(), Compression::none());
            gzip.write_all(&tar).expect("memory takes it");
            layers.push(push_blob(host, path, gzip.finish().expect("memory takes it")));
        }
        let mut config = json!({
            "architecture": self.architecture,
            "os": "linux",
            "created": "2026-01-01T00:00:00Z",
            "config": {"Env": ["PATH=/usr/bin"], "Labels": {"seed": self.seed.to_string()}},
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
            "history": layers.iter().map(|_| json!({"created_by": "noise"})).collect::<Vec<_>>(),
        });
        if !self.has_history {
            config.as_object_mut().expect("it is an object").remove("history");
        }
        let config = push_blob(host, path, config.to_string().into_bytes());
        let document = json!({
            "schemaVersion": 2,
            "mediaType": manifest_type,
            "config": descriptor(self.config_type.unwrap_or(config_type), &config),
            "layers": layers.iter().map(|l| descriptor(layer_type, l)).collect::<Vec<_>>(),
        });
        let bytes = document.to_string().into_bytes();
        let manifest = PushedBlob { digest: Digest::of(&bytes), bytes };
        let mut image = PushedImage {
            repository: format!("{host}/{path}"),
            tag: tag.to_owned(),
            digest: manifest.digest.clone(),
            media_type: manifest_type.to_owned(),
            manifest,
            config,
            layers,
        };
        if self.is_index {
            push_manifest(host, path, image.digest.as_str(), manifest_type, &image.manifest.bytes);
            let index = image.index(host, path, index_type, self.architecture);
            (image.digest, image.media_type) = (Digest::of(&index), index_type.to_owned());
            push_manifest(host, path, tag, index_type, &index);
        } else {
            push_manifest(host, path, tag, manifest_type, &image.manifest.bytes);
        }
        image
    }
}

impl PushedImage {
    /// Creates an index of this image and an attestation for it, like an index from BuildKit.
    fn index(&self, host: &str, path: &str, index_type: &str, architecture: &str) -> Vec<u8> {
        let statement = push_blob(host, path, br#"{"_type":"statement"}"#.to_vec());
        let document = json!({
            "schemaVersion": 2,
            "mediaType": self.media_type,
            "config": descriptor(Flavour::Oci.types()[2], &self.config),
            "layers": [descriptor("application/vnd.in-toto+json", &statement)],
        });
        let bytes = document.to_string().into_bytes();
        let attestation = PushedBlob { digest: Digest::of(&bytes), bytes };
        let digest = attestation.digest.as_str();
        push_manifest(host, path, digest, &self.media_type, &attestation.bytes);
        let mut image = descriptor(&self.media_type, &self.manifest);
        image["platform"] = json!({"architecture": architecture, "os": "linux"});
        let mut beside = descriptor(&self.media_type, &attestation);
        beside["annotations"] = json!({
            "vnd.docker.reference.digest": self.manifest.digest.as_str(),
            "vnd.docker.reference.type": "attestation-manifest",
        });
        beside["platform"] = json!({"architecture": "unknown", "os": "unknown"});
        let index = json!({
            "schemaVersion": 2, "mediaType": index_type, "manifests": [image, beside],
        });
        index.to_string().into_bytes()
    }
}

fn descriptor(media_type: &str, blob: &PushedBlob) -> Value {
    json!({"mediaType": media_type, "digest": blob.digest.as_str(), "size": blob.bytes.len()})
}

/// Returns a tar with one file of random content.
fn layer(seed: u64, size: usize) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    header.set_size(size as u64);
    header.set_mode(0o644);
    header.set_cksum();
    let mut tar = tar::Builder::new(Vec::new());
    let noise = noise(seed, size);
    tar.append_data(&mut header, format!("noise-{seed}"), &noise[..]).expect("memory takes it");
    tar.into_inner().expect("memory takes it")
}

/// Returns random bytes from splitmix64.
fn noise(seed: u64, size: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)).to_le_bytes()
    };
    let mut bytes: Vec<u8> = (0..size.div_ceil(8)).flat_map(|_| next()).collect();
    bytes.truncate(size);
    bytes
}

/// Pushes a blob, unless the repository already has it. If a blob is uploaded twice,
/// docker-registry rewrites a file that another request may be reading.
fn push_blob(host: &str, path: &str, bytes: Vec<u8>) -> PushedBlob {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let digest = Digest::of(&bytes);
    let target = format!("/v2/{path}/blobs/{digest}");
    let (status, ..) = exchange(host, "HEAD", &target, &[], b"").expect("the registry answers");
    if status == 200 {
        return PushedBlob { digest, bytes };
    }
    let uploads = format!("/v2/{path}/blobs/uploads/");
    let (post_status, head, _) =
        exchange(host, "POST", &uploads, &[], b"").expect("the registry answers");
    assert_eq!(post_status, 202, "POST {uploads}");
    let location = head.get("location").expect("an upload has a location");
    let location = location.strip_prefix(&format!("http://{host}")).unwrap_or(location);
    let joint = if location.contains('?') { '&' } else { '?' };
    let upload = format!("{location}{joint}digest={digest}");
    let (put_status, ..) =
        exchange(host, "PUT", &upload, &[], &bytes).expect("the registry answers");
    assert_eq!(put_status, 201, "PUT {upload}");
    PushedBlob { digest, bytes }
}

fn push_manifest(host: &str, path: &str, reference: &str, media_type: &str, bytes: &[u8]) {
    let target = format!("/v2/{path}/manifests/{reference}");
    let headers = [("Content-Type", media_type)];
    let answer = exchange(host, "PUT", &target, &headers, bytes).expect("the registry answers");
    assert_eq!(answer.0, 201, "PUT {target}: {}", String::from_utf8_lossy(&answer.2));
}
