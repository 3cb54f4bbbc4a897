//! All tar dialects give the same entries.

use insta::assert_snapshot;
use tar_stream::Ustar;

use crate::support::{LATER, Tar, listed, named};

#[test]
fn a_capability_with_a_line_feed_is_read_by_its_length() {
    // Written by `setcap cap_dac_override,cap_fowner=ep`: the permitted set is 0x0a.
    let capability = b"\x01\0\0\x02\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let tar = Tar::new()
        .pax(&[
            ("SCHILY.xattr.security.capability", capability),
            ("SCHILY.xattr.user.note", b"x\ny=z"),
            ("mtime", b"1699999999.75"),
        ])
        .file("bin/tool", b"#!");
    assert_snapshot!(listed(&tar.end()));
}

#[test]
fn long_names_of_all_dialects_are_read() {
    let long = "d/".repeat(120) + "file";
    let link = "../".repeat(50) + "target";
    let gnu = |kind, text: &str| (named("././@LongLink", kind), text.as_bytes().to_vec());
    let put = |tar: Tar, (header, mut text): (Ustar<'_>, Vec<u8>)| {
        text.push(0);
        tar.put(Ustar { size: text.len() as u64, ..header }, &text)
    };
    let by_gnu = put(put(Tar::new(), gnu(b'K', &link)), gnu(b'L', &long)).symlink("short", "x");
    let by_pax = Tar::new()
        .pax(&[("path", long.as_bytes()), ("linkpath", link.as_bytes())])
        .symlink("short", "x");
    let text = listed(&by_gnu.end());
    assert_eq!(text, listed(&by_pax.end()));
    assert!(text.contains(&long) && text.contains(&link), "{text}");

    let prefix = Ustar { prefix: b"usr/share", ..named("x", b'6') };
    assert_snapshot!(listed(&Tar::new().put(prefix, b"").end()));
}

#[test]
fn names_that_are_no_text_survive() {
    let tar = Tar::new().file("a b/\u{e4}\u{1f980}", b"1").raw(&{
        let header = Ustar { name: b"bin/\xff\x01", ..named("", b'6') };
        header.block()
    });
    assert_snapshot!(listed(&tar.end()));
}

#[test]
fn large_numbers_are_read_in_base_256_and_pax() {
    let base_256 = Tar::new()
        .directory("home", 0o700)
        .with(108, b"\x80\0\0\0\0\x2d\xc6\xc0")
        .with(116, b"\x80\0\0\0\xff\xff\xff\xfe")
        .with(136, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe");
    let pax = Tar::new()
        .pax(&[("uid", b"3000000"), ("gid", b"4294967294"), ("mtime", b"-2")])
        .directory("home", 0o700);
    let text = listed(&base_256.end());
    assert_eq!(text, listed(&pax.end()));
    assert_snapshot!(text);
}

#[test]
fn global_records_hold_until_taken_back() {
    let tar = Tar::new()
        .extended(b'g', &[("uid", b"7"), ("comment", b"made by git")])
        .put(named("a", b'6'), b"")
        .pax(&[("uid", b"8")])
        .put(named("b", b'6'), b"")
        .extended(b'g', &[("uid", b"")])
        .put(named("c", b'6'), b"");
    assert_snapshot!(listed(&tar.end()));
}

#[test]
fn v7_and_old_types_are_read() {
    let v7 = |header: Ustar<'_>| {
        let mut block = header.block();
        block[257..265].fill(0);
        block[329..345].fill(0);
        crate::support::checksum(&mut block);
        block
    };
    let tar = Tar::new()
        .raw(&v7(Ustar { mode: 0o40_755, ..named("old/", 0) }))
        .raw(&v7(Ustar { mode: 0o104_755, ..named("old/setuid", 0) }))
        .raw(&v7(Ustar { link: b"old/setuid", ..named("old/link", b'1') }))
        .put(Ustar { size: 2, ..named("contiguous", b'7') }, b"hi")
        // A directory has no data, whatever its size field says.
        .put(Ustar { size: 4096, ..named("sized", b'5') }, b"")
        .put(Ustar { device: (1, 3), mode: 0o666, ..named("dev/null", b'3') }, b"")
        .put(Ustar { device: (8, 0), mode: 0o660, ..named("dev/sda", b'4') }, b"");
    assert_snapshot!(listed(&tar.end()));
}

#[test]
fn sparse_files_of_all_forms_are_full_data() {
    let full = [&[0; 1024][..], &[1; 512], &[0; 2048], &[2; 100], &[0; 316]].concat();
    let data = [&[1; 512][..], &[2; 100]].concat();
    let plain = listed(&Tar::new().file("sparse", &full).end());

    let number = |value: u64| format!("{value:011o}\0");
    let mut old = Ustar { size: 612, ..named("sparse", b'S') }.block();
    let map = [1024, 512, 3584, 100].map(number).concat();
    old[257..265].copy_from_slice(b"ustar  \0");
    old[345..].fill(0);
    old[386..434].copy_from_slice(map.as_bytes());
    old[483..495].copy_from_slice(number(4000).as_bytes());
    crate::support::checksum(&mut old);
    let mut padded = data.clone();
    padded.resize(1024, 0);
    let old_gnu = Tar::new().raw(&old).raw(&padded).end();
    assert_eq!(listed(&old_gnu), plain, "old GNU");

    // The same map in an extension block, where GNU tar writes the fifth and later parts.
    let mut head = old;
    head[386..482].fill(0);
    head[482] = 1;
    crate::support::checksum(&mut head);
    let mut more = [0; 512];
    more[..48].copy_from_slice(map.as_bytes());
    let extended = Tar::new().raw(&head).raw(&more).raw(&padded).end();
    assert_eq!(listed(&extended), plain, "old GNU, extended");

    let file = |tar: Tar, content: &[u8]| {
        let size = content.len() as u64;
        tar.put(Ustar { size, ..named("GNUSparseFile.0/sparse", b'0') }, content).end()
    };
    let form_0_0 = Tar::new().pax(&[
        ("path", b"sparse"),
        ("GNU.sparse.size", b"4000"),
        ("GNU.sparse.numblocks", b"2"),
        ("GNU.sparse.offset", b"1024"),
        ("GNU.sparse.numbytes", b"512"),
        ("GNU.sparse.offset", b"3584"),
        ("GNU.sparse.numbytes", b"100"),
    ]);
    assert_eq!(listed(&file(form_0_0, &data)), plain, "0.0");
    let form_0_1 = Tar::new().pax(&[
        ("GNU.sparse.size", b"4000"),
        ("GNU.sparse.numblocks", b"2"),
        ("GNU.sparse.name", b"sparse"),
        ("GNU.sparse.map", b"1024,512,3584,100"),
    ]);
    assert_eq!(listed(&file(form_0_1, &data)), plain, "0.1");
    let form_1_0 = Tar::new().pax(&[
        ("GNU.sparse.major", b"1"),
        ("GNU.sparse.minor", b"0"),
        ("GNU.sparse.name", b"sparse"),
        ("GNU.sparse.realsize", b"4000"),
    ]);
    let mut with_map = b"2\n1024\n512\n3584\n100\n".to_vec();
    with_map.resize(512, 0);
    with_map.extend_from_slice(&data);
    assert_eq!(listed(&file(form_1_0, &with_map)), plain, "1.0");
}

#[test]
fn an_archive_may_end_without_zeros_and_have_anything_after_them() {
    let tar = Tar::new().file_at("a", b"1", LATER);
    let full = listed(&tar.clone().end());
    assert_eq!(listed(&tar.0), full);
    let mut one = tar.0.clone();
    one.resize(one.len() + 512, 0);
    assert_eq!(listed(&one), full);
    let mut more = tar.end();
    more.extend_from_slice(b"anything");
    assert_eq!(listed(&more), full);
}
