//! Says what is wrong with a text that is not TOML.
//!
//! The TOML parser knows where it stopped; these texts say it in terms of the line a person wrote,
//! with the next step. A message that is not known here is passed on as it is.

use std::ops::Range;

use toml::de::Error;

use crate::problem::{Report, Reported, Wrong, floor_char, quote, wrong};

/// The number of TOML mistakes that are reported. More are mostly echoes of the first ones.
const MOST_PROBLEMS: usize = 20;

/// Adds what is not TOML; of the mistakes on one line only the first.
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

/// Describes the mistake that the parser calls `message`.
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
            format!("{found} stands twice{first}"),
            "each key and each table stands once; remove or rename one of the two",
        );
    }
    let (what, help) = if has("key with no value") {
        (
            format!("{whole} is neither a table header nor `key = value`"),
            "write `key = \"value\"`, or put `#` in front of a comment",
        )
    } else if has("must be quoted") && is_end || has("missing value") {
        (format!("{whole} has no value"), "write a value behind the `=`, or remove the line")
    } else if has("must be quoted") {
        return wrong(
            format!("{found} is text without quotes"),
            format!("write `\"{}\"`", found.trim_matches('`')),
        );
    } else if is_end && (has("invalid basic string") || has("invalid literal string")) {
        (
            format!("the text in {whole} is not closed"),
            "put a quote behind the text, on the same line",
        )
    } else if has("invalid basic string") || has("invalid comment") {
        (format!("{found} is a character that may not stand here"), "remove the character")
    } else if has("escape") {
        (
            format!("{whole} has a backslash that means nothing before {found}"),
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
            format!("an array is not complete before {found}"),
            "an array is `[\"a\", \"b\"]`: text in quotes, commas between, `]` at the end",
        )
    } else if has("unexpected key or value") {
        (
            format!("{found} stands behind a complete value"),
            "write one `key = value` per line; text with spaces stands in quotes",
        )
    } else if has("cannot extend") {
        (
            format!("{found} is a value already, so it cannot be a table too"),
            "remove the value, or rename the table",
        )
    } else if has("leading zero") {
        (
            format!("the number in {whole} has a zero in front"),
            "remove the zero, or put the value in quotes where it is a text",
        )
    } else if has("date") || has("time") {
        (
            format!("{found} is not a day of the calendar"),
            "write year, month and day without quotes, for example 2026-11-20",
        )
    } else if has("recurs") {
        (
            format!("{found} nests deeper than any data file does"),
            "a pin is `[kind.name]` with `key = value` lines",
        )
    } else if has("carriage return") {
        (
            format!("a carriage return stands alone before {found}"),
            "end each line with a newline, or with carriage return and newline",
        )
    } else {
        (
            format!("{found} is not TOML here: {message}"),
            "a line is a `[table]` header, `key = value`, or a comment behind `#`; see https://toml.io/en/v1.0.0",
        )
    };
    wrong(what, help)
}

/// Returns what stands at `start..end`, for a message.
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

/// Returns the number of the earlier line that has the key or header of `line`, which starts at
/// the byte `at`.
fn first_of(text: &str, at: usize, line: &str) -> Option<usize> {
    let key_of = |line: &str| line.split('=').next().unwrap_or_default().trim().to_owned();
    let earlier: Vec<&str> = text[..at].lines().map(str::trim).collect();
    let is_header = line.starts_with('[');
    let from = match is_header {
        true => 0,
        false => earlier.iter().rposition(|line| line.starts_with('[')).map_or(0, |at| at + 1),
    };
    let key = key_of(line);
    let found = earlier[from..]
        .iter()
        .position(|earlier| key_of(earlier).trim_start_matches('\u{feff}') == key)?;
    Some(from + found + 1)
}
