//! Images, plans and a build environment for tests that need no engine.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::RunId;
use names::Digest;
use oci::client::{ClientSettings, RegistryClient, Retries};
use oci::media::Descriptor;
use plan::{Action, DeriveContract, Draft, ImageEdit, Input, Plan, Platform, Seal, SealContract};
use serde_json::{Value, json};
use sources::Sources;

use crate::build_env::{StoredImage, parse_manifest};
use crate::{BlobCache, BuildEnv, Lookup, Materials, Settings, SharedStores, Store, Tools};

pub(crate) const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
pub(crate) const EPOCH: u64 = 1_577_836_800;

/// Returns a tar with these files and folders. The name of a folder ends with a slash.
pub(crate) fn tar_of(files: &[(&str, &str)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, text) in files {
        let mut header = tar::Header::new_ustar();
        let is_folder = name.ends_with('/');
        let kind = if is_folder { tar::EntryType::Directory } else { tar::EntryType::Regular };
        header.set_entry_type(kind);
        header.set_mode(if is_folder { 0o755 } else { 0o644 });
        header.set_size(text.len() as u64);
        tar.append_data(&mut header, name, text.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap()
}

fn json_of(media_type: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": Digest::of(bytes), "size": bytes.len() })
}

/// Returns the descriptor of a layer with this size, whose digest is that of `name`.
pub(crate) fn layer(name: &str, size: u64) -> Descriptor {
    let digest = Digest::of(name.as_bytes());
    let json = json!({ "mediaType": LAYER, "digest": digest, "size": size });
    Descriptor { media_type: LAYER.to_owned(), digest, size, json }
}

/// Returns a config with these container settings and uncompressed layers.
pub(crate) fn config(inner: &Value, tars: &[&[u8]]) -> Value {
    let diff_ids: Vec<Digest> = tars.iter().map(|tar| Digest::of(tar)).collect();
    let history = vec![json!({ "created_by": "a test" }); tars.len()];
    json!({
        "architecture": "amd64", "os": "linux", "config": inner, "history": history,
        "rootfs": { "type": "layers", "diff_ids": diff_ids },
    })
}

/// Returns the image with a config and layers of this type.
pub(crate) fn image_of(config: &Value, media_type: &str, layers: &[&[u8]]) -> StoredImage {
    let config = Bytes::from(config.to_string());
    let layers: Vec<Value> = layers.iter().map(|layer| json_of(media_type, layer)).collect();
    let manifest = json!({
        "schemaVersion": 2, "mediaType": oci::media::OCI_MANIFEST,
        "config": json_of(oci::media::OCI_CONFIG, &config), "layers": layers,
    });
    let manifest_bytes = Bytes::from(manifest.to_string());
    let manifest = parse_manifest(&manifest_bytes).unwrap();
    StoredImage { manifest, manifest_bytes, config, remote: None, origin: None }
}

/// Returns the image with these tars as layers.
pub(crate) fn image(tars: &[&[u8]]) -> StoredImage {
    image_of(&config(&json!({ "Env": ["PATH=/bin"] }), tars), LAYER, tars)
}

/// Stores a blob.
pub(crate) fn keep(store: &Store, bytes: &[u8]) {
    let mut file = store.begin().unwrap();
    std::io::Write::write_all(&mut file, bytes).unwrap();
    store.keep(file, &Digest::of(bytes)).unwrap();
}

/// Returns a client that gives up within milliseconds.
pub(crate) fn client() -> RegistryClient {
    let retries = Retries {
        tries: 2,
        first_wait: Duration::from_millis(1),
        max_retry_after: Duration::from_millis(10),
    };
    RegistryClient::new(ClientSettings { retries, ..ClientSettings::default() })
}

/// Returns an environment whose store is in `folder`.
pub(crate) fn build_env(folder: &Path) -> BuildEnv {
    BuildEnv {
        index: Lookup::new(|| None),
        mirrors: Lookup::new(debian::Mirrors::default),
        run: RunId::parse("test").unwrap(),
        sources: Sources::new(sources::Settings::new(folder.join("sources"))),
        tools: Tools::new("/usr/bin:/bin".as_ref()),
        materials: Arc::new(Materials::default()),
        store: Store::new(folder.join("store")),
        shared: SharedStores::new(client(), Vec::new(), "a test".to_owned()),
        threads: NonZeroUsize::MIN,
        is_fresh: false,
        keeps_failed: false,
        bake: None,
        names: tokio::sync::Mutex::default(),
    }
}

/// Returns settings without outputs.
pub(crate) fn settings(build_env: Option<BuildEnv>) -> Settings {
    Settings {
        client: client(),
        cache: BlobCache::none(),
        verified: oci::Verified::none(),
        nearby: Vec::new(),
        outputs: Vec::new(),
        last_step: None,
        build_env: build_env.map(Arc::new),
    }
}

/// Returns a plan that builds `Dockerfile` on a base, and seals and labels the image.
pub(crate) fn built_plan(network: bool) -> Plan {
    let text = str::to_owned;
    let edit = ImageEdit {
        created: text("2020-01-01T00:00:00Z"),
        created_by: text("a test"),
        ..ImageEdit::default()
    };
    let build = Action::BuildImage {
        base: text("fetch-base"),
        dockerfile: text("Dockerfile"),
        args: BTreeMap::new(),
        context: BTreeMap::new(),
        files: plan::OwnFiles::new(),
        network,
    };
    let seal = Seal { contract: SealContract::Seal1, scrub: Vec::new(), epoch: EPOCH };
    let (image, base) = (text("build"), text("fetch-base"));
    let seal = Action::SealImage { image, base, seal, edit: edit.clone() };
    let contract = DeriveContract::Derive1;
    let label = Action::DeriveImage { base: text("seal"), contract, edit };
    let platform = Platform::linux_amd64();
    let fetch = Action::FetchBase { input: text("base"), platform };
    let base = format!("registry.invalid/base@{}", Digest::of(b"base"));
    let base = Input::Image { reference: base.parse().unwrap(), manifest: None };
    let file = Input::File { digest: Digest::of(b"FROM scratch\n") };
    let steps = [("fetch-base", fetch), ("build", build), ("seal", seal), ("label", label)];
    let draft = Draft {
        schema: plan::SCHEMA,
        track: text("mine"),
        name: text("mine"),
        gpu: "gfx1151".parse().unwrap(),
        rehearsal: false,
        source_date_epoch: EPOCH,
        revision: None,
        overrides: BTreeMap::new(),
        inputs: [(text("base"), base), (text("Dockerfile"), file)].into(),
        steps: steps.map(|(id, action)| plan::Step { id: text(id), action }).into(),
    };
    draft.finish().unwrap()
}
