//! Finds the lines of pins in the text of `versions.toml`, so that a finding can name its line.

use std::collections::BTreeMap;

use crate::PinKind;
use crate::problem::Report;
use crate::reader::{Table, document};
use names::PinName;

/// Returns the line of each pin's header, counted from 1. Entries whose key is not a pin name are
/// left out. A text that is not TOML, or has an unsupported schema, has no lines.
pub fn pin_lines(text: &str) -> BTreeMap<PinName, usize> {
    let mut report = Report::new("", text);
    let mut lines = BTreeMap::new();
    let Ok(entries) = document(&mut report) else { return lines };
    let Ok(root) = Table::root(&mut report, &entries) else { return lines };
    for kind in PinKind::ALL {
        let Some(section) = root.get(kind.table()).and_then(|entry| entry.as_table()) else {
            continue;
        };
        for entry in section.entries() {
            if let Ok(name) = entry.key.parse() {
                lines.insert(name, report.line(entry.key_span.start));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_found() {
        let text =
            "schema = 1\n# why\n[source.a]\nurl = 'x'\n[image.b-c]\n\n[release]\nd.index = 'x'\n";
        let found: Vec<_> =
            pin_lines(text).into_iter().map(|(name, line)| (name.to_string(), line)).collect();
        assert_eq!(found, [("a".to_owned(), 3), ("b-c".to_owned(), 5), ("d".to_owned(), 8)]);
        assert!(pin_lines("= broken").is_empty());
    }
}
