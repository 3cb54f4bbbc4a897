//! Signals at any moment, suspended runs and readers that disappear: each run ends cleanly.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testkit::{gate_cases, gate_passed, shared_registry};

use crate::built::Bench;
use crate::dsl::{Project, Ran, Two, ran, until_hit};
use crate::lock::Release;

const FILE: &str = "versions/versions.toml";
/// The promise that a run ends cleanly after a signal or when its reader disappears.
const GATE: u8 = 19;

/// The signals that stop a run, with the possible exit codes: the program's own, and that of a
/// signal that arrives before it listens.
const SIGNALS: [(&str, [i32; 2]); 3] =
    [("-INT", [130, 130]), ("-TERM", [143, 143]), ("-HUP", [143, 129])];

/// Sends a signal. The process may already have ended.
fn send(child: &Child, signal: &str) {
    drop(Command::new("kill").args([signal, &child.id().to_string()]).output());
}

/// Starts a command whose output is kept.
fn begin(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Interrupts a running command the given number of times, at moments distributed over the time
/// that it takes on this machine, and checks each result. Every fourth run is signalled twice.
fn interrupt(rounds: usize, command: &dyn Fn(usize) -> Command, look: &dyn Fn(usize, &Ran)) {
    let begun = Instant::now();
    ran(command(0).output().unwrap()).expect(0);
    let length = begun.elapsed();
    until_hit(rounds, length, |round, moment| {
        let mut child = begin(&mut command((round + 1) % 2));
        std::thread::sleep(moment);
        let (signal, codes) = SIGNALS[round % SIGNALS.len()];
        let was_running = child.try_wait().unwrap().is_none();
        send(&child, signal);
        if round % 4 == 0 {
            send(&child, signal);
        }
        let ended = ran(child.wait_with_output().unwrap());
        let is_known = ended.code == 0 || codes.contains(&ended.code);
        assert!(is_known, "round {round}: {signal} ended it with {}: {}", ended.code, ended.stderr);
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
        look(round, &ended);
        was_running
    });
}

#[test]
fn a_build_that_is_interrupted_at_random_is_recorded_and_leaves_a_whole_image() {
    let rounds = gate_cases(6, 60);
    let two = Two::new(361);
    let digests = [0, 1].map(|image| two.run(&two.build_of(image)).expect(0).digest());
    interrupt(rounds, &|image| two.command(&two.build_of(image)), &|round, ended| {
        let digest = two.image_at("dist/locked-spoof");
        assert!(digests.contains(&digest), "round {round}");
        let record = two.project.records().pop().unwrap();
        let status = record["status"].as_str().unwrap();
        assert!(["succeeded", "interrupted"].contains(&status), "round {round}: {status}");
        if ended.stderr.contains("interrupted") {
            assert_eq!(status, "interrupted", "round {round}");
        }
    });
    two.run(&two.build_of(0)).expect(0);
    gate_passed(GATE, rounds);
}

#[test]
fn a_bump_or_lock_that_is_interrupted_at_random_leaves_whole_files() {
    let two = Two::new(363);
    let texts = [0, 1].map(|image| {
        two.run(&two.bump(image)).expect(0);
        two.project.read(FILE)
    });
    let bumps = gate_cases(3, 20);
    interrupt(bumps, &|image| two.command(&two.bump(image)), &|round, _| {
        assert!(texts.contains(&two.project.read(FILE)), "round {round}");
    });

    let release = Release::new(&["1.0", "2.0"]);
    let locks = ["pylock.demo.toml", "demo.requirements.lock"];
    let read = || locks.map(|name| release.project.read(&format!("versions/locks/{name}")));
    let command = |version: usize| {
        release.ask_for(["1.0", "2.0"][version]);
        release.project.command(&release.lock().split_whitespace().collect::<Vec<_>>())
    };
    let wholes = [0, 1].map(|version| {
        ran(command(version).output().unwrap()).expect(0);
        read()
    });
    let looked_up = gate_cases(1, 10);
    interrupt(looked_up, &command, &|round, _| {
        let now = read();
        let is_whole = |at: usize| wholes.iter().any(|whole| whole[at] == now[at]);
        assert!(is_whole(0) && is_whole(1), "round {round}");
    });
    gate_passed(GATE, bumps + looked_up);
}

#[test]
fn a_build_in_an_engine_that_is_interrupted_leaves_nothing_running() {
    let rounds = gate_cases(1, 10);
    let bench = Bench::new("ARG BASE\nFROM ${BASE}\nENV PATH=/bin\nRUN sleep 3000\n");
    let line = "--track vulkan --variant tiny --engine podman";
    for round in 0..rounds {
        let mut command = bench.command_at(line, shared_registry().host());
        let child = begin(&mut command);
        let limit = Instant::now() + Duration::from_secs(600);
        while bench.podman.container_processes().is_empty() {
            assert!(Instant::now() < limit, "the RUN does not begin");
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(u64::try_from(round * 37 % 100).unwrap()));
        let (signal, codes) = SIGNALS[round % SIGNALS.len()];
        send(&child, signal);
        ran(child.wait_with_output().unwrap()).expect(codes[0]).says("interrupted");
        assert_eq!(bench.project.records().pop().unwrap()["status"], "interrupted");
        // The podman service's supervisor stops its processes, perhaps a moment after the program
        // has ended.
        let limit = Instant::now() + Duration::from_secs(600);
        while !bench.podman.container_processes().is_empty() {
            assert!(Instant::now() < limit, "round {round}: the RUN is still in progress");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    gate_passed(GATE, rounds);
}

#[test]
fn a_test_of_an_engine_that_is_interrupted_leaves_nothing() {
    let bench = Bench::new("ARG BASE\nFROM ${BASE}\n");
    let line = "--track vulkan --variant tiny --engine podman --fresh";
    let host = shared_registry().host();
    for (pause, (signal, codes)) in [100, 600, 1500].into_iter().zip(SIGNALS) {
        let mut child = begin(&mut bench.command_at(line, host));
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.by_ref().any(|line| line.contains("testing podman")));
        std::thread::spawn(move || lines.for_each(drop));
        std::thread::sleep(Duration::from_millis(pause));
        send(&child, signal);
        let code = child.wait().unwrap().code().unwrap();
        assert!(code == 0 || codes.contains(&code), "{signal}: {code}");
        let left = ran(bench.command_at("clean --dry-run --engine podman", host).output().unwrap());
        assert!(!left.expect(0).stdout.contains("probe-"), "{signal}");
    }
}

#[test]
fn a_build_that_is_suspended_goes_on() {
    let rounds = gate_cases(2, 20);
    let two = Two::new(365);
    let begun = Instant::now();
    let digests = [0, 1].map(|image| two.run(&two.build_of(image)).expect(0).digest());
    let length = begun.elapsed() / 2;
    until_hit(rounds, length, |round, moment| {
        let mut child = two.begin(&two.build_of(round % 2));
        std::thread::sleep(moment);
        let was_running = child.try_wait().unwrap().is_none();
        send(&child, "-STOP");
        std::thread::sleep(Duration::from_millis(20));
        send(&child, "-CONT");
        let ended = ran(child.wait_with_output().unwrap()).expect(0);
        assert_eq!(ended.digest(), digests[round % 2], "round {round}");
        was_running
    });
    gate_passed(GATE, rounds);
}

/// Commands that print something.
const PRINTING: [&str; 20] = [
    "--help",
    "help exit-codes",
    "plan --track locked-spoof",
    "plan --track vulkan --format json",
    "explain locked-spoof",
    "pins show",
    "pins show --format json",
    "records",
    "records --format json",
    "lint dockerfiles/vulkan/debian.Dockerfile",
    "lint dockerfiles/vulkan/debian.Dockerfile --format json",
    "schema plan",
    "completions bash",
    "doctor",
    "doctor --format json",
    "env",
    "clean --engine none",
    "patch check llama.cpp --root tree",
    "lock --check",
    "--track locked-spoof --rehearse",
];

#[test]
fn a_reader_that_goes_away_ends_a_run_without_a_word() {
    let project = Project::new();
    project.write("tree/a.txt", "");
    project.run("--track ollama --rehearse").expect(0);
    let mut cases = 0;
    for line in PRINTING {
        let words: Vec<&str> = line.split_whitespace().collect();
        let whole = project.run(line);
        for is_all in [false, true] {
            let gone = || {
                let (reader, writer) = std::io::pipe().unwrap();
                drop(reader);
                writer
            };
            let mut command = project.command(&words);
            command.stdout(gone()).stderr(Stdio::piped());
            if is_all {
                command.stderr(gone());
            }
            let ended = ran(command.spawn().unwrap().wait_with_output().unwrap());
            assert!(!ended.stderr.contains("panicked"), "{line}: {}", ended.stderr);
            assert_eq!(ended.code, whole.code, "{line}: {}", ended.stderr);
            cases += 1;
        }
    }
    assert_eq!(project.records().pop().unwrap()["status"], "succeeded");
    gate_passed(GATE, cases);
}
