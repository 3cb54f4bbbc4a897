//! Archives, containers, `clean` next to other people's objects, broken runtimes, and services that
//! end with their owner.

use std::time::Duration;

use bytes::Bytes;
use engine::{
    ContainerRequest, Device, DockerBuilder, Engine, EngineError, LeftoverKind, Mount,
    ServiceSettings,
};
use names::{Digest, EngineKind};
use testkit::{EngineProxy, PodmanStore};

use crate::settings::settings;
use crate::support::{Base, LIMIT, build, docker, dockerd, podman, request, run_id};

/// A container receives what the request specifies, and prints it.
async fn a_container_runs_with_what_it_was_given(engine: &Engine, run: &str) {
    let base = Base::serve().await;
    base.give_to(engine).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "from the host\n").unwrap();
    let request = |script: &str| {
        let script = ["sh", "-c", script].map(str::to_owned).to_vec();
        ContainerRequest {
            command: script,
            env: [("WORD".to_owned(), "two words".to_owned())].into(),
            devices: vec![Device { source: "/dev/fuse".into(), target: "/dev/other".into() }],
            groups: vec!["44".to_owned()],
            mounts: vec![Mount {
                source: folder.path().to_owned(),
                target: "/given".into(),
                is_read_only: true,
                is_relabelled: false,
            }],
            // This machine's limits are lower than podman's defaults.
            open_files: Some(1024),
            processes: Some(1024),
            shared_memory: Some(128 << 20),
            ..ContainerRequest::new(run_id(run), &base.name.to_string())
        }
    };
    let script = "echo \"$WORD\"; cat /given/file; touch /given/new || echo read-only >&2; \
        [ -c /dev/other ] && echo device; id -G; \
        df -k /dev/shm | awk 'NR==2 {print \"shm\", $2}'; tail -n +3 /proc/net/dev | wc -l; exit 5";
    let id = engine.create_container(&request(script)).await.unwrap();
    let left = engine.leftovers(Some(&run_id(run))).await.unwrap();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!((left[0].kind, &left[0].id), (LeftoverKind::Container, &id));
    let mut attached = engine.attach(&id, false).await.unwrap();
    engine.start_container(&id).await.unwrap();
    let mut said = Vec::new();
    while let Some(output) = attached.output.next().await.unwrap() {
        said.extend(&output.bytes);
    }
    let said = String::from_utf8(said).unwrap();
    assert_eq!(engine.wait_for_container(&id).await.unwrap(), 5, "{said}");
    for line in ["two words", "from the host", "read-only", "device", "shm 131072", "1"] {
        assert!(said.lines().any(|said| said.trim() == line), "{line} is missing in {said}");
    }
    assert!(said.split_whitespace().any(|group| group == "44"), "{said}");
    engine.remove_container(&id).await.unwrap();
    engine.remove_container(&id).await.unwrap();
    // `clean` stops a container that runs for a long time.
    let id = engine.create_container(&request("sleep 3000")).await.unwrap();
    engine.start_container(&id).await.unwrap();
    let cleaned = engine.clean(&run_id(run)).await.unwrap();
    assert_eq!(cleaned.len(), 1, "{cleaned:?}");
    assert_eq!(engine.leftovers(Some(&run_id(run))).await.unwrap(), []);
    let missing = engine.start_container(&id).await;
    assert!(matches!(missing, Err(EngineError::NotFound { .. })), "{missing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_runs_on_podman() {
    let store = PodmanStore::new();
    a_container_runs_with_what_it_was_given(&podman(&store), "container").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_runs_on_docker() {
    let engine = docker(DockerBuilder::BuildKit);
    a_container_runs_with_what_it_was_given(&engine, "container-docker").await;
}

/// `clean` removes what belongs to the run, and nothing else.
async fn clean_touches_nothing_else(engine: &Engine, prefix: &str) {
    let base = Base::serve().await;
    base.give_to(engine).await;
    let name = |word: &str| format!("{prefix}-{word}");
    let text = |word: &str| format!("FROM {}\nRUN echo {prefix}-{word} > /file\n", base.name);
    let mut images = Vec::new();
    for word in ["ours", "theirs"] {
        let (built, _) = build(engine, &request(&name(word), &text(word)), &[]).await;
        images.push(built.unwrap().image);
    }
    let mut containers = Vec::new();
    for word in ["ours", "theirs"] {
        let request = ContainerRequest {
            command: vec!["true".to_owned()],
            open_files: Some(1024),
            processes: Some(1024),
            ..ContainerRequest::new(run_id(&name(word)), images[0].as_str())
        };
        containers.push(engine.create_container(&request).await.unwrap());
    }
    // `clean` leaves the containers of other runs alone, and with them the images that they use.
    engine.remove_container(&containers[1]).await.unwrap();
    let cleaned = engine.clean(&run_id(&name("ours"))).await.unwrap();
    let (first, rest) = cleaned.split_first().unwrap();
    assert_eq!((first.kind, &first.id), (LeftoverKind::Container, &containers[0]));
    // podman also keeps an image of each step.
    assert!(rest.iter().all(|leftover| leftover.kind == LeftoverKind::Image), "{rest:?}");
    assert!(rest.iter().any(|leftover| leftover.id == images[0].as_str()), "{rest:?}");
    let theirs = engine.leftovers(Some(&run_id(&name("theirs")))).await.unwrap();
    assert!(theirs.iter().any(|leftover| leftover.id == images[1].as_str()), "{theirs:?}");
    engine.inspect(&base.name.to_string()).await.unwrap();
    engine.clean(&run_id(&name("theirs"))).await.unwrap();
    engine.inspect(&base.name.to_string()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn clean_touches_nothing_else_on_podman() {
    let store = PodmanStore::new();
    clean_touches_nothing_else(&podman(&store), "clean").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clean_touches_nothing_else_on_docker() {
    clean_touches_nothing_else(&docker(DockerBuilder::Classic), "clean-classic").await;
    clean_touches_nothing_else(&docker(DockerBuilder::BuildKit), "clean-buildkit").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clean_needs_no_sizes() {
    let proxy = EngineProxy::start(&dockerd().socket());
    proxy.refuse_sizes();
    let engine = Engine::docker_at(proxy.socket(), DockerBuilder::Classic);
    clean_touches_nothing_else(&engine, "clean-sizes").await;
    assert!(proxy.requests().iter().any(|line| line.contains("size=true")));
}

/// podman was killed after it named the image of a step and before it removed the name.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_podman_did_not_take_back_protects_no_image() {
    let store = PodmanStore::new();
    let engine = podman(&store);
    let base = Base::serve().await;
    base.give_to(&engine).await;
    let text = |number| format!("FROM {}\nRUN echo {number} > /file\n", base.name);
    let digits = "a4b4006015f9ce98".repeat(4);
    let ours = format!("docker.io/library/{digits}-tmp:latest");
    let theirs = format!("docker.io/library/{}-tmp:latest", &digits[1..]);
    for (number, name) in [(1, &ours), (2, &theirs)] {
        let (built, _) = build(&engine, &request("killed", &text(number)), &[]).await;
        store.podman(&["tag", built.unwrap().image.as_str(), name]);
    }
    engine.clean(&run_id("killed")).await.unwrap();
    let names = store.podman(&["images", "--all", "--format", "{{.Repository}}:{{.Tag}}"]);
    assert!(!names.contains(&ours) && names.contains(&theirs), "{names:?}");
}

/// A podman that was killed may still create the container of a step while `clean` removes images.
/// Here, a container that uses an image of the run is removed only later.
#[tokio::test(flavor = "multi_thread")]
async fn clean_waits_for_a_container_that_is_about_to_go() {
    let store = PodmanStore::new();
    let engine = podman(&store);
    let base = Base::serve().await;
    base.give_to(&engine).await;
    let text = format!("FROM {}\nRUN echo 1 > /file\n", base.name);
    let image = build(&engine, &request("clean-later", &text), &[]).await.0.unwrap().image;
    // Without a label of a run, so that `clean` does not remove it.
    store.podman(&["create", "--network=none", "--name", "later", image.as_str(), "true"]);
    let goes = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        store.podman(&["rm", "later"]);
    };
    let run = run_id("clean-later");
    let (cleaned, ()) = tokio::join!(engine.clean(&run), goes);
    let cleaned = cleaned.unwrap();
    assert!(cleaned.iter().any(|leftover| leftover.id == image.as_str()), "{cleaned:?}");
    assert_eq!(engine.leftovers(None).await.unwrap(), []);
}

/// The files of an archive, and the digest of the config.
type Files = (Vec<(String, Vec<u8>)>, names::Digest);

/// Returns an image that has one small layer on top of the base.
fn small_image(base: &Base) -> (Vec<u8>, Vec<u8>) {
    let mut layer = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_size(4);
    header.set_mode(0o644);
    layer.append_data(&mut header, "new", &b"new\n"[..]).unwrap();
    let layer = layer.into_inner().unwrap();
    let config = serde_json::json!({
        "architecture": "amd64", "os": "linux", "config": { "Env": ["PATH=/bin"] },
        "history": [{ "created_by": "busybox" }, { "created_by": "new" }],
        "rootfs": { "type": "layers", "diff_ids": [base.diff.0, Digest::of(&layer)] },
    });
    (layer, config.to_string().into_bytes())
}

/// Returns an archive in the format of `docker save`, without the base's layer. podman then refuses
/// it.
fn thin_docker_archive(base: &Base) -> Files {
    let (layer, config) = small_image(base);
    let digest = Digest::of(&config);
    let config_name = format!("{}.json", digest.hex());
    let manifest = serde_json::json!([{
        "Config": config_name, "RepoTags": ["localhost/thin:1"],
        "Layers": [format!("{}.tar", base.diff.0.hex()), "new.tar"],
    }]);
    let manifest = manifest.to_string().into_bytes();
    let files =
        [(config_name, config), ("manifest.json".into(), manifest), ("new.tar".into(), layer)];
    (files.into(), digest)
}

/// Returns an OCI archive without the base's layer. docker 20.10 refuses any OCI archive.
fn thin_oci_archive(base: &Base) -> Files {
    let (layer, config) = small_image(base);
    let tar = "application/vnd.oci.image.layer.v1.tar";
    let manifest = serde_json::json!({
        "schemaVersion": 2, "mediaType": oci::media::OCI_MANIFEST,
        "config": {
            "mediaType": oci::media::OCI_CONFIG, "digest": Digest::of(&config), "size": config.len(),
        },
        "layers": [
            { "mediaType": format!("{tar}+gzip"), "digest": base.layer.0, "size": base.layer.1 },
            { "mediaType": tar, "digest": Digest::of(&layer), "size": layer.len() },
        ],
    });
    let manifest = manifest.to_string().into_bytes();
    let index = serde_json::json!({
        "schemaVersion": 2,
        "manifests": [{
            "mediaType": oci::media::OCI_MANIFEST, "digest": Digest::of(&manifest),
            "size": manifest.len(),
            "annotations": { "org.opencontainers.image.ref.name": "localhost/thin:1" },
        }],
    });
    let digest = Digest::of(&config);
    let mut files = vec![
        ("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()),
        ("index.json".to_owned(), index.to_string().into_bytes()),
    ];
    let blob = |bytes: Vec<u8>| (format!("blobs/sha256/{}", Digest::of(&bytes).hex()), bytes);
    files.extend([config, manifest, layer].map(blob));
    (files, digest)
}

async fn a_thin_archive_loads_on_its_base(engine: &Engine, make: fn(&Base) -> Files) {
    let base = Base::serve().await;
    base.give_to(engine).await;
    let (files, digest) = make(&base);
    let mut archive = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, bytes.as_slice()).unwrap();
    }
    let archive = archive.into_inner().unwrap();
    let stream = futures_util::stream::iter([Ok(Bytes::from(archive))]);
    let names = engine.load(Box::pin(stream), LIMIT).await.unwrap();
    assert_eq!(names, ["localhost/thin:1"]);
    let inspect = engine.inspect("localhost/thin:1").await.unwrap();
    assert_eq!(inspect.id.as_str(), digest.as_str());
    assert_eq!(inspect.diff_ids.len(), 2);
    let text = "FROM localhost/thin:1\nRUN cat /new\n";
    let (built, events) = build(engine, &request("thin", text), &[]).await;
    built.unwrap();
    assert!(crate::support::lines(&events).contains(&"new"));
    let broken = futures_util::stream::iter([Ok(Bytes::from_static(b"no archive"))]);
    assert!(engine.load(Box::pin(broken), LIMIT).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thin_archive_loads_on_podman() {
    let store = PodmanStore::new();
    a_thin_archive_loads_on_its_base(&podman(&store), thin_oci_archive).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thin_archive_loads_on_docker() {
    let engine = docker(DockerBuilder::Classic);
    a_thin_archive_loads_on_its_base(&engine, thin_docker_archive).await;
}

/// `false` acts as a runtime that is installed but does not work.
#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_that_does_not_work_is_passed_over() {
    let store = PodmanStore::new();
    let broken = ServiceSettings { runtime: Some("/bin/false".to_owned()), ..settings(&store) };
    let error = Engine::podman(broken).probe().await.unwrap_err();
    assert!(matches!(error, EngineError::Runtime { .. }), "{error:?}");
    // If none is chosen, a probe tries several: crun works with cgroup v2, and runc on hybrid hosts.
    let any = ServiceSettings { runtime: None, ..settings(&store) };
    let engine = Engine::podman(any.clone());
    let found = engine.probe().await.unwrap();
    assert_eq!(found.runtime.is_some(), !found.runtime_failures.is_empty(), "{found:?}");
    assert!(found.run.is_isolated && found.can_cancel);
    // Neither the failed probes nor the successful one leaves an image.
    let left = |words: &[&str]| store.podman(words);
    assert_eq!(left(&["images", "--all", "--quiet"]), Vec::<String>::new());
    assert_eq!(left(&["ps", "--all", "--external", "--quiet"]), Vec::<String>::new());
    let chosen = ServiceSettings { runtime: found.runtime, ..any };
    let text = "FROM scratch\nCOPY Dockerfile /\n";
    build(&Engine::podman(chosen), &request("chosen", text), &[]).await.0.unwrap();
}

/// The engines' descriptions of themselves, also for podman at a socket that another `Engine`
/// serves.
#[tokio::test(flavor = "multi_thread")]
async fn engines_say_what_they_are() {
    let store = PodmanStore::new();
    let ours = podman(&store);
    let info = ours.info().await.unwrap();
    assert_eq!((info.kind, info.runtime.as_str()), (EngineKind::Podman, "runc"));
    assert_eq!(info.storage_root, store.root());
    assert!(info.version.starts_with(|c: char| c.is_ascii_digit()), "{info:?}");
    let sockets = std::fs::read_dir(store.sockets()).unwrap();
    let socket = sockets.map(|entry| entry.unwrap().path()).next().unwrap();
    assert_eq!(engine::Client::kind_at(&socket).await.unwrap(), EngineKind::Podman);
    let named = Engine::podman_at(socket);
    assert!(!named.can_cancel());
    assert_eq!(named.version().await.unwrap(), info.version);
    assert_eq!(named.info().await.unwrap(), info);
    let text = "FROM scratch\nCOPY Dockerfile /\n";
    build(&named, &request("named", text), &[]).await.0.unwrap();

    let socket = crate::support::dockerd().socket();
    assert_eq!(engine::Client::kind_at(&socket).await.unwrap(), EngineKind::Docker);
    let info = docker(DockerBuilder::Classic).info().await.unwrap();
    assert_eq!(docker(DockerBuilder::Classic).version().await.unwrap(), info.version);
    assert_eq!((info.kind, info.runtime.as_str()), (EngineKind::Docker, "runc"));
    assert!(!info.is_rootless && ["1", "2"].contains(&info.cgroup_version.as_str()), "{info:?}");
    let own = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(info.kernel, own.trim());
    for builder in [DockerBuilder::BuildKit, DockerBuilder::Classic] {
        let probed = docker(builder).probe().await.unwrap();
        assert_eq!(probed.builder, builder.into(), "{probed:?}");
        assert_eq!(probed.info, info);
    }
    let nobody = engine::Client::kind_at(&store.root().join("none")).await;
    assert!(matches!(nobody, Err(EngineError::Unreachable { .. })));
}

/// podman needs half a second of CPU time for `/info` and for `/version` on Debian: it runs `dpkg`
/// for each of its helper programs.
#[tokio::test(flavor = "multi_thread")]
async fn podman_describes_itself_once() {
    let store = PodmanStore::new();
    let ours = podman(&store);
    ours.version().await.unwrap();
    let sockets = std::fs::read_dir(store.sockets()).unwrap();
    let socket = sockets.map(|entry| entry.unwrap().path()).next().unwrap();
    let proxy = EngineProxy::start(&socket);
    let named = Engine::podman_at(proxy.socket());
    named.probe().await.unwrap();
    let text = "FROM scratch\nCOPY Dockerfile /\n";
    build(&named, &request("once", text), &[]).await.0.unwrap();
    named.clean(&run_id("once")).await.unwrap();
    named.version().await.unwrap();
    let slow = |line: &String| line.contains("/info") || line.contains("/version");
    let slow: Vec<String> = proxy.requests().into_iter().filter(slow).collect();
    assert_eq!(slow, ["GET /v4.0.0/libpod/info HTTP/1.1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_cannot_start_says_why() {
    let store = PodmanStore::new();
    let program = ServiceSettings { program: "/no/such/podman".into(), ..settings(&store) };
    let error = Engine::podman(program).info().await.unwrap_err();
    assert!(matches!(error, EngineError::Service { .. }), "{error:?}");
    let arguments = vec!["--no-such-option".into()];
    let options = ServiceSettings { arguments, ..settings(&store) };
    let error = Engine::podman(options).info().await.unwrap_err().to_string();
    assert!(error.contains("no-such-option"), "{error}");
}
