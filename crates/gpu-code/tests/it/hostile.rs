//! Damaged and malicious bundles are refused, and never take much memory.

use crate::support::{
    Case, alone, bundle, ccob, check_refused, fixture, list, objects, with, with_u64, zlib,
    zstd_zeros,
};

/// Positions in `plain.hipfb`: the number of entries, and for each entry its offset, which is
/// followed by its size, the length of its ID and its ID.
const COUNT: usize = 24;
const HOST: usize = 32;
const GFX1100: usize = 86;
const GFX1151: usize = 142;
const END_OF_HEAD: usize = 198;

fn plain() -> Vec<u8> {
    fixture("plain.hipfb")
}

fn cut(mut bytes: Vec<u8>, length: usize) -> Vec<u8> {
    bytes.truncate(length);
    bytes
}

/// An empty bundle, which consists only of its header.
fn empty() -> Vec<u8> {
    bundle(&[])
}

#[test]
fn damaged_plain_bundles_are_refused() {
    let _alone = alone();
    let gfx1151 = fixture("gfx1151.co");
    let id = "hipv4-amdgcn-amd-amdhsa--gfx1151";
    let host = fixture("libhost-only.so");
    let cases: Vec<Case> = vec![
        ("cut after its magic", cut(plain(), COUNT), "at byte 0: the bundle is truncated"),
        ("cut in its count", cut(plain(), 31), "the bundle is truncated"),
        ("cut before its entries", cut(plain(), HOST), "the bundle is truncated"),
        ("cut before a size", cut(plain(), GFX1100 + 8), "outside the bundle or the file"),
        ("cut before a length", cut(plain(), HOST + 16), "the bundle is truncated"),
        ("cut before an ID", cut(plain(), HOST + 24), "the bundle is truncated"),
        ("cut in an ID", cut(plain(), HOST + 30), "the bundle is truncated"),
        ("cut after its head", cut(plain(), END_OF_HEAD), "outside the bundle or the file"),
        ("cut in its code", cut(plain(), 5000), "entry 2 (at 4096, 4688 bytes) is outside"),
        ("one byte missing", cut(plain(), 16975), "entry 3 (at 12288, 4688 bytes) is outside"),
        ("missing entries", with_u64(plain(), COUNT, 1024), "the ID of entry 166 has 278529"),
        ("many entries", with_u64(plain(), COUNT, 1025), "claims to have 1025 entries"),
        ("most entries", with_u64(plain(), COUNT, u64::MAX), "18446744073709551615 entries"),
        ("overlap", with_u64(plain(), GFX1151, 8000), "entry 3 overlaps with another"),
        ("the same place", with_u64(plain(), GFX1151, 4096), "overlaps with another"),
        ("in the head", with_u64(plain(), GFX1100, 100), "entry 2 overlaps with another or"),
        ("at the start", with_u64(plain(), GFX1100, 0), "entry 2 overlaps with another or"),
        ("after the end", with_u64(plain(), GFX1151, 12289), "entry 3 (at 12289, 4688 bytes)"),
        ("far away", with_u64(plain(), GFX1151, 1 << 63), "is outside the bundle or the file"),
        ("size of 2^63", with_u64(plain(), GFX1151 + 8, 1 << 63), "is outside the bundle"),
        ("largest size", with_u64(plain(), GFX1151 + 8, u64::MAX), "is outside the bundle"),
        ("overflow", with_u64(plain(), GFX1151, u64::MAX - 4687), "is outside the bundle"),
        ("empty outside", with_u64(plain(), HOST, u64::MAX), "entry 1 (at 18446744073709551615,"),
        ("long ID", with_u64(plain(), HOST + 16, 257), "the ID of entry 1 has 257 bytes"),
        ("longest ID", with_u64(plain(), HOST + 16, u64::MAX), "18446744073709551615 bytes"),
        ("ID of zero bytes", with(plain(), GFX1100 + 24, &[0; 32]), "entry 2: its ID is not text"),
        ("ID not UTF-8", with(plain(), GFX1100 + 30, b"\xff"), "entry 2: its ID is not text"),
        ("ID with a line", with(plain(), GFX1100 + 30, b"\n"), "entry 2: its ID is not text"),
        ("no GPU", with(plain(), GFX1151 + 49, b"gfxabcd"), "`gfxabcd` is not a GPU target"),
        ("feature", bundle(&[("hip-amdgcn-amd-amdhsa--gfx942:fast+", b"")]), "`fast+` is not a"),
        (
            "other code",
            with(plain(), GFX1151 + 49, b"gfx1150"),
            "specifies gfx1150, but its code is",
        ),
        (
            "swapped code",
            with(plain(), 4096 + 48, b"\x4a"),
            "entry 2: its ID specifies gfx1100, but",
        ),
        ("no code", with(plain(), 4096, b"\0"), "specifies gfx1100, but it is not a code object"),
        ("host code", bundle(&[(id, &host)]), "but it is not code for an AMD GPU"),
        ("short code", bundle(&[(id, &gfx1151[..63])]), "but it is not a code object"),
        ("32-bit code", with(plain(), 4096 + 4, b"\x01"), "but it is not a code object"),
        ("text after it", [plain(), b"text".to_vec()].concat(), "at byte 16976: a bundle is"),
        ("half a bundle after it", [plain(), plain()[..20].to_vec()].concat(), "is expected"),
    ];
    check_refused(&cases);
}

#[test]
fn damaged_compressed_bundles_are_refused() {
    let _alone = alone();
    let v = |version: u8| fixture(&format!("compressed-zstd-v{version}.hipfb"));
    let zlib_v3 = || fixture("compressed-zlib-v3.hipfb");
    let longer = [v(3), vec![0; 8]].concat();
    let cases: Vec<Case> = vec![
        ("cut after its magic", cut(v(3), 4), "header of the compressed bundle is truncated"),
        ("cut after its version", cut(v(3), 6), "header of the compressed bundle is truncated"),
        ("cut after its method", cut(v(3), 8), "header of the compressed bundle is truncated"),
        ("cut between its sizes", cut(v(3), 16), "header of the compressed bundle is truncated"),
        ("cut after its sizes", cut(v(3), 24), "header of the compressed bundle is truncated"),
        ("cut after its head", cut(v(3), 32), "the compressed bundle has the wrong size 1618"),
        ("one byte missing", cut(v(3), 1617), "the compressed bundle has the wrong size 1618"),
        ("version 2 cut", cut(v(2), 16), "header of the compressed bundle is truncated"),
        ("version 2 without data", cut(v(2), 24), "the compressed bundle has the wrong size 1610"),
        ("version 1 cut", cut(v(1), 12), "header of the compressed bundle is truncated"),
        ("version 1 without data", cut(v(1), 20), "which is too much for its 0 bytes"),
        ("version 1 half", cut(v(1), 800), "cannot decompress"),
        ("version 1 almost", cut(v(1), 1589), "cannot decompress"),
        ("version 0", with(v(3), 4, &[0]), "the compressed bundle has the unknown version 0"),
        ("version 4", with(v(3), 4, &[4]), "the compressed bundle has the unknown version 4"),
        ("method 2", with(v(3), 6, &[2]), "the compression method 2 is unknown"),
        ("zstd is no zlib", with(v(3), 6, &[0]), "cannot decompress"),
        ("zlib is no zstd", with(zlib_v3(), 6, &[1]), "cannot decompress"),
        ("total in its head", with_u64(v(3), 8, 31), "the compressed bundle has the wrong size 31"),
        ("total of zero", with_u64(v(3), 8, 0), "the compressed bundle has the wrong size 0"),
        ("total too small", with_u64(v(3), 8, 1000), "cannot decompress"),
        ("total too large", with_u64(v(3), 8, 1619), "has the wrong size 1619"),
        ("largest total", with_u64(v(3), 8, u64::MAX), "the wrong size 18446744073709551615"),
        ("total with padding", with_u64(longer, 8, 1626), "8 bytes follow the compressed data"),
        ("size of zero", with_u64(v(3), 16, 0), "outside the bundle"),
        ("size one too small", with_u64(v(3), 16, 16975), "outside the bundle"),
        ("size one too large", with_u64(v(3), 16, 16977), "cannot decompress"),
        ("size of 2^63", with_u64(v(3), 16, 1 << 63), "claims to have 9223372036854775808 bytes"),
        ("largest size", with_u64(v(3), 16, u64::MAX), "claims to have 18446744073709551615 bytes"),
        ("smaller than its head", ccob(0, None, 31, &zlib(&empty())), "larger than its 31 bytes"),
        ("checksum", with(zlib_v3(), 1658, &[0; 4]), "cannot decompress"),
        ("twice compressed", ccob(0, None, 1618, &zlib(&v(3))), "content is not a bundle"),
        ("text", ccob(0, None, 40, &zlib(&[b'x'; 40])), "content is not a bundle"),
        ("empty", ccob(0, None, 0, &zlib(b"")), "cannot decompress the bundle"),
        ("more bytes", ccob(0, None, 32, &zlib(&[empty(), plain()].concat())), "more than 32"),
        ("text after it", [v(3), b"text".to_vec()].concat(), "at byte 1618: a bundle is expected"),
    ];
    check_refused(&cases);
}

#[test]
fn bombs_are_refused_with_little_memory() {
    let _alone = alone();
    let zeros = 16 << 20;
    let padding = vec![0; 128 << 10];
    let large = [zstd_zeros(&empty(), 1300, 27), padding].concat();
    let entries: Vec<(&str, &[u8])> = vec![("host", b""); 1024];
    let many = bundle(&entries);
    let many = ccob(0, None, many.len() as u64, &zlib(&many));
    let cases: Vec<Case> = vec![
        (
            "zstd, little declared",
            ccob(1, None, 32, &zstd_zeros(&empty(), 8000, 17)),
            "it has more than 32 bytes when decompressed",
        ),
        (
            "zlib, little declared",
            ccob(0, None, 32, &zlib(&[empty(), vec![0; zeros]].concat())),
            "it has more than 32 bytes when decompressed",
        ),
        (
            "100 GB declared",
            ccob(1, None, 100 << 30, &zstd_zeros(&empty(), 8000, 17)),
            "claims to have 107374182400 bytes when decompressed, which is too much",
        ),
        (
            "1 GiB declared",
            ccob(1, None, 1 << 30, &zstd_zeros(&empty(), 8191, 17)),
            "which is too much for its 32805 bytes",
        ),
        (
            "a window of 128 MiB",
            ccob(1, None, 32 + 1300 * (128 << 10), &large),
            "131072 bytes follow the compressed data",
        ),
        ("a window of 256 MiB", ccob(1, None, 32, &zstd_zeros(&empty(), 1, 28)), "too much memory"),
        ("many entries", many.repeat(300), "it has more than 250000 code objects"),
    ];
    check_refused(&cases);
}

#[test]
fn no_part_of_a_bundle_is_accepted() {
    for name in ["plain.hipfb", "compressed-zstd-v2.hipfb", "compressed-zlib-v3.hipfb"] {
        let bytes = fixture(name);
        for length in COUNT..bytes.len() {
            assert!(objects("x", &bytes[..length]).is_err(), "{name}: {length} bytes");
        }
    }
}

#[test]
fn empty_bundles_and_entries_hide_nothing() {
    let host = "host-x86_64-unknown-linux-gnu-";
    let nothing = bundle(&[(host, b""), ("hipv4-amdgcn-amd-amdhsa--gfx1151", b"")]);
    let at_start = with_u64(bundle(&[(host, b"")]), HOST, 0);
    let at_end = with_u64(at_start.clone(), HOST, 128 + 16976);
    for (first, listed) in [
        (empty(), ""),
        (nothing, "0 host 192 0\n0 gfx1151 192 0\n"),
        (at_start, "0 host 0 0\n"),
        (at_end, "0 host 17104 0\n"),
    ] {
        let at = first.len();
        let rest = format!("{at} host 4096 0\n{at} gfx1100 4096 4688\n{at} gfx1151 12288 4688\n");
        assert_eq!(list("x", &[first, plain()].concat()), format!("{listed}{rest}"));
    }
}

#[test]
fn entries_may_have_any_order_and_other_kinds() {
    let gfx1151 = fixture("gfx1151.co");
    let entries: [(&str, &[u8]); 5] = [
        ("hip-amdgcn-amd-amdhsa-gfx1151", &gfx1151),
        ("hip-amdgcn-amd-amdhsa--gfx942", b"BC\xc0\xde"),
        ("hip-spirv64-amd-amdhsa--amdgcnspirv", b"\x03\x02\x23\x07"),
        ("openmp-nvptx64-nvidia-cuda--sm_80", b"cubin"),
        ("host-x86_64-unknown-linux-gnu-", b""),
    ];
    let listed = "0 gfx1151 320 4688\n0 data:gfx942 5056 4\n0 amdgcnspirv 5120 4\n\
        0 other:openmp-nvptx64-nvidia-cuda--sm_80 5184 5\n0 host 5248 0\n";
    assert_eq!(list("x", &bundle(&entries)), listed);
    // A GPU that is newer than this program.
    let newer = with(plain(), GFX1151 + 49, b"gfx1999");
    let listed = "0 host 4096 0\n0 gfx1100 4096 4688\n0 gfx1999 12288 4688\n";
    assert_eq!(list("x", &newer), listed);
    let swapped = with_u64(with_u64(plain(), GFX1100, 12288), GFX1151, 4096);
    let swapped = with(with(swapped, 4096 + 48, b"\x4a"), 12288 + 48, b"\x41");
    let listed = "0 host 4096 0\n0 gfx1100 12288 4688\n0 gfx1151 4096 4688\n";
    assert_eq!(list("x", &swapped), listed);
}
