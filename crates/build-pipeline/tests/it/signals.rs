//! Ctrl-C, kills and concurrent runs: existing output stays intact, and the next run works.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use testkit::{Fault, FaultProxy, RandomImage, gate_cases, gate_passed, shared_registry};

use crate::dsl::{Base, Project, is_killed, ran, until_hit};

fn send(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Waits until a condition holds. The limit is for a test that would never end, not for a slow
/// machine.
fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(300), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_signal_ends_a_run_in_good_order() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143), ("-HUP", 143), ("-QUIT", 130)] {
        let (project, base) = (Project::new(), Base::push(81));
        let proxy = FaultProxy::to(shared_registry().host());
        proxy.on("GET", base.image.layers[1].digest.as_str()).does(Fault::Stall);
        let child = project.begin(&format!("{} --with-layers", base.locked_spoof(&proxy.host())));
        until("the slow layer", || proxy.count("GET", base.image.layers[1].digest.as_str()) == 1);
        send(&child, signal);
        ran(child.wait_with_output().unwrap()).expect(code).says("interrupted");
        assert_eq!(project.records().pop().unwrap()["status"], "interrupted");
        assert!(!project.path("dist/locked-spoof/index.json").exists());
    }
}

#[test]
fn a_killed_run_is_known_as_killed() {
    let (project, base) = (Project::new(), Base::push(82));
    let proxy = FaultProxy::to(shared_registry().host());
    proxy.on("GET", "/blobs/").does(Fault::Stall);
    let child = project.begin(&base.locked_spoof(&proxy.host()));
    until("the config's request", || proxy.count("GET", "/blobs/") == 1);
    until("the record", || {
        project.path("home/.local/state/build-pipeline/records").read_dir().is_ok_and(|all| {
            all.flatten().any(|entry| entry.path().extension().is_some_and(|end| end == "json"))
        })
    });
    project.run("records").expect(0).prints("running");
    send(&child, "-KILL");
    child.wait_with_output().unwrap();
    project.run("records").expect(0).prints("killed");
}

#[test]
fn kills_leave_the_old_image_or_the_new_one() {
    let kills = gate_cases(100, 400);
    let (project, base) = (Project::new(), Base::push(83));
    let host = shared_registry().host();
    let large = RandomImage { layers: vec![300_000, 200_000, 100_000], ..RandomImage::new(84) }
        .push(host, &base.path, "large");
    let mirror = format!(
        "--track locked-spoof --mirror docker.io/rocm/vllm-dev={host}/{} --with-layers",
        base.path
    );
    let small = format!("{mirror} --set vllm-dev-locked={}", base.digest());
    let lines = [small.clone(), format!("{mirror} --set vllm-dev-locked={}", large.digest)];
    let digests = lines.each_ref().map(|line| project.run(line).expect(0).digest());
    // Measure how long a run takes on this machine, so that the kills hit it.
    let begun = Instant::now();
    project.run(&small).expect(0);
    let length = begun.elapsed();
    until_hit(kills, length, |round, moment| {
        let mut child = project.begin(&lines[round % 2]);
        std::thread::sleep(moment);
        let was_hit = is_killed(&mut child);
        let image = oci::LayoutImage::read(&project.path("dist/locked-spoof")).unwrap();
        assert!(digests.contains(&image.manifest_digest.to_string()), "round {round}");
        assert!(image.absent_layers.is_empty(), "round {round}: {:?}", image.absent_layers);
        was_hit
    });
    project.run(&small).expect(0);
    let blobs = project.path("dist/locked-spoof/blobs/sha256").read_dir().unwrap().count();
    assert_eq!(blobs, 2 + base.image.layers.len(), "killed runs leave nothing behind");
    gate_passed(1, kills);
}

#[test]
fn a_run_waits_for_another_one_until_that_is_killed() {
    let rounds = gate_cases(2, 50);
    let (project, base) = (Project::new(), Base::push(85));
    let proxy = FaultProxy::to(shared_registry().host());
    proxy.on("GET", "/blobs/").does(Fault::Stall);
    let line = base.locked_spoof(shared_registry().host());
    for round in 1..=rounds {
        // Cached content is not requested again.
        drop(std::fs::remove_dir_all(project.path("home/.cache")));
        let first = project.begin(&base.locked_spoof(&proxy.host()));
        until("the first run's request", || proxy.count("GET", "/blobs/") == round);
        project
            .run(&format!("{line} --lock-timeout 0"))
            .expect(10)
            .says(&format!("held by process {}", first.id()))
            .says("--lock-timeout");
        // A different output has a different lock.
        project.run(&format!("{line} --output oci:other --lock-timeout 0")).expect(0);

        let mut second = project.begin(&line);
        let mut said = BufReader::new(second.stderr.take().unwrap()).lines();
        let waits = "waiting for `oci:dist/locked-spoof`: held by process";
        assert!(said.any(|line| line.unwrap().contains(waits)), "it does not wait");
        send(&first, "-KILL");
        first.wait_with_output().unwrap();
        let rest: Vec<String> = said.map(Result::unwrap).collect();
        assert!(second.wait().unwrap().success(), "round {round}: {rest:?}");
    }
    gate_passed(6, rounds);
}

#[test]
fn many_runs_at_once_all_succeed() {
    let (project, base) = (Project::new(), Base::push(86));
    let line = format!("{} --with-layers", base.locked_spoof(shared_registry().host()));
    let children: Vec<Child> = (0..8).map(|_| project.begin(&line)).collect();
    let digests: Vec<String> = children
        .into_iter()
        .map(|child| ran(child.wait_with_output().unwrap()).expect(0).digest())
        .collect();
    assert!(digests.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(project.records().len(), 8);
    project.run("verify locked-spoof --mirror docker.io=127.0.0.1:1").expect(0);
}
