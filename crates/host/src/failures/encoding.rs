//! Reads a log as UTF-8 text: a log in UTF-16 is decoded, and data that are no text are refused.
//!
//! Windows PowerShell 5 writes UTF-16 with `>`.

use std::io::{self, Cursor, Read};

/// The number of bytes that decide what a log is.
const BEGINNING: u64 = 4 << 10;
/// The number of bytes of UTF-16 that are decoded at a time.
const PART: usize = 64 << 10;

/// The first bytes of compressed files, the name of their format, and the program that prints the
/// text in them.
const COMPRESSED: [(&[u8], &str, &str); 5] = [
    (b"\x1f\x8b", "gzip", "zcat"),
    (b"\xfd7zXZ\0", "xz", "xzcat"),
    (b"\x28\xb5\x2f\xfd", "zstd", "zstdcat"),
    (b"BZh", "bzip2", "bzcat"),
    (b"PK\x03\x04", "zip", "unzip -p"),
];

/// What a log is, if it is not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotText {
    /// It is compressed.
    Compressed {
        /// The name of the format.
        format: &'static str,
        /// The command that prints the text in a file.
        program: &'static str,
    },
    /// It is other data.
    Binary,
}

/// A log as UTF-8 text, which is read with constant memory.
#[derive(Debug)]
pub enum LogText<R> {
    /// A log that is not in UTF-16.
    Plain(io::Chain<Cursor<Vec<u8>>, R>),
    /// A log in UTF-16.
    Utf16(Utf16<io::Chain<Cursor<Vec<u8>>, R>>),
}

impl<R: Read> LogText<R> {
    /// Reads the beginning of a log.
    ///
    /// # Errors
    /// The outer error: the log cannot be read. The inner one: it is not text.
    pub fn new(mut log: R) -> io::Result<Result<Self, NotText>> {
        let mut beginning = Vec::new();
        log.by_ref().take(BEGINNING).read_to_end(&mut beginning)?;
        let unit = match beginning[..] {
            [0xff, 0xfe, ..] => Some(u16::from_le_bytes as fn([u8; 2]) -> u16),
            [0xfe, 0xff, ..] => Some(u16::from_be_bytes as fn([u8; 2]) -> u16),
            _ => None,
        };
        if unit.is_none()
            && let Some(other) = not_text(&beginning)
        {
            return Ok(Err(other));
        }
        let mut beginning = Cursor::new(beginning);
        beginning.set_position(if unit.is_some() { 2 } else { 0 });
        let whole = beginning.chain(log);
        Ok(Ok(match unit {
            None => Self::Plain(whole),
            Some(unit) => Self::Utf16(Utf16::new(whole, unit)),
        }))
    }
}

impl<R: Read> Read for LogText<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(log) => log.read(buffer),
            Self::Utf16(log) => log.read(buffer),
        }
    }
}

/// Returns what data are that begin with `beginning`, if they are not text.
fn not_text(beginning: &[u8]) -> Option<NotText> {
    let compressed = COMPRESSED.iter().find(|(start, ..)| beginning.starts_with(start));
    if let Some((_, format, program)) = compressed {
        return Some(NotText::Compressed { format, program });
    }
    // A crash of the machine can leave zeros before the text of a log.
    let start = beginning.iter().position(|byte| *byte != 0)?;
    let text = &beginning[start..];
    let is_control = |byte: &&u8| matches!(byte, 0..=6 | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f);
    let controls = text.iter().filter(is_control).count();
    (controls * 20 > text.len()).then_some(NotText::Binary)
}

/// Decodes UTF-16.
#[derive(Debug)]
pub struct Utf16<R> {
    log: R,
    unit: fn([u8; 2]) -> u16,
    /// The bytes that were read and not decoded.
    rest: Vec<u8>,
    /// The decoded text.
    text: Cursor<String>,
}

impl<R: Read> Utf16<R> {
    fn new(log: R, unit: fn([u8; 2]) -> u16) -> Self {
        Self { log, unit, rest: Vec::new(), text: Cursor::default() }
    }

    /// Decodes the next part, and returns whether the log has ended.
    fn decode(&mut self) -> io::Result<bool> {
        let read = self.log.by_ref().take(PART as u64).read_to_end(&mut self.rest)?;
        let mut units: Vec<u16> =
            self.rest.chunks_exact(2).map(|pair| (self.unit)([pair[0], pair[1]])).collect();
        // The second half of a character may be in the next part.
        let is_half = units.last().is_some_and(|unit| matches!(unit, 0xd800..=0xdbff));
        if is_half && read > 0 {
            units.pop();
        }
        self.rest.drain(..units.len() * 2);
        let decoded = char::decode_utf16(units);
        let text = decoded.map(|one| one.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
        self.text = Cursor::new(text);
        Ok(read == 0)
    }
}

impl<R: Read> Read for Utf16<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.text.read(buffer)?;
            if read > 0 || buffer.is_empty() || self.decode()? && self.text.get_ref().is_empty() {
                return Ok(read);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(log: impl Read) -> Result<String, NotText> {
        let mut text = String::new();
        LogText::new(log).unwrap()?.read_to_string(&mut text).unwrap();
        Ok(text)
    }

    /// Returns at most `most` bytes at a time.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = buffer.len().min(self.1);
            self.0.read(&mut buffer[..most])
        }
    }

    #[test]
    fn utf_16_is_decoded_in_both_orders_and_in_parts() {
        // More than one part, with characters of two units on every boundary.
        for before in ["", "a"] {
            let wanted = format!("{before}{}\r\nend ä€", "😀".repeat(PART));
            let units: Vec<u16> = std::iter::once(0xfeff).chain(wanted.encode_utf16()).collect();
            let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
            let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
            for log in [little, big] {
                assert_eq!(text(&log[..]).as_ref(), Ok(&wanted));
                assert_eq!(text(Slow(&log, 1001)).as_ref(), Ok(&wanted));
            }
        }
        assert_eq!(text(&b"\xff\xfea\0\x3d\xd8"[..]).unwrap(), "a\u{fffd}", "half a character");
        assert_eq!(text(&b"\xff\xfe"[..]).unwrap(), "");
    }

    #[test]
    fn other_text_is_not_changed() {
        let long = "a line\n".repeat(10_000);
        let crash = format!("{}Linux version", "\0".repeat(3000));
        for log in ["", "short", "\u{feff}a", "\x1b[31mred\x1b[0m\t\x08\x07\x0c", &long, &crash] {
            assert_eq!(text(log.as_bytes()).unwrap(), log);
        }
        let latin = LogText::new(&b"Fehler: ung\xfcltig\n"[..]).unwrap();
        assert!(latin.is_ok(), "text in another encoding is text");
        assert!(text(&[0; 8192][..]).is_ok());
    }

    #[test]
    fn compressed_and_binary_data_are_no_text() {
        for (start, format, program) in COMPRESSED {
            let log = [start, b"some text"].concat();
            assert_eq!(text(&log[..]), Err(NotText::Compressed { format, program }));
        }
        let every: Vec<u8> = (1..=255).collect();
        for log in [&b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0"[..], &every, b"a\0b\0c\0"] {
            assert_eq!(text(log), Err(NotText::Binary));
        }
    }
}
