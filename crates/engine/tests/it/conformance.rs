//! Behaviour that podman, docker's classic builder and BuildKit must all have.

use engine::{BuildEvent, DockerBuilder, Engine, EngineError, Network, RUN_LABEL};
use names::ImageRef;
use oci::loopback::{LoopbackRegistry, StoredBlob};
use testkit::PodmanStore;

use crate::support::{Base, LIMIT, build, docker, lines, podman, request};

/// Creates a module of tests for each builder.
macro_rules! for_each_builder {
    ($($test:ident),+ $(,)?) => {
        mod on_podman {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                let store = super::PodmanStore::new();
                super::$test(&super::podman(&store)).await;
            })+
        }
        mod on_docker_classic {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(&super::docker(super::DockerBuilder::Classic)).await;
            })+
        }
        mod on_docker_buildkit {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(&super::docker(super::DockerBuilder::BuildKit)).await;
            })+
        }
    };
}

for_each_builder!(
    a_build_has_steps_lines_labels_and_an_image,
    a_push_sends_only_what_is_new,
    a_failing_run_says_where_and_why,
    a_bad_dockerfile_is_refused,
    a_missing_base_is_named,
    a_run_has_the_network_it_was_given,
    a_context_that_breaks_off_is_an_input_error,
    an_image_that_is_gone_is_not_found_by_any_form_of_its_id,
);

async fn a_build_has_steps_lines_labels_and_an_image(engine: &Engine) {
    let base = Base::serve().await;
    base.give_to(engine).await;
    let text = format!(
        "ARG BASE\nFROM {} AS first\n# A comment.\nARG WORD\nRUN echo \"said $WORD\"; \\\n    printf '10%%\\r100%%\\n'; echo err >&2\nCOPY data /data\n\
         FROM first\nRUN cat /data\n",
        base.name
    );
    let mut request = request("conformance", &text);
    request.build_args.insert("WORD".to_owned(), "it is".to_owned());
    request.labels.insert("a.label".to_owned(), "with \"quotes\" & more".to_owned());
    request.use_cache = true;
    let (built, events) = build(engine, &request, &[("data", b"from the context\n")]).await;
    let built = built.unwrap();
    assert_eq!(built.inspect.labels["a.label"], "with \"quotes\" & more");
    assert_eq!(built.inspect.labels[RUN_LABEL], "conformance");
    assert_eq!(built.inspect.architecture, "amd64");
    assert_eq!(built.inspect.diff_ids[0], base.diff.0.as_str());
    let said = lines(&events);
    for line in ["said it is", "100%", "err", "from the context"] {
        assert!(said.contains(&line), "{line} is missing in {said:?}");
    }
    assert!(!said.iter().any(|line| line.contains("BUILD_PIPELINE_RUN")), "{said:?}");
    let steps = events.iter().filter_map(|event| match event {
        BuildEvent::Step(step) => Some((step.line?, step.instruction.split(' ').next()?)),
        BuildEvent::Line(_) => None,
    });
    let steps: Vec<_> = steps.collect();
    for step in [(5, "RUN"), (7, "COPY"), (9, "RUN")] {
        assert!(steps.contains(&step), "{step:?} is missing in {steps:?}");
    }
    // With the first stage as the target, the build ends there.
    request.target = Some("first".to_owned());
    let (first, events) = build(engine, &request, &[("data", b"from the context\n")]).await;
    assert!(first.unwrap().inspect.diff_ids.len() <= built.inspect.diff_ids.len());
    assert!(!lines(&events).contains(&"from the context"));
    engine.remove_image(built.image.as_str()).await.unwrap();
    assert!(matches!(
        engine.inspect(built.image.as_str()).await,
        Err(EngineError::NotFound { .. })
    ));
    engine.remove_image(built.image.as_str()).await.unwrap();
}

/// The base is on its own registry. The registry that receives the push only claims to have it.
async fn a_push_sends_only_what_is_new(engine: &Engine) {
    let base = Base::serve().await;
    base.give_to(engine).await;
    let text = format!("FROM {}\nRUN head -c 3000000 /dev/urandom > /new\n", base.name);
    let (built, _) = build(engine, &request("push", &text), &[]).await;
    let built = built.unwrap();
    let spool = tempfile::tempdir().unwrap();
    let sink = LoopbackRegistry::start_in(spool.path()).await.unwrap();
    for (digest, size) in [&base.layer, &base.diff] {
        sink.claim(digest, *size, None);
    }
    // docker looks for a small layer only in the repository that it came from.
    let to: ImageRef = format!("{}/base/busybox:new", sink.host()).parse().unwrap();
    engine.push(&built.image, &to, LIMIT).await.unwrap();
    let (_, media_type, bytes) = sink.manifest("base/busybox", "new").unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let digest = |pointer: &str| manifest.pointer(pointer).unwrap().as_str().unwrap().to_owned();
    assert!(media_type.contains("manifest"), "{media_type}");
    let layers = manifest["layers"].as_array().unwrap();
    assert_eq!(layers.len(), built.inspect.diff_ids.len());
    let below = digest("/layers/0/digest");
    assert!([base.layer.0.as_str(), base.diff.0.as_str()].contains(&below.as_str()));
    // The new parts are stored as files named by their digests. The config's digest is the engine's
    // ID.
    for descriptor in layers.iter().skip(1).chain([&manifest["config"]]) {
        let digest: names::Digest = descriptor["digest"].as_str().unwrap().parse().unwrap();
        let Some(StoredBlob::File { path, size }) = sink.blob(&digest) else {
            panic!("there is no file {digest}")
        };
        let bytes = std::fs::read(path).unwrap();
        assert_eq!(bytes.len() as u64, size);
        assert_eq!(names::Digest::of(&bytes), digest);
    }
    assert_eq!(digest("/config/digest"), built.image.as_str());
    let received = sink.received();
    let slack = 1 << 20;
    assert!(received.blob_bytes >= 3_000_000, "{received:?}");
    assert!(received.blob_bytes < 3_000_000 + slack, "{received:?}");
    assert!(received.already_there >= 1, "{received:?}");
    // A push adds no name to an image that already has one.
    let own: ImageRef = "localhost/own:1".parse().unwrap();
    engine.tag(&built.image, &own).await.unwrap();
    let to = format!("{}/elsewhere:again", sink.host()).parse().unwrap();
    engine.push(&built.image, &to, LIMIT).await.unwrap();
    let again = sink.received();
    assert_eq!((again.blobs, again.blob_bytes), (received.blobs, received.blob_bytes));
    assert!(sink.manifest("elsewhere", "again").is_some());
    let after = engine.inspect(built.image.as_str()).await.unwrap();
    assert!(!after.tags.iter().any(|tag| tag.ends_with(":again")), "{:?}", after.tags);
    engine.remove_image("localhost/own:1").await.unwrap();
}

async fn a_failing_run_says_where_and_why(engine: &Engine) {
    let base = Base::serve().await;
    base.give_to(engine).await;
    let text = format!("FROM {}\n\nRUN true\nRUN echo before; \\\n  exit 7\n", base.name);
    let (built, _) = build(engine, &request("fails", &text), &[]).await;
    let Err(EngineError::Run(failure)) = built else { panic!("{built:?}") };
    assert_eq!((failure.status, failure.line), (7, Some(4)));
    assert!(failure.instruction.contains("exit 7"), "{failure:?}");
    assert!(failure.log.iter().any(|line| line == "before"), "{failure:?}");
    let text = format!("FROM {}\nRUN [\"/no/such/program\"]\n", base.name);
    let (built, _) = build(engine, &request("fails", &text), &[]).await;
    let Err(EngineError::Run(failure)) = built else { panic!("{built:?}") };
    assert_eq!((failure.status, failure.line), (127, Some(2)), "{failure:?}");
}

async fn a_bad_dockerfile_is_refused(engine: &Engine) {
    let base = Base::serve().await;
    base.give_to(engine).await;
    for text in [
        format!("FROM {}\nRUNN true\n", base.name),
        format!("FROM {}\nCOPY nothing /there\n", base.name),
    ] {
        let (built, _) = build(engine, &request("refused", &text), &[]).await;
        assert!(matches!(built, Err(EngineError::Dockerfile { .. })), "{text}: {built:?}");
    }
}

async fn a_missing_base_is_named(engine: &Engine) {
    let base = Base::serve().await;
    let text = format!("FROM {}/not/there:1\nRUN true\n", base.registry.host());
    let (built, _) = build(engine, &request("no-base", &text), &[]).await;
    let Err(EngineError::BaseMissing { detail }) = built else { panic!("{built:?}") };
    assert!(detail.contains("not/there"), "{detail}");
}

async fn a_run_has_the_network_it_was_given(engine: &Engine) {
    let base = Base::serve().await;
    base.give_to(engine).await;
    let own = std::fs::read_link("/proc/self/ns/net").unwrap().display().to_string();
    let show = "readlink /proc/self/ns/net; ip addr show lo";
    let text = format!("FROM {}\nRUN {show}\n", base.name);
    for (network, is_ours) in [(Network::None, false), (Network::Host, true)] {
        let mut request = request("network", &text);
        request.network = network;
        let (built, events) = build(engine, &request, &[]).await;
        built.unwrap();
        let said = lines(&events);
        let space = said.iter().find(|line| line.starts_with("net:[")).unwrap();
        assert_eq!(*space == own, is_ours, "{network:?}: {said:?}");
        // sccache connects to its own server through loopback.
        assert!(said.iter().any(|line| line.contains("inet 127.0.0.1/8")), "{network:?}: {said:?}");
    }
    let capabilities = engine.probe().await.unwrap();
    assert!(capabilities.run.is_isolated, "{capabilities:?}");
    assert_eq!(capabilities.run.interfaces, ["lo"]);
}

async fn a_context_that_breaks_off_is_an_input_error(engine: &Engine) {
    use futures_util::StreamExt as _;
    let request = request("breaks", "FROM scratch\nCOPY data /data\n");
    let bad = futures_util::stream::iter([Err(std::io::Error::other("the disk said no"))]);
    let data = vec![7; 1 << 20];
    let good = crate::support::context(&request.dockerfile_text, &[("data", &data)]).take(2);
    let built = engine.build(&request, Box::pin(good.chain(bad)), &mut |_| {}).await;
    let Err(EngineError::Input { source, .. }) = built else { panic!("{built:?}") };
    assert_eq!(source.to_string(), "the disk said no");
}

async fn an_image_that_is_gone_is_not_found_by_any_form_of_its_id(engine: &Engine) {
    let id = "20fcddbef99e9a1baf47016b0a0ea42b0385cae2118dbb76f5aec577480a8673";
    for name in [id.to_owned(), format!("sha256:{id}"), "localhost/gone:1".to_owned()] {
        let found = engine.inspect(&name).await;
        assert!(matches!(found, Err(EngineError::NotFound { .. })), "{name}: {found:?}");
        // It is already gone when `clean` removes it.
        engine.remove_image(&name).await.unwrap();
    }
}
