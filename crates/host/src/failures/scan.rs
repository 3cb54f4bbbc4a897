//! Reads a log once, with constant memory, whatever the length of its lines.
//!
//! [`Texts`](super::texts::Texts) finds the fixed texts of all patterns in one pass. A line is examined only around
//! a hit, up to [`LINE_CUT`] bytes on each side, so one huge line costs no more than many short
//! lines.

use std::io::{self, Read};
use std::ops::Range;

use super::advice::fitting;
use super::assess::{Known, Told};
use super::judge::{Judge, Quote, Seen, Verdict};
use super::texts::TextHit;
use super::wrapped::Kept;
use super::{Diagnoses, Diagnosis, Expression, Failures, LogLine, Speech};

/// The number of bytes of a log that are in memory at a time.
const WINDOW: usize = 1 << 20;
/// The number of bytes of a line that are matched on each side of a fixed text, and that are kept
/// from one window to the next if a line is longer than a window.
const LINE_CUT: usize = 8 << 10;
/// The number of bytes of a line that are shown.
const SHOWN: usize = 240;
/// The number of bytes of a stated error that are shown.
const QUOTED: usize = 600;
/// The number of lines after an error that may continue it. While a line is searched, this number of
/// whole lines after it is in memory, except at the end of the log and if lines are very long.
const AHEAD: usize = 12;
/// The number of lines that continue an error, unless it ends with a colon.
const CONTINUED: usize = 2;

impl Failures {
    /// Reads a log to its end with constant memory, and returns the failures in it.
    ///
    /// # Errors
    /// Fails if the log cannot be read.
    pub fn diagnose(&self, log: impl Read) -> io::Result<Diagnoses<'_>> {
        let mut kept = Kept::new();
        let (mut told, mut subjects) = self.search(log, |part| kept.add(part))?;
        if kept.keep_failed_device() {
            let (lines, bytes) = (told.lines, told.bytes);
            (told, subjects) = self.search(kept.end().0, |_| {})?;
            (told.lines, told.bytes) = (lines, bytes);
        }
        let joined = if told.has_failure() { None } else { kept.joined() };
        let joined = joined.filter(|_| told.possible.is_empty());
        if let Some(joined) = &joined {
            let (mut unwrapped, seen) = self.search(&joined.text[..], |_| {})?;
            if unwrapped.has_failure() || told.found.is_empty() {
                (unwrapped.lines, unwrapped.bytes) = (told.lines, told.bytes);
                (told, subjects) = (unwrapped, seen);
            }
        }
        if !told.is_certain() {
            let (text, before) = joined.as_ref().map_or_else(|| kept.end(), |one| (&one.text, 0));
            let known = KnownOf { failures: self, found: &told.found, subjects: &subjects };
            match self.assessor.assess(text, &known) {
                Told::Nothing => {}
                Told::Line(mut line) => {
                    line.number += before;
                    told.quote(line);
                }
                Told::Assessed(mut assessed) => {
                    assessed.lines.iter_mut().for_each(|line| line.number += before);
                    told.assessment = Some(*assessed);
                }
            }
        }
        if let Some(joined) = joined {
            joined.renumber(&mut told);
        }
        Ok(told)
    }

    /// Returns what a line says of the failures that it names.
    fn speech(&self, line: &[u8]) -> Speech {
        let is_one = |of: &Option<Expression>| of.as_ref().is_some_and(|one| one.is_match(line));
        if is_one(&self.mentions) {
            Speech::Mention
        } else if is_one(&self.unknown_names) {
            Speech::UnknownName
        } else {
            Speech::Report
        }
    }

    /// Searches a log, and calls `keep` for each part of it, without colours.
    fn search(
        &self,
        mut log: impl Read,
        mut keep: impl FnMut(&[u8]),
    ) -> io::Result<(Diagnoses<'_>, Vec<Seen>)> {
        let mut scan = Scan::new(self);
        let mut window = vec![0; WINDOW];
        let mut colours = Colours::Outside;
        // The window has `filled` bytes, of which the first `searched` were searched before.
        let (mut filled, mut searched, mut bytes) = (0, 0, 0);
        loop {
            let read = match log.read(&mut window[filled..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            bytes += read as u64;
            let length = colours.remove(&mut window[filled..filled + read]);
            keep(&window[filled..filled + length]);
            filled += length;
            // Only whole lines are searched, except for the last line and for lines longer than the
            // window.
            let line_feed = |ahead| last_line_feed(&window[searched..filled], ahead);
            let is_last = read == 0 || filled == WINDOW;
            let newline = match line_feed(if read == 0 { 0 } else { AHEAD }) {
                None if is_last => line_feed(0),
                found => found,
            };
            let whole = match newline {
                Some(newline) => searched + newline + 1,
                None if read == 0 => filled,
                None if filled == WINDOW => filled - LINE_CUT,
                None => continue,
            };
            scan.search(&window[..filled], searched..whole);
            if read == 0 {
                // The text after the last line feed.
                scan.search(&window[..filled], whole..filled);
                break;
            }
            let kept = if newline.is_some() { whole } else { whole - LINE_CUT };
            window.copy_within(kept..filled, 0);
            (filled, searched) = (filled - kept, whole - kept);
        }
        let lines = scan.lines + u64::from(scan.is_in_line);
        let Verdict { found, possible, errors, subjects } = scan.judge.finish();
        Ok((Diagnoses { found, possible, errors, assessment: None, lines, bytes }, subjects))
    }
}

/// What is known about a log.
struct KnownOf<'f> {
    failures: &'f Failures,
    found: &'f [Diagnosis<'f>],
    subjects: &'f [Seen],
}

impl Known for KnownOf<'_> {
    fn has_failure(&self) -> bool {
        self.found.iter().any(|one| !one.failure.is_harmless)
    }

    fn is_excluded(&self, line: &[u8]) -> bool {
        let Failures { mentions, patterns, texts, patterns_of, .. } = self.failures;
        if mentions.as_ref().is_some_and(|one| one.is_match(line)) {
            return true;
        }
        let is_quote = |one: &LogLine| {
            let part = one.text.trim_matches('…').as_bytes();
            !part.is_empty() && memchr::memmem::find(line, part).is_some()
        };
        if self.found.iter().flat_map(|one| &one.lines).any(is_quote) {
            return true;
        }
        let belongs = |pattern: &usize| {
            self.found.iter().any(|one| one.failure.proof.lines.contains(pattern))
        };
        let is_match = |pattern: &usize| {
            patterns[*pattern].expression.as_ref().is_none_or(|one| one.is_match(line))
        };
        let mut is_known = false;
        texts.find(line, &(0..line.len()), |hit| {
            let mut all = patterns_of[hit.text].iter();
            is_known |= all.any(|pattern| belongs(pattern) && is_match(pattern));
        });
        is_known
    }

    fn unknown_name(&self, line: &[u8]) -> Option<usize> {
        let regex = self.failures.unknown_names.as_ref().and_then(Expression::regex);
        regex.and_then(|one| one.find(line)).map(|found| found.start())
    }

    fn is_follow_up(&self, line: &[u8]) -> bool {
        self.failures.follow_ups.as_ref().is_some_and(|one| one.is_match(line))
    }

    fn may_be_about(&self, subject: usize) -> bool {
        self.subjects[subject].may_be(&self.failures.subjects[subject])
    }

    fn fitting(&self, text: &str) -> Option<String> {
        fitting(text, &self.failures.subjects, self.subjects)
    }
}

/// Returns the position of the line feed that has `ahead` others after it.
fn last_line_feed(text: &[u8], ahead: usize) -> Option<usize> {
    memchr::memrchr_iter(b'\n', text).nth(ahead)
}

/// The state of a search.
struct Scan<'f> {
    failures: &'f Failures,
    judge: Judge<'f>,
    /// The number of line feeds before the current range.
    lines: u64,
    /// Whether the last byte was not a line feed.
    is_in_line: bool,
    /// The position up to which the line feeds of the current range are counted.
    counted: usize,
    /// The line of the last hit, cut to [`LINE_CUT`] bytes on each side of it.
    line: Range<usize>,
    /// What that line says of failures, once this is known.
    speech: Option<Speech>,
    /// For each pattern, the position in the current range before which it need not be matched
    /// again.
    matched_to: Vec<usize>,
}

impl<'f> Scan<'f> {
    fn new(failures: &'f Failures) -> Self {
        Self {
            failures,
            judge: Judge::new(failures),
            lines: 0,
            is_in_line: false,
            counted: 0,
            line: 0..0,
            speech: None,
            matched_to: vec![0; failures.patterns.len()],
        }
    }

    /// Searches for fixed texts that start in `range` of `text`.
    fn search(&mut self, text: &[u8], range: Range<usize>) {
        let Some(last) = range.end.checked_sub(1).filter(|_| !range.is_empty()) else { return };
        self.matched_to.fill(0);
        self.counted = range.start;
        self.line = range.start..range.start;
        self.failures.texts.find(text, &range, |hit| self.take(hit, text));
        self.lines += count_lines(&text[self.counted.min(range.end)..range.end]);
        self.is_in_line = text[last] != b'\n';
    }

    /// Matches the patterns of a fixed text that was found in `text`.
    fn take(&mut self, hit: TextHit, text: &[u8]) {
        let failures = self.failures;
        let at = hit.start;
        // Texts of one line are not found in the order of their starts.
        if at >= self.counted {
            self.lines += count_lines(&text[self.counted..at]);
            self.counted = at;
        }
        let number = self.lines + 1 - count_lines(&text[at..self.counted.max(at)]);
        for pattern in &failures.patterns_of[hit.text] {
            if self.judge.has(*pattern, number) {
                continue;
            }
            if !self.line.contains(&at) {
                self.line = around(text, at);
                self.speech = None;
            }
            if self.matches(*pattern, text, at) {
                let line = &text[self.line.clone()];
                let place = at - self.line.start;
                let speech = || *self.speech.get_or_insert_with(|| failures.speech(line));
                let append = |shown: &mut String| append_shown(shown, line, place, SHOWN);
                let quote = || Quote {
                    text: quoted(text, &self.line, place),
                    is_follow_up: failures
                        .follow_ups
                        .as_ref()
                        .is_some_and(|one| one.is_match(line)),
                };
                self.judge.take(*pattern, number, speech, append, quote);
            }
        }
    }

    /// Returns whether a pattern matches in the line with a hit at `at`.
    fn matches(&mut self, pattern: usize, text: &[u8], at: usize) -> bool {
        let Some(regex) = &self.failures.patterns[pattern].expression else { return true };
        // A cut line is matched again once less than half of `LINE_CUT` is left after the hit.
        if at < self.matched_to[pattern] {
            return false;
        }
        let line = &self.line;
        let is_found = regex.is_match(&text[line.clone()]);
        let is_cut = line.end - at >= LINE_CUT;
        self.matched_to[pattern] = if is_cut { line.end - LINE_CUT / 2 } else { line.end };
        is_found
    }
}

/// Returns the line around `at`, cut to [`LINE_CUT`] bytes on each side. A carriage return ends a
/// line too.
fn around(text: &[u8], at: usize) -> Range<usize> {
    let (from, to) = (at.saturating_sub(LINE_CUT), text.len().min(at + LINE_CUT));
    let start = memchr::memrchr2(b'\n', b'\r', &text[from..at]).map_or(from, |end| from + end + 1);
    let end = memchr::memchr2(b'\n', b'\r', &text[at..to]).map_or(to, |length| at + length);
    start..end
}

fn count_lines(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', text).count() as u64
}

/// The position in an escape sequence for colours, `ESC [ … letter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Colours {
    Outside,
    /// After the escape character.
    Escape,
    /// After `ESC [`.
    Sequence,
}

impl Colours {
    /// Removes the sequences from `text`, and returns the number of bytes that are left.
    fn remove(&mut self, text: &mut [u8]) -> usize {
        let (mut read, mut written) = (0, 0);
        while read < text.len() {
            match self {
                Self::Outside => {
                    let length = memchr::memchr(0x1b, &text[read..]);
                    let end = length.map_or(text.len(), |length| read + length);
                    if read > written {
                        text.copy_within(read..end, written);
                    }
                    written += end - read;
                    read = end + 1;
                    if length.is_some() {
                        *self = Self::Escape;
                    }
                }
                Self::Escape if text[read] == b'[' => {
                    read += 1;
                    *self = Self::Sequence;
                }
                Self::Escape => *self = Self::Outside,
                Self::Sequence => {
                    let byte = text[read];
                    // A line feed never ends a sequence.
                    let is_parameter = matches!(byte, 0x20..=0x3f);
                    read += usize::from(is_parameter || (0x40..=0x7e).contains(&byte));
                    if !is_parameter {
                        *self = Self::Outside;
                    }
                }
            }
        }
        written
    }
}

/// Appends at most `length` bytes of a line around `at`.
fn append_shown(shown: &mut String, line: &[u8], at: usize, length: usize) {
    let start = if line.len() <= length { 0 } else { at.saturating_sub(length / 3) };
    let end = line.len().min(start + length);
    let text = String::from_utf8_lossy(&line[start..end]);
    shown.push_str(if start > 0 { "…" } else { "" });
    shown.push_str(text.trim());
    shown.push_str(if end < line.len() { "…" } else { "" });
}

/// Returns the part of a line around `at`, and the lines that continue it: what comes after a colon,
/// and lines that are indented more. A compiler's message is one line; source code follows it.
fn quoted(text: &[u8], line: &Range<usize>, at: usize) -> String {
    let mut shown = String::new();
    append_shown(&mut shown, &text[line.clone()], at, QUOTED);
    let own = indentation(&text[line.clone()]);
    let is_of_compiler = names_a_place(&text[line.clone()]);
    let rest = &text[line.end..];
    // A line that is cut, or ends with a carriage return alone, has no next one.
    let rest = rest.strip_prefix(b"\r").unwrap_or(rest).strip_prefix(b"\n").unwrap_or_default();
    let is_open = shown.ends_with(':');
    for next in rest.split(|byte| *byte == b'\n').take(if is_open { AHEAD } else { CONTINUED }) {
        if is_open && next.trim_ascii().is_empty() {
            continue;
        }
        let is_more = shown.ends_with(':') || indentation(next) > own && !is_of_compiler;
        // Compilers quote source code in this form.
        let is_code = next.iter().take(12).any(|byte| *byte == b'|');
        let length = QUOTED.saturating_sub(shown.len());
        if !is_more || is_code || length == 0 {
            break;
        }
        if !next.trim_ascii().is_empty() {
            shown.push(' ');
            append_shown(&mut shown, next.trim_ascii(), 0, length);
        }
    }
    shown
}

/// Returns whether a line is a compiler's message about a place, such as `a.c:7:3: error: …`.
fn names_a_place(line: &[u8]) -> bool {
    let mut places = memchr::memmem::find_iter(line, b"error:");
    places.any(|at| {
        let before = line[..at].strip_suffix(b"fatal ").unwrap_or(&line[..at]);
        let number = before.strip_suffix(b": ");
        number.and_then(<[u8]>::last).is_some_and(u8::is_ascii_digit)
    })
}

/// Returns the number of spaces at the beginning of a line.
fn indentation(line: &[u8]) -> usize {
    line.len() - line.trim_ascii_start().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_colours(parts: &[&[u8]]) -> Vec<u8> {
        let (mut plain, mut colours) = (Vec::new(), Colours::Outside);
        for part in parts {
            let mut part = part.to_vec();
            let length = colours.remove(&mut part);
            plain.extend_from_slice(&part[..length]);
        }
        plain
    }

    #[test]
    fn colours_are_no_part_of_a_line() {
        let red: &[u8] = b"\x1b[1;31mred\x1b[0m and \x1b[Kplain";
        assert_eq!(without_colours(&[red]), b"red and plain");
        for at in 0..red.len() {
            assert_eq!(without_colours(&[&red[..at], &red[at..]]), b"red and plain", "{at}");
        }
        assert_eq!(without_colours(&[b"a\x1b[12\nb\x1b"]), b"a\nb");
        assert_eq!(without_colours(&[b"a\x1b]0;title\x07b"]), b"a]0;title\x07b");
        assert_eq!(without_colours(&[b"\x1b\x1b[mx"]), b"x");
    }

    #[test]
    fn long_lines_are_shown_around_the_match() {
        let long = format!("{}HERE{}", "a".repeat(500), "b".repeat(500));
        let shown_part = |line: &[u8], at| {
            let mut text = String::new();
            append_shown(&mut text, line, at, SHOWN);
            text
        };
        let text = shown_part(long.as_bytes(), 500);
        assert!(text.contains("HERE") && text.starts_with('…') && text.ends_with('…'));
        assert!(text.chars().count() <= SHOWN + 2);
        assert_eq!(shown_part(b" short ", 1), "short");
    }
}
