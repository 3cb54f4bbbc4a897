//! The tar for a root file system: its content, and which packages are refused.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use debian::{FetchedPackage, WriteRootError, write_root};
use names::Digest;
use pins::LockedPackage;

use crate::support::{EPOCH, fetched};

/// Returns the entries of a tar, with a description of each.
fn entries(tar: &[u8]) -> BTreeMap<String, String> {
    let mut entries = BTreeMap::new();
    let mut archive = tar::Archive::new(tar);
    for entry in archive.entries().unwrap() {
        let entry = entry.unwrap();
        let path = entry.path().unwrap().to_str().unwrap().trim_end_matches('/').to_owned();
        let header = entry.header();
        let link = entry.link_name().unwrap().map(|link| link.display().to_string());
        let owner = (header.uid().unwrap(), header.gid().unwrap());
        let text =
            format!("{:?} {:o} {owner:?} {link:?}", header.entry_type(), header.mode().unwrap());
        assert!(entries.insert(path.clone(), text).is_none(), "`{path}` occurs twice");
    }
    entries
}

fn root(packages: &[FetchedPackage]) -> Result<Vec<u8>, WriteRootError> {
    let packages: Vec<&FetchedPackage> = packages.iter().collect();
    let mut tar = Vec::new();
    write_root(&packages, EPOCH, &mut tar).map(|()| tar)
}

#[tokio::test]
async fn every_file_of_every_package_is_there_once_in_any_order() {
    let mut packages = fetched(&["base"]).await;
    let tar = root(&packages).unwrap();
    packages.reverse();
    assert!(tar == root(&packages).unwrap());
    let found = entries(&tar);
    for package in &packages {
        let listed =
            Command::new("dpkg-deb").arg("--contents").arg(&package.path).output().unwrap();
        for line in String::from_utf8(listed.stdout).unwrap().lines() {
            let path = line.split_whitespace().nth(5).unwrap();
            let path = path.trim_start_matches("./").trim_end_matches('/');
            let is_linked =
                ["bin/", "sbin/", "lib/", "lib64/"].iter().any(|start| path.starts_with(start));
            let path = if is_linked { format!("usr/{path}") } else { path.to_owned() };
            assert!(
                path.is_empty() || found.contains_key(&path),
                "{}: {path}",
                package.package.name
            );
        }
        assert!(found.contains_key(&format!("packages/{}", package.package.file_name())));
    }
    assert!(found["bin"].starts_with("Symlink"), "{}", found["bin"]);
    assert!(found["usr/bin/su"].starts_with("Regular 4755"), "{}", found["usr/bin/su"]);
}

/// Returns the package of this test, whose file is at `path`.
fn package(path: &Path) -> FetchedPackage {
    let package = LockedPackage {
        name: "example".to_owned(),
        version: "1".to_owned(),
        architecture: "all".to_owned(),
        file: "pool/example_1_all.deb".to_owned(),
        size: std::fs::metadata(path).unwrap().len(),
        sha256: "0".repeat(64).parse().unwrap(),
    };
    FetchedPackage { package, path: path.to_owned(), received: 0 }
}

/// Creates a package with dpkg-deb.
fn dpkg_deb(folder: &Path, compression: &str) -> FetchedPackage {
    let (tree, path) = (folder.join("tree"), folder.join(format!("{compression}.deb")));
    std::fs::create_dir_all(tree.join("DEBIAN")).unwrap();
    std::fs::create_dir_all(tree.join("usr/share/example")).unwrap();
    let control = "Package: example\nVersion: 1\nArchitecture: all\nMaintainer: A <a@example.org>\nDescription: a test\n";
    std::fs::write(tree.join("DEBIAN/control"), control).unwrap();
    std::fs::write(tree.join("usr/share/example/text"), "some text\n".repeat(1000)).unwrap();
    let mut command = Command::new("dpkg-deb");
    command.arg("--root-owner-group").arg(format!("-Z{compression}")).arg("--build");
    let output = command.arg(&tree).arg(&path).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    package(&path)
}

/// Returns the files of the packages in a root, without the package files themselves.
fn files(root: &[u8]) -> BTreeMap<String, String> {
    let mut files = entries(root);
    files.retain(|path, _| !path.starts_with("packages/"));
    files
}

#[test]
fn every_compression_of_dpkg_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let roots = ["none", "gzip", "xz", "zstd"].map(|compression| {
        let made = root(&[dpkg_deb(folder.path(), compression)]);
        files(&made.unwrap_or_else(|error| panic!("{compression}: {error:?}")))
    });
    assert!(roots[0].contains_key("usr/share/example/text"));
    assert!(roots.iter().all(|root| *root == roots[0]), "{roots:#?}");
}

/// A package that is truncated or has a changed byte is either refused or gives the same files.
/// Nothing panics.
#[test]
fn a_damaged_package_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(dpkg_deb(folder.path(), "xz").path).unwrap();
    let path = folder.path().join("damaged.deb");
    let attempt = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        root(&[package(&path)])
    };
    for length in (0..whole.len() - 8).step_by(7) {
        let Err(error) = attempt(&whole[..length]) else { panic!("{length} bytes are accepted") };
        assert_eq!(
            error.to_string(),
            "cannot unpack the package file `example_1_all.deb`",
            "{length} bytes"
        );
    }
    for at in (0..whole.len()).step_by(11) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x20;
        drop(attempt(&bytes));
    }
    // xz has a checksum: a change in the middle of the compressed files is detected.
    let mut bytes = whole.clone();
    let at = whole.len() - 80;
    bytes[at] ^= 1;
    assert!(attempt(&bytes).is_err());
}

/// Writes a package with the given `data.tar`, the same on every machine (deb(5)).
fn deb(path: &Path, data: &[u8]) -> FetchedPackage {
    let member = |name: &str, bytes: &[u8]| {
        let header =
            format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 100_644, bytes.len());
        [header.as_bytes(), bytes].concat()
    };
    let members = [
        b"!<arch>\n".to_vec(),
        member("debian-binary", b"2.0\n"),
        member("control.tar", &[0; 1024]),
        member("data.tar", data),
    ];
    std::fs::write(path, members.concat()).unwrap();
    package(path)
}

/// The bytes of a root are part of the contract `bootstrap/1`: the digests of images depend on
/// them.
#[test]
fn the_bytes_of_a_root_never_change() {
    let folder = tempfile::tempdir().unwrap();
    let mut tar = tar::Builder::new(Vec::new());
    let mut add = |kind: tar::EntryType, path: &str, link: &str, mode: u32, content: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(42);
        header.set_mtime(1_600_000_000);
        header.set_size(content.len() as u64);
        if link.is_empty() {
            tar.append_data(&mut header, path, content).unwrap();
        } else {
            tar.append_link(&mut header, path, link).unwrap();
        }
    };
    use tar::EntryType::{Directory, Link, Regular, Symlink};
    for folder in ["./", "./etc/", "./usr/", "./usr/bin/", "./bin/"] {
        add(Directory, folder, "", 0o755, b"");
    }
    add(Regular, "./etc/shadow", "", 0o640, b"root:*::\n");
    add(Regular, "./usr/bin/su", "", 0o4755, &[7; 3000]);
    add(Link, "./usr/bin/su-too", "./usr/bin/su", 0o4755, b"");
    add(Symlink, "./usr/bin/sh", "dash", 0o777, b"");
    add(Regular, "./bin/dash", "", 0o755, b"dash");
    let made = root(&[deb(&folder.path().join("golden.deb"), &tar.into_inner().unwrap())]).unwrap();
    assert_eq!(
        Digest::of(&made).to_string(),
        "sha256:13d9474b22d02d06e626574e190b8c1ee9a734ecfeb99a9a82e540246f37fd66"
    );
}

#[test]
fn a_path_outside_the_root_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut header = tar::Header::new_ustar();
    header.set_size(0);
    header.as_mut_bytes()[..12].copy_from_slice(b"../../escape");
    header.set_cksum();
    let mut tar = header.as_bytes().to_vec();
    tar.resize(3 * 512, 0);
    let error = root(&[deb(&folder.path().join("escape.deb"), &tar)]).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(cause, "it contains the path `../../escape`, which is not inside the root");
}
