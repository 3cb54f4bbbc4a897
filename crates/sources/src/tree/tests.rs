//! Trees in memory and in folders, and the bytes of their tars.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::{Command, Stdio};

use super::*;

fn sample() -> Tree {
    let mut tree = Tree::new();
    for (path, content) in
        [("a/b", "x"), ("a-b", "y"), (".github/w.yml", ""), ("a.c", "z"), ("z/ü", "u")]
    {
        tree.put_file(path, content).unwrap();
    }
    tree.add("run".parse().unwrap(), Mode::Executable, Content::Bytes((*b"#!").into())).unwrap();
    tree.add("z/l".parse().unwrap(), Mode::Symlink, Content::Bytes((*b"../a/b").into())).unwrap();
    tree
}

fn tar_of(tree: &Tree, epoch: u64) -> (Vec<u8>, TarSummary) {
    let mut bytes = Vec::new();
    let summary = tree.write_tar(epoch, &mut bytes).unwrap();
    assert_eq!(summary.size, bytes.len() as u64);
    assert_eq!(summary.sha256, names::Digest::of(&bytes).hex().parse().unwrap());
    (bytes, summary)
}

/// If these digests change, the format has changed: everything that was built from such a tar would
/// be rebuilt.
#[test]
fn golden_bytes() {
    let (_, summary) = tar_of(&sample(), 1_700_000_000);
    assert_eq!(summary.entries, 10);
    assert_eq!(
        summary.sha256.as_str(),
        "ea3b9e0391682c940444e0d8146d1a439aac8383cd19e758f9c85b1db03041f7"
    );
    assert_eq!(
        sample().digest().unwrap().as_str(),
        "6f182260f3356f33ac9419006af1e26cde016cda1c9945068bf2619a2dadd26c"
    );
    let mut long = Tree::new();
    let names = [
        "d/".repeat(60) + &"f".repeat(100),
        "d".repeat(155) + "/" + &"f".repeat(100),
        "d".repeat(156) + "/" + &"f".repeat(100),
        "e".repeat(200),
    ];
    for name in &names {
        long.put_file(name, name.as_bytes()).unwrap();
    }
    let target = Content::Bytes(names[2].as_bytes().into());
    long.add("long-link".parse().unwrap(), Mode::Symlink, target).unwrap();
    let (bytes, summary) = tar_of(&long, 0);
    assert_eq!(
        summary.sha256.as_str(),
        "9fbef87bc7ee4d690cc77fcc1f4b7a49bdffaa13bdbc23506eb9d8d87512495f"
    );
    // A different reader can read the tar.
    let mut seen = Vec::new();
    for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
        let entry = entry.unwrap();
        if entry.header().entry_type().is_file() {
            seen.push(entry.path().unwrap().to_str().unwrap().to_owned());
        } else if entry.header().entry_type().is_symlink() {
            assert_eq!(entry.link_name().unwrap().unwrap().to_str().unwrap(), names[2]);
        }
    }
    let mut wanted = names.to_vec();
    wanted.sort();
    assert_eq!(seen, wanted);
}

#[test]
fn gnu_tar_reads_it() {
    let (bytes, _) = tar_of(&sample(), 1_700_000_000);
    let mut child = Command::new("tar")
        .args(["tvf", "-", "--utc", "--quoting-style=literal"])
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = text.lines().map(words).collect();
    assert_eq!(
        lines,
        [
            "drwxr-xr-x 0/0 0 2023-11-14 22:13 .github/",
            "-rw-r--r-- 0/0 0 2023-11-14 22:13 .github/w.yml",
            "-rw-r--r-- 0/0 1 2023-11-14 22:13 a-b",
            "-rw-r--r-- 0/0 1 2023-11-14 22:13 a.c",
            "drwxr-xr-x 0/0 0 2023-11-14 22:13 a/",
            "-rw-r--r-- 0/0 1 2023-11-14 22:13 a/b",
            "-rwxr-xr-x 0/0 2 2023-11-14 22:13 run",
            "drwxr-xr-x 0/0 0 2023-11-14 22:13 z/",
            "lrwxrwxrwx 0/0 0 2023-11-14 22:13 z/l -> ../a/b",
            "-rw-r--r-- 0/0 1 2023-11-14 22:13 z/ü",
        ]
    );
}

#[test]
fn trees_can_be_changed_and_put_together() {
    let mut tree = sample();
    tree.put_file("run", "#!/bin/sh").unwrap();
    assert_eq!(tree.mode("run"), Some(Mode::Executable));
    assert_eq!(tree.read_file("run").unwrap(), b"#!/bin/sh");
    assert!(tree.remove("a.c") && !tree.remove("a.c"));
    for (path, wanted) in [
        ("z/l", "there is a symbolic link at this path"),
        ("a", "is both a directory and something else"),
        ("a/b/c", "`a/b/c` is below `a/b`, which is not a directory"),
        ("../x", "leaves its root"),
    ] {
        let error = tree.put_file(path, "").unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    assert_eq!(
        tree.read_file("nope").unwrap_err().to_string(),
        "cannot read `nope`: there is no such file in the tree"
    );

    let mut context = Tree::new();
    context.put_file("Dockerfile", "FROM scratch").unwrap();
    context.mount("sources/vllm", tree).unwrap();
    assert_eq!(context.read_file("sources/vllm/a/b").unwrap(), b"x");
    assert!(context.mount("sources/vllm", sample()).is_err());
    assert!(context.clone().mount("Dockerfile", sample()).is_err());
    let below = context.subdirectory("sources/vllm/a/").unwrap();
    assert_eq!(below.paths().map(|(path, _)| path.to_string()).collect::<Vec<_>>(), ["b"]);
    assert!(context.subdirectory("sources/vll").is_err());
    // In the subdirectory alone, the link leads outside.
    let cut = context.subdirectory("sources/vllm/z").unwrap();
    let error = cut.write_tar(0, Vec::new()).unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot write the tree as `tar`: the symbolic link `l` points outside the tree"
    );
}

#[test]
fn a_folder_gives_the_same_tar() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for (path, entry) in sample().entries() {
        let target = root.join(path.as_str());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        let content = entry.content.read().unwrap();
        match entry.mode {
            Mode::Symlink => symlink(String::from_utf8(content).unwrap(), target).unwrap(),
            mode => {
                fs::write(&target, content).unwrap();
                let bits = if mode == Mode::Executable { 0o4750 } else { 0o600 };
                fs::set_permissions(&target, fs::Permissions::from_mode(bits)).unwrap();
            }
        }
    }
    fs::create_dir_all(root.join(".git/objects")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    let tree = Tree::from_folder(root).unwrap();
    assert_eq!(tar_of(&tree, 7), tar_of(&sample(), 7));
    assert_eq!(tree.digest().unwrap(), sample().digest().unwrap());
    // A file that grew, shrank or became a link in the meantime is an error.
    for (path, change) in [
        ("a.c", (|path| fs::write(path, "longer").unwrap()) as fn(&std::path::Path)),
        ("a.c", |path| fs::write(path, "").unwrap()),
        ("a-b", |path| {
            fs::remove_file(path).unwrap();
            symlink("a.c", path).unwrap();
        }),
        ("a/b", |path| {
            fs::remove_dir_all(path.parent().unwrap()).unwrap();
            symlink("/etc", path.parent().unwrap()).unwrap();
        }),
    ] {
        change(&root.join(path));
        assert!(tree.read_file(path).is_err(), "{path}");
        assert!(tree.write_tar(0, Vec::new()).is_err(), "{path}");
    }
    assert!(Tree::from_folder(&root.join("nope")).is_err());
}

#[test]
fn a_writer_that_is_full_says_so() {
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if self.0 < bytes.len() {
                return Err(std::io::ErrorKind::StorageFull.into());
            }
            self.0 -= bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (bytes, _) = tar_of(&sample(), 0);
    for room in (0..bytes.len()).step_by(100) {
        let error = sample().write_tar(0, Full(room)).unwrap_err();
        assert!(matches!(error, WriteTarError::Writer(_)), "{error:?}");
    }
}
