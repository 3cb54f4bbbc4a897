//! Refuses passwords and tokens in data files: their texts get into images, plans and records.

use std::ops::Range;

use crate::problem::{Report, Reported, Wrong, wrong};
use crate::reader::Entry;

/// Reports every text that contains a password or token. The readers of `env` and `args` check
/// their values themselves.
pub(crate) fn check<'t>(
    report: &mut Report<'_>,
    entries: impl Iterator<Item = Entry<'t>>,
) -> Result<(), Reported> {
    // The keys at the top are names that the user chose, like those of variants.
    check_table(report, "variants", entries)
}

fn check_table<'t>(
    report: &mut Report<'_>,
    of: &str,
    entries: impl Iterator<Item = Entry<'t>>,
) -> Result<(), Reported> {
    let mut outcome = Ok(());
    for entry in entries {
        if matches!(entry.key, "env" | "args") && entry.as_table().is_some() && of != "variants" {
            continue;
        }
        if let Some(reported) = report.is_full() {
            return Err(reported);
        }
        let found = match (entry.as_table(), entry.items(), entry.text()) {
            (Some(table), ..) => check_table(report, entry.key, table.entries()),
            (_, Some(items), _) => check_items(report, entry.key, items),
            (.., Some(text)) => {
                value(entry.key, text).map_err(|wrong| report.add(&entry.span, wrong))
            }
            _ => Ok(()),
        };
        outcome = outcome.and(found);
    }
    outcome
}

/// Checks an array. A word can be the value of the option before it.
fn check_items(report: &mut Report<'_>, key: &str, items: Vec<Entry<'_>>) -> Result<(), Reported> {
    let mut outcome = Ok(());
    let mut option = None;
    for item in items {
        let Some(text) = item.text() else {
            let table = item.as_table();
            let found = table.map_or(Ok(()), |table| check_table(report, key, table.entries()));
            outcome = outcome.and(found);
            continue;
        };
        let pair = option.filter(|_| !text.starts_with('-')).map(|it| format!("{it} {text}"));
        let is_secret = names::has_secret(text) || pair.is_some_and(|it| names::has_secret(&it));
        if is_secret {
            outcome = Err(report.add(&item.span, refused(key)));
        }
        option = text.starts_with("--").then_some(text);
    }
    outcome
}

/// Accepts a text that contains no password or token. `key` is its name in the image.
pub(crate) fn value(key: &str, text: &str) -> Result<(), Wrong> {
    if names::is_secret_value(key, text) { Err(refused(key)) } else { Ok(()) }
}

/// Returns the positions of the lines that contain a password or token.
pub fn secret_lines(text: &str) -> Vec<Range<usize>> {
    let mut start = 0;
    let lines = text.split_inclusive('\n').map(|line| {
        let place = start..start + line.trim_end().len();
        start += line.len();
        place
    });
    lines.filter(|place| names::has_secret(&text[place.clone()])).collect()
}

/// The help for a line with a password or token.
pub const SECRET_HELP: &str = "remove it, because it would get into plans, records or images; set it when you start the container";

fn refused(key: &str) -> Wrong {
    wrong(
        format!("the value of `{}` contains a password or token", names::mask(key)),
        "remove it, because everyone who has the image can read it; set it when you start the container",
    )
}
