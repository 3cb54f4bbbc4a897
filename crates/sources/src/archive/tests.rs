//! Archives of all kinds, especially hostile ones.

use std::fs;
use std::io::Write as _;
use std::process::Command;

use tar_stream::BLOCK;

use super::*;
use crate::error::ErrorKind;
use crate::tree::Mode;

/// Returns one entry as bytes, with a correct checksum whatever it contains.
fn entry(kind: u8, path: &str, link: &str, content: &[u8]) -> Vec<u8> {
    raw(kind, path.as_bytes(), link.as_bytes(), content, content.len() as u64)
}

fn raw(kind: u8, path: &[u8], link: &[u8], content: &[u8], size: u64) -> Vec<u8> {
    let mut block = [0; BLOCK];
    block[..path.len()].copy_from_slice(path);
    block[100..107].copy_from_slice(b"0000755");
    block[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
    block[156] = kind;
    block[157..157 + link.len()].copy_from_slice(link);
    block[257..265].copy_from_slice(b"ustar\x0000");
    seal(&mut block);
    let mut bytes = block.to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    bytes
}

fn seal(block: &mut [u8]) {
    block[148..156].fill(b' ');
    let sum: u32 = block[..BLOCK].iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

fn file(path: &str, content: &str) -> Vec<u8> {
    entry(b'0', path, "", content.as_bytes())
}

fn link(path: &str, target: &str) -> Vec<u8> {
    entry(b'2', path, target, b"")
}

fn hardlink(path: &str, target: &str) -> Vec<u8> {
    entry(b'1', path, target, b"")
}

fn folder(path: &str) -> Vec<u8> {
    entry(b'5', path, "", b"")
}

fn tar(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = entries.concat();
    bytes.extend([0; 2 * BLOCK]);
    bytes
}

fn pax(records: &[(&str, &str)]) -> Vec<u8> {
    let mut data = Vec::new();
    for (key, value) in records {
        let rest = key.len() + value.len() + 3;
        let length = (rest + 1..).find(|n| *n == rest + n.to_string().len()).unwrap();
        data.extend_from_slice(format!("{length} {key}={value}\n").as_bytes());
    }
    entry(b'x', "pax", "", &data)
}

fn read(bytes: &[u8]) -> Result<Tree, Failure> {
    let spool = tempfile::tempfile().unwrap();
    let tree = reader::read(bytes, spool, &ArchiveLimits::default())?;
    tree.check_archive_links()?;
    Ok(tree)
}

fn shown(tree: &Tree) -> String {
    let one = |(path, mode): (&crate::TreePath, Mode)| {
        let mark = match mode {
            Mode::File => "",
            Mode::Executable => "*",
            Mode::Symlink => "@",
        };
        let content = tree.read_file(path.as_str()).unwrap();
        format!("{path}{mark}={}", String::from_utf8_lossy(&content))
    };
    tree.paths().map(one).collect::<Vec<_>>().join(" ")
}

/// Modelled on containerd's `TestBreakouts` and the tests of other readers. Nothing may be written
/// outside the root. Since this crate creates no files from an archive, each archive must be
/// refused.
#[test]
fn breakouts() {
    let refused: &[(&str, Vec<Vec<u8>>)] = &[
        ("path up and out", vec![file("../f", "x")]),
        ("path up and out from below", vec![file("a/../../f", "x")]),
        ("path with dots inside", vec![file("a/../f", "x")]),
        ("absolute path", vec![file("/etc/passwd", "x")]),
        ("absolute path with slashes", vec![file("//etc/passwd", "x")]),
        ("path of dots", vec![file("..", "x")]),
        ("directory up and out", vec![folder("../d")]),
        ("directory of dots", vec![folder("a/..")]),
        ("symlink absolute", vec![link("l", "/etc")]),
        ("symlink absolute, file through it", vec![link("l", "/etc"), file("l/f", "x")]),
        ("symlink relative up and out", vec![link("l", "../../etc")]),
        ("symlink relative up and out, file through it", vec![link("l", ".."), file("l/f", "x")]),
        ("symlink up and out and in again", vec![link("a/l", "../../root/f")]),
        ("symlink via symlink", vec![folder("d"), link("d/u", ".."), link("l", "d/u/../f")]),
        ("symlink via deeper symlink", vec![link("d/e/u", "../.."), link("l", "d/e/u/../../f")]),
        ("symlink, harmless by its text", vec![link("s/t", ".."), link("l", "s/t/../..")]),
        ("symlink slash", vec![link("l", "/")]),
        ("symlink empty", vec![link("l", "")]),
        ("symlink in place of a parent", vec![link("d", "e"), file("d/f", "x")]),
        ("symlink over a directory", vec![folder("d"), link("d", "e")]),
        ("symlink over a full directory", vec![file("d/f", "x"), link("d", "e")]),
        ("directory over a symlink", vec![link("d", "e"), folder("d")]),
        ("directory through a symlink", vec![link("d", "e"), folder("d/f")]),
        ("file over a symlink", vec![link("f", "g"), file("f", "x")]),
        ("file over a file", vec![file("f", "x"), file("f", "y")]),
        ("file over a directory", vec![folder("f"), file("f", "x")]),
        ("directory over a file", vec![file("f", "x"), folder("f")]),
        ("file below a file", vec![file("f", "x"), file("f/g", "x")]),
        ("directory below a file", vec![file("f", "x"), folder("f/g")]),
        ("hard link absolute", vec![hardlink("l", "/etc/passwd")]),
        ("hard link up and out", vec![hardlink("l", "../etc/passwd")]),
        ("hard link to a symlink", vec![link("s", "f"), hardlink("l", "s")]),
        ("hard link through a symlink", vec![link("s", "."), file("f", "x"), hardlink("l", "s/f")]),
        ("hard link to nothing", vec![hardlink("l", "f"), file("f", "x")]),
        ("hard link to a directory", vec![folder("d"), hardlink("l", "d")]),
        ("hard link to itself", vec![hardlink("l", "l")]),
        ("hard link with content", vec![file("f", "x"), entry(b'1', "l", "f", b"y")]),
        ("symlink with content", vec![entry(b'2', "l", "f", b"y")]),
        ("directory with content", vec![entry(b'5', "d/", "", b"y")]),
        ("character device", vec![entry(b'3', "n", "", b"")]),
        ("block device", vec![entry(b'4', "n", "", b"")]),
        ("pipe", vec![entry(b'6', "n", "", b"")]),
        ("sparse file", vec![entry(b'S', "n", "", b"x")]),
        ("multi-volume part", vec![entry(b'M', "n", "", b"x")]),
        ("out by way of a repository", vec![file(".git/../../f", "x")]),
        ("hard link into a repository", vec![file(".git/f", "x"), hardlink("l", ".git/f")]),
        ("control characters", vec![file("a\u{1b}[2J", "x")]),
        ("root as a file", vec![file("./", "x")]),
        ("root as a symlink", vec![link(".", "a")]),
        ("long name up and out", vec![entry(b'L', "x", "", b"../../f\0"), file("f", "x")]),
        ("long link up and out", vec![entry(b'K', "x", "", b"../../f\0"), link("l", "f")]),
        ("PAX path up and out", vec![pax(&[("path", "../f")]), file("f", "x")]),
        ("PAX path absolute", vec![pax(&[("path", "/f")]), file("f", "x")]),
        ("PAX path with NUL", vec![pax(&[("path", "f\0../g")]), file("f", "x")]),
        ("PAX link up and out", vec![pax(&[("linkpath", "../f")]), link("l", "f")]),
        ("PAX size against header", vec![pax(&[("size", "0")]), file("f", &"x".repeat(512))]),
        ("PAX sparse", vec![pax(&[("GNU.sparse.major", "1")]), file("f", "x")]),
        ("PAX charset", vec![pax(&[("hdrcharset", "BINARY")]), file("f", "x")]),
        ("PAX at the end", vec![file("f", "x"), pax(&[("path", "g")])]),
        ("global PAX path", vec![entry(b'g', "x", "", b"10 path=g\n"), file("f", "x")]),
    ];
    assert!(refused.len() >= 34 + 8);
    for (name, entries) in refused {
        let result = read(&tar(entries));
        let failure = result.map(|tree| shown(&tree)).expect_err(name);
        let is_right = matches!(failure.kind, ErrorKind::Refused | ErrorKind::Integrity);
        assert!(is_right && !failure.detail.contains('\u{1b}'), "{name}: {failure:?}");
    }
    testkit::gate_passed(16, refused.len());
}

#[test]
fn what_stays_inside_is_read() {
    for (entries, wanted) in [
        (vec![file("f", "x")], "f*=x"),
        (vec![folder("./"), folder("./d/"), file("./d/f", "x")], "d/f*=x"),
        (vec![folder("d"), folder("d/"), file("d/f", "")], "d/f*="),
        (vec![file("d/f", "x"), folder("d")], "d/f*=x"),
        (vec![link("l", "d/../f"), link("d/u", "../l")], "d/u@=../l l@=d/../f"),
        (vec![link("a", "b"), link("b", "a")], "a@=b b@=a"),
        (vec![file("f", "x"), hardlink("g", "./f"), hardlink("h", "g")], "f*=x g*=x h*=x"),
        (vec![pax(&[("path", "ü"), ("mtime", "1.5")]), file("f", "x")], "ü*=x"),
        (vec![pax(&[("size", "1")]), raw(b'0', b"f", b"", b"x", 0)], "f*=x"),
        (vec![entry(b'L', "x", "", b"long\0"), file("f", "x"), file("g", "y")], "g*=y long*=x"),
        (vec![entry(b'g', "x", "", b"19 comment=0123456\n"), file("f", "x")], "f*=x"),
        (vec![entry(0, "old/", "", b""), entry(0, "old/f", "", b"x")], "old/f*=x"),
        // Some releases contain their repository.
        (vec![folder("a/.git"), file("a/.git/f", "y"), link(".GIT", "/"), file("f", "x")], "f*=x"),
        // A name that is truncated after a slash does not make the entry a directory.
        (vec![pax(&[("path", "d/f")]), raw(b'0', b"d/", b"", b"x", 1)], "d/f*=x"),
        (vec![], ""),
    ] {
        assert_eq!(shown(&read(&tar(&entries)).unwrap()), wanted);
    }
    // A tar may end without zeros, but not in the middle of an entry.
    assert_eq!(shown(&read(&file("f", "x")).unwrap()), "f*=x");
    for cut in [1, 511, 513, 1023] {
        let failure = read(&file("f", "x")[..cut]).unwrap_err();
        assert_eq!(failure.detail, "the tar is damaged: it ends too early", "{cut}");
    }
    let mut behind = tar(&[file("f", "x")]);
    behind.extend(file("g", "y"));
    assert_eq!(read(&behind).unwrap_err().detail, "there is data after the end of the tar");
    let mut spoilt = file("f", "x");
    spoilt[0] = b'g';
    assert!(read(&spoilt).unwrap_err().detail.contains("checksum"));
}

#[test]
fn bombs() {
    let check = |bytes: &[u8], limits: ArchiveLimits, wanted: &str| {
        let failure = reader::read(bytes, tempfile::tempfile().unwrap(), &limits).unwrap_err();
        assert!(failure.detail.contains(wanted), "{}", failure.detail);
    };
    let limits = ArchiveLimits::default();
    let many: Vec<_> = (0..11).map(|n| file(&format!("f{n}"), "")).collect();
    check(&tar(&many), ArchiveLimits { entries: 10, ..limits }, "more than 10 entries");
    let large = tar(&[file("f", &"x".repeat(10_000))]);
    check(&large, ArchiveLimits { bytes: 9_000, ..limits }, "may be a decompression bomb");
    // A header with a huge size does not allocate memory.
    let huge = raw(b'x', b"p", b"", b"", 0o77_777_777_777);
    check(&huge, limits, "larger than 1 MiB");
    for kind in *b"xgLK" {
        check(&raw(kind, b"p", b"", b"", (1 << 20) + 1), limits, "larger than 1 MiB");
        check(&raw(kind, b"p", b"", b"", 1 << 20), limits, "ends too early");
    }
    let huge = raw(b'0', b"f", b"", b"", 0o77_777_777_777);
    check(&huge, limits, "ends too early");
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn archive(bytes: &[u8]) -> (tempfile::TempDir, Archive) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, bytes).unwrap();
    let sha256 = names::Digest::of(bytes).hex().parse().unwrap();
    let archive =
        Archive { name: "a 1".to_owned(), path, sha256, size: bytes.len() as u64, received: 0 };
    (folder, archive)
}

#[test]
fn archives_open_without_their_top_directory() {
    let entries =
        [folder("a-1/"), file("a-1/f", "x"), file("a-1/sub/g", "y"), file("a-1/sub-2/h", "z")];
    let bytes = tar(&entries);
    for bytes in [bytes.clone(), gz(&bytes)] {
        let (folder, archive) = archive(&bytes);
        let open = |path| archive.tree(&ArchiveLimits::default(), path);
        assert_eq!(shown(&open(None).unwrap()), "f*=x sub-2/h*=z sub/g*=y");
        assert_eq!(shown(&open(Some("sub")).unwrap()), "g*=y");
        let error = open(Some("nope")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(names(folder.path()), ["a", "a.tree", "a.tree.seen"]);
    }
    let (_folder, archive) = archive(&tar(&[file("a/f", "x"), file("b", "x")]));
    let error = archive.tree(&ArchiveLimits::default(), None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot open the archive `a 1`: `b` is not in `a/`, so there is no single top directory"
    );
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn an_archive_is_unpacked_once_and_again_when_its_file_was_touched() {
    let entries = [file("a/f", "first"), link("a/l", "f"), hardlink("a/h", "a/f"), file("a/e", "")];
    let (folder, archive) = archive(&gz(&tar(&entries)));
    let open = || archive.tree(&ArchiveLimits::default(), None);
    let wanted = "e*= f*=first h*=first l@=f";
    assert_eq!(shown(&open().unwrap()), wanted);
    // From here on the archive is damaged, so only the unpacked file can be used.
    let bytes = fs::read(&archive.path).unwrap();
    fs::write(&archive.path, "gone").unwrap();
    assert_eq!(shown(&open().unwrap()), wanted);
    let spool = folder.path().join("a.tree");
    let kept = fs::read(&spool).unwrap();
    let changed = String::from_utf8(kept.clone()).unwrap().replace("first", "wrong");
    let ways: [(&str, &dyn Fn()); 5] = [
        ("other content", &|| fs::write(&spool, &changed).unwrap()),
        ("a file in its place", &|| {
            fs::remove_file(&spool).unwrap();
            fs::write(&spool, &changed).unwrap();
        }),
        ("cut off", &|| File::options().write(true).open(&spool).unwrap().set_len(9).unwrap()),
        ("no file", &|| fs::remove_file(&spool).unwrap()),
        ("a link", &|| {
            fs::rename(&spool, folder.path().join("b")).unwrap();
            std::os::unix::fs::symlink("b", &spool).unwrap();
        }),
    ];
    for (way, touch) in ways {
        touch();
        assert_eq!(open().unwrap_err().kind(), ErrorKind::Refused, "{way}");
        fs::write(&archive.path, &bytes).unwrap();
        assert_eq!(shown(&open().unwrap()), wanted, "{way}");
        fs::write(&archive.path, "gone").unwrap();
        assert_eq!(shown(&open().unwrap()), wanted, "{way}");
    }
    // The limits apply to the unpacked file as well.
    let limits = ArchiveLimits { entries: 3, ..ArchiveLimits::default() };
    assert!(archive.tree(&limits, None).unwrap_err().to_string().contains("more than 3 entries"));
    let limits = ArchiveLimits { bytes: 4, ..ArchiveLimits::default() };
    assert!(
        archive
            .tree(&limits, None)
            .unwrap_err()
            .to_string()
            .contains("may be a decompression bomb")
    );
}

#[test]
fn what_is_no_tar() {
    let bomb = gz(&tar(&[file("a/f", &"\0".repeat(70 << 20))]));
    assert!(bomb.len() < 1 << 20);
    let mut broken = gz(&tar(&[file("a/f", &"x".repeat(9999))]));
    let middle = broken.len() / 2;
    broken[middle] ^= 0xff;
    for (bytes, wanted) in [
        (&b""[..], "neither a tar"),
        (b"<!DOCTYPE html>", "neither a tar"),
        (b"PK\x03\x04", "a zip archive"),
        (b"\x28\xb5\x2f\xfd1234", "zstd"),
        (b"\xfd7zXZ\0", "xz"),
        (b"\x1f\x8b", "damaged"),
        (&broken, "damaged"),
        (&bomb, "may be a decompression bomb"),
    ] {
        let (_folder, archive) = archive(bytes);
        let error = archive.tree(&ArchiveLimits::default(), None).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn tars_of_real_programs_all_read_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("p-1");
    let long = format!("{}/{}", "d".repeat(120), "f".repeat(130));
    fs::create_dir_all(root.join(&long).parent().unwrap()).unwrap();
    fs::write(root.join(&long), "long").unwrap();
    fs::write(root.join("ü b"), vec![7; 100_000]).unwrap();
    fs::write(root.join(".hidden"), "").unwrap();
    fs::hard_link(root.join("ü b"), root.join("hard")).unwrap();
    std::os::unix::fs::symlink("ü b", root.join("soft")).unwrap();
    let wanted = Tree::from_folder(&root).unwrap().digest().unwrap();
    for format in ["gnu", "oldgnu", "pax", "posix"] {
        let target = folder.path().join(format!("{format}.tar.gz"));
        let status = Command::new("tar")
            .args(["--format", format, "-czf"])
            .arg(&target)
            .args(["-C", folder.path().to_str().unwrap(), "p-1"])
            .status();
        assert!(status.unwrap().success());
        let (_folder, archive) = archive(&fs::read(target).unwrap());
        let tree = archive.tree(&ArchiveLimits::default(), None).unwrap();
        assert_eq!(tree.digest().unwrap(), wanted, "{format}");
    }
    let script = "import tarfile,sys\nt=tarfile.open(sys.argv[1],'w:gz')\nt.add(sys.argv[2],'p-1')\nt.close()";
    let target = folder.path().join("python.tar.gz");
    let status = Command::new("python3").args(["-c", script]).args([&target, &root]).status();
    assert!(status.unwrap().success());
    let (_folder, archive) = archive(&fs::read(target).unwrap());
    let tree = archive.tree(&ArchiveLimits::default(), None).unwrap();
    assert_eq!(tree.digest().unwrap(), wanted);
}
