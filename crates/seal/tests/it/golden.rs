//! The bytes of `seal/1`. If a digest changes here, the contract becomes `seal/2`.

use std::io::{Cursor, Write as _};
use std::num::NonZeroUsize;

use insta::assert_snapshot;
use seal::{Entry, EntryPath, Index, Kind, MEMBER, Rules, Sealer, gzip, layer_of_files};
use tar_stream::Ustar;

use crate::support::{Tar, named, rules, unzip};

/// Returns moderately compressible bytes, generated from a seed.
pub(crate) fn text(length: usize, mut seed: u32) -> Vec<u8> {
    let words = ["lib", "hip", "rocm", "/usr/", "torch.", "\n", "0x", "gfx1151 ", "    ", "return"];
    let mut bytes = Vec::with_capacity(length + 16);
    while bytes.len() < length {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        bytes.extend_from_slice(words[seed as usize >> 16 & 7].as_bytes());
        bytes.push((seed >> 24) as u8);
    }
    bytes.truncate(length);
    bytes
}

/// Returns a layer that uses every feature of a header, and content for several members.
fn layer() -> Vec<u8> {
    let long = "long/".repeat(30) + "name";
    Tar::new()
        .directory("bin", 0o755)
        .pax(&[("SCHILY.xattr.security.capability", b"\x01\0\0\x02\x0a\0\0\0")])
        .file("bin/cap", b"#!")
        .pax(&[("path", long.as_bytes()), ("uid", b"3000000"), ("gid", b"3000000")])
        .file("x", &text(100_000, 1))
        .pax(&[("path", "caf\u{e9}".as_bytes()), ("linkpath", "r\u{f4}le".as_bytes())])
        .symlink("x", "y")
        .put(Ustar { device: (1, 3), mode: 0o666, ..named("dev/null", b'3') }, b"")
        .put(Ustar { mode: 0o104_755, ..named("setuid", b'0') }, b"")
        .put(named("pipe", b'6'), b"")
        .link("z", "setuid")
        .file("large", &text(3 * MEMBER + 12_345, 2))
        .end()
}

#[test]
fn the_digests_of_seal_1() {
    let mut sealer = Sealer::new(rules(&[]), Index::new()).unwrap();
    let mut out = Vec::new();
    let layer = sealer.layer(Cursor::new(layer()), &mut out).unwrap().layer.unwrap();
    assert_snapshot!(format!(
        "diff_id {} ({} bytes)\ndigest {} ({} bytes)\n{:#}",
        layer.diff_id, layer.tar_size, layer.digest, layer.size, layer.listing
    ));
    let tar = unzip(&out);
    assert_eq!(names::Digest::of(&tar), layer.diff_id);
    assert_eq!(names::Digest::of(&out), layer.digest);
    assert_eq!((tar.len() as u64, out.len() as u64), (layer.tar_size, layer.size));
}

#[test]
fn the_digests_of_the_compressor() {
    let mut lines = Vec::new();
    let zeros = vec![0; 2 * MEMBER];
    let noise: Vec<u8> = text(MEMBER, 3).iter().zip(text(MEMBER, 4)).map(|(a, b)| a ^ b).collect();
    for (what, content) in [
        ("nothing", &[][..]),
        ("text", &text(2 * MEMBER + 1, 5)),
        ("zeros", &zeros),
        ("noise", &noise),
    ] {
        let done = gzip(Vec::new(), NonZeroUsize::MIN, |out| out.write_all(content)).unwrap().1;
        lines.push(format!("{what}: {} bytes, {}", done.size, done.digest));
    }
    assert_snapshot!(lines.join("\n"));
}

#[test]
fn threads_and_the_size_of_writes_change_nothing() {
    let content = text(5 * MEMBER + 77, 6);
    let compress = |threads: usize, step: usize| {
        let mut bytes = Vec::new();
        let threads = NonZeroUsize::new(threads).unwrap();
        let done = gzip(&mut bytes, threads, |out| {
            content.chunks(step).try_for_each(|part| out.write_all(part))
        });
        assert_eq!(names::Digest::of(&bytes), done.unwrap().1.digest);
        bytes
    };
    let one = compress(1, content.len());
    assert_eq!(unzip(&one), content);
    for (threads, step) in [(1, 1013), (2, 65_536), (3, MEMBER), (8, 1 << 22), (16, 511)] {
        assert!(compress(threads, step) == one, "{threads} threads, writes of {step} bytes");
    }
}

#[test]
fn an_error_of_the_writer_ends_all_threads() {
    let content = text(MEMBER, 7).repeat(40);
    let full: &mut [u8] = &mut vec![0; 3 * MEMBER / 2];
    let threads = NonZeroUsize::new(4).unwrap();
    let done = gzip(full, threads, |out| out.write_all(&content));
    assert_eq!(done.unwrap_err().kind(), std::io::ErrorKind::WriteZero);
    let done = gzip(Vec::new(), threads, |out| {
        out.write_all(&content)?;
        Err::<(), _>(std::io::Error::other("no more"))
    });
    assert_eq!(done.unwrap_err().to_string(), "no more");
}

#[test]
fn sealing_with_any_number_of_threads_gives_the_same() {
    let seal = |threads| {
        let threads = NonZeroUsize::new(threads).unwrap();
        let rules = Rules { threads, ..rules(&[]) };
        let mut sealer = Sealer::new(rules, Index::new()).unwrap();
        sealer.layer(Cursor::new(layer()), std::io::sink()).unwrap()
    };
    assert_eq!(seal(1), seal(7));
}

/// Makes a layer of files with `threads`. Returns its bytes and its description.
fn of_files(threads: usize) -> (Vec<u8>, seal::SealedLayer) {
    let content = text(2 * MEMBER + 5, 8);
    let path = |text: &str| EntryPath::parse(text.as_bytes()).unwrap();
    let entry = |kind, mode, uid| Entry { mode, uid, gid: 44, ..Entry::new(kind) };
    let long = "opt/app/".to_owned() + &"long/".repeat(30) + "name";
    let entries = [
        (path("opt/app"), entry(Kind::Directory, 0o750, 0)),
        (
            path("opt/app/link"),
            Entry { link: b"data".as_slice().into(), ..entry(Kind::Symlink, 0, 0) },
        ),
        (path("opt/app/data"), Entry { size: content.len() as u64, ..entry(Kind::File, 0o640, 7) }),
        (path("opt/app.d"), entry(Kind::File, 0o644, 3_000_000)),
        (path(&long), entry(Kind::File, 0o755, 0)),
    ];
    let mut bytes = Vec::new();
    let threads = NonZeroUsize::new(threads).unwrap();
    let open = |path: &EntryPath| {
        let has_content = path.as_bytes().ends_with(b"data");
        Ok(Cursor::new(if has_content { content.clone() } else { Vec::new() }))
    };
    let layer = layer_of_files(entries.into(), 1_800_000_000, threads, &mut bytes, open).unwrap();
    (bytes, layer)
}

#[test]
fn the_digests_of_files_1() {
    let (bytes, layer) = of_files(1);
    assert_snapshot!(format!(
        "diff_id {} ({} bytes)\ndigest {} ({} bytes)\n{:#}",
        layer.diff_id, layer.tar_size, layer.digest, layer.size, layer.listing
    ));
    let tar = unzip(&bytes);
    assert_eq!(names::Digest::of(&tar), layer.diff_id);
    assert_eq!(names::Digest::of(&bytes), layer.digest);
    assert_eq!(seal::Listing::of_layer(&*tar).unwrap(), layer.listing);
    assert_eq!(of_files(5).0, bytes);
}

#[test]
fn a_file_with_another_size_is_refused() {
    for found in [0_usize, 9, 11, 100_000] {
        let entry = Entry { size: 10, mode: 0o644, ..Entry::new(Kind::File) };
        let entries = [(EntryPath::parse(b"f").unwrap(), entry)].into();
        let open = |_: &EntryPath| Ok(Cursor::new(vec![b'x'; found]));
        let made = layer_of_files(entries, 0, NonZeroUsize::MIN, std::io::sink(), open);
        assert!(made.is_err(), "{found}");
    }
}
