//! Fuzzes the archive reader. The corpus consists of small trees packed by GNU tar, git and Python,
//! in all formats that they write: long names, hard and symbolic links, a sparse file, global
//! headers.

use std::fs::File;
use std::io::{Cursor, Read as _};

use flate2::read::GzDecoder;
use tar_stream::BLOCK;
use testkit::{Corpus, fuzz, runs};

use super::*;

const PACKED: [&[u8]; 6] = [
    include_bytes!("corpus/git.tar.gz"),
    include_bytes!("corpus/gnu.tar.gz"),
    include_bytes!("corpus/posix.tar.gz"),
    include_bytes!("corpus/python-gnu.tar.gz"),
    include_bytes!("corpus/python-pax.tar.gz"),
    include_bytes!("corpus/ustar.tar.gz"),
];

/// Byte sequences that are significant in headers.
const WORDS: [&[u8]; 16] = [
    b"..",
    b"/",
    b"../",
    b"\0",
    b"\n",
    b" ",
    b".git",
    b"15 path=../../x\n",
    b"16 size=9999999\n",
    b"20 linkpath=/etc/pw\n",
    b"22 GNU.sparse.major=1\n",
    b"\xff",
    b"\x80\0\0\0\0\0\0\xff",
    b"77777777777",
    b"99999999999",
    b"ustar\x0000",
];

/// Limits so small that reading beyond them would show in time or memory.
const LIMITS: ArchiveLimits = ArchiveLimits { entries: 50, bytes: 256 << 10, ratio: 100 };

/// Returns the uncompressed tar, without the padding of the last record.
fn unpacked(packed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    bytes.truncate(end.next_multiple_of(BLOCK) + 2 * BLOCK);
    bytes
}

/// Reads an archive. If that succeeds, checks that all paths stay inside its root.
fn read(bytes: Vec<u8>, spool: &File) -> bool {
    spool.set_len(0).unwrap();
    let tree = read_tree(Cursor::new(bytes), spool.try_clone().unwrap(), &LIMITS);
    let Ok(tree) = tree.and_then(|tree| tree.check_archive_links().map(|()| tree)) else {
        return false;
    };
    for (path, _) in tree.paths() {
        assert!(path.as_str().parse::<crate::TreePath>().is_ok(), "{path}");
    }
    assert!(tree.len() as u64 <= LIMITS.entries);
    true
}

/// Corrects the checksums of all headers.
fn seal(bytes: &mut [u8]) {
    for block in bytes.chunks_exact_mut(BLOCK).filter(|block| block[257..].starts_with(b"ustar")) {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
}

#[test]
fn fuzzed_tars_stay_in_their_root() {
    let inputs: Vec<Vec<u8>> = PACKED.map(unpacked).into();
    let spool = tempfile::tempfile().unwrap();
    assert!(inputs.iter().all(|bytes| read(bytes.clone(), &spool)), "the corpus itself is good");
    let mut good = 0;
    fuzz(&Corpus { inputs, words: &WORDS, seed: 0x5eed_0001 }, |mut bytes, random| {
        // With wrong checksums, nothing after the first header would be read.
        if random.below(8) > 0 {
            seal(&mut bytes);
        }
        good += usize::from(read(bytes, &spool));
    });
    assert!(good > runs() / 10, "only {good} got through");
}

#[test]
fn fuzzed_gzip_is_read_or_refused() {
    let inputs: Vec<Vec<u8>> = PACKED.map(Vec::from).into();
    let spool = tempfile::tempfile().unwrap();
    let mut good = 0;
    fuzz(&Corpus { inputs, words: &WORDS, seed: 0x5eed_0003 }, |bytes, _| {
        good += usize::from(read(bytes, &spool));
    });
    assert!(good > runs() / 2_000, "only {good} got through");
}
