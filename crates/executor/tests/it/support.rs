//! A base on a registry behind a proxy that counts requests, a plan that uses it, and a run of that
//! plan.

use std::collections::BTreeMap;
use std::fs;
use std::future::{Future, pending};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use engine::Engine;
use executor::{BlobCache, Event, Execution, Executor, Job, Output, Settings};
use names::Digest;
use oci::client::{ClientSettings, RegistryClient, Retries};
use oci::loopback::LoopbackRegistry;
use pins::{References, parse_gpus, parse_tracks_with, parse_versions};
use plan::Plan;
use planner::{BuildRequest, PlanningInput};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::FaultProxy;

/// The repository in the base's pin. Its host does not exist (RFC 6761, "invalid").
pub(crate) const REPOSITORY: &str = "registry.invalid/rocm/vllm-dev";
const PATH: &str = "rocm/vllm-dev";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// A base, its registry, and a folder for results.
pub(crate) struct Bench {
    pub(crate) registry: LoopbackRegistry,
    pub(crate) proxy: FaultProxy,
    pub(crate) folder: TempDir,
    /// The digest of the base's manifest.
    pub(crate) base: Digest,
    /// The digests of its distinct layers, sorted.
    pub(crate) layers: Vec<Digest>,
    /// The total size of its distinct layers.
    pub(crate) layer_bytes: u64,
}

/// Returns the layers of the base: one is larger than 4 MiB, and one is listed twice in the
/// manifest.
fn layers() -> Vec<Bytes> {
    let noise = |seed: u32, size: usize| -> Bytes {
        let mut state = seed;
        let bytes = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        bytes.take(size).collect()
    };
    let twice = noise(2, 70_000);
    vec![noise(1, 5 << 20), twice.clone(), noise(3, 100), twice]
}

fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": Digest::of(bytes), "size": bytes.len() })
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::with_layers(layers()).await
    }

    pub(crate) async fn with_layers(layers: Vec<Bytes>) -> Self {
        let registry = LoopbackRegistry::start().await.unwrap();
        let base = put_base(&registry, &layers);
        let distinct: BTreeMap<Digest, u64> =
            layers.iter().map(|layer| (Digest::of(layer), layer.len() as u64)).collect();
        Self {
            proxy: FaultProxy::to(&registry.host()),
            folder: TempDir::new().unwrap(),
            base,
            layer_bytes: distinct.values().sum(),
            layers: distinct.into_keys().collect(),
            registry,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a client that reads the base from the registry, through the proxy.
    pub(crate) fn client(&self) -> RegistryClient {
        client(&format!("registry.invalid={}", self.proxy.host()))
    }

    pub(crate) fn settings(&self, outputs: Vec<Output>) -> Settings {
        let cache = BlobCache::new(self.path("cache"));
        Settings {
            client: self.client(),
            cache,
            verified: oci::Verified::new(self.path("verified")),
            nearby: Vec::new(),
            outputs,
            last_step: None,
            build_env: None,
        }
    }

    pub(crate) fn layout(&self, name: &str, with_layers: bool) -> Output {
        Output::Layout { path: self.path(name), with_layers }
    }

    /// Returns the repository of the base under the registry's own host, so that no mirror is used.
    pub(crate) fn repository(&self) -> String {
        format!("{}/{PATH}", self.proxy.host())
    }

    /// Returns the plan of `locked-spoof` with this base.
    pub(crate) fn plan(&self) -> Plan {
        plan_over(&self.base, None)
    }

    pub(crate) async fn run(&self, outputs: Vec<Output>) -> (Execution, Vec<Event>) {
        run(&self.plan(), &self.settings(outputs), pending()).await
    }

    /// Returns the digests of the layers that were requested.
    pub(crate) fn layers_fetched(&self) -> Vec<Digest> {
        fetched(&self.proxy, &self.layers)
    }
}

/// Returns the blobs that were fetched through a proxy, each as often as it was fetched.
pub(crate) fn fetched(proxy: &FaultProxy, blobs: &[Digest]) -> Vec<Digest> {
    let of = |digest: &Digest| {
        let count = proxy.count("GET", &format!("blobs/{digest}"));
        std::iter::repeat_n(digest.clone(), count)
    };
    blobs.iter().flat_map(of).collect()
}

/// Returns a client that has one mirror and gives up within milliseconds.
pub(crate) fn client(mirror: &str) -> RegistryClient {
    RegistryClient::new(ClientSettings {
        mirrors: vec![mirror.parse().unwrap()],
        retries: Retries {
            tries: 2,
            first_wait: Duration::from_millis(1),
            max_retry_after: Duration::from_millis(10),
        },
        ..ClientSettings::default()
    })
}

/// Puts a base with these layers into a registry, and returns the digest of its manifest.
fn put_base(registry: &LoopbackRegistry, layers: &[Bytes]) -> Digest {
    let config = json!({
        "architecture": "amd64",
        "os": "linux",
        "config": { "Env": ["PATH=/bin"], "Cmd": ["/bin/bash"], "Labels": { "vendor": "x" } },
        "rootfs": { "type": "layers", "diff_ids": layers.iter().map(|l| Digest::of(l)).collect::<Vec<_>>() },
        "history": [],
    });
    let config = Bytes::from(config.to_string());
    let layer_type = "application/vnd.oci.image.layer.v1.tar";
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
        "layers": layers.iter().map(|layer| descriptor(layer_type, layer)).collect::<Vec<_>>(),
    });
    for blob in layers.iter().chain([&config]) {
        registry.add_blob(blob.clone());
    }
    registry.add_manifest(PATH, None, MANIFEST, Bytes::from(manifest.to_string()))
}

/// Puts a manifest or index with any content into the base's repository.
pub(crate) fn put_document(registry: &LoopbackRegistry, media_type: &str, json: &Value) -> Digest {
    registry.add_manifest(PATH, None, media_type, Bytes::from(json.to_string()))
}

/// Puts an index whose entries have these platforms into the base's repository.
pub(crate) fn put_index(bench: &Bench, entries: &[(&Digest, &str)]) -> Digest {
    let entries: Vec<_> = entries
        .iter()
        .map(|(digest, architecture)| {
            let found = bench.registry.manifest(PATH, digest.as_str());
            let size = found.map_or(1, |(_, _, bytes)| bytes.len());
            json!({
                "mediaType": MANIFEST, "digest": digest, "size": size,
                "platform": { "os": "linux", "architecture": architecture },
            })
        })
        .collect();
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": entries });
    put_document(&bench.registry, INDEX, &index)
}

/// Makes the plan of `locked-spoof` with a base, as the command line would.
pub(crate) fn plan_over(base: &Digest, kind: Option<&str>) -> Plan {
    plan_of(REPOSITORY, base, kind)
}

/// Like [`plan_over`], with the base in any repository.
pub(crate) fn plan_of(repository: &str, base: &Digest, kind: Option<&str>) -> Plan {
    let kind = kind.map(|kind| format!("kind = \"{kind}\"\n")).unwrap_or_default();
    let pins = format!(
        "schema = 1\nsource-date-epoch = 1800000000\n\n[image.base]\nrepository = \"{repository}\"\n\
         digest = \"{base}\"\n{kind}"
    );
    let gpus = "schema = 1\n[gfx1151]\nname = \"a\"\nfamily = \"b\"\nspoof = \"11.0.0\"\n";
    let tracks = "schema = 1\ngpu = \"gfx1151\"\n[locked-spoof]\ntitle = \"t\"\n\
                  description = \"d\"\nbase = \"base\"\nspoof = true\n";
    let pins = parse_versions("versions.toml", &pins).unwrap_or_else(|e| panic!("{e}"));
    let gpus = parse_gpus("gpus.toml", gpus).unwrap_or_else(|e| panic!("{e}"));
    let tracks =
        parse_tracks_with("tracks.toml", tracks, References { pins: Some(&pins), tracks: None })
            .unwrap_or_else(|e| panic!("{e}"));
    let input = PlanningInput::new(pins, gpus, tracks);
    planner::plan(&BuildRequest::new("locked-spoof".parse().unwrap()), &input).unwrap().plan
}

/// Executes a plan, and returns the execution and its events.
pub(crate) async fn run(
    plan: &Plan,
    settings: &Settings,
    interrupt: impl Future<Output = ()>,
) -> (Execution, Vec<Event>) {
    run_on(None, plan, settings, interrupt).await
}

/// Executes a plan with an engine, and returns the execution and its events.
pub(crate) async fn run_on(
    engine: Option<Engine>,
    plan: &Plan,
    settings: &Settings,
    interrupt: impl Future<Output = ()>,
) -> (Execution, Vec<Event>) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&events);
    let on_event = Arc::new(move |event| kept.lock().unwrap().push(event));
    let job = Job { plan: Arc::new(plan.clone()), settings: settings.clone(), on_event };
    let executor = Executor::new(engine);
    let execution = executor.execute(job, interrupt).await;
    executor.close().await;
    let events = events.lock().unwrap().clone();
    (execution, events)
}

pub(crate) fn registry_output(host: &str, rest: &str) -> Output {
    Output::Registry { reference: format!("{host}/{rest}").parse().unwrap() }
}

/// Returns the digest that a tag points to on a registry.
pub(crate) async fn tag_of(host: &str, rest: &str) -> Option<Digest> {
    let reference = format!("{host}/{rest}").parse().unwrap();
    client("registry.invalid=127.0.0.1:1").manifest_digest(&reference).await.unwrap()
}

/// Returns the names of all files in a folder and its subfolders.
pub(crate) fn files(path: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let entry = entry.unwrap().path();
            if entry.is_dir() {
                folders.push(entry);
            } else {
                all.push(entry.strip_prefix(path).unwrap().display().to_string());
            }
        }
    }
    all.sort();
    all
}

/// Returns the message of an error and of all its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let source = error.source().map(|source| format!(": {}", chain(source)));
    format!("{error}{}", source.unwrap_or_default())
}
