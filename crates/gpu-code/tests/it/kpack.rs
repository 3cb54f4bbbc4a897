//! kpack archives, written from the public description of the format.

use serde_json::{Value, json};

use crate::support::{Case, alone, check_refused, fixture, list, with, with_u64};

/// An archive with this content at byte 64 and this table.
fn archive(content: &[u8], table: &[u8]) -> Vec<u8> {
    let mut bytes = b"KPAK\x01\0\0\0".to_vec();
    bytes.extend((64 + content.len() as u64).to_le_bytes());
    bytes.resize(64, 0);
    bytes.extend(content);
    bytes.extend(table);
    bytes
}

fn packed(table: &Value) -> Vec<u8> {
    rmp_serde::to_vec_named(table).unwrap()
}

/// The table of an archive with two kernels.
fn table(compression: &str) -> Value {
    let mut table = json!({
        "format_version": 1,
        "group_name": "blas",
        "gfx_arch_family": "gfx115X",
        "gfx_arches": ["gfx1150", "gfx1151"],
        "compression_scheme": compression,
        "toc": {
            "bin/tool": { "gfx1151": { "type": "hsaco", "ordinal": 1, "original_size": 5392 } },
            "lib/libblas.so.5": {
                "gfx942:xnack+": { "type": "hsaco", "ordinal": 0, "original_size": 4688 },
            },
        },
    });
    let more = match compression {
        "none" => json!([{ "offset": 64, "size": 4688 }, { "offset": 4800, "size": 5392 }]),
        _ => json!(64),
    };
    table[if compression == "none" { "blobs" } else { "zstd_offset" }] = more;
    table
}

fn kernels() -> Vec<u8> {
    let mut content = fixture("gfx1151.co");
    content.resize(4800 - 64, 0);
    content.extend(fixture("gfx942-xnack_on.co"));
    content
}

/// An archive whose table has a different value at a path.
fn changed(compression: &str, path: &str, value: Value) -> Vec<u8> {
    let mut table = table(compression);
    *table.pointer_mut(path).unwrap() = value;
    archive(&kernels(), &packed(&table))
}

#[test]
fn the_kernels_of_an_archive_are_listed() {
    let plain = archive(&kernels(), &packed(&table("none")));
    assert_eq!(list("blas.kpack", &plain), "- gfx1151 4800 5392\n- gfx942:xnack+ 64 4688\n");
    let compressed = archive(b"frames", &packed(&table("zstd-per-kernel")));
    assert_eq!(list("blas.kpack", &compressed), "- gfx1151 0 5392 z\n- gfx942:xnack+ 0 4688 z\n");
    let empty = changed("none", "/toc", json!({}));
    assert_eq!(list("blas.kpack", &empty), "");
}

#[test]
fn damaged_archives_are_refused() {
    let _alone = alone();
    let good = || archive(&kernels(), &packed(&table("none")));
    let raw = |table: &[u8]| archive(b"", table);
    let kernel = "/toc/bin~1tool/gfx1151";
    let large = vec![0; (4 << 20) + 1];
    // Each binary and each blob takes few bytes of a table, and more in memory.
    let many = |key: &str, count: u32, item: &dyn Fn(u32) -> Vec<u8>| {
        let marker = if key == "toc" { 0xdf } else { 0xdd };
        let mut bytes = packed(&json!({ "compression_scheme": "zstd-per-kernel" }));
        bytes[0] += 1;
        bytes.push(0xa0 | u8::try_from(key.len()).unwrap());
        bytes.extend(key.as_bytes());
        bytes.push(marker);
        bytes.extend(count.to_be_bytes());
        (0..count).for_each(|number| bytes.extend(item(number)));
        raw(&bytes)
    };
    let last_missing = |number: u32| match number {
        499_999 => Vec::new(),
        _ => b"\xa1x\x81\xa0\x91\0".to_vec(),
    };
    let binary = |_| b"\xa0\x81\xa6gfx900\x92\0\x01".to_vec();
    let cases: Vec<Case> = vec![
        ("cut in its head", good()[..15].to_vec(), "at byte 0: the archive is truncated"),
        ("cut before its table", good()[..64 + kernels().len()].to_vec(), "the table of the arch"),
        ("cut in its table", good()[..good().len() - 1].to_vec(), "the table of the archive"),
        ("version 0", with(good(), 4, &[0]), "at byte 4: the archive has the unknown version 0"),
        ("version 2", with(good(), 4, &[2]), "at byte 4: the archive has the unknown version 2"),
        ("table outside", with_u64(good(), 8, 1 << 20), "at byte 8: the table of the archive is"),
        ("table far away", with_u64(good(), 8, u64::MAX), "is outside the file, or larger than 4"),
        ("table in its head", with_u64(good(), 8, 0), "the table of the archive: invalid type"),
        ("table too large", raw(&large), "is outside the file, or larger than 4 MiB"),
        ("text", raw(b"text"), "the table of the archive: invalid type"),
        ("reserved byte", raw(&[0xc1]), "the table of the archive"),
        ("no fields", raw(&[0x80]), "missing field `compression_scheme`"),
        ("huge map", raw(&[0xdf, 0xff, 0xff, 0xff, 0xff]), "the table of the archive"),
        ("huge text", raw(&[0x81, 0xdb, 0xff, 0xff, 0xff, 0xff]), "the table of the archive"),
        ("huge array", raw(b"\x81\xa5blobs\xdd\xff\xff\xff\xff"), "the table of the archive"),
        ("huge kernels", raw(b"\x81\xa3toc\xdf\xff\xff\xff\xff"), "the table of the archive"),
        ("deep", raw(&[b"\x81\xa1x", [0x91; 100_000].as_slice()].concat()), "depth limit exceeded"),
        ("many binaries", many("toc", 500_000, &last_missing), "the table of the archive"),
        ("many kernels", many("toc", 250_001, &binary), "it has more than 250000 code objects"),
        ("many blobs", many("blobs", 1 << 20, &|_| b"\x92\0\0".to_vec()), "missing field `toc`"),
        ("compression", changed("none", "/compression_scheme", json!("lz4")), "`lz4` is unknown"),
        ("no kernels", changed("none", "/toc", json!(null)), "expected a map"),
        (
            "unknown GPU",
            {
                let kernels = json!({ "sm_80": { "ordinal": 0, "original_size": 1 } });
                changed("none", "/toc/bin~1tool", kernels)
            },
            "`sm_80` is not a GPU target",
        ),
        ("no ordinal", changed("none", kernel, json!({})), "missing field `ordinal`"),
        (
            "ordinal",
            changed("none", &format!("{kernel}/ordinal"), json!(2)),
            "kernel 2 of `bin/tool` is missing",
        ),
        (
            "negative ordinal",
            changed("none", &format!("{kernel}/ordinal"), json!(-1)),
            "invalid value",
        ),
        (
            "no size",
            changed("zstd-per-kernel", kernel, json!({ "ordinal": 1 })),
            "kernel 1 of `bin/tool` is missing, or has no size",
        ),
        (
            "blob outside",
            changed("none", "/blobs/1/offset", json!(1 << 30)),
            "kernel 1 is outside the file",
        ),
        (
            "blob overflow",
            changed("none", "/blobs/1/offset", json!(u64::MAX)),
            "kernel 1 is outside the file",
        ),
        (
            "largest blob",
            changed("none", "/blobs/1/size", json!(u64::MAX)),
            "kernel 1 is outside the file",
        ),
    ];
    check_refused(&cases);
}
