//! Weighs the matches of patterns, in the order of the log.

use std::collections::BTreeMap;

use super::advice::told;
use super::times::are_far_apart;
use super::{Diagnosis, Failures, LogLine, Pattern, Speech, StatedErrors, Use};

/// The state of a failure while a log is read.
#[derive(Debug, Clone, Default)]
struct Trace {
    /// The first lines that show it, which counter-evidence can still cancel.
    pending: Option<Vec<LogLine>>,
    /// The first lines that no counter-evidence cancelled.
    confirmed: Option<Vec<LogLine>>,
    /// The number of the last line that showed it.
    at: Option<u64>,
    /// Lines that tell more about it.
    details: Vec<LogLine>,
    /// Whether a sign of its subject was close to it.
    is_near: bool,
    /// The number of lines with one of its patterns.
    count: u64,
    /// The number of the last line that was counted.
    counted: Option<u64>,
}

/// The number of lines that tell more about a failure.
const DETAILS: usize = 2;
/// How many lines from the failure they may be.
const DETAILS_WITHIN: u64 = 200;

/// The state of a subject.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// The last line with a sign.
    pub(super) sign: Option<u64>,
    /// Whether a pattern of `against` matched.
    pub(super) is_doubtful: bool,
}

/// The state of all failures while a log is read.
#[derive(Debug)]
pub(super) struct Judge<'f> {
    failures: &'f Failures,
    traces: Vec<Trace>,
    subjects: Vec<Seen>,
    /// The last line that each pattern matched.
    last: Vec<Option<u64>>,
    /// That line's text, for failures that need several lines.
    texts: Vec<Option<LogLine>>,
    /// The failures without a sign of their subject close to them so far.
    distant: Vec<usize>,
    /// The lines that state an error.
    errors: StatedErrors,
    /// The lines that state an error that only follows from another one.
    follow_ups: StatedErrors,
}

/// A line that states an error.
#[derive(Debug)]
pub(super) struct Quote {
    /// The line, with the lines that continue it.
    pub(super) text: String,
    /// Whether it only follows from another error.
    pub(super) is_follow_up: bool,
}

/// Returns whether line `number` comes at most `within` lines after `line`.
fn is_close(line: Option<u64>, number: u64, within: u64) -> bool {
    line.is_some_and(|line| number - line <= within)
}

impl<'f> Judge<'f> {
    pub(super) fn new(failures: &'f Failures) -> Self {
        let patterns = failures.patterns.len();
        Self {
            failures,
            traces: vec![Trace::default(); failures.all.len()],
            subjects: vec![Seen::default(); failures.subjects.len()],
            last: vec![None; patterns],
            texts: vec![None; patterns],
            distant: Vec::new(),
            errors: StatedErrors::default(),
            follow_ups: StatedErrors::default(),
        }
    }

    /// Returns whether the pattern was already found in the line with that number, or in any line
    /// if once is enough, or is only a sign of subjects that this line has a sign of.
    pub(super) fn has(&self, pattern: usize, number: u64) -> bool {
        let Pattern { uses, is_once, .. } = &self.failures.patterns[pattern];
        let is_known = |one: &Use| match one {
            Use::Sign(subject) => self.subjects[*subject].sign == Some(number),
            _ => false,
        };
        self.last[pattern].is_some_and(|last| *is_once || last == number)
            || uses.iter().all(is_known)
    }

    /// Records a match. `speech` returns what the line says of failures, `text` appends it in the
    /// form that is shown, and `quote` returns it as an error.
    pub(super) fn take(
        &mut self,
        pattern: usize,
        number: u64,
        speech: impl FnOnce() -> Speech,
        text: impl Fn(&mut String),
        quote: impl Fn() -> Quote,
    ) {
        let failures = self.failures;
        let uses = &failures.patterns[pattern].uses;
        let shows = |one: &Use| matches!(one, Use::Line(_) | Use::Error);
        let speech = if uses.iter().any(shows) { speech() } else { Speech::Report };
        let is_evidence = speech == Speech::Report;
        if is_evidence {
            self.last[pattern] = Some(number);
        }
        for one in uses {
            match *one {
                Use::Line(failure) if is_evidence => self.line(failure, pattern, number, &text),
                Use::Error if speech != Speech::Mention => self.error(number, &quote),
                Use::Line(_) | Use::Error => {}
                Use::Unless(failure) => {
                    let within = failures.all[failure].proof.within;
                    let trace = &mut self.traces[failure];
                    trace.settle(number, within);
                    trace.pending = None;
                }
                Use::Detail(failure) => self.traces[failure].detail(number, &text),
                Use::Sign(subject) => {
                    self.subjects[subject].sign = Some(number);
                    self.sign(subject, number);
                }
                Use::Against(subject) => self.subjects[subject].is_doubtful = true,
            }
        }
    }

    /// Handles a line that states an error.
    fn error(&mut self, number: u64, quote: &impl Fn() -> Quote) {
        let is_known =
            |all: &StatedErrors| all.lines.last().is_some_and(|one| one.number == number);
        if is_known(&self.errors) || is_known(&self.follow_ups) {
            return;
        }
        let Quote { text, is_follow_up } = quote();
        let all = if is_follow_up { &mut self.follow_ups } else { &mut self.errors };
        all.add(LogLine { number, text });
    }

    /// Handles a line that matches a pattern of a failure.
    fn line(&mut self, failure: usize, pattern: usize, number: u64, text: &impl Fn(&mut String)) {
        let proof = &self.failures.all[failure].proof;
        let trace = &mut self.traces[failure];
        // A line may match several of its patterns.
        trace.count += u64::from(trace.counted.replace(number) != Some(number));
        trace.settle(number, proof.within);
        let is_first = trace.confirmed.is_none() && trace.pending.is_none();
        if !is_first && (trace.is_near || proof.about.is_none()) {
            return;
        }
        if proof.needs_all {
            // The memory of the last line is used again.
            let line = self.texts[pattern].get_or_insert_with(LogLine::default);
            line.number = number;
            line.text.clear();
            text(&mut line.text);
            if !proof.lines.iter().all(|part| is_close(self.last[*part], number, proof.within)) {
                return;
            }
        }
        let is_denied = |one: &usize| is_close(self.last[*one], number, proof.within);
        if proof.unless.iter().any(is_denied) {
            return;
        }
        trace.at = Some(number);
        if is_first {
            let mut lines: Vec<LogLine> = if proof.needs_all {
                proof.lines.iter().filter_map(|part| self.texts[*part].clone()).collect()
            } else {
                let mut line = LogLine { number, text: String::new() };
                text(&mut line.text);
                vec![line]
            };
            lines.sort_by_key(|line| line.number);
            lines.dedup_by_key(|line| line.number);
            trace.pending = Some(lines);
        }
        if let Some(subject) = proof.about {
            trace.is_near |= is_close(self.subjects[subject].sign, number, proof.within);
            if !trace.is_near && !self.distant.contains(&failure) {
                self.distant.push(failure);
            }
        }
    }

    /// Handles a sign of a subject that comes after failures about it.
    fn sign(&mut self, subject: usize, number: u64) {
        let (failures, traces) = (self.failures, &mut self.traces);
        self.distant.retain(|failure| {
            let (proof, trace) = (&failures.all[*failure].proof, &mut traces[*failure]);
            trace.is_near |=
                proof.about == Some(subject) && is_close(trace.at, number, proof.within);
            !trace.is_near
        });
    }

    /// Returns what the log shows.
    pub(super) fn finish(self) -> Verdict<'f> {
        let Self { failures, traces, subjects, errors, follow_ups, .. } = self;
        let (mut shown, mut possible) = (Vec::new(), Vec::new());
        let mut details = BTreeMap::new();
        for (failure, trace) in failures.all.iter().zip(traces) {
            let about =
                failure.proof.about.map(|index| (&failures.subjects[index], &subjects[index]));
            let may_fit = about.is_some_and(|(subject, seen)| seen.is_open(subject));
            let fits = about.is_none_or(|(_, seen)| {
                seen.sign.is_some() && (trace.is_near || !seen.is_doubtful)
            });
            let fits = fits || may_fit && failure.is_presumed;
            let Some(lines) = trace.confirmed.or(trace.pending) else { continue };
            let shown_lines = lines.iter().chain(&trace.details);
            let (cause, fix) = told(failure, &failures.subjects, &subjects, shown_lines);
            details.insert(failure.name.as_str(), trace.details);
            let one = Diagnosis { failure, cause, fix, lines, count: trace.count };
            if fits {
                shown.push(one);
            } else if may_fit && !failure.is_harmless {
                possible.push(one);
            }
        }
        let add_details = |one: &mut Diagnosis<'_>| {
            let first = one.lines.first().map_or(0, |line| line.number);
            let known: Vec<u64> = one.lines.iter().map(|line| line.number).collect();
            let all = details.get(one.failure.name.as_str()).into_iter().flatten();
            let near = all.filter(|line| line.number.abs_diff(first) <= DETAILS_WITHIN);
            one.lines.extend(near.filter(|line| !known.contains(&line.number)).cloned());
        };
        let mut found = causes(shown);
        found.iter_mut().for_each(add_details);
        let mut failed = found.iter().filter(|one| !one.failure.is_harmless).peekable();
        if failed.peek().is_some() {
            let is_unclear = failed.clone().all(|one| one.failure.is_unclear);
            let first = failed.flat_map(|one| &one.lines).map(|line| line.number).min();
            let errors = errors.before(first.filter(|_| is_unclear).unwrap_or_default());
            return Verdict { found, possible: Vec::new(), errors, subjects };
        }
        let mut possible = causes(possible);
        possible.iter_mut().for_each(add_details);
        let errors = if errors.lines.is_empty() { follow_ups } else { errors };
        let errors = errors.without(possible.iter().flat_map(|one| &one.lines));
        Verdict { found, possible, errors, subjects }
    }
}

/// What a log shows.
#[derive(Debug)]
pub(super) struct Verdict<'f> {
    /// The failures, in order of their first line.
    pub(super) found: Vec<Diagnosis<'f>>,
    /// Failures for which the log lacks a sign of their subject, if it shows no other failure.
    pub(super) possible: Vec<Diagnosis<'f>>,
    /// What the log states, if it shows no failure, or only harmless ones; and what it states before
    /// failures without a certain cause.
    pub(super) errors: StatedErrors,
    /// The state of the subjects.
    pub(super) subjects: Vec<Seen>,
}

/// Returns the failures that are no consequence of another one, in order of their first line.
fn causes(shown: Vec<Diagnosis<'_>>) -> Vec<Diagnosis<'_>> {
    let is_consequence = |one: &Diagnosis<'_>| shown.iter().any(|other| other.explains(one));
    let mut found: Vec<Diagnosis<'_>> =
        shown.iter().filter(|one| !is_consequence(one)).cloned().collect();
    found.sort_by_key(|one| one.lines.first().map(|line| line.number));
    found
}

impl StatedErrors {
    /// Adds a line, which replaces the last one if there are two.
    fn add(&mut self, line: LogLine) {
        self.count += 1;
        self.lines.truncate(1);
        self.lines.push(line);
    }

    /// Returns those before line `number`.
    fn before(mut self, number: u64) -> Self {
        self.lines.retain(|line| line.number < number);
        self.count = self.lines.len() as u64;
        self
    }

    /// Returns those that are not among `known`.
    fn without<'a>(mut self, known: impl Iterator<Item = &'a LogLine>) -> Self {
        for one in known {
            let all = self.lines.len();
            self.lines.retain(|line| line.number != one.number);
            self.count -= (all - self.lines.len()) as u64;
        }
        self
    }
}

impl Diagnosis<'_> {
    /// Returns whether `other` may be a consequence of this failure: they are close, also in time,
    /// and it is known to follow this one, which comes first; or its messages name no certain cause,
    /// and this one has a certain cause or comes first.
    fn explains(&self, other: &Self) -> bool {
        let first = |one: &Self| one.lines.first().map(|line| line.number);
        let is_first = first(self) < first(other);
        let follows = is_first && other.follows(self);
        let is_unclear = other.failure.is_unclear
            && (is_first || !(self.failure.is_unclear || self.follows(other)));
        if !(follows || is_unclear) || self.failure.is_harmless || self.failure == other.failure {
            return false;
        }
        let is_close = |one: &LogLine, two: &LogLine| {
            one.number.abs_diff(two.number) <= other.failure.proof.within
                && !are_far_apart(&one.text, &two.text)
        };
        self.lines.iter().any(|one| other.lines.iter().any(|two| is_close(one, two)))
    }

    /// Returns whether this failure is a consequence of `other`, if that comes first.
    fn follows(&self, other: &Self) -> bool {
        self.failure.follows.contains(&other.failure.name)
    }
}

impl Trace {
    /// Records a line that tells more: the last ones before the failure or, if there are fewer, the
    /// first ones after it.
    fn detail(&mut self, number: u64, text: &impl Fn(&mut String)) {
        if self.details.last().is_some_and(|last| last.number == number) {
            return;
        }
        let is_shown = self.confirmed.is_some() || self.pending.is_some();
        if self.details.len() == DETAILS {
            if is_shown {
                return;
            }
            self.details.remove(0);
        }
        let mut line = LogLine { number, text: String::new() };
        text(&mut line.text);
        self.details.push(line);
    }

    /// Confirms pending lines if line `number` is too far away to cancel them.
    fn settle(&mut self, number: u64, within: u64) {
        let is_due =
            |lines: &Vec<LogLine>| lines.last().is_some_and(|line| number - line.number > within);
        if self.pending.as_ref().is_some_and(is_due) {
            let pending = self.pending.take();
            self.confirmed = self.confirmed.take().or(pending);
        }
    }
}
