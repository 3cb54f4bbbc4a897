//! Engines, bases and contexts for the tests.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use bytes::Bytes;
use engine::{
    BASE_LABEL, BASE_VALUE, BuildEvent, BuildRequest, Built, ByteStream, DockerBuilder, Engine,
    EngineError, Network, RunId,
};
use names::{Digest, ImageRef, Tag};
use oci::loopback::LoopbackRegistry;
use testkit::{Dockerd, PodmanStore, busybox_root};

use crate::settings::settings;

/// The time limit for single operations, long enough for a loaded machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);

/// The time limit for operations that take less than 5 s on an idle machine. It detects events that
/// never happen, not slow machines; an orphan would sleep for much longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// Waits until `is_so`, for at most `limit`, and returns how long it took.
pub(crate) async fn within(limit: Duration, what: &str, is_so: impl Fn() -> bool) -> Duration {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < limit, "{what}: not within {limit:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    begin.elapsed()
}

/// The daemon that all tests in this binary share.
pub(crate) fn dockerd() -> &'static Dockerd {
    static SHARED: OnceLock<Dockerd> = OnceLock::new();
    SHARED.get_or_init(Dockerd::start)
}

pub(crate) fn podman(store: &PodmanStore) -> Engine {
    Engine::podman(settings(store))
}

pub(crate) fn docker(builder: DockerBuilder) -> Engine {
    Engine::docker_at(dockerd().socket(), builder)
}

pub(crate) fn run_id(text: &str) -> RunId {
    RunId::parse(text).unwrap()
}

/// A busybox base on one of this tool's registries.
pub(crate) struct Base {
    pub(crate) registry: LoopbackRegistry,
    pub(crate) name: ImageRef,
    /// The digest and size of the layer in the registry.
    pub(crate) layer: (Digest, u64),
    /// The digest and size of the uncompressed layer.
    pub(crate) diff: (Digest, u64),
}

impl Base {
    pub(crate) async fn serve() -> Self {
        Self::serve_with(&serde_json::json!({})).await
    }

    /// Serves a base with the label that the tool gives to its bases.
    pub(crate) async fn serve_ours() -> Self {
        Self::serve_with(&serde_json::json!({ BASE_LABEL: BASE_VALUE })).await
    }

    async fn serve_with(labels: &serde_json::Value) -> Self {
        use std::io::Write as _;
        let registry = LoopbackRegistry::start().await.unwrap();
        let tar = busybox_root();
        let diff = (Digest::of(&tar), tar.len() as u64);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&tar).unwrap();
        let layer = Bytes::from(gzip.finish().unwrap());
        let layer_size = layer.len() as u64;
        let layer_digest = registry.add_blob(layer);
        let config = serde_json::json!({
            "architecture": "amd64", "os": "linux",
            "config": { "Env": ["PATH=/bin"], "Labels": labels },
            // podman also counts the layers in the history.
            "history": [{ "created_by": "busybox" }],
            "rootfs": { "type": "layers", "diff_ids": [diff.0] },
        });
        let config = Bytes::from(config.to_string());
        let config_size = config.len();
        let config_digest = registry.add_blob(config);
        let manifest = serde_json::json!({
            "schemaVersion": 2,
            "mediaType": oci::media::OCI_MANIFEST,
            "config": {
                "mediaType": oci::media::OCI_CONFIG, "digest": config_digest, "size": config_size,
            },
            "layers": [{
                "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip",
                "digest": layer_digest, "size": layer_size,
            }],
        });
        let manifest = Bytes::from(manifest.to_string());
        let tag: Tag = "1".parse().unwrap();
        let digest =
            registry.add_manifest("base/busybox", Some(&tag), oci::media::OCI_MANIFEST, manifest);
        let name = format!("{}/base/busybox@{digest}", registry.host()).parse().unwrap();
        Self { registry, name, layer: (layer_digest, layer_size), diff }
    }

    /// Makes sure that the engine has the base.
    pub(crate) async fn give_to(&self, engine: &Engine) {
        let inspect = engine.pull(&self.name, true, LIMIT).await.unwrap();
        assert_eq!(inspect.diff_ids, [self.diff.0.as_str()]);
    }
}

/// Returns a context that contains a Dockerfile and further files. Those below `bin` are
/// executable.
pub(crate) fn context(dockerfile: &str, files: &[(&str, &[u8])]) -> ByteStream {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, bytes) in [("Dockerfile", dockerfile.as_bytes())].iter().chain(files) {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(if name.starts_with("bin/") { 0o755 } else { 0o644 });
        tar.append_data(&mut header, name, *bytes).unwrap();
    }
    let bytes = Bytes::from(tar.into_inner().unwrap());
    let pieces: Vec<_> = bytes.chunks(64 << 10).map(|piece| Ok(bytes.slice_ref(piece))).collect();
    Box::pin(futures_util::stream::iter(pieces))
}

pub(crate) fn request(run: &str, dockerfile: &str) -> BuildRequest {
    BuildRequest {
        run: run_id(run),
        dockerfile: "Dockerfile".to_owned(),
        dockerfile_text: dockerfile.to_owned(),
        target: None,
        build_args: BTreeMap::new(),
        labels: BTreeMap::new(),
        network: Network::None,
        use_cache: false,
        idle_limit: LIMIT,
    }
}

/// Builds an image, and returns it with the events.
pub(crate) async fn build(
    engine: &Engine,
    request: &BuildRequest,
    files: &[(&str, &[u8])],
) -> (Result<Built, EngineError>, Vec<BuildEvent>) {
    let mut events = Vec::new();
    let context = context(&request.dockerfile_text, files);
    let built = engine.build(request, context, &mut |event| events.push(event)).await;
    (built, events)
}

pub(crate) fn lines(events: &[BuildEvent]) -> Vec<&str> {
    let lines = events.iter().filter_map(|event| match event {
        BuildEvent::Line(line) => Some(line.text.as_str()),
        BuildEvent::Step(_) => None,
    });
    lines.collect()
}
