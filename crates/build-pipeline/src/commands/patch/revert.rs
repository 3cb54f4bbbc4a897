//! `patch revert`: undoes the patches of a tree.

use std::path::Path;

use failure::Failure;
use patching::prepared::open;
use patching::revert::{revert, revert_all};

use crate::cli::{Format, Revert};
use crate::commands::patch::report::{RevertReport, SCHEMA};
use terminal::output;
use text::Page;

/// Undoes applied patches.
pub(crate) fn run(here: &Path, args: &Revert) -> Result<(), Failure> {
    let directory = open(here, &args.root)?;
    let trees = match &args.component {
        Some(component) => vec![revert(&directory, component)?],
        None => revert_all(directory)?,
    };
    let report = RevertReport { schema: SCHEMA, trees };
    match args.format {
        Format::Json => output::json(&report),
        Format::Text => output::sanitised_result(&text(&report)),
    }
}

fn text(report: &RevertReport) -> String {
    let mut page = Page::default();
    for tree in &report.trees {
        page.line(format_args!("{} in {}\n", tree.component, tree.root));
        for patch in &tree.patches {
            page.line(format_args!("  ✓ {patch}"));
        }
        for file in &tree.files {
            page.line(format_args!("\n  restored  {file}"));
        }
        if tree.files.is_empty() {
            page.line(format_args!(
                "\n  nothing to restore: the files already have their old content"
            ));
        }
    }
    page.into_text()
}
