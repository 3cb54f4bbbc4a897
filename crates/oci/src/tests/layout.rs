//! Layouts on disk: reading returns what was written, and nothing else is touched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use names::Digest;
use serde_json::{Value, json};
use tempfile::tempdir;

use super::support::{Base, layers, other, put_layers, tree};
use crate::layout::{blob_path, blobs_folder, check_target, holds, write};
use crate::media::Descriptor;
use crate::{DerivedImage, LayoutError, LayoutImage, Verified};

const NAME: &str = "locked-spoof";

fn files(path: &Path) -> Vec<String> {
    tree(path).into_keys().collect()
}

fn blobs_of(image: &DerivedImage) -> Vec<String> {
    let mut all: Vec<_> = [&image.config_digest, &image.manifest_digest]
        .map(|digest| format!("blobs/sha256/{}", digest.hex()))
        .into();
    all.extend(["index.json", "oci-layout"].map(str::to_owned));
    all.sort();
    all
}

/// Flips the lowest bit of one byte in the middle of a file.
fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// Returns whether a layout contains an image with all its layers.
fn is_whole(path: &Path, image: &DerivedImage) -> bool {
    let mut verified = Verified::none().of(&blobs_folder(path));
    let mut has = |layer: &Descriptor| {
        verified.has(&blob_path(path, &layer.digest), &layer.digest, layer.size)
    };
    holds(path, image, NAME) && image.layers.iter().all(&mut has)
}

#[test]
fn a_thin_layout_is_read_back() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a/b");
    let image = Base::docker().derived();
    write(&path, &image, NAME).unwrap();
    assert_eq!(files(&path), blobs_of(&image));
    let read = LayoutImage::read(&path).unwrap();
    assert_eq!(read.name.as_deref(), Some(NAME));
    assert_eq!(read.manifest_digest, image.manifest_digest);
    assert_eq!((read.manifest, read.config), (image.manifest, image.config));
    assert_eq!(read.present_layers, []);
    assert_eq!(read.absent_layers, layers().iter().map(|l| Digest::of(l)).collect::<Vec<_>>());
    let index: Value = serde_json::from_slice(&tree(&path)["index.json"]).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&index).unwrap());
    assert_eq!(tree(&path)["oci-layout"], br#"{"imageLayoutVersion":"1.0.0"}"#);
}

#[test]
fn a_full_layout_is_read_back() {
    let folder = tempdir().unwrap();
    let base = Base::oci();
    put_layers(folder.path(), &base);
    write(folder.path(), &base.derived(), NAME).unwrap();
    let read = LayoutImage::read(folder.path()).unwrap();
    assert_eq!(read.present_layers, layers().iter().map(|l| Digest::of(l)).collect::<Vec<_>>());
    assert_eq!(read.absent_layers, []);
}

#[test]
fn a_layout_needs_its_marker() {
    let folder = tempdir().unwrap();
    let path = folder.path();
    let image = Base::oci().derived();
    let marker = path.join("oci-layout");
    for (text, is_valid) in [
        (Some("{\n  \"imageLayoutVersion\": \"1.0.0\"\n}\n"), true),
        (Some(r#"{"imageLayoutVersion":"2.0.0"}"#), false),
        (Some("{}"), false),
        (Some(""), false),
        (None, false),
    ] {
        write(path, &image, NAME).unwrap();
        match text {
            Some(text) => fs::write(&marker, text).unwrap(),
            None => fs::remove_file(&marker).unwrap(),
        }
        let read = LayoutImage::read(path);
        assert_eq!(read.is_ok(), is_valid, "{text:?}");
        if let Err(error) = read {
            assert!(matches!(error, LayoutError::NoMarker(_)), "{text:?}: {error:?}");
        }
    }
}

#[test]
fn the_same_image_gives_the_same_files() {
    let [one, two] = [(); 2].map(|()| tempdir().unwrap());
    for path in [one.path(), two.path()] {
        write(path, &Base::docker().derived(), NAME).unwrap();
    }
    assert_eq!(tree(one.path()), tree(two.path()));
}

#[test]
fn holds_is_exact() {
    let folder = tempdir().unwrap();
    let path = folder.path();
    let base = Base::docker();
    let image = base.derived();
    let fresh = || {
        drop(fs::remove_dir_all(path));
        put_layers(path, &base);
        write(path, &image, NAME).unwrap();
    };
    assert!(!holds(path, &image, NAME));
    fresh();
    assert!(holds(path, &image, NAME) && is_whole(path, &image));
    assert!(!holds(path, &image, "other"));
    assert!(!holds(path, &other(&base), NAME));
    // Writing the same image a second time changes nothing.
    let times = || -> Vec<_> {
        files(path)
            .iter()
            .map(|f| fs::metadata(path.join(f)).unwrap().modified().unwrap())
            .collect()
    };
    let before = times();
    write(path, &image, NAME).unwrap();
    assert_eq!(times(), before);

    let layer = blob_path(path, &Digest::of(&layers()[0]));
    fs::remove_file(&layer).unwrap();
    assert!(holds(path, &image, NAME) && !is_whole(path, &image));
    fs::write(&layer, "short").unwrap();
    assert!(!is_whole(path, &image));
    fs::write(&layer, vec![0; layers()[0].len()]).unwrap();
    assert!(!is_whole(path, &image), "the size of a layer proves nothing");
    for file in blobs_of(&image) {
        for damage in [flip, |path: &Path| fs::remove_file(path).unwrap()] {
            fresh();
            damage(&path.join(&file));
            assert!(!holds(path, &image, NAME), "{file}");
            // … and writing repairs it.
            check_target(path, NAME).unwrap_or_else(|e| assert_eq!(file, "oci-layout", "{e}"));
            write(path, &image, NAME).unwrap();
            assert!(is_whole(path, &image), "{file}");
        }
    }
}

#[test]
fn a_second_image_replaces_the_first_and_shares_its_layers() {
    let folder = tempdir().unwrap();
    let path = folder.path();
    let base = Base::docker();
    let (first, second) = (base.derived(), other(&base));
    put_layers(path, &base);
    write(path, &first, NAME).unwrap();
    fs::write(blob_path(path, &Digest::of(b"of an image before")), "x").unwrap();
    write(path, &second, NAME).unwrap();
    let mut wanted = blobs_of(&second);
    for layer in &layers()[..2] {
        wanted.push(format!("blobs/sha256/{}", Digest::of(layer).hex()));
    }
    wanted.sort();
    assert_eq!(files(path), wanted);
    assert_eq!(LayoutImage::read(path).unwrap().manifest_digest, second.manifest_digest);
}

#[test]
fn what_is_not_ours_is_refused_and_left_alone() {
    let index = |entries: Value| json!({ "schemaVersion": 2, "manifests": entries }).to_string();
    let entry = |name: Option<&str>, digest: &Digest| match name {
        Some(name) => json!({
            "digest": digest, "annotations": { "org.opencontainers.image.ref.name": name },
        }),
        None => json!({ "digest": digest }),
    };
    let absent = Digest::of(b"not there");
    let marker = ("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#.to_owned());
    let hex = "0".repeat(64);
    let (blob, half) = (format!("blobs/sha256/{hex}"), format!("blobs/sha256/.{hex}.Ab1xyz"));
    let refused = "which another tool put there";
    type Content<'a> = Vec<(&'a str, String)>;
    let cases: Vec<(Content<'_>, Option<&str>)> = vec![
        (vec![], None),
        (vec![marker.clone()], None),
        (vec![marker.clone(), ("index.json", "damaged".to_owned())], None),
        (vec![marker.clone(), ("index.json", index(json!([])))], None),
        (vec![marker.clone(), ("index.json", index(json!([entry(Some(NAME), &absent)])))], None),
        // The leftovers of a run that was killed while it copied layers.
        (vec![(&blob, "x".to_owned())], None),
        (vec![(&half, "x".to_owned())], None),
        (vec![(&blob, "x".to_owned()), (".oci-layout.Ab1xyz", "x".to_owned())], None),
        (vec![("notes.txt", "mine".to_owned())], Some("is not an OCI image layout")),
        (vec![("index.json", index(json!([])))], Some("is not an OCI image layout")),
        (vec![("blobs/notes.txt", "mine".to_owned())], Some("is not an OCI image layout")),
        (vec![("blobs/sha256/notes.txt", "mine".to_owned())], Some("is not an OCI image layout")),
        (
            vec![("blobs", "a file".to_owned()), ("x", String::new())],
            Some("not an OCI image layout"),
        ),
        (
            vec![marker.clone(), ("index.json", index(json!([entry(Some("latest"), &absent)])))],
            Some(refused),
        ),
        (vec![marker.clone(), ("index.json", index(json!([entry(None, &absent)])))], Some(refused)),
        (
            vec![
                marker,
                (
                    "index.json",
                    index(json!([entry(Some(NAME), &absent), entry(Some("b"), &absent)])),
                ),
            ],
            Some("contains the image `b`"),
        ),
    ];
    for (content, wanted) in cases {
        let folder = tempdir().unwrap();
        for (name, text) in &content {
            fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
            fs::write(folder.path().join(name), text).unwrap();
        }
        let before = tree(folder.path());
        let message = check_target(folder.path(), NAME).map_err(|error| error.to_string());
        match wanted {
            None => assert_eq!(message, Ok(()), "{content:?}"),
            Some(wanted) => assert!(message.clone().unwrap_err().contains(wanted), "{message:?}"),
        }
        assert_eq!(tree(folder.path()), before);
    }
    let folder = tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(matches!(check_target(&file, NAME), Err(LayoutError::NotAFolder(_))));
    let below = check_target(&file.join("below"), NAME);
    assert!(matches!(below, Err(LayoutError::Read { .. })), "{below:?}");
    check_target(&folder.path().join("absent"), NAME).unwrap();
    // An image made by this tool under another name is replaced, for example that of a rehearsal.
    let path = folder.path().join("ours");
    write(&path, &Base::docker().derived(), "rehearsal-locked-spoof").unwrap();
    check_target(&path, NAME).unwrap();
}

#[test]
fn a_write_that_fails_leaves_the_image_that_was_there() {
    let base = Base::docker();
    let (first, second) = (base.derived(), other(&base));
    for blocked in [&second.config_digest, &second.manifest_digest] {
        let folder = tempdir().unwrap();
        let path = folder.path();
        put_layers(path, &base);
        write(path, &first, NAME).unwrap();
        let before = tree(path);
        // There is a nonempty folder in place of the file.
        let folder_in_the_way = blob_path(path, blocked);
        fs::create_dir(&folder_in_the_way).unwrap();
        fs::write(folder_in_the_way.join("x"), "x").unwrap();
        let error = write(path, &second, NAME).unwrap_err();
        assert!(matches!(&error, LayoutError::Write { path, .. } if *path == folder_in_the_way));
        fs::remove_dir_all(folder_in_the_way).unwrap();
        let after = tree(path);
        for (name, content) in &before {
            assert_eq!(after.get(name), Some(content), "{name}");
        }
        assert!(is_whole(path, &first));
        write(path, &second, NAME).unwrap();
        assert!(is_whole(path, &second));
        // No temporary files remain.
        assert_eq!(files(path).len(), before.len());
    }
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("file"), "x").unwrap();
    let error = write(&folder.path().join("file/below"), &first, NAME).unwrap_err();
    assert!(matches!(error, LayoutError::Write { .. }), "{error:?}");
}

/// The environment variable that turns this test into the writer to be killed.
const WRITE_INTO: &str = "BUILD_PIPELINE_TEST_WRITE_INTO";

#[test]
fn a_kill_at_any_time_leaves_a_whole_image() {
    let base = Base::docker();
    let images = [base.derived(), other(&base)];
    if let Some(path) = std::env::var_os(WRITE_INTO) {
        for image in images.iter().cycle() {
            write(&PathBuf::from(&path), image, NAME).unwrap();
        }
    }
    let folder = tempdir().unwrap();
    let path = folder.path();
    put_layers(path, &base);
    write(path, &images[0], NAME).unwrap();
    for round in 0..25u64 {
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::layout::a_kill_at_any_time_leaves_a_whole_image"])
            .env(WRITE_INTO, path)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(5_000 + round * 1_337 % 10_000));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let read = LayoutImage::read(path).unwrap();
        assert!(images.iter().any(|image| image.manifest_digest == read.manifest_digest));
        assert_eq!(read.present_layers.len(), 3);
    }
    check_target(path, NAME).unwrap();
    write(path, &images[1], NAME).unwrap();
    let mut wanted = blobs_of(&images[1]);
    wanted.extend(layers()[..2].iter().map(|l| format!("blobs/sha256/{}", Digest::of(l).hex())));
    wanted.sort();
    assert_eq!(files(path), wanted);
}

#[test]
fn damage_is_named_with_the_layout_and_the_blob() {
    let base = Base::docker();
    let image = base.derived();
    let layer = Digest::of(&layers()[1]);
    let remove: fn(&Path) = |path| fs::remove_file(path).unwrap();
    let truncate: fn(&Path) = |path| {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
    };
    for digest in [&image.manifest_digest, &image.config_digest, &layer] {
        for damage in [flip as fn(&Path), truncate, remove] {
            let folder = tempdir().unwrap();
            let path = folder.path();
            put_layers(path, &base);
            write(path, &image, NAME).unwrap();
            damage(&blob_path(path, digest));
            let read = LayoutImage::read(path);
            if damage as usize == remove as usize && *digest == layer {
                // A layer may be absent.
                assert_eq!(read.unwrap().absent_layers, [layer.clone(), layer.clone()]);
                continue;
            }
            let error = read.unwrap_err();
            let text = error.to_string();
            assert!(text.contains(digest.as_str()), "{text}");
            assert!(text.contains(path.to_str().unwrap()), "{text}");
            let is_missing = damage as usize == remove as usize;
            match error {
                LayoutError::Missing { .. } => assert!(is_missing),
                LayoutError::Integrity { .. } => assert!(!is_missing),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn an_index_that_cannot_be_used_is_refused() {
    let folder = tempdir().unwrap();
    let path = folder.path();
    let image = Base::docker().derived();
    write(path, &image, NAME).unwrap();
    let entry = json!({ "digest": image.manifest_digest });
    let large = format!("{{\"x\":\"{}\"}}", "x".repeat(5 << 20));
    for (index, wanted) in [
        (None, "No such file"),
        (Some("<html>".to_owned()), "not JSON"),
        (Some("{}".to_owned()), "contains 0 images, expected one"),
        (Some(json!({ "manifests": {} }).to_string()), "`manifests` is an object, not an array"),
        (Some(json!({ "manifests": [] }).to_string()), "contains 0 images"),
        (Some(json!({ "manifests": [entry, entry] }).to_string()), "contains 2 images"),
        (Some(json!({ "manifests": [{}] }).to_string()), "`manifests[0]` has no valid digest"),
        (
            Some(json!({ "manifests": [7] }).to_string()),
            "`manifests[0]` is a number, not an object",
        ),
        (
            Some(json!({ "manifests": [{ "digest": Digest::of(b"") }] }).to_string()),
            "lacks blob `sha256:e3b0c442",
        ),
        // A config is not a manifest.
        (
            Some(json!({ "manifests": [{ "digest": image.config_digest, "size": image.config.len() }] }).to_string()),
            "no valid `config",
        ),
        (
            Some(json!({ "manifests": [{ "digest": image.manifest_digest, "size": 7 }] }).to_string()),
            "bytes, but its descriptor specifies 7",
        ),
        (
            Some(json!({ "manifests": [{ "digest": image.manifest_digest }] }).to_string()),
            "bytes, but its descriptor specifies 0",
        ),
        (Some(large), "larger than 4 MiB"),
    ] {
        match index {
            Some(text) => fs::write(path.join("index.json"), text).unwrap(),
            None => fs::remove_file(path.join("index.json")).unwrap(),
        }
        let message = chain(&LayoutImage::read(path).unwrap_err());
        assert!(message.contains(wanted), "{message}");
        assert!(message.contains(path.to_str().unwrap()), "{message}");
    }
    let error = LayoutImage::read(&path.join("absent")).unwrap_err();
    assert!(matches!(error, LayoutError::Read { .. }), "{error:?}");
}

/// Returns the message of an error and of all its causes.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let source = error.source().map(|source| format!(": {}", chain(source)));
    format!("{error}{}", source.unwrap_or_default())
}
