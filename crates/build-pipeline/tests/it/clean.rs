//! `clean` removes leftovers of runs from real engines and from disk, and nothing else.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};

use testkit::{Dockerd, PodmanStore, busybox_root, kill_with_children};

use crate::dsl::{Project, Ran, ran};

/// Runs whose processes cannot exist: no process ID is that high.
const GONE: [&str; 2] = ["run-4194305-0", "run-4194306-ffffffffffffffff"];

fn label(run: &str) -> String {
    format!("--label={}={run}", engine::RUN_LABEL)
}

/// The label of this tool's containers. Containers that other programs create from a labelled image
/// do not inherit it.
fn own_label(run: &str) -> String {
    format!("--label={}={run}", engine::CONTAINER_LABEL)
}

/// podman's store, with an image to start from.
fn store(project: &Project) -> PodmanStore {
    let store = PodmanStore::new();
    let folder = store.root().parent().unwrap().display().to_string();
    project.write(
        "storage.conf",
        &format!("[storage]\ndriver = \"overlay\"\ngraphroot = \"{folder}/root\"\nrunroot = \"{folder}/run\"\n"),
    );
    std::fs::write(project.path("base.tar"), busybox_root()).unwrap();
    let base = project.path("base.tar").display().to_string();
    store.podman(&["import", "--change=ENV PATH=/bin", &base, "localhost/base:1"]);
    store
}

/// Runs `clean`, which finds podman's store through its configuration.
fn clean(project: &Project, options: &str) -> Ran {
    let line = format!("clean {options}");
    let mut command = project.command(&line.split_whitespace().collect::<Vec<_>>());
    ran(command.env("CONTAINERS_STORAGE_CONF", project.path("storage.conf")).output().unwrap())
}

/// Everything in podman's store.
fn all(store: &PodmanStore) -> [Vec<String>; 3] {
    [
        store.podman(&["ps", "--all", "--external", "--format", "{{.ID}} {{.Names}}"]),
        store.podman(&["images", "--all", "--no-trunc", "--format", "{{.ID}} {{.Repository}}"]),
        store.podman(&["volume", "ls", "--format", "{{.Name}}"]),
    ]
}

/// Starts a build of this tool and kills it while its `RUN` sleeps.
fn break_off(project: &Project, store: &PodmanStore) {
    project.write("broken/Dockerfile", "FROM localhost/base:1\nRUN echo asleep; sleep 3000\n");
    let mut child: Child = Command::new("podman")
        .args(store.arguments())
        .args(["--runtime", "runc", "build", "--network=none", &label(GONE[1])])
        .arg(format!("--build-arg=BUILD_PIPELINE_RUN={}", GONE[1]))
        .arg(project.path("broken"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap() == "asleep"), "the RUN does not begin");
    kill_with_children(child.id());
    child.wait().unwrap();
}

#[test]
fn what_is_ours_goes_from_podman_and_the_rest_stays() {
    let project = Project::new();
    let store = store(&project);
    let create = ["create", "--network=none"];
    store.podman(&[&create[..], &["--name=foreign", "localhost/base:1", "true"]].concat());
    store.podman(&["volume", "create", "foreign"]);
    // This tool's own object, from a run that is still in progress: the process of this test.
    let alive = own_label(&format!("run-{}-1", std::process::id()));
    store.podman(&[&create[..], &["--name=alive", &alive, "localhost/base:1", "true"]].concat());
    let before = all(&store);

    project.write("image/Dockerfile", "FROM localhost/base:1\nRUN echo 1 > /1\nRUN echo 2 > /2\n");
    let folder = project.path("image").display().to_string();
    let build = ["build", "--layers", "--network=none", "--identity-label=false"];
    store.podman(&[&build[..], &[&label(GONE[0]), &folder]].concat());
    let ours = own_label(GONE[0]);
    store.podman(&[&create[..], &["--name=ours", &ours, "localhost/base:1", "true"]].concat());
    break_off(&project, &store);
    let with_ours = all(&store);

    let dry = clean(&project, "--engine podman --dry-run").expect(0);
    assert!(dry.stdout.contains("would be removed"), "{}", dry.stdout);
    assert!(dry.stdout.contains("podman: build container"), "{}", dry.stdout);
    assert!(
        dry.stdout.contains("not touched, because its run is still in progress"),
        "{}",
        dry.stdout
    );
    assert_eq!(all(&store), with_ours, "a dry run removes nothing");
    assert!(!store.container_processes().is_empty());

    let done = clean(&project, "--engine podman --format json").expect(0);
    let report: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    let count = |kind: &str, state: &str| {
        let found = report["found"].as_array().unwrap().iter();
        found.filter(|one| one["kind"] == kind && one["state"] == state).count()
    };
    assert_eq!(count("container", "removed"), 1, "{report:#}");
    assert_eq!(count("container", "under-way"), 1, "{report:#}");
    assert_eq!(count("build-container", "removed"), 1, "{report:#}");
    assert!(
        count("image", "removed") >= 2,
        "the image and podman's intermediate images: {report:#}"
    );
    assert!(report["bytes"].as_u64().unwrap() > 0, "{report:#}");
    assert_eq!(all(&store), before);
    assert_eq!(store.container_processes(), [0u32; 0]);
    let again = clean(&project, "--engine podman").expect(0);
    assert!(
        again.stdout.ends_with("nothing to remove (in podman program and on disk)\n"),
        "{}",
        again.stdout
    );
}

/// Somebody created a container from one of this tool's images: both are kept, and `clean` reports
/// that.
#[test]
fn an_image_by_this_tool_that_somebody_uses_stays() {
    let project = Project::new();
    let store = store(&project);
    project.write("image/Dockerfile", "FROM localhost/base:1\nRUN echo 1 > /1\n");
    let folder = project.path("image").display().to_string();
    let made = project.path("id").display().to_string();
    let build = ["build", "--network=none", "--iidfile", &made, &label(GONE[0]), &folder];
    store.podman(&build);
    let image = project.read("id").trim().to_owned();
    store.podman(&["create", "--network=none", "--name=mine", &image, "true"]);
    let before = all(&store);
    let done = clean(&project, "--engine podman").expect(1);
    assert!(done.stdout.contains("could not be removed:\n  podman: image "), "{}", done.stdout);
    let [containers, images, _] = all(&store);
    assert_eq!(containers, before[0]);
    // podman's intermediate images may be removed: their layers belong to the image
    // too.
    let base = before[1].iter().find(|line| line.ends_with("localhost/base")).unwrap();
    assert!(images.contains(base) && images.iter().any(|line| line.contains(&image)), "{images:?}");
}

/// Somebody named one of this tool's images, or built on it: it now belongs to them.
#[test]
fn an_image_by_this_tool_that_somebody_named_stays() {
    let project = Project::new();
    let store = store(&project);
    project.write("image/Dockerfile", "FROM localhost/base:1\nRUN echo 1 > /1\n");
    let folder = project.path("image").display().to_string();
    let base = format!("--label={}={}", engine::BASE_LABEL, engine::BASE_VALUE);
    for (labels, name) in [(label(GONE[0]), "localhost/mine:1"), (base, "localhost/mine:2")] {
        store.podman(&["build", "--network=none", "--no-cache", &labels, "--tag", name, &folder]);
    }
    // podman's intermediate images are removed: their layers belong to the images too.
    clean(&project, "--engine podman").expect(0);
    let [_, images, _] = all(&store);
    for name in ["localhost/mine", "localhost/base"] {
        assert!(images.iter().any(|line| line.ends_with(name)), "{name}: {images:?}");
    }
    for name in ["localhost/mine:1", "localhost/mine:2"] {
        store.podman(&["create", "--network=none", name, "true"]);
    }
    clean(&project, "--engine podman").expect(0).prints("nothing to remove");
}

#[test]
fn what_is_ours_goes_from_docker_and_the_rest_stays() {
    let project = Project::new();
    let daemon = Dockerd::start();
    std::fs::write(project.path("base.tar"), busybox_root()).unwrap();
    let base = project.path("base.tar").display().to_string();
    daemon.docker(&["import", "--change=ENV PATH=/bin", &base, "base:1"]);
    daemon.docker(&["create", "--network=none", "--name=foreign", "base:1", "true"]);
    daemon.docker(&["volume", "create", "foreign"]);
    let all = || {
        [
            daemon.docker(&["ps", "--all", "--format", "{{.ID}} {{.Names}}"]),
            daemon.docker(&["images", "--all", "--format", "{{.ID}} {{.Repository}}"]),
            daemon.docker(&["volume", "ls", "--format", "{{.Name}}"]),
        ]
    };
    let before = all();
    project.write("image/Dockerfile", "FROM base:1\nRUN echo 1 > /1\nRUN echo 2 > /2\n");
    let folder = project.path("image").display().to_string();
    daemon.docker(&["build", "--network=none", &label(GONE[0]), &folder]);
    let ours = own_label(GONE[1]);
    daemon.docker(&["run", "--detach", "--network=none", &ours, "base:1", "sleep", "3000"]);
    assert!(!daemon.container_processes().is_empty());
    let host = format!("unix://{}", daemon.socket().display());
    let clean = |options: &[&str]| {
        let mut command = project.command(&[&["clean", "--engine", "docker"], options].concat());
        ran(command.env("BUILD_PIPELINE_HOST", &host).output().unwrap()).expect(0)
    };
    let with_ours = all();
    // Only the engine given with `--engine` is cleaned, regardless of the variables.
    for (variable, code) in [("DOCKER_HOST", 0), ("BUILD_PIPELINE_HOST", 1)] {
        let mut command = project.command(&["clean", "--engine", "podman"]);
        let other = ran(command.env(variable, &host).output().unwrap()).expect(code);
        assert!(!other.stdout.contains("docker"), "{variable}: {}", other.stdout);
        assert_eq!(all(), with_ours, "{variable}");
    }
    let dry = clean(&["--dry-run"]);
    assert!(dry.stdout.contains("docker: container "), "{}", dry.stdout);
    assert!(dry.stdout.contains("docker: image "), "{}", dry.stdout);
    assert_eq!(all(), with_ours);
    let done = clean(&[]);
    assert!(done.stdout.contains("\n2 removed, up to "), "{}", done.stdout);
    assert_eq!(all(), before);
    assert_eq!(daemon.container_processes(), [0u32; 0]);
}

#[test]
fn work_that_was_broken_off_goes_from_disk_and_the_cache_only_when_asked() {
    let project = Project::new();
    let cache = "home/.cache/build-pipeline";
    let [work, blob, other] =
        ["store/work", "blobs/sha256/aa", "somebody/else"].map(|name| format!("{cache}/{name}"));
    let state = "home/.local/state/build-pipeline";
    for name in ["spool-1/blob", ".tmpAbCdEf", "podman-4194305-0-00000/libpod_builder1/x"] {
        project.write(&format!("{work}/{name}"), "12345");
    }
    project.write(&blob, "1234567");
    project.write(&other, "not ours");
    project.write(&format!("{state}/outdated.json"), "{}");
    project.write("socket", "");
    std::fs::create_dir_all(project.path(&format!("{state}/sockets"))).unwrap();
    let socket = |name: &str| project.path(&format!("{state}/sockets/{name}.sock"));
    let listens = UnixListener::bind(socket("podman-1-0")).unwrap();
    drop(UnixListener::bind(socket("podman-4194305-1")).unwrap());
    let clean = |options: &str| project.run(&format!("clean --engine none {options}")).expect(0);
    let is_there = |name: &str| project.path(name).exists();

    let dry = clean("--dry-run");
    assert!(dry.stdout.contains("4 would be removed, 15 B"), "{}", dry.stdout);
    assert!(socket("podman-4194305-1").exists() && is_there(&format!("{work}/spool-1/blob")));
    let done = clean("");
    assert!(done.stdout.contains("4 removed, 15 B"), "{}", done.stdout);
    assert_eq!(std::fs::read_dir(project.path(&work)).unwrap().count(), 0);
    assert!(!socket("podman-4194305-1").exists() && socket("podman-1-0").exists());
    drop(listens);
    assert!(is_there(&blob));

    let of_cache = ["store/blobs/bb", "tools/uv-1/uv", "uv/archive"];
    of_cache.iter().for_each(|name| project.write(&format!("{cache}/{name}"), "123"));
    let done = clean("--cache");
    assert!(done.stdout.contains("/blobs, 7 B"), "{}", done.stdout);
    assert!(!is_there(&blob) && !is_there(&format!("{cache}/store/blobs")));
    assert!(!is_there(&format!("{cache}/tools")) && !is_there(&format!("{cache}/uv")));
    assert!(is_there(&other) && is_there(&format!("{state}/outdated.json")));
    let again = clean("--cache");
    assert!(again.stdout.starts_with("nothing to remove"), "{}", again.stdout);
}

/// A link in place of each of the tool's folders: nothing behind it is removed.
#[test]
fn folders_of_others_behind_links_stay() {
    let cache = "home/.cache/build-pipeline";
    let state = "home/.local/state/build-pipeline";
    let of_cache = [
        "store",
        "store/work",
        "store/work/podman-4194305-0-00000",
        "store/work/spool-1",
        "store/blobs",
        "store/steps",
        "blobs",
        "blobs/sha256",
        "sources",
        "tools",
        "uv",
    ];
    let of_cache = of_cache.map(|name| format!("{cache}/{name}"));
    let of_state = ["records", "verified"].map(|name| format!("{state}/{name}"));
    for folder in of_cache.into_iter().chain(of_state) {
        let project = Project::new();
        let names = [
            "x",
            ".tmpaB3dE6",
            "work/x",
            "work/podman-4194305-0-00000/x",
            "podman-4194305-0-00000/x",
            "sha256/.tmpaB3dE6",
            "blobs/x",
            "steps/x",
        ];
        let others = names.map(|name| format!("others/{name}"));
        let hours = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
        for name in &others {
            project.write(name, "not ours");
            let file = std::fs::File::options().write(true).open(project.path(name)).unwrap();
            file.set_modified(hours).unwrap();
        }
        // A cache that would be moved to the folder for work.
        project.write(&format!("{cache}/uv/archive"), "ours");
        let link = project.path(&folder);
        drop(std::fs::remove_dir_all(&link));
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(project.path("others"), &link).unwrap();
        for options in ["", "--cache"] {
            let done = project.run(&format!("clean --engine none {options}"));
            // The link is the user's own, so nothing is wrong.
            assert_eq!(done.code, 0, "{folder}, {options}: {done:?}");
            for name in &others {
                assert!(project.path(name).is_file(), "{folder}, {options}: {name}");
            }
            let found = std::fs::read_dir(project.path("others")).unwrap().count();
            assert_eq!(found, 7, "{folder}: {}", done.stdout);
        }
    }
}

#[test]
fn temporary_files_of_killed_runs_are_removed_when_they_are_old() {
    let project = Project::new();
    let state = "home/.local/state/build-pipeline";
    let blobs = "home/.cache/build-pipeline/blobs/sha256";
    let old = [
        format!("{state}/.outdated.json.aB3dE6"),
        format!("{state}/records/.20261101T000000Z-a-1.json.aB3dE6"),
        format!("{state}/verified/.tmpaB3dE6"),
        format!("{blobs}/.tmpaB3dE6"),
    ];
    let hours =
        |count: u64| std::time::SystemTime::now() - std::time::Duration::from_secs(count * 3600);
    for name in &old {
        project.write(name, "half");
        let file = std::fs::File::options().write(true).open(project.path(name)).unwrap();
        file.set_modified(hours(2)).unwrap();
        // A run may still be writing this file.
        project.write(&name.replace("aB3dE6", "fresh1"), "half");
    }
    let record = format!("{state}/records/20261101T000000Z-a-1.json");
    project.write(&record, "whole");
    let file = std::fs::File::options().write(true).open(project.path(&record)).unwrap();
    file.set_modified(hours(2)).unwrap();
    let dry = project.run("clean --engine none --dry-run").expect(0);
    for name in &old {
        assert!(
            dry.stdout.contains(project.path(name).to_str().unwrap()),
            "{name}: {}",
            dry.stdout
        );
        assert!(project.path(name).exists(), "a dry run removes nothing");
    }
    project.run("clean --engine none").expect(0);
    for name in &old {
        assert!(!project.path(name).exists(), "{name}");
        assert!(project.path(&name.replace("aB3dE6", "fresh1")).exists(), "{name}");
    }
    assert_eq!(project.read(&record), "whole");
}

/// Returns the IDs and command lines of a user's processes.
fn processes_of(user: &str) -> Vec<(String, String)> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let of_user = |entry: std::fs::DirEntry| {
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        let line = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let is_of_user = ids.split_whitespace().next() == Some(user);
        is_of_user.then(|| (entry.file_name().to_string_lossy().into_owned(), line))
    };
    all.filter_map(of_user).collect()
}

/// Without `XDG_RUNTIME_DIR` and without a pause process, rootless podman runs its service in a
/// second process, and looks for its state in `TMPDIR`.
#[test]
fn a_service_of_rootless_podman_leaves_nothing() {
    const USER: &str = "65433";
    let project = Project::new();
    let program = project.path("program");
    std::fs::copy(env!("CARGO_BIN_EXE_build-pipeline"), &program).unwrap();
    let owned = Command::new("chown").args(["-R", USER]).arg(project.path("")).status();
    assert!(owned.unwrap().success());
    for _ in 0..2 {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]).arg(&program);
        command.args(["clean", "--dry-run", "--engine", "podman"]).current_dir(project.path(""));
        command.env_remove("XDG_RUNTIME_DIR").env("HOME", project.path("home"));
        ran(command.output().unwrap()).expect(0).prints("nothing to remove (in podman program");
    }
    let left = processes_of(USER);
    // podman's own pause process may stay.
    for (process, _) in &left {
        drop(Command::new("kill").arg(process).status());
    }
    drop(std::fs::remove_dir_all(std::env::temp_dir().join(format!("podman-run-{USER}"))));
    assert!(left.iter().all(|(_, line)| !line.contains("service")), "{left:?}");
    let work = std::fs::read_dir(project.path("home/.cache/build-pipeline/store/work")).unwrap();
    assert_eq!(work.count(), 0, "the folder of a service is left");
}

/// The user named the engine, so `clean` must not report success without asking it.
#[test]
fn an_engine_that_was_requested_and_does_not_answer_is_reported() {
    let project = Project::new();
    let empty = project.path("empty").display().to_string();
    std::fs::create_dir(&empty).unwrap();
    for kind in ["podman", "docker"] {
        // Without programs and sockets, no engine can be found. An engine of the system may run.
        let mut command = project.command(&["clean", "--dry-run", "--engine", kind]);
        command.env("PATH", &empty).env("XDG_RUNTIME_DIR", &empty);
        let ran = ran(command.output().unwrap());
        let is_found = ran.stdout.contains("socket and on disk)");
        assert_eq!(ran.stdout.contains(&format!("cannot query {kind}: ")), !is_found);
        ran.expect(i32::from(!is_found));
    }
    let mut command = project.command(&["clean", "--dry-run"]);
    ran(command.env("PATH", &empty).env("XDG_RUNTIME_DIR", &empty).output().unwrap()).expect(0);
}

/// A socket whose engine is dead: nobody requested this engine, but it may have leftovers.
#[test]
fn an_engine_that_does_not_answer_at_its_usual_socket_is_named() {
    let project = Project::new();
    std::fs::create_dir_all(project.path("run")).unwrap();
    let clean = |options: &[&str]| {
        let mut command = project.command(&[&["clean", "--dry-run"], options].concat());
        // Without the machine's own podman.
        command.env("XDG_RUNTIME_DIR", project.path("run")).env("PATH", project.path("bin"));
        ran(command.output().unwrap())
    };
    let named = "did not look into the user's docker socket: ";
    assert!(!clean(&[]).stdout.contains(named));
    drop(UnixListener::bind(project.path("run/docker.sock")).unwrap());
    clean(&[]).expect(0).prints(named).prints("Connection refused");
    let json = clean(&["--format", "json"]).expect(0).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["passed_over"][0]["engine"], "the user's docker socket");
    crate::schemas::check(&project, "clean", &[json]);
    // It is an error if the user named this engine.
    clean(&["--engine", "docker"]).expect(1).prints("cannot query docker: ");
}
