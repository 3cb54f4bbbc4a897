//! Measures how fast a built image leaves an engine: a push to the in-process registry, compared
//! with the same engine's push to docker-registry. The two alternate, and both registries already
//! have the base.
//!
//! `cargo bench -p engine --bench push` adds a layer with the first 300 MB of /usr/lib; `-- docker`
//! measures only that engine.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops if something is wrong"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use engine::{BuildRequest, DockerBuilder, Engine, ImageId, Network, RunId};
use names::{Digest, ImageRef};
use oci::loopback::LoopbackRegistry;
use testkit::{DebianRegistry, Dockerd, PodmanStore, PushedImage, RandomImage};

#[path = "../tests/it/settings.rs"]
mod settings;

use settings::settings;

/// How often each push is run.
const ROUNDS: usize = 5;
/// The size of the files in the new layer, in bytes.
const ENOUGH: u64 = 300_000_000;
/// The sizes of the base's layers, in bytes.
const BASE: [usize; 4] = [64 << 20; 4];
/// The repository of the base in each registry.
const PATH: &str = "base/image";

const LIMIT: Duration = Duration::from_secs(600);

#[tokio::main]
async fn main() {
    let only = std::env::args().skip(1).find(|word| word != "--bench");
    let only = only.as_deref();
    assert!(
        matches!(only, None | Some("podman" | "docker")),
        "`{}` is not an engine",
        only.unwrap_or_default()
    );
    if only != Some("docker") {
        let store = PodmanStore::new();
        measure("podman", &Engine::podman(settings(&store))).await;
    }
    if only != Some("podman") {
        let daemon = Dockerd::start();
        measure("docker", &Engine::docker_at(daemon.socket(), DockerBuilder::Classic)).await;
    }
}

async fn measure(name: &str, engine: &Engine) {
    let image = RandomImage { layers: BASE.to_vec(), ..RandomImage::new(4711) };
    let first = DebianRegistry::start();
    let base = image.push(first.host(), PATH, "1");
    let from: ImageRef = format!("{}@{}", base.repository, base.digest).parse().unwrap();
    engine.pull(&from, true, LIMIT).await.expect("the base can be pulled");
    let text = format!("FROM {from}\nCOPY data/ /data/\n");
    let request = BuildRequest {
        run: RunId::parse("bench").unwrap(),
        dockerfile: "Dockerfile".to_owned(),
        dockerfile_text: text.clone(),
        target: None,
        build_args: BTreeMap::new(),
        labels: BTreeMap::new(),
        network: Network::None,
        use_cache: false,
        idle_limit: LIMIT,
    };
    let context = context(&text);
    let pieces: Vec<_> =
        context.chunks(64 << 10).map(|piece| Ok(context.slice_ref(piece))).collect();
    let stream = Box::pin(futures_util::stream::iter(pieces));
    let built = engine.build(&request, stream, &mut |_| {}).await.expect("the build succeeds");
    let (mut ours, mut theirs, mut received) = (Vec::new(), Vec::new(), 0);
    for round in 0..=ROUNDS {
        let registry = DebianRegistry::start();
        image.push(registry.host(), PATH, "1");
        let there = push(engine, &built.image, registry.host()).await;
        let spool = tempfile::tempdir().unwrap();
        let sink = LoopbackRegistry::start_in(spool.path()).await.unwrap();
        claim(&sink, &base);
        let here = push(engine, &built.image, &sink.host()).await;
        received = sink.received().blob_bytes;
        // The first round only warms the caches.
        if round > 0 {
            theirs.push(there);
            ours.push(here);
        }
    }
    let (ours, theirs) = (median(ours), median(theirs));
    println!(
        "{name}: {} bytes of context; in-process registry {:.2} s ({received} bytes received), docker-registry {:.2} s, ratio {:.2}",
        context.len(),
        ours.as_secs_f64(),
        theirs.as_secs_f64(),
        ours.as_secs_f64() / theirs.as_secs_f64()
    );
}

async fn push(engine: &Engine, image: &ImageId, host: &str) -> Duration {
    let to: ImageRef = format!("{host}/{PATH}:new").parse().unwrap();
    let begin = Instant::now();
    engine.push(image, &to, LIMIT).await.expect("it can be pushed");
    begin.elapsed()
}

/// Tells the sink which layers the base has, compressed and uncompressed.
fn claim(sink: &LoopbackRegistry, base: &PushedImage) {
    let config: serde_json::Value = serde_json::from_slice(&base.config.bytes).unwrap();
    let diff_ids = config["rootfs"]["diff_ids"].as_array().unwrap();
    for (layer, diff_id) in base.layers.iter().zip(diff_ids) {
        let diff_id: Digest = diff_id.as_str().unwrap().parse().unwrap();
        sink.claim(&layer.digest, layer.bytes.len() as u64, None);
        sink.claim(&diff_id, layer.bytes.len() as u64, None);
    }
}

/// Returns a context that contains a Dockerfile and real files.
fn context(dockerfile: &str) -> Bytes {
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_size(dockerfile.len() as u64);
    header.set_mode(0o644);
    tar.append_data(&mut header, "Dockerfile", dockerfile.as_bytes()).unwrap();
    let (mut packed, mut folders) = (0, vec![PathBuf::from("/usr/lib")]);
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().collect();
        entries.sort_by_key(std::fs::DirEntry::path);
        for entry in entries {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && packed < ENOUGH {
                let name = Path::new("data").join(entry.path().strip_prefix("/usr/lib").unwrap());
                tar.append_path_with_name(entry.path(), name).unwrap();
                packed += entry.metadata().unwrap().len();
            }
        }
    }
    Bytes::from(tar.into_inner().unwrap())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
