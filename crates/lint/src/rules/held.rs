//! Rules for a ROCm build of torch that is already there: nothing holds its release, or another
//! package overwrites its Triton.

use super::images;
use super::packages::names_rocm;
use super::requirements::requirements_in;
use super::stages::{command_of, is_rocm_torch};
use crate::data::data;
use crate::facts::Package;
use crate::python::is_pip;
use crate::requirements;
use crate::shell::ShellCommand;
use crate::specifier::{Requirement, requirement};
use crate::{Context, Facts, Findings, Hit, Kind, Severity};

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    match facts.kind {
        Kind::Dockerfile | Kind::Shell => {
            held(facts, context, found);
            triton(facts, found);
        }
        Kind::Requirements => {
            held_list(facts, found);
            triton_of_list(facts, found);
        }
        _ => {}
    }
}

/// Texts, in lower case, of files that hold torch, or check it at the end.
const HOLDS: [&str; 16] = [
    "constraint",
    "--override",
    "override-dep",
    "overrides",
    "pip_config",
    "pip.conf",
    "uv.toml",
    "pip_find_links",
    "pip_no_deps",
    "pip freeze",
    "torch.version.hip",
    "hip_version",
    "uv sync",
    "uv lock",
    "conda env",
    "conda create",
];

/// Options with which pip takes packages from elsewhere, or does not look at what they require.
const ELSEWHERE: [&str; 11] = [
    "--constraint",
    "--default-index",
    "--find-links",
    "--index",
    "--index-url",
    "--no-deps",
    "--no-index",
    "--prefix",
    "--require-hashes",
    "--target",
    "--torch-backend",
];

/// Returns whether a command installs packages from the default index, without constraints.
fn is_plain(command: &ShellCommand) -> bool {
    let words = command.texts();
    let is_other = |text: &&str| {
        ELSEWHERE.contains(&text.split('=').next().unwrap_or(text))
            || matches!(*text, "-c" | "-f" | "-i" | "-t" | "--dry-run" | "-h" | "--help")
    };
    is_pip(&words)
        && words.contains(&"install")
        && !command.is_for_other
        && !words.iter().any(is_other)
        && !names_rocm(command)
}

/// Returns whether a base image contains a ROCm build of torch.
fn brings_torch(facts: &Facts<'_>, stage: usize) -> bool {
    let path = facts.base(stage).map(|one| images::parts(&one.base).path);
    path.is_some_and(|path| data().with_torch.iter().any(|one| one == path))
}

/// Returns whether a package requires one release of torch. Others accept the one that is there.
fn may_replace(name: &str) -> bool {
    data().pin_torch.iter().any(|one| one == name)
}

/// Returns whether a requirement of a list may replace torch.
fn is_open(one: &Requirement<'_>) -> bool {
    let is_rocm = one.specifier.contains('+');
    !one.is_special && !is_rocm && (one.name == "torch" || may_replace(&one.name))
}

/// Checks for packages that require torch, and that come after a ROCm build of it which nothing holds.
fn held(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let lower = facts.text.to_ascii_lowercase();
    if HOLDS.iter().any(|text| lower.contains(text)) || is_configured(&lower) {
        return;
    }
    let torches: Vec<&Package> =
        facts.packages.iter().filter(|one| is_rocm_torch(facts, one)).collect();
    let mut first = None;
    for (at, command) in facts.commands.iter().enumerate().filter(|(_, one)| is_plain(one)) {
        let number = at + 1;
        let own = || torches.iter().filter(|one| one.stage == command.stage);
        let is_after = own().any(|one| one.command < number);
        // A later command installs it again.
        let calls = |one: &ShellCommand| one.words[0].text.contains("torch");
        let is_repaired = own().any(|one| one.command > number)
            || facts.kind == Kind::Shell && facts.commands[number..].iter().any(calls);
        if is_repaired || !(is_after || brings_torch(facts, command.stage)) {
            continue;
        }
        // A package that requires one release of torch is named before all others.
        let is_exact =
            facts.packages.iter().any(|one| one.command == number && may_replace(&one.name));
        if first.is_none() || is_exact {
            first = cause(facts, command, number, context).or(first);
        }
        if is_exact {
            break;
        }
    }
    let Some((cause, line)) = first else { return };
    let is_again = found.places().iter().any(|(place, rule)| {
        *place == line && matches!(*rule, "torch-replaced" | "torch-kept" | "cuda-package")
    });
    if !is_again {
        let message = format!("nothing holds the ROCm build of torch while {cause}");
        found.add("torch-not-held", line, message);
    }
}

/// Checks for a list for an existing ROCm build of torch, with packages that require torch.
fn held_list(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let name = facts.file.rsplit('/').next().unwrap_or(facts.file).to_ascii_lowercase();
    let all = requirements_in(facts.text);
    let is_torch = |one: &Requirement<'_>| one.name == "torch" || one.name.starts_with("pytorch-");
    let has_options = facts.lines().any(|(_, line)| line.trim_start().starts_with('-'));
    let lower = facts.text.to_ascii_lowercase();
    if !name.contains("rocm")
        || has_options
        || all.iter().any(is_torch)
        || HOLDS.iter().any(|text| lower.contains(text))
    {
        return;
    }
    let open = |one: &&Package| !one.is_special && may_replace(&one.name);
    if let Some(one) = facts.packages.iter().find(open) {
        let message =
            format!("nothing holds the ROCm build of torch while `{}` is installed", one.name);
        found.add("torch-not-held", one.line, message);
    }
}

/// Returns whether a file in lower case sets an index for pip that may have ROCm builds.
fn is_configured(lower: &str) -> bool {
    let sets = |line: &str| line.contains("index_url") || line.contains("pip config");
    let names_rocm =
        |line: &str| ["rocm", "amd.com", "radeon"].iter().any(|one| line.contains(one));
    lower.lines().any(|line| sets(line) && names_rocm(line))
}

/// Parts of the paths of lists of tools.
const OF_TOOLS: [&str; 5] = ["build", "dev", "docs", "lint", "test"];

/// Returns what a command installs that may replace torch, and its line.
fn cause(
    facts: &Facts<'_>,
    command: &ShellCommand,
    number: usize,
    context: Context<'_>,
) -> Option<(String, usize)> {
    let is_own = |one: &&Package| one.command == number && !one.is_special;
    let open = |one: &&Package| may_replace(&one.name);
    if let Some(one) = facts.packages.iter().filter(is_own).find(open) {
        return Some((format!("`{}` is installed", one.name), one.line));
    }
    let lists = list_names(command);
    let read = context.exists.filter(|_| facts.kind == Kind::Dockerfile);
    let read = read.map_or_else(Vec::new, |exists| {
        requirements::installed(facts.file, facts.text, command, exists)
    });
    for (path, line) in lists {
        let name = path.rsplit('/').next().unwrap_or(path);
        if is_edited(facts, name) {
            continue;
        }
        // A list that cannot be read counts if it belongs to a project that uses torch.
        let own = read.iter().find(|one| one.path == path);
        let may_replace = match own {
            Some(list) => {
                let has_index = list.text.lines().any(|one| one.trim_start().starts_with("--"));
                let all = list.text.lines().filter_map(requirement);
                !has_index && all.into_iter().any(|one| is_open(&one))
            }
            // Lists of tools for a build, a test or the documentation do not require torch.
            None => !OF_TOOLS.iter().any(|one| path.contains(one)) && clones_user(facts, number),
        };
        if may_replace {
            return Some((format!("`{name}` is installed"), line));
        }
    }
    None
}

/// Returns the lists of requirements that a command installs, with their lines.
fn list_names(command: &ShellCommand) -> Vec<(&str, usize)> {
    let is_option = |text: &str| {
        matches!(text, "-r" | "--requirement" | "--requirements")
            || text.starts_with("-U") && text.ends_with('r')
    };
    let pairs = command.words.windows(2).filter(|two| is_option(&two[0].text));
    pairs.map(|two| (two[1].text.as_str(), two[1].line)).collect()
}

/// Returns whether a command changes a list: `sed -i '/torch/d' requirements.txt`.
fn is_edited(facts: &Facts<'_>, name: &str) -> bool {
    facts.commands.iter().any(|one| {
        let program = one.words[0].text.rsplit('/').next().unwrap_or_default();
        matches!(program, "sed" | "grep" | "awk" | "perl" | "tee" | "echo" | "printf" | "cat")
            && one.words.iter().any(|word| word.text.contains(name))
    })
}

/// Returns whether the last clone before a command is that of a project that uses torch.
fn clones_user(facts: &Facts<'_>, number: usize) -> bool {
    let clones = |one: &&ShellCommand| {
        let words = one.texts();
        words[0] == "git" && words.contains(&"clone")
    };
    let has_all = ["torch", "torchvision", "torchaudio"]
        .iter()
        .all(|name| facts.packages.iter().any(|one| one.name == *name && one.command < number));
    let is_project = |word: &&str| {
        let name = word.trim_end_matches(".git").rsplit('/').next().unwrap_or_default();
        let is_in = |all: &[String]| all.iter().any(|own| own.eq_ignore_ascii_case(name));
        word.contains("://") && is_in(&data().use_torch) && !(has_all && is_in(&data().any_torch))
    };
    let last = facts.commands[..number].iter().rfind(clones);
    last.is_some_and(|one| one.texts().iter().any(is_project))
}

/// The index whose torch brings a Triton with a name of its own.
const PYTORCH: &str = "download.pytorch.org";

/// Returns whether a package requires `triton` by this name.
fn needs_triton(name: &str) -> bool {
    data().need_triton.iter().any(|one| one == name)
}

/// Adds a violation for a package that brings PyTorch's `triton` of the default index.
fn overwrites(name: &str, line: usize, found: &mut Findings<'_>) {
    let message =
        format!("`{name}` requires `triton`, which overwrites the Triton of torch's ROCm build");
    let hit = Hit::new("packages-same-module", line, message).at_most(Severity::Warning);
    found.hit(hit.help(
        "install it with `--no-deps`, and what else it requires by name; or install torch's Triton again afterwards",
    ));
}

/// Checks for a package that brings another Triton beside that of a ROCm build of torch.
fn triton(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if facts.text.contains("triton") || facts.text.contains("overrides") {
        return;
    }
    let is_pytorch = |one: &&Package| {
        let names =
            |command: &ShellCommand| command.words.iter().any(|word| word.text.contains(PYTORCH));
        is_rocm_torch(facts, one) && command_of(facts, one).is_some_and(names)
    };
    let torches: Vec<&Package> = facts.packages.iter().filter(is_pytorch).collect();
    let hit = facts.packages.iter().find(|one| {
        let is_beside = torches.iter().any(|torch| torch.stage == one.stage);
        let command = command_of(facts, one);
        let is_whole =
            command.is_some_and(|own| !own.words.iter().any(|word| word.text == "--no-deps"));
        needs_triton(&one.name) && !one.is_special && is_beside && is_whole
    });
    if let Some(one) = hit {
        overwrites(&one.name, one.line, found);
    }
}

/// Checks the same in a list of requirements with PyTorch's index for ROCm.
fn triton_of_list(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let is_index =
        |text: &str| text.starts_with("--") && text.contains(PYTORCH) && text.contains("/rocm");
    let has_torch = facts.packages.iter().any(|one| one.name == "torch");
    if !has_torch || !facts.code.lines().any(is_index) || facts.code.contains("triton") {
        return;
    }
    let is_wanted = |one: &&Package| needs_triton(&one.name) && !one.is_special;
    if let Some(one) = facts.packages.iter().find(is_wanted) {
        overwrites(&one.name, one.line, found);
    }
}
