//! `slim` removes code for other GPUs, and nothing else.

use serde_json::{Value, json};
use testkit::shared_registry;

use crate::audit::{code_for_gfx1100, fixture, program, put, tar, tree, zstd};
use crate::diff::{gzip, layout_of};
use crate::dsl::{Project, Ran};
use crate::schemas;

/// The digest of a slimmed image. If it changes, the contract needs a new number.
const GOLDEN: &str = "sha256:4e849efe2995276f491a0962e157d26e4649b6b946312aad2be22eff169244f4";

/// A layer with nothing to remove.
fn host_layer() -> Vec<u8> {
    tar(&[
        ("etc/name", Ok(b"value".to_vec())),
        ("usr/lib/libhost.so", Ok(fixture("libhost-only.so"))),
    ])
}

/// Writes an image with two layers; the second has code for several GPUs.
pub(crate) fn image(project: &Project, name: &str, config: &Value) {
    let (below, above) = (host_layer(), tree());
    let layers =
        [("tar+gzip", &gzip(&below)[..], &below[..]), ("tar+zstd", &zstd(&above), &above[..])];
    layout_of(&project.path(name), &layers, config);
}

/// Slims an image, and returns the report.
fn slimmed(project: &Project, input: &str, output: &str) -> Value {
    let line = format!("slim {input} --output {output} --gpu gfx1151 --format json");
    serde_json::from_str(&project.run(&line).expect(0).stdout).unwrap()
}

fn refused(project: &Project, line: &str, code: i32) -> Ran {
    project.run(&format!("slim {line}")).expect(code)
}

#[test]
fn every_form_of_an_image_gives_the_same_slimmed_image() {
    let project = Project::new();
    image(&project, "image", &json!({ "Env": ["PATH=/bin"], "Labels": { "a": "b" } }));
    let first = slimmed(&project, "image", "oci:out");
    schemas::check(&project, "slim", std::slice::from_ref(&first));
    let changed: Vec<(&str, bool)> = first["changed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (file["path"].as_str().unwrap(), file.get("after").is_some()))
        .collect();
    let wanted = [
        ("usr/lib/libtwo.so", true),
        ("usr/lib/libpacked.so", true),
        ("usr/share/more/gfx942.co", false),
    ];
    assert_eq!(changed, wanted);
    assert_eq!((&first["layers_changed"], &first["whole"]), (&json!(1), &json!([])));

    let at = |name: &str| project.path(name).display().to_string();
    let target = format!("{}/slim/image:1", shared_registry().host());
    program(
        "skopeo",
        &["copy", &format!("oci:{}", at("image")), &format!("oci-archive:{}", at("image.tar"))],
    );
    let insecure = "--dest-tls-verify=false";
    program(
        "skopeo",
        &["copy", insecure, &format!("oci:{}", at("image")), &format!("docker://{target}")],
    );
    for (number, input) in ["image.tar", &target, "image"].into_iter().enumerate() {
        let output = format!("oci:again-{number}");
        assert_eq!(slimmed(&project, input, &output)["digest"], first["digest"], "{input}");
    }
    // Written over the existing image, and as an archive that other programs can read.
    assert_eq!(slimmed(&project, "image", "oci:out")["digest"], first["digest"]);
    assert_eq!(slimmed(&project, "image", "oci-archive:out.tar")["digest"], first["digest"]);
    program(
        "skopeo",
        &["copy", &format!("oci-archive:{}", at("out.tar")), &format!("dir:{}", at("dir"))],
    );
    program("skopeo", &["copy", &format!("oci:{}", at("out")), &format!("dir:{}", at("dir2"))]);

    // Only code for other GPUs is gone.
    let audit = project.run("audit out --gpu gfx1151 --format json").expect(0);
    let audit: Value = serde_json::from_str(&audit.stdout).unwrap();
    let targets: Vec<(&str, u64)> = audit["targets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["target"].as_str().unwrap(), one["objects"].as_u64().unwrap()))
        .collect();
    assert_eq!(targets, [("gfx11-generic", 1), ("gfx1151", 5)]);
    project.run("audit out --gpu gfx1100").expect(0).prints("generic");
    let diff = project.run("diff image out --format json").expect(13);
    let diff: Value = serde_json::from_str(&diff.stdout).unwrap();
    let text = diff.to_string();
    for path in ["etc/name", "libplain.so", "kernels/one_gfx1151.co", "libhost.so"] {
        assert!(!text.contains(path), "{path}: {text}");
    }
    // Slimming it again changes nothing in the layers.
    let again = slimmed(&project, "out", "oci:twice");
    assert_eq!((&again["layers_changed"], &again["changed"]), (&json!(0), &json!([])));
}

#[test]
fn the_bytes_of_a_slimmed_image_do_not_change() {
    let project = Project::new();
    let (below, above) = (host_layer(), tree());
    let layers = [("tar", &below[..], &below[..]), ("tar", &above, &above)];
    layout_of(&project.path("image"), &layers, &json!({ "Env": ["PATH=/bin"] }));
    assert_eq!(slimmed(&project, "image", "oci:out")["digest"], GOLDEN);
}

#[test]
fn a_removed_file_does_not_uncover_one_in_a_layer_below() {
    let project = Project::new();
    let below =
        tar(&[("opt/a.co", Ok(fixture("gfx1151.co"))), ("opt/b.co", Ok(fixture("gfx1151.co")))]);
    let above = tar(&[("opt/a.co", Ok(fixture("gfx942-xnack_on.co")))]);
    let layers = [("tar+gzip", &gzip(&below)[..], &below[..]), ("tar+gzip", &gzip(&above), &above)];
    layout_of(&project.path("image"), &layers, &json!({}));
    slimmed(&project, "image", "oci:out");
    let audit = project.run("audit out --gpu gfx1151 --format json").expect(0);
    let audit: Value = serde_json::from_str(&audit.stdout).unwrap();
    assert_eq!((&audit["files"], &audit["targets"][0]["objects"]), (&json!(1), &json!(1)));
}

#[test]
fn a_slimmed_image_is_proven_by_slimming_its_base_again() {
    let project = Project::new();
    image(&project, "image", &json!({}));
    slimmed(&project, "image", "oci:out");
    project
        .run("verify out")
        .expect(13)
        .says("has no plan: `slim` wrote it, from the image `sha256:")
        .says("`build-pipeline verify out --slimmed-from IMAGE`");
    project
        .run("verify out --slimmed-from image")
        .expect(0)
        .prints("proven: slimming the base again produced the same bytes");
    // Another base, an image that `slim` did not write, and an image whose label was changed.
    image(&project, "other", &json!({ "Env": ["A=1"] }));
    project.run("verify out --slimmed-from other").expect(13).says("was slimmed from `sha256:");
    project.run("verify image --slimmed-from image").expect(13).says("do not say that `slim`");
    let layout = project.path("out");
    let found = oci::LayoutImage::read(&layout).unwrap();
    let config = String::from_utf8(found.config.to_vec()).unwrap();
    let config = config.replace("slim/1 gfx1151", "slim/1 gfx1100");
    let manifest = String::from_utf8(found.manifest.to_vec()).unwrap();
    let old = names::Digest::of(&found.config);
    let new = names::Digest::of(config.as_bytes());
    let manifest = manifest.replace(old.as_str(), new.as_str());
    let digest = names::Digest::of(manifest.as_bytes());
    let index = std::fs::read_to_string(layout.join("index.json")).unwrap();
    let index = index.replace(found.manifest_digest.as_str(), digest.as_str());
    std::fs::write(layout.join("index.json"), index).unwrap();
    for text in [config, manifest] {
        let name = names::Digest::of(text.as_bytes());
        std::fs::write(oci::layout::blob_path(&layout, &name), text).unwrap();
    }
    project
        .run("verify out --slimmed-from image")
        .expect(13)
        .prints("differs: slimming the base again produced different bytes");
}

#[test]
fn the_second_of_two_files_with_one_path_stays() {
    let project = Project::new();
    let layer = tar(&[
        ("opt/a.co", Ok(fixture("gfx942-xnack_on.co"))),
        ("opt/a.co", Ok(b"text".to_vec())),
        ("opt/b.co", Ok(fixture("gfx1151.co"))),
    ]);
    layout_of(&project.path("image"), &[("tar+gzip", &gzip(&layer), &layer)], &json!({}));
    let report = slimmed(&project, "image", "oci:out");
    assert_eq!(report["changed"].as_array().unwrap().len(), 1, "{report}");
    let diff = project.run("diff image out --format json").expect(13);
    assert!(!diff.stdout.contains("opt/a.co"), "{}", diff.stdout);
}

/// Returns a bundle of entries: their IDs and contents (clang, ClangOffloadBundler).
fn bundle(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut head = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    head.extend((entries.len() as u64).to_le_bytes());
    let mut offset = 4096_u64;
    for (id, content) in entries {
        for number in [offset, content.len() as u64, id.len() as u64] {
            head.extend(number.to_le_bytes());
        }
        head.extend(id.as_bytes());
        offset += content.len() as u64;
    }
    head.resize(4096, 0);
    entries.iter().for_each(|(_, content)| head.extend(content));
    head
}

#[test]
fn a_bundle_that_the_processor_uses_loses_only_the_code_for_gpus() {
    let project = Project::new();
    let bundle = bundle(&[
        ("host-x86_64-unknown-linux-gnu-", b"code".to_vec()),
        ("hipv4-amdgcn-amd-amdhsa--gfx942:xnack+", fixture("gfx942-xnack_on.co")),
    ]);
    let layer = tar(&[("opt/a.hipfb", Ok(bundle)), ("opt/b.co", Ok(fixture("gfx1151.co")))]);
    layout_of(&project.path("image"), &[("tar+gzip", &gzip(&layer), &layer)], &json!({}));
    let report = slimmed(&project, "image", "oci:out");
    let changed = &report["changed"][0];
    assert_eq!(changed["path"], "opt/a.hipfb", "{report}");
    assert!(changed["after"].as_u64().unwrap() < changed["before"].as_u64().unwrap(), "{report}");
}

#[test]
fn a_file_that_cannot_be_slimmed_stays_and_is_named() {
    let project = Project::new();
    let kernels = tar(&[
        ("a/gfx1151.co", Ok(fixture("gfx1151.co"))),
        ("a/gfx942.co", Ok(fixture("gfx942-xnack_on.co"))),
        ("a/other-name.co", Err("a/gfx942.co")),
    ]);
    layout_of(&project.path("image"), &[("tar", &kernels, &kernels)], &json!({}));
    let report = slimmed(&project, "image", "oci:out");
    assert_eq!(report["whole"][0]["path"], "a/gfx942.co");
    assert_eq!(report["whole"][0]["why"], "it has several hard links");
    project
        .run("slim image --output oci:out --gpu gfx1151")
        .expect(0)
        .prints("unchanged  a/gfx942.co: it has several hard links");
    program(
        "skopeo",
        &[
            "copy",
            &format!("oci:{}", project.path("out").display()),
            &format!("dir:{}", project.path("dir").display()),
        ],
    );
}

#[test]
fn what_would_break_an_image_is_refused_and_nothing_is_written() {
    let project = Project::new();
    image(&project, "image", &json!({}));
    let kernel = tar(&[("kernel.co", Ok(code_for_gfx1100()))]);
    let spoof = json!({ "Env": ["HSA_OVERRIDE_GFX_VERSION=11.0.0"] });
    layout_of(&project.path("spoofed"), &[("tar", &kernel, &kernel)], &spoof);
    let host = host_layer();
    layout_of(&project.path("host"), &[("tar", &host, &host)], &json!({}));
    put(&project, "foreign/file", b"precious");
    std::os::unix::fs::symlink("image", project.path("link")).unwrap();
    refused(&project, "image --output oci-archive:image.tar --gpu gfx1100,gfx1151", 0);
    std::fs::hard_link(project.path("image.tar"), project.path("same.tar")).unwrap();
    let library = fixture("libhost-two-bundles.so");
    let cut = tar(&[("lib/cut.so", Ok(library[..20_000].to_vec()))]);
    layout_of(&project.path("cut"), &[("tar", &cut, &cut)], &json!({}));
    for (line, code, text) in [
        ("spoofed --output oci:out --gpu gfx1151", 1, "does not work without the code for gfx1100"),
        ("spoofed --output oci:out --gpu gfx1151", 1, "`--gpu gfx1100`"),
        ("image --output oci:out --gpu gfx1030", 1, "contains no code for gfx1030"),
        ("image --output oci:out --gpu gfx1151,gfx1030", 1, "contains no code for gfx1030"),
        ("host --output oci:out --gpu gfx1151", 1, "there is nothing to remove"),
        ("image --output oci:out --gpu gfx1", 2, "`gfx1` is not a GPU target"),
        ("image --output oci:foreign --gpu gfx1151", 2, "foreign"),
        ("image --output oci:", 2, "does not specify a location"),
        ("image --output oci:image --gpu gfx1151", 2, "itself, and would be replaced"),
        ("image --output oci:./link --gpu gfx1151", 2, "itself, and would be replaced"),
        ("oci:image --output oci:image --gpu gfx1151", 2, "itself, and would be replaced"),
        (
            "image.tar --output oci-archive:same.tar --gpu gfx1151",
            2,
            "itself, and would be replaced",
        ),
        (
            "oci-archive:image.tar --output oci-archive:image.tar",
            2,
            "itself, and would be replaced",
        ),
        ("cut --output oci:out --gpu gfx1151", 6, "files with GPU code cannot be read: lib/cut.so"),
        ("image --output registry:127.0.0.1:5/a:b --gpu gfx1151", 2, "skopeo copy"),
        ("foreign --output oci:out --gpu gfx1151", 2, "is not an image"),
        ("missing --output oci:out --gpu gfx1151", 2, "missing"),
    ] {
        let ran = refused(&project, line, code);
        assert!(ran.stderr.contains(text), "{line}: {}", ran.stderr);
        assert!(!project.path("out").exists(), "{line}");
    }
    assert_eq!(std::fs::read(project.path("foreign/file")).unwrap(), b"precious");
    // If the code for the GPU that the image imitates is kept, the image works as before.
    refused(&project, "spoofed --output oci:out --gpu gfx1100", 0);
}

#[test]
fn the_table_of_a_slimmed_image_reads_well() {
    let project = Project::new();
    image(&project, "image", &json!({}));
    let ran = refused(&project, "image --output oci:out --gpu gfx1151", 0);
    insta::assert_snapshot!(ran.stdout);
}
