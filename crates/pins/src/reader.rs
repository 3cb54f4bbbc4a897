//! Reads TOML tables with their positions. Reports every problem instead of stopping at the first.
//!
//! Start at [`Report`] and [`document`], then [`Table`]. This module handles TOML, but not pins:
//! `checks` and the module of each file check the values. It is `pub` only for the project's other
//! data files, such as patches, so that all of them locate and word problems in the same way. Its
//! interface is not stable.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::checks;
pub use crate::checks::program;
use crate::form::Key;
use crate::problem::is_unprintable;
pub use crate::problem::{Report, Reported, Wrong, is_near, list, nearest, quote, wrong};
use crate::syntax;

/// The maximum size of a data file: 4 MiB. This project's largest file has about 1 MB; a file over
/// the limit is a mistake.
const LONGEST_FILE: usize = 4 << 20;

/// The format version of the data files that this program reads and writes.
const SCHEMA: i128 = 1;

/// A TOML table and its position in the file.
#[derive(Debug, Clone, Copy)]
pub struct Table<'t> {
    entries: &'t DeTable<'t>,
    place: &'t str,
    span: (usize, usize),
}

/// One `key = value` of a table.
#[derive(Debug, Clone)]
pub struct Entry<'t> {
    /// The key.
    pub key: &'t str,
    /// The position of the key.
    pub key_span: Range<usize>,
    /// The position of the value.
    pub span: Range<usize>,
    value: &'t DeValue<'t>,
    /// Whether it is an item of the array in `key`.
    is_item: bool,
}

/// Parses the whole text as TOML. [`Table::root`] then reads it.
///
/// # Errors
/// Fails after adding the problems to the report.
pub fn document<'a>(report: &mut Report<'a>) -> Result<DeTable<'a>, Reported> {
    let text = report.text();
    if text.len() > LONGEST_FILE {
        let message = format!("the file is `{}` bytes long", text.len());
        let help =
            format!("a data file has at most {LONGEST_FILE} bytes (4 MiB); is it the right file?");
        return Err(report.add(&(0..0), wrong(message, help)));
    }
    if let Some(at) = text.find('\0') {
        let what = wrong("the file contains the character NUL", "remove it; a data file is text");
        return Err(report.add(&(at..at + 1), what));
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    match syntax::add_problems(report, &errors) {
        None => Ok(table.into_inner()),
        Some(reported) => Err(reported),
    }
}

impl<'t> Table<'t> {
    /// Returns the table of the whole file if its `schema` is supported. A missing `schema` is only
    /// reported.
    ///
    /// # Errors
    /// Fails after adding the problem to the report.
    pub fn root(report: &mut Report<'_>, entries: &'t DeTable<'t>) -> Result<Self, Reported> {
        let table = Self { entries, place: "the file", span: (0, 0) };
        let example = format!("schema = {SCHEMA}");
        let Some(entry) = table.get("schema") else {
            // The rest is still read: a missing `schema` should not hide everything else.
            table.add_missing(report, "schema", &example);
            return Ok(table);
        };
        let Some(number) = entry.integer() else {
            return Err(entry.add_type(report, "a whole number", &format!("write `{example}`")));
        };
        let (what, help) = match number.cmp(&SCHEMA) {
            Ordering::Equal => return Ok(table),
            Ordering::Greater => (
                "was made for a newer build-pipeline",
                format!(
                    "this build-pipeline reads schema {SCHEMA}; update build-pipeline; nothing was changed"
                ),
            ),
            Ordering::Less => ("does not exist", format!("write `{example}`")),
        };
        let message = format!("schema {} {what}", entry.source(report));
        Err(report.add(&entry.span, wrong(message, help)))
    }

    /// Returns the name of the table for messages: `the file`, or its header in backticks.
    pub fn place(&self) -> &'t str {
        self.place
    }

    /// Returns the position of the table's header.
    pub fn span(&self) -> Range<usize> {
        self.span.0..self.span.1
    }

    /// Returns the entries, sorted by key.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'t>> + use<'t> {
        self.entries.iter().map(|(key, value)| Entry::new(key, value))
    }

    /// Returns the entry with that key.
    pub fn get(&self, key: &str) -> Option<Entry<'t>> {
        self.entries.get_key_value(key).map(|(key, value)| Entry::new(key, value))
    }

    /// Looks for an entry `key = "text"` in the table and all tables below it.
    pub fn find_text(&self, key: &str, text: &str) -> Option<Entry<'t>> {
        let mut open: Vec<Entry<'t>> = self.entries().collect();
        while let Some(entry) = open.pop() {
            if entry.key == key && entry.text() == Some(text) {
                return Some(entry);
            }
            let below = entry.as_table().into_iter().flat_map(|table| table.entries());
            open.extend(entry.items().into_iter().flatten().chain(below));
        }
        None
    }

    /// Reports every key that is not one of `known`.
    pub fn check_keys(&self, report: &mut Report<'_>, known: &[&str]) {
        for entry in self.entries().filter(|entry| !known.contains(&entry.key)) {
            if report.is_full().is_some() {
                return;
            }
            let message = format!("{} is not a key of {}", quote(entry.key), self.place);
            let known_keys = list(known.iter().copied());
            let help = match nearest(entry.key, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`? The keys are {known_keys}"),
                None if entry.as_table().is_some() && self.span.1 > 0 => {
                    "a `.` in a header starts a nested table; in a name, write `-`".to_owned()
                }
                None => format!("remove it; the keys are {known_keys}"),
            };
            report.add(&entry.key_span, wrong(message, help));
        }
    }

    /// Reports every key that the groups do not contain.
    pub fn check_form(&self, report: &mut Report<'_>, groups: &[&[Key]]) {
        let known: Vec<&str> = groups.iter().copied().flatten().map(|key| key.name).collect();
        self.check_keys(report, &known);
    }

    /// Reports that `key` is missing; `example` is a valid line.
    pub fn add_missing(&self, report: &mut Report<'_>, key: &str, example: &str) -> Reported {
        let message = format!("`{key}` is missing from {}", self.place);
        report.add(&self.span(), wrong(message, format!("add a line such as `{example}`")))
    }

    /// Reads the text of `key`, which is required.
    ///
    /// # Errors
    /// Fails after adding the problem to the report.
    pub fn required<T>(
        &self,
        report: &mut Report<'_>,
        key: &str,
        example: &str,
        check: impl Fn(&str) -> Result<T, Wrong>,
    ) -> Result<T, Reported> {
        match self.optional(report, key, check)? {
            Some(value) => Ok(value),
            None => Err(self.add_missing(report, key, example)),
        }
    }

    /// Reads the text of `key`, if present.
    ///
    /// # Errors
    /// Fails after adding the problem to the report.
    pub fn optional<T>(
        &self,
        report: &mut Report<'_>,
        key: &str,
        check: impl Fn(&str) -> Result<T, Wrong>,
    ) -> Result<Option<T>, Reported> {
        self.get(key).map(|entry| entry.checked_text(report, check)).transpose()
    }

    /// Reads the boolean of `key`; a missing key means `false`.
    ///
    /// # Errors
    /// Fails after adding the problem to the report.
    pub fn flag(&self, report: &mut Report<'_>, key: &str) -> Result<bool, Reported> {
        let Some(entry) = self.get(key) else { return Ok(false) };
        match entry.value {
            DeValue::Boolean(value) => Ok(*value),
            _ => Err(entry.add_type(
                report,
                "`true` or `false`",
                &format!("write `{key} = true`, or remove the line"),
            )),
        }
    }

    /// Reads the date of `key`, as `YYYY-MM-DD`.
    ///
    /// # Errors
    /// Fails after adding the problem to the report.
    pub fn date(&self, report: &mut Report<'_>, key: &str) -> Result<Option<String>, Reported> {
        let Some(entry) = self.get(key) else { return Ok(None) };
        let DeValue::Datetime(value) = entry.value else {
            let help = match entry.text().filter(|text| checks::date(text).is_ok()) {
                Some(day) => format!("write it without quotes: `{key} = {day}`"),
                None => format!("write a date without quotes, for example `{key} = 2026-11-20`"),
            };
            return Err(entry.add_type(report, "a date", &help));
        };
        match (entry.day(), value.time) {
            (Some(day), None) => {
                checks::date(&day).map(Some).map_err(|wrong| report.add(&entry.span, wrong))
            }
            (day, _) => {
                let day = day.unwrap_or_else(|| "2026-11-20".to_owned());
                Err(entry.add_type(report, "a day", &format!("write `{key} = {day}`")))
            }
        }
    }

    /// Reads the array of strings in `key`; a missing key means an empty array. Duplicates are
    /// reported.
    ///
    /// # Errors
    /// Fails after adding the problem to the report.
    pub fn texts<T>(
        &self,
        report: &mut Report<'_>,
        key: &str,
        example: &str,
        check: impl Fn(&str) -> Result<T, Wrong>,
    ) -> Result<Vec<T>, Reported> {
        let Some(entry) = self.get(key) else { return Ok(Vec::new()) };
        let Some(items) = entry.items() else {
            let example = entry.text().unwrap_or(example);
            let help = quote(&format!("{key} = [\"{example}\"]"));
            return Err(entry.add_type(report, "an array", &format!("write {help}")));
        };
        let mut texts = Vec::new();
        let mut seen = BTreeSet::new();
        let mut failed = None;
        for item in items {
            if let Some(reported) = report.is_full() {
                return Err(reported);
            }
            match item.checked_text(report, &check) {
                Ok(_) if !seen.insert(item.text()) => {
                    let message = format!("{} is listed twice in `{key}`", item.source(report));
                    let help = "remove one of the two";
                    failed = Some(report.add(&item.span, wrong(message, help)));
                }
                Ok(text) => texts.push(text),
                Err(reported) => failed = Some(reported),
            }
        }
        failed.map_or(Ok(texts), Err)
    }
}

impl<'t> Entry<'t> {
    fn new(key: &'t Spanned<std::borrow::Cow<'t, str>>, value: &'t Spanned<DeValue<'t>>) -> Self {
        Self {
            key: key.get_ref(),
            key_span: key.span(),
            span: value.span(),
            value: value.get_ref(),
            is_item: false,
        }
    }

    /// Returns the first line of the value as the file spells it, in backticks.
    pub fn source(&self, report: &Report<'_>) -> String {
        let source = report.text().get(self.span.clone()).unwrap_or_default();
        let unquoted = match self.value {
            DeValue::String(text) => text,
            _ => source.split(['\n', '\r']).next().unwrap_or_default(),
        };
        quote(unquoted)
    }

    /// Returns the value if it is a string.
    pub fn text(&self) -> Option<&'t str> {
        match self.value {
            DeValue::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the items of the value if it is an array.
    pub fn items(&self) -> Option<Vec<Self>> {
        let DeValue::Array(items) = self.value else { return None };
        let item = |item: &'t Spanned<DeValue<'t>>| Self {
            value: item.get_ref(),
            span: item.span(),
            is_item: true,
            ..self.clone()
        };
        Some(items.iter().map(item).collect())
    }

    /// Returns the value if it is a whole number; a number that is too large is clamped to the
    /// range of `i128`.
    pub fn integer(&self) -> Option<i128> {
        match self.value {
            DeValue::Integer(number) => {
                let digits = number.as_str();
                let cut = if digits.starts_with('-') { i128::MIN } else { i128::MAX };
                Some(i128::from_str_radix(digits, number.radix()).unwrap_or(cut))
            }
            _ => None,
        }
    }

    /// Returns the value if it is a table, without reporting problems.
    pub fn as_table(&self) -> Option<Table<'t>> {
        let span = (self.key_span.start, self.key_span.end);
        match self.value {
            DeValue::Table(entries) => Some(Table { entries, place: self.key, span }),
            _ => None,
        }
    }

    /// Returns the date of the value as `YYYY-MM-DD`, if it has one.
    pub fn day(&self) -> Option<String> {
        match self.value {
            DeValue::Datetime(value) => {
                value.date.map(|date| format!("{:04}-{:02}-{:02}", date.year, date.month, date.day))
            }
            _ => None,
        }
    }

    /// Returns the value as a table that messages call `place`.
    ///
    /// # Errors
    /// Fails after adding the problem to the report.
    pub fn table(&self, report: &mut Report<'_>, place: &'t str) -> Result<Table<'t>, Reported> {
        match self.value {
            DeValue::Table(entries) => {
                let span = if self.is_item { &self.span } else { &self.key_span };
                Ok(Table { entries, place, span: (span.start, span.end) })
            }
            _ => Err(self.add_type(
                report,
                "a table",
                &format!("write `{}`", place.trim_matches('`')),
            )),
        }
    }

    /// Returns the value as a string without checking its content. If it is not a string, `check`
    /// decides whether only the quotes are missing.
    ///
    /// # Errors
    /// Fails after adding the problem to the report.
    pub fn any_text<T>(
        &self,
        report: &mut Report<'_>,
        check: impl FnOnce(&str) -> Result<T, Wrong>,
    ) -> Result<&'t str, Reported> {
        if let Some(text) = self.text() {
            return Ok(text);
        }
        let source = report.text().get(self.span.clone()).unwrap_or_default().trim();
        let help = match self.value {
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Datetime(_) => match check(source) {
                Ok(_) => format!("write it in quotes: `\"{source}\"`"),
                Err(wrong) => wrong.help,
            },
            _ => "write a string in quotes, or remove the line".to_owned(),
        };
        Err(self.add_type(report, "text in quotes", &help))
    }

    /// Returns the value of a string that `check` accepts. Refuses an empty string, line breaks,
    /// invisible characters and surrounding spaces.
    ///
    /// # Errors
    /// Fails after adding the problem to the report.
    pub fn checked_text<T>(
        &self,
        report: &mut Report<'_>,
        check: impl Fn(&str) -> Result<T, Wrong>,
    ) -> Result<T, Reported> {
        let key = self.key;
        let text = self.any_text(report, &check)?;
        let is_ascii_line = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        let problem = if text.is_empty() {
            wrong(format!("`{key}` is empty: `\"\"`"), "write a value, or remove the line")
        } else if !is_ascii_line && text.contains('\n') {
            let message = format!("`{key}` has more than one line: {}", quote(text));
            wrong(message, "write it on one line")
        } else if !is_ascii_line && text.contains(is_unprintable) {
            let message = format!("`{key}` contains an invisible character: {}", quote(text));
            wrong(message, "remove the character that the message shows with a backslash")
        } else if text.trim() != text {
            let message = format!("`{key}` has a space at its start or end: {}", quote(text));
            wrong(message, format!("write {}", quote(text.trim())))
        } else {
            match check(text) {
                Ok(value) => return Ok(value),
                Err(wrong) => wrong,
            }
        };
        Err(report.add(&self.span, problem))
    }

    /// Reports that the value has the wrong type.
    pub fn add_type(&self, report: &mut Report<'_>, wanted: &str, help: &str) -> Reported {
        let found = match self.value {
            DeValue::String(_) => "the text",
            DeValue::Integer(_) => "the number",
            DeValue::Float(_) => "the decimal number",
            DeValue::Boolean(_) => "the boolean",
            DeValue::Datetime(value) if value.time.is_some() => "the time",
            DeValue::Datetime(_) => "the date",
            DeValue::Array(_) => "the array",
            DeValue::Table(_) => "the table",
        };
        let name =
            if self.is_item { format!("an item of {}", quote(self.key)) } else { quote(self.key) };
        let source = self.source(report);
        let message = format!("{name} is {found} {source}, but should be {wanted}");
        report.add(&self.span, wrong(message, help))
    }
}

/// Reads the `entries` one by one; every failure is reported before the first is returned.
///
/// # Errors
/// Fails after adding the problems to the report.
pub fn collect<'t, K: Ord, V>(
    report: &mut Report<'_>,
    entries: impl Iterator<Item = Entry<'t>>,
    mut read: impl FnMut(&mut Report<'_>, &Entry<'t>) -> Result<(K, V), Reported>,
) -> Result<BTreeMap<K, V>, Reported> {
    let mut values = BTreeMap::new();
    let mut failed = None;
    for entry in entries {
        if let Some(reported) = report.is_full() {
            return Err(reported);
        }
        match read(report, &entry) {
            Ok((key, value)) => {
                values.insert(key, value);
            }
            Err(reported) => failed = Some(reported),
        }
    }
    failed.map_or(Ok(values), Err)
}
