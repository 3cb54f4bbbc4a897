//! `diff` reads layers completely, needs little memory, and never blocks on something that is not a
//! regular file.

use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use names::Digest;
use serde_json::{Value, json};

use crate::dsl::{Project, ran};

/// The maximum memory that `diff` may use, in kB.
const MEMORY: u64 = 120_000;

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A tar of empty files.
fn tar(names: impl Iterator<Item = String>) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for name in names {
        let mut header = tar::Header::new_ustar();
        header.set_size(0);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, &[][..]).unwrap();
    }
    tar.into_inner().unwrap()
}

/// Writes a layout with one layer. `content` is its uncompressed content according to the config.
fn layout(path: &Path, layer: &[u8], content: &[u8]) {
    layout_of(path, &[("tar+gzip", layer, content)], &json!({}));
}

/// Writes a layout. Each layer is given as the end of its media type, its bytes, and its
/// uncompressed content. `config` describes containers.
pub(crate) fn layout_of(path: &Path, layers: &[(&str, &[u8], &[u8])], config: &Value) {
    std::fs::create_dir_all(path.join("blobs/sha256")).unwrap();
    let put = |bytes: &[u8]| {
        let digest = Digest::of(bytes);
        std::fs::write(oci::layout::blob_path(path, &digest), bytes).unwrap();
        digest
    };
    let diff_ids: Vec<Digest> = layers.iter().map(|(.., content)| Digest::of(content)).collect();
    let config = json!({
        "architecture": "amd64",
        "os": "linux",
        "config": config,
        "rootfs": { "type": "layers", "diff_ids": diff_ids },
    })
    .to_string();
    let descriptor = |media_type: &str, bytes: &[u8]| json!({ "mediaType": format!("application/vnd.oci.image.{media_type}"), "digest": put(bytes), "size": bytes.len() });
    let layers = layers.iter().map(|(end, bytes, _)| descriptor(&format!("layer.v1.{end}"), bytes));
    let manifest = json!({
        "schemaVersion": 2,
        "config": descriptor("config.v1+json", config.as_bytes()),
        "layers": layers.collect::<Vec<_>>(),
    })
    .to_string();
    let index = json!({ "schemaVersion": 2, "manifests": [descriptor("manifest.v1+json", manifest.as_bytes())] });
    std::fs::write(path.join("index.json"), index.to_string()).unwrap();
    std::fs::write(path.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
}

#[test]
fn a_damaged_layer_is_never_the_same() {
    let project = Project::new();
    let content = tar(["a", "b"].map(str::to_owned).into_iter());
    let good = gzip(&content);
    layout(&project.path("good"), &good, &content);
    // The same files, compressed differently.
    let mut slow = GzEncoder::new(Vec::new(), Compression::none());
    slow.write_all(&content).unwrap();
    layout(&project.path("other"), &slow.finish().unwrap(), &content);
    project.run("diff good other").expect(13).prints("same files, compressed differently");

    let mut wrong_sum = good.clone();
    let sum = wrong_sum.len() - 8;
    wrong_sum[sum] ^= 1;
    let cut = |bytes: &[u8], left_out: usize| bytes[..bytes.len() - left_out].to_vec();
    let with = |bytes: &[u8], more: &[u8]| [bytes, more].concat();
    let cases = [
        ("wrong sum", wrong_sum),
        ("no sum", cut(&good, 8)),
        ("half a sum", cut(&good, 3)),
        ("cut", cut(&good, 20)),
        ("data after the gzip", with(&good, b"more")),
        ("zeros after the gzip", with(&good, &[0; 512])),
        ("another gzip", with(&good, &gzip(b"more"))),
        ("a truncated tar", gzip(&cut(&content, 512))),
        ("a tar without its end", gzip(&cut(&content, 1024))),
        ("data after the tar", gzip(&with(&content, b"more"))),
        ("zeros after the tar", gzip(&with(&content, &[0; 10240]))),
        ("another tar after the tar", gzip(&with(&content, &content))),
        ("the same without gzip, truncated", cut(&content, 512)),
    ];
    for (what, layer) in cases {
        layout(&project.path("damaged"), &layer, &content);
        for line in ["diff good damaged", "diff damaged good"] {
            let ran = project.run(line);
            assert_eq!(ran.code, 6, "{what}: {}{}", ran.stdout, ran.stderr);
            let is_same = ["identical", "same files"].iter().any(|text| ran.stdout.contains(text));
            assert!(!is_same, "{what}: {}", ran.stdout);
        }
        std::fs::remove_dir_all(project.path("damaged")).unwrap();
    }
}

#[test]
#[ignore = "runs every night: it takes minutes"]
fn millions_of_entries_need_little_memory() {
    let project = Project::new();
    let names = |end: &'static str| {
        (0..70_000).map(move |n| format!("{}/{}/{n}{end}", "a".repeat(70), "b".repeat(70)))
    };
    for (name, end) in [("left", ""), ("right", "-other")] {
        let content = tar(names(end));
        layout(&project.path(name), &gzip(&content), &content);
    }
    let output = project.path("out");
    for format in ["text", "json"] {
        let line = ["diff", "left", "right", "--format", format];
        let program = project.command(&line);
        let mut command = Command::new("/usr/bin/time");
        command.args(["--format", "%M", "--output"]).arg(project.path("memory"));
        command.arg(program.get_program()).args(program.get_args());
        command.current_dir(project.path("")).env_clear().env("HOME", project.path("home"));
        command.stdout(std::fs::File::create(&output).unwrap());
        let ended = command.status().expect("apt-get install time");
        assert_eq!(ended.code(), Some(13));
        let memory = project.read("memory");
        let memory: u64 = memory.lines().last().unwrap().trim().parse().unwrap();
        assert!(memory < MEMORY, "{format}: {memory} kB");
    }
    let text = project.read("out");
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(all["layers"][0]["files"].as_array().unwrap().len(), 140_000);
}

/// Runs a command that must end, whatever it finds.
fn ends(project: &Project, line: &str) -> crate::dsl::Ran {
    let mut child = project.begin(line);
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() && begun.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let has_ended = child.try_wait().unwrap().is_some();
    if !has_ended {
        child.kill().unwrap();
    }
    assert!(has_ended, "`{line}` waits");
    ran(child.wait_with_output().unwrap())
}

#[test]
fn nothing_waits_for_what_is_not_a_file() {
    let project = Project::new();
    project.run("--track locked-spoof --rehearse --with-layers --output oci:image").expect(0);
    let whole = project.path("image");
    let image = oci::LayoutImage::read(&whole).unwrap();
    let blob = |digest: &Digest| format!("blobs/sha256/{}", digest.hex());
    let places = [
        "index.json".to_owned(),
        blob(&image.manifest_digest),
        blob(&image.present_layers[0]),
        String::new(),
    ];
    let fifo = |path: &Path| {
        let made = Command::new("mkfifo").arg(path).stdin(Stdio::null()).status();
        assert!(made.unwrap().success());
    };
    let socket = |path: &Path| drop(std::os::unix::net::UnixListener::bind(path).unwrap());
    let zero = |path: &Path| symlink("/dev/zero", path).unwrap();
    let folder = |path: &Path| std::fs::create_dir(path).unwrap();
    type Maker<'a> = (&'a str, &'a dyn Fn(&Path));
    let makers: [Maker<'_>; 4] =
        [("a FIFO", &fifo), ("a socket", &socket), ("a device", &zero), ("a folder", &folder)];
    for (what, make) in makers {
        for place in &places {
            if place.is_empty() && what == "a folder" {
                continue;
            }
            let bad = project.path("bad");
            if !place.is_empty() {
                let copied = Command::new("cp").arg("-r").arg(&whole).arg(&bad).status();
                assert!(copied.unwrap().success());
                std::fs::remove_file(bad.join(place)).unwrap();
            }
            // The path of a socket has at most 107 bytes, so it is created elsewhere.
            let short = project.path("s");
            make(&short);
            std::fs::rename(&short, if place.is_empty() { bad.clone() } else { bad.join(place) })
                .unwrap();
            for line in ["diff bad image", "diff image bad", "verify bad"] {
                let ran = ends(&project, line);
                assert!([2, 6].contains(&ran.code), "{what} at `{place}`: {line}: {}", ran.stderr);
                // A link inside a layout is refused, wherever it leads.
                let told = if what == "a device" && !place.is_empty() { "is a link" } else { what };
                assert!(ran.stderr.contains(told), "{line}: {}", ran.stderr);
            }
            ends(&project, "explain bad");
            for output in ["oci:bad", "oci-archive:bad"] {
                ends(&project, &format!("--track locked-spoof --rehearse --output {output}"));
            }
            drop(std::fs::remove_file(&bad));
            drop(std::fs::remove_dir_all(&bad));
        }
    }
}
