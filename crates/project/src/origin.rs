//! Where the rows of a project's data come from: the project's files, or the built-in ones.

use crate::built_in;
use crate::folder::Project;
use pins::rows::{Rows, rows_of};

/// The data files with rows, and the tables in them that contain rows (`[TABLE.NAME]`). Every other
/// key at the top level of a file, except settings such as `schema`, is a row itself.
const FILES: [(&str, &[&str]); 7] = [
    ("versions/versions.toml", &["archive", "image", "release", "source"]),
    ("versions/tracks.toml", &[]),
    ("versions/gpus.toml", &["variable"]),
    ("versions/run.toml", &[]),
    ("versions/python.toml", &[]),
    ("versions/compat.toml", &["bad", "coupling", "firmware", "index", "kernel", "rocm"]),
    ("versions/failures.toml", &["about", "failure"]),
];

/// A row, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowOrigin {
    /// The data file.
    pub file: &'static str,
    /// The name of the row, for example `image.ollama` or `my-track`.
    pub row: String,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where a row comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The built-in data.
    BuiltIn,
    /// The project's file.
    Project {
        /// The line, counted from 1.
        line: usize,
        /// Whether the built-in data has a row of the same name, which is not used.
        replaces: bool,
    },
    /// The project's file drops the built-in row.
    Removed {
        /// The line, counted from 1.
        line: usize,
    },
}

/// Returns the origin of every row that the project uses or drops, sorted by file and name.
pub fn rows(project: &Project) -> Vec<RowOrigin> {
    let mut all = Vec::new();
    for (file, tables) in FILES {
        let of = |text: &str| rows_of(text, tables);
        let own = project.own_text(file).ok().map(|text| of(&text)).unwrap_or_default();
        let lower = built_in::text(file).filter(|_| project.has_built_in());
        all.extend(of_file(file, &own, &lower.map(of).unwrap_or_default()));
    }
    all
}

fn of_file(file: &'static str, own: &Rows, lower: &Rows) -> Vec<RowOrigin> {
    let mut rows: Vec<RowOrigin> = Vec::new();
    let mut add = |row: &String, origin| rows.push(RowOrigin { file, row: row.clone(), origin });
    for (row, line) in &own.lines {
        let replaces = lower.lines.contains_key(row);
        add(row, Origin::Project { line: *line, replaces });
    }
    for row in lower.lines.keys().filter(|row| !own.lines.contains_key(*row)) {
        let line = own.removed.get(row).copied();
        add(row, line.map_or(Origin::BuiltIn, |line| Origin::Removed { line }));
    }
    rows.sort_by(|one, other| one.row.cmp(&other.row));
    rows
}
