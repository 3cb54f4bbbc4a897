//! Rules for what a base image contains, and what a Dockerfile says about it.

use std::collections::BTreeSet;

use super::contradictions::releases_after;
use super::images;
use super::stages::{HIP_OPTIONS, last_stages, parts};
use crate::dockerfile::Instruction;
use crate::shell::{Scope, ShellCommand, UNKNOWN};
use crate::{Facts, Findings, Hit, Kind, Severity};

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if facts.kind != Kind::Dockerfile {
        return;
    }
    without_libraries(facts, found);
    without_rocm(facts, found);
    left_behind(facts, found);
    search_path(facts, found);
    if facts.code.contains("LABEL") {
        let all = facts.instructions();
        for instruction in all.iter().filter(|one| parts(one).0 == "LABEL") {
            label(facts, instruction, found);
        }
    }
}

/// Packages of AMD's repository that bring neither hipBLAS nor rocBLAS.
const SMALL: [&str; 8] = [
    "rocm-cmake",
    "rocm-core",
    "rocm-dev",
    "rocm-device-libs",
    "rocm-llvm",
    "rocm-smi",
    "rocm-smi-lib",
    "rocm-utils",
];

/// Checks for a build with HIP of a program that needs hipBLAS and rocBLAS, on an image of AMD that
/// contains neither.
fn without_libraries(facts: &Facts<'_>, found: &mut Findings<'_>) {
    for command in facts.commands.iter().filter(|one| one.words[0].text.ends_with("cmake")) {
        let base = facts.base(command.stage).map(|stage| images::parts(&stage.base));
        let Some(images::Parts { path, tag: Some(tag), .. }) = base else { continue };
        let is_slim = path.starts_with("rocm/dev-ubuntu")
            && tag.starts_with(|c: char| c.is_ascii_digit())
            && !tag.contains(UNKNOWN)
            && !images::has_all_libraries(tag);
        let is_on = |text: &str| {
            let lower = text.to_ascii_lowercase();
            let is_option = HIP_OPTIONS.iter().any(|name| lower.starts_with(name));
            is_option && ["=on", "=1", "=true"].iter().any(|value| lower.ends_with(value))
        };
        let is_built = command.words.iter().any(|word| is_on(&word.text));
        // A stage contains what the stages before it on the same base install.
        let is_inside = |number: usize| {
            let external = |at| facts.base(at).map(|one| &one.base);
            number <= command.stage && external(number) == external(command.stage)
        };
        let brings = |one: &Instruction| {
            let (name, rest) = parts(one);
            is_inside(one.stage)
                && (name == "COPY" && rest.contains("/opt/rocm")
                    || name == "RUN"
                        && [".sh", "pip install rocm", "therock"]
                            .iter()
                            .any(|part| rest.contains(part)))
        };
        let installs = |one: &ShellCommand| is_inside(one.stage) && has_rocm_package(one);
        if !is_slim || !is_built {
            continue;
        }
        if mentions_libraries(facts) {
            return;
        }
        let all = facts.instructions();
        if !all.iter().any(brings) && !facts.commands.iter().any(installs) {
            let message = format!("`{path}:{tag}` contains neither hipBLAS nor rocBLAS");
            return found.add("math-libraries-missing", command.words[0].line, message);
        }
    }
}

/// Python packages for AMD GPUs that contain no library of ROCm.
const NEED_ROCM: [&str; 4] =
    ["cupy-rocm-5-0", "cupy-rocm-7-0", "onnxruntime-migraphx", "onnxruntime-rocm"];

/// Images without ROCm.
const WITHOUT_ROCM: [&str; 4] = ["debian", "fedora", "python", "ubuntu"];

/// Checks for such a package in an image without ROCm.
fn without_rocm(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let all = facts.instructions();
    let stages = last_stages(facts, all);
    let base = stages.last().and_then(|stage| facts.base(*stage)).map(|one| one.base.as_str());
    let Some(base) = base.filter(|base| WITHOUT_ROCM.contains(&images::parts(base).path)) else {
        return;
    };
    let is_needed = |name: &str| NEED_ROCM.contains(&name);
    let Some(package) = facts.packages.iter().find(|one| is_needed(&one.name)) else { return };
    let own = all.iter().filter(|one| stages.contains(&one.stage));
    let brings = |one: &Instruction| {
        let (name, rest) = parts(one);
        let lower = rest.to_ascii_lowercase();
        let has = |texts: &[&str]| texts.iter().any(|text| lower.contains(text));
        match name.as_str() {
            "COPY" | "ADD" => has(&["/opt", "rocm", "--from=", ".sh"]) && !lower.contains("venv"),
            "RUN" => {
                has(&["apt/", "amdgpu", "rocm-", "rocm_sdk", "rocm[", "therock", ".sh", ".deb"])
            }
            _ => false,
        }
    };
    // `rocm-` is also part of the package's own name and of file names.
    let is_apt = |one: &ShellCommand| {
        stages.contains(&one.stage)
            && matches!(&*one.words[0].text, "apt" | "apt-get" | "dnf")
            && one.words.iter().any(|word| {
                ["hip", "migraphx", "miopen", "roc"]
                    .iter()
                    .any(|start| word.text.starts_with(start))
            })
    };
    let is_mounted = facts.text.contains(":/opt/rocm");
    if !is_mounted && !own.into_iter().any(brings) && !facts.commands.iter().any(is_apt) {
        let message = format!("`{}` needs ROCm's libraries, and `{base}` has none", package.name);
        let hit = Hit::new("math-libraries-missing", package.line, message);
        let help = "start from an image with ROCm, or install AMD's packages in the last stage";
        found.hit(hit.help(help).at_most(Severity::Warning));
    }
}

/// Returns whether a file mentions the libraries, so that it may install or copy them.
fn mentions_libraries(facts: &Facts<'_>) -> bool {
    let mut code = facts.code.to_ascii_lowercase();
    for option in HIP_OPTIONS {
        code = code.replace(option, "");
    }
    ["hipblas", "rocblas", "rocm-hip", "amdgpu-install"].iter().any(|name| code.contains(name))
}

/// Returns whether a command installs a package of ROCm that can bring its libraries.
fn has_rocm_package(command: &ShellCommand) -> bool {
    let program = command.words[0].text.rsplit('/').next().unwrap_or_default();
    matches!(program, "apt" | "apt-get" | "dpkg")
        && command.words.iter().any(|word| {
            let text = word.text.split('=').next().unwrap_or_default();
            (text == "rocm" || text.starts_with("rocm-") || text.contains(UNKNOWN))
                && !SMALL.contains(&text)
        })
}

/// Packages with the libraries that programs are linked with.
const LINKED: [&str; 4] = ["hipblas-dev", "hipblas-devel", "rocblas-dev", "rocblas-devel"];

/// Checks for a last stage that gets a program of a build with hipBLAS, and not its libraries.
fn left_behind(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let last = facts.stages.len();
    let base = facts.base(last).map(|stage| images::parts(&stage.base));
    let Some(images::Parts { path, tag, .. }) = base.filter(|_| last > 1) else { return };
    let is_slim = path.starts_with("rocm/dev-")
        && !images::has_all_libraries(tag.unwrap_or_default())
        || matches!(path, "ubuntu" | "debian" | "fedora");
    if !is_slim {
        return;
    }
    let all = facts.instructions();
    let own: Vec<String> = all
        .iter()
        .filter(|one| one.stage == last)
        .map(|one| one.text.to_ascii_lowercase())
        .collect();
    let is_open = own.iter().any(|text| brings_libraries(text));
    let from = own.iter().filter(|text| text.starts_with("copy")).find_map(|text| {
        let (_, rest) = text.split_once("--from=")?;
        rest.split_whitespace().next()
    });
    let is_its = |name: &String| from.is_some_and(|from| name.eq_ignore_ascii_case(from));
    let stage = facts.stages.iter().position(|one| one.name.as_ref().is_some_and(is_its));
    let stages = last_stages(facts, all);
    let is_other = |at: &usize| at + 1 < last && !stages.contains(&(at + 1));
    let Some(stage) = stage.filter(|at| !is_open && is_other(at)) else { return };
    let installs = |one: &&ShellCommand| {
        let is_linked = |text: &str| LINKED.contains(&text.split('=').next().unwrap_or(text));
        one.stage == stage + 1
            && matches!(&*one.words[0].text, "apt" | "apt-get" | "dnf" | "microdnf" | "yum")
            && one.words.iter().any(|word| is_linked(&word.text))
    };
    // The build can put the libraries beside the program, or link them statically.
    let code = facts.code.to_ascii_lowercase();
    let is_kept = ["ldd ", "librocblas", "libhipblas", "static=on", "rpath", "rocblas/library"];
    let is_kept = is_kept.iter().any(|text| code.contains(text));
    if facts.commands.iter().any(|one| installs(&one)) && !is_kept {
        let line = all.iter().rfind(|one| parts(one).0 == "FROM").map_or(1, |one| one.line);
        let message = "the build uses hipBLAS or rocBLAS, and the last stage does not install it";
        let hit = Hit::new("math-libraries-missing", line, message).at_most(Severity::Warning);
        found.hit(hit.help("install the packages without `-dev` in the last stage"));
    }
}

/// Returns whether an instruction, in lower case, can bring the libraries of ROCm: it installs or
/// copies them, or runs a script.
fn brings_libraries(text: &str) -> bool {
    let has = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.first() {
        Some(&("copy" | "add")) => {
            let sources = &words[1..words.len().max(2) - 1];
            let is_tree =
                |word: &&&str| matches!(**word, "/" | "/usr" | "/usr/" | "/usr/local" | "/opt");
            let is_library =
                |word: &&str| ["/lib", ".so", "rocm", "blas"].iter().any(|p| word.contains(p));
            sources.iter().any(|word| is_tree(&word) || is_library(word))
        }
        Some(&"run") => has(&["blas", "rocm", "amdgpu", ".sh", "://", "$"]),
        _ => false,
    }
}

/// AMD's images with a Python environment that PATH names.
const WITH_PATH: [&str; 5] =
    ["rocm/jax", "rocm/pytorch", "rocm/sgl-dev", "rocm/tensorflow", "rocm/vllm"];

/// Checks for an `ENV PATH` that replaces the base image's.
fn search_path(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let is_path = |one: &&crate::shell::Setting| one.name == "PATH" && one.scope == Scope::Image;
    let mut stages: BTreeSet<usize> = BTreeSet::new();
    for setting in facts.settings.iter().filter(is_path) {
        let is_first = stages.insert(setting.stage);
        let base = facts.base(setting.stage).map(|stage| images::parts(&stage.base).path);
        let has_path = base.is_some_and(|path| WITH_PATH.iter().any(|one| path.starts_with(one)));
        if !is_first || !has_path || setting.value.contains(UNKNOWN) {
            continue;
        }
        let all = facts.instructions();
        let own = super::stages::instruction_of(all, setting.line);
        let is_kept = own
            .is_none_or(|one| one.text.contains("$PATH") || one.text.contains("${PATH"))
            || ["venv", "conda", "/opt/rocm/bin"].iter().any(|part| setting.value.contains(part));
        if !is_kept {
            found.add("path-replaced", setting.line, "`PATH` of the base image is replaced");
        }
    }
}

/// Words of labels that compare releases, or describe something other than the image.
const COMPARES: [&str; 9] =
    ["host", "driver", "require", "min", "older", "newer", "or later", "+", "since"];

/// Checks for a label that names a release other than that of the base image.
fn label(facts: &Facts<'_>, instruction: &Instruction, found: &mut Findings<'_>) {
    let Some(base) = facts.base(instruction.stage).map(|stage| stage.base.to_ascii_lowercase())
    else {
        return;
    };
    let lower = instruction.text.to_ascii_lowercase();
    if COMPARES.iter().any(|word| lower.contains(word)) {
        return;
    }
    let own = images::rocm_in(&base).map(str::to_owned).into_iter().collect();
    let kinds =
        [("ROCm", releases_after(&lower, "rocm"), own), ("Ubuntu", ubuntu(&lower), ubuntu(&base))];
    for (name, said, is) in kinds {
        let (Some(said), Some(is)) = (only(&said), only(&is)) else { continue };
        if !said.starts_with(is) && !is.starts_with(said) {
            let line =
                (instruction.line..=instruction.last).find(|line| facts.line(*line).contains(said));
            let message =
                format!("the label says {name} {said}, but the base image is for {name} {is}");
            return found.add("comment-contradicts", line.unwrap_or(instruction.line), message);
        }
    }
}

fn only(all: &BTreeSet<String>) -> Option<&str> {
    all.first().filter(|_| all.len() == 1).map(String::as_str)
}

/// Returns the releases that follow `ubuntu` in a text in lower case: `ubuntu 24.04`, `ubuntu22.04`.
fn ubuntu(lower: &str) -> BTreeSet<String> {
    let releases = lower.match_indices("ubuntu").filter_map(|(at, name)| {
        let rest = lower[at + name.len()..].trim_start_matches(['-', ' ', ':', '_']);
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        let release = rest[..end].trim_end_matches('.');
        (release.len() == 5 && release.contains('.')).then(|| release.to_owned())
    });
    releases.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_ubuntu_follow_its_name() {
        for (text, expected) in [
            ("rocm 7.2 on ubuntu 24.04", vec!["24.04"]),
            ("rocm/pytorch:rocm7.2_ubuntu22.04_py3.10", vec!["22.04"]),
            ("rocm/dev-ubuntu-24.04:7.2", vec!["24.04"]),
            ("ubuntu noble", vec![]),
        ] {
            assert_eq!(ubuntu(text).into_iter().collect::<Vec<_>>(), expected, "{text}");
        }
    }
}
