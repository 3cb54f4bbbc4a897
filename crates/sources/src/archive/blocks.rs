//! Tar headers in the ustar, GNU and PAX formats, parsed strictly.
//!
//! If two tar readers could interpret something differently, it is refused: contradicting sizes,
//! keys that change the meaning of names, sparse files.

use crate::error::{ErrorKind, Failure};
use crate::text;

/// The size of a tar block.
pub(super) const BLOCK: usize = 512;
/// The maximum size of a PAX header or a long name.
pub(super) const MAX_EXTENSION: u64 = 1 << 20;

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Hardlink,
    Symlink,
    Directory,
    Pax,
    GlobalPax,
    LongName,
    LongLink,
}

/// One header block.
#[derive(Debug, Clone)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) path: Vec<u8>,
    pub(super) link: Vec<u8>,
    pub(super) size: u64,
    pub(super) is_executable: bool,
}

/// The information in extension headers about the next entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Extension {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
}

pub(super) fn damaged(why: &str) -> Failure {
    Failure::fatal(ErrorKind::Integrity, format!("the tar is damaged: {why}"))
}

impl Header {
    /// Parses a header block that is not all zeros.
    pub(super) fn parse(block: &[u8; BLOCK]) -> Result<Self, Failure> {
        let stated = number(&block[148..156]).ok_or_else(|| damaged("a header has no checksum"))?;
        let spaces = 8 * u64::from(b' ');
        let bytes = block[..148].iter().chain(&block[156..]);
        if bytes.map(|byte| u64::from(*byte)).sum::<u64>() + spaces != stated {
            return Err(damaged("a header does not match its checksum"));
        }
        let is_ustar = &block[257..263] == b"ustar\0";
        let name = field(&block[..100]);
        // GNU uses the prefix field for other purposes.
        let prefix = if is_ustar { field(&block[345..500]) } else { b"" };
        let path = match prefix {
            b"" => name.to_vec(),
            prefix => [prefix, b"/", name].concat(),
        };
        let kind = match block[156] {
            b'0' | 0 => Kind::File,
            b'1' => Kind::Hardlink,
            b'2' => Kind::Symlink,
            b'5' => Kind::Directory,
            b'x' => Kind::Pax,
            b'g' => Kind::GlobalPax,
            b'L' => Kind::LongName,
            b'K' => Kind::LongLink,
            other => {
                let what = match other {
                    b'3' | b'4' => "a device",
                    b'6' => "a pipe",
                    b'S' => "a sparse file",
                    _ => "of a kind that source archives do not contain",
                };
                return Err(Failure::refused(format!("{} is {what}", text::quoted_bytes(&path))));
            }
        };
        let size = number(&block[124..136]).ok_or_else(|| damaged("a size is not a number"))?;
        let mode = number(&block[100..108]).ok_or_else(|| damaged("a mode is not a number"))?;
        let link = field(&block[157..257]).to_vec();
        Ok(Self { kind, path, link, size, is_executable: mode & 0o100 != 0 })
    }
}

impl Extension {
    /// Reads the records of a PAX header: a length, a space, key and value, a line feed.
    pub(super) fn add_pax(&mut self, mut data: &[u8], is_global: bool) -> Result<(), Failure> {
        let bad = || damaged("a PAX header is malformed");
        while !data.is_empty() {
            let space = data.iter().take(20).position(|byte| *byte == b' ').ok_or_else(bad)?;
            let length: usize = std::str::from_utf8(&data[..space])
                .ok()
                .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|digits| digits.parse().ok())
                .ok_or_else(bad)?;
            let record = data.get(space + 1..length).ok_or_else(bad)?;
            data = &data[length..];
            let record = record.strip_suffix(b"\n").ok_or_else(bad)?;
            let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(bad)?;
            let (key, value) = (&record[..equals], &record[equals + 1..]);
            match key {
                b"path" | b"linkpath" | b"size" if is_global => {
                    return Err(Failure::refused("a global PAX header renames or resizes entries"));
                }
                b"path" => self.path = Some(value.to_vec()),
                b"linkpath" => self.link = Some(value.to_vec()),
                b"size" => {
                    let digits = std::str::from_utf8(value).ok();
                    let digits = digits.filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
                    self.size = Some(digits.and_then(|d| d.parse().ok()).ok_or_else(bad)?);
                }
                b"hdrcharset" if value != b"ISO-IR 10646 2000 UTF-8" => {
                    return Err(Failure::refused("a PAX header says that names are not UTF-8"));
                }
                key if key.starts_with(b"GNU.sparse.") => {
                    return Err(Failure::refused("it contains a sparse file"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Applies extension headers to the header that they belong to.
    pub(super) fn apply(self, header: &mut Header) -> Result<(), Failure> {
        if let Some(size) = self.size {
            // A reader that does not support PAX would continue at another position
            // (CVE-2025-62518).
            if header.size != 0 && header.size != size {
                return Err(Failure::refused(
                    "a header and its PAX header contain different sizes",
                ));
            }
            header.size = size;
        }
        if let Some(path) = self.path {
            header.path = path;
        }
        if let Some(link) = self.link {
            header.link = link;
        }
        // Before ustar, a directory was a file whose name ends with a slash. This applies only to
        // complete names: a name that a PAX header replaces may be truncated after a slash.
        if header.kind == Kind::File && header.path.ends_with(b"/") {
            header.kind = Kind::Directory;
        }
        Ok(())
    }
}

/// Returns a text field, up to the first NUL.
pub(super) fn field(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Parses a number: octal digits between spaces and NULs, or GNU's binary form.
fn number(bytes: &[u8]) -> Option<u64> {
    if bytes[0] & 0x80 != 0 {
        let (head, tail) = bytes.split_at(bytes.len() - 8);
        // In an eight-byte field, the marker is in the first byte; no mode is that large.
        let (mark, high) = head.split_first()?;
        return (*mark == 0x80 && high.iter().all(|byte| *byte == 0))
            .then(|| tail.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
    }
    let is_space = |byte: &u8| matches!(byte, b' ' | 0);
    let start = bytes.iter().position(|byte| *byte != b' ').unwrap_or(bytes.len());
    let digits = &bytes[start..];
    let end = digits.iter().position(is_space).unwrap_or(digits.len());
    let (digits, rest) = digits.split_at(end);
    let is_octal = digits.iter().all(|byte| matches!(byte, b'0'..=b'7'));
    (is_octal && rest.iter().all(is_space))
        .then(|| digits.iter().fold(0, |sum, digit| sum << 3 | u64::from(digit - b'0')))
}
