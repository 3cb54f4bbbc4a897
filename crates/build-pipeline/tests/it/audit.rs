//! `audit` gives the same correct result for the same files, wherever they are.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use testkit::{RandomImage, shared_registry};

use crate::diff::{gzip, layout_of};
use crate::dsl::{Project, Ran, ran, workspace};
use crate::schemas;

/// A library with two bundles, each with code for gfx1100 and gfx1151.
const LIBRARY: &str = "libhost-two-bundles.so";

/// The files of the tests, with their paths.
const TREE: [(&str, &str); 6] = [
    ("usr/lib/libtwo.so", LIBRARY),
    ("usr/lib/libpacked.so", "libhost-two-bundles-compressed.so"),
    ("usr/lib/libplain.so", "libhost-only.so"),
    ("usr/lib/kernels/one_gfx1151.co", "gfx1151.co"),
    ("usr/lib/kernels/other.hsaco", "gfx11-generic.co"),
    ("usr/share/more/gfx942.co", "gfx942-xnack_on.co"),
];

pub(crate) fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(workspace().join("crates/gpu-code/tests/fixtures").join(name)).unwrap()
}

pub(crate) fn put(project: &Project, path: &str, bytes: &[u8]) -> PathBuf {
    let path = project.path(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Returns a tar. An entry whose content is a path is a hard link.
pub(crate) fn tar(entries: &[(&str, Result<Vec<u8>, &str>)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, content) in entries {
        let mut header = tar::Header::new_ustar();
        header.set_mode(0o644);
        match content {
            Ok(bytes) => {
                header.set_size(bytes.len() as u64);
                tar.append_data(&mut header, path, &bytes[..]).unwrap();
            }
            Err(target) => {
                header.set_size(0);
                header.set_entry_type(tar::EntryType::Link);
                tar.append_link(&mut header, path, target).unwrap();
            }
        }
    }
    tar.into_inner().unwrap()
}

pub(crate) fn tree() -> Vec<u8> {
    tar(&TREE.map(|(path, name)| (path, Ok(fixture(name)))))
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

pub(crate) fn program(name: &str, arguments: &[&str]) {
    ran(Command::new(name).args(arguments).output().unwrap()).expect(0);
}

/// Returns the report, without the name of the input.
fn report(project: &Project, input: &str, code: i32) -> Value {
    let line = format!("audit {input} --gpu gfx1151 --format json");
    let mut report: Value = serde_json::from_str(&project.run(&line).expect(code).stdout).unwrap();
    assert_eq!(report["input"], input);
    report["input"] = Value::Null;
    report
}

fn text(project: &Project, line: &str) -> Ran {
    project.run(&format!("audit {line}"))
}

#[test]
fn every_form_of_an_input_gives_the_same_answer() {
    let project = Project::new();
    for (path, name) in TREE {
        put(&project, &format!("folder/{path}"), &fixture(name));
    }
    std::os::unix::fs::symlink("libtwo.so", project.path("folder/usr/lib/liblink.so")).unwrap();
    let wanted = report(&project, "folder", 0);
    let parts: Vec<(&str, &str, u64)> = wanted["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| {
            let text = |key: &str| part[key].as_str().unwrap();
            (text("path"), text("verdict"), part["files"].as_u64().unwrap())
        })
        .collect();
    let all = [
        ("usr/lib/kernels/", "native", 2),
        ("usr/lib/libpacked.so", "native", 1),
        ("usr/lib/libtwo.so", "native", 1),
        ("usr/share/more/", "none", 1),
    ];
    assert_eq!(parts, all);
    let targets: Vec<(&str, u64)> = wanted["targets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["target"].as_str().unwrap(), one["objects"].as_u64().unwrap()))
        .collect();
    let all = [("gfx11-generic", 1), ("gfx1100", 4), ("gfx1151", 5), ("gfx942:xnack+", 1)];
    assert_eq!(targets, all);
    assert_eq!((&wanted["files"], &wanted["verdict"]), (&json!(6), &json!("native")));

    let tar = tree();
    put(&project, "a.tar", &tar);
    put(&project, "a.tar.gz", &gzip(&tar));
    put(&project, "a.tar.zst", &zstd(&tar));
    let mut zip = zip::ZipWriter::new(std::fs::File::create(project.path("a.whl")).unwrap());
    for (path, name) in TREE {
        zip.start_file(path, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(&fixture(name)).unwrap();
    }
    zip.finish().unwrap();
    let control = "Package: a\nVersion: 1\nArchitecture: amd64\nMaintainer: a <a@example.org>\nDescription: a\n";
    put(&project, "folder/DEBIAN/control", control.as_bytes());
    let at = |name: &str| project.path(name).display().to_string();
    program("dpkg-deb", &["--root-owner-group", "--build", &at("folder"), &at("a.deb")]);
    layout_of(&project.path("gzip"), &[("tar+gzip", &gzip(&tar), &tar)], &json!({}));
    layout_of(&project.path("zstd"), &[("tar+zstd", &zstd(&tar), &tar)], &json!({}));
    let target = format!("{}/audit/tree:1", shared_registry().host());
    let archive = format!("oci-archive:{}", at("a.oci.tar"));
    let registry = format!("docker://{target}");
    program("skopeo", &["copy", &format!("oci:{}", at("gzip")), &archive]);
    let insecure = "--dest-tls-verify=false";
    program("skopeo", &["copy", insecure, &format!("oci:{}", at("gzip")), &registry]);
    let forms =
        ["a.tar", "a.tar.gz", "a.tar.zst", "a.whl", "a.deb", "gzip", "zstd", "a.oci.tar", &target];
    for form in forms {
        assert_eq!(report(&project, form, 0), wanted, "{form}");
    }
}

#[test]
fn the_verdict_follows_from_the_code() {
    let project = Project::new();
    let cases = [
        (LIBRARY, "gfx1151", 0, "native"),
        (LIBRARY, "gfx1100", 0, "native"),
        (LIBRARY, "gfx1101", 1, "none"),
        ("gfx11-generic.co", "gfx1151", 0, "generic"),
        ("gfx11-generic.co", "gfx1030", 1, "none"),
        ("gfx942-xnack_on.co", "gfx942", 0, "native"),
        ("gfx942-xnack_on.co", "gfx1151", 1, "none"),
        ("libhost-only.so", "gfx1151", 1, "host-only"),
        ("README.md", "gfx1151", 1, "host-only"),
    ];
    for (name, gpu, code, verdict) in cases {
        put(&project, name, &fixture(name));
        let ran = text(&project, &format!("{name} --gpu {gpu} --format json")).expect(code);
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(report["verdict"], verdict, "{name} {gpu}");
    }
    // An empty tar has no files, which is not damage.
    put(&project, "empty.tar", &[0; 10_240]);
    text(&project, "empty.tar --gpu gfx1151").expect(1).prints("host only: there is no GPU code");
    // A nested archive is not read.
    put(&project, "nested/inside.whl", b"PK\x03\x04");
    put(&project, "nested/README.md", b"text");
    text(&project, "nested --gpu gfx1151")
        .expect(1)
        .prints("host only: there is no GPU code in 2 files")
        .prints("1 archive inside the input was not read");
    // Text that mentions a GPU is not code for it, not even in a library.
    let mut library = fixture("libhost-only.so");
    library.extend_from_slice(b"TensileLibrary_gfx1151.co hipv4-amdgcn-amd-amdhsa--gfx1151");
    put(&project, "mentions.so", &library);
    text(&project, "mentions.so --gpu gfx1151").expect(1).prints("host only");
    // AOTriton names families of GPUs.
    put(&project, "triton/amd-gfx11xx/flash/a.aks2", b"AKS2");
    text(&project, "triton --gpu gfx1151")
        .expect(1)
        .prints("not known: there is code for a family of GPUs that gfx1151 belongs to")
        .says("it is not known whether gfx1151 can run `triton`");
    text(&project, "triton --gpu gfx1201").expect(1).prints("none: ");
    // GPUs that are named only in the code, or are not known yet.
    put(&project, "plain.hipfb", &fixture("plain.hipfb"));
    text(&project, "plain.hipfb --gpu gfx1200").expect(1).prints("there is no code for gfx1200");
    let mut newer = fixture("plain.hipfb");
    let at = newer.windows(7).position(|bytes| bytes == b"gfx1100").unwrap();
    newer[at..at + 7].copy_from_slice(b"gfx1999");
    put(&project, "newer.hipfb", &newer);
    text(&project, "newer.hipfb --gpu gfx1151").expect(0).prints("gfx1999").prints("native");
    // A GPU that can imitate another.
    put(&project, "gfx1100.hsaco", &code_for_gfx1100());
    text(&project, "gfx1100.hsaco --gpu gfx1151")
        .expect(1)
        .prints("only with spoof: there is code for 11.0.0, which gfx1151 can imitate")
        .says("HSA_OVERRIDE_GFX_VERSION=11.0.0");
}

/// Returns a code object with the number of gfx1100 in its header.
pub(crate) fn code_for_gfx1100() -> Vec<u8> {
    let mut code = fixture("gfx1151.co");
    assert_eq!(code[48], 0x4a);
    code[48] = 0x41;
    code
}

/// The number of code objects for each target.
type Counts = &'static [(&'static str, u64)];

#[test]
fn a_later_layer_hides_what_it_replaces_or_removes() {
    let project = Project::new();
    let below = tree();
    let one = |entries: &[(&str, Result<Vec<u8>, &str>)]| tar(entries);
    let nothing = || Ok(Vec::new());
    let cases: [(&str, Vec<u8>, Counts); 8] = [
        // The target of the link is in both layers, and the upper one counts.
        (
            "linked-again",
            one(&[
                ("opt/link.so", Err("usr/lib/libtwo.so")),
                ("usr/lib/libtwo.so", Ok(fixture("libhost-only.so"))),
                ("usr/lib/.wh.kernels", nothing()),
                ("usr/lib/.wh.libpacked.so", nothing()),
                ("usr/.wh.share", nothing()),
            ]),
            &[],
        ),
        // A link may point to another link, and only one of the three names counts.
        (
            "linked-twice",
            one(&[
                ("opt/one.so", Err("usr/lib/libtwo.so")),
                ("opt/two.so", Err("opt/one.so")),
                ("usr/lib/.wh.kernels", nothing()),
                ("usr/lib/.wh.libpacked.so", nothing()),
                ("usr/.wh.share", nothing()),
            ]),
            &[("gfx1100", 2), ("gfx1151", 2)],
        ),
        (
            "removed",
            one(&[("usr/lib/.wh.libtwo.so", nothing()), ("usr/.wh.share", nothing())]),
            &[("gfx11-generic", 1), ("gfx1100", 2), ("gfx1151", 3)],
        ),
        ("opaque", one(&[("usr/lib/.wh..wh..opq", nothing())]), &[("gfx942:xnack+", 1)]),
        (
            "replaced",
            one(&[
                ("usr/lib/libtwo.so", Ok(fixture("libhost-only.so"))),
                ("usr/lib/libpacked.so", Ok(b"text".to_vec())),
            ]),
            &[("gfx11-generic", 1), ("gfx1151", 1), ("gfx942:xnack+", 1)],
        ),
        (
            "linked",
            one(&[
                ("opt/libtwo.so", Ok(fixture(LIBRARY))),
                ("opt/libtwo.so.1", Err("opt/libtwo.so")),
                ("usr/.wh.lib", nothing()),
                ("usr/.wh.share", nothing()),
            ]),
            &[("gfx1100", 2), ("gfx1151", 2)],
        ),
        (
            "renamed",
            one(&[
                ("opt/new.co", Err("usr/lib/kernels/one_gfx1151.co")),
                ("usr/lib/.wh.kernels", nothing()),
                ("usr/lib/.wh.libpacked.so", nothing()),
                ("usr/lib/.wh.libtwo.so", nothing()),
                ("usr/.wh.share", nothing()),
            ]),
            &[("gfx1151", 1)],
        ),
        (
            "returned",
            one(&[
                ("usr/.wh.lib", nothing()),
                ("usr/.wh.share", nothing()),
                ("usr/lib/kernels/one_gfx1151.co", Ok(fixture("gfx1151.co"))),
            ]),
            &[("gfx1151", 1)],
        ),
    ];
    for (name, above, wanted) in cases {
        let layers =
            [("tar+gzip", &gzip(&below)[..], &below[..]), ("tar+gzip", &gzip(&above), &above)];
        layout_of(&project.path(name), &layers, &json!({}));
        let ran = text(&project, &format!("{name} --gpu gfx1151 --format json"));
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        let found: Vec<(&str, u64)> = report["targets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| (one["target"].as_str().unwrap(), one["objects"].as_u64().unwrap()))
            .collect();
        assert_eq!(found, wanted, "{name}");
    }
}

#[test]
fn every_byte_of_a_layer_is_checked_although_it_is_read_only_once() {
    let project = Project::new();
    let tar = tree();
    let mut header = gzip(&tar);
    // The time in the header of a gzip file (RFC 1952) has no influence on the content.
    header[4] ^= 1;
    let mut content = tar.clone();
    *content.last_mut().unwrap() ^= 1;
    let cases = [("tar+gzip", gzip(&tar), header), ("tar", tar.clone(), content)];
    for (kind, stored, damaged) in cases {
        let layout = project.path(kind);
        layout_of(&layout, &[(kind, &stored, &tar)], &json!({}));
        let blob = oci::LayoutImage::read(&layout).unwrap().present_layers[0].clone();
        text(&project, kind).expect(0);
        std::fs::write(oci::layout::blob_path(&layout, &blob), damaged).unwrap();
        let archive = project.path(&format!("{kind}.tar"));
        program("tar", &["-C", layout.to_str().unwrap(), "-cf", archive.to_str().unwrap(), "."]);
        for input in [kind, &format!("{kind}.tar")] {
            for command in ["audit", "slim --output oci:slim --gpu gfx1151"] {
                let line = format!("{command} {input}");
                project.run(&line).expect(6).says(blob.as_str()).says("is damaged");
                assert!(!project.path("slim/index.json").exists(), "{line}");
            }
        }
    }
}

#[test]
fn an_image_says_which_gpu_it_is_for_and_what_it_imitates() {
    let project = Project::new();
    let image = |name: &str, code: Vec<u8>, config: &Value| {
        let tar = tar(&[("kernel.co", Ok(code))]);
        layout_of(&project.path(name), &[("tar+gzip", &gzip(&tar), &tar)], config);
    };
    let label = "io.github.build-pipeline.gpu";
    let spoof = json!({ "Env": ["PATH=/bin", "HSA_OVERRIDE_GFX_VERSION=11.0.0"] });
    image("for-gfx942", fixture("gfx942-xnack_on.co"), &json!({ "Labels": { label: "gfx942" } }));
    text(&project, "for-gfx942").expect(0).prints("native: there is code for gfx942");
    text(&project, "for-gfx942 --gpu gfx1151").expect(1);
    image("spoofed", code_for_gfx1100(), &spoof);
    text(&project, "spoofed --gpu gfx1151").expect(0).prints(
        "spoof: the image makes gfx1151 imitate 11.0.0, and there is code for the imitated GPU",
    );
    // With the variable, ROCm does not use code for the GPU itself.
    image("in-vain", fixture("gfx1151.co"), &spoof);
    text(&project, "in-vain --gpu gfx1151")
        .expect(1)
        .prints("imitate 11.0.0, and gfx1151 cannot run any of its code that way");
    // A GPU cannot imitate one of another generation, and the value must be a version.
    let other = json!({ "Env": ["HSA_OVERRIDE_GFX_VERSION=9.4.2"] });
    image("other-generation", fixture("gfx942-xnack_on.co"), &other);
    text(&project, "other-generation --gpu gfx1151").expect(1).prints("none: ");
    for value in ["", "gfx1151", "11.0"] {
        let broken = json!({ "Env": [format!("HSA_OVERRIDE_GFX_VERSION={value}")] });
        image("broken", fixture("gfx1151.co"), &broken);
        text(&project, "broken --gpu gfx1151")
            .expect(1)
            .says("a value that keeps ROCm from starting");
    }
    let own = json!({ "Env": ["HSA_OVERRIDE_GFX_VERSION=11.5.1"] });
    image("own", fixture("gfx1151.co"), &own);
    text(&project, "own --gpu gfx1151").expect(0).prints("native");
}

#[test]
fn an_index_is_read_for_this_platform() {
    let project = Project::new();
    let image = RandomImage { below: vec![tree()], is_index: true, ..RandomImage::new(1851) };
    let host = shared_registry().host();
    let pushed = image.push(host, "audit/index", "1");
    assert_ne!(pushed.digest, pushed.manifest.digest);
    let report = report(&project, &format!("{host}/audit/index:1"), 0);
    assert_eq!(report["verdict"], "native");
}

#[test]
fn damaged_and_foreign_inputs_are_named() {
    let project = Project::new();
    let library = fixture(LIBRARY);
    put(&project, "cut.so", &library[..library.len() - 1]);
    put(&project, "folder/lib/cut.so", &library[..library.len() / 2]);
    put(&project, "folder/lib/good_gfx1151.co", &fixture("gfx1151.co"));
    put(&project, "lies_gfx1100.co", &fixture("gfx1151.co"));
    put(&project, "text_gfx1151.co", b"<html>404 Not Found</html>");
    let tar = tree();
    put(&project, "cut.tar", &tar[..tar.len() / 2]);
    put(&project, "cut.tar.gz", &gzip(&tar)[..2000]);
    put(&project, "cut.whl", b"PK\x03\x04and nothing else");
    put(
        &project,
        "cut.deb",
        b"!<arch>\ndebian-binary   0           0     0     100644  4         `\n2.0\n",
    );
    put(&project, "a.tar.xz", b"\xfd7zXZ\0and more");
    put(&project, "saved.tar", &self::tar(&[("manifest.json", Ok(b"[]".to_vec()))]));
    put(&project, "page.whl", b"<html>404 Not Found</html>");
    put(&project, "page.tar.gz", b"<html>404 Not Found</html>");
    put(&project, "page.tar", &b"<html>404 Not Found</html>".repeat(30));
    put(&project, "empty.deb", b"");
    std::os::unix::fs::symlink("loop", project.path("loop")).unwrap();
    std::os::unix::fs::symlink("nothing", project.path("dangling")).unwrap();
    put(&project, "a.rpm", b"\xed\xab\xee\xdb\x03");
    put(&project, "lib.a", b"!<arch>\nlib.o/");
    put(&project, "saved/manifest.json", b"[]");
    let image = self::tar(&[("oci-layout", Ok(b"{}".to_vec()))]);
    put(&project, "image.tar.gz", &gzip(&image));
    program("mkfifo", &[project.path("fifo").to_str().unwrap()]);
    layout_of(&project.path("thin"), &[("tar+gzip", &gzip(&tar), &tar)], &json!({}));
    let digest = names::Digest::of(&gzip(&tar));
    std::fs::remove_file(oci::layout::blob_path(&project.path("thin"), &digest)).unwrap();
    let cases = [
        ("cut.so", 6, "cut.so"),
        ("folder", 6, "lib/cut.so"),
        ("lies_gfx1100.co", 6, "its name contains gfx1100, but its code is for gfx1151"),
        ("text_gfx1151.co", 6, "its name contains gfx1151, but it is not a code object"),
        ("cut.tar", 6, "cut.tar"),
        ("cut.tar.gz", 6, "cut.tar.gz"),
        ("cut.whl", 6, "cut.whl"),
        ("cut.deb", 2, "it has no member `control.tar`"),
        ("a.tar.xz", 2, "decompress it first"),
        ("saved.tar", 2, "skopeo copy docker-archive:"),
        ("page.whl", 6, "is not a wheel"),
        ("page.tar", 6, "page.tar"),
        ("page.tar.gz", 6, "is not compressed with gzip"),
        ("empty.deb", 6, "is not a Debian package"),
        ("loop", 2, "`loop` is a dangling symbolic link"),
        ("dangling", 2, "`dangling` is a dangling symbolic link"),
        ("fifo", 2, "neither a file nor a folder"),
        ("missing", 2, "is not a track, file or image reference"),
        ("thin", 2, "does not contain its layer 1"),
        ("/dev/null", 2, "neither a file nor a folder"),
        ("a.rpm", 2, "an RPM package"),
        ("lib.a", 2, "an `ar` archive"),
        ("saved", 2, "not in OCI format"),
        ("image.tar.gz", 2, "a compressed archive of an image"),
        ("./missing.deb", 2, "there is no file or folder `./missing.deb`"),
        ("https://example.org/a.whl", 2, "there is no file or folder"),
        ("cut.so --gpu gfx9999", 2, "gfx9999"),
        ("cut.so --gpu gfx115", 2, "gfx115"),
        ("vulkan", 2, "no image of track `vulkan`"),
    ];
    for (line, code, wanted) in cases {
        let gpu = if line.contains("--gpu") { "" } else { " --gpu gfx1151" };
        let ran = text(&project, &format!("{line}{gpu}")).expect(code);
        let all = format!("{}{}", ran.stdout, ran.stderr);
        assert!(all.contains(wanted), "{line}: {all}");
    }
    let ran = ran(project.command(&["audit", "", "--gpu", "gfx1151"]).output().unwrap());
    ran.expect(2).says("the name of the input is empty");
    // The readable files are reported, and no claim is made about the others.
    text(&project, "folder --gpu gfx1151").expect(6).prints("native");
    text(&project, "cut.so --gpu gfx1151").expect(6).prints("not known: 1 file cannot be read");
}

#[test]
fn names_in_an_input_do_not_act_on_a_terminal() {
    let project = Project::new();
    put(&project, "folder/\u{1b}[31mred_gfx1151.co", &fixture("gfx1151.co"));
    put(&project, "folder/\u{1b}[32m/lib.so", &fixture(LIBRARY));
    put(&project, "folder/a_gfx1151.co\n  native  99 GB  forged_gfx1151.co", &fixture(LIBRARY));
    for format in ["text", "json"] {
        let ran = text(&project, &format!("folder --gpu gfx1151 --format {format}")).expect(0);
        assert!(!ran.stdout.contains('\u{1b}'), "{}", ran.stdout);
        assert!(!ran.stdout.lines().any(|line| line.starts_with("  native  99 GB")), "{format}");
    }
}

#[test]
fn the_exit_code_is_the_same_if_nobody_reads_the_result() {
    let project = Project::new();
    put(&project, "gfx942.co", &fixture("gfx942-xnack_on.co"));
    for (name, code) in [("one", fixture("gfx1151.co")), ("other", fixture("gfx11-generic.co"))] {
        let tar = tar(&[("kernel.co", Ok(code))]);
        layout_of(&project.path(name), &[("tar+gzip", &gzip(&tar), &tar)], &json!({}));
    }
    for (line, code) in [
        ("audit gfx942.co --gpu gfx942", 0),
        ("audit gfx942.co --gpu gfx1151", 1),
        ("audit gfx942.co --gpu gfx1151 --format json", 1),
        ("diff one other", 13),
        ("diff one other --format json", 13),
        ("diff one one", 0),
    ] {
        let mut command = project.command(&line.split(' ').collect::<Vec<_>>());
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = command.stdout(writer).stderr(std::process::Stdio::null()).status().unwrap();
        assert_eq!(ended.code(), Some(code), "{line}");
    }
}

#[test]
fn a_cache_that_cannot_be_written_is_not_called_a_damaged_input() {
    let project = Project::new();
    let mut large = fixture(LIBRARY);
    large.resize(65 << 20, 0);
    put(&project, "a.tar.gz", &gzip(&tar(&[("lib.so", Ok(large))])));
    put(&project, "file", b"");
    let mut command = project.command(&["audit", "a.tar.gz", "--gpu", "gfx1151"]);
    command.env("XDG_CACHE_HOME", project.path("file"));
    ran(command.output().unwrap()).expect(3).says("XDG_CACHE_HOME");
}

#[test]
fn reports_keep_to_their_schema() {
    let project = Project::new();
    for (path, name) in TREE {
        put(&project, &format!("folder/{path}"), &fixture(name));
    }
    put(&project, "folder/cut.so", &fixture(LIBRARY)[..4000]);
    let reports = ["folder", "folder/usr/lib/libplain.so", "folder/usr/lib/libtwo.so"];
    let reports = reports.map(|input| {
        let ran = text(&project, &format!("{input} --gpu gfx1151 --format json"));
        serde_json::from_str(&ran.stdout).unwrap()
    });
    schemas::check(&project, "audit", &reports);
}

#[test]
fn the_table_reads_well() {
    let project = Project::new();
    for (path, name) in TREE {
        put(&project, &format!("folder/{path}"), &fixture(name));
    }
    let ran = text(&project, "folder --gpu gfx1151").expect(0);
    insta::assert_snapshot!(ran.stdout);
}

#[test]
fn a_rehearsal_without_its_layers_is_named_and_no_registry_is_asked() {
    let project = Project::new();
    project.run("--track locked-spoof --rehearse").expect(0);
    let image = "rehearsal-locked-spoof";
    let target = format!("{}/thin-rehearsal:1", shared_registry().host());
    for line in [
        format!("audit {image}"),
        format!("slim {image} --output oci:slimmed"),
        format!("push {image} {target}"),
    ] {
        let line = format!("{line} --mirror-only");
        let ran = project.run(&line).expect(2).says("does not contain the layers of its stand-in");
        ran.says("hint: rehearse it again with `--with-layers`");
    }
}
