//! Reads the tables about what images, packages and releases of distributions contain.

use std::collections::{BTreeMap, BTreeSet};

use pins::reader::{Report, Reported};

use super::read::{Named, line, lower};
use super::{ContentsRow, GoneRow, ModuleRow, NeedsRow};
use crate::forms;

pub(super) fn read_contents(
    report: &mut Report<'_>,
    named: &Named<'_>,
) -> Result<ContentsRow, Reported> {
    named.table.check_form(report, forms::CONTENTS.keys);
    let images = named.table.texts(report, "images", "ubuntu:*", line);
    let lacks = named.table.texts(report, "lacks", "git", line);
    Ok(ContentsRow { images: images?, lacks: lacks? })
}

/// Reads `[program.NAME]`: the name, and the packages that bring the program.
pub(super) fn read_program(
    report: &mut Report<'_>,
    named: &Named<'_>,
) -> Result<(String, Vec<String>), Reported> {
    named.table.check_form(report, forms::PROGRAM.keys);
    let packages = named.table.texts(report, "packages", "git", line);
    Ok((named.name.to_owned(), packages?))
}

/// The table of the packages that bring no program.
const NONE: &str = "none";

/// Returns the programs by package.
pub(super) fn by_package(rows: Vec<(String, Vec<String>)>) -> BTreeMap<String, BTreeSet<String>> {
    let mut brings: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (program, packages) in rows {
        for package in packages {
            let programs = brings.entry(package).or_default();
            if program != NONE {
                programs.insert(program.clone());
            }
        }
    }
    brings
}

pub(super) fn read_gone(report: &mut Report<'_>, named: &Named<'_>) -> Result<GoneRow, Reported> {
    named.table.check_form(report, forms::GONE.keys);
    let packages = named.table.texts(report, "packages", "libgl1-mesa-glx", line);
    let releases = named.table.texts(report, "releases", "Debian 13", line);
    let instead = named.table.optional(report, "instead", line);
    let is_elsewhere = named.table.flag(report, "elsewhere");
    Ok(GoneRow {
        packages: packages?,
        releases: releases?,
        instead: instead?,
        is_elsewhere: is_elsewhere?,
    })
}

pub(super) fn read_module(
    report: &mut Report<'_>,
    named: &Named<'_>,
) -> Result<ModuleRow, Reported> {
    named.table.check_form(report, forms::MODULE.keys);
    let packages = named.table.texts(report, "packages", "onnxruntime", line);
    Ok(ModuleRow { module: named.name.to_owned(), packages: packages? })
}

pub(super) fn read_needs(report: &mut Report<'_>, named: &Named<'_>) -> Result<NeedsRow, Reported> {
    named.table.check_form(report, forms::NEEDS.keys);
    let packages = named.table.texts(report, "packages", "pytesseract", line);
    let needs = named.table.required(report, "needs", "needs = \"tesseract-ocr\"", line);
    let unless = named.table.texts(report, "unless", "tesseract", lower);
    let images = named.table.texts(report, "images", "rocm/pytorch:*", line);
    let evidence = named.evidence(report);
    Ok(NeedsRow {
        packages: packages?,
        needs: needs?,
        unless: unless?,
        images: images?,
        evidence: evidence?,
    })
}
