//! A place that cannot get the image is refused before anything is fetched or built for it.

use testkit::{Answer, FaultProxy, shared_registry};

use crate::built::Bench;
use crate::dsl::{Base, Project};

/// Places that hold something else, and what the error says.
const WRONG: [(&str, &str); 7] = [
    ("oci-archive:notes.txt", "`notes.txt` exists and is not an OCI archive"),
    ("oci-archive:docs", "is a directory"),
    ("oci-archive:notes.txt/image.tar", "notes.txt"),
    ("oci:notes.txt", "`notes.txt` is a file, not a folder"),
    ("oci:docs", "`docs` contains files but is not an OCI image layout"),
    ("oci:notes.txt/image", "notes.txt"),
    ("oci:foreign", "which another tool put there"),
];

/// Writes files that are in the way.
fn occupy(project: &Project) {
    project.write("notes.txt", "years of work");
    project.write("docs/notes.txt", "years of work");
    project.write("foreign/oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}");
    let digest = format!("sha256:{}", "0".repeat(64));
    let index = format!(
        "{{\"schemaVersion\":2,\"manifests\":[{{\"mediaType\":\"a\",\"digest\":\"{digest}\",\"size\":1}}]}}"
    );
    project.write("foreign/index.json", &index);
}

#[test]
fn nothing_is_fetched_for_a_place_that_holds_something_else() {
    let (project, base) = (Project::new(), Base::push(601));
    occupy(&project);
    let proxy = FaultProxy::to(shared_registry().host());
    let line = base.locked_spoof(&proxy.host());
    for (output, says) in WRONG {
        let line = format!("{line} --with-layers --output oci-archive:first.tar --output {output}");
        project.run(&line).expect(2).says(says).says("hint: ");
        assert_eq!(proxy.requests().len(), 0, "{output}");
        assert!(!project.path("first.tar").exists(), "{output}");
    }
    let failed = project.records().pop().unwrap();
    assert_eq!(failed["status"], "failed");
    assert_eq!(failed["outputs"][0]["output"], "oci:foreign");
    assert_eq!(failed["outputs"][0]["state"], "failed");
    // The same for copies of inputs: nothing is collected for them.
    for line in
        ["bundle vulkan -o notes.txt", "bundle vulkan -o docs", "mirror vulkan --to dir:docs"]
    {
        let none = format!("{line} --mirror-only --mirror all=dir:nothing");
        project.run(&none).expect(2).says("hint: ").says(line.rsplit([' ', ':']).next().unwrap());
    }
    assert_eq!(project.read("notes.txt"), "years of work");
}

#[test]
fn nothing_is_built_for_a_place_that_cannot_get_the_image() {
    let bench = Bench::new("ARG BASE\nFROM ${BASE}\nENV PATH=/bin\nRUN sleep 600\n");
    occupy(&bench.project);
    let build = "--track vulkan --variant tiny --engine podman";
    let run = |more: &str| {
        let line = format!("{build} {more}");
        let mut command = bench.command_at(&line, shared_registry().host());
        crate::dsl::ran(command.output().unwrap())
    };
    for (output, says) in WRONG {
        run(&format!("--output {output}")).expect(2).says(says);
        let record = bench.project.records().pop().unwrap();
        let is_begun = |step: &serde_json::Value| step["state"] != "not-begun";
        assert!(!record["steps"].as_array().unwrap().iter().any(is_begun), "{record:#}");
    }
    // A registry that refuses the target stops the build as soon as it answers.
    let proxy = FaultProxy::to(shared_registry().host());
    proxy.on("*", "/v2/some/where/").does(Answer::new(401));
    let push = format!("--push {}/some/where:1", proxy.host());
    run(&push).expect(4).says("pushing to `").says("some/where:1` failed");
    let record = bench.project.records().pop().unwrap();
    assert_eq!(record["outputs"][0]["state"], "failed");
    assert!(record["image"].is_null(), "{record:#}");
}
