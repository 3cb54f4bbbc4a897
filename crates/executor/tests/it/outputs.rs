//! Successful runs: outputs, events, and what is transferred.

use executor::{End, Event, Output};
use names::Digest;
use oci::LayoutImage;
use oci::loopback::{LoopbackRegistry, StoredBlob};
use oci::stand_in::StandIn;
use record::{OutputState, StepState};
use testkit::{Answer, Fault, FaultProxy, RandomImage, shared_registry};

use crate::support::*;

fn states(execution: &executor::Execution) -> Vec<(&str, StepState)> {
    execution.steps.iter().map(|outcome| (outcome.step.as_str(), outcome.state)).collect()
}

/// Returns a short form of the events, without times and digests.
fn told(events: &[Event]) -> Vec<String> {
    let line = |event: &Event| match event {
        Event::PlanBegun { steps, .. } => format!("plan of {steps} steps"),
        Event::StepBegun { step, .. } => format!("begin {step}"),
        Event::StepEnded { step, state, .. } => format!("end {step}: {state:?}"),
        Event::Note { rule, .. } => format!("note {rule}"),
        Event::OutputBegun { .. } => "begin output".to_owned(),
        Event::LayerProgress { done, total, .. } => format!("layer {}", done * 2 / total),
        Event::OutputEnded { state, .. } => format!("end output: {state:?}"),
        Event::BuildInstruction { .. }
        | Event::BuildLine { .. }
        | Event::LayerSealed { .. }
        | Event::LayersWanted { .. }
        | Event::LayerSlimmed { .. } => "a step at work".to_owned(),
    };
    events.iter().map(line).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thin_layout_moves_no_layer_and_a_second_run_no_byte() {
    let bench = Bench::new().await;
    let (first, events) = bench.run(vec![bench.layout("image", false)]).await;
    assert!(matches!(first.end, End::Succeeded), "{:?}", first.end);
    assert_eq!(
        states(&first),
        [("fetch-base", StepState::Done), ("derive-image", StepState::Done)]
    );
    assert_eq!(
        told(&events),
        [
            "plan of 2 steps",
            "begin fetch-base",
            "end fetch-base: Done",
            "begin derive-image",
            "end derive-image: Done",
            "begin output",
            "end output: Written",
        ]
    );
    assert_eq!(bench.layers_fetched(), []);
    // The manifest and the config.
    assert_eq!(first.traffic.requests, 2);
    let summary = first.image.unwrap();
    assert_eq!(summary.base_manifest, bench.base);
    assert_eq!((summary.base_index, summary.layers), (None, 4));
    assert_eq!(summary.layer_bytes, bench.layer_bytes + 70_000);
    assert_eq!(summary.reset, ["vendor"]);
    let read = LayoutImage::read(&bench.path("image")).unwrap();
    assert_eq!(read.manifest_digest, summary.manifest_digest);
    assert_eq!((read.present_layers.len(), read.absent_layers.len()), (0, 4));
    assert_eq!(read.name.as_deref(), Some("locked-spoof"));

    let (second, events) = bench.run(vec![bench.layout("image", false)]).await;
    assert_eq!(second.traffic.requests, 0);
    assert_eq!(told(&events)[2], "end fetch-base: Cached");
    assert_eq!(second.outputs[0].state, OutputState::UpToDate);
    assert_eq!(second.image.unwrap().manifest_digest, summary.manifest_digest);
    // The plan digest in the events is the one in the label.
    let Event::PlanBegun { plan_digest, .. } = &events[0] else { panic!("{events:?}") };
    let config: serde_json::Value = serde_json::from_slice(&read.config).unwrap();
    let label = &config["config"]["Labels"][plan::labels::PLAN_DIGEST];
    assert_eq!(label.as_str(), Some(plan_digest.as_str()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_layout_gets_each_layer_once_and_only_those_it_lacks() {
    let bench = Bench::new().await;
    let full = || vec![bench.layout("image", true)];
    let (first, events) = bench.run(full()).await;
    assert!(matches!(first.end, End::Succeeded), "{:?}", first.end);
    assert_eq!(bench.layers_fetched(), bench.layers);
    let outcome = &first.outputs[0];
    assert_eq!((outcome.layers_copied, outcome.layers_mounted), (3, 0));
    assert_eq!(outcome.layer_bytes_copied, bench.layer_bytes);
    // Only the one layer larger than 4 MiB reports progress: after 4 MiB, and at its end.
    assert_eq!(told(&events).iter().filter(|line| line.starts_with("layer")).count(), 2);
    let read = LayoutImage::read(&bench.path("image")).unwrap();
    assert_eq!((read.present_layers.len(), read.absent_layers.len()), (4, 0));

    let (second, _) = bench.run(full()).await;
    assert_eq!((second.traffic.requests, second.outputs[0].state), (0, OutputState::UpToDate));

    std::fs::remove_file(oci::layout::blob_path(&bench.path("image"), &bench.layers[1])).unwrap();
    let (third, _) = bench.run(full()).await;
    assert_eq!((third.traffic.requests, third.outputs[0].layers_copied), (1, 1));
    assert_eq!(LayoutImage::read(&bench.path("image")).unwrap().absent_layers, []);
    // A flipped byte does not change the size, and the time can be reset.
    let damaged = oci::layout::blob_path(&bench.path("image"), &bench.layers[2]);
    let flip = || {
        let modified = std::fs::metadata(&damaged).unwrap().modified().unwrap();
        let mut bytes = std::fs::read(&damaged).unwrap();
        bytes[0] ^= 1;
        std::fs::write(&damaged, bytes).unwrap();
        std::fs::File::options()
            .write(true)
            .open(&damaged)
            .unwrap()
            .set_modified(modified)
            .unwrap();
    };
    flip();
    let (healed, _) = bench.run(full()).await;
    assert_eq!(
        (healed.outputs[0].state, healed.outputs[0].layers_copied),
        (OutputState::Written, 1)
    );
    LayoutImage::read(&bench.path("image")).unwrap();
    flip();
    let (thin, _) = bench.run(vec![bench.layout("image", false)]).await;
    assert!(matches!(thin.end, End::Succeeded), "{:?}", thin.end);
    assert_eq!(
        LayoutImage::read(&bench.path("image")).unwrap().absent_layers,
        [bench.layers[2].clone()]
    );
    bench.run(full()).await;
    // A thin layout written over a full one keeps the layers.
    let (fourth, _) = bench.run(vec![bench.layout("image", false)]).await;
    assert_eq!(fourth.outputs[0].state, OutputState::UpToDate);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_has_each_layer_once() {
    let bench = Bench::new().await;
    let output = |name: &str| Output::Archive { path: bench.path(name) };
    let (execution, _) = bench.run(vec![output("one.tar"), output("a/two.tar")]).await;
    assert!(matches!(execution.end, End::Succeeded), "{:?}", execution.end);
    for outcome in &execution.outputs {
        assert_eq!(outcome.state, OutputState::Written);
        assert_eq!((outcome.layers_copied, outcome.layer_bytes_copied), (3, bench.layer_bytes));
    }
    let read = LayoutImage::read(&bench.path("one.tar")).unwrap();
    assert_eq!(read.manifest_digest, execution.image.unwrap().manifest_digest);
    assert_eq!((read.present_layers.len(), read.absent_layers.len()), (4, 0));
    let [one, two] = ["one.tar", "a/two.tar"].map(|name| std::fs::read(bench.path(name)).unwrap());
    assert!(one == two);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_takes_from_disk_what_is_there() {
    let bench = Bench::new().await;
    let path = bench.path("x.tar");
    let archive = || vec![Output::Archive { path: path.clone() }];
    let (first, _) = bench.run(archive()).await;
    assert_eq!((first.outputs[0].state, first.outputs[0].layers_copied), (OutputState::Written, 3));
    let whole = std::fs::read(&path).unwrap();
    let (second, _) = bench.run(archive()).await;
    assert_eq!((second.outputs[0].state, second.traffic.requests), (OutputState::UpToDate, 0));

    // An interrupted run for another image left a partial file.
    std::fs::write(oci::part_of(&path), "beginning").unwrap();
    let (third, _) = bench.run(archive()).await;
    assert_eq!(third.outputs[0].state, OutputState::UpToDate);
    assert!(!oci::part_of(&path).exists());

    // The other layers of a damaged archive are used, and the damaged one is fetched.
    let at = whole.len() - 1024 - 500;
    let mut damaged = whole.clone();
    damaged[at] ^= 1;
    std::fs::write(&path, &damaged).unwrap();
    let (third, _) = bench.run(archive()).await;
    assert_eq!((third.outputs[0].state, third.outputs[0].layers_copied), (OutputState::Written, 1));
    assert!(std::fs::read(&path).unwrap() == whole);

    // A layout nearby has all layers, including those that an interrupted run started to copy.
    bench.run(vec![bench.layout("full", true)]).await;
    std::fs::write(oci::part_of(&bench.path("y.tar")), &whole[..whole.len() / 2]).unwrap();
    let large = bench.layers.iter().find(|layer| is_large(&bench, layer)).unwrap();
    let blob = |folder| oci::layout::blob_path(&bench.path(folder), large);
    let bytes = std::fs::read(blob("full")).unwrap();
    std::fs::create_dir_all(blob("z").parent().unwrap()).unwrap();
    std::fs::write(oci::part_of(&blob("z")), &bytes[..bytes.len() / 2]).unwrap();
    let fetched = bench.layers_fetched().len();
    let mut settings = bench
        .settings(vec![Output::Archive { path: bench.path("y.tar") }, bench.layout("z", true)]);
    settings.nearby = vec![bench.path("full"), bench.path("missing")];
    let (fourth, _) = run(&bench.plan(), &settings, std::future::pending()).await;
    assert!(matches!(fourth.end, End::Succeeded), "{:?}", fourth.end);
    assert_eq!(bench.layers_fetched().len(), fetched);
    assert!(std::fs::read(bench.path("y.tar")).unwrap() == whole);
    assert_eq!(LayoutImage::read(&bench.path("z")).unwrap().absent_layers, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_another_run_writes_is_left_to_it() {
    let bench = Bench::new().await;
    let archive = bench.path("x.tar");
    let blob = oci::layout::blob_path(&bench.path("image"), &bench.layers[0]);
    std::fs::create_dir_all(blob.parent().unwrap()).unwrap();
    for (output, path) in [
        (Output::Archive { path: archive.clone() }, &archive),
        (bench.layout("image", true), &blob),
    ] {
        let held = oci::open_part(path).unwrap();
        let (execution, _) = bench.run(vec![output.clone()]).await;
        let End::Failed(error) = &execution.end else { panic!("{:?}", execution.end) };
        assert_eq!(error.kind(), executor::ErrorKind::Busy, "{error:?}");
        assert_eq!(held.metadata().unwrap().len(), 0, "{output}");
        drop(held);
        let (execution, _) = bench.run(vec![output]).await;
        assert!(matches!(execution.end, End::Succeeded), "{:?}", execution.end);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_broke_off_continues_where_it_was() {
    for is_archive in [false, true] {
        for is_damaged in [false, true] {
            let bench = Bench::new().await;
            let large = &bench.layers.iter().find(|layer| is_large(&bench, layer)).unwrap();
            let blob = format!("blobs/{large}");
            let (output, part) = if is_archive {
                let path = bench.path("x.tar");
                (Output::Archive { path: path.clone() }, oci::part_of(&path))
            } else {
                let path = oci::layout::blob_path(&bench.path("image"), large);
                (bench.layout("image", true), oci::part_of(&path))
            };
            bench.proxy.on("GET", &blob).first(1).does(Fault::CloseAt(3 << 20));
            bench.proxy.on("GET", &blob).nth(2).does(Fault::Answer(Answer::new(404)));
            let (broken, _) = bench.run(vec![output.clone()]).await;
            assert!(matches!(broken.end, End::Failed(_)), "{:?}", broken.end);
            let mut kept = std::fs::read(&part).unwrap();
            assert!(kept.len() > 1 << 20, "{} bytes", kept.len());
            if is_damaged {
                let at = kept.len() - 100;
                kept[at] ^= 1;
                std::fs::write(&part, &kept).unwrap();
            }
            let (second, _) = bench.run(vec![output]).await;
            assert!(matches!(second.end, End::Succeeded), "{:?}", second.end);
            assert!(!part.exists());
            let requests = bench.proxy.requests();
            let ranges: Vec<_> = requests
                .iter()
                .filter(|request| request.target.contains(&blob))
                .map(|request| request.header("range").is_some())
                .collect();
            // The second request of the first run also continued an earlier one.
            let wanted: &[bool] =
                if is_damaged { &[false, true, true, false] } else { &[false, true, true] };
            assert_eq!(ranges, wanted);
            if !is_damaged {
                let most = bench.layer_bytes + (1 << 16) - (1 << 20);
                assert!(second.traffic.bytes_received < most, "{:?}", second.traffic);
            }
            let path = bench.path(if is_archive { "x.tar" } else { "image" });
            assert_eq!(LayoutImage::read(&path).unwrap().absent_layers, []);
        }
    }
}

/// Returns whether a layer is the large one.
fn is_large(bench: &Bench, layer: &Digest) -> bool {
    matches!(bench.registry.blob(layer), Some(StoredBlob::Memory(bytes)) if bytes.len() > 1 << 20)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_push_to_a_registry_mounts_the_layers() {
    let bench = Bench::new().await;
    let other = LoopbackRegistry::start().await.unwrap();
    let output = |name: &str| registry_output(&other.host(), name);
    let (execution, _) = bench.run(vec![output("one/image:1"), output("two/image:1")]).await;
    assert!(matches!(execution.end, End::Succeeded), "{:?}", execution.end);
    let moved: Vec<_> = execution
        .outputs
        .iter()
        .map(|outcome| (outcome.layers_copied, outcome.layers_mounted))
        .collect();
    assert_eq!(moved, [(3, 0), (0, 3)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_beside_the_base_moves_no_layer_byte() {
    let bench = Bench::new().await;
    let (host, image) = (bench.proxy.host(), "made/image:tag");
    let (first, _) = bench.run(vec![registry_output(&host, image)]).await;
    assert!(matches!(first.end, End::Succeeded), "{:?}", first.end);
    let outcome = &first.outputs[0];
    assert_eq!((outcome.state, outcome.layers_mounted), (OutputState::Written, 3));
    assert_eq!((outcome.layers_copied, outcome.layer_bytes_copied), (0, 0));
    assert_eq!(bench.layers_fetched(), []);
    assert_eq!(bench.proxy.count("POST", "mount="), 3);
    let made = first.image.unwrap().manifest_digest;
    assert_eq!(tag_of(&host, image).await, Some(made.clone()));

    // The second run sends one request and nothing else.
    let (second, _) = bench.run(vec![registry_output(&host, image)]).await;
    assert_eq!((second.traffic.requests, second.outputs[0].state), (1, OutputState::UpToDate));

    // Without a tag, the image is available by its digest.
    let (third, _) = bench.run(vec![registry_output(&host, "made/untagged")]).await;
    assert!(matches!(third.end, End::Succeeded), "{:?}", third.end);
    assert_eq!(tag_of(&host, &format!("made/untagged@{made}")).await, Some(made));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_into_the_repository_of_the_base_asks_for_layers_only_where_it_must() {
    let bench = Bench::new().await;
    let host = bench.proxy.host();
    let plan = plan_of(&bench.repository(), &bench.base, None);
    let output = |tag: &str| vec![registry_output(&host, &format!("rocm/vllm-dev:{tag}"))];
    // The base was just read from there.
    let (first, _) = run(&plan, &bench.settings(output("one")), std::future::pending()).await;
    assert!(matches!(first.end, End::Succeeded), "{:?}", first.end);
    assert_eq!(bench.proxy.count("HEAD", "/blobs/"), 0);
    // The base was read from there by an earlier run.
    let (second, _) = run(&plan, &bench.settings(output("two")), std::future::pending()).await;
    assert!(matches!(second.end, End::Succeeded), "{:?}", second.end);
    assert_eq!(bench.proxy.count("HEAD", "/blobs/"), 3);
    assert_eq!(bench.layers_fetched(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_to_a_mirror_that_lacks_the_base_brings_the_layers() {
    let bench = Bench::new().await;
    let mirror = LoopbackRegistry::start().await.unwrap();
    let (origin, host) = (bench.proxy.host(), mirror.host());
    let plan = plan_of(&bench.repository(), &bench.base, None);
    let mut settings = bench.settings(vec![registry_output(&host, "rocm/vllm-dev:made")]);
    settings.client = client(&format!("{origin}={host}"));
    let (execution, _) = run(&plan, &settings, std::future::pending()).await;
    assert!(matches!(execution.end, End::Succeeded), "{:?}", execution.end);
    assert_eq!(execution.outputs[0].layers_copied, 3);
    let made = execution.image.unwrap().manifest_digest;
    assert_eq!(tag_of(&host, "rocm/vllm-dev:made").await, Some(made));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_to_another_registry_streams_each_layer_once() {
    let bench = Bench::new().await;
    let other = LoopbackRegistry::start().await.unwrap();
    let proxy = FaultProxy::to(&other.host());
    let output = || vec![registry_output(&proxy.host(), "made/image:tag")];
    let (first, _) = bench.run(output()).await;
    assert!(matches!(first.end, End::Succeeded), "{:?}", first.end);
    let outcome = &first.outputs[0];
    assert_eq!((outcome.layers_copied, outcome.layers_mounted), (3, 0));
    assert_eq!(outcome.layer_bytes_copied, bench.layer_bytes);
    assert_eq!(bench.layers_fetched(), bench.layers);
    // Three layers and the config.
    assert_eq!((proxy.count("PUT", "/blobs/"), proxy.count("POST", "mount=")), (4, 0));
    let summary = first.image.unwrap();
    assert_eq!(tag_of(&proxy.host(), "made/image:tag").await, Some(summary.manifest_digest));

    // If they are already there, they are not sent again.
    let (second, _) = bench.run(vec![registry_output(&proxy.host(), "made/image:other")]).await;
    assert!(matches!(second.end, End::Succeeded), "{:?}", second.end);
    assert_eq!((second.outputs[0].layers_copied, bench.layers_fetched().len()), (0, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn debians_registry_takes_the_image_by_mounting_and_by_streaming() {
    let host = shared_registry().host();
    let image = RandomImage { is_index: true, ..RandomImage::new(4711) };
    let base = tokio::task::spawn_blocking(move || image.push(host, "rocm/vllm-dev", "base"));
    let base = base.await.unwrap();
    let bench = Bench::new().await;
    let plan = plan_over(&base.digest, Some("index"));
    let outputs = vec![
        registry_output(host, "made/image:tag"),
        registry_output(&bench.registry.host(), "made/image:tag"),
    ];
    let mut settings = bench.settings(outputs);
    settings.client = client(&format!("registry.invalid={host}"));
    let (execution, _) = run(&plan, &settings, std::future::pending()).await;
    assert!(matches!(execution.end, End::Succeeded), "{:?}", execution.end);
    let [mounted, streamed] = &execution.outputs[..] else { panic!("{execution:?}") };
    assert_eq!((mounted.layers_mounted, mounted.layers_copied), (2, 0));
    assert_eq!((streamed.layers_mounted, streamed.layers_copied), (0, 2));
    let summary = execution.image.unwrap();
    assert_eq!(summary.base_index, Some(base.digest));
    assert_eq!(summary.base_manifest, base.manifest.digest);
    for host in [host, &bench.registry.host()] {
        let found = tag_of(host, "made/image:tag").await;
        assert_eq!(found.as_ref(), Some(&summary.manifest_digest));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_outputs_get_the_same_image() {
    let bench = Bench::new().await;
    let outputs = vec![
        bench.layout("thin", false),
        Output::Archive { path: bench.path("x.tar") },
        registry_output(&bench.proxy.host(), "made/image:tag"),
        bench.layout("full", true),
    ];
    let (execution, _) = bench.run(outputs.clone()).await;
    assert!(matches!(execution.end, End::Succeeded), "{:?}", execution.end);
    let spelled: Vec<_> = outputs.iter().map(ToString::to_string).collect();
    let found: Vec<_> = execution.outputs.iter().map(|outcome| outcome.output.clone()).collect();
    assert_eq!(found, spelled);
    let made = execution.image.unwrap().manifest_digest;
    for name in ["thin", "full", "x.tar"] {
        assert_eq!(LayoutImage::read(&bench.path(name)).unwrap().manifest_digest, made);
    }
    assert_eq!(tag_of(&bench.proxy.host(), "made/image:tag").await, Some(made));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spoof_on_a_base_with_native_code_is_noted() {
    let bench = Bench::new().await;
    let stand_in = StandIn::new(&REPOSITORY.parse().unwrap(), plan::ManifestKind::Index, &[]);
    stand_in.serve_from(&bench.registry);
    // Stand-ins have no gfx1151, so there is no note …
    let plan = plan_over(&stand_in.digest, Some("index"));
    let settings = bench.settings(vec![bench.layout("image", false)]);
    let (execution, _) = run(&plan, &settings, std::future::pending()).await;
    assert!(matches!(execution.end, End::Succeeded), "{:?}", execution.end);
    assert_eq!(execution.notes, []);
    // … but there is one for a GPU that they do have.
    let mut draft = plan.into_draft();
    draft.gpu = "gfx1100".parse().unwrap();
    if let Some(plan::Action::DeriveImage { edit, .. }) =
        draft.steps.last_mut().map(|step| &mut step.action)
    {
        edit.labels.insert(plan::labels::GPU.to_owned(), "gfx1100".to_owned());
    }
    let plan = draft.finish().unwrap();
    let (execution, events) = run(&plan, &settings, std::future::pending()).await;
    assert_eq!(execution.notes.len(), 1);
    assert_eq!(execution.notes[0].rule, "spoof-not-needed");
    assert!(told(&events).contains(&"note spoof-not-needed".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_cache_heals() {
    let bench = Bench::new().await;
    let (first, _) = bench.run(Vec::new()).await;
    let cached = || files(&bench.path("cache/sha256"));
    assert_eq!(cached().len(), 2);
    for (number, file) in cached().into_iter().enumerate() {
        let path = bench.path("cache/sha256").join(&file);
        let bytes = std::fs::read(&path).unwrap();
        for damaged in [&b""[..], &bytes[1..], &[&bytes[..], b" "].concat()] {
            std::fs::write(&path, damaged).unwrap();
            let (again, _) = bench.run(Vec::new()).await;
            assert!(matches!(again.end, End::Succeeded), "{number}: {:?}", again.end);
            assert_eq!((again.traffic.requests, &again.image), (1, &first.image));
            assert_eq!(Digest::of(&std::fs::read(&path).unwrap()).hex(), file);
        }
    }
    // If nothing can be cached, everything is fetched.
    std::fs::remove_dir_all(bench.path("cache")).unwrap();
    std::fs::write(bench.path("cache"), "a file").unwrap();
    for _ in 0..2 {
        let (again, _) = bench.run(Vec::new()).await;
        assert_eq!((again.traffic.requests, &again.image), (2, &first.image));
    }
}

#[test]
fn the_json_of_the_events() {
    let digest = Digest::of(b"");
    let output = || "oci:dist/x".to_owned();
    let events = [
        Event::PlanBegun { plan_digest: digest.clone(), steps: 2 },
        Event::StepBegun { step: "fetch-base".to_owned(), what: "w".to_owned() },
        Event::StepEnded {
            step: "fetch-base".to_owned(),
            state: StepState::Cached,
            milliseconds: 1,
            store: None,
        },
        Event::Note { rule: "r".to_owned(), message: "m".to_owned() },
        Event::OutputBegun { output: output(), layer_bytes: 1 },
        Event::LayerProgress { output: output(), layer: digest, done: 1, total: 2 },
        Event::OutputEnded {
            output: output(),
            state: OutputState::UpToDate,
            layer_bytes_copied: 0,
        },
    ];
    let lines = events.map(|event| serde_json::to_string(&event).unwrap());
    insta::assert_snapshot!(lines.join("\n"));
}
