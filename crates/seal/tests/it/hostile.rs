//! Damaged and malicious tars are refused with an error that names the position and the entry, and
//! never cause a panic.

use std::fmt::Write as _;

use insta::assert_snapshot;
use proptest::prelude::*;
use seal::{Index, Listing};
use tar_stream::Ustar;

use crate::support::{Tar, chain, named, try_seal};

fn refusal(tar: &[u8]) -> String {
    try_seal(&Index::new(), &[], tar).map_or_else(|error| chain(&error), |_| "sealed".to_owned())
}

#[test]
fn what_readers_disagree_on_is_refused() {
    let long = |kind: u8, size: u64| Ustar { size, ..named("x", kind) };
    let ok = || Tar::new().file("ok", b"content");
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("no tar", vec![b'x'; 1024]),
        ("upwards", ok().file("a/../../etc/passwd", b"").end()),
        ("nul in pax path", ok().pax(&[("path", b"a\0b")]).file("x", b"").end()),
        ("path of 5000 bytes", ok().pax(&[("path", &[b'a'; 5000])]).file("x", b"").end()),
        ("hard link upwards", ok().link("x", "../ok").end()),
        ("hard link to nothing", ok().link("x", "nothing").end()),
        ("hard link to a directory", ok().directory("d", 0o755).link("x", "d").end()),
        ("hard links in a ring", ok().link("x", "y").link("y", "x").end()),
        ("empty symlink", ok().symlink("x", "").end()),
        ("unknown type", ok().put(named("x", b'M'), b"").end()),
        ("pax header of 2 GiB", ok().put(long(b'x', 2 << 30), b"").end()),
        ("long name of 2 GiB", ok().put(long(b'L', 2 << 30), b"").end()),
        ("pax length too long", ok().put(long(b'x', 7), b"99 a=b\n").file("x", b"").end()),
        ("pax size no number", ok().pax(&[("size", b"-1")]).file("x", b"").end()),
        (
            "pax size of exabytes",
            ok().pax(&[("size", b"9223372036854775807")]).file("x", b"").end(),
        ),
        ("owner above 32 bits", ok().pax(&[("uid", b"4294967296")]).file("x", b"").end()),
        ("global path", ok().extended(b'g', &[("path", b"y")]).file("x", b"").end()),
        ("nothing after pax", ok().pax(&[("path", b"y")]).end()),
        ("one block of zeros", ok().raw(&[0; 512]).file("x", b"").end()),
        ("directory called whiteout", ok().file(".wh.x/y", b"").end()),
        ("whiteout of nothing", ok().file("d/.wh.", b"").end()),
        ("file in a file", ok().file("ok/x", b"").end()),
        ("file in a link", ok().symlink("lib", "usr/lib").file("lib/x", b"").end()),
        ("negative size", ok().put(named("x", b'0'), b"").with(124, &[0xff; 12]).end()),
        ("large device", {
            let device = (1, 0o777_7777);
            ok().put(Ustar { device, ..named("x", b'3') }, b"")
                .with(337, b"\x80\0\0\0\0\x20\0\0")
                .end()
        }),
        ("sparse of exabytes", {
            let map: &[(&str, &[u8])] =
                &[("GNU.sparse.size", b"9223372036854775807"), ("GNU.sparse.map", b"0,0")];
            ok().pax(map).file("x", b"").end()
        }),
        ("sparse that overlaps", {
            let map: &[(&str, &[u8])] =
                &[("GNU.sparse.size", b"9"), ("GNU.sparse.map", b"0,5,4,2")];
            ok().pax(map).file("x", b"1234567").end()
        }),
        ("sparse of another length", {
            let map: &[(&str, &[u8])] = &[("GNU.sparse.size", b"9"), ("GNU.sparse.map", b"0,5")];
            ok().pax(map).file("x", b"1234567").end()
        }),
        ("sparse with a huge count", {
            let map: &[(&str, &[u8])] = &[
                ("GNU.sparse.major", b"1"),
                ("GNU.sparse.minor", b"0"),
                ("GNU.sparse.realsize", b"9"),
            ];
            let mut content = b"99999999999\n".to_vec();
            content.resize(512, b'1');
            ok().pax(map).file("x", &content).end()
        }),
    ];
    let mut text = String::new();
    for (what, tar) in &cases {
        writeln!(text, "{what}\n    {}", refusal(tar)).unwrap();
    }
    assert_snapshot!(text);
}

/// Returns a tar with every feature that has its own code.
fn everything() -> Vec<u8> {
    Tar::new()
        .extended(b'g', &[("comment", b"x")])
        .directory("d", 0o755)
        .pax(&[("path", "d/\u{e4}".as_bytes()), ("SCHILY.xattr.security.capability", b"a\nb")])
        .file("x", b"content")
        .put(Ustar { size: 6, ..named("././@LongLink", b'L') }, b"d/two\0")
        .file("y", &[7; 700])
        .link("d/link", "d/two")
        .symlink("d/sym", "two")
        .pax(&[("GNU.sparse.size", b"2000"), ("GNU.sparse.map", b"10,5,1000,2")])
        .file("s", b"1234567")
        .file(".wh.gone", b"")
        .file("d/.wh..wh..opq", b"")
        .end()
}

#[test]
fn a_tar_that_is_cut_off_anywhere_is_refused_or_ends_at_an_entry() {
    let whole = everything();
    let full = Listing::of_layer(&whole[..]).unwrap();
    let (mut refused, mut count) = (0, 0);
    // Cuts around every block boundary, and at odd positions inside blocks.
    let ends = (0..whole.len()).filter(|end| (end + 1) % 512 < 3 || end % 37 == 0);
    for end in ends {
        count += 1;
        let (read, sealed) =
            (Listing::of_layer(&whole[..end]), try_seal(&Index::new(), &[], &whole[..end]));
        match read {
            // A cut is accepted only after a complete entry, and all entries before the cut are
            // listed.
            Ok(listing) => {
                assert_eq!(end % 512, 0, "cut at {end}");
                assert!(full.entries.starts_with(&listing.entries), "cut at {end}");
            }
            Err(_) => {
                refused += 1;
                assert!(sealed.is_err(), "cut at {end}");
            }
        }
    }
    assert!(refused > count - 40, "{refused} of {count}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_it_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        is_summed in any::<bool>(),
    ) {
        let mut tar = everything();
        for (at, byte) in changes {
            let at = at.index(tar.len());
            tar[at] = byte;
            // With correct checksums, changes in a header are not hidden by checksum errors.
            if is_summed && tar[at / 512 * 512 + 257..][..5] == *b"ustar" {
                crate::support::checksum(&mut tar[at / 512 * 512..][..512]);
            }
        }
        // Listing and sealing see the same tar.
        let read = Listing::of_layer(&tar[..]);
        if let Err(error) = &read {
            prop_assert!(error.offset <= tar.len() as u64);
            prop_assert!(try_seal(&Index::new(), &[], &tar).is_err());
        }
        if let Ok((sealed, bytes)) = try_seal(&Index::new(), &[], &tar)
            && let Some(layer) = sealed.layer
        {
            prop_assert_eq!(Listing::of_layer(&bytes[..]).unwrap(), layer.listing);
        }
    }

    #[test]
    fn random_bytes_are_no_tar(bytes in prop::collection::vec(any::<u8>(), 512..2048)) {
        prop_assert!(Listing::of_layer(&bytes[..]).is_err());
    }
}
