//! Fixtures, and parts of files that are built by hand.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpu_code::{CodeObject, Owner, Spool, scan};
use testkit::{peak_memory, reset_peak_memory};

/// The maximum amount of memory that a damaged file may take, in bytes.
const MOST_MEMORY: u64 = 150 << 20;

/// A damaged file: what is damaged, its bytes, and a part of the error message.
pub(crate) type Case = (&'static str, Vec<u8>, &'static str);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

pub(crate) fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap()
}

/// The names of all fixtures that contain or could contain code.
pub(crate) fn names() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let ends = [".co", ".hipfb", ".so"];
    let mut names: Vec<String> =
        names.filter(|name| ends.iter().any(|end| name.ends_with(end))).collect();
    names.sort();
    names
}

pub(crate) fn objects(path: &str, bytes: &[u8]) -> Result<Vec<CodeObject>, String> {
    scan(path, &Spool::from(bytes.to_vec())).map_err(|error| error.to_string())
}

/// Objects as text: bundle, owner, offset and size; compressed ones have a `z`.
pub(crate) fn listing(objects: &[CodeObject]) -> String {
    let mut text = String::new();
    for CodeObject { bundle, offset, size, owner, is_compressed } in objects {
        let bundle = bundle.map_or("-".to_owned(), |bundle| bundle.to_string());
        let owner = match owner {
            Owner::Host => "host".to_owned(),
            Owner::Gpu(target) => target.to_string(),
            Owner::Data(target) => format!("data:{target}"),
            Owner::Other(id) => format!("other:{id}"),
        };
        let compressed = if *is_compressed { " z" } else { "" };
        writeln!(text, "{bundle} {owner} {offset} {size}{compressed}").unwrap();
    }
    text
}

pub(crate) fn list(path: &str, bytes: &[u8]) -> String {
    objects(path, bytes).map_or_else(|error| error, |objects| listing(&objects))
}

/// Returns a lock for tests that measure the memory of the process.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks that each file is refused with its message, and that this takes little memory. Tests hold
/// the lock [`alone`] while they call it.
pub(crate) fn check_refused(cases: &[Case]) {
    let before = reset_peak_memory();
    for (what, bytes, wanted) in cases {
        let found = objects("x", bytes);
        assert!(found.as_ref().is_err_and(|why| why.contains(wanted)), "{what}: {found:?}");
    }
    let grown = peak_memory().saturating_sub(before);
    assert!(grown < MOST_MEMORY, "the peak memory grew by {grown} bytes");
}

/// Returns `bytes` with the bytes at a position replaced.
pub(crate) fn with(mut bytes: Vec<u8>, at: usize, new: &[u8]) -> Vec<u8> {
    bytes[at..at + new.len()].copy_from_slice(new);
    bytes
}

/// Returns `bytes` with a number at a position.
pub(crate) fn with_u64(bytes: Vec<u8>, at: usize, number: u64) -> Vec<u8> {
    with(bytes, at, &number.to_le_bytes())
}

/// A plain bundle of entries with these IDs and contents, each aligned to 64 bytes.
pub(crate) fn bundle(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let head = 32 + entries.iter().map(|(id, _)| 24 + id.len()).sum::<usize>();
    let mut bytes = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    bytes.extend(number(entries.len()));
    let mut at = head.next_multiple_of(64);
    for (id, content) in entries {
        for value in [at, content.len(), id.len()] {
            bytes.extend(number(value));
        }
        bytes.extend(id.as_bytes());
        at = (at + content.len()).next_multiple_of(64);
    }
    for (_, content) in entries {
        bytes.resize(bytes.len().next_multiple_of(64), 0);
        bytes.extend(*content);
    }
    bytes
}

fn number(value: usize) -> [u8; 8] {
    u64::try_from(value).unwrap().to_le_bytes()
}

/// A compressed bundle of version 3 with the given sizes. If `total` is `None`, the real total is
/// used.
pub(crate) fn ccob(method: u16, total: Option<u64>, size: u64, data: &[u8]) -> Vec<u8> {
    let total = total.unwrap_or(32 + data.len() as u64);
    let mut bytes = b"CCOB\x03\0".to_vec();
    bytes.extend(method.to_le_bytes());
    bytes.extend(total.to_le_bytes());
    bytes.extend(size.to_le_bytes());
    bytes.extend([0; 8]);
    bytes.extend(data);
    bytes
}

pub(crate) fn zlib(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A zstd frame: `start`, and then pieces of 128 KiB of zeros, each compressed to 4 bytes. The
/// window has 2^`window` bytes.
pub(crate) fn zstd_zeros(start: &[u8], pieces: usize, window: u8) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, (window - 10) << 3];
    let mut block = |is_last: bool, kind: u32, size: usize, content: &[u8]| {
        let head = u32::from(is_last) | kind << 1 | u32::try_from(size).unwrap() << 3;
        frame.extend(&head.to_le_bytes()[..3]);
        frame.extend(content);
    };
    block(pieces == 0, 0, start.len(), start);
    for piece in 1..=pieces {
        block(piece == pieces, 1, 128 << 10, &[0]);
    }
    frame
}

/// The position of the header of the section `.hip_fatbin` in an ELF file.
pub(crate) fn fatbin_header(elf: &[u8]) -> usize {
    let number = |at: usize, length: usize| {
        elf[at..at + length].iter().rev().fold(0, |all, byte| all << 8 | usize::from(*byte))
    };
    let (table, count, names) = (number(40, 8), number(60, 2), number(62, 2));
    let names = number(table + 64 * names + 24, 8);
    let mut headers = (0..count).map(|section| table + 64 * section);
    headers.find(|header| elf[names + number(*header, 4)..].starts_with(b".hip_fatbin\0")).unwrap()
}
