//! Chooses the reasons and the advice of a failure that fit a log.

use super::judge::Seen;
use super::{Failure, LogLine, Subject};

/// Returns the cause and the advice of a failure, without what is only for other logs. Advice that
/// names a text of the failure's `lines`, or the program that the log shows, comes first.
pub(super) fn told<'l>(
    failure: &Failure,
    subjects: &[Subject],
    seen: &[Seen],
    lines: impl Iterator<Item = &'l LogLine>,
) -> (String, Vec<String>) {
    let log = Log { subjects, seen, lines: lines.map(|line| line.text.as_str()).collect() };
    let mut cause = failure.cause.clone();
    for reason in log.named(&failure.reasons) {
        if log.is_for_unsure(reason) {
            continue;
        }
        let Some(fitting) = log.fit(reason) else { continue };
        cause.push_str(". ");
        cause.push_str(&if fitting == *reason { fitting } else { sentence(&fitting) });
    }
    let named = log.named(&failure.fix);
    let mut fitting: Vec<(&String, String)> =
        named.iter().filter_map(|text| Some((*text, log.fit(text)?))).collect();
    if fitting.is_empty() {
        // Advice for another kind of log is better than none.
        fitting = failure.fix.iter().map(|text| (text, text.clone())).collect();
    }
    // A line that starts so continues the one before.
    let is_list = fitting.iter().any(|(text, _)| CONTINUES.iter().any(|one| text.starts_with(one)));
    if !is_list {
        fitting.sort_by_key(|(text, _)| log.rank(text));
    }
    (cause, fitting.into_iter().map(|(_, text)| text).collect())
}

/// Returns advice that is not of a failure in the form that fits the log, or `None` if it is for
/// other logs.
pub(super) fn fitting(text: &str, subjects: &[Subject], seen: &[Seen]) -> Option<String> {
    Log { subjects, seen, lines: Vec::new() }.fit(text)
}

/// The beginnings of advice that refers to the line before it.
const CONTINUES: &[&str] = &["or ", "or: ", "then ", "otherwise", "also ", "until then"];

/// What is known of a log.
struct Log<'a> {
    subjects: &'a [Subject],
    seen: &'a [Seen],
    /// The lines that show the failure, and those that tell more about it.
    lines: Vec<&'a str>,
}

impl Log<'_> {
    /// Returns a reason or advice as it is shown for this log, or `None` if it is for other logs.
    fn fit(&self, text: &str) -> Option<String> {
        let mut fitting = text.to_owned();
        for (subject, state) in self.subjects.iter().zip(self.seen) {
            if subject.is_for(text) {
                if !state.may_be(subject) {
                    return None;
                }
                if state.is_open(subject) {
                    fitting = subject.unsure_of(text).unwrap_or(fitting);
                }
            }
            if subject.is_windows && state.is_sure() {
                fitting = for_windows(fitting)?;
            }
        }
        Some(fitting)
    }

    /// Returns whether a text is for a subject that has a sentence for logs that may not come from
    /// it, and this is such a log.
    fn is_for_unsure(&self, text: &str) -> bool {
        let mut all = self.subjects.iter().zip(self.seen).filter(|(one, _)| one.is_for(text));
        all.any(|(one, state)| one.unsure.is_some() && state.is_open(one))
    }

    /// Returns the texts without those that start with a quote that the failure's lines do not
    /// contain, if the lines contain the quote of another text.
    fn named<'t>(&self, texts: &'t [String]) -> Vec<&'t String> {
        let is_any = texts.iter().any(|text| self.has_quote_of(text));
        let is_other = |text: &str| is_any && !quotes(text).is_empty();
        texts.iter().filter(|text| self.has_quote_of(text) || !is_other(text)).collect()
    }

    /// Returns whether the failure's lines contain a text that `text` quotes at its start.
    fn has_quote_of(&self, text: &str) -> bool {
        let is_here = |quote: &str| self.lines.iter().any(|line| has_quote(line, quote));
        quotes(text).into_iter().any(is_here)
    }

    /// Returns the place of advice in the order: first what is especially for this log, last what is
    /// for a subject that the log may not come from.
    fn rank(&self, text: &str) -> usize {
        let all = || self.subjects.iter().zip(self.seen).filter(|(one, _)| one.is_for(text));
        if self.has_quote_of(text) || all().any(|(one, state)| one.is_first && state.is_sure()) {
            return 0;
        }
        if self.is_for_unsure(text) { 2 } else { 1 }
    }
}

/// Returns the texts that the beginning of a reason or of advice quotes, up to its colon.
fn quotes(text: &str) -> Vec<&str> {
    let parts: Vec<&str> = text.split('`').collect();
    let [_, rest @ ..] = &parts[..] else { return Vec::new() };
    // A quote, and the text after it. A quote may contain a colon.
    let mut all = Vec::new();
    for pair in rest.chunks(2) {
        let [quote, after] = pair else { break };
        all.push(*quote);
        if let Some((between, _)) = after.split_once(": ") {
            return if text.starts_with('`') && !between.contains(". ") { all } else { Vec::new() };
        }
    }
    Vec::new()
}

/// Returns whether a line contains a quote, in which `…` stands for any text.
pub(super) fn has_quote(line: &str, quote: &str) -> bool {
    quote.split('…').all(|part| line.contains(part))
}

/// Returns advice for Windows, or `None` if it sets a variable to what only other systems have:
/// `export NAME=VALUE  # why` becomes `set NAME=VALUE (why)`, since `#` starts no comment there.
fn for_windows(text: String) -> Option<String> {
    let Some(variables) = text.strip_prefix("export ") else { return Some(text) };
    let (variables, why) = variables.split_once("  # ").unwrap_or((variables, ""));
    if variables.contains(['/', '$', ';']) {
        return None;
    }
    Some(set(variables, why))
}

/// Returns the commands of Windows that set variables.
fn set(variables: &str, why: &str) -> String {
    let all: Vec<String> =
        variables.split_whitespace().map(|variable| format!("set {variable}")).collect();
    let set = all.join(" and ");
    if why.is_empty() { set } else { format!("{set} ({why})") }
}

/// Returns a text with a capital letter at its start.
fn sentence(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().into_iter().flat_map(char::to_uppercase);
    first.chain(rest.clone()).collect()
}

impl Subject {
    /// Returns whether a reason or advice is only for logs of this subject.
    fn is_for(&self, text: &str) -> bool {
        self.advice.iter().any(|beginning| text.starts_with(beginning.as_str()))
    }

    /// Returns a reason or advice for this subject as a sentence for a log that may come from it.
    fn unsure_of(&self, text: &str) -> Option<String> {
        let rest = self.advice.iter().find_map(|beginning| text.strip_prefix(beginning.as_str()));
        self.unsure.as_ref().zip(rest).map(|(unsure, rest)| format!("{unsure}{rest}"))
    }
}

impl Seen {
    /// Returns whether the log shows the subject and no other one.
    fn is_sure(&self) -> bool {
        self.sign.is_some() && !self.is_doubtful
    }

    /// Returns whether the log may come from the subject: a sign matched, or the subject has
    /// patterns for other logs, and none of them matched.
    pub(super) fn may_be(&self, subject: &Subject) -> bool {
        self.sign.is_some() || self.is_open(subject)
    }

    /// Returns whether nothing in the log says that it comes from the subject or from another one.
    pub(super) fn is_open(&self, subject: &Subject) -> bool {
        self.sign.is_none() && !(self.is_doubtful || subject.against.is_empty())
    }
}
