//! The Python of a stage, and the one that its packages and paths are for.

use super::images::{self, released};
use super::packages::python_of;
use super::stages::{command_of, copied_from, fixed_base, parent, parts};
use crate::data::{IndexRow, PythonRow, data};
use crate::dockerfile::Instruction;
use crate::facts::Package;
use crate::python::{is_pip, version_in};
use crate::shell::{ShellCommand, UNKNOWN};
use crate::{Facts, Findings, Hit, Kind, Severity};

/// The Python of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Python<'f> {
    /// `3.12`
    pub(super) version: &'f str,
    /// The image that it comes from.
    pub(super) base: &'f str,
}

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let all = match facts.kind {
        Kind::Dockerfile => facts.instructions(),
        _ => &[],
    };
    let pythons: Vec<Option<Python<'_>>> =
        (1..=facts.stages.len()).map(|stage| python(facts, all, stage)).collect();
    let of = |stage: usize| pythons.get(stage.checked_sub(1)?).copied().flatten();
    for package in &facts.packages {
        index(facts, package, of(package.stage), found);
        required(facts, package, of(package.stage), found);
    }
    for command in &facts.commands {
        cloned(command, of(command.stage), found);
    }
    for (at, own) in pythons.iter().enumerate() {
        let Some(own) = own else { continue };
        wheels(facts, at + 1, *own, found);
        for one in all.iter().filter(|one| one.stage == at + 1) {
            paths(one, *own, found);
            environment(facts, all, one, &pythons, found);
        }
    }
}

/// Texts, in lower case, that show that a stage can have a Python other than its base's.
const OTHERS: [&str; 18] = [
    "--python",
    "asdf ",
    "conda",
    "deadsnakes",
    "install.sh",
    "mamba",
    "mise ",
    "nix-",
    "pixi",
    "pyenv",
    "pypy",
    "python.org",
    "python-build",
    "update-alternatives",
    "uv python",
    "uv run",
    "uv sync",
    "uv venv",
];

/// Returns the Python of a stage, if it is certain that the stage has no other one.
pub(super) fn python<'f>(
    facts: &'f Facts<'_>,
    all: &[Instruction],
    stage: usize,
) -> Option<Python<'f>> {
    let base = fixed_base(facts, all, stage);
    let version = of_image(base)?;
    let mut stages = vec![stage];
    while let Some(earlier) = stages.last().and_then(|last| parent(facts, all, *last)) {
        stages.push(earlier);
    }
    let is_other = |one: &Instruction| {
        let text = one.text.to_ascii_lowercase().replace("/opt/conda", "");
        let brings = one.text.contains("--from=") && brings_python(&text);
        match parts(one).0.as_str() {
            "RUN" => OTHERS.iter().any(|other| text.contains(other)) || names_other(&text, version),
            "COPY" => brings,
            _ => false,
        }
    };
    let is_set = facts.settings.iter().any(|one| {
        let is_python = one.name.contains("PYTHON") || one.name.starts_with("PY");
        is_python
            && version_in(&one.value).is_some_and(|other| other != version)
            && !one.value.contains('/')
    });
    let is_changed = all.iter().filter(|one| stages.contains(&one.stage)).any(is_other);
    (!is_changed && !is_set).then_some(Python { version, base })
}

/// Returns whether a copy from another stage or image can bring a Python, by its text in lower case.
fn brings_python(text: &str) -> bool {
    let is_image =
        ["--from=python:", "/python:", "astral-sh/uv"].iter().any(|one| text.contains(one));
    // The folder of the library, or that of the whole installation.
    let is_library = |word: &str| {
        word.rsplit('/').next().is_some_and(|name| {
            name.strip_prefix("python3.")
                .is_some_and(|minor| minor.bytes().all(|b| b.is_ascii_digit()))
        })
    };
    let mut words = text.split_whitespace().skip(1).filter(|word| !word.starts_with("--"));
    text.contains("/usr/local ")
        || text.contains("/bin/python")
        || words.any(|word| is_library(word) || is_image && word.contains("/python"))
}

/// Returns whether a text in lower case names another Python: `python3.11`, `Python-3.11.9`.
fn names_other(text: &str, version: &str) -> bool {
    ["python3.", "python-3.", "python=3.", "python==3.", "python 3."].iter().any(|start| {
        text.match_indices(start).any(|(at, _)| {
            let digits = &text[at + start.len()..];
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            version.strip_prefix("3.") != Some(&digits[..end])
        })
    })
}

/// Returns the Python of an image.
pub(super) fn of_image(reference: &str) -> Option<&str> {
    let images::Parts { path, tag, .. } = images::parts(reference);
    let tag = tag.filter(|tag| !tag.contains(UNKNOWN)).unwrap_or_default();
    if path == "python" {
        return version_in(tag);
    }
    if path == "astral-sh/uv" {
        return tag.split_once("python").and_then(|(_, rest)| version_in(rest));
    }
    let named = tag.split(['_', '-']).find_map(|word| word.strip_prefix("py3."));
    if named.is_some() {
        return tag.find("py3.").and_then(|at| version_in(&tag[at..]));
    }
    let is_plain = matches!(path, "debian" | "ubuntu") || path.starts_with("rocm/dev-ubuntu-");
    released(reference).filter(|_| is_plain)?.python.as_deref()
}

/// The start of the address of PyTorch's indexes.
const PYTORCH: &str = "download.pytorch.org/whl/";

/// Returns the name of PyTorch's index for ROCm in a text.
fn index_in(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(PYTORCH)?;
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.')).unwrap_or(rest.len());
    Some(&rest[..end]).filter(|name| name.starts_with("rocm"))
}

/// Returns the name of the index that a package comes from.
fn index_of<'f>(facts: &'f Facts<'_>, package: &'f Package) -> Option<&'f str> {
    let sources: Vec<&str> = match command_of(facts, package) {
        Some(command) => command.texts(),
        None if facts.kind == Kind::Requirements => {
            facts.text.lines().filter(|line| line.starts_with('-')).collect()
        }
        None => Vec::new(),
    };
    // AMD's own builds have similar stamps.
    let has = |text: &str| sources.iter().any(|source| source.contains(text));
    if !has(PYTORCH) || has("repo.radeon.com") {
        return None;
    }
    match package.version.as_deref().and_then(|version| version.split_once('+')) {
        Some((_, stamp)) => Some(stamp).filter(|stamp| stamp.starts_with("rocm")),
        None => sources.iter().find_map(|source| index_in(source)),
    }
}

/// Returns whether pip can also take a package from another index.
fn has_other_index(facts: &Facts<'_>, package: &Package) -> bool {
    match command_of(facts, package) {
        Some(command) => command.words.iter().any(|word| word.text.starts_with(EXTRA)),
        None => facts.code.contains(EXTRA),
    }
}

/// The option that adds an index.
const EXTRA: &str = "--extra-index-url";

/// The packages of PyTorch's indexes.
const PACKAGES: [&str; 3] = ["torch", "torchaudio", "torchvision"];

/// Checks whether PyTorch's index has a package for the Python of the stage, and this release of it.
fn index(
    facts: &Facts<'_>,
    package: &Package,
    python: Option<Python<'_>>,
    found: &mut Findings<'_>,
) {
    if !PACKAGES.contains(&package.name.as_str()) || package.is_special {
        return;
    }
    let Some(name) = index_of(facts, package) else { return };
    let is_its = |row: &&IndexRow| row.names.iter().any(|one| one == name);
    let Some(row) = data().indexes.iter().find(is_its) else { return };
    // With another index, pip takes a build for CUDA.
    let most = if has_other_index(facts, package) { Severity::Warning } else { Severity::Error };
    let version = package.version.as_deref().and_then(|version| version.split('+').next());
    let is_number = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let version =
        version.filter(|text| package.name == "torch" && text.contains('.') && is_number(text));
    if let Some(version) = version
        && !row.torch.is_empty()
        && !row.torch.iter().any(|one| one.contains(version))
    {
        let is_again = found.places().contains(&(package.line, "no-such-version"));
        if !is_again {
            let ranges: Vec<String> = row.torch.iter().map(ToString::to_string).collect();
            let message = format!("PyTorch's index `{name}` has no `torch` `{version}`");
            let help = format!("`{name}` has torch {}", ranges.join(" and "));
            found.hit(Hit::new("no-such-version", package.line, message).help(help).at_most(most));
        }
        return;
    }
    let own = command_of(facts, package).and_then(python_of);
    let wanted = python.filter(|python| own.is_none_or(|own| own == python.version));
    if let Some(used) = wanted
        && !row.python.is_empty()
        && !row.python.iter().any(|one| one.contains(used.version))
        && !found.places().contains(&(package.line, "wheel-python"))
    {
        let message = format!(
            "PyTorch's index `{name}` has no `{}` for Python {}, which `{}` has",
            package.name, used.version, used.base
        );
        found.hit(Hit::new("wheel-python", package.line, message).at_most(most));
    }
}

/// Returns the versions of Python that a row allows, for messages, if a version is none of them.
fn refused(row: &PythonRow, version: &str) -> Option<String> {
    let ranges: Vec<String> = row.python.iter().map(ToString::to_string).collect();
    (!row.python.iter().any(|one| one.contains(version))).then(|| ranges.join(" and "))
}

/// Checks for a package whose release is for other versions of Python than that of the stage.
fn required(
    facts: &Facts<'_>,
    package: &Package,
    python: Option<Python<'_>>,
    found: &mut Findings<'_>,
) {
    let own = command_of(facts, package).and_then(python_of);
    let Some(used) = python.filter(|one| own.is_none_or(|named| named == one.version)) else {
        return;
    };
    let is_other = command_of(facts, package).is_some_and(|one| !installs(one));
    let is_known = |rule: &'static str| found.places().contains(&(package.line, rule));
    // The first package of a line is enough.
    if package.is_special || is_other || is_known("wheel-python") || is_known("python-other") {
        return;
    }
    let is_about = |row: &&PythonRow| {
        let version = package.version.as_deref();
        row.packages.contains(&package.name)
            && (row.releases.is_empty()
                || version.is_some_and(|exact| row.releases.iter().any(|one| one.contains(exact))))
    };
    for row in data().pythons.iter().filter(is_about) {
        let Some(range) = refused(row, used.version) else { continue };
        let release =
            package.version.as_ref().map(|exact| format!(" `{exact}`")).unwrap_or_default();
        let message = format!(
            "`{}`{release} is for Python {range}, but `{}` has Python {}",
            package.name, used.base, used.version
        );
        let hit = Hit::new("python-other", package.line, message).evidence(row.evidence.as_ref());
        return found.hit(hit.at_most(Severity::Warning));
    }
}

/// Checks for a clone of a project that is for other versions of Python than that of the stage.
fn cloned(command: &ShellCommand, python: Option<Python<'_>>, found: &mut Findings<'_>) {
    let words = command.texts();
    let is_clone = words[0] == "git" && words.contains(&"clone");
    let Some(used) = python.filter(|_| is_clone) else { return };
    let is_old = |word: &&str| matches!(*word, "-b" | "--branch" | "--revision");
    let is_about = |row: &&PythonRow| {
        let mut all = words.iter().map(|word| word.trim_end_matches('/').trim_end_matches(".git"));
        all.any(|word| row.projects.iter().any(|one| word.ends_with(&format!("/{one}"))))
    };
    let row = data().pythons.iter().find(is_about).filter(|_| !words.iter().any(is_old));
    let Some((row, range)) = row.and_then(|row| Some((row, refused(row, used.version)?))) else {
        return;
    };
    let message = format!(
        "the project is for Python {range}, but `{}` has Python {}",
        used.base, used.version
    );
    let hit = Hit::new("python-other", command.words[0].line, message);
    found.hit(hit.evidence(row.evidence.as_ref()).at_most(Severity::Warning));
}

/// Options of pip for a package that this Python does not use.
const FOR_OTHERS: [&str; 4] = ["--target", "-t", "--platform", "--python-version"];

/// Returns whether a command installs packages for the Python of its stage.
fn installs(command: &ShellCommand) -> bool {
    let words = command.texts();
    let is_for_others = |word: &&str| {
        FOR_OTHERS.contains(&word.split_once('=').map_or(*word, |(option, _)| option))
    };
    is_pip(&words) && words.contains(&"install") && !words.iter().any(is_for_others)
}

/// Checks for wheels for another Python.
fn wheels(facts: &Facts<'_>, stage: usize, python: Python<'_>, found: &mut Findings<'_>) {
    let Python { version, base } = python;
    for command in facts.commands.iter().filter(|one| one.stage == stage && installs(one)) {
        let wheel = command.words.iter().find_map(|word| Some((word.line, of_wheel(&word.text)?)));
        let Some((line, other)) = wheel.filter(|(_, other)| other != version) else { continue };
        let message = format!("the wheel is for Python {other}, but `{base}` has Python {version}");
        return found.add("python-other", line, message);
    }
}

/// Returns the Python that a wheel is built for: `torch-2.9.1-cp312-cp312-linux_x86_64.whl`.
fn of_wheel(text: &str) -> Option<String> {
    let path = text.split(['#', '?']).next().unwrap_or_default();
    let mut tags = path.strip_suffix(".whl")?.rsplit('-').skip(1);
    let (abi, python) = (tags.next()?, tags.next()?);
    let minor = python.strip_prefix("cp3").filter(|_| abi.trim_end_matches('t') == python)?;
    minor.bytes().all(|byte| byte.is_ascii_digit()).then(|| format!("3.{minor}"))
}

/// The ends of paths of another Python, after its version.
const FOLDERS: [&str; 2] = ["/site-packages", "/dist-packages"];

/// Checks for paths of another Python in `ENV`, and in the target of `COPY`.
fn paths(own: &Instruction, python: Python<'_>, found: &mut Findings<'_>) {
    let (name, rest) = parts(own);
    let text = match name.as_str() {
        "ENV" => rest,
        "COPY" => rest.split_whitespace().last().unwrap_or_default(),
        _ => return,
    };
    let other = text.match_indices("python3.").find_map(|(at, start)| {
        let digits = &text[at + start.len()..];
        let end = digits.find(|c: char| !c.is_ascii_digit())?;
        let is_folder = FOLDERS.iter().any(|folder| digits[end..].starts_with(folder));
        Some(format!("3.{}", &digits[..end])).filter(|_| is_folder)
    });
    let Python { version, base } = python;
    if let Some(other) = other.filter(|other| other != version) {
        let message =
            format!("the path belongs to Python {other}, but `{base}` has Python {version}");
        found.hit(Hit::new("python-other", own.line, message).at_most(Severity::Warning));
    }
}

/// Returns whether the Python of an image is in /usr/local, and not that of the distribution.
fn is_local(python: Python<'_>) -> bool {
    images::parts(python.base).path == "python" || images::parts(python.base).path == "astral-sh/uv"
}

/// Checks for a virtual environment that is copied from a stage with another Python.
fn environment(
    facts: &Facts<'_>,
    all: &[Instruction],
    own: &Instruction,
    pythons: &[Option<Python<'_>>],
    found: &mut Findings<'_>,
) {
    let Some((stage, paths)) = copied_from(facts, own) else { return };
    let source = paths.first().copied().unwrap_or_default();
    let folder = source.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let is_environment = folder.contains("venv") && !source.contains("site-packages");
    let builder = pythons.get(stage - 1).copied().flatten();
    let target = pythons.get(own.stage - 1).copied().flatten();
    let (Some(builder), Some(target)) = (builder.filter(|_| is_environment), target) else {
        return;
    };
    // The stage can repair the links of the environment.
    let is_repaired = all.iter().filter(|one| one.stage == own.stage).any(|one| {
        let text = one.text.as_str();
        text.contains("/usr/local/bin") && (text.contains("ln ") || text.contains("--from="))
            || text.contains("/bin/python")
            || text.contains("venv --")
    });
    let is_copied = facts.code.contains("--copies") || facts.code.contains("--relocatable");
    if is_repaired || is_copied {
        return;
    }
    let message = if builder.version != target.version {
        format!(
            "the virtual environment is for Python {}, but `{}` has Python {}",
            builder.version, target.base, target.version
        )
    } else if is_local(builder) && !is_local(target) {
        format!(
            "the virtual environment uses the Python in /usr/local/bin of `{}`, which `{}` does not have",
            builder.base, target.base
        )
    } else {
        return;
    };
    found.hit(Hit::new("python-other", own.line, message));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_python_of_an_image_is_in_its_name_or_its_distribution() {
        for (image, expected) in [
            ("python:3.12-slim", Some("3.12")),
            ("docker.io/library/python:3.11.9-slim-bookworm", Some("3.11")),
            ("python:3-slim", None),
            ("rocm/pytorch:rocm6.2_ubuntu22.04_py3.10_pytorch_release_2.3.0", Some("3.10")),
            ("rocm/tensorflow:rocm6.3.3-py3.10-tf2.15-dev", Some("3.10")),
            ("rocm/pytorch:latest", None),
            ("rocm/dev-ubuntu-24.04:6.4.4-complete", Some("3.12")),
            ("ubuntu:22.04", Some("3.10")),
            ("ghcr.io/astral-sh/uv:python3.13-bookworm-slim", Some("3.13")),
            ("a/b:1", None),
        ] {
            assert_eq!(of_image(image), expected, "{image}");
        }
    }

    #[test]
    fn wheels_name_their_python() {
        for (text, expected) in [
            ("torch-2.9.1%2Brocm7.2.1-cp312-cp312-linux_x86_64.whl", Some("3.12")),
            ("a-1-cp313-cp313t-linux_x86_64.whl", Some("3.13")),
            ("a-1-cp38-abi3-linux_x86_64.whl", None),
            ("a-1-py3-none-any.whl", None),
            ("a.whl", None),
        ] {
            assert_eq!(of_wheel(text).as_deref(), expected, "{text}");
        }
    }
}
