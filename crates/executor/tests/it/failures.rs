//! Failures: the kind of the error, the state of every step, and the files left on disk.

use executor::{End, ErrorKind, Execution, Output, Settings};
use names::Digest;
use oci::client::ErrorKind as RegistryKind;
use oci::media::OCI_CONFIG;
use plan::Plan;
use record::{OutputState, StepState};
use serde_json::json;
use testkit::Fault;

use crate::support::*;

/// Runs a plan that must fail, and returns the execution, the kind of the error and its message.
async fn fail(plan: &Plan, settings: &Settings) -> (Execution, ErrorKind, String) {
    let (execution, events) = run(plan, settings, std::future::pending()).await;
    let End::Failed(error) = &execution.end else { panic!("{:?}", execution.end) };
    let (kind, words) = (error.kind(), chain(error));
    // Every step has a result, whatever happened.
    let steps: Vec<_> = execution.steps.iter().map(|outcome| outcome.step.as_str()).collect();
    let planned: Vec<_> = plan.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(steps, planned);
    // Everything that started has ended.
    let count = |text: &str| {
        let lines = events.iter().map(|event| serde_json::to_string(event).unwrap());
        lines.filter(|line| line.contains(text)).count()
    };
    assert_eq!(count("step-begun"), count("step-ended"));
    assert_eq!(count("output-begun"), count("output-ended"));
    (execution, kind, words)
}

fn states(execution: &Execution) -> [StepState; 2] {
    [execution.steps[0].state, execution.steps[1].state]
}

const FETCH_FAILED: [StepState; 2] = [StepState::Failed, StepState::NotBegun];
const NOT_BEGUN: [StepState; 2] = [StepState::NotBegun, StepState::NotBegun];

#[tokio::test(flavor = "multi_thread")]
async fn a_base_that_cannot_be_used_fails_its_step() {
    let bench = Bench::new().await;
    let manifest_type = "application/vnd.oci.image.manifest.v1+json";
    let index_type = "application/vnd.oci.image.index.v1+json";
    let absent = Digest::of(b"absent");
    let index = put_index(&bench, &[(&absent, "arm64"), (&bench.base, "amd64")]);
    let arm_only = put_index(&bench, &[(&bench.base, "arm64")]);
    let wrong_size = put_document(
        &bench.registry,
        index_type,
        &json!({ "manifests": [{
            "mediaType": manifest_type, "digest": bench.base, "size": 7,
            "platform": { "os": "linux", "architecture": "amd64" },
        }] }),
    );
    let nested = put_index(&bench, &[(&index, "amd64")]);
    let to_nothing = put_index(&bench, &[(&absent, "amd64")]);
    let helm = put_document(&bench.registry, "application/x-helm", &json!({}));
    let no_config = put_document(&bench.registry, manifest_type, &json!({ "layers": [] }));
    let lost_config = json!({
        "config": { "mediaType": OCI_CONFIG, "digest": absent, "size": 10 }, "layers": [],
    });
    let lost_config = put_document(&bench.registry, manifest_type, &lost_config);
    let huge_config = json!({
        "config": { "mediaType": OCI_CONFIG, "digest": absent, "size": 1_u64 << 40 }, "layers": [],
    });
    let huge_config = put_document(&bench.registry, manifest_type, &huge_config);
    let both = json!({ "manifests": [], "layers": [] });
    let both = put_document(&bench.registry, index_type, &both);
    let not_found = ErrorKind::Registry(RegistryKind::NotFound);
    let no_image = ErrorKind::Registry(RegistryKind::Protocol);
    for (base, kind, wanted, words) in [
        (&absent, None, not_found, "fetching the manifest of `127.0.0.1:"),
        (
            &bench.base,
            Some("index"),
            ErrorKind::Integrity,
            "is pinned as an index, but is a manifest",
        ),
        (
            &index,
            Some("manifest"),
            ErrorKind::Integrity,
            "is pinned as a manifest, but is an index",
        ),
        (
            &arm_only,
            None,
            ErrorKind::Base,
            "the index has no image for linux/amd64; it has linux/arm64",
        ),
        (&wrong_size, None, ErrorKind::Base, "bytes, but its descriptor specifies 7"),
        (&nested, None, ErrorKind::Base, "is an index whose entry"),
        (&to_nothing, None, not_found, "fetching the manifest of"),
        (&no_config, None, no_image, "no valid `config`"),
        (&lost_config, None, not_found, "fetching the config of"),
        (&huge_config, None, ErrorKind::Registry(RegistryKind::TooLarge), "fetching the config of"),
        (&both, None, no_image, "both layers and manifests"),
    ] {
        let settings = bench.settings(vec![bench.layout("image", false)]);
        let (execution, kind, found) =
            fail(&plan_of(&bench.repository(), base, kind), &settings).await;
        assert_eq!(kind, wanted, "{found}");
        assert!(found.contains(words), "{found}");
        assert_eq!(states(&execution), FETCH_FAILED, "{found}");
        assert!(execution.image.is_none() && execution.outputs.is_empty());
    }
    let settings = bench.settings(Vec::new());
    let (execution, ..) = fail(&plan_of(&bench.repository(), &helm, None), &settings).await;
    assert_eq!(states(&execution), FETCH_FAILED);
    assert_eq!(files(&bench.path("image")), Vec::<String>::new());
    // The correct index is still usable.
    let plan = plan_over(&index, Some("index"));
    let (execution, _) = run(&plan, &settings, std::future::pending()).await;
    assert!(matches!(execution.end, End::Succeeded), "{:?}", execution.end);
    assert_eq!(execution.image.unwrap().base_index, Some(index));
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_bytes_are_an_integrity_error_and_are_not_kept() {
    for target in ["/manifests/", "/blobs/"] {
        for fault in [Fault::Flip(20), Fault::Append(b" ".to_vec()), Fault::Body(b"{}".to_vec())] {
            let bench = Bench::new().await;
            let name = format!("{target} {fault:?}");
            bench.proxy.on("GET", target).does(fault);
            let plan = plan_of(&bench.repository(), &bench.base, None);
            let settings = bench.settings(vec![bench.layout("image", false)]);
            let (execution, kind, words) = fail(&plan, &settings).await;
            assert_eq!(kind, ErrorKind::Integrity, "{name}: {words}");
            assert_eq!(states(&execution), FETCH_FAILED, "{name}");
            let kept = files(&bench.path("cache"));
            assert_eq!(kept.len(), usize::from(target == "/blobs/"), "{name}: {kept:?}");
            assert_eq!(files(&bench.path("image")), Vec::<String>::new());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_for_another_platform_and_an_artifact_fail_the_first_step() {
    let bench = Bench::new().await;
    let config = json!({ "architecture": "arm64", "os": "linux", "rootfs": { "diff_ids": [] } });
    let config = config.to_string().into_bytes();
    let (size, digest) = (config.len(), bench.registry.add_blob(config.into()));
    let media_type = "application/vnd.oci.image.manifest.v1+json";
    for (config_type, why) in [
        (OCI_CONFIG, "the image is for linux/arm64, not for linux/amd64"),
        ("x", "it is not an image, but an artifact of the type `x`"),
    ] {
        let manifest = json!({
            "config": { "mediaType": config_type, "digest": digest, "size": size }, "layers": [],
        });
        let base = put_document(&bench.registry, media_type, &manifest);
        let settings = bench.settings(vec![bench.layout("image", false)]);
        let (execution, kind, words) = fail(&plan_over(&base, None), &settings).await;
        assert_eq!((kind, states(&execution)), (ErrorKind::Base, FETCH_FAILED));
        assert!(words.contains(why), "{words}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_is_not_ours_is_left_alone() {
    let bench = Bench::new().await;
    let write = |name: &str, text: &str| {
        std::fs::create_dir_all(bench.path(name).parent().unwrap()).unwrap();
        std::fs::write(bench.path(name), text).unwrap();
    };
    write("notes/mine.txt", "mine");
    write("file", "mine");
    let theirs = r#"{"manifests":[{"digest":"x","annotations":{"org.opencontainers.image.ref.name":"theirs"}}]}"#;
    write("theirs/oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#);
    write("theirs/index.json", theirs);
    let archive = |name: &str| Output::Archive { path: bench.path(name) };
    for output in [
        bench.layout("notes", false),
        bench.layout("notes", true),
        bench.layout("theirs", true),
        bench.layout("file", false),
        bench.layout("file/below", true),
        archive("file/below.tar"),
        archive("notes"),
    ] {
        let before = files(bench.folder.path());
        let settings =
            Settings { cache: executor::BlobCache::none(), ..bench.settings(vec![output.clone()]) };
        let (execution, kind, words) = fail(&bench.plan(), &settings).await;
        assert_eq!(kind, ErrorKind::Target, "{output}: {words}");
        assert!(words.contains(&format!("writing `{output}` failed")), "{words}");
        // Outputs are checked before the first step.
        assert_eq!(states(&execution), NOT_BEGUN, "{output}");
        assert!(execution.image.is_none());
        assert_eq!(execution.outputs.len(), 1);
        assert_eq!(execution.outputs[0].state, OutputState::Failed);
        assert_eq!(files(bench.folder.path()), before, "{output}");
    }
    assert_eq!(std::fs::read(bench.path("notes/mine.txt")).unwrap(), b"mine");
    assert_eq!(std::fs::read(bench.path("file")).unwrap(), b"mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn unavailable_layers_leave_no_image() {
    for fault in [Fault::status(404), Fault::Flip(50), Fault::Append(b"x".to_vec())] {
        let bench = Bench::new().await;
        let name = format!("{fault:?}");
        bench.proxy.on("GET", &format!("blobs/{}", bench.layers[0])).does(fault);
        let plan = plan_of(&bench.repository(), &bench.base, None);
        let other = oci::loopback::LoopbackRegistry::start().await.unwrap();
        for output in [
            bench.layout("image", true),
            Output::Archive { path: bench.path("image.tar") },
            registry_output(&other.host(), "made/image:tag"),
        ] {
            let (execution, kind, words) = fail(&plan, &bench.settings(vec![output.clone()])).await;
            let wanted = [ErrorKind::Registry(RegistryKind::NotFound), ErrorKind::Integrity];
            assert!(wanted.contains(&kind), "{name} {output}: {kind:?} {words}");
            assert!(words.contains(bench.layers[0].as_str()), "{name}: {words}");
            assert_eq!(execution.steps[1].state, StepState::Done);
            assert_eq!(execution.outputs[0].state, OutputState::Failed);
        }
        let left = files(&bench.path("image"));
        assert!(!left.iter().any(|file| file.contains(bench.layers[0].hex())), "{left:?}");
        assert!(!left.contains(&"index.json".to_owned()), "{left:?}");
        assert!(!bench.path("image.tar").exists());
        assert_eq!(tag_of(&other.host(), "made/image:tag").await, None);
        // The next run does not copy the layers again, and succeeds.
        let good = plan_of(&format!("{}/rocm/vllm-dev", bench.registry.host()), &bench.base, None);
        let settings = bench.settings(vec![bench.layout("image", true)]);
        let (execution, _) = run(&good, &settings, std::future::pending()).await;
        assert!(matches!(execution.end, End::Succeeded), "{name}: {:?}", execution.end);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_refuses_the_push_fails_the_output() {
    for (method, target) in [("HEAD", "/manifests/"), ("POST", "/uploads/"), ("PUT", "/manifests/")]
    {
        let bench = Bench::new().await;
        bench.proxy.on(method, target).does(Fault::status(403));
        let output = registry_output(&bench.proxy.host(), "made/image:tag");
        let first = bench.layout("first", false);
        let never = bench.layout("never", false);
        let settings = bench.settings(vec![first, output, never]);
        let (execution, kind, words) = fail(&bench.plan(), &settings).await;
        assert_eq!(kind, ErrorKind::Registry(RegistryKind::Denied), "{words}");
        assert!(words.contains("pushing to `registry:127.0.0.1:"), "{words}");
        // Earlier outputs are kept, and later ones are not started.
        let states: Vec<_> = execution.outputs.iter().map(|outcome| outcome.state).collect();
        assert_eq!(states, [OutputState::Written, OutputState::Failed], "{method} {target}");
        assert!(!bench.path("never").exists());
        assert_eq!(tag_of(&bench.registry.host(), "made/image:tag").await, None);
    }
}
