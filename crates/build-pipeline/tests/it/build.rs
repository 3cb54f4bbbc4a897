//! Images are written to the requested places, and nothing is transferred unnecessarily.

use std::process::Command;

use names::Digest;
use serde_json::Value;
use testkit::{FaultProxy, Flavour, RandomImage, shared_registry};

use crate::dsl::{Base, Project, Ran, ran, same};

/// Runs skopeo, an independent reader of the written images.
fn skopeo(arguments: &[&str]) -> Ran {
    let output = Command::new("skopeo").args(arguments).output();
    ran(output.expect("these tests need skopeo: apt-get install skopeo"))
}

fn layout_config(project: &Project, name: &str) -> Value {
    let path = project.path(&format!("dist/{name}"));
    let ran = skopeo(&["inspect", "--config", &format!("oci:{}", path.display())]).expect(0);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn every_metadata_only_track_rehearses_and_is_proven() {
    let project = Project::new();
    for track in ["official", "nightly-spoof", "locked-spoof", "ollama"] {
        let built =
            project.run(&format!("--track {track} --rehearse")).expect(0).prints("proven: ");
        let path = project.path(&format!("dist/rehearsal-{track}"));
        let seen = skopeo(&["inspect", &format!("oci:{}", path.display())]).expect(0);
        let seen: Value = serde_json::from_str(&seen.stdout).unwrap();
        assert_eq!(seen["Digest"], built.digest(), "{track}");
        assert_eq!(seen["Labels"]["io.github.build-pipeline.rehearsal"], "true", "{track}");
        assert_eq!(seen["Labels"]["io.github.build-pipeline.track"], track);
        project.run(&format!("verify dist/rehearsal-{track}")).expect(0);
        project.run(&format!("verify rehearsal-{track}")).expect(0);
    }
    let all = project
        .run("--track official,nightly-spoof,locked-spoof,ollama --rehearse --format json")
        .expect(0);
    let all: Value = serde_json::from_str(&all.stdout).unwrap();
    assert_eq!(all["builds"].as_array().unwrap().len(), 4);
}

#[test]
fn explain_says_which_input_changed_since_a_track_was_built() {
    let project = Project::new();
    project
        .run("explain ollama --rehearse")
        .expect(0)
        .prints("no record of a successful build")
        .says("hint: `build-pipeline build ollama --rehearse` builds it");
    project.run("--track ollama --rehearse").expect(0);
    project
        .run("explain ollama --rehearse")
        .expect(0)
        .prints("nothing changed: the image is the same");
    project.edit(
        "versions/tracks.toml",
        "OLLAMA_NUM_PARALLEL = \"1\"",
        "OLLAMA_NUM_PARALLEL = \"2\"",
    );
    project
        .run("explain ollama --rehearse")
        .expect(0)
        .prints("  = fetch-base")
        .prints("edit.env.OLLAMA_NUM_PARALLEL\n        was 1\n        is  2\n");
    let json = project.run("explain ollama --rehearse --format json").expect(0).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    crate::schemas::check(&project, "explain", std::slice::from_ref(&json));
    assert_eq!(json["steps"][1]["standing"], "changed");
    // The name that `verify` and `records` use.
    project.run("explain rehearsal-ollama").expect(0).prints("edit.env.OLLAMA_NUM_PARALLEL");
    project.run("explain olama").expect(2).says("did you mean `ollama`?");
}

#[test]
fn labels_of_the_base_that_would_lie_are_reset_and_others_stay() {
    let project = Project::new();
    project.run("--track locked-spoof --rehearse").expect(0);
    let config = layout_config(&project, "rehearsal-locked-spoof");
    let labels = config["config"]["Labels"].as_object().unwrap();
    assert!(!labels.contains_key("org.opencontainers.image.ref.name"), "{labels:#?}");
    assert!(!labels.contains_key("maintainer"));
    assert_ne!(labels["org.opencontainers.image.version"], "24.04");
    assert_eq!(labels["com.example.kept"], "a label that says nothing about the image itself");
}

#[test]
fn a_spoof_sets_variable_and_wrapper_and_off_sets_neither() {
    let project = Project::new();
    project.run("--track locked-spoof --rehearse").expect(0);
    let spoofed = layout_config(&project, "rehearsal-locked-spoof");
    let has_override = |config: &Value| {
        config["config"]["Env"].to_string().contains("HSA_OVERRIDE_GFX_VERSION=11.0.0")
    };
    assert!(has_override(&spoofed));
    assert_eq!(spoofed["config"]["Entrypoint"][0], "/bin/sh");

    project.run("--track locked-spoof --rehearse --spoof off").expect(0);
    let plain = layout_config(&project, "rehearsal-locked-spoof");
    assert!(!has_override(&plain));
    assert_eq!(plain["config"]["Entrypoint"], Value::Null);
    assert_eq!(plain["config"]["Labels"]["io.github.build-pipeline.spoof"], "off");
}

#[test]
fn a_push_beside_the_base_mounts_and_a_second_one_asks_once() {
    let (project, base) = (Project::new(), Base::push(11));
    let host = shared_registry().host();
    let target = format!("{host}/ours-{}/spoof:v1", std::process::id());
    let line = format!("{} --push {target}", base.locked_spoof(host));
    let first = project.run(&line).expect(0).prints("2 layers mounted, none transferred");
    let digest = first.digest();
    let record = project.records().pop().unwrap();
    assert_eq!(record["outputs"][0]["layer_bytes_copied"], 0);
    assert!(
        record["traffic"]["bytes_received"].as_u64().unwrap() < 10_000,
        "{}",
        record["traffic"]
    );

    let second = project.run(&line).expect(0).prints("up to date");
    assert_eq!(second.digest(), digest);
    let record = project.records().pop().unwrap();
    assert_eq!(record["traffic"]["requests"], 1, "one manifest check and nothing else");

    let seen = skopeo(&["inspect", "--tls-verify=false", &format!("docker://{target}")]).expect(0);
    assert!(seen.stdout.contains(&digest));
    project
        .run(&format!("verify {target} --mirror docker.io/rocm/vllm-dev={host}/{}", base.path))
        .expect(0);
}

#[test]
fn a_push_into_the_bases_own_repository_needs_no_mount() {
    let (project, base) = (Project::new(), Base::push(12));
    let host = shared_registry().host();
    let proxy = FaultProxy::to(host);
    let through = proxy.host();
    project
        .run(&format!("{} --push {through}/{}:ours", base.locked_spoof(&through), base.path))
        .expect(0);
    assert_eq!(proxy.count("POST", "mount="), 0);
    assert_eq!(proxy.count("GET", "/blobs/"), 1, "the config, and no layer");
}

#[test]
fn a_push_to_another_registry_streams_each_layer_once() {
    let (project, base) = (Project::new(), Base::push(13));
    let source = FaultProxy::to(shared_registry().host());
    let other = testkit::DebianRegistry::start();
    let target = format!("{}/copied/spoof:v1", other.host());
    let line = format!("{} --push {target}", base.locked_spoof(&source.host()));
    let built = project.run(&line).expect(0).prints("2 layers copied");
    for layer in &base.image.layers {
        assert_eq!(source.count("GET", layer.digest.as_str()), 1);
    }
    let copied = project.path("copied");
    skopeo(&[
        "copy",
        "--src-tls-verify=false",
        "--preserve-digests",
        &format!("docker://{target}"),
        &format!("oci:{}:x", copied.display()),
    ])
    .expect(0);
    assert!(std::fs::read_to_string(copied.join("index.json")).unwrap().contains(&built.digest()));
}

#[test]
fn a_thin_layout_moves_no_layer_and_a_full_one_can_be_copied_by_others() {
    let (project, base) = (Project::new(), Base::push(14));
    let proxy = FaultProxy::to(shared_registry().host());
    let line = base.locked_spoof(&proxy.host());
    let thin = project.run(&line).expect(0).prints("left in the base's registry").digest();
    assert!(base.image.layers.iter().all(|layer| proxy.count("GET", layer.digest.as_str()) == 0));
    assert_eq!(
        project.run(&format!("{line} --with-layers")).expect(0).prints("2 layers copied").digest(),
        thin
    );
    let asked = proxy.requests().len();
    let again = project.run(&format!("{line} --with-layers")).expect(0);
    again.prints("(up to date; no layers transferred)");
    assert_eq!(proxy.requests().len(), asked, "a finished build makes no requests");

    let full = format!("oci:{}", project.path("dist/locked-spoof").display());
    let target =
        format!("docker://{}/by-skopeo-{}/x:v1", shared_registry().host(), std::process::id());
    skopeo(&["copy", "--preserve-digests", "--dest-tls-verify=false", &full, &target]).expect(0);
    project
        .run("verify locked-spoof --mirror docker.io/rocm/vllm-dev=127.0.0.1:1")
        .expect(0)
        .prints("2 layers checked against the digests");
}

#[test]
fn an_archive_holds_everything_and_is_the_same_every_time() {
    let (project, base) = (Project::new(), Base::push(15));
    let line = base.locked_spoof(shared_registry().host());
    let digest = project.run(&format!("{line} --output oci-archive:one.tar")).expect(0).digest();
    project.run(&format!("{line} --output oci-archive:two.tar")).expect(0);
    assert_eq!(
        std::fs::read(project.path("one.tar")).unwrap(),
        std::fs::read(project.path("two.tar")).unwrap()
    );
    let seen = skopeo(&["inspect", &format!("oci-archive:{}", project.path("one.tar").display())])
        .expect(0);
    assert!(seen.stdout.contains(&digest));
    project
        .run(&format!(
            "verify one.tar --mirror docker.io/rocm/vllm-dev={}/{}",
            shared_registry().host(),
            base.path
        ))
        .expect(0);
}

#[test]
fn several_outputs_are_all_written_in_one_run() {
    let (project, base) = (Project::new(), Base::push(16));
    let host = shared_registry().host();
    let line = base.locked_spoof(host);
    let target = format!("{host}/several-{}/x:v1", std::process::id());
    project
        .run(&format!("{line} --output oci:a --output oci-archive:b.tar --push {target}"))
        .expect(0);
    assert!(project.path("a/index.json").is_file() && project.path("b.tar").is_file());
    skopeo(&["inspect", "--tls-verify=false", &format!("docker://{target}")]).expect(0);
}

/// Tracks of one run are built at the same time, and a failing track does not stop the others.
#[test]
fn of_several_tracks_one_that_fails_is_named_and_the_others_are_built() {
    let project = Project::new();
    std::fs::create_dir_all(project.path("dist/rehearsal-locked-spoof")).unwrap();
    project.write("dist/rehearsal-locked-spoof/mine", "of somebody else");
    let line = "--track locked-spoof,ollama,official --rehearse --format json";
    let ran = project.run(line).expect(2);
    let built: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let names = built["builds"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap());
    let wanted = ["rehearsal-locked-spoof", "rehearsal-ollama", "rehearsal-official"];
    assert_eq!(names.collect::<Vec<_>>(), wanted);
    let error = &built["builds"][0]["error"];
    assert_eq!(error["exit_code"], 2);
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("writing `oci:dist/rehearsal-locked-spoof` failed"), "{message}");
    assert!(built["builds"][1]["error"].is_null() && built["builds"][1]["record"].is_string());
    assert!(ran.stderr.contains("✓ rehearsal-ollama/derive-image ("), "{}", ran.stderr);
    assert!(
        ran.stderr.contains(
            "error: rehearsal-locked-spoof: writing `oci:dist/rehearsal-locked-spoof` failed"
        ),
        "{}",
        ran.stderr
    );
    let mut states: Vec<_> = project
        .records()
        .iter()
        .map(|record| (record["plan"]["track"].to_string(), record["status"].to_string()))
        .collect();
    states.sort();
    let state = |track: &str, status: &str| (format!("\"{track}\""), format!("\"{status}\""));
    let wanted = [
        state("locked-spoof", "failed"),
        state("official", "succeeded"),
        state("ollama", "succeeded"),
    ];
    assert_eq!(states, wanted);
}

#[test]
fn an_index_is_opened_at_linux_amd64_and_both_digests_are_recorded() {
    let project = Project::new();
    for (seed, flavour) in [(17, Flavour::Docker), (18, Flavour::Oci)] {
        let path = format!("rocm/indexed-{seed}-{}", std::process::id());
        let host = shared_registry().host();
        let image = RandomImage { flavour, is_index: true, ..RandomImage::new(seed) }
            .push(host, &path, "base");
        project
            .run(&format!("--track locked-spoof --mirror docker.io/rocm/vllm-dev={host}/{path} --set vllm-dev-locked={}", image.digest))
            .expect(0);
        let record = project.records().pop().unwrap();
        assert_eq!(record["image"]["base_index"], image.digest.as_str());
        assert_eq!(record["image"]["base_manifest"], image.manifest.digest.as_str());
        let labels = layout_config(&project, "locked-spoof");
        assert_eq!(
            labels["config"]["Labels"]["org.opencontainers.image.base.digest"],
            image.digest.as_str()
        );
    }
}

#[test]
fn nightly_asks_for_the_digest_now_and_records_it() {
    let project = Project::new();
    let host = shared_registry().host();
    let path = format!("rocm/nightly-{}", std::process::id());
    let line = format!("--track nightly-spoof --mirror docker.io/rocm/vllm-dev={host}/{path}");
    let first = RandomImage::new(20).push(host, &path, "nightly");
    project.run(&line).expect(0);
    let second = RandomImage::new(21).push(host, &path, "nightly");
    project.run(&line).expect(0);
    let pins: Vec<Value> = project
        .records()
        .iter()
        .map(|record| record["plan"]["overrides"]["vllm-dev-nightly"].clone())
        .collect();
    assert_eq!(pins, [format!("nightly@{}", first.digest), format!("nightly@{}", second.digest)]);
    let mirror = format!("--mirror docker.io/rocm/vllm-dev={host}/{path}");
    project.run(&format!("verify nightly-spoof {mirror}")).expect(0);
    project
        .run(&format!("plan --track nightly-spoof {mirror}"))
        .expect(0)
        .prints(second.digest.as_str());
}

#[test]
fn a_base_that_supports_the_gpu_is_noticed_while_building() {
    let project = Project::new();
    // The stand-in's PYTORCH_ROCM_ARCH contains gfx1100 but not gfx1151.
    project
        .run("--track locked-spoof --rehearse --gpu gfx1100 --spoof 10.3.0")
        .expect(0)
        .says("[spoof-not-needed]");
    let ran = project.run("--track locked-spoof --rehearse").expect(0);
    assert!(!ran.stderr.contains("[spoof-not-needed]"), "{}", ran.stderr);
    ran.says("[spoof-unsupported]").says("[base-discontinued]");
}

#[test]
fn a_dry_run_prints_the_plan_and_writes_nothing() {
    let project = Project::new();
    let before = project.files();
    project
        .run("--track locked-spoof --dry-run")
        .expect(0)
        .prints("fetch-base")
        .prints("plan digest");
    project.run("--track locked-spoof --dry-run --rehearse").expect(0);
    for tracks in ["locked-spoof", "locked-spoof,official"] {
        let json = project.run(&format!("build {tracks} --dry-run --format json")).expect(0).stdout;
        serde_json::from_str::<Value>(&json).unwrap();
        assert_eq!(json, project.run(&format!("plan {tracks} --format json")).expect(0).stdout);
    }
    assert_eq!(project.files(), before);
    assert!(project.records().is_empty());
}

#[test]
fn every_build_ends_with_the_next_step_for_its_output() {
    let (project, base) = (Project::new(), Base::push(192));
    let host = shared_registry().host();
    let line = base.locked_spoof(host);
    let target = format!("{host}/next-{}/x:v1", std::process::id());
    let push = format!("--push {target}");
    for (output, next) in [
        // A command without `--set` would build a different image.
        ("--output oci:thin", "the same command with `--load` loads it".to_owned()),
        (
            "--with-layers --output oci:full",
            "`build-pipeline push full HOST/NAME:TAG` pushes it; `podman pull oci:full` loads it into podman, and the same command with `--load --engine docker` into docker".to_owned(),
        ),
        (
            "--output oci-archive:one.tar",
            "`podman load -i one.tar` or `docker load -i one.tar` loads it".to_owned(),
        ),
        (push.as_str(), format!("`build-pipeline tag {target} TAG` gives it")),
    ] {
        let ran = project.run(&format!("{line} {output}")).expect(0);
        let last = ran.stderr.lines().last().unwrap();
        assert!(last.starts_with("hint: ") && last.contains(&next), "{output}: {}", ran.stderr);
    }
    let ran = project.run("--track locked-spoof --rehearse").expect(0);
    let last = ran.stderr.lines().last().unwrap();
    assert!(last.starts_with("hint: with network access, `build-pipeline "), "{}", ran.stderr);
}

#[test]
fn docker_without_the_containerd_store_loads_an_archive() {
    let (project, base) = (Project::new(), Base::push(191));
    let line = base.locked_spoof(shared_registry().host());
    let built = project.run(&format!("{line} --output oci-archive:image.tar")).expect(0);
    let file = project.path("image.tar");
    let image = oci::LayoutImage::read(&file).unwrap();
    assert_eq!(built.digest(), image.manifest_digest.to_string());
    let config = Digest::of(&image.config);

    let daemon = testkit::Dockerd::start();
    let host = format!("unix://{}", daemon.socket().display());
    let docker = |arguments: &[&str]| {
        let output = Command::new("docker").args(["--host", &host]).args(arguments).output();
        ran(output.expect("these tests need docker: apt-get install docker.io")).expect(0)
    };
    docker(&["load", "--input", file.to_str().unwrap()])
        .prints("localhost/build-pipeline/locked-spoof:latest");
    let name = "localhost/build-pipeline/locked-spoof:latest";
    let id = docker(&["image", "inspect", "--format", "{{.Id}}", name]);
    assert_eq!(id.stdout.trim(), config.to_string());

    let copy = |from: &str, to: &str| {
        let to = format!("oci:{}:x", project.path(to).display());
        skopeo(&["--insecure-policy", "copy", &format!("{from}:{}", file.display()), &to])
            .expect(0);
    };
    copy("docker-archive", "by-docker");
    copy("oci-archive", "by-oci");
    let read = |name: &str| oci::LayoutImage::read(&project.path(name)).unwrap();
    assert_eq!(read("by-oci").manifest_digest, image.manifest_digest);
    // Skopeo rewrites docker archives; their content stays the same.
    let diff_ids = |image: &oci::LayoutImage| {
        oci::read_config(&image.config).unwrap()["rootfs"]["diff_ids"].clone()
    };
    assert_eq!(diff_ids(&read("by-docker")), diff_ids(&image));
}

#[test]
fn a_new_output_that_fails_is_not_called_existing() {
    let project = Project::new();
    let line = "build official --rehearse --output oci-archive:/proc/x.tar";
    let ran = project.run(line).says("✗ oci-archive:/proc/x.tar (failed)");
    assert_ne!(ran.code, 0);
    project.write("folder/file", "mine");
    project
        .run("build official --rehearse --output oci:folder")
        .says("✗ oci:folder (failed; existing output was not changed)");
}

/// The file for the digest would replace or damage the image, or the image would replace the file.
#[test]
fn the_digest_is_not_written_into_an_image() {
    let project = Project::new();
    project.write("there/x", "");
    std::os::unix::fs::symlink("there", project.path("link")).unwrap();
    for (output, file) in [
        ("oci-archive:a.tar", "a.tar"),
        ("oci-archive:a.tar", "./a.tar"),
        ("oci-archive:there/a.tar", "link/a.tar"),
        ("oci:layout", "layout/index.json"),
        ("oci:dist/layout", "dist/layout"),
    ] {
        let line = format!("build ollama --rehearse --output {output} --digest-file {file}");
        let ran = project.run(&line);
        assert_eq!(ran.code, 2, "{line}: {ran:?}");
    }
    project.run("build ollama --rehearse --with-layers --output oci:layout").expect(0);
    let before = project.files();
    let line = "push layout localhost:1/a:b --digest-file layout/digest";
    project.run(line).expect(2).says("is in the image");
    same(&project.files(), &before, "a refused file");
}
