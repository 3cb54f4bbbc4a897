//! A track whose image is slimmed: built, proven, refused.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use names::Digest;
use serde_json::{Value, json};
use testkit::shared_registry;

use crate::audit::{fixture, program, put, tar, tree};
use crate::built::Bench;
use crate::diff::{gzip, layout_of};
use crate::dsl::{Project, ran};
use crate::verify::forge_at;

/// A base on the registry.
pub(crate) struct Base {
    place: String,
    digest: Digest,
}

impl Base {
    /// Pushes the image in a folder of a project.
    fn push(project: &Project, folder: &str, name: &str) -> Self {
        let place =
            format!("{}/slim-track/{name}-{}", shared_registry().host(), std::process::id());
        let from = format!("oci:{}", project.path(folder).display());
        program(
            "skopeo",
            &["copy", "--dest-tls-verify=false", &from, &format!("docker://{place}:1")],
        );
        let image = oci::LayoutImage::read(&project.path(folder)).unwrap();
        Self { place, digest: image.manifest_digest }
    }

    /// Returns options that read the base of track `official`.
    pub(crate) fn options(&self) -> String {
        format!("{} --set vllm-openai-rocm={}", self.mirror(), self.digest)
    }

    pub(crate) fn mirror(&self) -> String {
        format!("--mirror docker.io/vllm/vllm-openai-rocm={}", self.place)
    }
}

/// Pushes an image with two layers, of which the second has code for several GPUs.
pub(crate) fn base(project: &Project, name: &str) -> Base {
    let below = tar(&[
        ("etc/name", Ok(b"value".to_vec())),
        ("usr/lib/libhost.so", Ok(fixture("libhost-only.so"))),
    ]);
    let above = tree();
    let layers = [("tar+gzip", &gzip(&below)[..], &below[..]), ("tar+gzip", &gzip(&above), &above)];
    layout_of(&project.path("image"), &layers, &json!({ "Env": ["PATH=/bin"] }));
    Base::push(project, "image", name)
}

fn layers_of(layout: &Path) -> Vec<String> {
    let image = oci::LayoutImage::read(layout).unwrap();
    let manifest: Value = serde_json::from_slice(&image.manifest).unwrap();
    let layers = manifest["layers"].as_array().unwrap().iter();
    layers.map(|layer| layer["digest"].as_str().unwrap().to_owned()).collect()
}

const OUT: &str = "dist/official-slim";

fn store(project: &Project) -> PathBuf {
    project.path("home/.cache/build-pipeline/store")
}

#[test]
fn a_slimmed_track_is_the_slimmed_base_with_labels_and_proven() {
    let project = Project::new();
    let base = base(&project, "proven");
    let options = base.options();
    let plan = format!("plan official --variant slim {options}");
    project
        .run(&plan)
        .expect(0)
        .prints("code that gfx1151 can run is kept; the image must contain some");
    let build = format!("build official --variant slim {options}");
    project
        .run(&build)
        .expect(0)
        .prints("2 files smaller, 1 removed; only code for gfx1151 is left")
        .says("slim-image layer 2 of 2");
    project.run(&plan).expect(0).prints("last time: ");

    // The layers are the same as those that the command `slim` writes.
    let command = format!("slim {}:1 --gpu gfx1151 --output oci:command", base.place);
    project.run(&command).expect(0);
    let layers = layers_of(&project.path(OUT));
    assert_eq!(layers, layers_of(&project.path("command")));
    assert_eq!(layers[0], layers_of(&project.path("image"))[0], "nothing to remove in it");
    project.run(&format!("audit {OUT} --gpu gfx1151")).expect(0).prints("native");

    let record = project.records().pop().unwrap();
    let slim = &record["image"]["slim"];
    assert_eq!(slim["gpus"], json!(["gfx1151"]));
    assert_eq!(slim["layers"].as_array().unwrap().len(), 1);
    assert_eq!(slim["layers"][0]["layer"], 2);
    assert_eq!(slim["layers"][0]["before"], layers_of(&project.path("image"))[1].as_str());
    assert_eq!(slim["layers"][0]["after"], layers[1].as_str());
    let bytes = |key: &str| slim[key].as_u64().unwrap();
    assert!(bytes("layer_bytes_after") < bytes("layer_bytes_before"));
    let work = store(&project).join("work");
    assert_eq!(std::fs::read_dir(work).unwrap().count(), 0, "the copied layers are removed");

    // A second build does nothing.
    let again = project.run(&build).expect(0).says("slim-image (0.000 s, cached)");
    again.says("up to date");
    let last = project.records().pop().unwrap();
    assert_eq!(&last["image"]["slim"], slim);
    project.run("explain official --variant slim").expect(0);

    let verify = format!("verify {OUT} {}", base.mirror());
    project.run(&verify).expect(0).prints("proven: ").prints("that this machine made;");
    // Another machine slims the base again.
    std::fs::remove_dir_all(store(&project)).unwrap();
    project.run(&verify).expect(0).prints("as planned: ");
    project
        .run(&format!("{verify} --rebuild"))
        .expect(0)
        .prints("proven: ")
        .says("slim-image layer 2 of 2");
    let fresh = project.run(&format!("{build} --fresh")).expect(0);
    fresh.prints("up to date");
}

/// Flips a byte in the files of the last layer of an image, and corrects all digests.
fn flip(layout: &Path) {
    let digest: Digest = layers_of(layout).pop().unwrap().parse().unwrap();
    let packed = std::fs::read(oci::layout::blob_path(layout, &digest)).unwrap();
    let mut content = Vec::new();
    GzDecoder::new(&packed[..]).read_to_end(&mut content).unwrap();
    // Inside the first file; the header of a tar entry is 512 bytes long.
    content[512 + 2000] ^= 1;
    let new = gzip(&content);
    let named = Digest::of(&new);
    std::fs::write(oci::layout::blob_path(layout, &named), &new).unwrap();
    forge_at(
        layout,
        |config| config["rootfs"]["diff_ids"][1] = Digest::of(&content).to_string().into(),
        |manifest| {
            manifest["layers"][1]["digest"] = named.to_string().into();
            manifest["layers"][1]["size"] = new.len().into();
        },
    );
}

#[test]
fn one_flipped_byte_in_a_slimmed_layer_is_found() {
    let project = Project::new();
    let base = base(&project, "flipped");
    project.run(&format!("build official --slim {} --output oci:{OUT}", base.options())).expect(0);
    let verify = format!("verify {OUT} {}", base.mirror());
    project.run(&verify).expect(0).prints("proven: ");
    flip(&project.path(OUT));
    project.run(&verify).expect(13).prints("✗ manifest digest").prints("✗ manifest layers");
    // Without the files that the build left behind, the base is slimmed again.
    std::fs::remove_dir_all(store(&project)).unwrap();
    project.run(&format!("{verify} --rebuild")).expect(13).prints("differs: ").prints("libtwo.so");
    // A build repairs the image.
    project.run(&format!("build official --slim {} --output oci:{OUT}", base.options())).expect(0);
    project.run(&verify).expect(0).prints("proven: ");
    // Labels do not prove that an image is slimmed.
    let whole = format!("build official {} --with-layers --output oci:whole", base.options());
    project.run(&whole).expect(0);
    let key = "io.github.build-pipeline.overrides";
    let claim = |labels: &mut Value| {
        let text = format!("slim=gfx1151 {}", labels[key].as_str().unwrap());
        labels[key] = text.into();
    };
    let config = |config: &mut Value| claim(&mut config["config"]["Labels"]);
    forge_at(&project.path("whole"), config, |manifest| claim(&mut manifest["annotations"]));
    project.run(&format!("verify whole {}", base.mirror())).expect(8).prints("✗ label");
}

#[test]
fn the_surroundings_do_not_change_a_slimmed_track() {
    let digests = [false, true].map(|is_odd| {
        let project = Project::new();
        let base = base(&project, "surroundings");
        let options = base.options();
        let mut line = vec!["build", "official", "--slim", "--format", "json"];
        line.extend(options.split(' '));
        let mut command = project.command(&line);
        if is_odd {
            std::fs::create_dir(project.path("elsewhere")).unwrap();
            // One thread, private files, a different temporary folder, and a different time zone.
            let mut odd = std::process::Command::new("sh");
            odd.args(["-c", "umask 077; exec taskset -c 0 \"$@\"", "sh"]);
            odd.arg(command.get_program()).args(command.get_args());
            odd.current_dir(command.get_current_dir().unwrap()).env_clear();
            odd.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
            odd.env("TMPDIR", project.path("elsewhere")).env("TZ", "Asia/Tokyo");
            command = odd;
        }
        let ran = crate::dsl::ran(command.output().unwrap()).expect(0);
        let built: Value = serde_json::from_str(&ran.stdout).unwrap();
        built["builds"][0]["manifest_digest"].as_str().unwrap().to_owned()
    });
    assert_eq!(digests[0], digests[1]);
}

#[test]
fn what_would_break_a_track_is_refused_and_nothing_is_written() {
    let project = Project::new();
    let full = base(&project, "refused").options();
    let host = tar(&[("usr/lib/libhost.so", Ok(fixture("libhost-only.so")))]);
    layout_of(&project.path("host"), &[("tar+gzip", &gzip(&host), &host)], &json!({}));
    let host = Base::push(&project, "host", "host").options();
    let spoof = json!({ "Env": ["HSA_OVERRIDE_GFX_VERSION=11.0.0"] });
    let content = tree();
    layout_of(&project.path("spoof"), &[("tar+gzip", &gzip(&content), &content)], &spoof);
    let spoof = Base::push(&project, "spoof", "spoof").options();
    let zeros = vec![0; 700];
    layout_of(&project.path("cut"), &[("tar+gzip", &gzip(&zeros), &zeros)], &json!({}));
    let cut = Base::push(&project, "cut", "cut").options();
    let other = tar(&[("a", Ok(b"b".to_vec()))]);
    layout_of(&project.path("bad"), &[("tar+gzip", &gzip(&other), &content)], &json!({}));
    let bad = Base::push(&project, "bad", "bad").options();
    for (line, code, text) in [
        (format!("--slim {host}"), 1, "it has no GPU code"),
        (format!("--slim {host}"), 1, "`--slim=off`"),
        (
            format!("--slim --gpu gfx1201 {full}"),
            1,
            "it contains no code for gfx1201; its targets: ",
        ),
        (format!("--slim=gfx1201 {full}"), 1, "it contains no code for gfx1201"),
        (format!("--slim=gfx1 {full}"), 2, "`gfx1` is not a GPU target"),
        (format!("--slim=gfx999 {full}"), 2, "`slim` names GPU `gfx999`"),
        (format!("--variant fat {full}"), 2, "the only variant is `slim`"),
        (format!("--slim {spoof}"), 1, "it makes ROCm treat the GPU as gfx1100"),
        (format!("--slim {cut}"), 1, "cannot be removed from layer `sha256:"),
        (format!("--slim {bad}"), 6, "but the image's config specifies"),
    ] {
        let ran = project.run(&format!("build official {line}")).expect(code);
        assert!(ran.stderr.contains(text), "{line}: {}", ran.stderr);
        assert!(!project.path("dist/official").exists(), "{line}");
    }
    project.run(&format!("build official --slim=gfx1100 {spoof}")).expect(0);
}

#[test]
fn a_damaged_file_stays_whole_and_is_named() {
    let project = Project::new();
    let mut damaged = fixture("libhost-two-bundles.so");
    let at = damaged.windows(4).rposition(|part| part == b"__CL").unwrap();
    damaged[at + 24..at + 32].fill(0xff);
    let content = tar(&[
        ("a/libdamaged.so", Ok(damaged.clone())),
        ("a/libtwo.so", Ok(fixture("libhost-two-bundles.so"))),
    ]);
    layout_of(&project.path("image"), &[("tar+gzip", &gzip(&content), &content)], &json!({}));
    let base = Base::push(&project, "image", "damaged");
    let build = format!("build official --slim {}", base.options());
    project.run(&build).expect(0).prints("unchanged a/libdamaged.so: ").prints("1 file smaller");
    let layout = project.path("dist/official");
    let digest: Digest = layers_of(&layout)[0].parse().unwrap();
    let packed = std::fs::read(oci::layout::blob_path(&layout, &digest)).unwrap();
    let mut layer = tar::Archive::new(GzDecoder::new(&packed[..]));
    let mut first = layer.entries().unwrap().next().unwrap().unwrap();
    let mut kept = Vec::new();
    first.read_to_end(&mut kept).unwrap();
    assert_eq!(kept, damaged);
    // The command `slim` reports the file too.
    let command = format!("slim {}:1 --gpu gfx1151 --output oci:command", base.place);
    project.run(&command).expect(0).prints("unchanged  a/libdamaged.so");
}

#[test]
fn a_slimmed_track_is_pushed_with_all_its_layers() {
    let project = Project::new();
    let base = base(&project, "pushed");
    let target = format!("{}/slim-track/target-{}:1", shared_registry().host(), std::process::id());
    let line = format!("build official --slim {} --push {target}", base.options());
    project.run(&line).expect(0).prints("written");
    project.run(&format!("verify {target} {}", base.mirror())).expect(0).prints("proven: ");
    let from = format!("docker://{target}");
    let to = format!("oci:{}", project.path("pulled").display());
    program("skopeo", &["copy", "--src-tls-verify=false", &from, &to]);
    project.run("audit pulled --gpu gfx1151").expect(0).prints("native");
}

#[test]
fn an_interrupted_run_leaves_what_the_next_one_continues_with() {
    let project = Project::new();
    let base = base(&project, "resumed");
    let line = format!("build official --slim {}", base.options());
    // The step's folder with a layer of the base in place, as an interrupted run leaves it.
    let plan = project.run(&format!("plan official --slim {} --format json", base.options()));
    let plan = plan::Plan::parse(&plan.expect(0).stdout).unwrap();
    let key = plan.step_keys()["slim-image"].hex()[..16].to_owned();
    let folder = format!("home/.cache/build-pipeline/store/work/slim-{key}");
    let layers = layers_of(&project.path("image"));
    let blob = |digest: &str| {
        let digest: Digest = digest.parse().unwrap();
        let bytes = std::fs::read(oci::layout::blob_path(&project.path("image"), &digest)).unwrap();
        (digest.hex().to_owned(), bytes)
    };
    let (whole, part) = (blob(&layers[0]), blob(&layers[1]));
    put(&project, &format!("{folder}/{}", whole.0), &whole.1);
    let name = oci::part_of(Path::new(&part.0)).display().to_string();
    let half = part.1.len() / 2;
    put(&project, &format!("{folder}/{name}"), &part.1[..half]);
    let received = || {
        project.run(&line).expect(0);
        let record = project.records().pop().unwrap();
        record["traffic"]["bytes_received"].as_u64().unwrap()
    };
    let resumed = received();
    std::fs::remove_dir_all(project.path("home/.cache")).unwrap();
    std::fs::remove_dir_all(project.path("dist")).unwrap();
    let there = (whole.1.len() + half) as u64;
    assert_eq!(received() - resumed, there, "what was there is not fetched again");
    let first = project.read("dist/official/index.json");
    // A damaged leftover is copied again.
    std::fs::remove_dir_all(store(&project)).unwrap();
    std::fs::remove_dir_all(project.path("dist")).unwrap();
    let mut damaged = whole.1.clone();
    damaged[20] ^= 1;
    put(&project, &format!("{folder}/{}", whole.0), &damaged);
    project.run(&line).expect(0);
    assert_eq!(project.read("dist/official/index.json"), first);
}

#[test]
fn the_slim_variants_are_rehearsed_on_stand_ins_with_code() {
    let project = Project::new();
    for track in ["official", "trainer"] {
        project
            .run(&format!("build {track} --variant slim --rehearse"))
            .expect(0)
            .prints("only code for gfx1151 is left")
            .prints("proven: ");
        project.run(&format!("verify rehearsal-{track}-slim")).expect(0).prints("proven: ");
    }
    let spoof = project.run("build locked-spoof --slim --rehearse").expect(0);
    spoof.prints("only code for gfx1100, gfx1151 is left").prints("spoof=11.0.0");
    project
        .run("audit dist/rehearsal-locked-spoof --gpu gfx1151")
        .expect(0)
        .prints("imitate 11.0.0");
    project.run("explain official --variant slim --rehearse").expect(0).prints("= slim-image");
    project.run("plan official --slim --format mermaid").expect(0).prints("slim/1: gfx1151");
    // Without `slim`, the stand-in is unchanged.
    let plain = project.run("build official --rehearse").expect(0);
    assert!(!plain.stdout.contains("slimmed"), "{}", plain.stdout);
}

#[test]
fn own_files_are_added_to_the_slimmed_base() {
    let project = Project::new();
    let base = base(&project, "files");
    project.write("files/start", "#!/bin/sh\n");
    let tracks = project.read("versions/tracks.toml");
    let mine = "\n[mine]\ntitle = \"Mine\"\ndescription = \"Slimmed, with a file.\"\ntrack = \"official\"\n\
                slim = [\"gfx1151\"]\nfiles = [{ from = \"files/start\", to = \"/usr/local/bin/start\" }]\n";
    project.write("versions/tracks.toml", &(tracks + mine));
    let build = format!("build mine {}", base.options());
    project.run(&build).expect(0).prints("only code for gfx1151 is left");
    project.run(&format!("build official --variant slim {}", base.options())).expect(0);
    let (slimmed, all) = (layers_of(&project.path(OUT)), layers_of(&project.path("dist/mine")));
    assert_eq!(all[..slimmed.len()], slimmed);
    assert_eq!(all.len(), slimmed.len() + 1);

    project.run(&build).expect(0).says("slim-image (0.000 s, cached)").says("up to date");
    let verify = format!("verify mine {}", base.mirror());
    project.run(&verify).expect(0).prints("proven: ").prints("with those that this machine made");
    project.run(&format!("{verify} --rebuild")).expect(0).prints("the images are identical");
    // A layer that was slimmed is in no registry.
    let blob = project.path("dist/mine/blobs/sha256").join(all[0].trim_start_matches("sha256:"));
    let aside = project.path("aside");
    std::fs::rename(&blob, &aside).unwrap();
    project.run(&verify).expect(13).prints("✗ blob of layer sha256:");
    std::fs::rename(&aside, &blob).unwrap();
    // Another machine lacks the slimmed layers, but can make the layer with the project's own file.
    std::fs::remove_dir_all(store(&project)).unwrap();
    project.run(&verify).expect(0).prints("as planned: ");
    forge_at(
        &project.path("dist/mine"),
        |_| {},
        |manifest| {
            let layers = manifest["layers"].as_array_mut().unwrap();
            *layers.last_mut().unwrap() = layers[0].clone();
        },
    );
    let by_place = verify.replace("verify mine", "verify oci:dist/mine");
    project.run(&by_place).expect(13).prints("layer of step add-files-mine is missing");
}

#[test]
fn what_engines_build_is_slimmed_to_one_image() {
    let bench =
        Bench::new("ARG BASE\nFROM ${BASE}\nENV PATH=/bin\nRUN cp /opt/two.so /opt/copy.so\n");
    let head = "title = \"t\"\ndescription = \"d\"\n";
    let tracks = format!(
        "{}\n[low]\n{head}base = \"tiny\"\nfiles = [{{ from = \"two.so\", to = \"/opt/two.so\" }}]\n\
         [tool]\n{head}track = \"low\"\nslim = [\"gfx1151\"]\ngpu-code = true\n[[tool.stage]]\n\
         name = \"tool\"\ndockerfile = \"dockerfiles/tiny.Dockerfile\"\n",
        bench.project.read("versions/tracks.toml")
    );
    bench.project.write("versions/tracks.toml", &tracks);
    put(&bench.project, "two.so", &fixture("libhost-two-bundles.so"));
    let host = shared_registry().host();
    let run = |line: &str| ran(bench.command_at(line, host).output().unwrap());
    let podman = run("--track tool --output oci:dist/tool --engine podman")
        .expect(0)
        .prints("2 files smaller, 0 removed; only code for gfx1151 is left");
    run("audit dist/tool --gpu gfx1151").expect(0).prints("native");
    run("audit dist/tool --gpu gfx1100").expect(1);
    run("verify tool").expect(0).prints("as planned");
    run("verify tool --rebuild --engine podman").expect(0).prints("the images are identical");
    let docker = run("--track tool --output oci:dist/tool --engine docker --fresh").expect(0);
    assert_eq!(podman.digest(), docker.digest());
}
