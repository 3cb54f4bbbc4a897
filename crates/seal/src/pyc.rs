//! Python bytecode: the source of a file, and its header.
//!
//! The header since Python 3.7 (PEP 552): a magic number of 4 bytes, 4 bytes of flags, then the
//! time and size of the source if the flags are 0, else a hash of the source. If time and size do
//! not match the source, Python recompiles it at every start.

use crate::path::EntryPath;

/// The size of the header, in bytes.
pub(crate) const HEADER: usize = 16;
/// The position of the time in the header.
pub(crate) const TIME: std::ops::Range<usize> = 8..12;

/// The magic number of the first Python with this header (3.7 alpha; PEP 552).
const FIRST_MAGIC: u16 = 3390;
/// The smallest magic number of Python 2. Python 3 has much smaller ones.
const PYTHON_2: u16 = 20_000;

/// The content of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Header {
    /// Valid for a source with this time and size, both modulo 2^32.
    Timed { mtime: u32, size: u32 },
    /// Valid according to a hash of the source, or without a check.
    Hashed,
    /// Not bytecode of Python 3.7 or later.
    Other,
}

/// Parses the header of a bytecode file.
pub(crate) fn header(bytes: &[u8; HEADER]) -> Header {
    let word =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let magic = u16::from_le_bytes([bytes[0], bytes[1]]);
    match (&bytes[2..4] == b"\r\n" && (FIRST_MAGIC..PYTHON_2).contains(&magic), word(4)) {
        (false, _) => Header::Other,
        (true, 0) => Header::Timed { mtime: word(8), size: word(12) },
        (true, _) => Header::Hashed,
    }
}

/// Returns the source of a bytecode file: `x.py` for `__pycache__/x.cpython-311.pyc` (PEP 3147,
/// with the `.opt-1` of PEP 488) and for `x.pyc`. Returns `None` for any other path.
pub(crate) fn source_of(path: &EntryPath) -> Option<EntryPath> {
    let name = path.name().strip_suffix(b".pyc")?;
    let source = |module: &[u8]| [module, b".py"].concat();
    let Some(cache) = path.parent().filter(|parent| parent.name() == b"__pycache__") else {
        return Some(path.sibling(&source(name)));
    };
    let (head, last) = split_last(name)?;
    let module = if last.starts_with(b"opt-") { split_last(head)?.0 } else { head };
    Some(cache.sibling(&source(module)))
}

/// Splits a name at its last dot.
fn split_last(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let dot = name.iter().rposition(|byte| *byte == b'.')?;
    Some((&name[..dot], &name[dot + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_found() {
        let source = |path: &str| {
            let path = EntryPath::parse(path.as_bytes()).unwrap();
            source_of(&path).map(|source| source.to_string())
        };
        assert_eq!(source("a/__pycache__/x.cpython-311.pyc").as_deref(), Some("a/x.py"));
        assert_eq!(source("__pycache__/x.cpython-311.opt-2.pyc").as_deref(), Some("x.py"));
        assert_eq!(source("a/__pycache__/x.y.cpython-313.pyc").as_deref(), Some("a/x.y.py"));
        assert_eq!(source("a/x.pyc").as_deref(), Some("a/x.py"));
        assert_eq!(source("a/x.py"), None);
        assert_eq!(source("a/__pycache__/x.pyc"), None);
    }

    #[test]
    fn headers_are_told_apart() {
        let of = |magic: u16, flags: u8| {
            let mut bytes = [0; HEADER];
            bytes[..2].copy_from_slice(&magic.to_le_bytes());
            bytes[2..4].copy_from_slice(b"\r\n");
            bytes[4] = flags;
            bytes[8..].copy_from_slice(&[1, 0, 0, 0, 2, 0, 0, 0]);
            header(&bytes)
        };
        assert_eq!(of(3495, 0), Header::Timed { mtime: 1, size: 2 });
        assert_eq!(of(3495, 1), Header::Hashed);
        assert_eq!(of(3495, 3), Header::Hashed);
        assert_eq!(of(3379, 0), Header::Other);
        assert_eq!(of(62211, 0), Header::Other);
        assert_eq!(header(&[0; HEADER]), Header::Other);
    }
}
