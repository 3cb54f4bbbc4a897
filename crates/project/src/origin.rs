//! Where the rows of a project's data come from: the project's files, or the built-in ones.

use failure::{Failure, Kind};
use pins::Pins;
use pins::rows::{Rows, rows_of};
use schemars::JsonSchema;
use serde::Serialize;
use text::Page;

use crate::built_in;
use crate::folder::{DATA_FILES, Project};
use crate::pins_file::pin_name;

/// The data files with rows, and the tables in them that contain rows (`[TABLE.NAME]`). Every other
/// key at the top level of a file, except settings such as `schema`, is a row itself.
const FILES: [(&str, &[&str]); 7] = [
    ("versions/versions.toml", &["archive", "image", "release", "source"]),
    ("versions/tracks.toml", &[]),
    ("versions/gpus.toml", &["limit", "variable"]),
    ("versions/run.toml", &[]),
    ("versions/python.toml", &[]),
    ("versions/compat.toml", &["bad", "coupling", "firmware", "index", "kernel", "rocm"]),
    ("versions/failures.toml", &["about", "failure"]),
];

/// The result of `pins show --origin --format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OriginReport {
    /// The version of this JSON format.
    schema: u32,
    /// The rows, by file and name.
    rows: Vec<OriginRow>,
}

/// A row of a data file, and where it comes from.
#[derive(Debug, Serialize, JsonSchema)]
struct OriginRow {
    /// The data file, as a path from the root of the project.
    file: &'static str,
    /// The name of the row: a key, or TABLE.NAME.
    row: String,
    /// Where it comes from.
    from: RowFrom,
    /// The line in the project's file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    /// Whether build-pipeline's own data has a row of the same name, which is not used.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    replaces_built_in: bool,
    /// The value of `--set`.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
}

/// Where a row comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum RowFrom {
    /// The data of build-pipeline itself.
    BuiltIn,
    /// The project's file.
    Project,
    /// `remove` in the project's file drops build-pipeline's row.
    Removed,
    /// `--set` of this command.
    Set,
}

impl OriginReport {
    /// Finds out where the rows come from: that of one pin, or all that the project uses or drops,
    /// sorted by file and name. `set` are the values of `--set`.
    ///
    /// # Errors
    /// There is no such pin, or a value of `--set` does not name an image pin and a value.
    pub fn new(
        project: &Project,
        pins: &Pins,
        pin: Option<&str>,
        set: &[String],
    ) -> Result<Self, Failure> {
        let mut all = rows(project);
        for text in set {
            mark_set(text, pins, &mut all)?;
        }
        if let Some(pin) = pin {
            let name = pin_name(pin, pins)?;
            let kind = pins.kind(&name).map(|kind| kind.table()).unwrap_or_default();
            let wanted = format!("{kind}.{name}");
            all.retain(|one| one.file == DATA_FILES[0] && one.row == wanted);
        }
        Ok(Self { schema: 1, rows: all })
    }

    /// Returns the origins as text, file by file.
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        let width = self.rows.iter().map(|one| one.row.len()).max().unwrap_or(0);
        let mut file = "";
        for one in &self.rows {
            if one.file != file {
                file = one.file;
                page.line(format_args!("{file}"));
            }
            let line = one.line.map(|line| format!("{file}:{line}")).unwrap_or_default();
            let replaced = if one.replaces_built_in { ", replaces the built-in row" } else { "" };
            let origin = match one.from {
                RowFrom::BuiltIn => "built-in".to_owned(),
                RowFrom::Project => format!("{line}{replaced}"),
                RowFrom::Removed => format!("removed by {line}"),
                RowFrom::Set => format!("--set {}", one.value.as_deref().unwrap_or_default()),
            };
            page.line(format_args!("  {:width$}  {origin}", one.row));
        }
        page
    }
}

/// Marks the pin of one `--set`.
fn mark_set(text: &str, pins: &Pins, all: &mut [OriginRow]) -> Result<(), Failure> {
    let form = "use `--set PIN=sha256:…` or `--set PIN=TAG`";
    let Some((pin, value)) = text.split_once('=').filter(|(_, value)| !value.is_empty()) else {
        let what = format!("`--set {text}` has no value");
        return Err(Failure::new(Kind::Input, what).hint(form));
    };
    let name = pin_name(pin, pins)?;
    if !pins.images.contains_key(&name) {
        let what = format!("`{name}` is not an image pin, and `--set` changes only images");
        return Err(
            Failure::new(Kind::Input, what).hint("change the pin in `versions/versions.toml`")
        );
    }
    let wanted = format!("image.{name}");
    for one in all.iter_mut().filter(|one| one.row == wanted) {
        (one.from, one.value) = (RowFrom::Set, Some(value.to_owned()));
    }
    Ok(())
}

/// Returns the rows that the project uses or drops, sorted by file and name.
fn rows(project: &Project) -> Vec<OriginRow> {
    let mut all = Vec::new();
    for (file, tables) in FILES {
        let of = |text: &str| rows_of(text, tables);
        let own = project.own_text(file).ok().map(|text| of(&text)).unwrap_or_default();
        let lower = built_in::text(file).filter(|_| project.has_built_in());
        all.extend(of_file(file, &own, &lower.map(of).unwrap_or_default()));
    }
    all
}

/// Returns the rows of one file: `own` are the project's, and `lower` the built-in ones.
fn of_file(file: &'static str, own: &Rows, lower: &Rows) -> Vec<OriginRow> {
    let row = |row: &String, from, line| OriginRow {
        file,
        row: row.clone(),
        from,
        line,
        replaces_built_in: from == RowFrom::Project && lower.lines.contains_key(row),
        value: None,
    };
    let of_project = own.lines.iter().map(|(name, line)| row(name, RowFrom::Project, Some(*line)));
    let others = lower.lines.keys().filter(|name| !own.lines.contains_key(*name));
    let others = others.map(|name| match own.removed.get(name) {
        Some(line) => row(name, RowFrom::Removed, Some(*line)),
        None => row(name, RowFrom::BuiltIn, None),
    });
    let mut rows: Vec<OriginRow> = of_project.chain(others).collect();
    rows.sort_by(|one, other| one.row.cmp(&other.row));
    rows
}
