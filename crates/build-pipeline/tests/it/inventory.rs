//! What each command changes in the project and in the home: its own files, and nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::{gate_cases, gate_passed, shared_registry};

use crate::built::Bench;
use crate::dsl::{Project, Two, ran};
use crate::lock::Release;

/// The promise that the program touches only its own files.
const GATE: u8 = 23;

const CACHE: &str = "home/.cache/build-pipeline";
const STATE: &str = "home/.local/state/build-pipeline";
const RECORDS: &str = "home/.local/state/build-pipeline/records";
const LOCKS: &str = "home/.local/state/build-pipeline/locks";
const VERIFIED: &str = "home/.local/state/build-pipeline/verified";
const SOCKETS: &str = "home/.local/state/build-pipeline/sockets";
const BLOBS: &str = "home/.cache/build-pipeline/blobs";

/// Foreign files, next to the program's own files and in its folders.
const FOREIGN: [&str; 20] = [
    "home/.bashrc",
    "home/.cache/other/blobs/sha256/aa",
    "home/.cache/build-pipeline/mine",
    "home/.cache/build-pipeline.old/blobs/a",
    "home/.config/build-pipeline.toml",
    "home/.config/containers/auth.json.old",
    "home/.config/systemd/user/x.service",
    "home/.local/share/thesis.txt",
    "home/.local/state/other/records/1.json",
    "home/.local/state/build-pipeline/mine",
    "home/.ssh/id_ed25519",
    "dist/other/thesis.txt",
    "dist/.hidden",
    "dist/image.tar.old",
    "versions/.versions.toml.backup",
    "versions/versions.toml.old",
    "versions/locks/.swap",
    "versions/locks/pylock.demo.toml.old",
    "tree/.build-pipeline.old",
    "tmp/x",
];

/// The properties that show whether a file, folder or link changed.
type Seen = BTreeMap<PathBuf, String>;

/// Records everything below a folder.
fn look(root: &Path) -> Seen {
    let mut seen = Seen::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let path = entry.path();
            let found = fs::symlink_metadata(&path).unwrap();
            let mode = format!("{:o} of {}:{}", found.mode(), found.uid(), found.gid());
            let state = if found.is_dir() {
                folders.push(path.clone());
                mode
            } else if found.is_symlink() {
                format!("{mode} to {:?}", fs::read_link(&path).unwrap())
            } else {
                let times = format!("{}.{}", found.mtime(), found.mtime_nsec());
                format!("{mode} with {} at {times}", names::Digest::of(&fs::read(&path).unwrap()))
            };
            seen.insert(path.strip_prefix(root).unwrap().to_owned(), state);
        }
    }
    seen
}

/// Puts foreign files into a project.
fn seed(project: &Project) {
    for name in FOREIGN {
        project.write(name, &format!("years of work on {name}"));
    }
    let private = fs::Permissions::from_mode(0o600);
    fs::set_permissions(project.path("home/.ssh/id_ed25519"), private).unwrap();
    symlink(project.path("home/.bashrc"), project.path("dist/link")).unwrap();
    symlink("nowhere", project.path("versions/.link")).unwrap();
}

/// Runs a command, and fails the test if it changes anything outside its own paths, or a foreign
/// file inside them.
fn try_command(project: &Project, command: &mut Command, own: &[&str], codes: &[i32]) {
    // A podman service ends a moment after the command that used it.
    let work = project.path("home/.cache/build-pipeline/store/work");
    let is_service =
        |entry: fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(b"podman-");
    let begun = Instant::now();
    while fs::read_dir(&work).is_ok_and(|entries| entries.flatten().any(is_service)) {
        assert!(begun.elapsed() < Duration::from_secs(300), "a podman service is still running");
        std::thread::sleep(Duration::from_millis(10));
    }
    let before = look(&project.path(""));
    let words: Vec<_> = command.get_args().map(|word| word.to_owned()).collect();
    command.env("TMPDIR", project.path("tmp"));
    let ended = ran(command.output().unwrap());
    assert!(codes.contains(&ended.code), "{words:?} ends with {}: {}", ended.code, ended.stderr);
    let after = look(&project.path(""));
    for path in before.keys().chain(after.keys()) {
        if before.get(path) == after.get(path) {
            continue;
        }
        let is_foreign = FOREIGN.iter().any(|name| path == Path::new(name));
        // The command may create parent folders of its own paths.
        let is_own = own.iter().any(|own| path.starts_with(own))
            || (!before.contains_key(path)
                && own.iter().any(|own| Path::new(own).starts_with(path)));
        let (old, new) = (before.get(path), after.get(path));
        assert!(is_own && !is_foreign, "{words:?} changes `{}`: {old:?}, {new:?}", path.display());
    }
}

#[test]
fn each_command_changes_what_is_its_own_and_nothing_else() {
    let two = Two::new(371);
    let project = &two.project;
    seed(project);
    let edit = crate::patch::list_edit("a.txt");
    let patch = format!("{}[applies]\nversions = \"*\"\n\n{edit}", crate::patch::head("demo-list"));
    project.write("patches/demo/demo-list.toml", &patch);
    project.write("tree/a.txt", "list = \"gfx1100\"\n");
    project.write("tree/b.txt", "b\n");
    project.write("failed.log", "HIP error: invalid device function\n");
    let target = format!("{}/inventory-{}/x:v1", shared_registry().host(), std::process::id());
    let (build, mirror) = (two.build(), &two.mirror);
    let built = |output: &str| format!("{build} {output}");
    let of_build = [CACHE, RECORDS, LOCKS, VERIFIED];
    let writing: [(String, Vec<&str>); 15] = [
        (two.bump(0), vec!["versions/versions.toml", BLOBS]),
        (format!("{} --dry-run", two.bump(1)), vec![BLOBS]),
        (format!("{} --check", two.bump(1)), vec![BLOBS]),
        (built(""), [&of_build[..], &["dist/locked-spoof"]].concat()),
        (built("--output oci:dist/image"), [&of_build[..], &["dist/image"]].concat()),
        (
            built("--output oci-archive:dist/image.tar"),
            [&of_build[..], &["dist/image.tar"]].concat(),
        ),
        (built(&format!("--push {target}")), of_build.to_vec()),
        (format!("verify dist/image {mirror}"), vec![BLOBS, VERIFIED]),
        (format!("diff dist/image dist/image.tar {mirror}"), vec![CACHE, VERIFIED]),
        ("man pages".to_owned(), vec!["pages"]),
        // These commands try the available engines.
        ("doctor".to_owned(), vec![CACHE, SOCKETS]),
        ("run locked-spoof --print quadlet".to_owned(), vec![CACHE, SOCKETS]),
        (
            "patch apply demo --root tree --no-probes".to_owned(),
            vec!["tree/a.txt", "tree/.build-pipeline"],
        ),
        ("patch revert demo --root tree".to_owned(), vec!["tree/a.txt", "tree/.build-pipeline"]),
        ("clean --engine none --cache".to_owned(), vec![CACHE, SOCKETS]),
    ];
    for (line, own) in &writing {
        try_command(
            project,
            &mut two.command(line),
            own,
            if line == "doctor" { &[0, 1] } else { &[0] },
        );
    }
    let reading = [
        "--help",
        "help exit-codes",
        "plan --track locked-spoof",
        "plan --track vulkan",
        "explain locked-spoof",
        "pins show",
        "records",
        "lint dockerfiles/vulkan/debian.Dockerfile",
        "schema plan",
        "completions bash",
        "env",
        "diagnose failed.log",
        "patch check demo --root tree --no-probes",
        "patch diff demo --root tree --no-probes",
        "lock --check",
        "clean --engine none --dry-run",
        "plan --track nothing",
        "bump nothing",
    ];
    for line in reading {
        let codes: Vec<i32> = (0..=30).collect();
        try_command(project, &mut two.command(line), &[], &codes);
    }
    gate_passed(GATE, writing.len() + reading.len());
}

#[test]
fn a_lock_changes_its_files_and_the_cache() {
    let release = Release::new(&["1.0"]);
    let project = &release.project;
    seed(project);
    release.ask_for("1.0");
    let line = release.lock();
    // pip runs rustc, and a rustup without a home creates one.
    let rustup = "home/.rustup";
    let files = ["versions/locks/pylock.demo.toml", "versions/locks/demo.requirements.lock"];
    let own = [files[0], files[1], CACHE, rustup];
    let mut command = project.command(&line.split_whitespace().collect::<Vec<_>>());
    try_command(project, &mut command, &own, &[0]);
    // Looking up the same requirements again changes uv's cache, but no lock.
    let mut command = project.command(&line.split_whitespace().collect::<Vec<_>>());
    try_command(project, &mut command, &[CACHE], &[0]);
    gate_passed(GATE, 2);
}

#[test]
fn a_build_in_an_engine_changes_its_output_and_our_own_folders() {
    let bench = Bench::new("ARG BASE\nFROM ${BASE}\nENV PATH=/bin\nRUN echo hello > /greeting\n");
    seed(&bench.project);
    let line = "--track vulkan --variant tiny --output oci:dist/vulkan --engine";
    let engines = ["podman", "docker"].into_iter().take(gate_cases(1, 2));
    for engine in engines.clone() {
        let line = format!("{line} {engine} --fresh");
        let mut command = bench.command_at(&line, shared_registry().host());
        try_command(&bench.project, &mut command, &[CACHE, STATE, "dist/vulkan"], &[0]);
    }
    let mut command = bench.project.command(&["clean", "--engine", "none", "--cache"]);
    try_command(&bench.project, &mut command, &[CACHE, SOCKETS], &[0]);
    gate_passed(GATE, engines.count() + 1);
}
