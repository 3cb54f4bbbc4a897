//! Python packages that are named after the module that they contain.

use crate::{Facts, Findings, Kind};

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
