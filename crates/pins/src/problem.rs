//! The problems in a data file, with their positions.
//!
//! Start at [`ParseError`], which contains every [`Problem`] in one file. `Report` collects them
//! while the file is read. Nothing here renders text for terminals: the command line adds colours
//! and excerpts.

use std::cell::OnceCell;
use std::fmt;
use std::ops::Range;

/// One problem in a data file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The byte range of the problem in the file.
    pub span: Range<usize>,
    /// The line where the span starts, counted from 1.
    pub line: usize,
    /// The column where the span starts, in characters, counted from 1.
    pub column: usize,
    /// The problem, with the value in backticks. It contains no control characters.
    pub message: String,
    /// The correct form, and the next step.
    pub help: String,
}

/// All problems in one data file: at least one, in file order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The file, as the caller named it.
    pub file: String,
    /// The problems.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let Problem { line, column, message, help, .. } = problem;
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{}:{line}:{column}: {message} ({help})", self.file)?;
        }
        Ok(())
    }
}

impl std::error::Error for ParseError {}

/// The problem with a single value, before its position is known.
#[derive(Debug)]
pub struct Wrong {
    /// The problem, with the value in backticks.
    pub message: String,
    /// The correct form, and the next step.
    pub help: String,
}

/// Returns a [`Wrong`] with these two texts.
pub fn wrong(message: impl Into<String>, help: impl Into<String>) -> Wrong {
    Wrong { message: message.into(), help: help.into() }
}

/// The proof that a problem was reported. Only [`Report`] creates it, so a value cannot go missing
/// without a report.
#[derive(Debug, Clone, Copy)]
pub struct Reported(());

/// The number of problems that are kept. More would not help anyone, and a hostile file could have
/// a million.
const MOST_PROBLEMS: usize = 500;

/// Collects the problems in one file.
#[derive(Debug)]
pub struct Report<'a> {
    file: &'a str,
    text: &'a str,
    /// The start of each line. A file without problems does not need it.
    lines: OnceCell<Vec<usize>>,
    problems: Vec<Problem>,
    /// The number of problems beyond [`MOST_PROBLEMS`].
    dropped: usize,
}

impl<'a> Report<'a> {
    /// Starts a report on `text`, which messages call `file`.
    pub fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text, lines: OnceCell::new(), problems: Vec::new(), dropped: 0 }
    }

    /// Returns the text of the file.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Returns the proof of a problem if the report is full, so that the caller stops reading.
    pub fn is_full(&self) -> Option<Reported> {
        (self.problems.len() >= MOST_PROBLEMS).then_some(Reported(()))
    }

    /// Returns the number of problems so far.
    pub fn problem_count(&self) -> usize {
        self.problems.len()
    }

    /// Adds a problem at the bytes `span`.
    pub fn add(&mut self, span: &Range<usize>, wrong: Wrong) -> Reported {
        if let Some(reported) = self.is_full() {
            self.dropped += 1;
            return reported;
        }
        let start = floor_char(self.text, span.start);
        let end = floor_char(self.text, span.end).max(start);
        let line = self.line(start);
        let before = &self.text[self.lines()[line - 1]..start];
        self.problems.push(Problem {
            span: start..end,
            line,
            column: before.trim_start_matches('\u{feff}').chars().count() + 1,
            message: wrong.message,
            help: wrong.help,
        });
        Reported(())
    }

    /// Returns the number of the line that contains the byte `at`, counted from 1.
    pub fn line(&self, at: usize) -> usize {
        self.lines().partition_point(|start| *start <= at)
    }

    fn lines(&self) -> &[usize] {
        self.lines.get_or_init(|| {
            let newlines = self.text.match_indices('\n').map(|(newline, _)| newline + 1);
            std::iter::once(0).chain(newlines).collect()
        })
    }

    /// Ends the report: returns the value if there were no problems.
    ///
    /// # Errors
    /// Returns all problems in the file, in file order.
    pub fn finish<T>(mut self, value: Result<T, Reported>) -> Result<T, ParseError> {
        match value {
            Ok(value) if self.problems.is_empty() => Ok(value),
            Ok(_) | Err(Reported(())) => {
                self.problems.sort_by_key(|problem| (problem.span.start, problem.span.end));
                if let (dropped @ 1.., Some(last)) = (self.dropped, self.problems.last_mut()) {
                    last.help =
                        format!("{}; at least {dropped} more problems are not shown", last.help);
                }
                Err(ParseError { file: self.file.to_owned(), problems: self.problems })
            }
        }
    }
}

impl Report<'_> {
    /// Ends the report of a reader that returns `None` for everything it has reported.
    ///
    /// # Errors
    /// Returns all problems in the file.
    pub fn finish_option<T>(self, value: Option<T>) -> Result<T, ParseError> {
        self.finish(value.ok_or(Reported(())))
    }
}

/// Returns `at`, or the start of the character that contains it.
pub(crate) fn floor_char(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default()
}

/// Returns `character` in backticks, or the words `a space`.
pub(crate) fn named(character: char) -> String {
    match character {
        ' ' => "a space".to_owned(),
        _ => quote(character.encode_utf8(&mut [0; 4])),
    }
}

/// Returns `value` in backticks, safe for one line of a terminal and for a log that others read:
/// control characters and marks that change the reading direction are escaped, possible secrets are
/// hidden (with the rules of [`names::mask`]), and a long text is shortened.
pub fn quote(value: &str) -> String {
    const LONGEST: usize = 80;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.[]".contains(&byte);
    if value.len() <= LONGEST && value.bytes().all(is_name) {
        return format!("`{value}`");
    }
    let value = names::mask(value);
    let mut quoted = String::from("`");
    for (index, character) in value.chars().enumerate() {
        if index == LONGEST {
            quoted.push('…');
            break;
        }
        match character {
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            _ if is_unprintable(character) => quoted.push_str(&code(character)),
            _ => quoted.push(character),
        }
    }
    quoted.push('`');
    quoted
}

/// Returns `character` as a TOML escape.
pub(crate) fn code(character: char) -> String {
    match u32::from(character) {
        code @ ..=0xffff => format!("\\u{code:04x}"),
        code => format!("\\U{code:08x}"),
    }
}

/// Returns whether a terminal would interpret `character` instead of showing it.
pub(crate) fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Returns the name in `names` that `text` was most likely meant to be, if one is similar enough.
pub fn nearest<'a>(text: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Longer texts are not names, and comparing them with every name would take quadratic time.
    if text.len() > 100 {
        return None;
    }
    let plain = |spelling: &str| spelling.to_ascii_lowercase().replace('_', "-");
    let wanted = plain(text);
    names
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&wanted, &plain(name)), name))
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4)
        .min()
        .map(|(_, name)| name)
}

/// Returns whether two different names have at least their first letter in common, and at most two
/// characters are missing, added or different.
pub fn is_near(text: &str, name: &str) -> bool {
    let is_similar =
        text.len().abs_diff(name.len()) <= 2 && text.chars().next() == name.chars().next();
    is_similar && text != name && strsim::damerau_levenshtein(text, name) <= 2
}

/// Returns `a`, `b` and `c` as a phrase, each in backticks.
pub fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quote_shows_what_a_terminal_would_act_on() {
        assert_eq!(quote("a\u{1b}[31m\nb\u{202e}c"), "`a\\u001b[31m\\nb\\u202ec`");
        assert_eq!(quote(&"x".repeat(100)).chars().count(), 83);
    }

    #[test]
    fn quote_hides_what_may_be_a_secret() {
        assert_eq!(quote("https://me:secret@host/a?b"), "`https://***@host/a?***`");
        let long = format!("https://me:{}@host/a", "s".repeat(200));
        assert_eq!(quote(&long), "`https://***@host/a`");
    }

    #[test]
    fn near_names_differ_by_at_most_two_characters() {
        for (text, expected) in [
            ("HSA_ENABLE_SIWA", true),
            ("HSA_ENABLE_SDM", true),
            ("HSA_ENABLE_SDMA", false),
            ("HSA_ENABLE_XYZA", false),
            ("HSA_ENABLE_SDMA_X1", false),
            ("ASA_ENABLE_SDMA", false),
        ] {
            assert_eq!(is_near(text, "HSA_ENABLE_SDMA"), expected, "{text}");
        }
    }

    #[test]
    fn nearest_finds_a_typing_mistake_and_nothing_far() {
        let names = ["vllm", "vllm-legacy", "pytorch"];
        assert_eq!(nearest("vlm", names), Some("vllm"));
        assert_eq!(nearest("PyTroch", names), Some("pytorch"));
        assert_eq!(nearest("vllm_legacy", names), Some("vllm-legacy"));
        assert_eq!(nearest("ollama", names), None);
        assert_eq!(nearest("", names), None);
    }

    #[test]
    fn columns_count_characters_and_not_the_byte_order_mark() {
        let text = "\u{feff}ä = 1\r\nöö x";
        let mut report = Report::new("f", text);
        report.add(&(3..5), wrong("a", "b"));
        report.add(&(text.len() - 1..text.len()), wrong("c", "d"));
        let error = report.finish(Ok(())).unwrap_err();
        let places: Vec<_> = error.problems.iter().map(|p| (p.line, p.column)).collect();
        assert_eq!(places, [(1, 1), (2, 4)]);
    }
}
