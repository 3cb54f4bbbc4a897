//! Reads TOML tables with their places, and reports every problem instead of stopping at the first.
//!
//! Start at [`Report`], then [`Table`]. This module knows what TOML is and nothing about patches.
//! A value that is missing or of the wrong type is reported and read as `None`.

use std::ops::Range;

use pins::{ParseError, Problem};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The longest patch file that is read.
const MAX_BYTES: usize = 1 << 20;

/// The number of problems that are kept. More help nobody, and a hostile file could have a million.
const MAX_PROBLEMS: usize = 100;

/// Gathers the problems of one file.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    file: &'a str,
    text: &'a str,
    problems: Vec<Problem>,
}

/// A text and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Text<'t> {
    pub(crate) value: &'t str,
    pub(crate) span: Range<usize>,
}

/// A TOML table and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Table<'t> {
    entries: &'t DeTable<'t>,
    /// How messages name it, in backticks.
    pub(crate) place: &'static str,
    pub(crate) span: Range<usize>,
}

impl<'a> Report<'a> {
    /// Starts the report on `text`, which messages call `file`.
    pub(crate) fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text, problems: Vec::new() }
    }

    /// Parses the whole text as TOML.
    pub(crate) fn document(&mut self) -> Option<DeTable<'a>> {
        if self.text.len() > MAX_BYTES {
            let message = format!("the file is `{}` bytes long", self.text.len());
            self.add(
                &(0..0),
                message,
                format!("a patch file has at most {MAX_BYTES} bytes (1 MiB)"),
            );
            return None;
        }
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in errors.iter().take(10) {
            let end = self.text.len();
            let span = error.span().unwrap_or(end..end);
            let found = match self.text.get(span.clone()) {
                None | Some("") => "the text".to_owned(),
                Some(found) => quote(found),
            };
            let message = format!("{found} is not TOML here: {}", error.message());
            self.add(
                &span,
                message,
                "see https://toml.io/en/v1.0.0; patterns stand in '''three quotes'''",
            );
        }
        errors.is_empty().then(|| table.into_inner())
    }

    /// Adds a problem with the bytes `span`.
    pub(crate) fn add(
        &mut self,
        span: &Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        if self.problems.len() == MAX_PROBLEMS {
            return;
        }
        let floor = |at: usize| {
            (0..=at.min(self.text.len()))
                .rev()
                .find(|at| self.text.is_char_boundary(*at))
                .unwrap_or_default()
        };
        let (start, end) = (floor(span.start), floor(span.end));
        let before = &self.text[..start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        self.problems.push(Problem {
            span: start..end.max(start),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].trim_start_matches('\u{feff}').chars().count() + 1,
            message: message.into(),
            help: help.into(),
        });
    }

    /// Returns how many problems there are so far.
    pub(crate) fn len(&self) -> usize {
        self.problems.len()
    }

    /// Ends the report: the value where nothing was wrong, otherwise all problems in file order.
    pub(crate) fn finish<T>(mut self, value: Option<T>) -> Result<T, ParseError> {
        match value {
            Some(value) if self.problems.is_empty() => Ok(value),
            _ => {
                self.problems.sort_by_key(|problem| (problem.span.start, problem.span.end));
                Err(ParseError { file: self.file.to_owned(), problems: self.problems })
            }
        }
    }
}

impl<'t> Table<'t> {
    /// Returns the table of the whole file.
    pub(crate) fn root(entries: &'t DeTable<'t>) -> Self {
        Self { entries, place: "the file", span: 0..0 }
    }

    fn get(&self, key: &str) -> Option<(&'t DeValue<'t>, Range<usize>)> {
        self.entries.get(key).map(|value| (value.get_ref(), value.span()))
    }

    /// Returns whether there is such a key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Returns where the value of a key stands, or the table if there is none.
    pub(crate) fn span_of(&self, key: &str) -> Range<usize> {
        self.get(key).map_or_else(|| self.span.clone(), |(_, span)| span)
    }

    /// Reports every key that is not one of `known`.
    pub(crate) fn check_keys(&self, report: &mut Report<'_>, known: &[&str]) {
        for key in self.entries.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
            let name = key.get_ref();
            let keys = list(known);
            let help = match nearest(name, known) {
                Some(near) => format!("did you mean `{near}`? The keys are {keys}"),
                None => format!("remove it; the keys are {keys}"),
            };
            report.add(
                &key.span(),
                format!("{} is not a key of {}", quote(name), self.place),
                help,
            );
        }
    }

    /// Reports that `key` is missing; `example` is a line that would do.
    pub(crate) fn add_missing(&self, report: &mut Report<'_>, key: &str, example: &str) {
        let message = format!("`{key}` is missing from {}", self.place);
        report.add(&self.span, message, format!("add a line such as `{example}`"));
    }

    /// Reads the text behind `key`, where there is one.
    pub(crate) fn text(&self, report: &mut Report<'_>, key: &str) -> Option<Text<'t>> {
        let (value, span) = self.get(key)?;
        match value {
            DeValue::String(text) if text.is_empty() => {
                report.add(
                    &span,
                    format!("`{key}` is empty: `\"\"`"),
                    "write a value, or remove the line",
                );
                None
            }
            DeValue::String(text) => Some(Text { value: text, span }),
            _ => self.add_type(
                report,
                key,
                value,
                &span,
                "text in quotes",
                &format!("{key} = \"…\""),
            ),
        }
    }

    /// Reads the text behind `key`, which must be there.
    pub(crate) fn need_text(
        &self,
        report: &mut Report<'_>,
        key: &str,
        example: &str,
    ) -> Option<Text<'t>> {
        if !self.has(key) {
            self.add_missing(report, key, example);
        }
        self.text(report, key)
    }

    /// Reads the array of texts behind `key`; nothing there is an empty one. No text stands twice.
    pub(crate) fn texts(&self, report: &mut Report<'_>, key: &str, example: &str) -> Vec<Text<'t>> {
        let Some((value, span)) = self.get(key) else { return Vec::new() };
        let example = format!("{key} = [\"{example}\"]");
        let DeValue::Array(items) = value else {
            self.add_type::<()>(report, key, value, &span, "an array", &example);
            return Vec::new();
        };
        let mut texts: Vec<Text<'t>> = Vec::new();
        for item in items {
            match item.get_ref() {
                DeValue::String(text) if texts.iter().any(|other| other.value == *text) => {
                    report.add(
                        &item.span(),
                        format!("{} stands twice in `{key}`", quote(text)),
                        "remove one of the two",
                    );
                }
                DeValue::String(text) => texts.push(Text { value: text, span: item.span() }),
                other => {
                    self.add_type::<()>(
                        report,
                        key,
                        other,
                        &item.span(),
                        "text in quotes",
                        &example,
                    );
                }
            }
        }
        texts
    }

    /// Reads the whole number behind `key`, where there is one.
    pub(crate) fn integer(&self, report: &mut Report<'_>, key: &str) -> Option<i64> {
        let (value, span) = self.get(key)?;
        let number = match value {
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        number.or_else(|| {
            self.add_type(report, key, value, &span, "a whole number", &format!("{key} = 1"))
        })
    }

    /// Reads the day behind `key`, as `YYYY-MM-DD` without quotes.
    pub(crate) fn need_date(&self, report: &mut Report<'_>, key: &str) -> Option<String> {
        let example = format!("{key} = 2026-11-20");
        let Some((value, span)) = self.get(key) else {
            self.add_missing(report, key, &example);
            return None;
        };
        match value {
            DeValue::Datetime(toml::value::Datetime {
                date: Some(date),
                time: None,
                offset: None,
            }) => Some(date.to_string()),
            _ => self.add_type(report, key, value, &span, "a day", &example),
        }
    }

    /// Reads the table behind `key`, where there is one.
    pub(crate) fn table(
        &self,
        report: &mut Report<'_>,
        key: &str,
        place: &'static str,
    ) -> Option<Self> {
        let (value, span) = self.get(key)?;
        match value {
            DeValue::Table(entries) => Some(Self { entries, place, span }),
            _ => self.add_type(report, key, value, &span, "a table", place.trim_matches('`')),
        }
    }

    /// Reads the array of tables behind `key`; nothing there is an empty one.
    pub(crate) fn tables(
        &self,
        report: &mut Report<'_>,
        key: &str,
        place: &'static str,
    ) -> Vec<Self> {
        let Some((value, span)) = self.get(key) else { return Vec::new() };
        let example = place.trim_matches('`');
        let DeValue::Array(items) = value else {
            self.add_type::<()>(report, key, value, &span, "an array of tables", example);
            return Vec::new();
        };
        let mut tables = Vec::new();
        for item in items {
            match item.get_ref() {
                DeValue::Table(entries) => tables.push(Self { entries, place, span: item.span() }),
                other => {
                    self.add_type::<()>(report, key, other, &item.span(), "a table", example);
                }
            }
        }
        tables
    }

    /// Reads a table whose keys are free and whose values are texts, each with where its key stands.
    pub(crate) fn pairs(&self, report: &mut Report<'_>) -> Vec<(Text<'t>, Text<'t>)> {
        let mut pairs = Vec::new();
        for (key, value) in self.entries {
            let key_text = Text { value: key.get_ref(), span: key.span() };
            match value.get_ref() {
                DeValue::String(text) => {
                    pairs.push((key_text, Text { value: text, span: value.span() }));
                }
                other => {
                    let example = format!("{} = \"…\"", key.get_ref());
                    self.add_type::<()>(
                        report,
                        key.get_ref(),
                        other,
                        &value.span(),
                        "text in quotes",
                        &example,
                    );
                }
            }
        }
        pairs
    }

    /// Reads the values of a table whose keys are free, as whole numbers.
    pub(crate) fn numbers(&self, report: &mut Report<'_>) -> Vec<(Text<'t>, i64)> {
        let keys: Vec<&'t Spanned<std::borrow::Cow<'t, str>>> = self.entries.keys().collect();
        let mut numbers = Vec::new();
        for key in keys {
            if let Some(number) = self.integer(report, key.get_ref()) {
                numbers.push((Text { value: key.get_ref(), span: key.span() }, number));
            }
        }
        numbers
    }

    /// Returns whether the value of `key` is a table.
    pub(crate) fn is_table(&self, key: &str) -> bool {
        matches!(self.get(key), Some((DeValue::Table(_), _)))
    }

    fn add_type<T>(
        &self,
        report: &mut Report<'_>,
        key: &str,
        value: &DeValue<'_>,
        span: &Range<usize>,
        wanted: &str,
        example: &str,
    ) -> Option<T> {
        let source = report.text.get(span.clone()).unwrap_or_default();
        let source = source.lines().next().unwrap_or_default();
        let found = value.type_str();
        let message =
            format!("{} is the {found} {} where {wanted} should stand", quote(key), quote(source));
        report.add(span, message, format!("write `{example}`"));
        None
    }
}

/// Returns `value` in backticks, fit for one line of a terminal.
pub(crate) fn quote(value: &str) -> String {
    const LONGEST: usize = 80;
    let is_unprintable = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    let mut quoted: String = value
        .chars()
        .take(LONGEST)
        .flat_map(|c| if is_unprintable(c) { c.escape_default().collect() } else { vec![c] })
        .collect();
    if value.chars().nth(LONGEST).is_some() {
        quoted.push('…');
    }
    format!("`{quoted}`")
}

/// Returns `a`, `b` and `c` as a phrase, each in backticks.
pub(crate) fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
    }
}

/// Returns the one of `names` that `text` was most likely meant to be, if one is near enough.
pub(crate) fn nearest<'n>(text: &str, names: &[&'n str]) -> Option<&'n str> {
    // Longer texts are not names; comparing them would cost quadratic time.
    if text.len() > 100 {
        return None;
    }
    let distance = |name: &str| strsim::damerau_levenshtein(text, name);
    let near = names.iter().map(|name| (distance(name), *name)).min()?;
    (near.0 <= 1 + near.1.len() / 4).then_some(near.1)
}
