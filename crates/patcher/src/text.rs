//! A file as patterns see it: without a byte order mark, and with `\n` at the
//! end of every line.
//!
//! Offsets are translated back, so an edit changes only its own bytes. Line endings (also mixed
//! ones), the byte order mark and a missing final newline stay as they are.

use std::borrow::Cow;

/// The byte order mark of UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// The normalised bytes of a file, with a mapping to the original ones.
#[derive(Debug)]
pub(crate) struct Text<'f> {
    bytes: Cow<'f, [u8]>,
    mark: usize,
    /// The offset, in `bytes`, of each line feed whose preceding carriage return was removed.
    /// Ascending.
    returns: Vec<usize>,
}

impl<'f> Text<'f> {
    /// Normalises the bytes of a file.
    pub(crate) fn new(file: &'f [u8]) -> Self {
        let body = file.strip_prefix(MARK).unwrap_or(file);
        let mark = file.len() - body.len();
        if !body.windows(2).any(|pair| pair == b"\r\n") {
            return Self { bytes: Cow::Borrowed(body), mark, returns: Vec::new() };
        }
        let mut bytes = Vec::with_capacity(body.len());
        let mut returns = Vec::new();
        for (at, byte) in body.iter().enumerate() {
            match byte {
                b'\r' if body.get(at + 1) == Some(&b'\n') => returns.push(bytes.len()),
                _ => bytes.push(*byte),
            }
        }
        Self { bytes: Cow::Owned(bytes), mark, returns }
    }

    /// Returns the normalised bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the offset in the file of the normalised offset `at`.
    pub(crate) fn in_file(&self, at: usize) -> usize {
        self.mark + at + self.returns.partition_point(|newline| *newline < at)
    }

    /// Returns `text` with the line endings that are used around `at`.
    pub(crate) fn with_line_endings(&self, text: &str, at: usize) -> String {
        let newline_before = self.bytes[..at].iter().rposition(|byte| *byte == b'\n');
        let newline_behind =
            || self.bytes[at..].iter().position(|byte| *byte == b'\n').map(|n| at + n);
        let has_return = newline_before
            .or_else(newline_behind)
            .is_some_and(|newline| self.returns.binary_search(&newline).is_ok());
        if has_return { text.replace('\n', "\r\n") } else { text.to_owned() }
    }

    /// Returns the number of the line that contains `at`, from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        1 + self.bytes[..at].iter().filter(|byte| **byte == b'\n').count()
    }

    /// Returns the start of the line that contains `at`.
    pub(crate) fn line_start(&self, at: usize) -> usize {
        self.bytes[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1)
    }

    /// Returns the start of the line after the one that contains `at`, if there is a newline.
    pub(crate) fn next_line_start(&self, at: usize) -> Option<usize> {
        self.bytes[at..].iter().position(|byte| *byte == b'\n').map(|newline| at + newline + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_lead_back_to_the_file() {
        let file = b"\xef\xbb\xbfone\r\ntwo\nthree\r\n";
        let text = Text::new(file);
        assert_eq!(text.bytes(), b"one\ntwo\nthree\n");
        for (at, in_file) in [(0, 3), (3, 6), (4, 8), (7, 11), (8, 12), (13, 17), (14, 19)] {
            assert_eq!(text.in_file(at), in_file, "{at}");
        }
        assert_eq!((text.line(0), text.line(3), text.line(4), text.line(14)), (1, 1, 2, 4));
        assert_eq!(
            (text.line_start(5), text.next_line_start(5), text.next_line_start(14)),
            (4, Some(8), None)
        );
    }

    #[test]
    fn inserted_lines_end_as_their_neighbours_do() {
        let text = Text::new(b"one\r\ntwo\nthree");
        assert_eq!(text.with_line_endings("x\n", 0), "x\r\n");
        assert_eq!(text.with_line_endings("x\n", 5), "x\r\n");
        assert_eq!(text.with_line_endings("x\n", 9), "x\n");
        assert_eq!(Text::new(b"").with_line_endings("x\n", 0), "x\n");
    }

    #[test]
    fn lone_carriage_returns_are_text() {
        let text = Text::new(b"a\rb\r\r\nc");
        assert_eq!(text.bytes(), b"a\rb\r\nc");
        assert_eq!(text.in_file(5), 6);
    }

    #[test]
    fn a_byte_order_mark_and_line_ends_are_kept_apart() {
        let text = Text::new(b"\xef\xbb\xbf");
        assert_eq!((text.bytes(), text.in_file(0)), (b"".as_slice(), 3));
        // Only the first mark is one.
        let text = Text::new(b"\xef\xbb\xbf\xef\xbb\xbfa");
        assert_eq!(text.bytes(), b"\xef\xbb\xbfa");
        // A carriage return at the end of the file ends no line.
        let text = Text::new(b"a\r\nb\r");
        assert_eq!(text.bytes(), b"a\nb\r");
        assert_eq!((text.in_file(1), text.in_file(2), text.in_file(4)), (1, 3, 5));
    }

    #[test]
    fn lines_start_after_a_newline() {
        let text = Text::new(b"\na\n\nb");
        let starts: Vec<usize> = (0..=5).map(|at| text.line_start(at)).collect();
        assert_eq!(starts, [0, 1, 1, 3, 4, 4]);
        let next: Vec<Option<usize>> = (0..=5).map(|at| text.next_line_start(at)).collect();
        assert_eq!(next, [Some(1), Some(3), Some(3), Some(4), None, None]);
        let lines: Vec<usize> = (0..=5).map(|at| text.line(at)).collect();
        assert_eq!(lines, [1, 2, 2, 3, 4, 4]);
    }

    #[test]
    fn the_line_before_decides_how_an_inserted_line_ends() {
        let text = Text::new(b"one\ntwo\r\nthree");
        assert_eq!(text.with_line_endings("x\ny\n", 0), "x\ny\n", "the first line has none before");
        assert_eq!(text.with_line_endings("x\n", 4), "x\n");
        assert_eq!(text.with_line_endings("x\ny\n", 8), "x\r\ny\r\n");
        assert_eq!(text.with_line_endings("no line", 8), "no line");
    }
}
