//! Rules for Python packages: versions that do not exist, mixed indexes, and incompatible packages.

use std::collections::{BTreeMap, BTreeSet};

use ::pins::Releases;

use super::requirements::torch_of_base;
use super::stages::command_of;
use super::{images, installs, pythons, rocm};
use crate::data::{CouplingRow, data};
use crate::facts::Package;
use crate::python::{is_pip, version_in};
use crate::shell::ShellCommand;
use crate::{Context, Facts, Findings, Hit, Kind, Severity};

/// The packages of one stage with their versions.
#[derive(Debug, Default)]
struct Group<'f> {
    versions: BTreeMap<String, String>,
    packages: Vec<&'f Package>,
}

/// Options of pip and uv that name an index or a page with wheels.
const INDEX_OPTIONS: [&str; 4] =
    ["--index-url", "--extra-index-url", "--default-index", "--find-links"];

/// Programs in the compatibility table that have the same names as Python packages.
const ENGINES: [&str; 2] = ["docker", "podman"];

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let mut groups: BTreeMap<usize, Group<'_>> = BTreeMap::new();
    for package in &facts.packages {
        let group = groups.entry(package.stage).or_default();
        group.packages.push(package);
    }
    for group in groups.values_mut() {
        let mut several = BTreeSet::new();
        for package in &group.packages {
            let Some(version) = &package.version else { continue };
            let earlier = group.versions.insert(package.name.clone(), version.clone());
            if earlier.is_some_and(|earlier| earlier != *version) {
                several.insert(package.name.clone());
            }
        }
        // If a package has two versions, it is unknown which one is used.
        group.versions.retain(|name, _| !several.contains(name));
        let mut releases = BTreeSet::new();
        for package in &group.packages {
            one(facts, package, &group.versions, context, found);
            // One finding for each ROCm release of a stage is enough.
            if let Some(release) = rocm_of(package).filter(|release| releases.insert(*release)) {
                let (name, version) = (&package.name, package.version.as_deref());
                let version = version.unwrap_or_default();
                let message = format!("`{name}` `{version}` is built for ROCm {release}");
                let line = package.line;
                // AMD's own wheels have the whole release in their stamp.
                let named = rocm::Named { release, line, is_series: true, is_word: false, message };
                rocm::judge(named, facts, context, found);
            }
        }
        together(facts, group, context, found);
        newest(facts, group, context, found);
    }
    let mut reported = BTreeSet::new();
    for command in &facts.commands {
        indexes(facts, command, &mut reported, found);
    }
    if facts.kind == Kind::Requirements {
        requirements(facts, found);
    }
}

/// A release that is newer than all others.
const NEWEST: &str = "999999";

/// Packages that require another one without an upper limit.
const BRINGS: [(&str, &str); 5] = [
    ("torchvision", "numpy"),
    ("diffusers", "huggingface-hub"),
    ("peft", "transformers"),
    ("sentence-transformers", "transformers"),
    ("trl", "transformers"),
];

/// Packages whose releases limit what others can be.
const LIMITS: [&str; 8] = [
    "gradio",
    "numba",
    "onnxruntime",
    "pandas",
    "scikit-learn",
    "scipy",
    "tensorflow",
    "transformers",
];

/// Returns whether a package that is not named comes with another one, in its newest release.
fn is_brought(group: &Group<'_>, name: &str) -> bool {
    let has = |other: &str| group.packages.iter().any(|one| one.name == other);
    let is_limited = group
        .packages
        .iter()
        .any(|one| one.version.is_some() && LIMITS.contains(&one.name.as_str()));
    !is_limited && BRINGS.iter().any(|(package, brought)| *brought == name && has(package))
}

/// Checks for an old release whose neighbour has no upper limit, so that pip takes the newest one.
fn newest(facts: &Facts<'_>, group: &Group<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let Some(compat) = context.compat else { return };
    // Another list or command can hold a package that is not named here.
    let is_whole = facts.kind == Kind::Dockerfile
        && !["-r ", "requirements", "numpy", "hub"].iter().any(|one| facts.code.contains(one));
    let named = group.packages.iter().filter_map(|one| {
        let version = group.versions.get(&one.name)?;
        Some((one.name.as_str(), version.as_str(), Some(one.line)))
    });
    let base = torch_of_image(facts, group).map(|version| (TORCH, version, None));
    for (name, version, line) in named.chain(base) {
        for row in compat.bad.values().filter(|row| row.package == name) {
            let mut others = row.with.iter();
            let (Some((other, releases)), None) = (others.next(), others.next()) else { continue };
            let is_bad = row.releases.iter().any(|one| one.contains(version));
            let is_newest = !releases.end_before(NEWEST) && can_be(facts, group, other, releases);
            let all: Vec<_> = group.packages.iter().filter(|one| one.name == *other).collect();
            let is_open = if all.is_empty() {
                line.is_some() && is_whole && is_brought(group, other)
            } else {
                all.iter().all(|one| one.version.is_none() && !one.is_limited && !one.is_special)
            };
            let line = line.or_else(|| all.first().map(|one| one.line));
            if let Some(line) = line.filter(|_| is_bad && is_newest && is_open) {
                let message = format!(
                    "`{other}` has no upper limit beside `{name}` `{version}`, so it can be {releases}: {}",
                    row.why
                );
                let hit = Hit::new("known-bad-version", line, message);
                let hit = hit.compat(&row.evidence).at_most(Severity::Information);
                return found.hit(hit.help(format!("use {}", row.instead)));
            }
        }
    }
}

/// The package that images of AMD contain.
const TORCH: &str = "torch";

/// Returns the torch of the base image, if the packages that are installed do not replace it.
fn torch_of_image<'f>(facts: &'f Facts<'_>, group: &Group<'_>) -> Option<&'f str> {
    let is_replaced = group.packages.iter().any(|one| one.name == TORCH);
    let mut commands = group.packages.iter().filter_map(|one| command_of(facts, one));
    commands.find_map(|one| torch_of_base(facts, one)).filter(|_| !is_replaced)
}

/// Returns whether the Python of a stage, if it is known, can have one of these releases of a package.
fn can_be(facts: &Facts<'_>, group: &Group<'_>, name: &str, releases: &Releases) -> bool {
    let stage = group.packages.first().map_or(0, |one| one.stage);
    if facts.kind != Kind::Dockerfile || stage == 0 {
        return true;
    }
    let Some(python) = pythons::python(facts, facts.instructions(), stage) else { return true };
    let shown = releases.to_string();
    let oldest = shown.split(' ').next().unwrap_or_default();
    let mut rows = data().pythons.iter().filter(|row| row.packages.iter().any(|one| one == name));
    !rows.any(|row| {
        row.releases.iter().any(|one| one.contains(oldest))
            && !row.python.iter().any(|one| one.contains(python.version))
    })
}

/// Checks the options in a list of requirements.
fn requirements(facts: &Facts<'_>, found: &mut Findings<'_>) {
    // pip prefers the stamped build of a version (PEP 440, "Local version identifiers").
    let is_open = |package: &Package| package.name == "torch" && package.version.is_none();
    let has_open = facts.packages.iter().any(is_open);
    only_torch(facts, found);
    for (line, text) in facts.lines() {
        let text = text.trim();
        let lower = text.to_ascii_lowercase();
        let names_amd = ["rocm", "amd.com", "radeon"].iter().any(|name| lower.contains(name));
        if text.starts_with("--extra-index-url") && names_amd && has_open {
            found.add("extra-index-url", line, "the ROCm index and the default index are merged");
        }
        let is_package = text.starts_with(|c: char| c.is_ascii_alphabetic());
        let option = ["--index-url", "--extra-index-url", "--find-links"]
            .iter()
            .find(|option| text.split([' ', '=']).skip(1).any(|word| word == **option));
        if let Some(option) = option.filter(|_| is_package && !text.contains(" #")) {
            let message = format!("pip ignores `{option}` behind a package");
            found.add("requirement-option", line, message);
        }
    }
}

/// Frequent packages that PyTorch's index does not have. It has torch, and what torch needs.
const NOT_ON_INDEX: [&str; 23] = [
    "accelerate",
    "diffusers",
    "fastapi",
    "flask",
    "gradio",
    "gunicorn",
    "jupyter",
    "librosa",
    "monai",
    "notebook",
    "openai",
    "opencv-python",
    "opencv-python-headless",
    "peft",
    "scikit-image",
    "scikit-learn",
    "sentence-transformers",
    "soundfile",
    "streamlit",
    "tensorboard",
    "transformers",
    "ultralytics",
    "uvicorn",
];

/// Checks for PyTorch's index in place of the default index, for a list with other packages too.
fn only_torch(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let own = |text: &str| -> Option<&'static str> {
        let name = text.split([' ', '=']).next().unwrap_or_default();
        let is_known = ["--extra-index-url", "--find-links", "-f", "--index-url", "-i"];
        is_known.into_iter().find(|one| *one == name)
    };
    let lines = || facts.lines().filter_map(|(line, text)| Some((line, text, own(text.trim())?)));
    let is_index = |option: &str| matches!(option, "--index-url" | "-i");
    let first = lines()
        .find(|(_, text, option)| is_index(option) && text.contains("download.pytorch.org/whl"));
    let has_other = lines().any(|(_, text, option)| !is_index(option) || !text.contains("/whl"));
    let other = facts.packages.iter().find(|one| NOT_ON_INDEX.contains(&one.name.as_str()));
    if let (Some((line, ..)), Some(other), false) = (first, other, has_other) {
        let message = format!(
            "`--index-url` is for the whole list, and PyTorch's index has no `{}`",
            other.name
        );
        let help = "write `--extra-index-url`, and torch with the version of that index, which ends in `+rocm…`; or install torch before, with a command of its own";
        found.add_with("requirement-option", line, message, help);
    }
}

fn one(
    facts: &Facts<'_>,
    package: &Package,
    all: &BTreeMap<String, String>,
    context: Context<'_>,
    found: &mut Findings<'_>,
) {
    let Package { name, version, line, .. } = package;
    let line = *line;
    extras(facts, package, all, found);
    if name == "amdsmi" && !package.is_special {
        found.add("amdsmi-from-index", line, "`amdsmi` is installed from a package index");
    }
    wheels(facts, package, found);
    let Some(version) = version else { return };
    if let Some(hit) = never(name, version, line) {
        found.hit(hit);
    } else if let Some(compat) = context.compat.filter(|_| !ENGINES.contains(&name.as_str())) {
        for (row, bad) in compat.bad(name, version, all) {
            let message = format!("`{name}` `{version}`: {} [{row}]", bad.why);
            let hit = Hit::new("known-bad-version", line, message).compat(&bad.evidence);
            found.hit(hit.help(format!("use {}", bad.instead)));
        }
    }
}

/// Returns the ROCm release in the stamp of a package's version.
pub(super) fn rocm_of(package: &Package) -> Option<&str> {
    let (_, stamp) = package.version.as_deref()?.split_once("+rocm")?;
    Some(release(stamp))
}

/// Returns the violation if a release was never published.
pub(super) fn never(package: &str, version: &str, line: usize) -> Option<Hit<'static>> {
    let row = data().never.iter().find(|row| {
        row.package == package
            && (row.exact.iter().any(|exact| exact == version)
                || row.releases.iter().any(|releases| releases.contains(version)))
    })?;
    let message = format!("there is no `{package}` `{version}`");
    Some(Hit::new("no-such-version", line, message).help(&row.help).evidence(row.evidence.as_ref()))
}

/// Checks the extras of a package; `all` are the versions of the packages in its stage.
fn extras(
    facts: &Facts<'_>,
    package: &Package,
    all: &BTreeMap<String, String>,
    found: &mut Findings<'_>,
) {
    let in_stage = |one: &&Package| one.stage == package.stage;
    let is_limited = |name: &str| {
        facts.packages.iter().filter(in_stage).any(|one| one.name == name && one.is_limited)
    };
    for row in data().extras.iter().filter(|row| row.package == package.name) {
        let extras: Vec<&str> = package
            .extras
            .iter()
            .filter(|extra| row.extras.contains(extra))
            .map(String::as_str)
            .collect();
        let version = package.version.as_ref().or_else(|| all.get(&package.name));
        let is_gone =
            version.is_none_or(|version| row.releases.iter().any(|one| one.contains(version)));
        // A limit such as `<1`, or another package, selects a release that has the extra.
        let is_kept = is_limited(&row.package)
            || row.unless.iter().any(|(name, releases)| {
                is_limited(name) || all.get(name).is_some_and(|own| releases.contains(own))
            });
        if !extras.is_empty() && is_gone && !is_kept {
            let message =
                format!("`{}` no longer has the extra `{}`", package.name, extras.join(","));
            let help = format!("write `{}` without this extra", package.name);
            let hit = Hit::new(&row.row.rule, package.line, message).of(&row.row);
            found.hit(hit.help(help).about(package.name.as_str()));
        }
    }
}

/// Checks releases whose ROCm wheels exist only for one Python version.
fn wheels(facts: &Facts<'_>, package: &Package, found: &mut Findings<'_>) {
    let Some(version) = &package.version else { return };
    let row = data().wheels.iter().find(|row| {
        row.package == package.name && row.releases.iter().any(|one| one.contains(version))
    });
    let Some(row) = row else { return };
    let command = package.command.checked_sub(1).and_then(|at| facts.commands.get(at));
    let is_rocm = version.contains("rocm") || command.is_some_and(names_rocm);
    let python = package
        .python
        .as_deref()
        .or_else(|| command.and_then(python_of))
        .or_else(|| stage_python(facts, package.stage));
    if let Some(python) = python.filter(|python| is_rocm && *python != row.python) {
        let message = format!(
            "the ROCm wheel of `{}` `{version}` is for Python {}, but Python {python} is used",
            package.name, row.python
        );
        found.hit(Hit::new(&row.row.rule, package.line, message).of(&row.row));
    }
}

/// Returns the Python that a command names.
pub(super) fn python_of(command: &ShellCommand) -> Option<&str> {
    let words: Vec<&str> = command.texts();
    let asked = words.windows(2).find(|two| matches!(two[0], "--python" | "-p")).map(|two| two[1]);
    let named = words.iter().find(|word| word.starts_with("--python="));
    let program = words[0].rsplit('/').next().filter(|program| program.contains("p"));
    asked.or(named.copied()).or(program).and_then(version_in)
}

/// Returns the Python that a stage uses: that of its virtual environment, else that of its base.
fn stage_python<'a>(facts: &'a Facts<'_>, stage: usize) -> Option<&'a str> {
    let makes = |command: &&ShellCommand| {
        command.stage == stage && command.words.iter().any(|word| word.text == "venv")
    };
    let made = facts.commands.iter().filter(makes).find_map(python_of);
    let base = facts.base(stage).map(|stage| images::parts(&stage.base));
    made.or_else(|| base.filter(|base| base.path == "python")?.tag.and_then(version_in))
}

pub(super) fn names_rocm(command: &ShellCommand) -> bool {
    command.words.iter().any(|word| {
        let word = word.text.to_ascii_lowercase();
        word.contains("rocm") || word.contains("repo.radeon.com") || word.contains("amd.com")
    })
}

/// Returns whether a command takes nothing from PyTorch's index: it names only packages that this
/// index does not have, and keeps the torch that is installed.
pub(super) fn leaves_index(facts: &Facts<'_>, command: &ShellCommand) -> bool {
    let words = command.texts();
    let is_own = |one: &&Package| {
        let at = one.command.checked_sub(1).and_then(|at| facts.commands.get(at));
        at.is_some_and(|own| std::ptr::eq(own, command))
    };
    let is_there = |one: &Package| {
        one.name.contains("torch") || one.name.contains("triton") || one.name == "xformers"
    };
    let mut own = facts.packages.iter().filter(is_own).peekable();
    let keeps = ["--no-build-isolation", "--no-deps"].iter().any(|one| words.contains(one));
    keeps
        && words.iter().any(|word| word.contains("download.pytorch.org"))
        && !words.iter().any(|word| matches!(*word, "-r" | "--requirement"))
        && own.peek().is_some()
        && !own.any(is_there)
}

/// Programs that only download, build, install or check packages.
pub(super) const HELPERS: [&str; 15] = [
    "black",
    "build",
    "cmake",
    "flake8",
    "isort",
    "mypy",
    "nbstripout",
    "ninja",
    "packaging",
    "pip",
    "pytest",
    "ruff",
    "setuptools",
    "setuptools-scm",
    "wheel",
];

/// Packages that require one release of torch.
const WITH_TORCH: [&str; 2] = ["torchvision", "torchaudio"];

/// Checks a command that installs packages. `reported` has the packages without an exact version that
/// earlier commands install.
fn indexes<'f>(
    facts: &'f Facts<'_>,
    command: &ShellCommand,
    reported: &mut BTreeSet<&'f str>,
    found: &mut Findings<'_>,
) {
    let words: Vec<&str> = command.texts();
    if !is_pip(&words) || !words.contains(&"install") {
        return;
    }
    let line = command.words[0].line;
    let has_extra = words.iter().any(|word| word.starts_with("--extra-index-url"));
    let is_in = |package: &Package| {
        package.stage == command.stage && command.words.iter().any(|w| w.line == package.line)
    };
    let has_torch = facts
        .packages
        .iter()
        .any(|package| package.name == "torch" && package.version.is_some() && is_in(package));
    let is_helper = |name: &str| {
        HELPERS.contains(&name)
            || name.starts_with("pytest-")
            || has_torch && WITH_TORCH.contains(&name)
    };
    let unbound = installs::without_bound(facts, command);
    let is_open = |package: &&Package| {
        package.version.is_none()
            && !package.is_special
            && !package.is_limited
            && !is_helper(&package.name)
            && is_in(package)
            && !unbound.contains(&(package.line, package.name.clone()))
    };
    // The version of torch decides most.
    let torch = facts.packages.iter().filter(|one| one.name == "torch").find(is_open);
    let unpinned = torch.or_else(|| facts.packages.iter().find(is_open));
    let is_settled = words.iter().any(|word| {
        // A constraints file cannot pin pre-releases that are newer than the file.
        let is_constraint = *word == "-c" || word.starts_with("--constraint");
        // `--ignore-installed` replaces a package of the distribution that pip cannot remove.
        matches!(*word, "--require-hashes" | "--no-index" | "--ignore-installed")
            || is_constraint && !words.contains(&"--pre")
    });
    if let Some(package) = unpinned.filter(|_| !is_settled)
        && reported.insert(&package.name)
    {
        found.add(
            "index-unpinned",
            package.line,
            format!("`{}` is installed without an exact version", package.name),
        );
    }
    // uv uses only the first index that has a package, and asks the extra ones first.
    let is_uv = words.iter().any(|word| word.rsplit('/').next() == Some("uv"))
        && !words.iter().any(|word| word.contains("unsafe-"));
    // No other index has a build with the stamp.
    let has_stamp = facts.packages.iter().any(|package| {
        package.name == "torch"
            && package.command.checked_sub(1).and_then(|at| facts.commands.get(at)) == Some(command)
            && rocm_of(package).is_some()
    });
    if has_extra && names_rocm(command) && !is_uv && !has_stamp && !leaves_index(facts, command) {
        found.add("extra-index-url", line, "the ROCm index and the default index are merged");
    }
}

/// Checks torch together with torchvision and torchaudio.
fn together(facts: &Facts<'_>, group: &Group<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let Some(torch) = group.versions.get("torch") else { return };
    for (name, message) in mismatches(torch, &group.versions, context.compat) {
        let package = group.packages.iter().find(|package| package.name == name);
        let Some(package) = package else { continue };
        let command = package.command.checked_sub(1).and_then(|at| facts.commands.get(at));
        // A version without a stamp also matches the stamped builds of an index, and pip prefers
        // them (PEP 440, "Local version identifiers"). The caller of a list names its index.
        let has_index = command.is_none_or(|command| {
            command.words.iter().any(|word| {
                matches!(&*word.text, "-i" | "-f")
                    || INDEX_OPTIONS.iter().any(|option| word.text.starts_with(option))
            })
        });
        let has_stamp = group.versions.get(&name).is_some_and(|version| version.contains('+'));
        if has_stamp == torch.contains('+') || !has_index {
            found.add("packages-do-not-match", package.line, message);
        }
    }
}

/// Returns the packages that do not match a release of torch, with the reasons.
pub(super) fn mismatches(
    torch: &str,
    all: &BTreeMap<String, String>,
    compat: Option<&::pins::Compat>,
) -> Vec<(String, String)> {
    let mut wrong = Vec::new();
    let own = |row: &&CouplingRow| row.releases.iter().any(|one| one.contains(torch));
    let listed = compat.and_then(|compat| compat.coupling("torch", torch)).map(|row| &row.with);
    let with = listed.or_else(|| data().couplings.iter().find(own).map(|row| &row.with));
    for name in ["torchvision", "torchaudio"] {
        let Some(version) = all.get(name) else { continue };
        // The table of releases does not apply to pre-releases.
        let is_released = !is_pre_release(torch) && !is_pre_release(version);
        let is_rocm = [torch, version].iter().any(|one| one.contains("+rocm"));
        if is_rocm && stamp(version) != stamp(torch) {
            wrong.push((
                name.to_owned(),
                format!("`{name}` `{version}` and `torch` `{torch}` have different ROCm stamps"),
            ));
        } else if let Some(wanted) = with
            .filter(|_| is_released)
            .and_then(|packages| packages.get(name))
            .filter(|wanted| !wanted.contains(version))
        {
            wrong.push((
                name.to_owned(),
                format!(
                    "`{name}` `{version}` does not match `torch` `{torch}`, which needs {wanted}"
                ),
            ));
        }
    }
    wrong
}

/// Returns the stamp of a version without the commit that AMD's wheels append to it:
/// `rocm7` and its numbers, `cu128`, `cpu`.
fn stamp(version: &str) -> Option<&str> {
    let (_, stamp) = version.split_once('+')?;
    let words = stamp.find(|c: char| c.is_ascii_digit()).unwrap_or(stamp.len());
    Some(&stamp[..words + numbers(&stamp[words..]).len()])
}

/// Returns the numbers with dots at the start of a text.
fn numbers(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    text[..end].trim_end_matches('.')
}

/// Returns the release at the start of a stamp, with the mark of a pre-release if it has one.
fn release(stamp: &str) -> &str {
    let end = numbers(stamp).len();
    let mark = stamp[end..].find(|c: char| !c.is_ascii_alphanumeric());
    &stamp[..mark.map_or(stamp.len(), |mark| end + mark)]
}

/// Returns whether a version has the mark of a pre-release: `a`, `b`, `rc`, `dev`.
fn is_pre_release(version: &str) -> bool {
    let release = version.split('+').next().unwrap_or_default();
    let rest = release.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == 'v');
    !rest.is_empty() && !rest.starts_with("post")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_compared_without_commits() {
        for (one, other, same) in [
            ("2.9.1+rocm7.2.1.lw.gitff65f5bf", "0.24.0+rocm7.2.1.gitb919bd0c", true),
            ("2.9.1+rocm7.2.1", "0.24.0+rocm7.2.0", false),
            ("2.9.1+rocm7.2.1", "0.24.0", false),
            ("2.9.1+cu128", "0.24.0+cu128", true),
            ("2.9.1+cu128", "0.24.0+cpu", false),
        ] {
            assert_eq!(stamp(one) == stamp(other), same, "{one} {other}");
        }
        assert_eq!(release("7.0.0rc20250826"), "7.0.0rc20250826");
        assert_eq!(release("7.2.1.lw.gitff65f5bf"), "7.2.1");
        for (version, expected) in [
            ("2.9.1", false),
            ("2.9.1.post1", false),
            ("2.9.0a0+rocm7.0", true),
            ("2.9.0rc1", true),
        ] {
            assert_eq!(is_pre_release(version), expected, "{version}");
        }
    }
}
