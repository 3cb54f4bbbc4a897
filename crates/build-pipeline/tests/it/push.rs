//! `push`, `tag`, placeholders in the names of outputs, and `--digest-file`.

use serde_json::Value;
use testkit::{Fault, FaultProxy, shared_registry};

use crate::dsl::Project;
use crate::schemas;

/// Returns a project with a rehearsed image that contains its layers, in `full`.
fn with_image() -> Project {
    let project = Project::new();
    project.run("--track official --rehearse --with-layers --output oci:full").expect(0);
    project
}

#[test]
fn a_finished_image_goes_to_several_places() {
    let project = with_image();
    let host = shared_registry().host();
    let line = format!(
        "push full {host}/push/{{track}}:{{version}} {host}/push/other:{{date}} --digest-file digest --format json"
    );
    let report: Value = serde_json::from_str(&project.run(&line).expect(0).stdout).unwrap();
    schemas::check(&project, "push", std::slice::from_ref(&report));
    let digest = report["digest"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(project.path("digest")).unwrap(), digest);
    let pushed = report["pushed"].as_array().unwrap();
    assert_eq!(pushed[0]["reference"], format!("{host}/push/official@{digest}"));
    assert_eq!((&pushed[0]["layers_copied"], &pushed[1]["layers_mounted"]), (&3.into(), &3.into()));
    let place = pushed[1]["output"].as_str().unwrap().to_owned();
    assert!(place.starts_with(&format!("registry:{host}/push/other:20")), "{place}");
    project.run(&format!("verify {host}/push/official:v0.27.1")).expect(0).prints("proven");

    // A second push transfers nothing, and tags are added on the registry alone.
    let again = project.run(&format!("push full {host}/push/official:v0.27.1")).expect(0);
    again.prints("up to date; no layers transferred").prints(&format!("push/official@{digest}"));
    let tag = project.run(&format!("tag {host}/push/official:v0.27.1 stable newest")).expect(0);
    tag.prints("push/official:stable (written; no layers transferred)").prints("official:newest");
    project.run(&format!("push {host}/push/official:stable {host}/push/third:1")).expect(0);
    for image in ["official:stable", "official:newest", "third:1"] {
        project.run(&format!("diff full {host}/push/{image}")).expect(0);
    }
}

#[test]
fn a_push_that_fails_names_those_that_succeeded() {
    let project = with_image();
    let host = shared_registry().host();
    let line = format!("push full {host}/part/a:1 127.0.0.1:1/part/b:1 {host}/part/c:1");
    let ran = project.run(&format!("{line} --format json")).expect(5);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    schemas::check(&project, "push", std::slice::from_ref(&report));
    assert_eq!(report["pushed"].as_array().unwrap().len(), 1);
    assert_eq!(report["failed"]["output"], "registry:127.0.0.1:1/part/b:1");
    project.run(&format!("verify {host}/part/a:1")).expect(0);
    let told = project.run(&line).expect(5).prints("part/a@sha256:");
    // A mirror would not help.
    let told = told.says("the spelling of `127.0.0.1:1`");
    assert!(!told.stderr.contains("--mirror"), "{}", told.stderr);
}

#[test]
fn a_registry_that_confirms_another_digest_is_to_be_checked() {
    let project = with_image();
    let proxy = FaultProxy::to(shared_registry().host());
    let other = format!("sha256:{}", "0".repeat(64));
    proxy
        .on("PUT", "/manifests/")
        .does(Fault::Header("Docker-Content-Digest".to_owned(), Some(other)));
    let host = proxy.host();
    let ran = project.run(&format!("push full {host}/push/other:1")).expect(6);
    let ran = ran.says(&format!("registry `{host}` stored something else"));
    assert!(!ran.stderr.contains("mirror"), "{}", ran.stderr);
}

#[test]
fn builds_fill_in_the_names_of_their_outputs() {
    let project = Project::new();
    let host = shared_registry().host();
    project
        .run(&format!(
            "--track official,ollama --rehearse --push {host}/fill/{{track}}:{{gpu}} --output oci:out/{{track}}"
        ))
        .expect(0)
        .prints(&format!("{host}/fill/official@sha256:"))
        .prints(&format!("{host}/fill/ollama@sha256:"));
    for track in ["official", "ollama"] {
        project.run(&format!("verify out/{track}")).expect(0);
    }
    project.run(&format!("verify {host}/fill/ollama:gfx1151")).expect(0);

    project.run("--track ollama --rehearse --digest-file digest").expect(0);
    let digest = std::fs::read_to_string(project.path("digest")).unwrap();
    project.run("verify rehearsal-ollama").expect(0).prints(&digest);
}

#[test]
fn what_cannot_be_pushed_is_refused_before_anything_is_sent() {
    let project = with_image();
    let host = shared_registry().host();
    project.run("--track official --rehearse").expect(0);
    for (line, code, what) in [
        ("push full", 2, "REF"),
        ("push nothing HOST/a:1", 2, "`nothing` is not a track, file or image reference"),
        ("push full HOST/{trak}:1", 2, "did you mean `{track}`?"),
        ("push full HOST/A:1", 2, "is not the name of an image on a registry"),
        (
            "push full HOST/a@sha256:0000000000000000000000000000000000000000000000000000000000000000",
            2,
            "contains a digest",
        ),
        ("push full me:canary@HOST/a:1", 2, "podman login"),
        ("push full registry.example.org/a:1", 2, "a rehearsed image cannot be pushed"),
        ("push rehearsal-official HOST/a:1", 2, "--with-layers"),
        ("push full HOST/a:1 --digest-file no/digest", 2, "in a folder that does not exist"),
        ("push full HOST/a:1 --digest-file full", 2, "not a regular file"),
        (
            "push full HOST/a:1 --digest-file versions/versions.toml",
            2,
            "contains something other than a digest",
        ),
        ("tag HOST/a:1 b/c", 2, "`b/c` is not a tag"),
        ("tag HOST/a:1 b@sha256:1", 2, "is not a tag"),
        ("tag full stable", 2, "`build-pipeline push IMAGE HOST/NAME:TAG`"),
        ("tag HOST/none:1 stable", 5, "none:1"),
        ("--track official,ollama --rehearse --digest-file digest", 2, "one image at a time"),
        ("--track official --rehearse --output oci-archive:-", 2, "standard output"),
    ] {
        let ran = project.run(&line.replace("HOST", host)).expect(code);
        assert!(ran.stderr.contains(what), "{line}: {}", ran.stderr);
        assert!(!ran.stderr.contains("canary"), "{line}: {}", ran.stderr);
    }
}

#[test]
fn an_image_that_lacks_layers_and_names_no_base_is_refused() {
    let project = Project::new();
    let config = serde_json::json!({ "Env": ["PATH=/bin"], "Labels": { "a": "b" } });
    crate::slim::image(&project, "image", &config);
    let blobs = project.path("image/blobs/sha256");
    let size = |path: &std::path::PathBuf| path.metadata().unwrap().len();
    let largest = blobs.read_dir().unwrap().map(|one| one.unwrap().path()).max_by_key(size);
    std::fs::remove_file(largest.unwrap()).unwrap();
    let host = shared_registry().host();
    let ran = project.run(&format!("push image {host}/push/lacking:1")).expect(2);
    ran.says("does not name the base that has them");
}
