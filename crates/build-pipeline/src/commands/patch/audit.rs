//! `patch audit`: tries a component's patches on many versions, and lists those that can be
//! retired.

use std::path::Path;

use failure::{Failure, Kind};
use patcher::Retirement;
use patching::audit::{Asked, AuditReport, Trees, audit};
use project::Project;

use crate::cli::{Audit, Format, Global};
use crate::commands::patch::wanted::run_probes;
use crate::global;
use terminal::output;
use text::Page;

/// Tries the patches of a component on many trees.
pub(crate) fn run(
    global: &Global,
    here: &Path,
    project: &Project,
    args: &Audit,
) -> Result<(), Failure> {
    let asked = Asked {
        component: &args.component,
        trees: match (&args.releases, args.trees.as_slice()) {
            (Some(range), _) => Trees::Releases(range),
            (None, []) => Trees::Pins,
            (None, folders) => Trees::Folders(folders),
        },
        gpu: args.gpu.as_deref(),
        probes: run_probes(&args.probes),
    };
    let report = audit(here, project, asked, || global::sources(global), &output::warn)?;
    match args.format {
        Format::Json => output::json(&report)?,
        Format::Text => output::sanitised_result(&text(&report))?,
    }
    verdict(&report)
}

/// Returns a table of versions and patches, then the reasons for failures, then the patches that
/// can be retired.
fn text(report: &AuditReport) -> String {
    let mut page = Page::default();
    page.line(format_args!("{} for {}\n", report.component, report.gpu));
    let ids: Vec<&str> = report.retirements.keys().map(String::as_str).collect();
    let mut rows: Vec<Vec<String>> = vec![Vec::from(["version".to_owned()])];
    rows[0].extend(ids.iter().map(|id| (*id).to_owned()));
    for row in &report.versions {
        let cell = |id: &&str| {
            let patch = row.report.patches.iter().find(|patch| patch.id == **id)?;
            let mark = if patch.ok { '✓' } else { '✗' };
            let passed = patch.probes.iter().filter(|one| one.result == "passed").count();
            let probes = if passed > 0 { format!(", {passed} probed") } else { String::new() };
            Some(format!("{mark} {}{probes}", patch.verdict))
        };
        let cells = ids.iter().map(|id| cell(id).unwrap_or_default());
        rows.push([row.version.to_string()].into_iter().chain(cells).collect());
    }
    let widths: Vec<usize> = (0..=ids.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        page.line(format_args!("  {}", cells.join("  ").trim_end()));
    }
    page.line(format_args!(""));
    for row in &report.versions {
        for patch in row.report.patches.iter().filter(|patch| !patch.ok) {
            page.line(format_args!("  ✗ {} {}: {}", row.version, patch.id, patch.explanation));
        }
    }
    for (id, retirement) in &report.retirements {
        let told = match retirement {
            Retirement::Since { version } => format!("can be retired as of {version}"),
            Retirement::NotYet => "is still needed by the newest version".to_owned(),
            Retirement::Never => "is not needed by any of the versions".to_owned(),
        };
        page.line(format_args!("  {id} {told}"));
    }
    page.into_text()
}

fn verdict(report: &AuditReport) -> Result<(), Failure> {
    let failed: usize = report
        .versions
        .iter()
        .map(|row| row.report.patches.iter().filter(|patch| !patch.ok).count())
        .sum();
    match failed {
        0 => Ok(()),
        count => {
            Err(Failure::new(Kind::Patch, format!("failed verdicts: {count}; nothing was written"))
                .hint("the report above shows the reason and the line of each failure"))
        }
    }
}
