//! Logs that were wrapped at the width of a terminal.
//!
//! A terminal cuts a line anywhere. PowerShell, which also wraps what it writes to a file, prefers a
//! space, and leaves it at the end of the line.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use super::{Diagnoses, devices};

/// The size of the largest log whose lines are joined.
const LARGEST: usize = 4 << 20;
/// The widths of terminals, in characters.
const WIDTHS: RangeInclusive<usize> = 20..=250;
/// A wrapped log has at least this number of different full lines. Programs write the same line
/// again and again.
const FULL_LINES: usize = 3;
/// In a wrapped log, at least one line of this number is continued in the next one.
const ONE_CONTINUED_IN: usize = 10;

/// The end of a log.
#[derive(Debug)]
pub(super) struct Kept {
    text: Vec<u8>,
    /// The number of lines before it.
    dropped: u64,
}

/// A log with its lines joined.
#[derive(Debug)]
pub(super) struct Joined {
    /// The text.
    pub(super) text: Vec<u8>,
    /// The number that each line has in the log.
    numbers: Vec<u64>,
}

impl Kept {
    pub(super) fn new() -> Self {
        Self { text: Vec::new(), dropped: 0 }
    }

    /// Adds the next part of the log.
    pub(super) fn add(&mut self, part: &[u8]) {
        self.text.extend_from_slice(part);
        if self.text.len() > 2 * LARGEST {
            let rest = &self.text[self.text.len() - LARGEST..];
            let start = memchr::memchr(b'\n', rest).map_or(0, |end| end + 1);
            let start = self.text.len() - LARGEST + start;
            self.dropped += memchr::memchr_iter(b'\n', &self.text[..start]).count() as u64;
            self.text.drain(..start);
        }
    }

    /// Returns the end of the log, and the number of lines before it.
    pub(super) fn end(&self) -> (&[u8], u64) {
        (&self.text, self.dropped)
    }

    /// Leaves out what the log says of devices that did not fail, if it is not too large. Returns
    /// whether there was something.
    pub(super) fn keep_failed_device(&mut self) -> bool {
        self.dropped == 0 && devices::keep_failed(&mut self.text)
    }

    /// Returns the log with its lines joined, if it looks wrapped and is not too large.
    pub(super) fn joined(&self) -> Option<Joined> {
        let text = Some(&self.text).filter(|text| self.dropped == 0 && text.len() <= LARGEST)?;
        let lines = || text.split(|byte| *byte == b'\n').map(without_return);
        let full = lines().map(width).max().filter(|width| WIDTHS.contains(width))?;
        let is_full = |line: &&[u8]| width(line) == full;
        let is_continued = |line: &&[u8]| is_full(line) || line.ends_with(b" ");
        if lines().filter(is_full).collect::<BTreeSet<_>>().len() < FULL_LINES
            || lines().filter(is_continued).count() * ONE_CONTINUED_IN < lines().count()
        {
            return None;
        }
        let mut joined = Joined { text: Vec::with_capacity(text.len()), numbers: Vec::new() };
        let mut is_new = true;
        for (number, line) in (1..).zip(lines()) {
            if is_new {
                joined.numbers.push(number);
            }
            joined.text.extend_from_slice(line);
            is_new = !is_continued(&line);
            if is_new {
                joined.text.push(b'\n');
            }
        }
        Some(joined)
    }
}

impl Joined {
    /// Replaces the numbers of the joined lines by those in the log.
    pub(super) fn renumber(&self, told: &mut Diagnoses<'_>) {
        let shown = told.found.iter_mut().chain(&mut told.possible);
        let lines = shown.flat_map(|one| &mut one.lines);
        let assessed = told.assessment.iter_mut().flat_map(|one| &mut one.lines);
        for line in lines.chain(&mut told.errors.lines).chain(assessed) {
            let number = usize::try_from(line.number - 1).ok().and_then(|at| self.numbers.get(at));
            line.number = number.copied().unwrap_or(line.number);
        }
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns the number of characters.
fn width(line: &[u8]) -> usize {
    line.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}
