//! Reads the variables that the tracks of `tracks.toml` set.

use ::pins::reader::{Report, Table, document};

use crate::shell::{Scope, Setting};

/// Returns the variables of all tracks; none if the file is not TOML, which a rule reports.
pub(crate) fn settings(text: &str) -> Vec<Setting> {
    let mut report = Report::new("tracks.toml", text);
    let Ok(entries) = document(&mut report) else { return Vec::new() };
    let Ok(root) = Table::root(&mut report, &entries) else { return Vec::new() };
    let mut found = Vec::new();
    for track in root.entries().filter_map(|entry| entry.as_table()) {
        let Some(env) = track.get("env").and_then(|entry| entry.as_table()) else { continue };
        found.extend(env.entries().filter_map(|entry| {
            let line = report.line(entry.key_span.start);
            Some(Setting::new(entry.key, entry.text()?, line, Scope::Image))
        }));
    }
    found
}
