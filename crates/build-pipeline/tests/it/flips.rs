//! Only pinned content is built, even if a registry or a file changes in the meantime.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use testkit::{
    Answer, Fault, FaultProxy, PushedImage, RandomImage, gate_cases, gate_passed, shared_registry,
};

use crate::dsl::{Base, Project, same};

/// Returns the base digest in the labels of an image in a layout, and the digests of its layers.
fn built(project: &Project, name: &str) -> (String, Vec<String>) {
    let image = oci::LayoutImage::read(&project.path(&format!("dist/{name}"))).unwrap();
    let config: Value = serde_json::from_slice(&image.config).unwrap();
    let base = &config["config"]["Labels"]["org.opencontainers.image.base.digest"];
    let manifest: Value = serde_json::from_slice(&image.manifest).unwrap();
    let layers = manifest["layers"].as_array().unwrap();
    let digest = |layer: &Value| layer["digest"].as_str().unwrap().to_owned();
    (base.as_str().unwrap().to_owned(), layers.iter().map(digest).collect())
}

/// Fails the test if an image does not have the digest and all layers of `base`.
#[track_caller]
fn assert_based_on(project: &Project, name: &str, base: &PushedImage) {
    let (digest, layers) = built(project, name);
    let wanted: Vec<String> = base.layers.iter().map(|layer| layer.digest.to_string()).collect();
    assert_eq!((digest, layers), (base.digest.to_string(), wanted));
}

/// Stops a thread, even if the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The tag of a base is moved back and forth while a track that follows it is built.
#[test]
fn a_tag_that_flips_during_a_build_gives_one_image_or_the_other_and_never_a_mixture() {
    let rounds = gate_cases(3, 20);
    let host = shared_registry().host();
    let path = format!("rocm/flips-{}", std::process::id());
    let push = |seed| RandomImage::new(seed).push(host, &path, "nightly");
    let bases = [push(1301), push(1302)];
    let line = format!(
        "--track nightly-spoof --with-layers --mirror docker.io/rocm/vllm-dev={host}/{path}"
    );
    let stop = AtomicBool::new(false);
    let project = Project::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for seed in [1301, 1302].into_iter().cycle() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                push(seed);
            }
        });
        let _stop = Stop(&stop);
        for round in 0..rounds {
            let image = project.run(&line).expect(0).digest();
            let records = project.records();
            let is_of_it = |record: &&Value| record["image"]["manifest_digest"] == image.as_str();
            let record = records.iter().find(is_of_it).unwrap();
            let pinned = record["plan"]["overrides"]["vllm-dev-nightly"].as_str().unwrap();
            let digest = pinned.strip_prefix("nightly@").unwrap();
            let base = bases.iter().find(|one| one.digest.as_str() == digest);
            assert_based_on(&project, "nightly-spoof", base.expect(digest));
            assert_eq!(record["image"]["base_manifest"], digest, "round {round}");
        }
    });
    gate_passed(12, rounds);
}

/// For each request in turn, the registry answers with content that belongs to another image.
#[test]
fn a_registry_that_changes_its_content_at_any_request_is_found_out() {
    let host = shared_registry().host();
    let (base, other) = (Base::push(1311), RandomImage::new(1312).push(host, "rocm/flipped", "x"));
    // First find out which requests a run makes.
    let quiet = FaultProxy::to(host);
    let run = |proxy: &FaultProxy| {
        let project = Project::new();
        let line = base.pinned_at(&project, &proxy.host());
        let ran = project.run(&format!("{line} --with-layers"));
        (project, ran)
    };
    run(&quiet).1.expect(0);
    let asked = quiet.requests().into_iter().filter(|one| one.method == "GET");
    let blobs: Vec<String> = asked.map(|one| one.target).collect();
    assert!(blobs.len() >= 3, "{blobs:?}");
    let manifest = &other.manifest.bytes;
    let config = &other.config.bytes;
    let layer = &other.layers[0].bytes;
    let mut tried = 0;
    for target in &blobs {
        for content in [manifest, config, layer] {
            let proxy = FaultProxy::to(host);
            proxy.on("GET", target).does(Fault::Body(content.clone()));
            let (project, ran) = run(&proxy);
            // A response to a request without a digest does not describe the image, so such a run
            // may succeed.
            if ran.code == 0 {
                assert!(!target.contains("sha256"), "{target}: {}", ran.stderr);
                assert_based_on(&project, "locked-spoof", &base.image);
            } else {
                assert!([5, 6].contains(&ran.code), "{target}: {}", ran.stderr);
                assert!(!project.path("dist/locked-spoof/index.json").exists(), "{target}");
            }
            tried += 1;
        }
    }
    gate_passed(12, tried);
}

/// If a registry does not have a digest, its tag is not tried instead.
#[test]
fn a_pinned_digest_that_is_gone_is_not_replaced_by_what_the_tag_has_now() {
    let (project, base) = (Project::new(), Base::push(1321));
    let proxy = FaultProxy::to(shared_registry().host());
    proxy.on("GET", base.image.digest.as_str()).does(Answer::new(404));
    let line = base.pinned_at(&project, &proxy.host());
    let before = project.files();
    project.run(&line).expect(5);
    same(&project.files(), &before, "a refused build");
    assert_eq!(proxy.count("GET", "/manifests/base"), 0);
    gate_passed(12, 1);
}
