//! Tests that each fixture contains exactly the expected objects.

use gpu_code::{CodeObject, HEAD, Owner, Spool, is_candidate, scan};

use crate::support::{fixture, list, listing, names, objects};

const PLAIN: &str = "0 host 4096 0\n0 gfx1100 4096 4688\n0 gfx1151 12288 4688\n";

/// What each fixture contains. `=` refers to a fixture with the same objects.
const CONTENT: [(&str, &str); 19] = [
    ("plain.hipfb", PLAIN),
    ("compressed-zlib-v1.hipfb", "= plain.hipfb"),
    ("compressed-zlib-v2.hipfb", "= plain.hipfb"),
    ("compressed-zlib-v3.hipfb", "= plain.hipfb"),
    ("compressed-zstd-v1.hipfb", "= plain.hipfb"),
    ("compressed-zstd-v2.hipfb", "= plain.hipfb"),
    ("compressed-zstd-v3.hipfb", "= plain.hipfb"),
    (
        "features-compressed-zstd-v3.hipfb",
        "0 host 4096 0 z
0 gfx11-generic 4096 4688 z
0 gfx90a:sramecc+:xnack- 12288 5392 z
0 gfx942:xnack+ 20480 5392 z
",
    ),
    (
        "two-mixed.hipfb",
        "0 host 4096 0
0 gfx1100 4096 4688
0 gfx1151 12288 4688
20480 host 4096 0 z
20480 gfx1100 4096 5856 z
20480 gfx1151 12288 5856 z
",
    ),
    (
        "two-zstd-v1.hipfb",
        "0 host 4096 0 z
0 gfx1100 4096 4688 z
0 gfx1151 12288 4688 z
4096 host 4096 0 z
4096 gfx1100 4096 4688 z
4096 gfx1151 12288 4688 z
",
    ),
    (
        "two-zstd-v3-adjacent.hipfb",
        "0 host 4096 0 z
0 gfx1100 4096 4688 z
0 gfx1151 12288 4688 z
1618 host 4096 0 z
1618 gfx1100 4096 5856 z
1618 gfx1151 12288 5856 z
",
    ),
    (
        "libhost-two-bundles.so",
        "4096 host 4096 0
4096 gfx1100 4096 3792
4096 gfx1151 8192 3792
16384 host 4096 0
16384 gfx1100 4096 3808
16384 gfx1151 8192 3808
",
    ),
    (
        "libhost-two-bundles-compressed.so",
        "4096 host 4096 0 z
4096 gfx1100 4096 3792 z
4096 gfx1151 8192 3792 z
8192 host 4096 0 z
8192 gfx1100 4096 3808 z
8192 gfx1151 8192 3808 z
",
    ),
    ("libhost-only.so", ""),
    (
        "libobjcopy-two-zstd-v1.so",
        "978 host 4096 0 z
978 gfx1100 4096 4688 z
978 gfx1151 12288 4688 z
5074 host 4096 0 z
5074 gfx1100 4096 4688 z
5074 gfx1151 12288 4688 z
",
    ),
    ("gfx1151.co", "- gfx1151 0 4688\n"),
    ("gfx11-generic.co", "- gfx11-generic 0 4688\n"),
    ("gfx942-xnack_on.co", "- gfx942:xnack+ 0 5392\n"),
    ("gfx90a-sramecc_on-xnack_off.co", "- gfx90a:sramecc+:xnack- 0 5392\n"),
];

/// The part of an object that compression does not change.
fn content(object: CodeObject) -> (u64, u64, Owner) {
    (object.offset, object.size, object.owner)
}

#[test]
fn each_fixture_contains_exactly_its_objects() {
    let mut listed: Vec<&str> = CONTENT.iter().map(|(name, _)| *name).collect();
    listed.sort_unstable();
    assert_eq!(names(), listed);
    for (name, wanted) in CONTENT {
        let bytes = fixture(name);
        assert!(is_candidate(name, &bytes[..HEAD]), "{name}");
        // Their names do not matter.
        let found = objects("x", &bytes).unwrap();
        match wanted.strip_prefix("= ") {
            None => assert_eq!(listing(&found), wanted, "{name}"),
            Some(plain) => {
                let plain = objects("x", &fixture(plain)).unwrap();
                assert!(
                    found.iter().all(|object| object.is_compressed && object.bundle == Some(0))
                );
                let found: Vec<_> = found.into_iter().map(content).collect();
                assert_eq!(found, plain.into_iter().map(content).collect::<Vec<_>>(), "{name}");
            }
        }
    }
}

#[test]
fn compression_changes_no_object_of_a_library() {
    let objects = |name| objects("x", &fixture(name)).unwrap().into_iter().map(content);
    let plain = objects("libhost-two-bundles.so");
    assert!(plain.eq(objects("libhost-two-bundles-compressed.so")));
}

#[test]
fn a_decompressed_bundle_has_the_objects_of_the_compressed_one() {
    for (name, head) in [
        ("compressed-zstd-v1.hipfb", 20),
        ("compressed-zstd-v2.hipfb", 24),
        ("compressed-zstd-v3.hipfb", 32),
        ("features-compressed-zstd-v3.hipfb", 32),
    ] {
        let bytes = fixture(name);
        let plain = list("x", &zstd::decode_all(&bytes[head..]).unwrap());
        assert_eq!(plain.replace('\n', " z\n"), list("x", &bytes), "{name}");
    }
}

#[test]
fn files_are_read_where_they_are() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/two-mixed.hipfb");
    let file = Spool::of_file(std::fs::File::open(path).unwrap()).unwrap();
    let found = scan("x", &file).unwrap();
    assert_eq!(found, objects("x", &fixture("two-mixed.hipfb")).unwrap());
    assert_eq!(found.iter().filter(|object| object.code_target().is_some()).count(), 4);
}

#[test]
fn the_name_of_a_kernel_file_must_agree_with_its_code() {
    let code = fixture("gfx1151.co");
    for (path, bytes, wanted) in [
        ("lib/Kernels.so-000-gfx1151.hsaco", code.as_slice(), "- gfx1151 0 4688\n"),
        ("lib/Kernels.so-000-gfx1151-xnack+.co", &code, "- gfx1151 0 4688\n"),
        (
            "lib/gfx1100.co",
            &code,
            "at byte 0: its name contains gfx1100, but its code is for gfx1151",
        ),
        (
            "lib/Kernels-gfx1151.co",
            &fixture("compressed-zstd-v3.hipfb"),
            "0 host 4096 0 z\n0 gfx1100 4096 4688 z\n0 gfx1151 12288 4688 z\n",
        ),
        (
            "lib/Kernels-gfx942.co",
            &fixture("plain.hipfb"),
            "at byte 0: its name contains gfx942, but its code is for gfx1100, gfx1151",
        ),
        ("lib/TensileLibrary_gfx1151.dat", b"\x82\xa1", "- data:gfx1151 0 2\n"),
        ("share/miopen/db/gfx1151_20.kdb", b"SQLite format 3\0", "- gfx1151 0 16\n"),
        (
            "share/miopen/db/gfx1151_20.kdb",
            b"version https://git-lfs.github.com/spec/v1",
            "at byte 0: its name contains gfx1151, but it is not an SQLite database",
        ),
        ("aotriton/amd-gfx11xx/flash/attn.aks2", b"AKS2", "- gfx11xx 0 4\n"),
        ("lib/other.dat", b"\x82\xa1", ""),
        ("lib/empty", b"", ""),
    ] {
        let listed = list(path, bytes);
        assert_eq!(listed, wanted, "{path}");
        let head = &bytes[..bytes.len().min(HEAD)];
        assert_eq!(is_candidate(path, head), !wanted.is_empty(), "{path}");
    }
}
