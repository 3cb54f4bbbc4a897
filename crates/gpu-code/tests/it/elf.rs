//! Damaged ELF files.

use crate::support::{
    Case, alone, check_refused, fatbin_header, fixture, list, objects, with, with_u64,
};

const LIBRARY: &str = "libhost-two-bundles.so";

/// Returns the library with a changed number in the header of its section `.hip_fatbin`.
fn section(field: usize, number: u64) -> Vec<u8> {
    let bytes = fixture(LIBRARY);
    let header = fatbin_header(&bytes);
    with_u64(bytes, header + field, number)
}

#[test]
fn damaged_libraries_are_refused() {
    let _alone = alone();
    let library = || fixture(LIBRARY);
    let header = fatbin_header(&library());
    let twice = {
        let section = library()[header..header + 64].to_vec();
        with(library(), header - 64, &section)
    };
    let cut = library()[..library().len() - 1].to_vec();
    let garbage = with(library(), 16100, b"text");
    let cases: Vec<Case> = vec![
        (
            "size of an entry",
            with(library(), 58, &[63, 0]),
            "the size of a section header is wrong",
        ),
        ("no size of an entry", with(library(), 58, &[0, 0]), "the size of a section header is"),
        ("table far away", with_u64(library(), 40, 1 << 63), "the section headers are outside the"),
        ("table at the end", with_u64(library(), 40, u64::MAX), "the section headers are outside"),
        ("many sections", with(library(), 60, &[0xff; 2]), "the section headers are outside the"),
        ("one byte missing", cut, "the section headers are outside the file, which is truncated"),
        ("names", with(library(), 62, &[0xf0, 0xff]), "the section headers cannot be read"),
        ("section far away", section(24, 1 << 63), "the section `.hip_fatbin` is outside the file"),
        ("section too large", section(32, 33_000), "the section `.hip_fatbin` is outside the file"),
        ("largest section", section(32, u64::MAX), "the section `.hip_fatbin` is outside the file"),
        ("section too short", section(32, 20_000), "at byte 16384: entry 2 (at 4096, 3808 bytes)"),
        ("section one byte short", section(32, 24_287), "at byte 16384: entry 3 (at 8192,"),
        ("section starts late", section(24, 4097), "at byte 4097: a bundle is expected"),
        ("text between bundles", garbage, "at byte 16100: a bundle is expected"),
        ("two sections", twice, "two sections `.hip_fatbin` overlap"),
    ];
    check_refused(&cases);
}

#[test]
fn sections_without_content_have_no_code() {
    const NOBITS: u8 = 8;
    let bytes = fixture(LIBRARY);
    let header = fatbin_header(&bytes);
    assert_eq!(list("x", &with(bytes.clone(), header + 4, &[NOBITS])), "");
    assert_eq!(list("x", &section(32, 0)), "");
    // rocm-kpack overwrites the section with zeros.
    assert_eq!(list("x", &with(bytes.clone(), 4096, &[0; 24288])), "");
    // There are no section headers, and nothing looks like a bundle.
    let empty = with(with_u64(bytes, 40, 0), 4096, &[0; 24288]);
    assert_eq!(list("x", &empty), "");
}

#[test]
fn numbers_of_sections_that_do_not_fit_the_header_are_in_the_first_section() {
    let bytes = fixture(LIBRARY);
    let at = |position: usize| u16::from_le_bytes([bytes[position], bytes[position + 1]]);
    let table = usize::try_from(u64::from_le_bytes(bytes[40..48].try_into().unwrap())).unwrap();
    let (count, names) = (at(60), at(62));
    let large = with_u64(with(bytes.clone(), 60, &[0, 0]), table + 32, count.into());
    assert_eq!(list("x", &large), list("x", &bytes));
    let names = u32::from(names).to_le_bytes();
    let large = with(with(large, 62, &[0xff, 0xff]), table + 40, &names);
    assert_eq!(list("x", &large), list("x", &bytes));
    let many = with_u64(large, table + 32, 1 << 60);
    assert!(objects("x", &many).unwrap_err().contains("the section headers are outside the file"));
}

#[test]
fn a_library_with_code_but_without_section_headers_is_refused() {
    for name in [LIBRARY, "libhost-two-bundles-compressed.so"] {
        let why = objects("x", &with_u64(fixture(name), 40, 0)).unwrap_err();
        assert!(
            why.contains("there is a bundle, but there are no section headers"),
            "{name}: {why}"
        );
    }
}

#[test]
fn no_part_of_a_library_is_accepted() {
    for name in [LIBRARY, "libhost-two-bundles-compressed.so", "libobjcopy-two-zstd-v1.so"] {
        let bytes = fixture(name);
        for length in 64..bytes.len() {
            assert!(objects("x", &bytes[..length]).is_err(), "{name}: {length} bytes");
        }
    }
}

#[test]
fn code_that_is_not_loaded_or_for_a_new_gpu_is_listed_as_such() {
    let object = || fixture("gfx1151.co");
    for (what, bytes, wanted) in [
        ("a new processor", with(object(), 48, &[0x7f]), "- unknown (0x7f) 0 4688\n"),
        ("no processor", with(object(), 48, &[0]), "- unknown (0x00) 0 4688\n"),
        ("another runtime", with(object(), 7, &[65]), "- data:gfx1151 0 4688\n"),
        ("not linked", with(object(), 16, &[1]), "- data:gfx1151 0 4688\n"),
    ] {
        assert_eq!(list("lib/kernel", &bytes), wanted, "{what}");
    }
}
