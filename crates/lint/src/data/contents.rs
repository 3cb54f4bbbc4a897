//! Reads the tables about what images, packages and releases of distributions contain.

use std::collections::{BTreeMap, BTreeSet};

use pins::reader::{Report, Reported};

use super::read::{Named, line, lower, releases};
use super::{BuildRow, ContentsRow, GoneRow, IndexRow, ModuleRow, NeedsRow, PythonRow, ReleaseRow};
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

pub(super) fn read_build(report: &mut Report<'_>, named: &Named<'_>) -> Result<BuildRow, Reported> {
    named.table.check_form(report, forms::BUILD.keys);
    let needs = named.table.required(report, "needs", "needs = \"Vulkan's headers\"", line);
    let options = named.table.texts(report, "options", "ggml_vulkan", lower);
    let mut texts = |key: &str| named.table.texts(report, key, "libvulkan-dev", line);
    let [apt, dnf, apk, pacman] = ["apt", "dnf", "apk", "pacman"].map(&mut texts);
    let [projects, unless, images] = ["projects", "unless", "images"].map(texts);
    let evidence = named.evidence(report);
    Ok(BuildRow {
        options: options?,
        needs: needs?,
        apt: apt?,
        dnf: dnf?,
        apk: apk?,
        pacman: pacman?,
        projects: projects?,
        unless: unless?,
        images: images?,
        evidence: evidence?,
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

pub(super) fn read_index(report: &mut Report<'_>, named: &Named<'_>) -> Result<IndexRow, Reported> {
    named.table.check_form(report, forms::INDEX.keys);
    let names = named.table.texts(report, "names", "rocm6.2.4", line);
    let torch = named.table.texts(report, "torch", "2.6 to 2.7", releases);
    let python = named.table.texts(report, "python", "3.9 to 3.13", releases);
    Ok(IndexRow { names: names?, torch: torch?, python: python? })
}

pub(super) fn read_release(
    report: &mut Report<'_>,
    named: &Named<'_>,
) -> Result<ReleaseRow, Reported> {
    named.table.check_form(report, forms::RELEASE.keys);
    let name = named.table.required(report, "name", "name = \"Ubuntu 24.04\"", line);
    let images = named.table.texts(report, "images", "ubuntu:24.04*", line);
    let based = named.table.texts(report, "based", "python:*-trixie", line);
    let codename = named.table.optional(report, "codename", line);
    let python = named.table.optional(report, "python", line);
    let glibc = named.table.optional(report, "glibc", line);
    let end = named.table.date(report, "end");
    Ok(ReleaseRow {
        name: name?,
        images: images?,
        based: based?,
        codename: codename?,
        python: python?,
        glibc: glibc?,
        end: end?,
    })
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

pub(super) fn read_python(
    report: &mut Report<'_>,
    named: &Named<'_>,
) -> Result<PythonRow, Reported> {
    named.table.check_form(report, forms::PYTHON.keys);
    let packages = named.table.texts(report, "packages", "numpy", line);
    let projects = named.table.texts(report, "projects", "open-webui/open-webui", line);
    let own = named.table.texts(report, "releases", "2.3 or newer", releases);
    let python = named.table.texts(report, "python", "3.11 or newer", releases);
    let evidence = named.evidence(report);
    Ok(PythonRow {
        packages: packages?,
        projects: projects?,
        releases: own?,
        python: python?,
        evidence: evidence?,
    })
}
