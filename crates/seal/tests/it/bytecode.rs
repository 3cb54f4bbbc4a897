//! Python bytecode stays valid for its sealed source.

use std::io::Cursor;

use insta::assert_snapshot;
use seal::{Index, Sealer};

use crate::support::{EPOCH, LATER, Tar, base, rules, seal};

/// Returns bytecode of Python 3.13 for a source with this time and size.
fn timed(mtime: u64, size: u32) -> Vec<u8> {
    let mtime = u32::try_from(mtime).unwrap();
    [
        &3571_u16.to_le_bytes()[..],
        b"\r\n\0\0\0\0",
        &mtime.to_le_bytes(),
        &size.to_le_bytes(),
        b"code",
    ]
    .concat()
}

/// Returns the time in the header of bytecode.
fn time_of(tar: &[u8], content: &[u8]) -> u64 {
    let at = tar.windows(4).position(|part| part == &content[16..20]).unwrap();
    u32::from_le_bytes(tar[at - 8..at - 4].try_into().unwrap()).into()
}

#[test]
fn the_time_in_the_header_is_that_of_the_sealed_source() {
    let layer = Tar::new()
        .file_at("lib/new.py", b"1234", LATER)
        .file("lib/__pycache__/new.cpython-313.pyc", &timed(LATER, 4))
        .end();
    let (sealed, tar) = seal(&Index::new(), &layer);
    assert_eq!(sealed.report.bytecode.patched, 1);
    assert_eq!(time_of(&tar, &timed(0, 0)), EPOCH);
    // The source keeps an earlier time, and so does the bytecode.
    let layer = Tar::new()
        .file_at("lib/old.py", b"1234", 1000)
        .file("lib/__pycache__/old.cpython-313.opt-1.pyc", &timed(1000, 4))
        .end();
    let (sealed, tar) = seal(&Index::new(), &layer);
    assert_eq!((sealed.report.bytecode.patched, sealed.report.bytecode.valid), (0, 1));
    assert_eq!(time_of(&tar, &timed(0, 0)), 1000);
}

#[test]
fn a_time_that_the_engine_rounded_up_is_the_same() {
    let layer = Tar::new()
        .file_at("a.py", b"1234", LATER + 1)
        .file("__pycache__/a.cpython-313.pyc", &timed(LATER, 4))
        .end();
    assert_eq!(seal(&Index::new(), &layer).0.report.bytecode.patched, 1);
}

#[test]
fn what_is_not_valid_is_not_made_valid() {
    let layer = Tar::new()
        .file("a.py", b"1234")
        .file("__pycache__/a.cpython-313.pyc", &timed(LATER - 2, 4))
        .file("b.py", b"1234")
        .file("b.pyc", &timed(LATER, 5))
        .file("__pycache__/c.cpython-313.pyc", &timed(LATER, 4))
        .file("d.py", b"1234")
        .file("__pycache__/d.cpython-313.pyc", &{
            let mut hashed = timed(LATER, 4);
            hashed[4] = 1;
            hashed
        })
        .file("e.py", b"1234")
        .file("e.pyc", b"short")
        .symlink("f.py", "e.py")
        .file("f.pyc", &timed(LATER, 4))
        .end();
    let (sealed, tar) = seal(&Index::new(), &layer);
    assert_snapshot!(format!("{:#?}", sealed.report.bytecode));
    assert!(!tar.windows(8).any(|part| part == &timed(EPOCH, 4)[8..16]), "nothing was patched");
}

#[test]
fn a_source_in_an_earlier_layer_counts_with_the_time_it_had_in_the_build() {
    // Larger than the buffer with which content is read: only its beginning has a header.
    let long = |mtime| [timed(mtime, 4), vec![7; 200_000]].concat();
    let mut sealer = Sealer::new(rules(&[]), Index::new()).unwrap();
    let source = Tar::new().file("a.py", b"1234").end();
    sealer.layer(Cursor::new(source), std::io::sink()).unwrap();
    let bytecode = Tar::new().file("__pycache__/a.cpython-313.pyc", &long(LATER)).end();
    let sealed = sealer.layer(Cursor::new(bytecode), std::io::sink()).unwrap();
    assert_eq!(sealed.report.bytecode.patched, 1);
    // Touching the source without changing it is not a change, and neither is recompiling the
    // bytecode.
    let again = Tar::new()
        .file_at("a.py", b"1234", LATER + 60)
        .file("__pycache__/a.cpython-313.pyc", &long(LATER + 60))
        .end();
    let sealed = sealer.layer(Cursor::new(again), std::io::sink()).unwrap();
    assert_eq!((sealed.layer, sealed.report.bytecode.patched), (None, 1));
}

#[test]
fn a_source_of_the_base_keeps_its_time() {
    let below = Tar::new().file_at("a.py", b"1234", 1234).end();
    let layer = Tar::new()
        .file("a.py", b"1234")
        .file("__pycache__/a.cpython-313.pyc", &timed(LATER, 4))
        .end();
    let (sealed, tar) = seal(&base(&[below]), &layer);
    assert_eq!(sealed.report.bytecode.patched, 1);
    assert_eq!(sealed.report.unchanged, 1);
    assert_eq!(time_of(&tar, &timed(0, 0)), 1234);
}
