//! `verify` accepts correct images and finds wrong ones, with an exit code for each case.

use names::Digest;
use serde_json::Value;
use testkit::shared_registry;

use crate::dsl::{Base, Project};

/// A project with a full image of a base, and the option that reads the base.
fn built(seed: u64) -> (Project, String) {
    let (project, base) = (Project::new(), Base::push(seed));
    let host = shared_registry().host();
    project.run(&format!("{} --with-layers", base.locked_spoof(host))).expect(0);
    (project, format!("--mirror docker.io/rocm/vllm-dev={host}/{}", base.path))
}

/// Rewrites the image in `dist/locked-spoof` with a different manifest and config, including
/// digests, as an attacker would.
pub(crate) fn forge(
    project: &Project,
    change_config: impl Fn(&mut Value),
    change_manifest: impl Fn(&mut Value),
) {
    forge_at(&project.path("dist/locked-spoof"), change_config, change_manifest);
}

/// Rewrites the image in a layout like [`forge`].
pub(crate) fn forge_at(
    layout: &std::path::Path,
    change_config: impl Fn(&mut Value),
    change_manifest: impl Fn(&mut Value),
) {
    let image = oci::LayoutImage::read(layout).unwrap();
    let put = |bytes: &[u8]| {
        let digest = Digest::of(bytes);
        std::fs::write(oci::layout::blob_path(layout, &digest), bytes).unwrap();
        digest
    };
    let mut config: Value = serde_json::from_slice(&image.config).unwrap();
    change_config(&mut config);
    let config = config.to_string();
    let mut manifest: Value = serde_json::from_slice(&image.manifest).unwrap();
    change_manifest(&mut manifest);
    manifest["config"]["digest"] = put(config.as_bytes()).to_string().into();
    manifest["config"]["size"] = config.len().into();
    let manifest = manifest.to_string();
    let index = std::fs::read_to_string(layout.join("index.json")).unwrap();
    let mut index: Value = serde_json::from_str(&index).unwrap();
    index["manifests"][0]["digest"] = put(manifest.as_bytes()).to_string().into();
    index["manifests"][0]["size"] = manifest.len().into();
    std::fs::write(layout.join("index.json"), index.to_string()).unwrap();
}

#[test]
fn an_image_is_also_named_as_its_output_is_printed() {
    let (project, base) = (Project::new(), Base::push(49));
    let host = shared_registry().host();
    let pushed = format!("registry:{host}/{}-names:1", base.path);
    let outputs = ["oci:a".to_owned(), "oci-archive:b.tar".to_owned(), pushed.clone()];
    let options: String = outputs.iter().map(|name| format!(" --output {name}")).collect();
    let line = format!("{} --with-layers{options}", base.locked_spoof(host));
    let built = project.run(&line).expect(0);
    let mirror = format!("--mirror docker.io/rocm/vllm-dev={host}/{}", base.path);
    for name in &outputs {
        let built = built.stdout.contains(&format!("output    {name}"));
        assert!(built, "{name}");
        project.run(&format!("verify {name} {mirror}")).expect(0).prints("proven");
        project.run(&format!("diff {name} oci:a {mirror}")).expect(0);
        project.run(&format!("audit {name} {mirror}")).says("has no GPU code").expect(1);
        let slimmed = format!("slim {name} --output oci:slim {mirror}");
        project.run(&slimmed).expect(1).says("has no GPU code").says("use the image as it is");
        project.run(&format!("push {name} {pushed}-again {mirror}")).expect(0).prints(&base.path);
    }
    project.run(&format!("tag {pushed} 2")).expect(0);
}

#[test]
fn a_changed_field_is_found_by_name() {
    let (project, mirror) = built(41);
    let line = format!("verify oci:dist/locked-spoof {mirror}");
    project.run(&line).expect(0).prints("proven");

    forge(&project, |config| config["config"]["Env"][0] = "PATH=/evil".into(), |_| {});
    project
        .run(&line)
        .expect(13)
        .prints("✗ variable PATH")
        .prints("is      /evil")
        .prints("differs: ");

    let (project, mirror) = built(42);
    let line = format!("verify oci:dist/locked-spoof {mirror}");
    forge(&project, |config| config["config"]["Entrypoint"] = serde_json::json!(["/evil"]), |_| {});
    project.run(&line).expect(13).prints("✗ config Entrypoint");

    let (project, mirror) = built(43);
    let line = format!("verify oci:dist/locked-spoof {mirror}");
    forge(
        &project,
        |_| {},
        |manifest| manifest["annotations"]["org.opencontainers.image.title"] = "x".into(),
    );
    project.run(&line).expect(13).prints("✗ annotation org.opencontainers.image.title");
}

#[test]
fn every_claim_of_a_label_is_checked() {
    let mut tried = 0;
    for (key, value, code) in [
        ("io.github.build-pipeline.plan-digest", "sha256:0", 13),
        ("io.github.build-pipeline.gpu", "gfx1100", 13),
        ("io.github.build-pipeline.spoof", "off", 13),
        ("io.github.build-pipeline.pins-digest", "sha256:0", 8),
        ("org.opencontainers.image.base.digest", "sha256:0", 8),
        ("io.github.build-pipeline.overrides", "nonsense", 13),
        ("io.github.build-pipeline.overrides", "source-date-epoch=99999999999999", 13),
        ("io.github.build-pipeline.overrides", "variant=debian", 13),
        ("io.github.build-pipeline.variant", "debian", 13),
        ("org.opencontainers.image.revision", "HEAD", 13),
        ("io.github.build-pipeline.track", "vulkan-ish", 13),
    ] {
        let (project, mirror) = built(44);
        forge(&project, |config| config["config"]["Labels"][key] = value.into(), |_| {});
        project.run(&format!("verify oci:dist/locked-spoof {mirror}")).expect(code);
        // By its track, it is not the image of the record.
        project.run(&format!("verify locked-spoof {mirror}")).expect(13).says("no longer contains");
        tried += 1;
    }
    testkit::gate_passed(22, tried);
}

#[test]
fn other_pins_are_told_from_a_forgery() {
    let project = Project::new();
    let (old, new) = (Base::push(45), Base::push(46));
    let host = shared_registry().host();
    let pin = "sha256:a92fa9cb915027468e85e147f4dd1c87f026d7974610280546a2a1f94a146889";
    project.edit("versions/versions.toml", pin, &old.digest());
    let mirror = |base: &Base| format!("--mirror docker.io/rocm/vllm-dev={host}/{}", base.path);
    project.run(&format!("--track locked-spoof {}", mirror(&old))).expect(0);
    project.run(&format!("verify locked-spoof {}", mirror(&old))).expect(0);
    project.edit("versions/versions.toml", &old.digest(), &new.digest());
    project.run(&format!("verify locked-spoof {}", mirror(&new))).expect(8).prints("out of date");
}

#[test]
fn an_image_with_an_older_time_is_out_of_date() {
    let project = Project::new();
    project.run("--track locked-spoof --rehearse").expect(0);
    // As after `bump` of a pin of another track.
    let pins = project.read("versions/versions.toml");
    let line = pins.lines().find(|line| line.starts_with("source-date-epoch = ")).unwrap();
    project.edit("versions/versions.toml", line, "source-date-epoch = 1790000000");
    let run = project.run("verify rehearsal-locked-spoof").expect(8);
    let run = run.prints("✗ label org.opencontainers.image.created");
    run.prints("out of date");
}

#[test]
fn damaged_blobs_are_told_from_wrong_images() {
    let (project, mirror) = built(47);
    let line = format!("verify oci:dist/locked-spoof {mirror}");
    let layout = project.path("dist/locked-spoof");
    let image = oci::LayoutImage::read(&layout).unwrap();
    let layer = oci::layout::blob_path(&layout, &image.present_layers[0]);
    let mut bytes = std::fs::read(&layer).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&layer, &bytes).unwrap();
    project.run(&line).expect(6).says("has the wrong content");
    std::fs::remove_file(&layer).unwrap();
    project.run(&line).expect(0).prints("- 1 layer is only referenced by digest");
    std::fs::rename(layout.join("oci-layout"), project.path("aside")).unwrap();
    project.run(&line).expect(2).says("no valid file `oci-layout`");
    std::fs::rename(project.path("aside"), layout.join("oci-layout")).unwrap();
    project.run(&line).expect(0);
    std::fs::remove_file(oci::layout::blob_path(&layout, &image.manifest_digest)).unwrap();
    project.run(&line).expect(2).says("lacks blob");
}

#[test]
fn an_archive_needs_all_its_layers_and_its_marker() {
    let (project, base) = (Project::new(), Base::push(51));
    let host = shared_registry().host();
    project.run(&format!("{} --output oci-archive:a.tar", base.locked_spoof(host))).expect(0);
    let mirror = format!("--mirror docker.io/rocm/vllm-dev={host}/{}", base.path);
    project.run(&format!("verify oci-archive:a.tar {mirror}")).expect(0).prints("proven: ");
    let image = oci::LayoutImage::read(&project.path("a.tar")).unwrap();
    let layer = format!("blobs/sha256/{}", image.present_layers[0].hex());
    for (entry, code) in [(layer.as_str(), 13), ("oci-layout", 2)] {
        let script =
            r#"rm -rf t && mkdir t && tar -xf a.tar -C t && rm "t/$1" && tar -cf b.tar -C t ."#;
        let mut repack = std::process::Command::new("sh");
        repack.args(["-c", script, "sh", entry]).current_dir(project.path(""));
        assert!(repack.status().unwrap().success(), "{entry}");
        let ran = project.run(&format!("verify oci-archive:b.tar {mirror}")).expect(code);
        match code {
            13 => drop(ran.prints("✗ blob of layer sha256:")),
            _ => drop(ran.says("no valid file `oci-layout`")),
        }
    }
}

#[test]
fn a_base_that_cannot_be_had_leaves_the_proof_incomplete() {
    let (project, _) = built(48);
    // With the cache, the proof is complete; without it, the base must be fetched.
    let ran = project.run("verify locked-spoof").code;
    assert_eq!(ran, 0, "the cache contains the base");
    std::fs::remove_dir_all(project.path("home/.cache")).unwrap();
    project
        .run("verify locked-spoof --mirror docker.io=127.0.0.1:1")
        .expect(5)
        .prints("? manifest digest: not compared")
        .prints("incomplete");
    let help = project.run("help exit-codes").expect(0);
    help.prints("verify: the base could not be fetched, so not everything could be compared");
}

#[test]
fn images_of_others_are_refused() {
    let (project, base) = (Project::new(), Base::push(49));
    project
        .run(&format!("verify {}:base", base.image.repository))
        .expect(13)
        .says("build-pipeline did not build it");
    project
        .run("verify locked-spoof")
        .expect(2)
        .says("no image of track")
        .says("--track locked-spoof");
    project.run("--track locked-spoof --rehearse").expect(0);
    project
        .run("verify locked-spoof")
        .expect(2)
        .says("`build-pipeline verify rehearsal-locked-spoof`");
    project.run("verify versions").expect(2);
    project.run("verify versions/versions.toml").expect(2).says("pass an OCI image layout");
}

#[test]
fn a_config_that_podman_reads_otherwise_is_refused_wherever_it_enters() {
    let (project, _) = built(50);
    let told = "key `Config` differs from `config` only in case";
    forge(
        &project,
        |config| config["Config"] = serde_json::json!({ "Env": ["PATH=/evil"] }),
        |_| {},
    );
    project.run("verify locked-spoof").expect(2).says(told);
    project.run("diff locked-spoof dist/locked-spoof").expect(2).says(told);
    // Somebody pushes it as a base.
    let host = shared_registry().host();
    let pushed = format!("{host}/rocm/vllm-dev-forged-{}:x", std::process::id());
    let source = format!("oci:{}", project.path("dist/locked-spoof").display());
    let copied = std::process::Command::new("skopeo")
        .args(["--insecure-policy", "copy", "--preserve-digests", "--dest-tls-verify=false"])
        .args([source, format!("docker://{pushed}")])
        .status();
    assert!(copied.unwrap().success());
    project.run(&format!("verify {pushed}")).expect(2).says(told);
    let layout = std::fs::read_to_string(project.path("dist/locked-spoof/index.json")).unwrap();
    let index: Value = serde_json::from_str(&layout).unwrap();
    let digest = index["manifests"][0]["digest"].as_str().unwrap();
    let (repository, _) = pushed.rsplit_once(':').unwrap();
    project
        .run(&format!(
            "--track locked-spoof --mirror docker.io/rocm/vllm-dev={repository} --set vllm-dev-locked={digest} --output oci:made"
        ))
        .expect(1)
        .says(told);
    assert!(!project.path("made/index.json").exists());
}

/// Programs choose an image by its entry in `index.json`, which no digest covers.
#[test]
fn the_entry_in_the_index_and_files_that_are_not_of_the_image_are_checked() {
    let project = Project::new();
    project.run("build ollama --rehearse --with-layers").expect(0);
    let layout = "dist/rehearsal-ollama";
    let index = project.read(&format!("{layout}/index.json"));
    let whole = project.run("verify rehearsal-ollama --format json").expect(0).stdout;
    let whole: Value = serde_json::from_str(&whole).unwrap();
    assert_eq!(whole["unused_files"], serde_json::json!([]));
    let name = "annotation org.opencontainers.image.ref.name in index.json";
    for (from, to, code, wrong) in [
        ("\"amd64\"", "\"arm64\"", 13, Some("platform in index.json")),
        ("\"linux\"", "\"windows\"", 13, Some("platform in index.json")),
        (":\"rehearsal-ollama\"", ":\"official\"", 13, Some(name)),
        // Other tools write no platform.
        ("\"platform\"", "\"x-platform\"", 0, None),
    ] {
        assert!(index.contains(from), "{index}");
        project.write(&format!("{layout}/index.json"), &index.replace(from, to));
        let ran = project.run("verify rehearsal-ollama").expect(code);
        wrong.iter().for_each(|wrong| {
            assert!(ran.stdout.contains(&format!("✗ {wrong}")), "{}", ran.stdout);
        });
    }
    // Only a record tells the name: the image may have been copied under another one.
    project
        .write(&format!("{layout}/index.json"), &index.replace(":\"rehearsal-ollama\"", ":\"x\""));
    project.run(&format!("verify {layout}")).expect(0).prints("proven");
    project.write(&format!("{layout}/index.json"), &index);

    let blob = format!("blobs/sha256/{}", "0".repeat(64));
    for name in [&*blob, "blobs/sha256/.x.part", "blobs/notes.txt", "notes.txt", "more/notes.txt"] {
        project.write(&format!("{layout}/{name}"), "x");
    }
    let ran = project.run("verify rehearsal-ollama").expect(0).prints("proven");
    ran.prints("5 files next to the image are not part of it: ").prints("`more/`").prints(&blob);
    let found = project.run("verify rehearsal-ollama --format json").expect(0).stdout;
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["unused_files"].as_array().unwrap().len(), 5, "{found}");
    crate::schemas::check(&project, "verify", &[found]);
}

/// The tool does not claim to have built an archive that another tool wrote.
#[test]
fn the_next_step_for_a_damaged_archive_depends_on_the_tool_that_wrote_it() {
    let project = Project::new();
    let build = "build ollama --rehearse --with-layers";
    project.run(&format!("{build} --output oci-archive:own.tar --output oci:l")).expect(0);
    let mut tar = std::process::Command::new("tar");
    tar.args(["-cf", "other.tar", "-C", "l", "oci-layout", "index.json", "blobs"]);
    assert!(tar.current_dir(project.path("")).status().unwrap().success());
    for (file, says, not) in [
        ("own.tar", "build it again, which replaces what is damaged", "another tool"),
        ("other.tar", "another tool wrote this archive", "build again"),
    ] {
        project.run(&format!("verify {file}")).expect(0);
        let bytes = std::fs::read(project.path(file)).unwrap();
        let config = bytes.windows(13).rposition(|window| window == b"architecture\"").unwrap();
        let mut damaged = bytes.clone();
        damaged[config] = b'A';
        for bytes in [&damaged[..], &bytes[..bytes.len() / 2]] {
            std::fs::write(project.path(file), bytes).unwrap();
            let ran = project.run(&format!("verify {file}")).expect(6).says(says);
            assert!(!ran.stderr.contains(not), "{}", ran.stderr);
        }
    }
}
