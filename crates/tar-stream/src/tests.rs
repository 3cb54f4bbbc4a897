//! Tests of input that ordinary archives do not contain: input over the limits, and input that only
//! the strict reader refuses.

use crate::reader::MAX_EXTENSION;
use crate::{BLOCK, Forward, Reader, TarError, Ustar, pax_record};

/// Returns an entry without data.
fn bare(kind: u8, name: &str, link: &[u8]) -> Vec<u8> {
    Ustar { kind, link, name: name.as_bytes(), ..Ustar::default() }.block().to_vec()
}

fn extension(kind: u8, data: &[u8]) -> Vec<u8> {
    let size = data.len() as u64;
    let mut bytes = Ustar { kind, name: b"x", size, ..Ustar::default() }.block().to_vec();
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    bytes
}

fn records(records: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut data = Vec::new();
    records.iter().for_each(|(key, value)| pax_record(&mut data, key, value));
    data
}

#[test]
fn long_names_and_extended_headers_are_limited() {
    for kind in *b"xXgLK" {
        let tar = |size: usize| {
            let mut data = vec![b'a'; size];
            if matches!(kind, b'x' | b'X' | b'g') {
                data = Vec::new();
                let value = vec![b'a'; size - b"1048576 comment=\n".len()];
                pax_record(&mut data, b"comment", &value);
                assert_eq!(data.len(), size);
            }
            let mut tar = extension(kind, &data);
            tar.extend(bare(b'0', "file", b""));
            tar
        };
        let read = |tar: &[u8]| {
            let end = Reader::new(Forward(tar)).next().map(|_| ());
            end.map_or_else(|error| error.to_string(), |()| "read".to_owned())
        };
        assert_eq!(read(&tar(MAX_EXTENSION)), "read");
        let refused = read(&tar(MAX_EXTENSION + 1));
        assert!(refused.contains("has 1048577 bytes, more than the limit of 1048576"));
    }
}

#[test]
fn what_global_headers_set_is_limited_together() {
    let one = |name: &[u8], size: usize| {
        let key = [b"SCHILY.xattr.".as_slice(), name].concat();
        extension(b'g', &records(&[(key.as_slice(), vec![b'v'; size].as_slice())]))
    };
    let half = (MAX_EXTENSION >> 1) - b"SCHILY.xattr.a".len();
    let read = |tars: &[Vec<u8>]| {
        let tar = [tars.concat(), bare(b'0', "file", b"")].concat();
        let end = Reader::new(Forward(&tar[..])).next().map(|_| ());
        end.map_err(|error| error.to_string())
    };
    assert_eq!(read(&[one(b"a", half), one(b"b", half)]), Ok(()));
    // Later values replace earlier ones.
    assert_eq!(read(&[one(b"a", half), one(b"a", half), one(b"b", half)]), Ok(()));
    let refused = read(&[one(b"a", half), one(b"b", half + 1)]).unwrap_err();
    assert!(refused.contains("has 1048577 bytes, more than the limit of 1048576"));
}

/// Reads a whole tar, and returns the types and paths of its entries.
fn all(mut reader: Reader<Forward<&[u8]>>) -> Result<String, TarError> {
    let mut text = String::new();
    while let Some(entry) = reader.next()? {
        text.push(char::from(entry.kind));
        text.push_str(&String::from_utf8_lossy(&entry.path));
    }
    Ok(text)
}

#[test]
fn the_strict_reader_refuses_what_go_accepts() {
    let file = || bare(b'0', "a", b"");
    let pax = |key: &[u8], value: &[u8]| extension(b'x', &records(&[(key, value)]));
    let with = |at: usize, bytes: &[u8]| {
        let mut block = file();
        block[at..at + bytes.len()].copy_from_slice(bytes);
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        block
    };
    let sized = || {
        let mut bytes =
            Ustar { kind: b'0', name: b"a", size: 1, ..Ustar::default() }.block().to_vec();
        bytes.resize(3 * BLOCK, 0);
        bytes
    };
    for (tar, wanted) in [
        ([pax(b"size", b"513"), sized()].concat(), "contain different sizes"),
        ([pax(b"hdrcharset", b"BINARY"), file()].concat(), "names are not UTF-8"),
        ([pax(b"GNU.sparse.size", b"0"), file()].concat(), "the sparse file"),
        ([pax(b"path", b""), file()].concat(), "whose length is wrong"),
        (with(124, b"0000000\x001"), "its size is not a number"),
        (with(100, b"644\x001"), "its mode is not a number"),
        ([file(), vec![0; 2 * BLOCK], file()].concat(), "there is data after its end"),
    ] {
        assert!(all(Reader::new(Forward(&tar))).is_ok(), "{wanted}");
        let error = all(Reader::strict(Forward(&tar))).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    // One block of zeros also ends a tar.
    let tar = [file(), vec![0; BLOCK + 9]].concat();
    assert_eq!(all(Reader::strict(Forward(&tar))).unwrap(), "0a");
    // Old types are passed to the caller, and unneeded records are not read.
    let tar = [bare(b'7', "a/", b""), bare(b'S', "b", b""), pax(b"uid", b"x"), file()].concat();
    assert_eq!(all(Reader::strict(Forward(&tar))).unwrap(), "7a/Sb0a");
    let tar = [bare(b'7', "a/", b""), bare(0, "b/", b""), bare(0, "c", b"")].concat();
    assert_eq!(all(Reader::new(Forward(&tar))).unwrap(), "5a/5b/0c");
}

#[test]
fn the_data_of_an_unknown_type_is_no_header() {
    let with_size = |kind: u8| extension(kind, &[b'a'; 700]);
    for kind in *b"ZDV" {
        let tar = [with_size(kind), bare(b'0', "c", b"")].concat();
        let wanted = format!("{}x0c", char::from(kind));
        assert_eq!(all(Reader::new(Forward(&tar))).unwrap(), wanted);
        assert_eq!(all(Reader::strict(Forward(&tar))).unwrap(), wanted);
    }
    // These have no data, so the next block must be a header.
    for kind in *b"123456" {
        assert!(all(Reader::new(Forward(&with_size(kind)))).is_err());
    }
}
