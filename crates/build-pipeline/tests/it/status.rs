//! `status`: one line per track.

use serde_json::Value;

use crate::dsl::{Base, Project};
use crate::schemas;

/// Returns the state of a track, and whether each of its outputs exists.
fn state(project: &Project, track: &str) -> (String, Vec<Value>) {
    let report: Value =
        serde_json::from_str(&project.run("status --format json").expect(0).stdout).unwrap();
    schemas::check(project, "status", std::slice::from_ref(&report));
    let tracks = report["tracks"].as_array().unwrap();
    let one = tracks.iter().find(|one| one["track"] == track).unwrap();
    let outputs = one["built"]["outputs"].as_array().cloned().unwrap_or_default();
    let exists = outputs.iter().map(|output| output["exists"].clone()).collect();
    (one["state"].as_str().unwrap().to_owned(), exists)
}

#[test]
fn a_track_is_up_to_date_until_its_inputs_change() {
    let project = Project::new();
    assert_eq!(state(&project, "locked-spoof").0, "never-built");
    assert_eq!(state(&project, "nightly-spoof").0, "follows-tag");
    assert_eq!(state(&project, "source").0, "not-ready");
    let base = Base::push(4242);
    base.pinned_at(&project, testkit::shared_registry().host());
    let pins = project.read("versions/versions.toml");
    let (_, pin) = pins.split_once("[image.vllm-dev-locked]").unwrap();
    let line = pin.lines().find(|line| line.starts_with("digest = ")).unwrap();
    project.edit("versions/versions.toml", line, &format!("digest = \"{}\"", base.digest()));
    // A rehearsal does not count as a build.
    project.run("--track locked-spoof --rehearse").expect(0);
    assert_eq!(state(&project, "locked-spoof").0, "never-built");
    project.run("--track locked-spoof").expect(0);
    assert_eq!(state(&project, "locked-spoof"), ("up-to-date".to_owned(), vec![true.into()]));
    project.run("status").expect(0).prints("up to date").prints("oci:dist/locked-spoof");

    std::fs::remove_dir_all(project.path("dist/locked-spoof")).unwrap();
    project.run("status").expect(0).prints("oci:dist/locked-spoof (removed)");
    project.edit("versions/tracks.toml", "title = \"vLLM, locked", "title = \"My vLLM, locked");
    assert_eq!(state(&project, "locked-spoof"), ("changed".to_owned(), vec![false.into()]));
    project.run("--track locked-spoof").expect(0);
    assert_eq!(state(&project, "locked-spoof").0, "up-to-date");

    // A record without an end, whose process still exists, is a running build.
    let folder = project.path("home/.local/state/build-pipeline/records");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).collect();
    files.sort();
    let record = std::fs::read_to_string(files.last().unwrap()).unwrap();
    let mut record: Value = serde_json::from_str(&record).unwrap();
    record["status"] = "running".into();
    record["process"] = std::process::id().into();
    record.as_object_mut().unwrap().remove("ended");
    std::fs::write(files.last().unwrap(), record.to_string()).unwrap();
    assert_eq!(state(&project, "locked-spoof").0, "changed");
    project.run("status").expect(0).prints("being built since 20");
}
