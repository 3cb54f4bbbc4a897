//! Known failures in logs: the catalogue `versions/failures.toml`, and a reader for logs of any
//! size.
//!
//! Start at [`parse_failures`] and [`Failures::diagnose`]. `encoding` reads logs as UTF-8. `scan` searches a log for the fixed text
//! of all patterns at once, and matches only the lines with a hit. `judge` weighs the hits: lines
//! that belong together must be close, counter-evidence cancels them, and the log must show a sign
//! of the failure's subject. A line that only mentions a failure, such as source code, is no
//! evidence, and a failure without a certain cause is reported only if no other one explains it.
//! If nothing in a log names a GPU, failures of AMD GPUs are only possible. `wrapped` joins the
//! lines of a log that a terminal wrapped, if its single lines show no failure. `devices` leaves out the
//! GPUs of a list that did not fail.
//! `advice` chooses the sentences that fit the log. `read` and `assess_read` read the catalogue. If
//! a log shows no known failure, the lines that themselves state an error are shown, and `assess`
//! says which part failed and how, as far as the lines say it.

mod advice;
mod assess;
mod assess_read;
mod devices;
mod encoding;
mod judge;
mod read;
mod scan;
mod texts;
mod times;
mod wrapped;

use std::sync::OnceLock;

use pins::Known;
use regex::bytes::{Captures, Regex, RegexBuilder};

use self::texts::Texts;

use self::assess::Assessor;

pub use assess::Assessment;
pub use encoding::{LogText, NotText};
pub use read::{parse_failures, parse_failures_over};

/// One known failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its name.
    pub name: String,
    /// The cause.
    pub cause: String,
    /// Sentences that continue the cause, for some kinds of logs.
    pub reasons: Vec<String>,
    /// What to do, the most promising first.
    pub fix: Vec<String>,
    /// How it is known.
    pub known: Known,
    /// The source.
    pub evidence: String,
    /// The date on which the source was read, `YYYY-MM-DD`, if the row contains it.
    pub checked: Option<String>,
    /// Whether programs continue normally after it.
    pub is_harmless: bool,
    /// Whether its messages name no certain cause, so that any other failure near it explains it.
    pub is_unclear: bool,
    /// Whether a log that names neither its subject nor another one shows it.
    is_presumed: bool,
    /// The names of failures of which it is a consequence, if they come first.
    follows: Vec<String>,
    proof: Proof,
}

/// The conditions under which a log shows a failure. Patterns are indexes into the catalogue's
/// patterns.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Proof {
    /// The lines that show it.
    lines: Vec<usize>,
    /// Whether all of them must be there; otherwise, one is enough.
    needs_all: bool,
    /// The number of lines over which they may be spread. Counter-evidence counts within the same
    /// distance.
    within: u64,
    /// Counter-evidence.
    unless: Vec<usize>,
    /// Lines near it that tell more about it.
    details: Vec<usize>,
    /// The subject that the log must come from, as an index into the subjects.
    about: Option<usize>,
}

/// The software or hardware that a log can come from, for example ROCm.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Subject {
    /// Patterns that match only such logs.
    signs: Vec<usize>,
    /// Patterns that match other logs. If one of them matches, a sign must be close to the failure.
    against: Vec<usize>,
    /// The beginnings of reasons and of advice that are only for such logs.
    advice: Vec<String>,
    /// What replaces such a beginning if nothing in a log shows whether it comes from the subject.
    unsure: Option<String>,
    /// Whether such advice comes before other advice if a sign matches.
    is_first: bool,
    /// Whether such logs come from Windows, where variables are set with `set`.
    is_windows: bool,
}

/// A pattern of the catalogue.
#[derive(Debug)]
struct Pattern {
    /// The expression; `None` if the pattern is only fixed text.
    expression: Option<Expression>,
    /// What a match means.
    uses: Vec<Use>,
    /// Whether its first match in a log is enough.
    is_once: bool,
}

/// The meaning of a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// The line shows the failure with this index, if necessary together with other lines.
    Line(usize),
    /// The line is evidence against the failure with this index.
    Unless(usize),
    /// The line tells more about the failure with this index.
    Detail(usize),
    /// The line is a sign of the subject with this index.
    Sign(usize),
    /// The line is evidence against the subject with this index.
    Against(usize),
    /// The line states an error.
    Error,
}

/// What a line says of the failures that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speech {
    /// They happened.
    Report,
    /// Their names are unknown to a program, which is an error.
    UnknownName,
    /// Nothing.
    Mention,
}

/// A regular expression on bytes. A log needs few of them, so each is compiled when it is first
/// needed.
#[derive(Debug)]
struct Expression {
    text: String,
    compiled: OnceLock<Option<Regex>>,
}

impl Expression {
    /// Takes a valid expression.
    fn new(text: String) -> Self {
        Self { text, compiled: OnceLock::new() }
    }

    fn is_match(&self, line: &[u8]) -> bool {
        self.regex().is_some_and(|regex| regex.is_match(line))
    }

    fn captures<'l>(&self, line: &'l [u8]) -> Option<Captures<'l>> {
        self.regex().and_then(|regex| regex.captures(line))
    }

    fn regex(&self) -> Option<&Regex> {
        let compile = || {
            // The reader has limited the size.
            let mut builder = RegexBuilder::new(&self.text);
            builder.unicode(false).size_limit(usize::MAX).build().ok()
        };
        self.compiled.get_or_init(compile).as_ref()
    }
}

/// The catalogue.
#[derive(Debug)]
pub struct Failures {
    all: Vec<Failure>,
    subjects: Vec<Subject>,
    patterns: Vec<Pattern>,
    /// The fixed texts of all patterns.
    texts: Texts,
    /// The patterns of each fixed text.
    patterns_of: Vec<Vec<usize>>,
    /// What a line contains that only mentions a failure.
    mentions: Option<Expression>,
    /// What a line contains that says that a name is unknown.
    unknown_names: Option<Expression>,
    /// What a line contains that states an error that only follows from another one.
    follow_ups: Option<Expression>,
    /// What tells who failed, and how.
    assessor: Assessor,
}

/// A known failure that a log shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis<'a> {
    /// The failure.
    pub failure: &'a Failure,
    /// The cause, with the reasons that fit the log.
    pub cause: String,
    /// The advice that fits the log.
    pub fix: Vec<String>,
    /// The lines that show it, in log order, and then lines near them that tell more.
    pub lines: Vec<LogLine>,
    /// The number of lines that match one of its patterns.
    pub count: u64,
}

/// A line of a log. Its text is raw; sanitise it before printing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogLine {
    /// Its number, from 1.
    pub number: u64,
    /// Its text, cut around the match if it is long. The text of a stated error includes the lines
    /// that continue it.
    pub text: String,
}

/// The lines in which a log states an error. Errors that only follow from another one are left out,
/// unless the log states no other one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatedErrors {
    /// The number of such lines.
    pub count: u64,
    /// The first and the last of them: the first is often the cause, the last is what ended the
    /// program.
    pub lines: Vec<LogLine>,
}

/// The result of reading a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnoses<'a> {
    /// The failures in the log, in order of their first appearance.
    pub found: Vec<Diagnosis<'a>>,
    /// Failures that the log shows if it comes from a machine with an AMD GPU. Only for a log in
    /// which nothing names a GPU, and which shows no other failure.
    pub possible: Vec<Diagnosis<'a>>,
    /// What the log states, if it shows no failure, or only harmless ones; and what it states before
    /// failures without a certain cause, which are often only its consequence.
    pub errors: StatedErrors,
    /// Which part failed, and how, if the log shows no failure, or only harmless ones or those
    /// without a certain cause.
    pub assessment: Option<Assessment<'a>>,
    /// The number of lines.
    pub lines: u64,
    /// The number of bytes.
    pub bytes: u64,
}

impl Failures {
    /// Returns the names of all failures.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|failure| failure.name.as_str())
    }
}

impl Diagnoses<'_> {
    /// Returns whether the log shows a failure that is not harmless.
    pub fn has_failure(&self) -> bool {
        self.found.iter().any(|one| !one.failure.is_harmless)
    }

    /// Quotes a line that states an error, if the log shows nothing else.
    fn quote(&mut self, line: LogLine) {
        if self.errors.count == 0 && self.found.is_empty() {
            self.errors = StatedErrors { count: 1, lines: vec![line] };
        }
    }

    /// Returns whether the log shows, or may show, a failure with a certain cause.
    fn is_certain(&self) -> bool {
        let is_certain = |one: &Diagnosis<'_>| !one.failure.is_harmless && !one.failure.is_unclear;
        !self.possible.is_empty() || self.found.iter().any(is_certain)
    }
}
