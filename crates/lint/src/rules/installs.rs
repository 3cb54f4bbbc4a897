//! Rules for what pip really installs: bounds that the shell reads, builds that are gone, packages
//! for other systems, and a torch that is already there.

use std::collections::BTreeSet;

use jiff::civil::Date;

use super::packages::names_rocm;
use super::stages::{command_of, instruction_of, is_known_base, is_rocm_torch};
use super::transitive::needs;
use crate::facts::Package;
use crate::python::is_pip;
use crate::shell::ShellCommand;
use crate::{Context, Facts, Findings, Hit, Kind, Severity};

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    if !matches!(facts.kind, Kind::Dockerfile | Kind::Shell) {
        return;
    }
    redirected(facts, found);
    synced(facts, found);
    for package in &facts.packages {
        removed(facts, package, context, found);
    }
    if facts.kind == Kind::Dockerfile {
        for package in &facts.packages {
            other_system(facts, package, found);
        }
        // The first list is enough.
        if let Some((command, list)) = facts.commands.iter().find_map(cuda_list) {
            for_cuda(facts, command, list, found);
        }
        kept(facts, found);
    }
}

/// Checks the continuation lines of `pip install` for bounds without quotes.
fn redirected(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let installs = |one: &&ShellCommand| {
        let words = one.texts();
        is_pip(&words) && words.contains(&"install")
    };
    if !facts.code.contains('>') && !facts.code.contains('<') {
        return;
    }
    let lines: Vec<&str> = facts.text.lines().collect();
    for command in facts.commands.iter().filter(installs) {
        let first = command.words[0].line;
        for word in command.words.iter().filter(|word| word.line > first) {
            let text = lines.get(word.line - 1).copied().unwrap_or_default();
            // The parser ends a word before a redirection, but not inside quotes.
            let bound = text
                .split_whitespace()
                .filter_map(|part| part.strip_prefix(word.text.as_str()))
                .find(|rest| is_bound(rest));
            if bound.is_some() {
                found.add(
                    "version-redirected",
                    word.line,
                    "a version specifier for pip is not quoted",
                );
                break;
            }
        }
    }
}

/// Returns the packages of a command, with their lines, whose bound the shell takes away, because it
/// is not quoted. Another rule reports them.
pub(super) fn without_bound(
    facts: &Facts<'_>,
    command: &ShellCommand,
) -> BTreeSet<(usize, String)> {
    let lines: BTreeSet<usize> = command.words.iter().map(|word| word.line).collect();
    let parts = lines
        .iter()
        .flat_map(|line| facts.line(*line).split_whitespace().map(move |part| (*line, part)));
    let names = parts.filter_map(|(line, part)| {
        let end = part.find(['>', '<']).filter(|end| is_bound(&part[*end..]))?;
        Some((line, crate::python::package(&part[..end], line)?.name))
    });
    names.collect()
}

/// Returns whether a text starts with a bound such as `>=2` or `<3`.
fn is_bound(text: &str) -> bool {
    let rest = text.strip_prefix(['>', '<']).map(|rest| rest.strip_prefix('=').unwrap_or(rest));
    rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The index with PyTorch's nightly builds.
const NIGHTLY: &str = "download.pytorch.org/whl/nightly";

/// The number of days after which a nightly build is certainly gone. The index shows the newest 60
/// builds of a package, and there is about one a day.
const GONE: i32 = 180;

/// Checks for nightly builds of a day long ago.
fn removed(facts: &Facts<'_>, package: &Package, context: Context<'_>, found: &mut Findings<'_>) {
    let day = package.version.as_deref().and_then(|version| version.split_once(".dev"));
    let Some((_, day)) = day else { return };
    let day = day.split('+').next().unwrap_or_default();
    let is_nightly = command_of(facts, package)
        .is_some_and(|one| one.words.iter().any(|word| word.text.contains(NIGHTLY)));
    let (Some(built), Some(today)) = (date(day), context.today.and_then(date)) else { return };
    if is_nightly && (today - built).get_days() > GONE {
        let version = package.version.as_deref().unwrap_or_default();
        let message = format!("`{}` `{version}` is an old nightly build", package.name);
        found.add("nightly-removed", package.line, message);
    }
}

/// Reads `20240726` and `2024-07-26`.
fn date(text: &str) -> Option<Date> {
    Date::strptime("%Y%m%d", text.replace('-', "")).ok()
}

/// Packages of which there are wheels for Windows only, and no source.
const WINDOWS: [&str; 4] = ["onnxruntime-directml", "pywin32", "triton-windows", "windows-curses"];

/// Checks for packages that do not exist for Linux.
fn other_system(facts: &Facts<'_>, package: &Package, found: &mut Findings<'_>) {
    let is_windows_image =
        facts.images.iter().any(|one| one.reference.to_ascii_lowercase().contains("windows"));
    if WINDOWS.contains(&package.name.as_str()) && !package.is_special && !is_windows_image {
        let message = format!("`{}` exists for Windows only", package.name);
        found.add("package-other-system", package.line, message);
    }
}

/// Parts of the names of lists of requirements for NVIDIA GPUs.
const CUDA: [&str; 4] = ["cuda", "nvidia", "cu12", "cu11"];

/// Returns the list in `pip install -r requirements-cuda.txt`.
fn cuda_list(command: &ShellCommand) -> Option<(&ShellCommand, &str)> {
    let words = command.texts();
    if !is_pip(&words) || !words.contains(&"install") {
        return None;
    }
    let lists = words.windows(2).filter(|two| {
        matches!(two[0], "-r" | "--requirement" | "--requirements")
            || two[0].ends_with('r') && two[0].starts_with("-U")
    });
    let mut lists = lists
        .map(|two| two[1])
        .chain(words.iter().filter_map(|one| one.strip_prefix("--requirement=")));
    let is_cuda = |path: &&str| {
        let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
        CUDA.iter().any(|part| name.contains(part))
            && !name.contains("rocm")
            && !name.contains("non")
    };
    lists.find(is_cuda).map(|list| (command, list))
}

/// Checks a list of requirements for NVIDIA GPUs that an image for AMD GPUs installs.
fn for_cuda(facts: &Facts<'_>, command: &ShellCommand, list: &str, found: &mut Findings<'_>) {
    let has_rocm = facts.base(command.stage).is_some_and(|stage| stage.base.contains("rocm"));
    let installs_rocm =
        facts.packages.iter().any(|one| one.stage == command.stage && is_rocm_torch(facts, one));
    let all = facts.instructions();
    let own = instruction_of(all, command.words[0].line).map(|one| one.text.as_str());
    // A build for several vendors chooses the list.
    let is_choice = own.is_none_or(|text| {
        ["if ", "case ", "||", "grep", "sed "].iter().any(|word| text.contains(word))
    });
    let changes = facts.commands.iter().any(|one| {
        matches!(&*one.words[0].text, "sed" | "grep")
            && one.words.iter().any(|word| word.text.ends_with(list))
    });
    if (has_rocm || installs_rocm) && !is_choice && !changes {
        let message = format!("`{list}` is installed in an image for AMD GPUs");
        found.add("cuda-package", command.words[0].line, message);
    }
}

/// Options of pip with which it takes packages from elsewhere, or replaces what is installed.
const OTHER_SOURCE: [&str; 8] = [
    "--index-url",
    "--extra-index-url",
    "--find-links",
    "--default-index",
    "--index",
    "--no-deps",
    "--no-index",
    "--torch-backend",
];

const REPLACES: [&str; 9] = [
    "-U",
    "-I",
    "--upgrade",
    "--force-reinstall",
    "--ignore-installed",
    "--reinstall",
    "--reinstall-package",
    "--target",
    "--prefix",
];

/// Checks for torch that is installed from a ROCm index, although a package before it has brought
/// the CUDA build.
fn kept(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let settings = ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_", "PIP_CONFIG", "PIP_FIND_LINKS"];
    let files = ["pip.conf", "pip config", "conda ", "constraint"];
    if settings.iter().chain(&files).any(|one| facts.text.contains(one)) {
        return;
    }
    for torch in facts.packages.iter().filter(|one| is_rocm_torch(facts, one)) {
        let Some(command) = command_of(facts, torch) else { continue };
        let words = command.texts();
        let is_open = torch.version.is_none() && !torch.is_special && !torch.is_limited;
        let replaces =
            words.iter().any(|word| REPLACES.contains(&word.split('=').next().unwrap_or(word)));
        let is_combined = |word: &&str| {
            word.starts_with('-') && !word.starts_with("--") && word.contains(['U', 'I', 't'])
        };
        if !is_open
            || replaces
            || words.iter().any(is_combined)
            || !is_known_base(facts, torch.stage)
        {
            continue;
        }
        let before: Vec<&Package> = facts
            .packages
            .iter()
            .filter(|one| one.stage == torch.stage && one.command < torch.command)
            .collect();
        let has_torch = before.iter().any(|one| one.name == "torch");
        let between = &facts.commands[..torch.command];
        let removes = between.iter().any(|one| {
            one.stage == torch.stage && one.words.iter().any(|word| word.text == "uninstall")
        });
        let cause = before.iter().find(|one| {
            let own = command_of(facts, one);
            let is_plain = own.is_some_and(|own| {
                let texts = own.texts();
                let takes = |word: &&str| {
                    OTHER_SOURCE.contains(&word.split('=').next().unwrap_or(word))
                        || matches!(*word, "-i" | "-f" | "-t" | "--target")
                };
                texts[0] == words[0] && !texts.iter().any(takes) && !names_rocm(own)
            });
            needs(&one.name) && is_plain
        });
        if let Some(cause) = cause.filter(|_| !has_torch && !removes) {
            // A new torchvision can require another release of torch, which pip then installs.
            let is_required = words.iter().any(|word| ["torchvision", "torchaudio"].contains(word));
            let (keeps, severity) = if is_required {
                ("may keep", Severity::Warning)
            } else {
                ("keeps", Severity::Error)
            };
            let message = format!(
                "pip {keeps} the CUDA build of torch that `{}` in line {} has brought",
                cause.name, cause.line
            );
            let hit = Hit::new("torch-kept", torch.line, message);
            return found.hit(hit.at_most(severity));
        }
    }
}

/// Texts that show that `uv pip` and `uv sync` can work on different environments.
const OTHER_ENVIRONMENT: [&str; 4] =
    ["VIRTUAL_ENV", "conda activate", "UV_PROJECT_ENVIRONMENT", "UV_SYSTEM_PYTHON"];

/// Options of `uv pip` that name an environment.
const NAMES_ENVIRONMENT: [&str; 5] = ["--system", "--target", "--prefix", "--python", "-p"];

/// Checks for `uv sync` after `uv pip install` has installed torch for ROCm.
fn synced(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let activates = |one: &ShellCommand| {
        let is_other = |word: &&str| word.ends_with("/bin/activate") && !word.contains(".venv/");
        one.texts().iter().any(is_other)
    };
    let is_other = OTHER_ENVIRONMENT.iter().any(|text| facts.code.contains(text));
    if is_other || facts.commands.iter().any(activates) {
        return;
    }
    let installs: Vec<(usize, &ShellCommand)> = facts
        .packages
        .iter()
        .filter(|one| is_rocm_torch(facts, one))
        .filter_map(|one| Some((one.command, command_of(facts, one)?)))
        .filter(|(_, command)| is_for_project(&command.texts()))
        .collect();
    let (Some((first, command)), Some((last, _))) = (installs.first(), installs.last()) else {
        return;
    };
    let removes = |one: &&ShellCommand| {
        let words = one.texts();
        let is_harmless = |word: &&str| {
            ["rocm", "--no-install-package", "--inexact", "--dry-run", "--check", "--help"]
                .iter()
                .any(|text| word.contains(text))
        };
        words[0] == "uv"
            && words.get(1) == Some(&"sync")
            && one.folder == command.folder
            && one.stage == command.stage
            && !words.iter().any(is_harmless)
    };
    // A later `uv pip install` of torch settles it.
    let after = facts.commands.get(*last.max(first)..).unwrap_or_default();
    if let Some(sync) = after.iter().find(removes) {
        let message = "`uv sync` after `uv pip install torch` restores the torch of uv.lock";
        found.add("uv-sync-torch", sync.words[0].line, message);
    }
}

/// Returns whether a command is `uv pip` for the environment of the project.
fn is_for_project(words: &[&str]) -> bool {
    let names = |word: &&str| NAMES_ENVIRONMENT.contains(&word.split('=').next().unwrap_or(word));
    words[0] == "uv" && words.get(1) == Some(&"pip") && !words.iter().any(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_and_dates_are_recognized() {
        for (text, expected) in [(">=2.4", true), ("<3", true), (">log", false), ("==1", false)] {
            assert_eq!(is_bound(text), expected, "{text}");
        }
        let (one, next) = (date("20240726"), date("2024-07-27"));
        assert_eq!(one.zip(next).map(|(one, next)| (next - one).get_days()), Some(1));
        assert_eq!(date("2024"), None);
    }
}
