//! Builds with the engines of other releases: what they build, and what they leave behind.

use testkit::{gate_cases, gate_passed};

use crate::site::{BUILD, Site, Way};

/// The promise that builds leave nothing behind.
const GATE: u8 = 2;

/// A Dockerfile of several steps. The file `how` in the context decides how its last RUN ends.
const STEPS: &str = "ARG BASE\nFROM ${BASE} AS first\nENV PATH=/bin\nRUN echo 1 > /1\nRUN echo 2 > /2\n\
    FROM ${BASE}\nENV PATH=/bin\nCOPY --from=first /1 /2 /\nRUN echo 3 > /3\nRUN ";

fn with_end(end: &str) -> String {
    format!("{STEPS}{end}\n")
}

/// Ends builds in every way. With podman, a build that is not killed leaves nothing behind; docker
/// keeps a cache of steps. `clean` removes what is left. Returns the number of builds.
#[track_caller]
fn nothing_is_left(suite: &str, way: Way) -> usize {
    let site = Site::new(suite, way, "");
    let build = format!("{BUILD} --engine {}", way.engine());
    let before = site.contents();
    let clean = |what: &str| {
        let cleaned = site.run(&format!("clean --engine {}", way.engine())).expect(0);
        assert_eq!(site.contents(), before, "{what}");
        if matches!(way, Way::BuildKit | Way::BuildKitInContainerd) {
            cleaned.prints("docker builder prune");
        }
    };
    let ended = |what: &str| {
        if way.engine() == "podman" {
            assert_eq!(site.contents(), before, "{what}, before `clean`");
        }
        clean(what);
    };
    let write = |end: &str| site.project.write("dockerfiles/tiny.Dockerfile", &with_end(end));
    write("echo 4 > /4");
    site.run(&build).expect(0);
    ended("a good build");
    write("echo 5; exit 9");
    site.run(&build).expect(1).says("status 9");
    ended("a build that failed");
    write("echo asleep; sleep 3000");
    assert_eq!(site.begin_until("asleep").end_with("-INT"), Some(130));
    ended("an interrupted build");
    site.begin_until("asleep").end_with("-KILL");
    clean("a killed build");
    if way.engine() == "podman" {
        site.kill_all(site.begin_until("asleep"));
        clean("a build that was killed together with its engine");
        return 5;
    }
    4
}

/// The engines, and how many of them an ordinary test run covers. `cargo xtask gates` covers all.
const ENGINES: [(&str, Way); 8] = [
    ("trixie", Way::Podman),
    ("trixie", Way::Classic),
    ("trixie", Way::BuildKit),
    ("sid", Way::RootlessPodman),
    ("sid", Way::ClassicInContainerd),
    ("sid", Way::BuildKitInContainerd),
    ("bookworm", Way::Podman),
    ("experimental", Way::Podman),
];
const USUAL: usize = 2;

#[test]
fn nothing_is_left_of_a_build_in_a_newer_podman() {
    nothing_is_left("trixie", Way::Podman);
}

#[test]
#[ignore = "runs every night: it takes minutes"]
fn nothing_is_left_of_any_build() {
    let engines = ENGINES.iter().take(gate_cases(USUAL, ENGINES.len()));
    let cases = engines.map(|(suite, way)| nothing_is_left(suite, *way)).sum();
    gate_passed(GATE, cases);
}

/// With the containerd image store, docker 26's BuildKit cannot read the build context
/// (moby#47717).
#[test]
fn docker_26_with_the_store_of_containerd_falls_back_to_its_classic_builder() {
    let site = Site::new("trixie", Way::BuildKitInContainerd, &with_end("echo 4 > /4"));
    let build = format!("{BUILD} --engine docker");
    site.run(&build)
        .expect(0)
        .says("docker's BuildKit cannot be used")
        .says("failed to read downloaded context");
    site.run("verify dist/vulkan-tiny").expect(0);
}
