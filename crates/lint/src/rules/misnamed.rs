//! Names of Python packages that the index does not have, or that only name a module.

use super::frameworks::{OTHER, SETTINGS};
use super::stages::{command_of, is_known_base};
use crate::facts::Package;
use crate::registry::{self, Index};
use crate::shell::{ShellCommand, UNKNOWN};
use crate::specifier::requirement;
use crate::{Facts, Findings, Hit, Kind, Severity};

/// Names of modules that no package on PyPI has, or only one that refuses to be installed, and the
/// packages that contain them.
const NAMES: [(&str, &str); 7] = [
    ("cv2", "opencv-python-headless"),
    ("faiss", "faiss-cpu"),
    ("opencv", "opencv-python-headless"),
    ("pil", "pillow"),
    ("skimage", "scikit-image"),
    ("sklearn", "scikit-learn"),
    ("yaml", "PyYAML"),
];

/// Texts of files that install from other sources, or that accept the refusing package.
const OTHERS: [&str; 7] = [
    "allow_deprecated_sklearn",
    "conda install",
    "find-links",
    "mamba install",
    "pip_index_url",
    "--index-url",
    "-i http",
];

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if !matches!(facts.kind, Kind::Dockerfile | Kind::Shell | Kind::Requirements) {
        return;
    }
    missing(facts, found);
    let right = |name: &str| NAMES.iter().find(|(wrong, _)| *wrong == name);
    let is_wrong = |name: &str| right(name).is_some();
    if !facts.packages.iter().any(|one| is_wrong(&one.name)) {
        return;
    }
    let lower = facts.code.to_ascii_lowercase();
    if OTHERS.iter().any(|text| lower.contains(text)) {
        return;
    }
    for package in facts.packages.iter().filter(|one| !one.is_special) {
        if let Some((wrong, right)) = right(&package.name) {
            let message = format!("pip cannot install `{wrong}`; the package is called `{right}`");
            found.add("package-misnamed", package.line, message);
        }
    }
}

/// Returns whether a command takes packages from the default index only.
fn is_default(command: &ShellCommand) -> bool {
    let is_other = |text: &str| {
        let option = text.split('=').next().unwrap_or(text);
        OTHER.contains(&option) && !matches!(option, "--constraint" | "--no-deps")
            || matches!(text, "-f" | "-i")
            || text.starts_with("-i") && text.contains("://")
    };
    !command.words.iter().any(|word| is_other(&word.text))
}

/// Texts of lists that are no lists of requirements of the default index.
const NOT_DEFAULT: [&str; 4] = ["index-url", "find-links", "--index", "-f "];

/// Returns whether every line of a list is a requirement: another text can have the same name.
fn is_list(facts: &Facts<'_>) -> bool {
    let is_one = |line: &str| {
        let line = line.trim();
        let is_plain = |one: &str| one.starts_with(|c: char| "=<>!~;@".contains(c));
        let is_name = |text: &str| {
            requirement(text)
                .is_some_and(|one| one.specifier.is_empty() || is_plain(&one.specifier))
        };
        let is_other = line.is_empty() || line.starts_with(['#', '-', '.', '/']);
        is_other || line.contains("://") || line.ends_with(".whl") || is_name(line)
    };
    // `wandb` writes what was installed, also from folders.
    !facts.file.contains("wandb/")
        && facts.text.lines().all(is_one)
        && !NOT_DEFAULT.iter().any(|text| facts.text.contains(text))
}

/// Checks for names that the index does not have.
fn missing(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if facts.packages.is_empty() || SETTINGS.iter().any(|text| facts.text.contains(text)) {
        return;
    }
    let Some(index) = Index::python() else { return };
    let is_missing = |one: &&Package| {
        let has_stamp = one.version.as_ref().is_some_and(|version| version.contains('+'));
        !one.is_special
            && !has_stamp
            && !one.name.contains(UNKNOWN)
            && !NAMES.iter().any(|(wrong, _)| *wrong == one.name)
            && index.lacks(&one.name)
    };
    let missing: Vec<&Package> = facts.packages.iter().filter(is_missing).collect();
    if missing.is_empty() || facts.kind == Kind::Requirements && !is_list(facts) {
        return;
    }
    for package in missing {
        let near = registry::near(&package.name);
        // A list can belong to a command with another index, and an unknown image can name one.
        let is_sure = match command_of(facts, package) {
            Some(command) if !is_default(command) => continue,
            Some(_) => facts.kind == Kind::Dockerfile && is_known_base(facts, package.stage),
            None => false,
        };
        let name = &package.name;
        let message = format!("the index had no package `{name}` on {}", index.date());
        let hit = Hit::new("no-such-package", package.line, message);
        match near {
            Some(near) => found.hit(hit.help(format!("if you mean `{near}`, write that name"))),
            None if is_sure => found.hit(hit),
            None if facts.kind == Kind::Shell => {}
            None => found.hit(hit.at_most(Severity::Warning)),
        }
    }
}
