//! `build-pipeline pins show --origin`: where each pin and each row of the other data files comes
//! from.

use failure::{Failure, Kind};
use pins::Pins;
use project::Project;
use project::origin::{Origin, RowOrigin, rows};
use project::pins_file::pin_name;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::{Format, ShownPins};
use terminal::output;
use text::Page;

/// The result of `pins show --origin --format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OriginReport {
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

/// Prints the origins: of one pin, or of all rows.
pub(crate) fn show(project: &Project, pins: &Pins, args: &ShownPins) -> Result<(), Failure> {
    let mut all: Vec<OriginRow> = rows(project).into_iter().map(row).collect();
    for text in &args.set {
        set(text, pins, &mut all)?;
    }
    if let Some(pin) = &args.pin {
        let name = pin_name(pin, pins)?;
        let kind = pins.names().get(&name).map(|kind| kind.table()).unwrap_or_default();
        let wanted = format!("{kind}.{name}");
        all.retain(|one| one.file == project::DATA_FILES[0] && one.row == wanted);
    }
    let report = OriginReport { schema: 1, rows: all };
    match args.format {
        Format::Json => output::json(&report),
        Format::Text => output::sanitised_result(&text(&report)),
    }
}

fn row(found: RowOrigin) -> OriginRow {
    let RowOrigin { file, row, origin } = found;
    let (from, line, replaces_built_in) = match origin {
        Origin::BuiltIn => (RowFrom::BuiltIn, None, false),
        Origin::Project { line, replaces } => (RowFrom::Project, Some(line), replaces),
        Origin::Removed { line } => (RowFrom::Removed, Some(line), false),
    };
    OriginRow { file, row, from, line, replaces_built_in, value: None }
}

/// Marks the pin of one `--set`.
fn set(text: &str, pins: &Pins, all: &mut [OriginRow]) -> Result<(), Failure> {
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

fn text(report: &OriginReport) -> String {
    let mut page = Page::default();
    let width = report.rows.iter().map(|one| one.row.len()).max().unwrap_or(0);
    let mut file = "";
    for one in &report.rows {
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
    page.into_text()
}
