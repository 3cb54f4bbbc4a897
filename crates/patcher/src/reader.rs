//! Wraps the reader of data files (`pins::reader`) for patch files.
//!
//! A missing or wrong value is reported and read as `None`, so that one run reports everything that
//! is wrong with a patch file. Positions and wording come from `pins::reader`.

use std::ops::Range;

use pins::ParseError;
use pins::form::Form;
use pins::reader::{Entry, Reported, wrong};
use toml::de::DeTable;

pub(crate) use pins::reader::quote;

/// Collects the problems of one file.
#[derive(Debug)]
pub(crate) struct Report<'a>(pins::reader::Report<'a>);

/// A text and its position in the file.
#[derive(Debug, Clone)]
pub(crate) struct Text<'t> {
    pub(crate) value: &'t str,
    pub(crate) span: Range<usize>,
}

/// A TOML table and its position in the file.
#[derive(Debug, Clone)]
pub(crate) struct Table<'t> {
    table: pins::reader::Table<'t>,
    pub(crate) span: Range<usize>,
}

impl<'a> Report<'a> {
    /// Starts a report on `text`, which messages call `file`.
    pub(crate) fn new(file: &'a str, text: &'a str) -> Self {
        Self(pins::reader::Report::new(file, text))
    }

    /// Parses the whole text as TOML.
    pub(crate) fn document(&mut self) -> Option<DeTable<'a>> {
        pins::reader::document(&mut self.0).ok()
    }

    /// Adds a problem at the bytes `span`.
    pub(crate) fn add(
        &mut self,
        span: &Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.0.add(span, wrong(message, help));
    }

    /// Returns the number of problems so far.
    pub(crate) fn len(&self) -> usize {
        self.0.problem_count()
    }

    /// Ends the report: returns the value if there were no problems, otherwise all problems in file
    /// order.
    pub(crate) fn finish<T>(self, value: Option<T>) -> Result<T, ParseError> {
        self.0.finish_option(value)
    }
}

impl<'t> Table<'t> {
    fn new(table: pins::reader::Table<'t>) -> Self {
        Self { table, span: table.span() }
    }

    /// Returns the table of the whole file if its schema is supported.
    pub(crate) fn root(report: &mut Report<'_>, entries: &'t DeTable<'t>) -> Option<Self> {
        pins::reader::Table::root(&mut report.0, entries).ok().map(Self::new)
    }

    /// Returns whether the key exists.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.get(key).is_some()
    }

    /// Returns the position of a key's value, or of the table if the key is missing.
    pub(crate) fn span_of(&self, key: &str) -> Range<usize> {
        self.table.get(key).map_or_else(|| self.span.clone(), |entry| entry.span)
    }

    /// Reports every key that a form does not contain.
    pub(crate) fn check_form(&self, report: &mut Report<'_>, form: &Form) {
        self.table.check_form(&mut report.0, form.keys);
    }

    /// Reports that `key` is missing; `example` is a valid line.
    pub(crate) fn add_missing(&self, report: &mut Report<'_>, key: &str, example: &str) {
        self.table.add_missing(&mut report.0, key, example);
    }

    /// Reads the text of `key`, if present.
    pub(crate) fn text(&self, report: &mut Report<'_>, key: &str) -> Option<Text<'t>> {
        let entry = self.table.get(key)?;
        let text = text(report, &entry)?;
        if text.value.is_empty() {
            let message = format!("`{key}` is empty: `\"\"`");
            report.add(&text.span, message, "write a value, or remove the line");
            return None;
        }
        Some(text)
    }

    /// Reads the text of `key`, which is required.
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

    /// Reads the string array `key`; a missing key is an empty array. Duplicates are reported.
    pub(crate) fn texts(&self, report: &mut Report<'_>, key: &str, example: &str) -> Vec<Text<'t>> {
        let example = format!("write `{key} = [\"{example}\"]`");
        let mut texts: Vec<Text<'t>> = Vec::new();
        for item in self.items(report, key, "an array", &example) {
            match text(report, &item) {
                Some(text) if texts.iter().any(|other| other.value == text.value) => {
                    let message = format!("{} is listed twice in `{key}`", quote(text.value));
                    report.add(&text.span, message, "remove one of the two");
                }
                Some(text) => texts.push(text),
                None => {}
            }
        }
        texts
    }

    /// Reads the whole number of `key`, if present.
    pub(crate) fn integer(&self, report: &mut Report<'_>, key: &str) -> Option<i64> {
        let entry = self.table.get(key)?;
        let number = entry.integer().and_then(|number| i64::try_from(number).ok());
        if number.is_none() {
            entry.add_type(&mut report.0, "a whole number", &format!("write `{key} = 1`"));
        }
        number
    }

    /// Reads the date of `key`, as `YYYY-MM-DD` without quotes.
    pub(crate) fn need_date(&self, report: &mut Report<'_>, key: &str) -> Option<String> {
        if !self.has(key) {
            self.add_missing(report, key, &format!("{key} = 2026-11-20"));
        }
        self.table.date(&mut report.0, key).ok().flatten()
    }

    /// Reads the table of `key`, if present.
    pub(crate) fn table(
        &self,
        report: &mut Report<'_>,
        key: &str,
        place: &'static str,
    ) -> Option<Self> {
        self.table.get(key)?.table(&mut report.0, place).ok().map(Self::new)
    }

    /// Reads the array of tables of `key`; a missing key is an empty array.
    pub(crate) fn tables(
        &self,
        report: &mut Report<'_>,
        key: &str,
        place: &'static str,
    ) -> Vec<Self> {
        let example = format!("write `{}`", place.trim_matches('`'));
        let items = self.items(report, key, "an array of tables", &example);
        let mut table = |item: Entry<'t>| item.table(&mut report.0, place).ok().map(Self::new);
        items.into_iter().filter_map(&mut table).collect()
    }

    /// Reads a table with arbitrary keys and text values, each with the position of its key.
    pub(crate) fn pairs(&self, report: &mut Report<'_>) -> Vec<(Text<'t>, Text<'t>)> {
        let pair = |entry: Entry<'t>| {
            let value = text(report, &entry)?;
            Some((Text { value: entry.key, span: entry.key_span }, value))
        };
        self.table.entries().filter_map(pair).collect()
    }

    /// Reads the values of a table with arbitrary keys, as whole numbers.
    pub(crate) fn numbers(&self, report: &mut Report<'_>) -> Vec<(Text<'t>, i64)> {
        let number = |entry: Entry<'t>| {
            let number = self.integer(report, entry.key)?;
            Some((Text { value: entry.key, span: entry.key_span }, number))
        };
        self.table.entries().filter_map(number).collect()
    }

    /// Returns whether the value of `key` is a table.
    pub(crate) fn is_table(&self, key: &str) -> bool {
        self.table.get(key).is_some_and(|entry| entry.as_table().is_some())
    }

    fn items(
        &self,
        report: &mut Report<'_>,
        key: &str,
        wanted: &str,
        example: &str,
    ) -> Vec<Entry<'t>> {
        let Some(entry) = self.table.get(key) else { return Vec::new() };
        entry.items().unwrap_or_else(|| {
            entry.add_type(&mut report.0, wanted, example);
            Vec::new()
        })
    }
}

/// Reads any text: patterns and inserted lines have no restrictions.
fn text<'t>(report: &mut Report<'_>, entry: &Entry<'t>) -> Option<Text<'t>> {
    let any = |_: &str| Ok(());
    let value: Result<&'t str, Reported> = entry.any_text(&mut report.0, any);
    Some(Text { value: value.ok()?, span: entry.span.clone() })
}

/// Returns `a`, `b` and `c` as a phrase, each in backticks.
pub(crate) fn list(names: &[&str]) -> String {
    pins::reader::list(names.iter().copied())
}

/// Returns the name in `names` that `text` was most likely meant to be, if one is similar enough.
pub(crate) fn nearest<'n>(text: &str, names: &[&'n str]) -> Option<&'n str> {
    pins::reader::nearest(text, names.iter().copied())
}
