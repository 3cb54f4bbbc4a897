//! Builds that end in every possible way, at every moment: the tool is interrupted or killed, the
//! engine's service is killed, or both. Afterwards no `RUN` continues, `clean` removes everything
//! that belongs to this tool and nothing else, and the next build gives the right result.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use engine::{
    BuildEvent, DockerBuilder, Engine, EngineError, Leftover, LeftoverKind, ServiceSettings,
};
use testkit::{Dockerd, PodmanStore, gate_cases, gate_passed};

use crate::settings::settings;
use crate::support::{
    Base, PATIENCE, build, context, docker, dockerd, lines, podman, request, run_id, within,
};

/// How a build ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Its future is dropped, as when the tool is interrupted.
    Drop,
    /// The tool is killed.
    Tool,
    /// The service is killed.
    Service,
    /// The service and its watchdog are killed.
    ServiceAndWatchdog,
    /// All of them are killed.
    Everything,
}

const ENDS: [End; 5] =
    [End::Drop, End::Tool, End::Service, End::ServiceAndWatchdog, End::Everything];

/// The duration of the second `RUN`, in seconds, if it is stopped from outside.
const LONG: &str = "3000";

/// The duration if the `RUN` may have to run to completion: a killed docker forgets a BuildKit
/// `RUN`, and a `RUN` of its classic builder that has only just started.
const BRIEF: &str = "8.3000";

/// Returns a Dockerfile with two `RUN`s, so that a build may end between them. The second sleeps
/// for `seconds`.
fn text(base: &Base, seconds: &str) -> String {
    let base = &base.name;
    format!("FROM {base}\nCOPY data /data\nRUN sleep 0.1\nRUN echo asleep; sleep {seconds}\n")
}

const NOTHING: [PathBuf; 0] = [];
const DATA: &[u8] = &[1; 1 << 20];

/// Returns a moment within `span`, different in each round. The moments are spread evenly.
fn moment(round: usize, span: Duration) -> Duration {
    let round = u32::try_from(round).unwrap();
    span.mul_f64((f64::from(round) * 0.618_033_988_75).fract())
}

/// Builds until the `RUN` sleeps, and returns how long that took.
async fn until_it_sleeps(engine: &Engine, base: &Base) -> Duration {
    let (say, mut said) = tokio::sync::mpsc::unbounded_channel();
    let mut on_event = |event| {
        if let BuildEvent::Line(line) = event
            && line.text == "asleep"
        {
            say.send(()).unwrap();
        }
    };
    let text = text(base, LONG);
    let begin = Instant::now();
    let request = request("measured", &text);
    tokio::select! {
        built = engine.build(&request, context(&text, &[("data", DATA)]), &mut on_event) =>
            panic!("the build ended: {built:?}"),
        asleep = said.recv() => asleep.unwrap(),
    }
    begin.elapsed()
}

/// A service that dies during a build: its last output is in the error.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_dies_is_quoted() {
    let (store, base) = (PodmanStore::new(), Base::serve().await);
    let folder = tempfile::tempdir().unwrap();
    let (program, pid) = (folder.path().join("podman"), folder.path().join("pid"));
    let script = format!(
        "#!/bin/sh\npodman \"$@\" &\necho $! > {}\nwait\n\
         echo 'fatal error: newosproc' >&2\necho 'goroutine 1:' >&2\nexit 2\n",
        pid.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let engine = Engine::podman(ServiceSettings { program, ..settings(&store) });
    base.give_to(&engine).await;
    let text = text(&base, LONG);
    let mut on_event = |event| {
        if let BuildEvent::Line(line) = event
            && line.text == "asleep"
        {
            kill(std::iter::once(std::fs::read_to_string(&pid).unwrap().trim().to_owned()));
        }
    };
    let request = request("quoted", &text);
    let built = engine.build(&request, context(&text, &[("data", DATA)]), &mut on_event).await;
    let error = built.unwrap_err();
    assert!(matches!(error, EngineError::Lost { .. }), "{error:?}");
    assert!(error.to_string().contains("; podman printed: fatal error: newosproc"), "{error}");
}

/// Starts a build, and drops it after a while.
async fn dropped_after(engine: &Engine, run: &str, text: &str, after: Duration) {
    let (request, mut on_event) = (request(run, text), |_| {});
    let built = engine.build(&request, context(text, &[("data", DATA)]), &mut on_event);
    // A build whose service was killed has already ended.
    drop(tokio::time::timeout(after, built).await);
}

/// Returns the process group of a process. For a service, this is its watchdog.
fn watchdog_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(2)?.parse().ok()
}

fn kill(numbers: impl Iterator<Item = String>) {
    let numbers: Vec<String> = numbers.collect();
    if !numbers.is_empty() {
        let mut command = Command::new("kill");
        // It is not a failure if a process has already ended.
        drop(command.arg("-KILL").arg("--").args(numbers).stderr(Stdio::null()).status());
    }
}

/// The environment variables that pass the store and the Dockerfile to [`the_tool_that_is_killed`].
const STORE: &str = "ENGINE_TEST_STORE";
const BASE: &str = "ENGINE_TEST_BASE";

/// The tool, as a process that can be killed.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "no test: another test starts it"]
async fn the_tool_that_is_killed() {
    let (folder, base) = (std::env::var_os(STORE).unwrap(), std::env::var(BASE).unwrap());
    let folder = Path::new(&folder);
    let path = |name: &str| folder.join(name).into_os_string();
    let engine = Engine::podman(ServiceSettings {
        program: "podman".into(),
        arguments: vec!["--root".into(), path("root"), "--runroot".into(), path("run")],
        runtime: Some("runc".to_owned()),
        sockets: folder.join("s"),
        scratch: folder.join("t"),
        caches: folder.join("c"),
        state: None,
    });
    build(&engine, &request("killed", &base), &[("data", DATA)]).await.0.unwrap();
}

/// Starts the tool, and returns it once its service is running.
async fn tool(store: &PodmanStore, base: &Base) -> Child {
    let before = store.services();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "kills::the_tool_that_is_killed"])
        .env(STORE, store.root().parent().unwrap())
        .env(BASE, text(base, LONG))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let is_there = || store.services().iter().any(|pid| !before.contains(pid));
    within(PATIENCE, "the tool starts a service", is_there).await;
    child
}

/// Returns what other users have in the engine. First removes the images that would keep the layers
/// of killed builds for an hour.
fn foreign(store: &PodmanStore) -> [Vec<String>; 3] {
    let list = |arguments: &[&str]| store.podman(arguments);
    for image in list(&["images", "--all", "--quiet", "--no-trunc", "--filter", ADOPTED]) {
        list(&["rmi", &image]);
    }
    [
        list(&["ps", "--all", "--external", "--format", "{{.ID}} {{.Names}} {{.Image}}"]),
        list(&["images", "--all", "--format", "{{.ID}} {{.Repository}}:{{.Tag}}"]),
        list(&["volume", "ls", "--format", "{{.Name}}"]),
    ]
}

/// Runs one round, and returns how long it took until no process was left.
async fn broken_off(
    store: &PodmanStore,
    engine: &Engine,
    base: &Base,
    end: End,
    after: Duration,
) -> Duration {
    let others = store.services();
    let ours = || store.services().into_iter().filter(|pid| !others.contains(pid));
    let groups = || ours().filter_map(watchdog_of).map(|watchdog| format!("-{watchdog}"));
    match end {
        End::Drop => dropped_after(engine, "killed", &text(base, LONG), after).await,
        End::Tool | End::Everything => {
            let mut tool = tool(store, base).await;
            tokio::time::sleep(after).await;
            let number = std::iter::once(tool.id().to_string());
            match end {
                End::Tool => kill(number),
                _ => kill(number.chain(groups())),
            }
            tool.wait().unwrap();
        }
        End::Service | End::ServiceAndWatchdog => {
            let killing = async {
                tokio::time::sleep(after).await;
                match end {
                    End::Service => kill(ours().map(|pid| pid.to_string())),
                    _ => kill(groups()),
                }
            };
            // Before the build has started there is nothing to kill, so the build is dropped.
            let (text, limit) = (text(base, LONG), after + Duration::from_secs(5));
            tokio::join!(dropped_after(engine, "killed", &text, limit), killing);
        }
    }
    let begin = Instant::now();
    // If the watchdog is dead, `clean` kills the remaining processes.
    if matches!(end, End::ServiceAndWatchdog | End::Everything) {
        engine.clean(&run_id("killed")).await.unwrap();
    }
    within(PATIENCE, "the RUN ends", || store.container_processes().is_empty()).await;
    begin.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_ends_a_build_on_podman_nothing_is_left() {
    let store = PodmanStore::new();
    let engine = podman(&store);
    // With the label of real bases, so that an image that has only a record is recognised as ours.
    let base = Base::serve_ours().await;
    base.give_to(&engine).await;
    let image = base.name.to_string();
    store.podman(&["tag", &image, "localhost/foreign:1"]);
    store.podman(&["create", "--network=none", "--name", "foreign", "localhost/foreign:1", "true"]);
    store.podman(&["volume", "create", "foreign"]);
    let asleep = until_it_sleeps(&engine, &base).await;
    engine.clean(&run_id("measured")).await.unwrap();
    let span = asleep.mul_f64(1.3);
    let before = (foreign(&store), store.mounts());
    let next = format!("FROM {image}\nRUN echo right > /file; cat /file\n");
    let rounds = gate_cases(10, 300);
    let mut times = Vec::new();
    for round in 0..rounds {
        let end = ENDS[round % ENDS.len()];
        let after = moment(round, span);
        times.push(broken_off(&store, &engine, &base, end, after).await);
        let what = format!("round {round}: {end:?} after {after:?}");
        // The service for other calls remains.
        within(PATIENCE, &what, || store.services().len() == 1).await;
        let cleaned = engine.clean(&run_id("killed")).await;
        // For the error message: the containers that may prevent the cleanup.
        let records = || {
            let records = store.root().join("overlay-containers/containers.json");
            (foreign(&store), std::fs::read_to_string(records))
        };
        assert!(cleaned.is_ok(), "{what}: {cleaned:?}: {:?}", records());
        // A build container whose record podman had not yet written belongs to no run.
        engine.clean_bases().await.unwrap();
        assert_eq!(engine.leftovers(None).await.unwrap(), [], "{what}");
        if round % 5 == 4 {
            assert_eq!((foreign(&store), store.mounts()), before, "{what}");
        }
        assert_eq!(store.known_to_the_runtime(), NOTHING, "{what}");
        assert_eq!(engine::abandoned(&settings(&store)), NOTHING, "{what}");
        for folder in [store.scratch(), store.sockets()] {
            let count = || std::fs::read_dir(&folder).unwrap().count();
            within(PATIENCE, &format!("{what}: {}", folder.display()), || count() == 1).await;
        }
        let (built, events) = build(&engine, &request("next", &next), &[]).await;
        built.unwrap();
        assert!(lines(&events).contains(&"right"), "{what}: {events:?}");
        engine.clean(&run_id("next")).await.unwrap();
    }
    assert_eq!((foreign(&store), store.mounts()), before);
    engine.stop().await;
    assert_eq!(store.services(), [0u32; 0]);
    report("podman", times);
    gate_passed(2, rounds);
    // The service is killed in three of the five ways.
    gate_passed(3, rounds * 3 / 5);
}

#[expect(clippy::print_stdout, reason = "the test is run for these figures")]
fn report(run: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
    println!(
        "{run}: {} builds, no process after {median:?} (median), {most:?} (most)",
        times.len()
    );
}

/// docker stops a `RUN` when the connection closes, so interrupting and killing the tool have the
/// same effect.
async fn docker_ends_a_build_at_any_moment(builder: DockerBuilder, run: &str, rounds: usize) {
    let engine = docker(builder);
    let base = Base::serve().await;
    base.give_to(&engine).await;
    let span = until_it_sleeps(&engine, &base).await.mul_f64(1.3);
    let next = format!("FROM {}\nRUN echo {run} > /file; cat /file\n", base.name);
    let mut times = Vec::new();
    for round in 0..rounds {
        let after = moment(round, span);
        dropped_after(&engine, run, &text(&base, LONG), after).await;
        let begin = Instant::now();
        engine.clean(&run_id(run)).await.unwrap();
        // docker itself ends anything that starts later, and leaves nothing.
        let is_gone = || sleepers(dockerd()).is_empty();
        within(PATIENCE, &format!("round {round}, after {after:?}"), is_gone).await;
        times.push(begin.elapsed());
        engine.clean(&run_id(run)).await.unwrap();
        assert_eq!(engine.leftovers(Some(&run_id(run))).await.unwrap(), [], "{after:?}");
        let (built, events) = build(&engine, &request(run, &next), &[]).await;
        built.unwrap();
        assert!(lines(&events).contains(&run), "{after:?}: {events:?}");
        engine.clean(&run_id(run)).await.unwrap();
    }
    report(run, times);
}

#[tokio::test(flavor = "multi_thread")]
async fn whenever_a_build_is_dropped_on_docker_nothing_is_left() {
    let rounds = gate_cases(4, 50);
    docker_ends_a_build_at_any_moment(DockerBuilder::Classic, "any-classic", rounds).await;
    docker_ends_a_build_at_any_moment(DockerBuilder::BuildKit, "any-buildkit", rounds).await;
    gate_passed(2, 2 * rounds);
}

/// Returns the processes of the second `RUN`, wherever they run.
fn sleepers(daemon: &Dockerd) -> Vec<u32> {
    let is_asleep = |pid: &u32| {
        let words = words_of(*pid);
        // A process has no command line for a moment while `sh` becomes `sleep`.
        words.is_empty() || words.contains("3000")
    };
    daemon.container_processes().into_iter().filter(is_asleep).collect()
}

/// Returns the command line of a process.
fn words_of(pid: u32) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).into_owned()
}

/// The daemon is killed during the build and restarted before the cleanup. A `RUN` that it has
/// forgotten runs to completion.
#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_is_killed_leaves_nothing_either() {
    let daemon = Dockerd::start();
    let rounds = gate_cases(2, 13);
    for (builder, run) in
        [(DockerBuilder::Classic, "dead-classic"), (DockerBuilder::BuildKit, "dead-buildkit")]
    {
        let engine = || Engine::docker_at(daemon.socket(), builder);
        let base = Base::serve().await;
        base.give_to(&engine()).await;
        daemon.docker(&["tag", &base.name.to_string(), "foreign:1"]);
        let span = until_it_sleeps(&engine(), &base).await.mul_f64(1.3);
        within(PATIENCE, "the first build ends", || sleepers(&daemon).is_empty()).await;
        let next = format!("FROM {}\nRUN echo {run} > /file; cat /file\n", base.name);
        let mut times = Vec::new();
        for round in 0..rounds {
            let after = moment(round, span);
            let what = format!("{run}, round {round}, after {after:?}");
            let killing = async {
                tokio::time::sleep(after).await;
                daemon.kill();
            };
            let limit = after + Duration::from_secs(5);
            let broken = engine();
            let text = text(&base, BRIEF);
            tokio::join!(dropped_after(&broken, run, &text, limit), killing);
            daemon.start_again();
            let begin = Instant::now();
            let engine = engine();
            engine.clean(&run_id(run)).await.unwrap();
            within(PATIENCE, &what, || sleepers(&daemon).is_empty()).await;
            times.push(begin.elapsed());
            assert_eq!(engine.leftovers(Some(&run_id(run))).await.unwrap(), [], "{what}");
            let (built, events) = build(&engine, &request(run, &next), &[]).await;
            built.unwrap();
            assert!(lines(&events).contains(&run), "{what}: {events:?}");
            engine.clean(&run_id(run)).await.unwrap();
            let images = daemon.docker(&["images", "--format", "{{.Repository}}:{{.Tag}}"]);
            assert!(images.contains(&"foreign:1".to_owned()), "{what}: {images:?}");
        }
        report(run, times);
    }
    gate_passed(3, 2 * rounds);
}

/// Puts the images without a name into the state in which a killed podman leaves an image: their
/// records have no manifest, and no config either if `has_config` is false. Returns their folders.
fn break_images(store: &PodmanStore, has_config: bool) -> Vec<PathBuf> {
    let folder = store.root().join("overlay-images");
    let mut records = records(store, "images");
    let mut broken = Vec::new();
    for record in records.iter_mut().filter(|record| record["names"].is_null()) {
        let id = record["id"].as_str().unwrap().to_owned();
        let record = record.as_object_mut().unwrap();
        let config = format!("sha256:{id}");
        let kept: Vec<&str> = has_config.then_some(config.as_str()).into_iter().collect();
        record.insert("big-data-names".to_owned(), kept.clone().into());
        for key in ["big-data-digests", "big-data-sizes"] {
            let all = record.get_mut(key).and_then(|all| all.as_object_mut()).unwrap();
            all.retain(|name, _| kept.contains(&name.as_str()));
        }
        record.remove("digest");
        let files = folder.join(&id).read_dir().unwrap().flatten();
        let is_config = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with('=');
        let doomed = files.filter(|file| !(has_config && is_config(&file.file_name())));
        doomed.for_each(|file| std::fs::remove_file(file.path()).unwrap());
        broken.push(folder.join(id));
    }
    write_images(store, &records);
    broken
}

/// Returns the records of images, layers or containers.
fn records(store: &PodmanStore, kind: &str) -> Vec<serde_json::Value> {
    let folder = store.root().join(format!("overlay-{kind}"));
    let files = [format!("{kind}.json"), format!("volatile-{kind}.json")];
    let texts = files.iter().filter_map(|file| std::fs::read(folder.join(file)).ok());
    texts.flat_map(|text| serde_json::from_slice::<Vec<_>>(&text).unwrap()).collect()
}

fn write_images(store: &PodmanStore, records: &[serde_json::Value]) {
    let file = store.root().join("overlay-images/images.json");
    std::fs::write(file, serde_json::to_vec(records).unwrap()).unwrap();
}

/// Returns whether a record is of an image without a name.
fn is_nameless(record: &serde_json::Value) -> bool {
    record["names"].is_null()
}

/// Gives somebody else an image that has the same layer as [`Base::serve_ours`].
async fn pull_foreign(store: &PodmanStore) -> Base {
    let other = Base::serve().await;
    let name = other.name.to_string();
    store.podman(&["pull", "--tls-verify=false", &name]);
    store.podman(&["tag", &name, "localhost/foreign:1"]);
    other
}

/// If no other image has the label, podman's list leaves out an image that it cannot read.
#[tokio::test(flavor = "multi_thread")]
async fn images_that_a_killed_podman_did_not_finish_are_removed() {
    let store = PodmanStore::new();
    let engine = podman(&store);
    let tar = store.scratch().with_extension("tar");
    std::fs::write(&tar, testkit::busybox_root()).unwrap();
    store.podman(&["import", tar.to_str().unwrap(), "localhost/foreign:1"]);
    let before = foreign(&store);
    for has_config in [true, false] {
        let request = request("killed", "FROM scratch\nCOPY data /data\n");
        build(&engine, &request, &[("data", DATA)]).await.0.unwrap();
        engine.stop().await;
        let broken = break_images(&store, has_config);
        assert_ne!(broken, NOTHING);
        engine.clean(&run_id("killed")).await.unwrap();
        assert!(broken.iter().all(|folder| !folder.exists()), "with a config: {has_config}");
        assert_eq!(foreign(&store), before);
    }
    engine.stop().await;
}

/// As long as podman cannot read the image, it does not list the build container that uses it.
#[tokio::test(flavor = "multi_thread")]
async fn a_build_container_of_an_unfinished_image_is_removed_with_it() {
    let store = PodmanStore::new();
    let engine = podman(&store);
    let base = Base::serve_ours().await;
    base.give_to(&engine).await;
    let before = foreign(&store);
    let text = text(&base, LONG);
    let killing = async {
        let sleeps =
            || store.container_processes().iter().any(|pid| words_of(*pid).contains("3000"));
        within(PATIENCE, "the RUN sleeps", sleeps).await;
        kill(store.services().into_iter().filter_map(watchdog_of).map(|one| format!("-{one}")));
    };
    tokio::join!(dropped_after(&engine, "killed", &text, PATIENCE), killing);
    engine.stop().await;
    let broken = break_images(&store, true);
    assert_ne!(broken, NOTHING);
    engine.clean(&run_id("killed")).await.unwrap();
    engine.clean_bases().await.unwrap();
    assert!(broken.iter().all(|folder| !folder.exists()));
    assert_eq!(foreign(&store), before);
    assert_eq!(engine.leftovers(None).await.unwrap(), []);
    engine.stop().await;
}

/// podman may be killed before an image has its own layer.
#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_image_with_the_layer_of_a_base_is_removed() {
    let store = PodmanStore::new();
    let engine = podman(&store);
    let base = Base::serve_ours().await;
    base.give_to(&engine).await;
    let _other = pull_foreign(&store).await;
    let before = foreign(&store);
    let text = format!("FROM {}\nENV ADDED=1\n", base.name);
    build(&engine, &request("killed", &text), &[]).await.0.unwrap();
    engine.stop().await;
    let broken = break_images(&store, false);
    assert_ne!(broken, NOTHING);
    let mut records = records(&store, "images");
    let is_foreign = |record: &&serde_json::Value| record["names"].to_string().contains("foreign");
    let layer = records.iter().find(is_foreign).unwrap()["layer"].clone();
    for record in records.iter_mut().filter(|record| is_nameless(record)) {
        record["layer"] = layer.clone();
    }
    write_images(&store, &records);
    engine.clean(&run_id("killed")).await.unwrap();
    assert!(broken.iter().all(|folder| !folder.exists()));
    assert_eq!(foreign(&store), before);
    engine.stop().await;
}

/// Returns the IDs of the layers of a store.
fn layers(store: &PodmanStore) -> Vec<String> {
    let layers = records(store, "layers");
    layers.iter().map(|layer| layer["id"].as_str().unwrap().to_owned()).collect()
}

/// Removes the records of images and leaves their layers.
fn forget_images(store: &PodmanStore, is_doomed: impl Fn(&serde_json::Value) -> bool) {
    let (doomed, kept): (Vec<_>, Vec<_>) =
        records(store, "images").into_iter().partition(is_doomed);
    assert_ne!(doomed, [""; 0], "{kept:?}");
    write_images(store, &kept);
}

/// The filter for images that keep layers of a killed build.
const ADOPTED: &str = "label=io.github.build-pipeline.adopted";

/// Gives the images without a name an old date.
fn age_images(store: &PodmanStore) {
    let mut records = records(store, "images");
    for record in records.iter_mut().filter(|record| is_nameless(record)) {
        record["created"] = "2026-01-01T00:00:00Z".into();
    }
    write_images(store, &records);
}

/// podman stores the layer of a step first, and then creates its image.
#[tokio::test(flavor = "multi_thread")]
async fn layers_for_which_a_killed_podman_created_no_image_are_removed() {
    let store = PodmanStore::new();
    let engine = podman(&store);
    let base = Base::serve_ours().await;
    base.give_to(&engine).await;
    let _other = pull_foreign(&store).await;
    // Somebody else also has a layer without an image.
    let context = store.scratch().with_extension("context");
    std::fs::create_dir(&context).unwrap();
    std::fs::write(context.join("Dockerfile"), "FROM scratch\nCOPY Dockerfile /1\n").unwrap();
    store.podman(&["build", "--quiet", "--tag", "localhost/lost:1", context.to_str().unwrap()]);
    forget_images(&store, |record| record["names"].to_string().contains("lost"));
    let before = (layers(&store), foreign(&store));
    let text = format!("FROM {}\nCOPY data /data\nRUN echo 1 > /1\n", base.name);
    // Either both steps are without an image, or only the last one is.
    for is_last in [false, true] {
        let built = build(&engine, &request("killed", &text), &[("data", DATA)]).await.0.unwrap();
        engine.stop().await;
        let image = built.image.as_str().trim_start_matches("sha256:").to_owned();
        let images = records(&store, "images");
        let top = &images.iter().find(|record| record["id"] == image.as_str()).unwrap()["layer"];
        forget_images(&store, |record| {
            is_nameless(record) && (!is_last || record["layer"] == *top)
        });
        assert_eq!(layers(&store).len(), before.0.len() + 2);
        engine.clean(&run_id("killed")).await.unwrap();
        // Somebody else could be about to use it.
        let images = store.podman(&["images", "--all", "--quiet", "--filter", ADOPTED]);
        assert_eq!((images.len(), layers(&store).len()), (1, before.0.len() + 2));
        assert_eq!(engine.leftovers(None).await.unwrap(), []);
        engine.stop().await;
        age_images(&store);
        assert_eq!(engine.leftovers(None).await.unwrap().len(), 1);
        engine.clean_bases().await.unwrap();
        let images = store.podman(&["images", "--all", "--quiet", "--filter", ADOPTED]);
        assert_eq!((images.len(), layers(&store)), (0, before.0.clone()));
        assert_eq!(foreign(&store), before.1);
    }
    engine.clean_bases().await.unwrap();
    assert_eq!(engine.leftovers(None).await.unwrap(), []);
    engine.stop().await;
}

/// The probe has no base, so only its lack of content shows that the container is of no use.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_container_that_a_killed_podman_did_not_record_is_removed() {
    let store = PodmanStore::new();
    let engine = podman(&store);
    let before = foreign(&store);
    let mount = "--mount=type=bind,source=bin,target=/bin";
    let text = format!("FROM scratch\nRUN {mount} [\"/bin/busybox\", \"sleep\", \"3000\"]\n");
    let busybox = std::fs::read("/bin/busybox").unwrap();
    let killing = async {
        let sleeps =
            || store.container_processes().iter().any(|pid| words_of(*pid).contains("3000"));
        within(PATIENCE, "the RUN sleeps", sleeps).await;
        kill(store.services().into_iter().filter_map(watchdog_of).map(|one| format!("-{one}")));
    };
    let files: [(&str, &[u8]); 1] = [("bin/busybox", &busybox)];
    let request = request("killed", &text);
    let building = build(&engine, &request, &files);
    drop(tokio::join!(tokio::time::timeout(PATIENCE, building), killing));
    engine.stop().await;
    let [container] = &records(&store, "containers")[..] else { panic!("one container") };
    let folder = store.root().join("overlay-containers").join(container["id"].as_str().unwrap());
    std::fs::remove_file(folder.join("userdata/buildah.json")).unwrap();
    // A container with content is kept, because somebody may need the content.
    engine.clean_bases().await.unwrap();
    assert_eq!(foreign(&store)[0].len(), 1);
    let diff = store.root().join("overlay").join(container["layer"].as_str().unwrap()).join("diff");
    std::fs::remove_dir_all(&diff).unwrap();
    std::fs::create_dir(&diff).unwrap();
    engine.clean_bases().await.unwrap();
    assert_eq!(foreign(&store), before);
    engine.stop().await;
}

/// docker's classic builder removes the container of a step itself, unless it is killed.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_daemon_leaves_no_container_of_a_step() {
    let daemon = Dockerd::start();
    let engine = || Engine::docker_at(daemon.socket(), DockerBuilder::Classic);
    let base = Base::serve_ours().await;
    let name = base.name.to_string();
    base.give_to(&engine()).await;
    // Somebody else's container has the label, too.
    daemon.docker(&["create", "--network=none", "--name", "foreign", &name, "true"]);
    let containers = || daemon.docker(&["ps", "--all", "--format", "{{.Names}}"]);
    let broken = engine();
    let text = text(&base, BRIEF);
    let limit = PATIENCE;
    let killing = async {
        // A process without a command line may belong to the first `RUN`, whose container may be
        // gone.
        let is_asleep = |pid: &u32| words_of(*pid).contains("3000");
        let sleeps = || daemon.container_processes().iter().any(is_asleep);
        within(PATIENCE, "the RUN sleeps", sleeps).await;
        daemon.kill();
    };
    tokio::join!(dropped_after(&broken, "step", &text, limit), killing);
    daemon.start_again();
    let engine = engine();
    assert_eq!(containers().len(), 2, "{:?}", containers());
    let left = engine.leftovers(None).await.unwrap();
    let is_of_a_step = |one: &&Leftover| one.kind == LeftoverKind::BuildContainer;
    assert_eq!(left.iter().filter(is_of_a_step).count(), 1, "{left:?}");
    // The base cannot be removed as long as somebody uses it.
    daemon.docker(&["rm", "foreign"]);
    engine.clean(&run_id("step")).await.unwrap();
    engine.clean_bases().await.unwrap();
    assert_eq!(containers(), [""; 0]);
    within(PATIENCE, "the RUN ends", || sleepers(&daemon).is_empty()).await;
}
