//! A disk becomes full: the error names the file and suggests what to do, and existing files stay
//! intact.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use testkit::{gate_cases, gate_passed, shared_registry};

use crate::built::Bench;
use crate::dsl::{Project, Ran, Two, ran};
use crate::lock::Release;

const FILE: &str = "versions/versions.toml";
/// The promise that a full disk destroys nothing.
const GATE: u8 = 5;

/// Copies a folder to a separate disk with some KiB to spare, runs a command, and leaves a copy of
/// the resulting files. Only the command sees that disk.
const SCRIPT: &str = r#"
folder=$1 after=$2 spare=$3
shift 3
mkdir -p "$folder"
rm -rf "$after"
cp -a "$folder" "$after"
# A file takes whole pages there, and a folder none.
sizes=$(find "$after" -type f -printf '%s\n')
used=0
for size in $sizes; do used=$((used + (size + 4095) / 4096 * 4)); done
total=$((used + spare))
# No size at all would be no limit.
[ $total -gt 0 ] || total=4
mount -t tmpfs -o size=${total}k none "$folder" || exit 99
cp -a "$after/." "$folder/" || exit 99
"$@"
code=$?
rm -rf "$after"
cp -a "$folder" "$after" || exit 99
exit $code
"#;

/// Runs a command whose `folder` is on a small disk, and leaves a copy of the folder in `after`.
pub(crate) fn on_small_disk(command: &Command, folder: &Path, after: &Path, spare: usize) -> Ran {
    let mut small = Command::new("unshare");
    // root needs no user namespace, and engines create their own.
    let is_root = std::fs::metadata("/proc/self")
        .is_ok_and(|process| std::os::unix::fs::MetadataExt::uid(&process) == 0);
    small.args(if is_root { &["--mount"][..] } else { &["--map-root-user", "--mount"] });
    small.args(["sh", "-c", SCRIPT, "sh"]).arg(folder).arg(after);
    small.arg(spare.to_string()).arg(command.get_program()).args(command.get_args()).env_clear();
    for (name, value) in command.get_envs() {
        small.env(name, value.unwrap_or_default());
    }
    let small = small.current_dir(command.get_current_dir().unwrap());
    let ran = ran(small.stdin(std::process::Stdio::null()).output().unwrap());
    assert_ne!(ran.code, 99, "cannot create the disk: {}", ran.stderr);
    ran
}

/// Fails the test if a run did not report that the disk is full, which file was affected, and what
/// to do.
#[track_caller]
fn says_full(ran: Ran, place: &str) {
    ran.expect(3).says("No space left on device").says(place).says("hint: ").says("space");
}

/// Returns the amounts of free space to test, in KiB.
fn sizes(usual: usize, promised: &[usize]) -> Vec<usize> {
    let count = gate_cases(usual, promised.len());
    promised.iter().copied().take(count).collect()
}

#[test]
fn an_output_on_a_full_disk_is_what_it_was() {
    let two = Two::new(351);
    let mut cases = 0;
    for (output, place) in [("oci:small/out", "out"), ("oci-archive:small/out.tar", "out.tar")] {
        let line = |image| format!("{} --output {output}", two.build_of(image));
        let old = two.run(&line(0)).expect(0).digest();
        for spare in sizes(1, &[8, 60, 100, 140, 180]) {
            let (small, after) = (two.project.path("small"), two.project.path("after"));
            let ran = on_small_disk(&two.command(&line(1)), &small, &after, spare);
            says_full(ran, place);
            assert_eq!(two.image_at(&format!("after/{place}")), old, "{place}, {spare} KiB");
            assert_eq!(two.project.records().pop().unwrap()["status"], "failed");
            cases += 1;
        }
    }
    gate_passed(GATE, cases);
}

#[test]
fn a_slimmed_image_on_a_full_disk_is_what_it_was() {
    let project = Project::new();
    crate::slim::image(&project, "old", &json!({}));
    crate::slim::image(&project, "new", &json!({ "Env": ["A=B"] }));
    for (output, place) in [("oci:small/out", "out"), ("oci-archive:small/out.tar", "out.tar")] {
        let line = |image| format!("slim {image} --gpu gfx1151 --output {output}");
        project.run(&line("old")).expect(0);
        let digest = |path: &str| {
            let image = oci::LayoutImage::read(&project.path(path)).unwrap();
            image.manifest_digest.clone()
        };
        let old = digest(&format!("small/{place}"));
        let (small, after) = (project.path("small"), project.path("after"));
        let line = line("new");
        let command = project.command(&line.split_whitespace().collect::<Vec<_>>());
        says_full(on_small_disk(&command, &small, &after, 4), place);
        assert_eq!(digest(&format!("after/{place}")), old, "{place}");
        project.run(&line).expect(0);
        assert_ne!(digest(&format!("small/{place}")), old, "{place}");
    }
}

#[test]
fn records_on_a_full_disk_are_what_they_were() {
    let two = Two::new(353);
    two.run(&two.build_of(0)).expect(0);
    let sizes = sizes(1, &[0, 4, 8, 12, 16]);
    let state = "home/.local/state/build-pipeline";
    let records = |folder: &str| {
        let names = two.project.path(&format!("{folder}/records")).read_dir().unwrap().flatten();
        names.map(|entry| std::fs::read_to_string(entry.path()).unwrap()).collect::<Vec<_>>()
    };
    let old = records(state);
    let mut refused = 0;
    for spare in &sizes {
        let (small, after) = (two.project.path(state), two.project.path("after"));
        let ran = on_small_disk(&two.command(&two.build_of(1)), &small, &after, *spare);
        // If the disk has space for the first record of a run but not for the second, the record
        // stays as it was at the start.
        if ran.code != 0 {
            refused += 1;
            let ran = ran.says("the image is complete, but its record is missing: sha256:");
            says_full(ran.says(" at oci:dist/locked-spoof"), "build-pipeline/records");
        }
        let new = records("after");
        assert!(old.iter().all(|record| new.contains(record)), "{spare} KiB: a record is lost");
        for record in new {
            serde_json::from_str::<serde_json::Value>(&record).unwrap();
        }
        two.image_at("dist/locked-spoof");
    }
    assert!(refused > 0, "the disk is never full");
    gate_passed(GATE, refused);
}

#[test]
fn pins_and_locks_on_a_full_disk_are_what_they_were() {
    let two = Two::new(355);
    two.run(&two.bump(0)).expect(0);
    let old = two.project.read(FILE);
    let mut cases = 0;
    for spare in sizes(1, &[0, 4, 8]) {
        let (small, after) = (two.project.path("versions"), two.project.path("after"));
        // The file is larger than the free space.
        let ran = on_small_disk(&two.command(&two.bump(1)), &small, &after, spare);
        says_full(ran, "versions.toml");
        assert!(two.project.read("after/versions.toml") == old, "{spare} KiB");
        assert!(two.project.read(FILE) == old, "it was not written to the disk");
        cases += 1;
    }
    let release = Release::new(&["1.0", "2.0"]);
    let project = &release.project;
    let lock = release.lock();
    let lock = || project.command(&lock.split_whitespace().collect::<Vec<_>>());
    release.ask_for("1.0");
    ran(lock().output().unwrap()).expect(0);
    let locks = ["pylock.demo.toml", "demo.requirements.lock"];
    let wholes = locks.map(|name| project.read(&format!("versions/locks/{name}")));
    release.ask_for("2.0");
    // The folder of locks is full, or that of temporary files, or uv's cache.
    project.write("tmp/something", "of somebody");
    let uv = "home/.cache/build-pipeline/uv";
    for (folder, spare) in [("versions/locks", 0), ("tmp", 0), (uv, 0)] {
        let mut command = lock();
        if folder == "tmp" {
            command.env("TMPDIR", project.path(folder));
        }
        let (small, after) = (project.path(folder), project.path("after"));
        let ran = on_small_disk(&command, &small, &after, spare);
        cases += 1;
        // uv itself decides what it keeps in its cache. If it needs no space, the lock is whole.
        if folder == uv && ran.code == 0 {
            project.run("lock --check demo").expect(0);
            break;
        }
        assert_ne!(ran.code, 0, "{folder}");
        ran.says("o space left").says("hint: ");
        let place = if folder == "versions/locks" { "after" } else { "versions/locks" };
        let now = locks.map(|name| project.read(&format!("{place}/{name}")));
        assert!(now == wholes, "{folder}: {now:?}");
    }
    gate_passed(GATE, cases);
}

#[test]
fn a_new_project_on_a_full_disk_leaves_nothing() {
    let project = Project::new();
    let line = "init small/mine --track mine --base docker.io/library/busybox:1.36 --ci github --install ./install";
    let words: Vec<&str> = line.split_whitespace().collect();
    let command = project.command(&words);
    let (small, after) = (project.path("small"), project.path("after"));
    let mut cases = 0;
    for ignored in [None, Some("/target/\n")] {
        if let Some(text) = ignored {
            project.write("small/mine/.gitignore", text);
        }
        for spare in [0, 4, 8, 12] {
            says_full(on_small_disk(&command, &small, &after, spare), "small/mine/");
            let mut left = std::process::Command::new("find");
            let left =
                left.arg(&after).args(["-mindepth", "1", "-printf", "%P\n"]).output().unwrap();
            let left = String::from_utf8(left.stdout).unwrap();
            match ignored {
                None => assert_eq!(left, "", "{spare} KiB"),
                Some(text) => {
                    assert_eq!(left, "mine\nmine/.gitignore\n", "{spare} KiB");
                    assert_eq!(project.read("after/mine/.gitignore"), text, "{spare} KiB");
                }
            }
            cases += 1;
        }
    }
    project.run(line).expect(0);
    gate_passed(GATE, cases);
}

#[test]
fn a_build_on_a_full_disk_says_so_and_goes_on_with_space() {
    let text =
        "ARG BASE\nFROM ${BASE}\nENV PATH=/bin\nRUN dd if=/dev/urandom of=/large bs=1M count=8\n";
    let bench = Bench::new(text);
    let line = "--track vulkan --variant tiny --engine podman --output oci:dist/vulkan";
    let command = || bench.command_at(line, shared_registry().host());
    let store = bench.project.path("home/.cache/build-pipeline/store");
    let mut cases = 0;
    for spare in sizes(1, &[4000, 6000, 9000, 12_000]) {
        let ran = on_small_disk(&command(), &store, &bench.project.path("after"), spare);
        ran.expect(3).says("hint: free some space");
        assert_eq!(bench.project.records().pop().unwrap()["status"], "failed");
        assert!(!bench.project.path("dist/vulkan/index.json").exists());
        cases += 1;
    }
    ran(command().output().unwrap()).expect(0);
    gate_passed(GATE, cases);
}
