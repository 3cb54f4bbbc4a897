//! Builds record the project's history. It changes no image, and becomes a label only on request.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use crate::dsl::{Project, ran};
use crate::matrix::TRACKS;

const REVISION: &str = "org.opencontainers.image.revision";

/// The tracks that have no rehearsal.
const ONLY_REAL: [&str; 2] = ["vulkan", "llama-rocm"];

/// Tracks with a pin whose digest is not in the project.
const TO_SET: [(&str, &str); 2] = [("nightly-spoof", "vllm-dev-nightly"), ("ollama", "ollama")];

fn git(project: &Project, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
        .args(["-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always"])
        .args(arguments)
        .current_dir(project.path(""))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", project.path("home"))
        .output();
    ran(output.unwrap()).expect(0).stdout.trim().to_owned()
}

/// A project whose files were all added in one commit.
pub(crate) fn committed() -> (Project, String) {
    let project = Project::new();
    git(&project, &["init", "-q"]);
    git(&project, &["add", "versions", "dockerfiles", "patches"]);
    git(&project, &["commit", "-qm", "all"]);
    let commit = git(&project, &["rev-parse", "HEAD"]);
    (project, commit)
}

/// Builds a rehearsal. Returns the digest and the recorded recipe.
fn recorded(project: &Project, track: &str) -> (String, Value) {
    let built = project.run(&format!("--track {track} --rehearse")).expect(0);
    (built.digest(), project.records().last().unwrap()["recipe"].clone())
}

#[test]
fn git_restores_only_what_it_has() {
    let (project, _) = committed();
    std::fs::remove_file(project.path("versions/gpus.toml")).unwrap();
    let hint = "`git checkout HEAD -- versions/gpus.toml` restores the last committed version";
    project.run("plan official").expect(2).says(hint);
    git(&project, &["rm", "-q", "--cached", "versions/gpus.toml"]);
    project.run("plan official").expect(2).says(hint);
    git(&project, &["commit", "-qm", "removed"]);
    let ran = project.run("plan official").expect(2).says("hint: create it");
    assert!(!ran.stderr.contains("git checkout"), "{}", ran.stderr);
    git(&project, &["revert", "--no-edit", "HEAD"]);

    std::fs::remove_dir_all(project.path("patches/llama.cpp")).unwrap();
    let hint = "`git checkout HEAD -- patches/llama.cpp` restores the last committed version";
    project.run("plan vulkan --variant debian").expect(2).says(hint);
    git(&project, &["commit", "-qam", "removed"]);
    let ran = project.run("plan vulkan --variant debian").expect(2).says("the components are");
    assert!(!ran.stderr.contains("git checkout"), "{}", ran.stderr);
}

#[test]
fn the_record_has_the_commit_that_last_changed_a_file_of_the_plan() {
    let project = Project::new();
    let (digest, recipe) = recorded(&project, "locked-spoof");
    assert_eq!(recipe["unknown"], "the project is not a git checkout");
    assert_eq!(recipe["commit"], Value::Null);
    let files: Vec<&String> = recipe["files"].as_object().unwrap().keys().collect();
    assert_eq!(files, ["versions/gpus.toml", "versions/tracks.toml", "versions/versions.toml"]);

    git(&project, &["init", "-q"]);
    let (same, recipe) = recorded(&project, "locked-spoof");
    assert_eq!(recipe["unknown"], "the git repository has no commit");
    assert_eq!(same, digest);
    git(&project, &["add", "versions"]);
    git(&project, &["commit", "-qm", "pins"]);
    let pins = git(&project, &["rev-parse", "HEAD"]);

    project.write("README.md", "changes no image");
    git(&project, &["add", "README.md", "patches", "dockerfiles"]);
    git(&project, &["commit", "-qm", "elsewhere"]);
    let (same, recipe) = recorded(&project, "locked-spoof");
    assert_eq!((&recipe["commit"], &recipe["modified"]), (&pins.into(), &Value::Array(Vec::new())));
    assert_eq!(same, digest, "a commit does not change the image");

    project.edit("versions/tracks.toml", "vLLM, locked vendor image", "another title");
    let (other, recipe) = recorded(&project, "locked-spoof");
    assert_eq!(recipe["modified"], serde_json::json!(["versions/tracks.toml"]));
    assert_ne!(other, digest, "a changed title changes the image");
    project.run("verify rehearsal-locked-spoof").expect(0).prints("proven");
    git(&project, &["commit", "-qam", "title"]);
    let (same, recipe) = recorded(&project, "locked-spoof");
    let head = git(&project, &["rev-parse", "HEAD"]);
    assert_eq!((&recipe["commit"], &recipe["modified"]), (&head.into(), &Value::Array(Vec::new())));
    assert_eq!(same, other, "committing it changes nothing");
}

#[test]
fn a_commit_is_a_label_where_it_is_asked_for_and_verify_takes_it_from_there() {
    let (project, commit) = committed();
    let plain = project.run("--track locked-spoof --rehearse").expect(0);
    assert!(!plain.stdout.contains(REVISION), "{}", plain.stdout);
    let line = "--track locked-spoof --rehearse --label-revision";
    let labelled = project.run(line).expect(0).prints(&format!("{REVISION}={commit}"));
    assert_ne!(labelled.digest(), plain.digest());
    project.run("verify rehearsal-locked-spoof").expect(0).prints("proven");

    // A later commit that does not change the image does not contradict the label.
    project.edit("versions/versions.toml", "schema = 1\n", "# a comment\nschema = 1\n");
    git(&project, &["commit", "-qam", "comment"]);
    project.run("verify rehearsal-locked-spoof").expect(0).prints("proven");
    // Nor does a missing git history; `verify` reports that it did not compare the commit.
    std::fs::rename(project.path(".git"), project.path("git")).unwrap();
    project
        .run("verify rehearsal-locked-spoof")
        .expect(0)
        .prints(&format!("? label {REVISION}: not compared, the project is not a git checkout"))
        .prints("proven");
    std::fs::rename(project.path("git"), project.path(".git")).unwrap();
    // A history without the commit does contradict the label.
    std::fs::remove_dir_all(project.path(".git")).unwrap();
    git(&project, &["init", "-q"]);
    git(&project, &["add", "versions"]);
    git(&project, &["commit", "-qm", "another history"]);
    project
        .run("verify rehearsal-locked-spoof")
        .expect(8)
        .prints(&format!("✗ label {REVISION}"))
        .prints("built from another plan");
}

#[test]
fn a_history_that_cannot_answer_is_an_error_that_writes_nothing() {
    let line = "--track locked-spoof --rehearse --label-revision";
    let refuse = |project: &Project, why: &str, next: &str| {
        let before = project.files();
        project.run(line).expect(2).says(why).says(next);
        crate::dsl::same(&project.files(), &before, why);
        assert!(project.records().is_empty());
    };
    refuse(&Project::new(), "the project is not a git checkout", "leave out `--label-revision`");

    let (project, _) = committed();
    project.edit("versions/gpus.toml", "schema = 1", "# a comment\nschema = 1");
    let dirty = "there are uncommitted changes in `versions/gpus.toml`";
    refuse(&project, dirty, "commit the changes");

    let shallow = Project::empty();
    let (origin, _) = committed();
    origin.write("more", "x");
    git(&origin, &["add", "more"]);
    git(&origin, &["commit", "-qm", "more"]);
    let url = format!("file://{}", origin.path("").display());
    git(&shallow, &["clone", "-q", "--depth", "1", &url, "clone"]);
    shallow.adopt("clone");
    refuse(&shallow, "this clone is shallow", "git fetch --unshallow");

    let (grafted, commit) = committed();
    grafted.write(".git/info/grafts", &format!("{commit}\n"));
    refuse(&grafted, "changes the history", "leave out `--label-revision`");
    let (damaged, _) = committed();
    for folder in std::fs::read_dir(damaged.path(".git/objects")).unwrap().flatten() {
        std::fs::remove_dir_all(folder.path()).unwrap();
    }
    refuse(&damaged, "the git repository cannot be read", "leave out `--label-revision`");
}

/// Returns the text of several plans: an array of their texts, which are indented.
fn array<'a>(plans: impl Iterator<Item = &'a String>) -> String {
    let indented = plans.map(|plan| {
        let lines: Vec<String> = plan.lines().map(|line| format!("  {line}")).collect();
        lines.join("\n")
    });
    format!("[\n{}\n]\n", indented.collect::<Vec<_>>().join(",\n"))
}

/// Checks that the text of a track's plan is the same if the track is named alone, before and after
/// each other track, and with all tracks.
fn check_together(tracks: &[&str], plan: impl Fn(&[&str]) -> String) {
    let alone: BTreeMap<&str, String> =
        tracks.iter().map(|track| (*track, plan(&[*track]))).collect();
    let check = |named: &[&str]| {
        let (found, wanted) = (plan(named), array(named.iter().map(|track| &alone[track])));
        let differs = found.lines().zip(wanted.lines()).find(|(found, wanted)| found != wanted);
        assert!(found == wanted, "{named:?}: {differs:?}");
    };
    for one in tracks {
        let others = tracks.iter().filter(|other| *other != one);
        others.for_each(|other| check(&[*one, *other]));
    }
    check(tracks);
    check(&tracks.iter().rev().copied().collect::<Vec<_>>());
}

#[test]
fn the_plan_of_a_track_is_the_same_whatever_other_tracks_are_named() {
    let (project, _) = committed();
    // The files of different tracks have different histories.
    project.edit("dockerfiles/vulkan/fedora.Dockerfile", "ARG BASE", "# changed\nARG BASE");
    git(&project, &["commit", "-qam", "a Dockerfile"]);
    let plan = |line: String| project.run(&format!("plan --format json {line}")).expect(0).stdout;
    let rehearsed: Vec<&str> =
        TRACKS.into_iter().filter(|track| !ONLY_REAL.contains(track)).collect();
    check_together(&rehearsed, |tracks| plan(format!("--rehearse --track {}", tracks.join(","))));

    // The locks of the other variants of `source` have not been made yet.
    project.set_variant("source", "rehearsal");
    git(&project, &["commit", "-qam", "a variant"]);
    let digest = format!("sha256:{}", "1".repeat(64));
    check_together(&TRACKS, |tracks| {
        let pins = TO_SET.iter().filter(|(track, _)| tracks.contains(track));
        let set: Vec<String> = pins.map(|(_, pin)| format!("--set {pin}={digest}")).collect();
        plan(format!("--track {} {}", tracks.join(","), set.join(" ")))
    });
}
