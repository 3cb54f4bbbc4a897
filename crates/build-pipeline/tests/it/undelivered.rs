//! How the layers of a base get to an engine: each is downloaded once. If that fails, the next
//! location is tried, and the error is about the layer and not about the engine.

use testkit::{
    Answer, Fault, FaultProxy, PushedBlob, PushedImage, RandomImage, busybox_root, shared_registry,
};

use crate::built::Bench;
use crate::dsl::{Project, Ran, ran};

/// A project whose track `vulkan` has a variant `tiny` on a base that no engine has.
struct Undelivered {
    bench: Bench,
    base: PushedImage,
}

/// The command that builds the variant.
const BUILD: &str = "--track vulkan --variant tiny";

impl Undelivered {
    fn new(seed: u64) -> Self {
        let bench = Bench::new("ARG BASE\nFROM ${BASE}\nENV PATH=/bin\nRUN echo x > /x\n");
        let below = vec![busybox_root()];
        let image = RandomImage { below, layers: vec![100_000], ..RandomImage::new(seed) };
        let base = image.push(shared_registry().host(), "built/tiny", &format!("u{seed}"));
        bench.project.edit("versions/versions.toml", &bench.base, base.digest.as_str());
        Self { bench, base }
    }

    /// Returns a registry with a fault in a layer of the base, and the digest of the layer.
    fn faulty(&self, fault: Fault) -> (FaultProxy, String) {
        let layer = self.own_layer();
        let proxy = FaultProxy::to(shared_registry().host());
        proxy.on("GET", layer.digest.as_str()).does(fault);
        (proxy, layer.digest.to_string())
    }

    /// Returns the layer that no other image has: docker downloads a layer once for all pulls that
    /// need it at the same time, so a fault in a common layer would also hit other tests.
    fn own_layer(&self) -> &PushedBlob {
        self.base.layers.last().unwrap()
    }

    fn run(&self, line: &str, registry: &str) -> Ran {
        ran(self.bench.command_at(line, registry).output().unwrap())
    }
}

/// Faults, each with the exit code and the name of the warning about the mirror.
fn faults() -> [(Fault, i32, &'static str); 3] {
    [
        (Fault::Flip(4000), 6, "[mirror-distrusted]"),
        (Fault::ResetAt(4000), 5, "[mirror-failed]"),
        (Fault::Answer(Answer::new(500)), 5, "[mirror-failed]"),
    ]
}

/// Checks that a build with an engine names the layer and the location of each fault.
fn names_the_layer(engine: &str, first: u64) {
    for (number, (fault, code, _)) in (first..).zip(faults()) {
        let made = Undelivered::new(number);
        let (proxy, layer) = made.faulty(fault.clone());
        let line = format!("{BUILD} --engine {engine}");
        let built = made.run(&line, &proxy.host()).expect(code);
        let built = built
            .says(&format!("fetching layer `{layer}` failed"))
            .says(&format!("at `{}` ", proxy.host()));
        assert!(!built.stderr.contains("doctor"), "{}", built.stderr);
    }
}

#[test]
fn a_layer_that_is_wrong_or_missing_is_named_with_its_location() {
    names_the_layer("podman", 9500);
}

/// docker repeats each request for more than a minute.
#[test]
#[ignore = "runs every night: it takes minutes"]
fn docker_also_names_a_layer_that_is_wrong_or_missing() {
    names_the_layer("docker", 9505);
}

/// Checks that a build with an engine takes the layer from the next location after each fault.
fn goes_to_the_next_location(engine: &str, first: u64) {
    for (number, (fault, _, warning)) in (first..).zip(faults()) {
        let made = Undelivered::new(number);
        let (proxy, _) = made.faulty(fault.clone());
        // The rule for the registry that works comes last.
        let rule = format!("--mirror registry.example.org={}", proxy.host());
        let line = format!("{BUILD} --engine {engine} {rule}");
        made.run(&line, shared_registry().host()).expect(0).says(warning);
    }
}

#[test]
fn the_next_location_gives_the_layer_to_the_engine() {
    goes_to_the_next_location("podman", 9510);
}

#[test]
#[ignore = "runs every night: it takes minutes"]
fn the_next_location_gives_the_layer_to_docker() {
    goes_to_the_next_location("docker", 9520);
}

#[test]
fn a_copy_without_an_engine_also_goes_to_the_next_location() {
    let made = Undelivered::new(9530);
    let versions = made.bench.project.read("versions/tracks.toml");
    let mine = "\n[mine]\ntitle = \"t\"\ndescription = \"d\"\nbase = \"tiny\"\n";
    made.bench.project.write("versions/tracks.toml", &format!("{versions}{mine}"));
    let (proxy, layer) = made.faulty(Fault::Flip(4000));
    let line = "--track mine --with-layers";
    let alone = made.run(&format!("{line} --output oci:alone"), &proxy.host()).expect(6);
    alone.says(&layer).says(&format!("at `{}` ", proxy.host()));
    let rule = format!("--mirror registry.example.org={}", proxy.host());
    let line = format!("{line} {rule} --output oci:both");
    made.run(&line, shared_registry().host()).expect(0).says("[mirror-distrusted]");
}

#[test]
fn a_damaged_bundle_is_named_when_an_engine_builds_from_it() {
    let made = Undelivered::new(9540);
    let project = &made.bench.project;
    made.run("bundle vulkan --variant tiny --output a.tar", shared_registry().host()).expect(0);
    let mut bytes = std::fs::read(project.path("a.tar")).unwrap();
    let layer = made.own_layer();
    let begin = bytes.windows(64).position(|some| some == &layer.bytes[..64]).unwrap();
    bytes[begin + layer.bytes.len() / 2] ^= 1;
    std::fs::write(project.path("a.tar"), bytes).unwrap();
    let line = format!("{BUILD} --engine podman --bundle a.tar");
    let built = made.run(&line, "127.0.0.1:1").expect(6);
    let built = built.says("a.tar").says(layer.digest.as_str());
    assert!(!built.stderr.contains("doctor"), "{}", built.stderr);
}

/// Returns the number of layers in the cache of a project, and of their beginnings.
fn kept_layers(project: &Project) -> usize {
    let cache = std::fs::read_dir(project.path("home/.cache/build-pipeline/blobs/sha256")).unwrap();
    let names = cache.map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.as_encoded_bytes().ends_with(b".part")).count()
}

/// Checks that a cold build downloads each layer of the base once, for each kind of output, and
/// leaves none of them in the cache.
fn downloads_each_layer_once(engine: &str, first: u64) {
    let outputs = ["--output oci:a", "--output oci-archive:a.tar", "--load"];
    for (number, output) in (first..).zip(outputs) {
        let made = Undelivered::new(number);
        let proxy = FaultProxy::to(shared_registry().host());
        let line = format!("{BUILD} --engine {engine} {output}");
        made.run(&line, &proxy.host()).expect(0);
        let layer = made.own_layer();
        assert_eq!(proxy.count("GET", layer.digest.as_str()), 1, "{output}");
        assert_eq!(kept_layers(&made.bench.project), 0, "{output}");
    }
}

#[test]
fn a_cold_build_downloads_each_layer_of_its_base_once() {
    downloads_each_layer_once("podman", 9550);
    downloads_each_layer_once("docker", 9560);
}

#[test]
fn a_build_that_failed_leaves_the_base_for_the_next_one() {
    let made = Undelivered::new(9570);
    let project = &made.bench.project;
    let right = project.read("dockerfiles/tiny.Dockerfile");
    project.write("dockerfiles/tiny.Dockerfile", &right.replace("echo x > /x", "exit 3"));
    let proxy = FaultProxy::to(shared_registry().host());
    let line = format!("{BUILD} --engine podman --output oci:a");
    assert_ne!(made.run(&line, &proxy.host()).code, 0);
    assert!(kept_layers(project) > 0);
    project.write("dockerfiles/tiny.Dockerfile", &right);
    made.run(&line, &proxy.host()).expect(0);
    assert_eq!(proxy.count("GET", made.own_layer().digest.as_str()), 1);
    assert_eq!(kept_layers(project), 0);
    // The same if the next run finds the sealed image and does not fetch the base.
    let layer = made.own_layer();
    let name = format!("home/.cache/build-pipeline/blobs/sha256/.{}.part", layer.digest.hex());
    std::fs::write(project.path(&name), &layer.bytes).unwrap();
    made.run(&line.replace("oci:a", "oci:b"), &proxy.host()).expect(0);
    assert_eq!(proxy.count("GET", layer.digest.as_str()), 1);
    assert_eq!(kept_layers(project), 0);
}
