//! Interruptions: everything in progress is removed, and existing files are kept.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use executor::{End, Output};
use names::Digest;
use oci::LayoutImage;
use record::{OutputState, StepState};
use testkit::{Answer, Fault, FaultProxy};

use crate::support::*;

/// Completes when the proxy has received a request and is sending the response.
async fn once_asked(proxy: &FaultProxy, method: &str, target: &str) {
    let deadline = Instant::now() + Duration::from_secs(300);
    while proxy.count(method, target) == 0 {
        assert!(Instant::now() < deadline, "there was no request {method} {target}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    tokio::time::sleep(Duration::from_millis(30)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_copy_leaves_only_what_the_next_one_continues() {
    for fault in [Fault::Stall, Fault::Slow(Duration::from_millis(1))] {
        let bench = Bench::new().await;
        let layer = format!("blobs/{}", bench.layers[0]);
        bench.proxy.on("GET", &layer).does(fault);
        // There is already an image, and it is kept.
        let (before, _) = bench.run(vec![bench.layout("image", false)]).await;
        assert!(matches!(before.end, End::Succeeded));
        let other = oci::loopback::LoopbackRegistry::start().await.unwrap();
        for output in [
            bench.layout("image", true),
            bench.layout("new", true),
            Output::Archive { path: bench.path("image.tar") },
            registry_output(&other.host(), "made/image:tag"),
        ] {
            let asked = FaultProxy::to(&bench.proxy.host());
            let mut settings = bench.settings(vec![output.clone()]);
            settings.client = client(&format!("registry.invalid={}", asked.host()));
            let interrupt = once_asked(&asked, "GET", &layer);
            let (execution, _) = run(&bench.plan(), &settings, interrupt).await;
            assert!(matches!(execution.end, End::Interrupted), "{:?}", execution.end);
            let states: Vec<_> = execution.steps.iter().map(|outcome| outcome.state).collect();
            assert_eq!(states, [StepState::Cached, StepState::Done]);
            assert!(execution.image.is_some());
            // The output was started, so it is in the record.
            assert_eq!(execution.outputs.len(), 1, "{output}");
            assert_eq!(execution.outputs[0].output, output.to_string());
            assert_eq!(execution.outputs[0].state, OutputState::Interrupted);
        }
        let image = LayoutImage::read(&bench.path("image")).unwrap();
        assert_eq!(image.manifest_digest, before.image.unwrap().manifest_digest);
        for name in ["image", "new"] {
            let left = files(&bench.path(name));
            // The other layers may not be complete either.
            let parts: Vec<_> =
                bench.layers.iter().map(|layer| oci::part_of(Path::new(layer.hex()))).collect();
            let is_right = |file: &String| {
                let is_part = parts.iter().any(|part| Path::new(file).ends_with(part));
                let is_whole = !file.contains(bench.layers[0].hex())
                    && !file.contains("/.")
                    && !file.starts_with('.');
                is_part || is_whole
            };
            assert!(left.iter().all(is_right), "{left:?}");
        }
        assert!(!bench.path("new/index.json").exists());
        let in_root = std::fs::read_dir(bench.folder.path()).unwrap();
        let mut in_root: Vec<_> = in_root.map(|entry| entry.unwrap().file_name()).collect();
        in_root.retain(|name| name != ".image.tar.part");
        in_root.sort();
        assert_eq!(in_root, ["cache", "image", "new"]);
        assert_eq!(tag_of(&other.host(), "made/image:tag").await, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_any_more_when_a_run_has_failed() {
    let (large, small) = (Bytes::from(vec![0; 64 << 20]), Bytes::from_static(b"small"));
    let bench = Bench::with_layers(vec![large.clone(), small.clone()]).await;
    let blob = format!("blobs/{}", Digest::of(&small));
    bench.proxy.on("GET", &blob).does(Fault::Answer(Answer::new(404)));
    // Reading this partial copy takes longer than the other layer takes to fail.
    let place = oci::layout::blob_path(&bench.path("image"), &Digest::of(&large));
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    let part = oci::part_of(&place);
    std::fs::write(&part, &large[1..]).unwrap();
    let (execution, _) = bench.run(vec![bench.layout("image", true)]).await;
    assert!(matches!(execution.end, End::Failed(_)), "{:?}", execution.end);
    // A copy locks its file. On a slow machine, this one may have been completed.
    if let Ok(part) = std::fs::File::open(&part) {
        part.try_lock().expect("the copy has ended");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_after_an_interrupted_one_goes_on() {
    let bench = Bench::new().await;
    let layer = format!("blobs/{}", bench.layers[2]);
    bench.proxy.on("GET", &layer).first(1).does(Fault::Stall);
    let settings = bench.settings(vec![bench.layout("image", true)]);
    let interrupt = once_asked(&bench.proxy, "GET", &layer);
    let (execution, _) = run(&bench.plan(), &settings, interrupt).await;
    assert!(matches!(execution.end, End::Interrupted), "{:?}", execution.end);
    let (execution, _) = bench.run(vec![bench.layout("image", true)]).await;
    assert!(matches!(execution.end, End::Succeeded), "{:?}", execution.end);
    let read = LayoutImage::read(&bench.path("image")).unwrap();
    assert_eq!((read.present_layers.len(), read.absent_layers.len()), (4, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_step_is_not_one_that_was_not_begun() {
    let bench = Bench::new().await;
    bench.proxy.on("GET", "/manifests/").does(Fault::Stall);
    let interrupt = once_asked(&bench.proxy, "GET", "/manifests/");
    let settings = bench.settings(vec![bench.layout("image", false)]);
    let (execution, _) = run(&bench.plan(), &settings, interrupt).await;
    assert!(matches!(execution.end, End::Interrupted));
    let states: Vec<_> = execution.steps.iter().map(|outcome| outcome.state).collect();
    assert_eq!(states, [StepState::Interrupted, StepState::NotBegun]);
    assert!(execution.image.is_none() && execution.outputs.is_empty());
    assert_eq!(files(bench.folder.path()), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_that_was_not_begun_has_all_its_steps() {
    let bench = Bench::new().await;
    let execution = executor::Execution::not_begun(&bench.plan(), End::NotBegun);
    assert_eq!(execution.steps.len(), 2);
    assert!(execution.steps.iter().all(|outcome| outcome.state == StepState::NotBegun));
    assert_eq!(execution.traffic, record::Traffic::default());
}
