//! The rows of data files: where they are, and which of build-pipeline's own rows a project drops.

use std::collections::BTreeMap;

use crate::problem::{Report, Reported, list, nearest, quote, wrong};
use crate::reader::{Table, document};

/// The key that lists build-pipeline's own rows to drop.
pub const REMOVE: &str = "remove";

/// Keys of data files that are not rows.
const NO_ROWS: [&str; 3] = ["schema", "built-in", REMOVE];

/// Reads `remove`: the names of the rows to drop. Each must be one of `lower`.
///
/// # Errors
/// Fails after adding the problems to the report.
pub fn removed(
    report: &mut Report<'_>,
    root: &Table<'_>,
    lower: &[String],
) -> Result<Vec<String>, Reported> {
    let example = lower.first().map_or("bad.vllm", String::as_str);
    root.texts(report, REMOVE, example, |text| {
        if lower.iter().any(|name| name == text) {
            return Ok(text.to_owned());
        }
        let help = match nearest(text, lower.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None if lower.is_empty() => {
                "delete the line: no other file has rows that it could remove".to_owned()
            }
            None => {
                let tables: std::collections::BTreeSet<&str> =
                    lower.iter().filter_map(|name| name.split('.').next()).collect();
                format!("write TABLE.NAME; the tables are {}", list(tables.into_iter()))
            }
        };
        Err(wrong(format!("build-pipeline has no row {}", quote(text)), help))
    })
}

/// The rows of a data file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    /// The line of each row, counted from 1, by its name: `KEY`, or `TABLE.NAME` in one of the
    /// tables that have rows.
    pub lines: BTreeMap<String, usize>,
    /// The line of each name in `remove`, counted from 1.
    pub removed: BTreeMap<String, usize>,
}

/// Finds the rows in the text of a data file. `tables` names the tables that have rows. A text that
/// cannot be parsed has no rows.
pub fn rows_of(text: &str, tables: &[&str]) -> Rows {
    let (mut report, mut rows) = (Report::new("", text), Rows::default());
    let Ok(entries) = document(&mut report) else { return rows };
    let Ok(root) = Table::root(&mut report, &entries) else { return rows };
    for item in root.get(REMOVE).and_then(|entry| entry.items()).unwrap_or_default() {
        let line = report.line(item.span.start);
        rows.removed.extend(item.text().map(|name| (name.to_owned(), line)));
    }
    for entry in root.entries().filter(|entry| !NO_ROWS.contains(&entry.key)) {
        let Some(table) = entry.as_table().filter(|_| tables.contains(&entry.key)) else {
            rows.lines.insert(entry.key.to_owned(), report.line(entry.key_span.start));
            continue;
        };
        let name = |row: &str| format!("{}.{row}", entry.key);
        let lines = table.entries().map(|row| (name(row.key), report.line(row.key_span.start)));
        rows.lines.extend(lines);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_names_and_lines() {
        let text = "schema = 1\nremove = [\n\"bad.x\"]\ngpu = \"gfx1151\"\n\n[image.a]\ntag = \"1\"\n[mine]\n[mine.env]\nA = \"1\"\n";
        let rows = rows_of(text, &["image", "bad"]);
        let lines: Vec<_> = rows.lines.iter().map(|(name, line)| (name.as_str(), *line)).collect();
        assert_eq!(lines, [("gpu", 4), ("image.a", 6), ("mine", 8)]);
        assert_eq!(rows.removed["bad.x"], 3);
        assert_eq!(rows_of("= broken", &[]), Rows::default());
    }
}
