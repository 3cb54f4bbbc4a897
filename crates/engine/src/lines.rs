//! Splits an engine's output into lines.
//!
//! Chunks end anywhere: docker cuts a long line every 32,768 bytes, even within a character, and
//! podman sends several lines at once. A line contains raw text with escape sequences; callers
//! sanitise it before printing.

/// The maximum length of a line, in bytes. The rest is counted and dropped.
pub const LINE_CAP: usize = 64 << 10;

/// One line of a build's output, without its line ending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The text. Invalid UTF-8 is replaced by U+FFFD.
    pub text: String,
    /// The number of bytes that were dropped because the line was longer than [`LINE_CAP`].
    pub dropped: u64,
}

/// Assembles lines from chunks. Holds at most one line of at most [`LINE_CAP`] bytes.
///
/// Text after a carriage return replaces the line, as on a terminal: only the last state of a
/// progress bar remains.
#[derive(Debug, Default)]
pub struct LineAssembler {
    held: Vec<u8>,
    dropped: u64,
    /// The last byte was a carriage return. Its meaning depends on the next byte.
    returned: bool,
}

impl LineAssembler {
    /// Takes a chunk, and passes each completed line to `emit`.
    pub fn push(&mut self, piece: &[u8], emit: &mut dyn FnMut(Line)) {
        let mut rest = piece;
        while !rest.is_empty() {
            let Some(end) = memchr::memchr2(b'\n', b'\r', rest) else {
                return self.hold(rest);
            };
            if end > 0 {
                self.hold(&rest[..end]);
            }
            if rest[end] == b'\n' {
                emit(self.take());
            } else {
                self.returned = true;
            }
            rest = &rest[end + 1..];
        }
    }

    /// Passes on the last line if it had no line ending.
    pub fn finish(&mut self, emit: &mut dyn FnMut(Line)) {
        if !self.held.is_empty() {
            emit(self.take());
        }
        self.returned = false;
    }

    fn hold(&mut self, text: &[u8]) {
        if std::mem::take(&mut self.returned) {
            self.held.clear();
            self.dropped = 0;
        }
        let fits = text.len().min(LINE_CAP - self.held.len());
        self.held.extend_from_slice(&text[..fits]);
        self.dropped += (text.len() - fits) as u64;
    }

    fn take(&mut self) -> Line {
        self.returned = false;
        let text = String::from_utf8_lossy(&self.held).into_owned();
        self.held.clear();
        Line { text, dropped: std::mem::take(&mut self.dropped) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<String> {
        let mut found = Vec::new();
        let mut assembler = LineAssembler::default();
        let mut emit = |line: Line| found.push(line.text);
        for piece in pieces {
            assembler.push(piece, &mut emit);
        }
        assembler.finish(&mut emit);
        found
    }

    #[test]
    fn pieces_become_lines() {
        assert_eq!(lines(&[b"one\ntw", b"o\n", b"\nthr", b"ee"]), ["one", "two", "", "three"]);
        assert_eq!(lines(&[b"a\r\nb\r", b"\nc\n"]), ["a", "b", "c"]);
        assert_eq!(lines(&[b" 10%\r 50%\r", b"100%\n", b"next\n"]), ["100%", "next"]);
        assert_eq!(lines(&[b"gr\xc3", b"\xbcn\n"]), ["gr\u{fc}n"]);
        assert_eq!(lines(&[b"bad \xff\xfe end\n"]), ["bad \u{fffd}\u{fffd} end"]);
        assert_eq!(lines(&[b"\x1b[2Jkept raw\0\n"]), ["\u{1b}[2Jkept raw\0"]);
        assert_eq!(lines(&[]), Vec::<String>::new());
    }

    #[test]
    fn a_line_without_end_is_cut_and_counted() {
        let mut found = Vec::new();
        let mut assembler = LineAssembler::default();
        for _ in 0..100 {
            assembler.push(&[b'x'; 10_000], &mut |line| found.push(line));
        }
        assert!(assembler.held.capacity() <= 2 * LINE_CAP);
        assembler.push(b"\nshort\n", &mut |line| found.push(line));
        assert_eq!(found[0].text.len(), LINE_CAP);
        assert_eq!(found[0].dropped, 1_000_000 - LINE_CAP as u64);
        assert_eq!(found[1], Line { text: "short".to_owned(), dropped: 0 });
    }

    proptest! {
        #[test]
        fn where_pieces_end_makes_no_difference(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..400),
            cuts in proptest::collection::vec(0usize..400, 0..20),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(lines(&pieces), lines(&[&bytes]));
        }
    }
}
