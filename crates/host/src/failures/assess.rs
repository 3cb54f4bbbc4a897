//! What a log without a known failure shows: which part failed, and how.
//!
//! A row of `[kind.*]` is a kind of failure, such as a missing library; a row of `[component.*]` is
//! software or hardware that can fail. The line that decides is the first one of the most telling
//! kind; after it, no line shows that the program works, and none near it that the program overcomes
//! the failure, or only tries whether something works. The component is the one that this line,
//! the lines that continue it, or a frame of its trace names. Other lines near it name nothing, and
//! an option is no name. The answer joins both rows. It is an assessment: it says what the lines say,
//! and no cause that they do not name. If there is nothing to advise, the line is only quoted.

use std::collections::BTreeMap;

use regex::bytes::Captures;

use super::advice::has_quote;
use super::texts::Texts;
use super::{Expression, LogLine};

/// The number of lines that may be between the line that decides and the one that tells more, if
/// both are one message.
const MESSAGE: usize = 10;
/// The number of lines after a failure in which the program may say that it overcomes it.
const OVERCOME: usize = 6;
/// The number of lines before, and after, the failure of something that the program only tries, in
/// which it may say so.
const PROBED: (usize, usize) = (10, 2);
/// The number of lines that may be between two frames of a trace.
const BETWEEN_FRAMES: usize = 4;
/// The number of frames of a trace that are read.
const FRAMES: usize = 120;
/// The number of lines over which one failure is spread.
const SPREAD: usize = 200;
/// The number of components whose advice is given.
const COMPONENTS: usize = 2;
/// The number of lines that are shown.
const SHOWN_LINES: usize = 4;
/// The number of bytes of a line that are shown.
const SHOWN: usize = 400;
/// The number of bytes of a line that are read.
const LONGEST_LINE: usize = 8 << 10;

/// How much a kind of failure tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strength {
    /// How a program ended.
    End,
    /// That something failed.
    General,
    /// What failed, or where.
    Error,
    /// What failed, and what is wrong with it.
    Cause,
    /// Exactly what is wrong.
    Reason,
}

/// Texts of a component that a kind of failure uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Advice {
    /// How to turn it off, or what to use instead.
    Instead,
    /// How it needs less memory.
    Memory,
    /// How to install it.
    Install,
    /// How to learn more.
    More,
}

impl Advice {
    /// The key of a component's row and the text of a kind's row.
    pub(super) const ALL: [(&'static str, Self); 4] = [
        ("instead", Self::Instead),
        ("memory", Self::Memory),
        ("install", Self::Install),
        ("more", Self::More),
    ];
}

/// A kind of failure.
#[derive(Debug)]
pub(super) struct FailureKind {
    pub(super) name: String,
    pub(super) signs: Vec<usize>,
    pub(super) with: Vec<usize>,
    /// What the line or a frame of its trace contains if the failure is of another kind.
    pub(super) unless: Option<Expression>,
    pub(super) strength: Strength,
    pub(super) what: String,
    pub(super) fix: Vec<String>,
    pub(super) advice: Vec<Advice>,
    /// The subject that the log must come from, as an index into the subjects.
    pub(super) about: Option<usize>,
}

/// Software or hardware that can fail.
#[derive(Debug, Clone)]
pub(super) struct Component {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) signs: Vec<usize>,
    pub(super) what: String,
    pub(super) gpus: Vec<String>,
    pub(super) advice: BTreeMap<Advice, Vec<String>>,
    pub(super) report: Option<String>,
    pub(super) evidence: String,
    pub(super) checked: Option<String>,
    /// Whether it only calls what fails, unless nothing else is near.
    pub(super) is_caller: bool,
    /// Whether it is the program that people start.
    pub(super) is_program: bool,
}

/// What a pattern shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Kind(usize),
    With(usize),
    Component(usize),
    /// The program works.
    GoesOn,
    /// The program tries again, or continues without what failed.
    Overcome,
    /// The program only tries whether something works.
    Probe,
}

/// The kinds of failures and the components.
#[derive(Debug)]
pub(super) struct Assessor {
    pub(super) kinds: Vec<FailureKind>,
    pub(super) components: Vec<Component>,
    pub(super) expressions: Vec<Expression>,
    pub(super) meanings: Vec<Vec<Meaning>>,
    pub(super) texts: Texts,
    pub(super) patterns_of: Vec<Vec<usize>>,
    /// What a line contains that tells of no failure.
    pub(super) mild: Option<Expression>,
    /// What a line contains that tells of a failure, although it is mild.
    pub(super) loud: Option<Expression>,
}

/// What is known about a log before it is assessed.
pub(super) trait Known {
    /// Returns whether the log shows a known failure, without a certain cause.
    fn has_failure(&self) -> bool;
    /// Returns whether a line only mentions a failure, or belongs to a known one.
    fn is_excluded(&self, line: &[u8]) -> bool;
    /// Returns where a line starts to say that a name is unknown.
    fn unknown_name(&self, line: &[u8]) -> Option<usize>;
    /// Returns whether a line states a failure that only follows from another one.
    fn is_follow_up(&self, line: &[u8]) -> bool;
    /// Returns whether the log may come from a subject.
    fn may_be_about(&self, subject: usize) -> bool;
    /// Returns a text in the form that fits the log, if it does.
    fn fitting(&self, text: &str) -> Option<String>;
}

/// What a log without a known failure shows. Nobody has confirmed the cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment<'a> {
    /// The name of the kind of failure.
    pub kind: &'a str,
    /// The name of the component.
    pub component: Option<&'a str>,
    /// What happened.
    pub what: String,
    /// The component, what it is, and for which GPUs.
    pub place: Option<String>,
    /// The lines that show it.
    pub lines: Vec<LogLine>,
    /// What to do, the most promising first.
    pub fix: Vec<String>,
    /// How to learn more.
    pub more: Vec<String>,
    /// Where to report it.
    pub report: Option<&'a str>,
    /// The source of what is said about the component.
    pub evidence: Option<&'a str>,
    /// The date on which the source was read, `YYYY-MM-DD`, if that is known.
    pub checked: Option<&'a str>,
}

/// A log in memory.
struct Log<'t> {
    text: &'t [u8],
    /// The start of each line.
    starts: Vec<usize>,
}

/// A match of a kind of failure.
#[derive(Debug, Clone, Copy)]
struct Found {
    line: usize,
    kind: usize,
    expression: usize,
    /// Where the match starts in the line.
    start: usize,
    /// The number of bytes of the match.
    length: usize,
}

/// The matches in a log.
#[derive(Debug, Default)]
struct Matches {
    kinds: Vec<Found>,
    with: Vec<(usize, usize)>,
    /// The last line that shows that the program works.
    goes_on: Option<usize>,
    /// Lines that show that the program overcomes what is shortly before them.
    overcome: Vec<usize>,
    /// Lines that show that the program only tries whether something works.
    probes: Vec<usize>,
    /// The components of each line, with the place of the match.
    components: BTreeMap<usize, Vec<(usize, usize)>>,
}

impl Matches {
    /// Returns whether the program overcomes what a line states, or only tried whether it works.
    fn is_overcome(&self, line: usize) -> bool {
        let is_overcome = |one: &usize| *one > line && one - line <= OVERCOME;
        let (before, after) = PROBED;
        let is_probe = |one: &usize| *one <= line + after && line <= one + before;
        self.overcome.iter().any(is_overcome) || self.probes.iter().any(is_probe)
    }
}

impl<'t> Log<'t> {
    fn new(text: &'t [u8]) -> Self {
        let starts = memchr::memchr_iter(b'\n', text).map(|end| end + 1);
        Self { text, starts: std::iter::once(0).chain(starts).collect() }
    }

    /// Returns the index of the line with a byte.
    fn line_of(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at) - 1
    }

    /// Returns a line, without its end.
    fn line(&self, index: usize) -> &'t [u8] {
        let Some(start) = self.starts.get(index) else { return &[] };
        let end = self.starts.get(index + 1).map_or(self.text.len(), |next| next - 1);
        let line = &self.text[*start..end];
        line[..line.len().min(LONGEST_LINE)].trim_ascii_end()
    }
}

/// What a log without a certain known failure shows.
#[derive(Debug)]
pub(super) enum Told<'a> {
    Nothing,
    /// The line that states the failure. Nothing is known to advise.
    Line(LogLine),
    Assessed(Box<Assessment<'a>>),
}

impl Assessor {
    /// Returns what the log shows. If it shows a known failure, an assessment must say more than that
    /// something failed.
    pub(super) fn assess(&self, text: &[u8], known: &impl Known) -> Told<'_> {
        let log = Log::new(text);
        let matches = self.matches(&log);
        let Some(found) = self.deciding(&log, &matches, known) else { return Told::Nothing };
        let assessed = self.assessed(&log, &matches, found, known);
        let assessed = assessed.map(|one| Told::Assessed(Box::new(one)));
        assessed.unwrap_or_else(|| {
            let shown = shown_part(log.line(found.line), found.start);
            Told::Line(LogLine { number: found.line as u64 + 1, text: shown })
        })
    }

    /// Returns what a match shows, if there is something to advise.
    fn assessed(
        &self,
        log: &Log<'_>,
        matches: &Matches,
        found: Found,
        known: &impl Known,
    ) -> Option<Assessment<'_>> {
        let kind = &self.kinds[found.kind];
        let more = first_with(matches, found);
        let lines_of_interest = candidates(log, found.line, more);
        let near = self.nearest(matches, found.line, &lines_of_interest);
        let adds = kind.strength == Strength::Reason
            || kind.strength == Strength::Cause && !near.is_empty();
        if known.has_failure() && !adds {
            return None;
        }
        let program = self.program(matches, &lines_of_interest);
        let component = near.first().map(|(_, index)| *index).or(program);
        let captures = self.expressions[found.expression].captures(log.line(found.line));
        let filled = |one: &String| filled(one, captures.as_ref());
        let advice = |one: Advice| {
            let of = |index: usize| self.components[index].advice.get(&one);
            let near = near.iter().map(|(_, index)| *index);
            let failed: Vec<usize> = near.filter(|index| of(*index).is_some()).collect();
            // What only calls the part that failed is used by the program.
            let is_called = failed.iter().all(|index| self.components[*index].is_caller);
            let used = program.filter(|index| is_called && !failed.contains(index));
            let all = used.into_iter().chain(failed).filter_map(of).flatten();
            all.cloned().collect::<Vec<String>>()
        };
        let (learn, rest): (Vec<_>, Vec<_>) =
            kind.advice.iter().partition(|one| **one == Advice::More);
        let mut own: Vec<String> = kind.fix.iter().filter_map(filled).collect();
        let mut fix: Vec<String> = rest.into_iter().flat_map(&advice).collect();
        let component = component.map(|index| &self.components[index]);
        let gpus = gpus(log);
        // A general kind of failure has only general advice.
        let is_other_gpu = component.is_some_and(|one| !one.is_for(&gpus));
        if kind.strength >= Strength::Cause && !is_other_gpu {
            std::mem::swap(&mut own, &mut fix);
        }
        fix.extend(own);
        let shown = lines(log, found, near.first().map(|(line, _)| *line), more);
        let fix = for_lines(fix, &shown);
        let fix: Vec<String> = fix.iter().filter_map(|one| known.fitting(one)).collect();
        let learn = learn.into_iter().flat_map(&advice);
        let learn: Vec<String> = learn.filter_map(|one| known.fitting(&one)).collect();
        if fix.is_empty() && learn.is_empty() {
            return None;
        }
        let place = component.map(|one| one.place(&gpus));
        let place = place.or_else(|| package(log, found.line));
        Some(Assessment {
            kind: &kind.name,
            component: component.map(|one| one.name.as_str()),
            what: filled(&kind.what).unwrap_or_else(|| kind.what.clone()),
            place,
            lines: shown,
            fix,
            more: learn,
            report: component.and_then(|one| one.report.as_deref()),
            evidence: component.map(|one| one.evidence.as_str()),
            checked: component.and_then(|one| one.checked.as_deref()),
        })
    }

    /// Finds the matches of all patterns.
    fn matches(&self, log: &Log<'_>) -> Matches {
        let mut found = Matches::default();
        let mut last = vec![None; self.expressions.len()];
        self.texts.find(log.text, &(0..log.text.len()), |hit| {
            let line = log.line_of(hit.start);
            for expression in &self.patterns_of[hit.text] {
                if last[*expression].replace(line) == Some(line) {
                    continue;
                }
                let regex = self.expressions[*expression].regex();
                let Some(place) = regex.and_then(|one| one.find(log.line(line))) else { continue };
                for meaning in &self.meanings[*expression] {
                    match *meaning {
                        Meaning::Kind(kind) => {
                            let (expression, start) = (*expression, place.start());
                            let length = place.len();
                            found.kinds.push(Found { line, kind, expression, start, length });
                        }
                        Meaning::With(kind) => found.with.push((line, kind)),
                        Meaning::GoesOn => found.goes_on = found.goes_on.max(Some(line)),
                        Meaning::Overcome => found.overcome.push(line),
                        Meaning::Probe => found.probes.push(line),
                        Meaning::Component(_) if is_no_name(log.line(line), place.start()) => {}
                        Meaning::Component(component) => {
                            let all = found.components.entry(line).or_default();
                            all.push((place.start(), component));
                        }
                    }
                }
            }
        });
        found
    }

    /// Returns the match that tells most: of the strongest kind, then the first one.
    fn deciding(&self, log: &Log<'_>, matches: &Matches, known: &impl Known) -> Option<Found> {
        let has = |pattern: &Option<Expression>, line: &[u8]| {
            pattern.as_ref().is_some_and(|one| one.is_match(line))
        };
        let is_mild = |line: &[u8]| has(&self.mild, line) && !has(&self.loud, line);
        let counts = |one: &&Found| {
            let may_be = self.kinds[one.kind].about.is_none_or(|one| known.may_be_about(one));
            let line = log.line(one.line);
            let is_last = matches.goes_on.is_none_or(|works| one.line > works);
            let is_other = self.kinds[one.kind].unless.as_ref().is_some_and(|other| {
                candidates(log, one.line, None).iter().any(|at| other.is_match(log.line(*at)))
            });
            let is_failure = is_last && !matches.is_overcome(one.line) && !is_mild(line);
            let is_name = known.unknown_name(line).is_some_and(|start| one.start > start);
            may_be && is_failure && !known.is_excluded(line) && !is_other && !is_name
        };
        let order = |one: &&Found| {
            let strength = self.kinds[one.kind].strength;
            let is_cause = strength >= Strength::Cause || !known.is_follow_up(log.line(one.line));
            let strength = Some(strength).filter(|_| is_cause);
            (strength, std::cmp::Reverse(one.line), one.length)
        };
        matches.kinds.iter().filter(counts).max_by_key(order).copied()
    }

    /// Returns the components nearest to a line, at most two, with the lines that name them.
    fn nearest(&self, matches: &Matches, at: usize, lines: &[usize]) -> Vec<(usize, usize)> {
        let (mut near, mut caller) = (Vec::<(usize, usize)>::new(), None);
        for line in lines.iter().copied() {
            let Some(all) = matches.components.get(&line) else { continue };
            let last = |is_caller: bool| {
                let fits = |one: &&(usize, usize)| {
                    let component = &self.components[one.1];
                    component.is_caller == is_caller && (line == at || !component.is_program)
                };
                all.iter().filter(fits).max().map(|(_, component)| (line, *component))
            };
            let found = last(false).filter(|(_, one)| near.iter().all(|(_, two)| one != two));
            near.extend(found);
            if near.len() == COMPONENTS {
                break;
            }
            caller = caller.or_else(|| last(true));
        }
        if near.is_empty() { caller.into_iter().collect() } else { near }
    }

    /// Returns the program that these lines name most often.
    fn program(&self, matches: &Matches, lines: &[usize]) -> Option<usize> {
        let mut counts = BTreeMap::<_, usize>::new();
        for (_, component) in lines.iter().filter_map(|line| matches.components.get(line)).flatten()
        {
            if self.components[*component].is_program {
                *counts.entry(*component).or_default() += 1;
            }
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(component, _)| component)
    }
}

impl Component {
    /// Returns whether it is for one of these GPUs, or the log names none.
    fn is_for(&self, gpus: &[String]) -> bool {
        let fits = |gpu: &String| self.gpus.iter().any(|one| gpu.starts_with(one.as_str()));
        self.gpus.is_empty() || gpus.is_empty() || gpus.iter().any(fits)
    }

    /// Returns what it is, and whether the log names a GPU that it is not for.
    fn place(&self, gpus: &[String]) -> String {
        let mut place = format!("{}: {}", self.title, self.what);
        if !self.is_for(gpus) {
            let names = gpus.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
            place =
                format!("{place}; this log names {names}, which its documentation does not list");
        }
        place
    }
}

/// Returns a text with what the line that decides says in each `{name}`. Returns `None` if the line
/// does not say it.
fn filled(text: &str, captures: Option<&Captures<'_>>) -> Option<String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, name, after)) = placeholder(rest) {
        let value = captures.and_then(|all| all.name(name))?;
        filled.push_str(before);
        filled.push_str(&String::from_utf8_lossy(value.as_bytes()));
        rest = after;
    }
    Some(filled + rest)
}

/// Returns what is before, in and after the first `{name}` of a text.
pub(super) fn placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('{')?;
    let (name, after) = rest.split_once('}')?;
    Some((before, name, after))
}

/// Returns advice for the lines of a failure: first what starts with a quote from them, then what
/// starts with no quote.
fn for_lines(advice: Vec<String>, lines: &[LogLine]) -> Vec<String> {
    let is_here = |quote: &&str| lines.iter().any(|line| has_quote(&line.text, quote));
    let (quoting, mut rest): (Vec<String>, Vec<String>) =
        advice.into_iter().partition(|one| !leading_quotes(one).is_empty());
    let fitting = quoting.into_iter().filter(|one| leading_quotes(one).iter().any(is_here));
    let mut all: Vec<String> = fitting.collect();
    all.append(&mut rest);
    all
}

/// Returns the quotes of a text that starts with quotes and a colon.
fn leading_quotes(text: &str) -> Vec<&str> {
    let head = text.split_once("`: ").and_then(|(head, _)| head.strip_prefix('`'));
    let quotes: Vec<&str> = head.map(|all| all.split("`, `").collect()).unwrap_or_default();
    if quotes.iter().any(|one| one.contains('`')) { Vec::new() } else { quotes }
}

/// Returns the lines that may name the component that failed, the most telling first: the line
/// itself, those that continue it, then the frames of its trace from the innermost one.
fn candidates(log: &Log<'_>, at: usize, more: Option<usize>) -> Vec<usize> {
    let more = more.filter(|line| line.abs_diff(at) <= MESSAGE);
    let mut lines: Vec<usize> = std::iter::once(at).chain(more).collect();
    let after = at + 1..log.starts.len().min(at + 1 + FRAMES);
    let indentation = |line: &[u8]| line.len() - line.trim_ascii_start().len();
    let own = indentation(log.line(at));
    let continues = |line: &usize| {
        !log.line(*line).is_empty() && indentation(log.line(*line)) > own
            || *line == at + 1 && log.line(at).ends_with(b":")
    };
    lines.extend(after.clone().take(MESSAGE).take_while(continues));
    let has_trace = after.clone().take(3).any(|line| is_frame(log.line(line)));
    if has_trace {
        frames(log, after, &mut lines);
    }
    frames(log, (at.saturating_sub(FRAMES)..at).rev(), &mut lines);
    lines
}

/// Adds the frames of one trace to `found`.
fn frames(log: &Log<'_>, lines: impl Iterator<Item = usize>, found: &mut Vec<usize>) {
    // The first frame is closer to the message.
    let mut others = BETWEEN_FRAMES / 2;
    for line in lines {
        let text = log.line(line);
        let is_start = memchr::memmem::find(text, b"Traceback (").is_some();
        if is_start || others > BETWEEN_FRAMES {
            return;
        }
        others += 1;
        if is_frame(text) {
            found.push(line);
            others = 0;
        }
    }
}

/// Returns whether the text at `at` does not say what failed: it is an option or an address.
fn is_no_name(line: &[u8], at: usize) -> bool {
    is_option(line, at) || is_address(line, at)
}

/// Returns whether the text at `at` is part of an address, such as that of a repository.
fn is_address(line: &[u8], at: usize) -> bool {
    let is_end =
        |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'\'' | b'"' | b'(' | b')');
    let start = line[..at].iter().rposition(is_end).map_or(0, |end| end + 1);
    let before = &line[start..at];
    before.starts_with(b"git@") || memchr::memmem::find(before, b"://").is_some()
}

/// Returns whether the text at `at` belongs to an option that somebody gave, or is its value.
fn is_option(line: &[u8], at: usize) -> bool {
    let before = &line[..at];
    let start = before.iter().rposition(u8::is_ascii_whitespace).map_or(0, |space| space + 1);
    let last = before[..start].trim_ascii_end().rsplit(u8::is_ascii_whitespace).next();
    let is_long = |word: &[u8]| word.starts_with(b"--") && word.len() > 2;
    let is_value = last.is_some_and(|word| is_long(word) && !word.contains(&b'='));
    // A definition or a folder in a compiler's command.
    let is_of_compiler = |word: &[u8]| matches!(word, [b'-', b'D' | b'I' | b'U', _, ..]);
    let word = &line[start..];
    is_value || start < at && (is_long(word) || is_of_compiler(word))
}

/// Returns whether a line is a frame of a trace.
fn is_frame(line: &[u8]) -> bool {
    let trimmed = line.trim_ascii_start();
    let has = |text: &[u8]| memchr::memmem::find(line, text).is_some();
    let is_numbered = |rest: &[u8]| {
        let name = rest.trim_ascii_start();
        let digits = name.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let name = name[digits..].trim_ascii_start();
        digits > 0 && has(b"(") && (name.starts_with(b"0x") || name.starts_with(b"_"))
            || digits > 0 && has(b"(") && name.first().is_some_and(u8::is_ascii_alphabetic)
    };
    trimmed.strip_prefix(b"#").is_some_and(is_numbered)
        || trimmed.len() < line.len() && has(b"::")
        || has(b"File \"") && has(b", line ")
        || has(b"+0x")
        || has(b"(0x")
}

/// Returns the Python package in the innermost frame above a line.
fn package(log: &Log<'_>, at: usize) -> Option<String> {
    let frame = candidates(log, at, None).into_iter().map(|line| log.line(line));
    let mut names = frame.filter(|line| is_frame(line)).filter_map(|line| {
        let (_, rest) = std::str::from_utf8(line).ok()?.split_once("-packages")?;
        let mut parts = rest.get(1..)?.split(['/', '\\']);
        parts.next().filter(|name| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        })
    });
    names.next().map(|name| format!("the Python package `{name}`"))
}

/// Returns the GPUs that a log names, each once.
fn gpus(log: &Log<'_>) -> Vec<String> {
    let mut names = Vec::new();
    for at in memchr::memmem::find_iter(log.text, b"gfx") {
        let is_part = |byte: &&u8| byte.is_ascii_hexdigit();
        let digits: Vec<u8> = log.text[at + 3..].iter().take_while(is_part).copied().collect();
        let name = format!("gfx{}", String::from_utf8_lossy(&digits));
        if matches!(digits.len(), 3 | 4) && digits[0].is_ascii_digit() && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Returns the line that tells more about a failure: the first one before it, or else the nearest.
fn first_with(matches: &Matches, found: Found) -> Option<usize> {
    let is_near = |line: usize| line.abs_diff(found.line) <= SPREAD && line != found.line;
    let lines = matches.with.iter().filter(|(line, kind)| *kind == found.kind && is_near(*line));
    lines.map(|(line, _)| *line).min_by_key(|line| (*line > found.line, *line))
}

/// Returns the lines to show, in their order: the one that names the component, the one that
/// decides with those that continue it, and one that tells more.
fn lines(
    log: &Log<'_>,
    found: Found,
    component: Option<usize>,
    more: Option<usize>,
) -> Vec<LogLine> {
    let ends_open = log.line(found.line).ends_with(b":");
    let next = (found.line + 1..log.starts.len()).find(|line| !log.line(*line).is_empty());
    let next = next.filter(|_| ends_open);
    let mut shown: Vec<usize> =
        [Some(found.line), component, more, next].into_iter().flatten().collect();
    shown.sort_unstable();
    shown.dedup();
    let line = |index: usize| {
        let at = if index == found.line { found.start } else { 0 };
        LogLine { number: index as u64 + 1, text: shown_part(log.line(index), at) }
    };
    shown.into_iter().take(SHOWN_LINES).map(line).collect()
}

/// Returns a line; of a long one, the part around `at`, cut at spaces.
fn shown_part(line: &[u8], at: usize) -> String {
    let from = at.saturating_sub(SHOWN / 4);
    let (line, before) = match memchr::memchr(b' ', &line[from..at]) {
        Some(space) if from > 0 && line.len() > SHOWN => (&line[from + space..], "…"),
        _ if from > 0 && line.len() > SHOWN => (&line[at..], "…"),
        _ => (line, ""),
    };
    if line.len() <= SHOWN {
        return format!("{before}{}", String::from_utf8_lossy(line.trim_ascii()));
    }
    let cut = memchr::memrchr(b' ', &line[..SHOWN]).filter(|end| *end > SHOWN / 2);
    let shown = line[..cut.unwrap_or(SHOWN)].trim_ascii();
    format!("{before}{}…", String::from_utf8_lossy(shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_that_quotes_the_line_comes_first_and_other_quotes_are_left_out() {
        let advice =
            ["always", "`MPI_`, `ompi_`: link MPI", "`fmt::`: link fmt", "`x` is: no quote"];
        let told = |line: &str| {
            let line = LogLine { number: 1, text: line.to_owned() };
            for_lines(advice.map(str::to_owned).to_vec(), &[line])
        };
        assert_eq!(told("undefined: MPI_Init"), [advice[1], advice[0], advice[3]]);
        assert_eq!(told("undefined: other"), [advice[0], advice[3]]);
    }

    #[test]
    fn the_part_of_a_long_line_that_decides_is_shown() {
        assert_eq!(shown_part(b" short /a/b ", 3), "short /a/b");
        let long = format!("{} here: /a/long/path {}", "word ".repeat(200), "more ".repeat(200));
        let shown = shown_part(long.as_bytes(), long.find("here").unwrap_or_default());
        assert!(shown.contains("here: /a/long/path more") && shown.len() <= SHOWN + 6, "{shown}");
        assert!(shown.starts_with("…word") && shown.ends_with("more…"), "{shown}");
        let first = shown_part(long.as_bytes(), 0);
        assert!(first.starts_with("word word") && first.ends_with("word…"), "{first}");
        let one = "x".repeat(900);
        assert_eq!(shown_part(one.as_bytes(), 500).chars().count(), SHOWN + 1);
    }
}
