//! The engine comes first: it is found and tested before anything is fetched, failures of a probe
//! are not mistaken for results, and the record shows which engine was used and why.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use testkit::{EngineProxy, FaultProxy, shared_registry};

use crate::built::{Bench, dockerd};
use crate::dsl::{Ran, ran};
use crate::full_disk::on_small_disk;

/// Returns a Dockerfile whose RUN prints the compiler launcher: `ccache` if the builder keeps its
/// folder. No other Dockerfile has the same RUN, so no engine has cached its result.
fn dockerfile() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!(
        "ARG BASE\nFROM ${{BASE}} AS build\nENV PATH=/bin\nARG COMPILER_LAUNCHER=ccache\n\
         RUN --mount=type=cache,target=/kept : {number}; echo \"by ${{COMPILER_LAUNCHER}}.\"; echo 1 > /1\n\
         FROM ${{BASE}}\nCOPY --from=build /1 /1\n"
    )
}

const BUILD: &str = "--track vulkan --variant tiny";

/// A project whose base is behind a proxy that records requests.
struct Watched {
    bench: Bench,
    registry: FaultProxy,
}

impl Watched {
    fn new() -> Self {
        Self {
            bench: Bench::new(&dockerfile()),
            registry: FaultProxy::to(shared_registry().host()),
        }
    }

    fn command(&self, line: &str) -> Command {
        self.bench.command_at(line, &self.registry.host())
    }

    /// Runs a command with the docker at a socket.
    fn on(&self, socket: &Path, line: &str) -> Ran {
        let host = format!("unix://{}", socket.display());
        ran(self.command(line).env("DOCKER_HOST", host).output().unwrap())
    }

    /// Runs a build with the docker at a socket and a value of `DOCKER_BUILDKIT`.
    fn with_buildkit(&self, socket: &Path, value: &str) -> Ran {
        let host = format!("unix://{}", socket.display());
        let mut command = self.command(BUILD);
        ran(command.env("DOCKER_HOST", host).env("DOCKER_BUILDKIT", value).output().unwrap())
    }

    /// Returns the record of the last run.
    fn record(&self) -> Value {
        self.bench.project.records().pop().unwrap()
    }

    /// Fails the test if something was fetched or a step was started.
    #[track_caller]
    fn nothing_was_begun(&self) {
        let requests = self.registry.requests();
        assert!(requests.is_empty(), "{requests:?}");
        let record = self.record();
        assert_eq!(record["status"], "failed");
        let steps = record["steps"].as_array().unwrap();
        assert!(steps.iter().all(|step| step["state"] == "not-begun"), "{steps:?}");
        assert!(record["engine"].is_null());
        assert!(!record["error"].as_array().unwrap().is_empty());
    }
}

/// Returns whether a record contains a note of this rule.
fn has_note(record: &Value, rule: &str) -> bool {
    record["notes"].as_array().unwrap().iter().any(|note| note["rule"] == rule)
}

#[test]
fn without_an_engine_nothing_is_fetched() {
    let watched = Watched::new();
    let dead = watched.bench.project.path("no.sock");
    watched.on(&dead, BUILD).expect(3).says("found no engine to build with").says("no.sock");
    watched.nothing_was_begun();
    // A track that only adds metadata needs an engine only if the image is loaded into one.
    let base = watched.bench.base.clone();
    let mirror = format!("docker.io/ollama/ollama={}/built/tiny", watched.registry.host());
    let load = format!("--track ollama --set ollama={base} --load --mirror {mirror}");
    watched.on(&dead, &load).expect(3).says("`build-pipeline doctor`");
    watched.nothing_was_begun();
    let plain = format!("--track ollama --set ollama={base} --mirror {mirror}");
    watched.on(&dead, &plain).expect(0);
    assert!(!watched.registry.requests().is_empty(), "the proxy sees what is fetched");
}

/// podman fails here for each reason, but the reason is not podman.
#[test]
fn a_folder_that_podman_needs_is_named_and_no_other_engine_is_proposed() {
    let watched = Watched::new();
    let project = &watched.bench.project;
    project.write("bin/podman", "#!/bin/sh\necho cannot start >&2\nexit 1\n");
    let command = || watched.command(&format!("{BUILD} --engine podman"));
    let says = |ran: Ran, folder: &str, hint: &str| {
        let ran = ran.expect(3).says(folder).says(hint);
        assert!(!ran.stderr.contains("another engine"), "{}", ran.stderr);
        watched.nothing_was_begun();
    };
    let folder = "home/.cache/build-pipeline/store";
    let (cache, after) = (project.path("home/.cache"), project.path("after"));
    std::fs::create_dir_all(&cache).unwrap();
    let full = on_small_disk(&command(), &cache, &after, 16);
    says(full, "build-pipeline/store/work`: the disk is full", "`XDG_CACHE_HOME`");

    project.write(&format!("{folder}/work"), "");
    says(ran(command().output().unwrap()), &format!("{folder}/work`"), "`XDG_CACHE_HOME`");
    std::fs::remove_file(project.path(&format!("{folder}/work"))).unwrap();

    project.write("runtime/build-pipeline", "");
    let with = |folder: &Path| ran(command().env("XDG_RUNTIME_DIR", folder).output().unwrap());
    let wrong = with(&project.path("runtime"));
    says(wrong, "runtime/build-pipeline`", "`XDG_RUNTIME_DIR`");

    let none = project.path("none");
    says(with(&none), "cannot start", &format!("`XDG_RUNTIME_DIR` is `{}`", none.display()));
}

/// The other track of the run could be built, but is not started either, because the run cannot
/// succeed.
#[test]
fn a_track_that_needs_no_engine_waits_for_the_one_that_does() {
    let watched = Watched::new();
    let project = &watched.bench.project;
    project.set_variant("vulkan", "tiny");
    let mirror = format!("docker.io/ollama/ollama={}/built/tiny", watched.registry.host());
    let base = &watched.bench.base;
    let line = format!("--track ollama,vulkan --set ollama={base} --mirror {mirror}");
    watched.on(&project.path("no.sock"), &line).expect(3);
    watched.nothing_was_begun();
    assert_eq!(project.records().len(), 2);
}

#[test]
fn tracks_of_one_run_share_an_engine_that_was_tried_once() {
    let watched = Watched::new();
    let tracks = watched.bench.project.read("versions/tracks.toml");
    let tiny = "[source.variants.tiny]\nbase = \"tiny\"\n[[source.variants.tiny.stage]]\n\
                name = \"tiny\"\ndockerfile = \"dockerfiles/tiny.Dockerfile\"\n\n[source.env]";
    watched.bench.project.write("versions/tracks.toml", &tracks.replace("[source.env]", tiny));
    let proxy = EngineProxy::start(&dockerd().socket());
    watched.on(&proxy.socket(), "--track vulkan,source --variant tiny").expect(0);
    assert_eq!(proxy.builds(), 2, "one probe, and one step that both need");
    for record in watched.bench.project.records() {
        assert_eq!(record["engine"]["kind"], "docker");
    }
}

#[test]
fn what_is_finished_needs_no_engine() {
    let watched = Watched::new();
    watched.on(&dockerd().socket(), BUILD).expect(0);
    assert_eq!(watched.record()["engine"]["kind"], "docker");
    let dead = watched.bench.project.path("no.sock");
    watched.on(&dead, BUILD).expect(0);
    assert!(watched.record()["engine"].is_null(), "no engine was searched for");
    watched.on(&dead, &format!("{BUILD} --fresh")).expect(3);
}

/// The build may have left containers and images in the engine.
#[test]
fn an_engine_that_stops_during_a_build_is_followed_by_a_hint_to_clean() {
    let watched = Watched::new();
    let proxy = EngineProxy::start(&dockerd().socket());
    let said = std::thread::scope(|scope| {
        let build = scope.spawn(|| watched.on(&proxy.socket(), BUILD));
        // The engine has been tested before the first request to the registry.
        while watched.registry.requests().is_empty() && !build.is_finished() {
            std::thread::yield_now();
        }
        proxy.break_builds(usize::MAX);
        build.join().unwrap()
    });
    assert!(proxy.builds() > 1, "the test and the step");
    said.expect(3).says("`build-pipeline clean` removes what the build left");
}

#[test]
fn a_docker_without_buildkit_builds_with_its_classic_builder_and_a_warning() {
    let watched = Watched::new();
    let proxy = EngineProxy::start(&dockerd().socket());
    proxy.remove_buildkit();
    let ran = watched.on(&proxy.socket(), BUILD);
    ran.expect(0).says("[builder-fallback]").says("requires BuildKit").says("by .");
    let record = watched.record();
    assert_eq!(record["engine"]["builder"], "classic");
    assert!(has_note(&record, "builder-fallback"), "{}", record["notes"]);
}

#[test]
fn docker_buildkit_1_never_falls_back_and_0_asks_for_no_warning() {
    let watched = Watched::new();
    let proxy = EngineProxy::start(&dockerd().socket());
    proxy.remove_buildkit();
    let ran = watched.with_buildkit(&proxy.socket(), "1");
    ran.expect(3).says("DOCKER_BUILDKIT").says("requires BuildKit").says("`DOCKER_BUILDKIT=0`");
    watched.nothing_was_begun();
    let ran = watched.with_buildkit(&proxy.socket(), "0").expect(0).says("by .");
    assert!(!ran.stderr.contains("builder-fallback"), "{}", ran.stderr);
    let record = watched.record();
    assert_eq!(record["engine"]["builder"], "classic");
    assert!(!has_note(&record, "builder-fallback"));
}

/// Two runs on one daemon have the same instructions; one ends and removes its images just after
/// the other has taken them from the cache.
#[test]
fn a_build_whose_cache_another_run_removes_is_repeated() {
    let watched = Watched::new();
    let proxy = EngineProxy::start(&dockerd().socket());
    proxy.lose_cache(2);
    watched.with_buildkit(&proxy.socket(), "0").expect(0).says("by .");
    assert_eq!(proxy.builds(), 4, "the probe, two builds that lose their cache, and one more");

    let watched = Watched::new();
    proxy.lose_cache(usize::MAX);
    let ran = watched.with_buildkit(&proxy.socket(), "0").expect(3);
    ran.says("the engine removed a part of its cache while it was in use");
}

#[test]
fn a_pull_during_which_the_engine_loses_a_snapshot_is_repeated() {
    let watched = Watched::new();
    let proxy = EngineProxy::start(&dockerd().socket());
    proxy.lose_pulls(2);
    watched.with_buildkit(&proxy.socket(), "0").expect(0).says("by .");
    let is_pull = |line: &&String| line.contains("/images/create?");
    let pulls = proxy.requests().iter().filter(is_pull).count();
    assert_eq!(pulls, 3, "two pulls that lose a snapshot, and one more");

    let watched = Watched::new();
    proxy.lose_pulls(usize::MAX);
    let ran = watched.with_buildkit(&proxy.socket(), "0").expect(3);
    ran.says("the engine removed a part of its cache while it was in use");
}

#[test]
fn a_connection_that_breaks_is_no_answer_about_buildkit() {
    let watched = Watched::new();
    let proxy = EngineProxy::start(&dockerd().socket());
    proxy.break_builds(2);
    let ran = watched.on(&proxy.socket(), BUILD).expect(0).says("by ccache.");
    assert!(!ran.stderr.contains("builder-fallback"), "{}", ran.stderr);
    assert_eq!(
        proxy.builds(),
        4,
        "two attempts of the probe fail; the third one and the build succeed"
    );
    assert_eq!(watched.record()["engine"]["builder"], "buildkit");

    let watched = Watched::new();
    proxy.break_builds(usize::MAX);
    let ran = watched.on(&proxy.socket(), BUILD).expect(3).says("several attempts failed");
    assert!(!ran.stderr.contains("classic"), "{}", ran.stderr);
    watched.nothing_was_begun();
}

#[test]
fn the_record_names_the_engine_and_why_it_was_chosen() {
    let watched = Watched::new();
    let dead = watched.bench.project.path("no.sock");
    watched.on(&dead, &format!("{BUILD} --engine podman")).expect(0).prints("engine    podman ");
    let engine = &watched.record()["engine"];
    assert_eq!((&engine["kind"], &engine["builder"]), (&"podman".into(), &"podman".into()));
    assert_eq!(engine["origin"], "the podman program");
    assert_eq!(engine["address"], watched.bench.project.path("bin/podman").to_str().unwrap());
    assert!(["runc", "crun"].contains(&engine["runtime"].as_str().unwrap()), "{engine}");
    assert!(engine["version"].as_str().unwrap().starts_with(|c: char| c.is_ascii_digit()));
    let id = watched.record()["id"].as_str().unwrap().to_owned();
    let shown = watched.bench.project.run(&format!("records {id}")).expect(0);
    shown.prints("(the podman program)");

    let socket = dockerd().socket();
    watched.on(&socket, &format!("{BUILD} --fresh")).expect(0).prints("builder buildkit");
    let engine = &watched.record()["engine"];
    assert_eq!((&engine["kind"], &engine["builder"]), (&"docker".into(), &"buildkit".into()));
    assert_eq!(engine["origin"], "DOCKER_HOST");
    assert_eq!(engine["address"], format!("unix://{}", socket.display()));
    assert_eq!(engine["runtime"], "runc");
    // A record of an earlier release does not have this field.
    let path = watched.bench.project.path("home/.local/state/build-pipeline/records");
    let path = path.join(format!("{id}.json"));
    let mut old: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    old.as_object_mut().unwrap().remove("engine").unwrap();
    std::fs::write(&path, old.to_string()).unwrap();
    watched.bench.project.run(&format!("records {id}")).expect(0).prints("status   succeeded");
}

/// A podman without a working OCI runtime, a socket without a listener, and a docker.
#[test]
fn a_broken_engine_is_passed_over_with_a_warning() {
    let watched = Watched::new();
    let project = &watched.bench.project;
    let script = project.read("bin/podman").replace(
        "#!/bin/sh\nexec ",
        "#!/bin/sh\nfor word; do shift; case $word in crun|runc) word=/bin/false; esac; set -- \"$@\" \"$word\"; done\nexec ",
    );
    let broken = script.replace("\"$@\"\n", "--runtime /bin/false \"$@\"\n");
    project.write("bin/podman", &broken);
    std::fs::create_dir_all(project.path("run/podman")).unwrap();
    drop(UnixListener::bind(project.path("run/podman/podman.sock")).unwrap());
    std::os::unix::fs::symlink(dockerd().socket(), project.path("run/docker.sock")).unwrap();
    let auto = || {
        let mut command = watched.command(BUILD);
        command.env_remove("DOCKER_HOST").env("XDG_RUNTIME_DIR", project.path("run"));
        command
    };
    let ran = ran(auto().output().unwrap()).expect(0).says("[engine-passed-over]");
    let ran = ran.says("the podman program").says("the user's podman socket").says("refused");
    assert_eq!(ran.stderr.matches("[engine-passed-over]").count(), 2, "{}", ran.stderr);
    let record = watched.record();
    assert_eq!(record["engine"]["origin"], "the user's docker socket");
    assert!(has_note(&record, "engine-passed-over"));
    let passed_over = record["engine"]["passed_over"].as_array().unwrap();
    assert_eq!(passed_over[0]["origin"], "the podman program", "{passed_over:?}");
    assert!(!passed_over[0]["reason"].as_str().unwrap().is_empty());
    // A user who asks for podman does not get docker.
    let podman = crate::dsl::ran(auto().args(["--engine", "podman", "--fresh"]).output().unwrap());
    podman.expect(3).says("podman does not work");
}

/// Nothing but the socket that the variable names was tried.
#[test]
fn a_variable_that_names_a_dead_socket_is_named_with_how_to_unset_it() {
    let watched = Watched::new();
    let host = format!("unix://{}", watched.bench.project.path("no.sock").display());
    let told = |line: &str| {
        let mut command = watched.command(line);
        ran(command.env_remove("DOCKER_HOST").env("CONTAINER_HOST", &host).output().unwrap())
    };
    for line in [BUILD, "run ollama"] {
        let said =
            told(line).expect(3).says("the engine that `CONTAINER_HOST` selects does not answer");
        said.says("`unset CONTAINER_HOST`");
    }
    // Files can be written anyway, with a warning.
    told("run ollama --print shell").expect(0).says("[engine-silent]").says("the output is for ");
}
