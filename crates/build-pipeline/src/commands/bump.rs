//! `build-pipeline bump`: looks up a new value for a pin, checks it, and writes `versions.toml`.

use failure::Failure;
use project::pins_file::{FILE, pin_name, read};
use project::registry;
use upkeep::bump::{Accepted, Asked, Bound, BumpReport, look_up};

use crate::cli::{Bump, BumpFormat, Global};
use crate::global;
use crate::output::{self, Page};

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Bump) -> Result<(), Failure> {
    let project = global::project(global)?;
    let (text, pins) = read(&project.root.join(FILE))?;
    let name = pin_name(&args.pin, &pins)?;
    let (sources, client) = (global::sources(global)?, registry::client(&global.mirror)?);
    let asked = Asked {
        pin: &name,
        value: &args.value,
        index: args.index.url.as_deref(),
        accepted: Accepted {
            downgrade: args.accept.allow_downgrade,
            moved: args.accept.accept_moved,
            broken_patches: args.accept.accept_broken_patches,
        },
    };
    let mut bump = look_up(&project, (&text, &pins), &asked, (&sources, &client))?;
    if args.check {
        return Ok(());
    }
    if !args.dry_run {
        bump.write()?;
    }
    let report = &bump.report;
    match args.format {
        BumpFormat::Json => output::json(report),
        BumpFormat::Github => output::sanitised_result(&pull_request(report)),
        BumpFormat::Text => {
            report.warnings.iter().for_each(|warning| output::warn("bump", warning));
            output::sanitised_result(&self::text(report, args.dry_run))
        }
    }
}

/// Returns the report as text.
fn text(report: &BumpReport, with_diff: bool) -> String {
    let mut page = Page::default();
    let BumpReport { pin, from, to, .. } = report;
    match (report.changed, report.written) {
        (true, true) => {
            page.line(format_args!("bumped {pin}: {} -> {}", words(from), words(to)));
        }
        (true, false) => {
            page.line(format_args!("would bump {pin}: {} -> {}", words(from), words(to)));
        }
        (false, _) => page.line(format_args!(
            "{pin} is already at {}; only the date of its check is new",
            words(to)
        )),
    }
    for one in &report.patches {
        page.line(format_args!("  patch {}: {}", one.id, one.explanation));
    }
    if with_diff {
        page.line(format_args!("\n{}", report.diff.trim_end()));
    }
    page.into_text()
}

/// Returns title and body of a pull request.
fn pull_request(report: &BumpReport) -> String {
    let mut page = Page::default();
    let BumpReport { pin, from, to, .. } = report;
    let name = |bound: &Bound| {
        bound
            .name
            .clone()
            .or_else(|| bound.value.clone())
            .unwrap_or_else(|| "unresolved".to_owned())
    };
    page.line(format_args!("pins: Bump {pin} to {}\n", name(to)));
    page.line(format_args!("| | before | after |\n|---|---|---|"));
    page.line(format_args!(
        "| name | {} | {} |",
        cell(from.name.as_deref()),
        cell(to.name.as_deref())
    ));
    page.line(format_args!(
        "| value | {} | {} |",
        cell(from.value.as_deref()),
        cell(to.value.as_deref())
    ));
    if let Some(old) = &report.moved_from {
        page.line(format_args!("\n**The tag moved**: it was `{old}` when it was pinned."));
    }
    if !report.patches.is_empty() {
        page.line(format_args!("\n| patch | verdict | |\n|---|---|---|"));
        for one in &report.patches {
            page.line(format_args!(
                "| `{}` | {} | {} |",
                one.id,
                one.verdict,
                one.explanation.replace('|', "\\|")
            ));
        }
    }
    for warning in &report.warnings {
        page.line(format_args!("\n- {warning}"));
    }
    page.line(format_args!("\n```diff\n{}\n```", report.diff.trim_end()));
    page.into_text()
}

/// Returns a value for people, shortened.
fn words(bound: &Bound) -> String {
    let short = |value: &String| {
        value.chars().take(if value.contains(':') { 19 } else { 12 }).collect::<String>()
    };
    match (&bound.name, &bound.value) {
        (Some(name), Some(value)) => format!("{name} ({})", short(value)),
        (None, Some(value)) => short(value),
        (Some(name), None) => format!("{name} (unresolved)"),
        (None, None) => "unresolved".to_owned(),
    }
}

fn cell(text: Option<&str>) -> String {
    text.map_or_else(|| "–".to_owned(), |text| format!("`{text}`"))
}
