//! Archives and layouts in which programs would find different images are refused.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;

use names::Digest;
use serde_json::{Value, json};
use tar::EntryType;
use tempfile::tempdir;

use super::archive::write_archive_of;
use super::support::{Base, layers, put_layers};
use crate::archive::disagreement;
use crate::{LayoutError, LayoutImage};

/// An entry of an archive: type, name, content, target.
type Entry = (EntryType, String, Vec<u8>, &'static str);

fn entries_of(path: &Path) -> Vec<Entry> {
    let mut archive = tar::Archive::new(File::open(path).unwrap());
    let entries = archive.entries().unwrap();
    let read = |entry: std::io::Result<tar::Entry<'_, File>>| {
        let mut entry = entry.unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        let name = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
        (entry.header().entry_type(), name, bytes, "")
    };
    entries.map(read).collect()
}

fn write(path: &Path, entries: &[Entry]) {
    let mut builder = tar::Builder::new(File::create(path).unwrap());
    for (kind, name, bytes, target) in entries {
        let mut header = tar::Header::new_ustar();
        let old = header.as_old_mut();
        old.name[..name.len()].copy_from_slice(name.as_bytes());
        old.linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        builder.append(&header, bytes.as_slice()).unwrap();
    }
    builder.finish().unwrap();
}

fn is_ambiguous(path: &Path) -> Option<String> {
    match LayoutImage::read(path) {
        Ok(_) => None,
        Err(LayoutError::Ambiguous { what, .. }) => {
            assert!(matches!(LayoutImage::open(path), Err(LayoutError::Ambiguous { .. })));
            Some(what)
        }
        Err(other) => panic!("{other}"),
    }
}

/// Returns the entries of a good archive, and of a second image that could take its place.
fn good_and_evil(folder: &Path) -> (Vec<Entry>, Vec<Entry>, Vec<u8>) {
    let paths = ["good", "evil"].map(|name| folder.join(name));
    for (path, base) in paths.iter().zip([Base::docker(), Base::oci()]) {
        write_archive_of(path, &base.derived(), &layers()[..2]).unwrap();
    }
    let [good, evil] = paths.each_ref().map(|path| entries_of(path));
    assert_eq!(is_ambiguous(&paths[0]), None);
    let index = evil.iter().find(|entry| entry.1 == "index.json").unwrap().2.clone();
    let is_new = |entry: &Entry| good.iter().all(|other| other.1 != entry.1);
    let blobs = evil.into_iter().filter(is_new).collect();
    (good, blobs, index)
}

#[test]
fn a_second_index_is_refused_however_it_is_written() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("x.tar");
    let (good, blobs, index) = good_and_evil(folder.path());
    let evil_file = (EntryType::Regular, "evil.json".to_owned(), index.clone(), "");
    let with = |last: &[Entry]| [good.clone(), blobs.clone(), last.to_vec()].concat();
    for name in [
        "index.json",
        "./index.json",
        ".//index.json",
        "/index.json",
        "//index.json",
        "blobs/../index.json",
        "../x/index.json",
        "index.json/",
        "index.json/x",
    ] {
        let second = (EntryType::Regular, name.to_owned(), index.clone(), "");
        write(&path, &with(std::slice::from_ref(&second)));
        assert!(is_ambiguous(&path).is_some(), "{name}");
        assert!(disagreement(&path).unwrap().is_some(), "{name}");
        // The order does not matter.
        write(&path, &[vec![second], good.clone(), blobs.clone()].concat());
        assert!(is_ambiguous(&path).is_some(), "{name}");
    }
    for kind in [EntryType::Symlink, EntryType::Link] {
        for name in ["index.json", "./index.json", "manifest.json", "oci-layout", "blobs/sha256/x"]
        {
            let link = (kind, name.to_owned(), Vec::new(), "evil.json");
            write(&path, &with(&[evil_file.clone(), link]));
            assert!(is_ambiguous(&path).is_some(), "{name}");
        }
    }
    // An entry could be unpacked through a link.
    let link = (EntryType::Symlink, "x".to_owned(), Vec::new(), ".");
    let through = (EntryType::Regular, "x/index.json".to_owned(), index.clone(), "");
    write(&path, &with(&[link, through]));
    assert!(is_ambiguous(&path).unwrap().contains("`x` is a folder"));
    for kind in [EntryType::Continuous, EntryType::Fifo, EntryType::Char, EntryType::XGlobalHeader]
    {
        write(&path, &with(&[(kind, "index.json".to_owned(), index.clone(), "")]));
        assert!(is_ambiguous(&path).is_some(), "{kind:?}");
    }
    // Other files and folders may be there.
    let folder_entry = (EntryType::Directory, "./blobs/".to_owned(), Vec::new(), "");
    write(&path, &with(&[evil_file, folder_entry.clone(), folder_entry]));
    assert_eq!(is_ambiguous(&path), None);
}

#[test]
fn unusual_tar_formats_are_refused() {
    let folder = tempdir().unwrap();
    let (good, _, index) = good_and_evil(folder.path());
    let path = folder.path().join("x.tar");
    write(&path, &good);
    let plain = fs::read(&path).unwrap();

    // A second archive follows the first one. Padding may follow.
    fs::write(&path, [plain.as_slice(), &plain].concat()).unwrap();
    assert!(is_ambiguous(&path).unwrap().contains("after its end"));
    fs::write(&path, [plain.as_slice(), &[0; 10_240]].concat()).unwrap();
    assert_eq!(is_ambiguous(&path), None);

    // `pax_extensions` of the last entry, whose header names it `harmless`.
    let with_records = |records: &[(&str, &str)]| {
        let mut builder = tar::Builder::new(Vec::new());
        let records = records.iter().map(|(key, value)| (*key, value.as_bytes()));
        builder.append_pax_extensions(records).unwrap();
        let mut header = tar::Header::new_ustar();
        header.set_path("harmless").unwrap();
        header.set_size(index.len() as u64);
        header.set_cksum();
        builder.append(&header, index.as_slice()).unwrap();
        let mut first = builder.into_inner().unwrap();
        first.truncate(first.len() - 1024);
        fs::write(&path, [first.as_slice(), &plain].concat()).unwrap();
        is_ambiguous(&path)
    };
    assert_eq!(with_records(&[("path", "other"), ("comment", "x")]), None);
    for records in [
        &[("path", "index.json")][..],
        &[("path", "index.json"), ("path", "other")],
        &[("path", "")],
        &[("GNU.sparse.name", "index.json")],
    ] {
        assert!(with_records(records).is_some(), "{records:?}");
    }

    // Go reads the prefix of such a header; others do not.
    let mut bytes = plain.clone();
    bytes[263..265].copy_from_slice(b"xx");
    let sum: u32 = bytes[..148].iter().chain(&bytes[156..512]).map(|byte| u32::from(*byte)).sum();
    bytes[148..155].copy_from_slice(format!("{:06o}\0", sum + 256).as_bytes());
    File::create(&path).unwrap().write_all(&bytes).unwrap();
    assert!(is_ambiguous(&path).unwrap().contains("unusual tar format"));
}

#[test]
fn docker_must_load_the_same_image() {
    let folder = tempdir().unwrap();
    let (good, blobs, _) = good_and_evil(folder.path());
    let path = folder.path().join("x.tar");
    let (of_docker, rest): (Vec<_>, Vec<_>) =
        good.into_iter().partition(|entry| entry.1 == "manifest.json");
    let rest = [rest, blobs.clone()].concat();
    let known: Value = serde_json::from_slice(&of_docker[0].2).unwrap();
    let with = |text: &str| {
        let entry = (EntryType::Regular, "manifest.json".to_owned(), text.as_bytes().to_vec(), "");
        write(&path, &[rest.clone(), vec![entry]].concat());
        is_ambiguous(&path)
    };
    assert_eq!(with(&known.to_string()), None);
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut changed = known.clone();
        change(&mut changed[0]);
        with(&changed.to_string())
    };
    let evil = format!("blobs/sha256/{}", Digest::of(&blobs[0].2).hex());
    assert!(changed(&|one| one["Config"] = json!(evil)).unwrap().contains("another config"));
    assert!(changed(&|one| one["Config"] = json!(null)).is_some());
    assert!(changed(&|one| one["Layers"][0] = json!(evil)).unwrap().contains("other layers"));
    assert!(changed(&|one| one["Layers"] = json!([])).is_some());
    assert!(changed(&|one| one["config"] = json!(evil)).unwrap().contains("not valid"));
    assert!(with("[]").is_some() && with("{}").is_some() && with("x").is_some());
    let twice = json!([known[0], known[0]]).to_string();
    assert!(with(&twice).unwrap().contains("2 images"));
    let doubled = known.to_string().replacen('{', &format!("{{\"Config\":\"{evil}\","), 1);
    assert!(with(&doubled).unwrap().contains("not valid"));

    // A file under another name may have the same content.
    let image = Base::docker().derived();
    let copy = (EntryType::Regular, "config.json".to_owned(), image.config.to_vec(), "");
    let mut other = known.clone();
    other[0]["Config"] = json!("config.json");
    let manifest = other.to_string().into_bytes();
    let manifest = (EntryType::Regular, "manifest.json".to_owned(), manifest, "");
    write(&path, &[rest.clone(), vec![copy, manifest]].concat());
    assert_eq!(is_ambiguous(&path), None);
    // Without `manifest.json`, docker reads an older file.
    write(&path, &rest);
    assert_eq!(is_ambiguous(&path), None);
    let older = (EntryType::Regular, "repositories".to_owned(), b"{}".to_vec(), "");
    write(&path, &[rest, vec![older]].concat());
    assert!(is_ambiguous(&path).unwrap().contains("`repositories`"));
}

#[test]
fn links_in_a_layout_are_refused() {
    let image = Base::docker().derived();
    let layer = format!("blobs/sha256/{}", image.layers[0].digest.hex());
    let config = format!("blobs/sha256/{}", image.config_digest.hex());
    for name in ["index.json", "oci-layout", "blobs", "blobs/sha256", &layer, &config] {
        let folder = tempdir().unwrap();
        let layout = folder.path().join("layout");
        put_layers(&layout, &Base::docker());
        crate::layout::write(&layout, &image, "x").unwrap();
        assert_eq!(is_ambiguous(&layout), None);
        let elsewhere = folder.path().join("elsewhere");
        fs::rename(layout.join(name), &elsewhere).unwrap();
        symlink(&elsewhere, layout.join(name)).unwrap();
        assert!(is_ambiguous(&layout).unwrap().contains("is a link"), "{name}");
        // A link to the whole layout is the caller's choice.
        fs::remove_file(layout.join(name)).unwrap();
        fs::rename(&elsewhere, layout.join(name)).unwrap();
        let link = folder.path().join("link");
        symlink(&layout, &link).unwrap();
        assert_eq!(is_ambiguous(&link), None);
    }
}
