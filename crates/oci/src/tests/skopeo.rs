//! The real `skopeo` as an independent reader and writer of everything that this crate serves and
//! writes.

use std::fs;
use std::path::Path;
use std::process::Command;

use names::{Digest, ManifestKind, Platform};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

use super::archive;
use super::loopback::Server;
use super::support::edit;
use crate::DerivedImage;
use crate::layout::{self, blob_path, parse_manifest};
use crate::media::{DOCKER_MANIFEST, OCI_MANIFEST};
use crate::stand_in::StandIn;

/// Runs `skopeo` without this user's configuration, and returns its output.
fn skopeo(arguments: &[&str]) -> String {
    let home = tempdir().unwrap();
    let output = Command::new("skopeo")
        .args(["--insecure-policy", "--override-os", "linux", "--override-arch", "amd64"])
        .args(arguments)
        .env("HOME", home.path())
        .env("XDG_RUNTIME_DIR", home.path())
        .env("REGISTRY_AUTH_FILE", home.path().join("none.json"))
        .output()
        .expect("skopeo is missing: apt-get install skopeo");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "skopeo {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn inspect(image: &str) -> Value {
    let text = skopeo(&["inspect", "--tls-verify=false", image]);
    serde_json::from_str(&text).unwrap()
}

fn copy(from: &str, to: &str) {
    let tls = ["--src-tls-verify=false", "--dest-tls-verify=false"];
    skopeo(&[&["copy", "--preserve-digests"], &tls[..], &[from, to]].concat());
}

/// A registry that serves one stand-in.
struct Served {
    server: Server,
    stand_in: StandIn,
    folder: TempDir,
}

impl Served {
    fn new(kind: ManifestKind) -> Self {
        let repository = "docker.io/rocm/vllm-dev".parse().unwrap();
        let (server, stand_in) = (Server::start(), StandIn::new(&repository, kind, &[]));
        stand_in.serve_from(&server.registry);
        Self { server, stand_in, folder: tempdir().unwrap() }
    }

    /// Returns skopeo's name for the repository at `path` on this registry.
    fn docker(&self, path: &str) -> String {
        format!("docker://{}/{path}", self.server.registry.host())
    }

    fn source(&self) -> String {
        self.docker(&format!("rocm/vllm-dev@{}", self.stand_in.digest))
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn fetch(&self, target: &str) -> Vec<u8> {
        let answer = self.server.ask("GET", &format!("/v2/rocm/vllm-dev/{target}"));
        assert_eq!(answer.status, 200, "{target}");
        answer.body
    }

    /// Returns the bytes of the stand-in's manifest for the platform.
    fn manifest(&self) -> Vec<u8> {
        let bytes = self.fetch(&format!("manifests/{}", self.stand_in.digest));
        match crate::media::Document::parse(&bytes, None).unwrap() {
            crate::media::Document::Manifest(_) => bytes,
            crate::media::Document::Index(index) => {
                let chosen = &index.choose(&Platform::linux_amd64()).unwrap().digest;
                self.fetch(&format!("manifests/{chosen}"))
            }
        }
    }

    /// Returns an image derived from the stand-in, and the bytes of its layers.
    fn derived(&self) -> (DerivedImage, Vec<Vec<u8>>) {
        let base = parse_manifest(&self.manifest()).unwrap();
        let config = self.fetch(&format!("blobs/{}", base.config.digest));
        let edit = edit();
        let platform = Platform::linux_amd64();
        let image = crate::derive(&base, &config, &platform, &edit, &edit.labels).unwrap();
        let layers = image.layers.iter().map(|l| self.fetch(&format!("blobs/{}", l.digest)));
        let layers = layers.collect();
        (image, layers)
    }

    /// Returns a layout of the derived image, optionally with its layers.
    fn layout(&self, name: &str, with_layers: bool) -> (String, DerivedImage) {
        let (image, layers) = self.derived();
        let path = self.folder.path().join(name);
        layout::write(&path, &image, "locked-spoof").unwrap();
        if with_layers {
            for bytes in layers {
                fs::write(blob_path(&path, &Digest::of(&bytes)), bytes).unwrap();
            }
        }
        (format!("oci:{}:locked-spoof", path.display()), image)
    }
}

fn names_of(layers: &[crate::media::Descriptor]) -> Vec<String> {
    layers.iter().map(|layer| layer.digest.to_string()).collect()
}

/// Checks skopeo's output for a derived image.
fn check_inspected(found: &Value, image: &DerivedImage) {
    assert_eq!(found["Digest"], image.manifest_digest.to_string());
    assert_eq!(found["Created"], "2027-01-15T08:00:00Z");
    assert_eq!((&found["Os"], &found["Architecture"]), (&"linux".into(), &"amd64".into()));
    assert_eq!(found["Layers"], serde_json::json!(names_of(&image.layers)));
    let labels = found["Labels"].as_object().unwrap();
    for (key, value) in edit().labels {
        assert_eq!(labels[&key], value);
    }
    assert_eq!(labels["com.example.kept"], "a label that says nothing about the image itself");
    assert_eq!(labels.get("maintainer"), None);
    let env = found["Env"].as_array().unwrap();
    assert!(env.contains(&"SET=by the edit".into()), "{env:?}");
}

#[test]
fn skopeo_reads_a_stand_in_and_writes_it_back() {
    for kind in [ManifestKind::Index, ManifestKind::Manifest] {
        let served = Served::new(kind);
        let found = inspect(&served.source());
        assert_eq!(found["Name"], format!("{}/rocm/vllm-dev", served.server.registry.host()));
        assert_eq!(found["Labels"]["maintainer"], "the vendor");
        assert_eq!(found["Layers"].as_array().unwrap().len(), 3);

        // To a folder, and from there into another repository, which is still empty.
        let folder = served.path("copied");
        let (form, media_type) = match kind {
            ManifestKind::Index => ("oci", OCI_MANIFEST),
            ManifestKind::Manifest => ("dir", DOCKER_MANIFEST),
        };
        let folder = match form {
            "oci" => format!("oci:{folder}:name"),
            _ => format!("dir:{folder}"),
        };
        copy(&served.source(), &folder);
        let empty = Server::start();
        copy(&folder, &format!("docker://{}/pushed/here:tag", empty.registry.host()));
        let pushed = empty.ask("GET", "/v2/pushed/here/manifests/tag");
        assert_eq!(pushed.status, 200);
        assert_eq!(pushed.body, served.manifest());
        assert_eq!(pushed.headers["content-type"], media_type);
        let found = inspect(&format!("docker://{}/pushed/here:tag", empty.registry.host()));
        assert_eq!(found["RepoTags"], serde_json::json!(["tag"]));
        for layer in found["Layers"].as_array().unwrap() {
            let digest: Digest = layer.as_str().unwrap().parse().unwrap();
            let blob = empty.ask("GET", &format!("/v2/pushed/here/blobs/{digest}"));
            assert_eq!(Digest::of(&blob.body), digest);
        }
    }
}

#[test]
fn skopeo_reads_a_thin_layout() {
    for kind in [ManifestKind::Index, ManifestKind::Manifest] {
        let served = Served::new(kind);
        let (name, image) = served.layout("thin", false);
        check_inspected(&inspect(&name), &image);
        let raw = skopeo(&["inspect", "--raw", &name]);
        assert_eq!(Digest::of(raw.as_bytes()), image.manifest_digest);
        let config = skopeo(&["inspect", "--raw", "--config", &name]);
        assert_eq!(Digest::of(config.as_bytes()), image.config_digest);
    }
}

#[test]
fn skopeo_pushes_a_full_layout_and_the_digest_stays() {
    for kind in [ManifestKind::Index, ManifestKind::Manifest] {
        let served = Served::new(kind);
        let (name, image) = served.layout("full", true);
        let empty = Server::start();
        let target = format!("docker://{}/made/image:tag", empty.registry.host());
        copy(&name, &target);
        check_inspected(&inspect(&target), &image);
        let pushed = empty.ask("GET", "/v2/made/image/manifests/tag");
        assert_eq!(pushed.body, image.manifest);
        // … and back out of it: this crate reads what skopeo writes.
        let back = served.path("back");
        copy(&target, &format!("oci:{back}:other-name"));
        let read = crate::LayoutImage::read(Path::new(&back)).unwrap();
        assert_eq!(read.name.as_deref(), Some("other-name"));
        assert_eq!(read.manifest_digest, image.manifest_digest);
        assert_eq!(read.present_layers.len(), 3);
        // The name in the layout is different, but the annotations show that this tool made the
        // image, so it may be replaced.
        layout::check_target(Path::new(&back), "locked-spoof").unwrap();
    }
}

#[test]
fn an_image_of_somebody_else_is_not_replaced() {
    let served = Served::new(ManifestKind::Index);
    let path = served.path("theirs");
    copy(&served.source(), &format!("oci:{path}:theirs"));
    let error = layout::check_target(Path::new(&path), "locked-spoof").unwrap_err();
    assert!(error.to_string().contains("contains the image `theirs`"), "{error}");
}

#[test]
fn skopeo_reads_an_archive_and_we_read_its_archives() {
    let served = Served::new(ManifestKind::Manifest);
    let (image, layers) = served.derived();
    let path = served.folder.path().join("image.tar");
    archive::write_archive_of(&path, &image, &layers).unwrap();
    let name = format!("oci-archive:{}:locked-spoof", path.display());
    check_inspected(&inspect(&name), &image);
    let empty = Server::start();
    let target = format!("docker://{}/made/image:tag", empty.registry.host());
    copy(&name, &target);
    assert_eq!(empty.ask("GET", "/v2/made/image/manifests/tag").body, image.manifest);

    let theirs = served.path("theirs.tar");
    copy(&target, &format!("oci-archive:{theirs}:name"));
    let read = crate::LayoutImage::read(Path::new(&theirs)).unwrap();
    assert_eq!(read.manifest_digest, image.manifest_digest);
    assert_eq!((read.name.as_deref(), read.present_layers.len()), (Some("name"), 3));
}

/// Writes a layout of an image with this text inside `config`, and returns what skopeo reads there.
fn layout_with(folder: &Path, inner: &str) -> Value {
    let base = super::support::Base::oci();
    let mut manifest = base.manifest.clone();
    let mut config = base.config.clone();
    config["config"] = "HERE".into();
    let config = config.to_string().replace("\"HERE\"", &format!("{{{inner}}}"));
    manifest["config"]["digest"] = Digest::of(config.as_bytes()).to_string().into();
    manifest["config"]["size"] = config.len().into();
    let manifest = manifest.to_string();
    super::support::put_layers(folder, &base);
    for blob in [&config, &manifest] {
        fs::write(blob_path(folder, &Digest::of(blob.as_bytes())), blob).unwrap();
    }
    let entry = serde_json::json!({
        "mediaType": OCI_MANIFEST,
        "digest": Digest::of(manifest.as_bytes()),
        "size": manifest.len(),
        "annotations": { "org.opencontainers.image.ref.name": "it" },
    });
    let index = serde_json::json!({ "schemaVersion": 2, "manifests": [entry] });
    fs::write(folder.join("index.json"), index.to_string()).unwrap();
    fs::write(folder.join("oci-layout"), layout::MARKER).unwrap();
    let read = skopeo(&["inspect", "--config", &format!("oci:{}:it", folder.display())]);
    serde_json::from_str(&read).unwrap()
}

#[test]
fn skopeo_reads_something_else_where_a_config_is_refused() {
    let refused = [
        (r#""Env":["A=1"],"env":["A=2"]"#, "Env"),
        (r#""Env":["A=1"],"Env":["A=2"]"#, "Env"),
        (r#""env":["A=2"]"#, "Env"),
        ("\"label\u{17f}\":{\"a\":\"1\"}", "Labels"),
        (r#""Entrypoint":[],"ENTRYPOINT":["/other"]"#, "Entrypoint"),
    ];
    for (inner, key) in refused {
        let folder = tempdir().unwrap();
        let theirs = layout_with(folder.path(), inner);
        // Acts like a parser that knows one spelling and takes the first of two keys.
        let first = if inner.contains("A=1") { serde_json::json!(["A=1"]) } else { Value::Null };
        assert_ne!(theirs["config"][key], first, "{inner}: {theirs}");
        assert!(theirs["config"][key].is_array() || theirs["config"][key].is_object(), "{inner}");
        let error = crate::LayoutImage::read(folder.path()).unwrap_err();
        let told = super::layout::chain(&error);
        assert!(told.contains("cannot read the config: key `config."), "{told}");
    }
    let folder = tempdir().unwrap();
    let accepted = r#""Env":["A=1"],"Labels":{"a":"1","A":"2"},"unknown":{"x":1,"X":1.5}"#;
    let theirs = layout_with(folder.path(), accepted);
    assert_eq!(theirs["config"]["Env"], serde_json::json!(["A=1"]));
    assert_eq!(theirs["config"]["Labels"], serde_json::json!({ "a": "1", "A": "2" }));
    crate::LayoutImage::read(folder.path()).unwrap();
}
