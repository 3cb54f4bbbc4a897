//! Documents of other releases: newer formats are refused by their number and left unchanged, and
//! formats of the first release can be read forever.

use std::path::Path;

use crate::dsl::{Project, same};
use crate::patch::{head, list_edit};

/// A file with `schema = 1`, and a command line that reads it.
const FILES: [(&str, &str); 11] = [
    ("versions/versions.toml", "plan --track locked-spoof"),
    ("versions/gpus.toml", "plan --track locked-spoof"),
    ("versions/tracks.toml", "plan --track locked-spoof"),
    ("versions/compat.toml", "lint versions/versions.toml"),
    ("versions/python.toml", "lock vllm-legacy --check"),
    ("versions/failures.toml", "diagnose log"),
    ("versions/run.toml", "run official --print quadlet"),
    ("versions/locks/debian.toml", "plan --track vulkan"),
    ("versions/locks/pylock.vllm-legacy.toml", "lock vllm-legacy --check"),
    ("patches/demo/demo-list.toml", "patch check demo --root tree --no-probes"),
    ("home/.config/build-pipeline/config.toml", "outdated"),
];

/// A project with all of these files.
fn project() -> Project {
    let project = Project::new();
    project.write("log", "all went well\n");
    let patch =
        format!("{}[applies]\nversions = \"*\"\n\n{}", head("demo-list"), list_edit("a.txt"));
    project.write("patches/demo/demo-list.toml", &patch);
    project.write("tree/a.txt", "list = \"gfx1100\"\n");
    project.write("home/.config/build-pipeline/config.toml", "schema = 1\n[mirrors]\n");
    project
}

#[test]
fn a_file_of_another_schema_is_refused_by_its_number() {
    let mut tried = 0;
    for (file, line) in FILES {
        for (number, says) in
            [("2", "newer"), ("99", "newer"), ("0", "schema"), ("\"1\"", "schema")]
        {
            let project = project();
            let text =
                project.read(file).replacen("schema = 1\n", &format!("schema = {number}\n"), 1);
            // Other content from a newer program is ignored.
            project.write(file, &format!("{text}\n[new-kind.x]\nnew = 1\n"));
            let before = project.files();
            let ran = project.run(line);
            assert_ne!(ran.code, 0, "{file}: {number}: {}", ran.stdout);
            assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
            let name = Path::new(file).file_name().unwrap().to_str().unwrap();
            let ran = ran.says(name);
            assert!(ran.stderr.contains(says), "{file}: {number}: {}", ran.stderr);
            // The error reports its number and nothing about its other content.
            let is_one = number != "2" && number != "99" || !ran.stderr.contains("new-kind");
            assert!(is_one, "{file}: {number}: {}", ran.stderr);
            same(&project.files(), &before, file);
            tried += 1;
        }
    }
    testkit::gate_passed(20, tried);
}

#[test]
fn a_lock_of_a_newer_program_is_not_looked_up_anew() {
    let (project, file) = (project(), "versions/locks/pylock.vllm-legacy.toml");
    project.edit(file, "schema = 1\n", "schema = 2\n");
    let before = project.files();
    for line in ["lock vllm-legacy", "lock vllm-legacy --accept-moved"] {
        project.run(line).expect(2).says("newer build-pipeline").says("nothing was changed");
        same(&project.files(), &before, line);
    }
    testkit::gate_passed(20, 2);
}

#[test]
fn receipts_of_another_schema_are_left_alone() {
    let ledger = "tree/.build-pipeline/patches.json";
    let mut tried = 0;
    for text in [
        r#"{"schema":2,"receipts":[]}"#,
        r#"{"schema":2,"everything":"else"}"#,
        r#"{"schema":0,"receipts":[]}"#,
        r#"{"schema":-1,"receipts":[]}"#,
        r#"{"receipts":[]}"#,
    ] {
        let project = project();
        project.run("patch apply demo --root tree --no-probes").expect(0);
        project.write(ledger, text);
        let before = project.files();
        for command in ["check", "apply", "revert"] {
            let more = if command == "revert" { "" } else { " --no-probes" };
            let ran = project.run(&format!("patch {command} demo --root tree{more}")).expect(2);
            let ran = ran.says("patches.json");
            let is_newer = text.contains(":2");
            assert_eq!(ran.stderr.contains("newer build-pipeline"), is_newer, "{}", ran.stderr);
            same(&project.files(), &before, text);
            tried += 1;
        }
    }
    testkit::gate_passed(20, tried);
}

#[test]
fn what_is_remembered_by_a_newer_program_is_not_forgotten() {
    let history = "home/.local/state/build-pipeline/outdated.json";
    let project = project();
    project.write(
        "versions/versions.toml",
        "schema = 1\nsource-date-epoch = 1795132800\n[source.a]\nurl = \"https://h.example/a\"\ncommit = \"unresolved\"\n",
    );
    let mut tried = 0;
    for text in [
        r#"{"schema": 2, "seen": {}}"#,
        r#"{"schema": 2, "pins": []}"#,
        r#"{"schema": 99, "seen": {"a": {"class": "moved", "new": 1}}}"#,
    ] {
        project.write(history, text);
        project.run("outdated").expect(2).says("outdated.json").says("schema");
        assert_eq!(project.read(history), text);
        tried += 1;
    }
    testkit::gate_passed(20, tried);
}

#[test]
fn records_of_another_schema_are_named_and_kept() {
    let project = project();
    project.run("--track locked-spoof --rehearse").expect(0);
    let folder = project.path("home/.local/state/build-pipeline/records");
    let mine = folder.read_dir().unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&mine).unwrap();
    let mut tried = 0;
    for (number, other, says) in [
        (1, text.replacen("\"schema\": 2", "\"schema\": 1", 1), "from before the first release"),
        (2, text.replacen("\"schema\": 2", "\"schema\": 3", 1), "reads only up to 2"),
        (3, r#"{"schema":3,"everything":"else"}"#.to_owned(), "reads only up to 2"),
    ] {
        let path = folder.join(format!("20270101T00000{number}Z-other-1.json"));
        std::fs::write(&path, &other).unwrap();
        let ran = project.run("records").expect(0).says(says);
        let ran = ran.says(path.file_name().unwrap().to_str().unwrap());
        assert_eq!(ran.stdout.lines().count(), 1, "{}", ran.stdout);
        project.run("--track ollama --rehearse --dry-run").expect(0);
        project.run("clean").expect(0);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), other);
        std::fs::remove_file(path).unwrap();
        tried += 1;
    }
    testkit::gate_passed(20, tried);
}

/// The formats of the first release are in `tests/old`, which never changes.
#[test]
fn documents_of_the_first_release_are_read() {
    let old = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old");
        std::fs::read_to_string(folder.join(name)).unwrap()
    };
    let project = project();
    let records = "home/.local/state/build-pipeline/records";
    let id = "20261121T120000Z-rehearsal-locked-spoof-4711";
    project.write(&format!("{records}/{id}.json"), &old("record-2.json"));
    project.run("records").expect(0).prints(id).prints("succeeded");
    project.run(&format!("records {id}")).expect(0).prints("fetch-base");
    // Receipts: patches that they list can be undone.
    project.run("patch apply demo --root tree --no-probes").expect(0);
    let now = project.read("tree/a.txt");
    project.write("tree/.build-pipeline/patches.json", &old("patches-1.json"));
    project.run("patch revert demo --root tree").expect(0);
    assert_ne!(project.read("tree/a.txt"), now);
    assert_eq!(project.read("tree/a.txt"), "list = \"gfx1100\"\n");
    testkit::gate_passed(20, 3);
}
