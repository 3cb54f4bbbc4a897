//! Reads the advice of a rule for files of one kind: a compose file and a manifest have other words
//! for what an option of `docker run` does.

use pins::reader::{Report, Reported, Table};

use super::read::line;
use crate::facts::Kind;

/// The keys, and the kinds of files that they are about.
const KEYS: [(&str, Kind); 4] = [
    ("advice-compose", Kind::Compose),
    ("advice-manifest", Kind::Manifest),
    ("advice-quadlet", Kind::Quadlet),
    ("advice-script", Kind::Shell),
];

/// Reads the advice for files of each kind.
pub(super) fn advice_in(
    report: &mut Report<'_>,
    table: &Table<'_>,
) -> Result<Vec<(Kind, String)>, Reported> {
    let mut found = Vec::new();
    for (key, kind) in KEYS {
        found.extend(table.optional(report, key, line)?.map(|text| (kind, text)));
    }
    Ok(found)
}
