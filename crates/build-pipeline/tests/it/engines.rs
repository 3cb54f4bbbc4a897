//! Real engines behind sockets, with a small image in them.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testkit::{Dockerd, PodmanStore, busybox_root};

/// The image that every engine of the tests has.
pub(crate) const BUSYBOX: &str = "localhost/busybox:latest";

/// An engine, and the values that keep it alive.
pub(crate) struct Engine {
    pub(crate) name: &'static str,
    pub(crate) socket: PathBuf,
    _keeper: Keeper,
}

enum Keeper {
    Podman { _service: Service },
    Docker { _daemon: Dockerd },
}

/// A podman service with its own store.
struct Service {
    child: Child,
    _store: PodmanStore,
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Starts both engines, each with the image.
pub(crate) fn both() -> [Engine; 2] {
    [podman(), docker()]
}

pub(crate) fn podman() -> Engine {
    let store = PodmanStore::new();
    std::fs::create_dir_all(store.sockets()).unwrap();
    let socket = store.sockets().join("podman.sock");
    let child = Command::new("podman")
        .args(store.arguments())
        .args(["--runtime", "runc", "system", "service", "--time", "0"])
        .arg(format!("unix://{}", socket.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let keeper = Keeper::Podman { _service: Service { child, _store: store } };
    filled(Engine { name: "podman", socket, _keeper: keeper })
}

pub(crate) fn docker() -> Engine {
    let daemon = Dockerd::start();
    let socket = daemon.socket();
    filled(Engine { name: "docker", socket, _keeper: Keeper::Docker { _daemon: daemon } })
}

/// Waits until an engine answers, and loads the image into it.
fn filled(engine: Engine) -> Engine {
    let deadline = Instant::now() + Duration::from_secs(300);
    while UnixStream::connect(&engine.socket).is_err() {
        assert!(Instant::now() < deadline, "{} does not answer", engine.name);
        std::thread::sleep(Duration::from_millis(20));
    }
    engine.add("localhost/busybox", "ENV%20PATH=/bin");
    engine
}

impl Engine {
    /// Creates an image from busybox and one Dockerfile instruction.
    pub(crate) fn add(&self, name: &str, change: &str) {
        let tar = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(tar.path(), busybox_root()).unwrap();
        let path = format!("/images/create?fromSrc=-&repo={name}&tag=latest&changes={change}");
        let file = format!("@{}", tar.path().display());
        self.curl(
            &["-X", "POST", "-H", "Content-Type: application/x-tar", "--data-binary", &file],
            &path,
        );
    }

    fn curl(&self, arguments: &[&str], path: &str) -> String {
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--fail", "--unix-socket"])
            .arg(&self.socket)
            .args(arguments)
            .arg(format!("http://engine{path}"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {path}: {said}", self.name);
        String::from_utf8(output.stdout).unwrap()
    }

    /// Removes a container, even if it runs.
    pub(crate) fn remove(&self, name: &str) {
        self.curl(&["-X", "DELETE"], &format!("/containers/{name}?force=true"));
    }

    /// Returns the names of all containers, including stopped ones.
    pub(crate) fn containers(&self) -> Vec<String> {
        let text = self.curl(&[], "/containers/json?all=true");
        let all: serde_json::Value = serde_json::from_str(&text).unwrap();
        let names = all.as_array().unwrap().iter();
        names.map(|one| one["Names"][0].as_str().unwrap().to_owned()).collect()
    }
}

/// A registry with busybox in it as `base/busybox`. It serves as long as the runtime lives.
pub(crate) struct BusyboxRegistry {
    pub(crate) host: String,
    pub(crate) digest: names::Digest,
    _registry: oci::loopback::LoopbackRegistry,
    _runtime: tokio::runtime::Runtime,
}

impl BusyboxRegistry {
    pub(crate) fn serve() -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let registry = runtime.block_on(oci::loopback::LoopbackRegistry::start()).unwrap();
        let tar = bytes::Bytes::from(busybox_root());
        let size = tar.len();
        let layer = registry.add_blob(tar);
        let config = serde_json::json!({
            "architecture": "amd64", "os": "linux", "config": { "Env": ["PATH=/bin"] },
            "history": [{ "created_by": "busybox" }],
            "rootfs": { "type": "layers", "diff_ids": [layer] },
        });
        let config = bytes::Bytes::from(config.to_string());
        let config_size = config.len();
        let config = registry.add_blob(config);
        let manifest = serde_json::json!({
            "schemaVersion": 2, "mediaType": oci::media::OCI_MANIFEST,
            "config": { "mediaType": oci::media::OCI_CONFIG, "digest": config, "size": config_size },
            "layers": [{
                "mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": layer, "size": size,
            }],
        });
        let manifest = bytes::Bytes::from(manifest.to_string());
        let digest =
            registry.add_manifest("base/busybox", None, oci::media::OCI_MANIFEST, manifest);
        Self { host: registry.host(), digest, _registry: registry, _runtime: runtime }
    }
}
