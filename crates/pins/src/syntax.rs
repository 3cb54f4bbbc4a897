//! Describes what is wrong with a text that is not TOML.
//!
//! The TOML parser reports where it stopped; this module describes the mistake in terms of the line
//! that a person wrote, with the next step. Unknown messages are passed on unchanged.

use std::ops::Range;

use toml::de::Error;

use crate::problem::{Report, Reported, Wrong, floor_char, quote, wrong};

/// The number of TOML mistakes that are reported. Later ones mostly result from the first.
const MOST_PROBLEMS: usize = 20;

/// Reports TOML mistakes; only the first one on each line.
pub(crate) fn add_problems(report: &mut Report<'_>, errors: &[Error]) -> Option<Reported> {
    let mut reported = None;
    let mut lines = Vec::new();
    for error in errors {
        let end = report.text().len();
        let span = error.span().unwrap_or(end..end);
        let line = report.line(span.start);
        if lines.len() == MOST_PROBLEMS || lines.contains(&line) {
            continue;
        }
        lines.push(line);
        let wrong = describe(report.text(), &span, error.message());
        reported = Some(report.add(&span, wrong));
    }
    reported
}

/// Describes the mistake that the parser reports as `message`.
fn describe(text: &str, span: &Range<usize>, message: &str) -> Wrong {
    let start = floor_char(text, span.start);
    let found = found_at(text, start, floor_char(text, span.end).max(start));
    let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[line_start..].lines().next().unwrap_or_default();
    let line = line.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    let whole = quote(line);
    let is_end = !found.starts_with('`');
    let has = |part| message.contains(part);
    if has("duplicate key") {
        let first = first_of(text, line_start, line)
            .map_or(String::new(), |first| format!(", first on line {first}"));
        return wrong(
            format!("{found} is defined twice{first}"),
            "each key and each table can occur only once; remove or rename one of the two",
        );
    }
    let (what, help) = if has("key with no value") {
        (
            format!("{whole} is not a table header or `key = value`"),
            "write `key = \"value\"`, or put `#` in front of a comment",
        )
    } else if has("must be quoted") && is_end || has("missing value") {
        (format!("{whole} has no value"), "write a value after the `=`, or remove the line")
    } else if has("must be quoted") {
        return wrong(
            format!("{found} is text without quotes"),
            format!("write `\"{}\"`", found.trim_matches('`')),
        );
    } else if is_end && (has("invalid basic string") || has("invalid literal string")) {
        (
            format!("the quoted text in {whole} has no closing quote"),
            "put a quote after the text, on the same line",
        )
    } else if has("invalid basic string") || has("invalid comment") {
        (format!("{found} is a character that is not allowed here"), "remove the character")
    } else if has("escape") {
        (
            format!("{whole} has an invalid backslash before {found}"),
            "write `\\\\` for a backslash, or put the text in single quotes",
        )
    } else if has("unclosed table") || has("unclosed array of tables") {
        (
            format!("the table header {whole} is not closed"),
            "a table header is `[kind.name]`, alone on its line",
        )
    } else if has("array") && is_end {
        (
            format!(
                "an array is not closed before {found}, after {}",
                quote(last_line(text, start))
            ),
            "put `]` at its end: `[\"a\", \"b\"]`",
        )
    } else if has("array") {
        (
            format!("an array is incomplete before {found}"),
            "an array is `[\"a\", \"b\"]`: text in quotes, commas between, `]` at the end",
        )
    } else if has("unexpected key or value") {
        (
            format!("{found} follows a complete value"),
            "write one `key = value` per line; text with spaces needs quotes",
        )
    } else if has("cannot extend") {
        (
            format!("{found} is already a value, so it cannot also be a table"),
            "remove the value, or rename the table",
        )
    } else if has("leading zero") {
        (
            format!("the number in {whole} starts with a zero"),
            "remove the zero, or put the value in quotes if it is a string",
        )
    } else if has("date") || has("time") {
        (
            format!("{found} is not a valid date"),
            "write year, month and day without quotes, for example 2026-11-20",
        )
    } else if has("recurs") {
        (
            format!("{found} is nested too deeply for a data file"),
            "a pin is `[kind.name]` with `key = value` lines",
        )
    } else if has("carriage return") {
        (
            format!("there is a carriage return without a newline before {found}"),
            "end each line with a newline, or with carriage return and newline",
        )
    } else {
        (
            format!("{found} is not TOML here: {message}"),
            "a line is a `[table]` header, `key = value`, or a comment after `#`; see https://toml.io/en/v1.0.0",
        )
    };
    wrong(what, help)
}

/// Returns the text at `start..end`, for a message.
fn found_at(text: &str, start: usize, end: usize) -> String {
    let rest_of_line = text[start..].split(['\n', '\r']).next().unwrap_or_default().trim_end();
    match &text[start..end] {
        "" if rest_of_line.is_empty() && text[start..].trim().is_empty() => {
            "the end of the file".to_owned()
        }
        "" if rest_of_line.is_empty() => "the end of the line".to_owned(),
        "" => quote(rest_of_line),
        found => quote(found),
    }
}

/// Returns the last line before `at` that is not empty.
fn last_line(text: &str, at: usize) -> &str {
    text[..at].trim_end().lines().next_back().unwrap_or_default().trim()
}

/// Returns the number of the earlier line with the same key or header as `line`, which starts at
/// the byte `at`.
fn first_of(text: &str, at: usize, line: &str) -> Option<usize> {
    let key_of = |one: &str| one.split('=').next().unwrap_or_default().trim().to_owned();
    let earlier: Vec<&str> = text[..at].lines().map(str::trim).collect();
    let is_header = line.starts_with('[');
    let from = if is_header {
        0
    } else {
        earlier.iter().rposition(|one| one.starts_with('[')).map_or(0, |header| header + 1)
    };
    let key = key_of(line);
    let found = earlier[from..]
        .iter()
        .position(|earlier| key_of(earlier).trim_start_matches('\u{feff}') == key)?;
    Some(from + found + 1)
}
