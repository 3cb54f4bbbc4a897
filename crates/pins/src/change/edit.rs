//! Replaces, adds and removes single lines of one table, byte by byte.
//!
//! This only has to handle the usual ways to write tables: the caller parses the result again and
//! refuses any unintended change.

use std::ops::Range;

use crate::PinKind;
use crate::problem::Report;
use crate::reader::{Entry, Table, document};
use names::PinName;

/// A key of the table, with the value that it must have.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) key: &'static str,
    /// The value as TOML. With `None`, the key must be absent; [`KEEP`] leaves the value as it is.
    pub(super) value: Option<String>,
}

/// The [`Line::value`] that keeps the value in the file.
const KEEP: &str = "";

impl Line {
    /// Returns the same key with an unchanged value.
    pub(super) fn kept(self) -> Self {
        Self { value: Some(KEEP.to_owned()), ..self }
    }
}

/// A part of the text to replace.
#[derive(Debug)]
struct Splice {
    at: Range<usize>,
    with: String,
}

/// Returns `text` with `lines` in the table of the pin and `time` as `source-date-epoch`, or `None`
/// if the table, or the place for a new key, cannot be found.
pub(super) fn rewrite(
    text: &str,
    kind: PinKind,
    name: &PinName,
    lines: &[Line],
    time: u64,
) -> Option<String> {
    let mut report = Report::new("", text);
    let entries = document(&mut report).ok()?;
    let root = Table::root(&mut report, &entries).ok()?;
    let mut splices = Vec::new();
    let epoch = root.get("source-date-epoch")?;
    if epoch.integer() != Some(i128::from(time)) {
        splices.push(Splice { at: epoch.span, with: time.to_string() });
    }
    let table = root.get(kind.table())?.as_table()?.get(name.as_str())?.as_table()?;
    let mut before: Option<Entry<'_>> = None;
    for line in lines {
        match (table.get(line.key), line.value.as_deref()) {
            (Some(entry), Some(KEEP)) => before = Some(entry),
            (Some(entry), Some(value)) => {
                if !is_same(&entry, text, value) {
                    splices.push(Splice { at: entry.span.clone(), with: value.to_owned() });
                }
                before = Some(entry);
            }
            (Some(entry), None) => splices.push(removal(text, &entry)?),
            (None, Some(KEEP) | None) => {}
            (None, Some(value)) => {
                splices.push(insertion(text, before.as_ref()?, line.key, value)?);
            }
        }
    }
    // The sort is stable, so lines that are added at the same place keep their order.
    splices.sort_by_key(|splice| (splice.at.start, splice.at.end));
    let mut edited = String::with_capacity(text.len() + 256);
    let mut end = 0;
    for splice in &splices {
        edited.push_str(text.get(end..splice.at.start)?);
        edited.push_str(&splice.with);
        end = splice.at.end;
    }
    edited.push_str(text.get(end..)?);
    Some(edited)
}

/// Returns whether an entry already has that value, with either kind of quotes.
fn is_same(entry: &Entry<'_>, text: &str, value: &str) -> bool {
    let source = text.get(entry.span.clone()).unwrap_or_default();
    source == value || source == value.replace('"', "'") && !value.contains('\\')
}

/// The lines of an entry, and whether they contain other entries too, as in `{ a = 1, b = 2 }`.
#[derive(Debug)]
struct Place<'t> {
    /// The bytes of these lines, including the last line ending.
    whole: Range<usize>,
    /// The text before the key.
    indent: &'t str,
    is_inline: bool,
}

fn place<'t>(text: &'t str, entry: &Entry<'_>) -> Option<Place<'t>> {
    let start = text.get(..entry.key_span.start)?.rfind('\n').map_or(0, |newline| newline + 1);
    let end =
        text.get(entry.span.end..)?.find('\n').map_or(text.len(), |at| entry.span.end + at + 1);
    let indent = text.get(start..entry.key_span.start)?;
    let rest = text.get(entry.span.end..end)?.trim();
    let is_inline = indent.contains(['{', ',']) || rest.starts_with([',', '}']);
    Some(Place { whole: start..end, indent, is_inline })
}

fn insertion(text: &str, before: &Entry<'_>, key: &str, value: &str) -> Option<Splice> {
    let place = place(text, before)?;
    if place.is_inline {
        let at = before.span.end..before.span.end;
        return Some(Splice { at, with: format!(", {key} = {value}") });
    }
    let line = text.get(place.whole.clone())?;
    let at = place.whole.end..place.whole.end;
    let indent = place.indent.trim_start_matches('\u{feff}');
    let added = format!("{indent}{key} = {value}");
    let with = match (line.ends_with("\r\n"), line.ends_with('\n')) {
        (true, _) => format!("{added}\r\n"),
        (false, true) => format!("{added}\n"),
        // The last line of a file without a final newline.
        (false, false) if text.contains("\r\n") => format!("\r\n{added}"),
        (false, false) => format!("\n{added}"),
    };
    Some(Splice { at, with })
}

fn removal(text: &str, entry: &Entry<'_>) -> Option<Splice> {
    let place = place(text, entry)?;
    if !place.is_inline {
        return Some(Splice { at: place.whole, with: String::new() });
    }
    let (start, end) = (entry.key_span.start, entry.span.end);
    let ahead = text.get(end..)?;
    let at = match ahead.trim_start().strip_prefix(',') {
        Some(rest) => start..text.len() - rest.trim_start_matches(' ').len(),
        None => text.get(..start)?.rfind(',')?..end,
    };
    Some(Splice { at, with: String::new() })
}
