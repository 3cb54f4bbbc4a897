//! Transfers that are interrupted and continued: what all runs fetch together, and what a log shows
//! meanwhile.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::{
    Fault, FaultProxy, PodmanStore, PushedImage, RandomImage, gate_cases, shared_registry,
};

use crate::built::dockerd;
use crate::dsl::{Base, Project, Ran, ran};

/// The sizes of the layers, in bytes.
const LAYERS: [usize; 3] = [12_000_000; 3];
/// How much of a response can be lost if a run ends: hyper reads at most 408 KiB ahead of what is
/// written (its `DEFAULT_MAX_BUFFER_SIZE`), and there are the heads of the responses. How far ahead
/// it is depends on the speed of the machine.
const READ_AHEAD: u64 = 512 << 10;
const UNLIMITED: u64 = u64::MAX;
/// The longest time between two lines, with a margin for a busy machine.
const SILENCE: Duration = Duration::from_secs(10 + 5);
/// How long a slow transfer takes at least.
const SLOW: Duration = Duration::from_secs(25);

/// A project whose track `locked-spoof` is based on a large image, and an empty podman.
struct Large {
    project: Project,
    podman: PodmanStore,
    base: Base,
    image: PushedImage,
}

impl Large {
    fn new(seed: u64, layers: &[usize]) -> Self {
        let (project, podman, base) = (Project::new(), PodmanStore::new(), Base::push(seed));
        let image = RandomImage { layers: layers.to_vec(), ..RandomImage::new(seed + 1) }.push(
            shared_registry().host(),
            &base.path,
            "large",
        );
        project.write_podman(&podman);
        Self { project, podman, base, image }
    }

    /// Starts a registry that sends as many bytes of layers as it is allowed to.
    fn registry(&self, allowed: u64) -> (FaultProxy, Arc<AtomicU64>) {
        let proxy = FaultProxy::to(shared_registry().host());
        let left = Arc::new(AtomicU64::new(allowed));
        for layer in &self.image.layers {
            proxy.on("GET", layer.digest.as_str()).does(Fault::Allowance(Arc::clone(&left)));
        }
        (proxy, left)
    }

    fn command(&self, proxy: &FaultProxy, line: &str) -> Command {
        let build = self.base.locked_spoof(&proxy.host());
        let build = build.replace(&self.base.digest(), self.image.digest.as_str());
        let mirror = build.split_once("--mirror ").unwrap().1.split(' ').next().unwrap();
        let image = format!("{}/{}@{}", proxy.host(), self.base.path, self.image.digest);
        let line = line.replace("BUILD", &build).replace("IMAGE", &image);
        let line = line.replace("MIRROR", &format!("--mirror {mirror}"));
        let mut command = self.project.command(&line.split_whitespace().collect::<Vec<_>>());
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", self.project.path("bin").display()));
        if line.contains("--engine docker") {
            command.env("DOCKER_HOST", format!("unix://{}", dockerd().socket().display()));
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn whole(&self) -> u64 {
        self.image.layers.iter().map(|layer| layer.bytes.len() as u64).sum()
    }

    /// Runs a command until it has received `allowed` bytes, and interrupts it. Returns how much of
    /// each layer it reported.
    fn interrupted(
        &self,
        line: &str,
        allowed: u64,
        is_reported: bool,
        signal: &str,
    ) -> BTreeMap<String, u64> {
        let (proxy, left) = self.registry(allowed);
        let mut child = self.command(&proxy, &format!("{line} --progress json")).spawn().unwrap();
        let lines = lines_of(&mut child);
        let mut done = BTreeMap::new();
        loop {
            match lines.recv_timeout(Duration::from_millis(100)) {
                Ok((_, line)) => note(&line, &mut done),
                Err(error) => assert_eq!(error, RecvTimeoutError::Timeout, "{line}: it has ended"),
            }
            if left.load(Ordering::Relaxed) == 0 && (!is_reported || !done.is_empty()) {
                break;
            }
        }
        let kill = [signal.to_owned(), child.id().to_string()];
        assert!(Command::new("kill").args(kill).status().unwrap().success());
        lines.iter().for_each(|(_, line)| note(&line, &mut done));
        let ended = ran(child.wait_with_output().unwrap());
        assert!([130, 143].contains(&ended.code), "{line}: {}", ended.code);
        // Lets the threads of the proxy end.
        left.store(UNLIMITED, Ordering::Relaxed);
        done
    }

    /// Returns what all recorded runs received.
    fn received(&self) -> u64 {
        let of = |record: &Value| record["traffic"]["bytes_received"].as_u64().unwrap();
        self.project.records().iter().map(of).sum()
    }

    /// Returns the unfinished transfers in the cache.
    fn parts(&self) -> Vec<String> {
        let folder = self.project.path("home/.cache/build-pipeline/blobs/sha256");
        let names = std::fs::read_dir(folder).into_iter().flatten();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".part")).collect()
    }
}

/// Returns the lines of standard error, with the time of each.
fn lines_of(child: &mut Child) -> mpsc::Receiver<(Instant, String)> {
    let (said, lines) = mpsc::channel();
    let from = BufReader::new(child.stderr.take().unwrap());
    std::thread::spawn(move || {
        for line in from.lines().map_while(Result::ok) {
            drop(said.send((Instant::now(), line)));
        }
    });
    lines
}

fn note(line: &str, done: &mut BTreeMap<String, u64>) {
    let event: Value = serde_json::from_str(line).unwrap();
    if event["event"] == "layer-progress" {
        done.insert(event["layer"].as_str().unwrap().to_owned(), event["done"].as_u64().unwrap());
    }
}

/// Returns a number from `from` to `to` that depends only on the seed.
fn number(seed: u64, from: u64, to: u64) -> u64 {
    let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    from + (mixed ^ (mixed >> 29)) % (to - from)
}

/// Interrupts a command twice, lets it end, and returns the result.
fn interrupted_twice(large: &Large, line: &str, seed: u64) -> Ran {
    // Of three layers that share this, one has more than the 4 MiB after which it is reported.
    let first = number(seed, 14_000_000, 20_000_000);
    large.interrupted(line, first, true, "-INT");
    let second = number(seed + 1, 4_000_000, 8_000_000);
    let done = large.interrupted(line, second, false, "-TERM");
    let (proxy, _) = large.registry(UNLIMITED);
    let ended = ran(large.command(&proxy, line).output().unwrap()).expect(0);
    for (layer, done) in done {
        for request in proxy.requests().iter().filter(|one| one.target.contains(&layer)) {
            if request.method == "GET" {
                let range = request.header("Range").unwrap_or_default().to_owned();
                let begin = range.strip_prefix("bytes=").and_then(|range| range.strip_suffix('-'));
                let begin: u64 = begin.unwrap_or("0").parse().unwrap();
                assert!(begin >= done, "{line}: {layer} begins at {begin}, not at {done}");
            }
        }
    }
    assert_eq!(large.parts(), [""; 0], "{line}");
    ended
}

/// A registry and an engine forget an unfinished layer, so the beginning is kept in the cache.
#[test]
fn whatever_is_interrupted_fetches_little_more_than_the_image() {
    for round in 0..u64::try_from(gate_cases(1, 10)).unwrap() {
        let outputs = [
            "--with-layers -o oci:image",
            "-o oci-archive:image.tar",
            "--push REF",
            "--load --engine podman",
            "--load --engine docker",
        ];
        for (number, output) in outputs.into_iter().enumerate() {
            let seed = 5100 + 100 * round + 10 * u64::try_from(number).unwrap();
            let large = Large::new(seed, &LAYERS);
            let target =
                format!("{}/resumed/{seed}-{}:1", shared_registry().host(), std::process::id());
            let line = format!("BUILD {}", output.replace("REF", &target));
            interrupted_twice(&large, &line, seed).prints("(written; ");
            let (sum, whole) = (large.received(), large.whole());
            let most_lost = 2 * LAYERS.len() as u64 * READ_AHEAD;
            assert!(sum <= whole + most_lost, "{output}: {sum} of {whole}");
            // Nothing changed, so no layer is fetched again.
            let (proxy, _) = large.registry(UNLIMITED);
            let again = ran(large.command(&proxy, &line).output().unwrap()).expect(0);
            again.prints("(up to date; no layers transferred)");
            assert_eq!(proxy.count("GET", "/blobs/"), 0, "{output}");
        }
    }
}

#[test]
fn a_finished_image_is_pushed_on_where_an_interrupted_push_stopped() {
    let large = Large::new(5010, &LAYERS);
    let (proxy, _) = large.registry(UNLIMITED);
    ran(large.command(&proxy, "BUILD").output().unwrap()).expect(0);
    let target = format!("{}/resumed/thin-{}:1", shared_registry().host(), std::process::id());
    interrupted_twice(&large, &format!("push locked-spoof {target} MIRROR"), 5010)
        .prints("(written; ");
    ran(large.command(&proxy, &format!("verify {target} MIRROR")).output().unwrap()).expect(0);
}

/// The beginning of a layer in the cache is not trusted.
#[test]
fn a_damaged_beginning_is_fetched_again() {
    for (seed, output) in [(5020, "--push REF"), (5024, "--load --engine podman")] {
        let large = Large::new(seed, &LAYERS);
        let target =
            format!("{}/resumed/{seed}-{}:1", shared_registry().host(), std::process::id());
        let line = format!("BUILD {}", output.replace("REF", &target));
        large.interrupted(&line, 18_000_000, true, "-INT");
        let parts = large.parts();
        assert!(!parts.is_empty(), "{output}");
        let folder = large.project.path("home/.cache/build-pipeline/blobs/sha256");
        for part in parts {
            let mut bytes = std::fs::read(folder.join(&part)).unwrap();
            bytes[0] ^= 1;
            std::fs::write(folder.join(part), bytes).unwrap();
        }
        let (proxy, _) = large.registry(UNLIMITED);
        ran(large.command(&proxy, &line).output().unwrap()).expect(0).prints("(written; ");
        assert_eq!(large.parts(), [""; 0], "{output}");
    }
}

/// Something that takes at least 25 s, whatever the speed of the machine.
struct Slow {
    large: Large,
    proxy: FaultProxy,
    left: Arc<AtomicU64>,
    /// Holds the requests for manifests, or for everything but blobs.
    is_released: Arc<AtomicBool>,
}

impl Slow {
    fn new(seed: u64) -> Self {
        let large = Large::new(seed, &[10_000_000]);
        let (proxy, left) = large.registry(0);
        Self { large, proxy, left, is_released: Arc::default() }
    }

    /// Runs a command. `at_line` is called when it has printed a line. Returns the lines, with the
    /// time since the line before.
    fn run(&self, line: &str, at_line: impl Fn(&str)) -> Vec<(Duration, String)> {
        let begun = Instant::now();
        let mut child = self.large.command(&self.proxy, line).spawn().unwrap();
        let lines = lines_of(&mut child);
        let (mut last, mut said) = (begun, Vec::new());
        let (mut part, mut asked) = (0, None);
        let layer = self.large.image.layers[0].digest.as_str();
        loop {
            match lines.recv_timeout(Duration::from_millis(50)) {
                Ok((now, text)) => {
                    at_line(&text);
                    said.push((now - last, text));
                    last = now;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            // Sends the layer bit by bit, as soon as it is requested.
            if asked.is_none() && self.proxy.count("GET", layer) > 0 {
                asked = Some(Instant::now());
            }
            let flowing = asked.map(|asked| asked.elapsed()).unwrap_or_default();
            let now = u64::try_from(flowing.as_millis() * 100 / SLOW.as_millis()).unwrap();
            self.left.fetch_add((now - part) * 100_000, Ordering::Relaxed);
            part = now;
            if flowing > SLOW {
                self.left.store(UNLIMITED, Ordering::Relaxed);
            }
            if begun.elapsed() > SLOW {
                self.is_released.store(true, Ordering::Relaxed);
            }
            assert!(last.elapsed() < Duration::from_secs(120), "{line}: silent after {said:#?}");
        }
        said.push((last.elapsed(), "the end".to_owned()));
        drop(child.wait());
        assert!(begun.elapsed() >= SLOW, "{line}: it was fast: {said:#?}");
        assert!(said.iter().all(|(gap, _)| *gap <= SILENCE), "{line}: {said:#?}");
        said
    }

    /// Holds everything that is not the blob of a layer.
    fn hold(&self, what: &str) {
        self.proxy.on("*", what).does(Fault::Held(Arc::clone(&self.is_released)));
    }
}

/// The first line of a build comes before anything is requested from a registry or an engine, so a
/// slow one cannot delay it.
#[test]
fn a_slow_build_prints_a_line_at_least_every_10_seconds() {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let slow = Slow::new(5030);
            let is_begun = Arc::new(AtomicBool::new(false));
            slow.proxy.on("*", "/manifests/").does(Fault::Held(Arc::clone(&is_begun)));
            slow.run("BUILD -o oci-archive:image.tar", |_| is_begun.store(true, Ordering::Relaxed));
        });
        scope.spawn(|| {
            let slow = Slow::new(5032);
            let is_begun = Arc::new(AtomicBool::new(false));
            slow.proxy.on("*", "/manifests/").does(Fault::Held(Arc::clone(&is_begun)));
            let target = format!("{}/slow/{}:1", shared_registry().host(), std::process::id());
            let line = format!("BUILD --push {target}");
            slow.run(&line, |_| is_begun.store(true, Ordering::Relaxed));
        });
        scope.spawn(|| {
            let slow = Slow::new(5034);
            // podman does not answer before the line about it.
            let project = &slow.large.project;
            let go = project.path("go");
            let wait = format!("#!/bin/sh\nwhile [ ! -e {} ]; do sleep 0.1; done", go.display());
            project.edit("bin/podman", "#!/bin/sh", &wait);
            let said = slow.run("BUILD --load --engine podman", |line| {
                if line == "· testing podman" {
                    std::fs::write(&go, "").unwrap();
                }
            });
            let name = "engine:localhost/build-pipeline/locked-spoof:latest";
            for wanted in [
                format!("· {name}: 10.0 MB of layers"),
                format!("✓ {name} (10.0 MB of layers transferred)"),
            ] {
                assert!(
                    said.iter().any(|(_, line)| line.starts_with(&wanted)),
                    "{wanted}: {said:#?}"
                );
            }
            let is_moving = |line: &str| {
                line.starts_with(&format!("· {name}: ")) && line.contains(" MB of 10.0 MB, ")
            };
            assert!(said.iter().any(|(_, line)| is_moving(line)), "{said:#?}");
            let images = slow.large.podman.podman(&["images", "--quiet"]);
            assert!(!images.is_empty());
        });
    });
}

#[test]
fn other_slow_commands_print_a_line_at_least_every_10_seconds() {
    std::thread::scope(|scope| {
        for (seed, line, received) in [
            (5040, "audit IMAGE --gpu gfx1151", true),
            (5042, "slim IMAGE --gpu gfx1151 -o oci:small", true),
            (5044, "diff IMAGE IMAGE2", true),
            (5046, "bump vllm-dev-locked large BUMP --mirror-only", false),
            (5048, "patch check vllm GIT", false),
            (5050, "bump vllm GIT", false),
            (5052, "outdated vllm GIT", false),
        ] {
            scope.spawn(move || {
                let slow = Slow::new(seed);
                let other = format!("{}/{}:base", shared_registry().host(), slow.large.base.path);
                let git = format!("--mirror https://github.com={} --mirror-only", slow.proxy.url());
                let filled = line.replace("IMAGE2", &other).replace("GIT", &git);
                let filled = filled.replace("BUMP", "MIRROR");
                if filled != line && !line.contains("IMAGE2") {
                    slow.hold("/");
                }
                let said = slow.run(&filled, |_| {});
                let command = line.split(' ').next().unwrap();
                let running = format!("· {command}: running for ");
                let mut beats = said.iter().filter(|(_, text)| text.starts_with(&running));
                let is_right = |text: &str| !received || text.ends_with(" MB received so far");
                assert!(beats.any(|(_, text)| is_right(text)), "{line}: {said:#?}");
            });
        }
    });
}

/// A rehearsal waits for nothing, so this test measures its CPU time.
#[test]
fn an_empty_folder_becomes_a_proven_rehearsal_in_two_seconds() {
    let project = Project::empty();
    let program = env!("CARGO_BIN_EXE_build-pipeline");
    let script =
        format!("{program} init . && {program} --track official --rehearse && echo times && times");
    let mut command = Command::new("bash");
    command.args(["-c", &script]).current_dir(project.path("")).env_clear();
    command.env("HOME", project.path("home")).env("PATH", std::env::var("PATH").unwrap());
    let ended = ran(command.output().unwrap()).expect(0).prints("proven");
    let times = ended.stdout.lines().skip_while(|line| *line != "times").nth(2).unwrap();
    // `times` prints minutes and seconds: `0m1.250s 0m0.100s`.
    let seconds = |text: &str| -> f64 {
        let (minutes, seconds) = text.trim_end_matches('s').split_once('m').unwrap();
        minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
    };
    let used: f64 = times.split_whitespace().map(seconds).sum();
    assert!(used <= 2.0, "{used} s");
}
