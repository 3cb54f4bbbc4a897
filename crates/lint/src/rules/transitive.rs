//! Rules for packages that bring torch with them: the CUDA build, in an image for ROCm that installs
//! no other one.

use super::frameworks::{SETTINGS, is_plain};
use super::images;
use super::requirements::requirements_in;
use super::stages::{command_of, is_known_base, parts};
use crate::data::data;
use crate::facts::Package;
use crate::python::is_pip;
use crate::requirements::{self, List};
use crate::specifier::{Requirement, requirement};
use crate::{Context, Facts, Findings, Hit, Kind, Severity};

/// The rule.
const RULE: &str = "torch-for-cuda";

/// Texts, in lower case, of files for AMD GPUs.
const FOR_ROCM: [&str; 5] =
    ["rocm/dev-", "rocm/rocm-terminal", "repo.radeon.com", "amdgpu-install", "hsa_override"];

/// Texts, in lower case, of files that can get torch in another way, or not only for AMD GPUs.
const SETTLES: [&str; 26] = [
    "--no-deps",
    "--overrides",
    ".whl",
    "/whl",
    "conda",
    "constraint",
    "cpu",
    "find-links",
    "index-url",
    "index_url",
    "mamba",
    "manylinux",
    "nightlies",
    "nvidia",
    "pip_",
    "pixi",
    "poetry",
    "prereleases",
    "rocm-sdk",
    "setup.py",
    "therock",
    "torch_backend",
    "torch-backend",
    "torch.version",
    "uv sync",
    "uv.lock",
];

/// Extras with which a package requires torch.
const EXTRAS: [&str; 2] = ["pytorch", "torch"];

/// Addresses of indexes with builds of torch for ROCm.
const INDEXES: [&str; 4] = [
    "download.pytorch.org/whl/nightly/rocm",
    "download.pytorch.org/whl/rocm",
    "repo.amd.com/rocm/whl",
    "rocm.nightlies.amd.com",
];

/// Checks a list whose packages bring torch, and which names the index for ROCm only in a comment.
fn said(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let names = |(_, text): &(usize, &str)| INDEXES.iter().any(|index| text.contains(index));
    let is_comment = |(_, text): &(usize, &str)| facts.kind.is_comment(text);
    let has_option = facts.lines().any(|(_, text)| text.trim_start().starts_with('-'));
    let is_torch = |one: &Package| one.name == "torch" || one.name.starts_with("pytorch-");
    let is_said = facts.lines().filter(names).any(|one| is_comment(&one));
    if has_option || !is_said || facts.packages.iter().any(is_torch) {
        return;
    }
    let brings = |one: &&Package| needs(&one.name) && !one.is_special;
    if let Some(package) = facts.packages.iter().find(brings) {
        let message = format!(
            "`{}` brings torch from the default index, unless the command in the comment ran before",
            package.name
        );
        let hit = Hit::new(RULE, package.line, message).at_most(Severity::Information);
        found.hit(hit.help("write the index and torch in this list: `--extra-index-url URL`, and `torch==` with the version that ends in `+rocm`"));
    }
}

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    if facts.kind == Kind::Requirements {
        return said(facts, found);
    }
    if facts.kind != Kind::Dockerfile || !lacks_torch(facts, context) {
        return;
    }
    let Some(lists) = lists(facts, context) else { return };
    let brings = |one: &&Package| {
        (needs(&one.name) || one.extras.iter().any(|extra| EXTRAS.contains(&extra.as_str())))
            && !one.is_special
            && is_known_base(facts, one.stage)
            && command_of(facts, one).is_some_and(is_plain)
    };
    if let Some(package) = facts.packages.iter().find(brings) {
        let message =
            format!("`{}` brings the CUDA build of torch from the default index", package.name);
        return found.add(RULE, package.line, message);
    }
    for list in lists {
        let path = list.path.rsplit('/').next().unwrap_or(&list.path);
        let all = requirements_in(&list.text);
        if let Some(message) = all.iter().find_map(|one| brought(one, path)) {
            return found.add(RULE, list.line, message);
        }
    }
}

/// Returns the lists of requirements that a Dockerfile installs from the default index; `None` if one
/// of them is not known, or can bring another torch.
fn lists(facts: &Facts<'_>, context: Context<'_>) -> Option<Vec<List>> {
    let mut all = Vec::new();
    for command in facts.commands.iter().filter(|one| is_pip(&one.texts())) {
        let wanted = requirements::options(command).len();
        let read = |exists| requirements::installed(facts.file, facts.text, command, exists);
        let own = context.exists.filter(|_| wanted > 0).map(read).unwrap_or_default();
        if own.len() < wanted || own.iter().any(brings_other) {
            return None;
        }
        all.extend(own.into_iter().filter(|_| is_known_base(facts, command.stage)));
    }
    Some(all)
}

/// Returns whether a list names torch, or another source of packages.
fn brings_other(list: &List) -> bool {
    let lower = list.text.to_ascii_lowercase();
    let is_option = |line: &str| line.trim_start().starts_with('-');
    let is_torch = |one: &Requirement<'_>| one.name == "torch" || one.name.starts_with("pytorch-");
    lower.lines().any(is_option)
        || ["+rocm", "+cpu", "://"].iter().any(|text| lower.contains(text))
        || list.path.contains("cpu")
        || requirements_in(&list.text).iter().any(is_torch)
}

/// Checks the packages that a project requires, which a line of a Dockerfile installs.
pub(super) fn of_project(
    facts: &Facts<'_>,
    context: Context<'_>,
    (dependencies, line): (&[String], usize),
    found: &mut Findings<'_>,
) {
    let all: Vec<_> = dependencies.iter().filter_map(|one| requirement(one)).collect();
    let is_settled = all.iter().any(|one| one.name == "torch") || lists(facts, context).is_none();
    let brings = || all.iter().find_map(|one| brought(one, "pyproject.toml"));
    if is_settled || !lacks_torch(facts, context) {
        return;
    }
    let is_again = found.all.iter().any(|one| one.rule.id == RULE);
    if let Some(message) = brings().filter(|_| !is_again) {
        found.add(RULE, line, message);
    }
}

/// Returns whether a package requires torch.
pub(super) fn needs(name: &str) -> bool {
    data().need_torch.iter().any(|one| one == name)
}

/// Returns what is wrong if a requirement of a file brings torch.
fn brought(one: &Requirement<'_>, file: &str) -> Option<String> {
    let is_needed = needs(&one.name) || one.extras.iter().any(|extra| EXTRAS.contains(extra));
    (is_needed && !one.is_special).then(|| {
        format!("`{}` in `{file}` brings the CUDA build of torch from the default index", one.name)
    })
}

/// Returns whether an image for ROCm installs no torch itself, and nothing else certainly can.
fn lacks_torch(facts: &Facts<'_>, context: Context<'_>) -> bool {
    let lower = facts.code.to_ascii_lowercase();
    let has = |texts: &[&str]| texts.iter().any(|text| lower.contains(text));
    let name = facts.file.rsplit('/').next().unwrap_or(facts.file).to_ascii_lowercase();
    let is_rocm = has(&FOR_ROCM) || name.contains("rocm");
    let is_torch = |one: &Package| one.name == "torch" || one.name.starts_with("pytorch");
    let is_configured = SETTINGS.iter().any(|one| facts.text.contains(one));
    if !is_rocm || has(&SETTLES) || is_configured || facts.packages.iter().any(is_torch) {
        return false;
    }
    let has_torch = facts.stages.iter().any(|stage| {
        let path = images::parts(&stage.base).path;
        path.contains("torch") || data().with_torch.iter().any(|one| one == path)
    });
    // A copy from another image can bring torch, and a script can install it.
    let is_open = facts.instructions().iter().any(|one| match parts(one).0.as_str() {
        "RUN" => one.text.contains(".sh") || one.text.contains("git clone"),
        "COPY" | "ADD" => one.text.contains("-packages"),
        "CMD" | "ENTRYPOINT" => !is_harmless(facts, &one.text, context),
        _ => false,
    });
    !has_torch && !is_open
}

/// Returns whether the scripts with which a container starts install nothing.
fn is_harmless(facts: &Facts<'_>, text: &str, context: Context<'_>) -> bool {
    let words = text.split(|c: char| c.is_whitespace() || "[]\",'".contains(c));
    let mut scripts = words.filter(|word| word.ends_with(".sh"));
    scripts.all(|path| {
        let name = path.rsplit('/').next().unwrap_or(path);
        let folders = ["", "docker/", "scripts/"];
        let mut places = folders.iter().map(|folder| format!("{folder}{name}"));
        let own = places.find_map(|one| context.exists?.in_context(facts.file, &one));
        own.is_some_and(|own| !own.contains("install"))
    })
}
