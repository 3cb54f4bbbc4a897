//! Known failures in logs: the catalogue `versions/failures.toml`, and a reader for logs of any
//! size.
//!
//! Start at [`parse_failures`] and [`Failures::diagnose`]. A log is searched for the fixed text of
//! all patterns at once, and only lines with a hit are matched, so a gigabyte takes about a second.
//! Nothing is guessed: text that matches no pattern is not reported.

use std::collections::BTreeMap;
use std::io::{self, Read};

use pins::ParseError;
use pins::reader::{Entry, Report, Reported, Table, Wrong, collect, document, quote, wrong};
use regex::bytes::{Regex, RegexSet, RegexSetBuilder};
use regex_syntax::hir::{Hir, HirKind};

/// One known failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its name.
    pub name: String,
    /// Its patterns, as indexes into those of the catalogue.
    patterns: Vec<usize>,
    /// Whether every pattern must match somewhere in the log.
    needs_all: bool,
    /// The cause.
    pub cause: String,
    /// What to do, the most promising first.
    pub fix: Vec<String>,
    /// The source.
    pub evidence: String,
}

/// The catalogue.
#[derive(Debug)]
pub struct Failures {
    all: Vec<Failure>,
    set: RegexSet,
    /// The fixed texts of all patterns.
    texts: Regex,
}

/// A known failure that a log shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis<'a> {
    /// The failure.
    pub failure: &'a Failure,
    /// The first matching line of each pattern, in log order.
    pub lines: Vec<LogLine>,
    /// The number of matching lines.
    pub count: u64,
}

/// A line of a log. Its text is raw; sanitise it before printing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Its number, from 1.
    pub number: u64,
    /// Its text; a long line is cut around the match.
    pub text: String,
}

/// The result of reading a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnoses<'a> {
    /// The failures in the log, in order of their first appearance.
    pub found: Vec<Diagnosis<'a>>,
    /// The number of lines.
    pub lines: u64,
    /// The number of bytes.
    pub bytes: u64,
}

/// The shortest accepted fixed text of a pattern: with less, every line would have to be matched.
const LEAST_TEXT: usize = 6;
/// The largest pattern, in bytes of its compiled form.
const LARGEST_PATTERN: usize = 1 << 20;
/// The number of bytes of a log that are in memory at a time.
const WINDOW: usize = 1 << 20;
/// The number of bytes of a line that are matched around a fixed text.
const LINE_CUT: usize = 8 << 10;
/// The number of bytes of a line that are shown.
const SHOWN: usize = 240;

/// Parses the text of `failures.toml`. Messages call it `file`.
///
/// # Errors
/// Returns all problems of the file, each with its place, the value and the correct form.
pub fn parse_failures(file: &str, text: &str) -> Result<Failures, ParseError> {
    let mut report = Report::new(file, text);
    let mut patterns = Patterns::default();
    let rows = document(&mut report).and_then(|entries| {
        let root = Table::root(&mut report, &entries)?;
        root.check_keys(&mut report, &["schema", "failure"]);
        let Some(entry) = root.get("failure") else { return Ok(BTreeMap::new()) };
        let all = entry.table(&mut report, "`[failure.name]`")?;
        collect(&mut report, all.entries(), |report, entry| read(report, entry, &mut patterns))
    });
    let rows = report.finish(rows)?;
    let compiled = RegexSetBuilder::new(&patterns.patterns).unicode(false).build();
    let texts: Vec<String> = patterns.texts.iter().map(|text| regex::escape(text)).collect();
    let texts = if texts.is_empty() { "[^\\s\\S]".to_owned() } else { texts.join("|") };
    match (compiled, regex::bytes::RegexBuilder::new(&texts).unicode(false).build()) {
        (Ok(set), Ok(texts)) => Ok(Failures { all: rows.into_values().collect(), set, texts }),
        // Each pattern compiles on its own; only their sum can be too large.
        _ => {
            let mut report = Report::new(file, text);
            let help = "shorten or remove some patterns";
            report.add(&(0..0), wrong("together, the patterns of `[failure]` are too large", help));
            report.finish_option(None)
        }
    }
}

/// All patterns of the file, and their fixed texts.
#[derive(Debug, Default)]
struct Patterns {
    patterns: Vec<String>,
    texts: Vec<String>,
}

fn read(
    report: &mut Report<'_>,
    entry: &Entry<'_>,
    patterns: &mut Patterns,
) -> Result<(String, Failure), Reported> {
    let place = quote(&format!("[failure.{}]", entry.key));
    let table = entry.table(report, &place)?;
    table.check_keys(report, &["any", "all", "cause", "fix", "evidence"]);
    let name = match entry.key.parse::<names::PinName>() {
        Ok(name) => Ok(name.to_string()),
        Err(_) => {
            let help =
                "a name has lower-case letters, digits and single dashes, and starts with a letter";
            let message = format!("{} is not the name of a failure", quote(entry.key));
            Err(report.add(&entry.key_span, wrong(message, help)))
        }
    };
    let any = table.texts(report, "any", "invalid device function", pattern);
    let all = table.texts(report, "all", "invalid device function", pattern);
    let (any, all) = (any?, all?);
    let needs_all = !all.is_empty();
    if needs_all != any.is_empty() {
        let help =
            "`any` needs one of its patterns to match, `all` needs every one; write one of the two";
        let what = if needs_all { "both `any` and `all`" } else { "no `any` and no `all`" };
        report.add(&table.span(), wrong(format!("{place} has {what}"), help));
    }
    let cause = table.required(report, "cause", "cause = \"what happened\"", text);
    let fix = table.texts(report, "fix", "what to do", text);
    if fix.as_ref().is_ok_and(Vec::is_empty) {
        table.add_missing(report, "fix", "fix = [\"what to do\"]");
    }
    let evidence = table.required(report, "evidence", "evidence = \"ROCm/TheRock#5763\"", text);
    let first = patterns.patterns.len();
    for (pattern, texts) in any.into_iter().chain(all) {
        patterns.patterns.push(pattern);
        patterns.texts.extend(texts);
    }
    let failure = Failure {
        name: entry.key.to_owned(),
        patterns: (first..patterns.patterns.len()).collect(),
        needs_all,
        cause: cause?,
        fix: fix?,
        evidence: evidence?,
    };
    Ok((name?, failure))
}

fn text(text: &str) -> Result<String, Wrong> {
    match text.chars().count() {
        0..=500 => Ok(text.to_owned()),
        length => {
            let message = format!("{} is {length} characters long", quote(text));
            Err(wrong(message, "shorten it to 500 characters"))
        }
    }
}

/// Accepts a pattern, and returns it with its fixed texts; every match contains one of them.
fn pattern(text: &str) -> Result<(String, Vec<String>), Wrong> {
    let built =
        regex::bytes::RegexBuilder::new(text).unicode(false).size_limit(LARGEST_PATTERN).build();
    let parsed = regex_syntax::ParserBuilder::new().utf8(false).unicode(false).build().parse(text);
    let (Ok(_), Ok(hir)) = (built, parsed) else {
        return Err(wrong(
            format!("{} is not a regular expression", quote(text)),
            "close every bracket and group, put `\\` before a special character that is meant literally, and use no look-around",
        ));
    };
    match fixed_texts(&hir) {
        Some(texts) if texts.iter().all(|text| text.len() >= LEAST_TEXT) => {
            Ok((text.to_owned(), texts))
        }
        _ => Err(wrong(
            format!("{} has too little fixed text", quote(text)),
            format!("write at least {LEAST_TEXT} consecutive characters that occur in every match"),
        )),
    }
}

/// Returns texts of which every match contains at least one: the longest of a sequence, and one of
/// each branch of an alternation.
fn fixed_texts(hir: &Hir) -> Option<Vec<String>> {
    match hir.kind() {
        HirKind::Literal(literal) => Some(vec![String::from_utf8(literal.0.to_vec()).ok()?]),
        HirKind::Capture(capture) => fixed_texts(&capture.sub),
        HirKind::Concat(parts) => {
            let shortest = |texts: &Vec<String>| texts.iter().map(String::len).min();
            parts.iter().filter_map(fixed_texts).max_by_key(shortest)
        }
        HirKind::Alternation(branches) => {
            let each: Option<Vec<Vec<String>>> = branches.iter().map(fixed_texts).collect();
            Some(each?.concat())
        }
        HirKind::Repetition(repeated) if repeated.min > 0 => fixed_texts(&repeated.sub),
        _ => None,
    }
}

/// The state of a pattern while a log is read.
#[derive(Debug, Clone, Default)]
struct Hit {
    first: Option<LogLine>,
    count: u64,
}

impl Failures {
    /// Returns the names of all failures.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|failure| failure.name.as_str())
    }

    /// Reads a log to its end with constant memory, and returns the failures in it.
    ///
    /// # Errors
    /// Fails if the log cannot be read.
    pub fn diagnose(&self, mut log: impl Read) -> io::Result<Diagnoses<'_>> {
        let mut hits = vec![Hit::default(); self.set.len()];
        let mut window = vec![0; WINDOW];
        let (mut held, mut lines, mut bytes) = (0, 0, 0);
        let mut last = b'\n';
        loop {
            let read = match log.read(&mut window[held..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            bytes += read as u64;
            let filled = held + read;
            // Only whole lines are searched, except for the last line and for lines longer than the
            // window.
            let whole = match window[held..filled].iter().rposition(|byte| *byte == b'\n') {
                Some(newline) => held + newline + 1,
                None if read == 0 || filled == WINDOW => filled,
                None => {
                    held = filled;
                    continue;
                }
            };
            self.search(&window[..whole], lines, &mut hits);
            lines += count_lines(&window[..whole]);
            last = whole.checked_sub(1).map_or(last, |at| window[at]);
            window.copy_within(whole..filled, 0);
            held = filled - whole;
            if read == 0 {
                break;
            }
        }
        lines += u64::from(last != b'\n');
        Ok(Diagnoses { found: self.judge(&hits), lines, bytes })
    }

    /// Searches whole lines for failures; `lines` is the number of lines before them.
    fn search(&self, text: &[u8], lines: u64, hits: &mut [Hit]) {
        let stripped;
        let text = if text.contains(&0x1b) {
            stripped = without_colours(text);
            &stripped
        } else {
            text
        };
        let (mut at, mut counted, mut number) = (0, 0, lines + 1);
        while let Some(found) = self.texts.find_at(text, at) {
            let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
            let start = text[..found.start()].iter().rposition(is_end).map_or(0, |end| end + 1);
            let length = text[found.end()..].iter().position(is_end);
            let end = length.map_or(text.len(), |length| found.end() + length);
            let cut_start = start.max(found.start().saturating_sub(LINE_CUT));
            let cut_end = end.min(found.end() + LINE_CUT);
            number += count_lines(&text[counted..start]);
            counted = start;
            for pattern in self.set.matches(&text[cut_start..cut_end]) {
                let hit = &mut hits[pattern];
                hit.count += 1;
                hit.first.get_or_insert_with(|| LogLine {
                    number,
                    text: shown(&text[cut_start..cut_end], found.start() - cut_start),
                });
            }
            // The rest of a line that was cut is searched separately.
            at = if cut_end < end { cut_end } else { end };
        }
    }

    fn judge(&self, hits: &[Hit]) -> Vec<Diagnosis<'_>> {
        let diagnose = |failure: &'_ Failure| {
            let own = failure.patterns.iter().map(|index| &hits[*index]);
            let is_shown = if failure.needs_all {
                own.clone().all(|hit| hit.count > 0)
            } else {
                own.clone().any(|hit| hit.count > 0)
            };
            let mut lines: Vec<LogLine> = own.clone().filter_map(|hit| hit.first.clone()).collect();
            lines.sort_by_key(|line| line.number);
            lines.dedup();
            is_shown.then(|| (lines, own.map(|hit| hit.count).sum()))
        };
        let mut found: Vec<Diagnosis<'_>> = self
            .all
            .iter()
            .filter_map(|failure| {
                let (lines, count) = diagnose(failure)?;
                Some(Diagnosis { failure, lines, count })
            })
            .collect();
        found.sort_by_key(|one| one.lines.first().map(|line| line.number));
        found
    }
}

fn count_lines(text: &[u8]) -> u64 {
    // Compares bytes in short runs, which compilers turn into SIMD instructions.
    text.chunks(255)
        .map(|run| u64::from(run.iter().map(|byte| u8::from(*byte == b'\n')).sum::<u8>()))
        .sum()
}

/// Returns the text without escape sequences for colours (`ESC [ … letter`).
fn without_colours(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(escape) = rest.iter().position(|byte| *byte == 0x1b) {
        plain.extend_from_slice(&rest[..escape]);
        rest = &rest[escape + 1..];
        if let Some(sequence) = rest.strip_prefix(b"[") {
            let is_parameter = |byte: &u8| !matches!(byte, 0x20..=0x3f);
            let end = sequence.iter().position(is_parameter).unwrap_or(sequence.len());
            // A line feed never ends a sequence.
            let is_final = sequence.get(end).is_some_and(|byte| (0x40..=0x7e).contains(byte));
            rest = &sequence[end + usize::from(is_final)..];
        }
    }
    plain.extend_from_slice(rest);
    plain
}

/// Returns the part of a line around `at` that is shown.
fn shown(line: &[u8], at: usize) -> String {
    let start = if line.len() <= SHOWN { 0 } else { at.saturating_sub(SHOWN / 3) };
    let end = line.len().min(start + SHOWN);
    let text = String::from_utf8_lossy(&line[start..end]);
    let before = if start > 0 { "…" } else { "" };
    let behind = if end < line.len() { "…" } else { "" };
    format!("{before}{}{behind}", text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_that_every_match_has() {
        let check = |pattern: &str| {
            let mut hir = regex_syntax::ParserBuilder::new().utf8(false).unicode(false).build();
            fixed_texts(&hir.parse(pattern).unwrap())
        };
        let some = |texts: &[&str]| Some(texts.iter().map(|text| (*text).to_owned()).collect());
        assert_eq!(
            check("Memory access fault by GPU node-[0-9]+"),
            some(&["Memory access fault by GPU node-"])
        );
        assert_eq!(check("(abcdef|ghijkl)x?"), some(&["abcdef", "ghijkl"]));
        assert_eq!(check("ab.*cdefgh"), some(&["cdefgh"]));
        assert_eq!(check("(abcdef)?"), None);
        assert_eq!(check("(abcdef|.)"), None);
        assert_eq!(check("[a-z]+"), None);
    }

    #[test]
    fn colours_are_no_part_of_a_line() {
        assert_eq!(without_colours(b"\x1b[1;31mred\x1b[0m and \x1b[Kplain"), b"red and plain");
        assert_eq!(without_colours(b"a\x1b[12\nb\x1b"), b"a\nb");
        assert_eq!(without_colours(b"a\x1b]0;title\x07b"), b"a]0;title\x07b");
    }

    #[test]
    fn long_lines_are_shown_around_the_match() {
        let line = format!("{}HERE{}", "a".repeat(500), "b".repeat(500));
        let text = shown(line.as_bytes(), 500);
        assert!(text.contains("HERE") && text.starts_with('…') && text.ends_with('…'));
        assert!(text.chars().count() <= SHOWN + 2);
        assert_eq!(shown(b" short ", 1), "short");
    }
}
