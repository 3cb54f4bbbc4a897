//! Rules for parts of a file that contradict each other.

use std::collections::BTreeSet;

use ::names::{GfxVersion, GpuTarget};

use super::images;
use crate::shell::{Scope, Setting, UNKNOWN, Word};
use crate::target::targets;
use crate::{Facts, Findings, Hit, Kind, Severity};

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    overrides(facts, found);
    comments(facts, found);
}

/// Variables and options of CMake with the targets of a build.
const BUILDS: [&str; 7] = [
    "AMDGPU_TARGETS",
    "CMAKE_HIP_ARCHITECTURES",
    "GPU_ARCHS",
    "GPU_TARGETS",
    "HIP_ARCHITECTURES",
    "PYTORCH_ROCM_ARCH",
    "ROCM_DOCKER_ARCH",
];

/// Checks for an override that selects a target for which the same file builds nothing.
fn overrides(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if facts.kind != Kind::Dockerfile {
        return;
    }
    let mut built: BTreeSet<GpuTarget> = BTreeSet::new();
    let mut is_sure = true;
    let mut add = |value: &str| {
        let lower = value.to_ascii_lowercase();
        let own = targets(&lower);
        // `gfx110X`, `gfx11-generic` and unknown parts can contain any target.
        is_sure &= !own.is_empty() && lower.matches("gfx").count() == own.len();
        built.extend(own);
    };
    for setting in facts.settings.iter().filter(|one| BUILDS.contains(&one.name.as_str())) {
        if setting.value.contains(UNKNOWN) && setting.value.chars().all(|c| c == UNKNOWN) {
            continue;
        }
        add(&setting.value);
    }
    options(facts).for_each(&mut add);
    if !is_sure || built.is_empty() || built.len() > FEW {
        return;
    }
    let places = found.places();
    let is_override = |one: &&Setting| one.name == ::pins::OVERRIDE && one.scope == Scope::Image;
    for setting in facts.settings.iter().filter(is_override) {
        let Setting { name, value, line, .. } = setting;
        let Some(target) = unbuilt(value, &built) else { continue };
        if places.iter().any(|(at, rule)| at == line && rule.starts_with("hsa-override")) {
            continue;
        }
        let message = format!(
            "`{name}={value}` selects code for {target}, but the file builds only for {}",
            listed(&built)
        );
        let hit = Hit::new("hsa-override-other", *line, message).at_most(Severity::Warning);
        found.hit(hit.help("build for the GPU that the override names, or remove the override"));
    }
}

/// Returns the known values of the options of CMake with the targets of a build.
fn options<'f>(facts: &'f Facts<'_>) -> impl Iterator<Item = &'f str> {
    facts.commands.iter().flat_map(|command| &command.words).filter_map(|word| {
        let (name, value) = word.text.strip_prefix("-D")?.split_once('=')?;
        let is_target = name.split(':').next().is_some_and(|one| BUILDS.contains(&one));
        (is_target && !value.chars().all(|c| c == UNKNOWN)).then_some(value)
    })
}

/// Returns the target that an override selects, if nothing is built for it.
fn unbuilt(value: &str, built: &BTreeSet<GpuTarget>) -> Option<GpuTarget> {
    let target = value.trim().parse::<GfxVersion>().ok().and_then(|one| one.target())?;
    (!built.contains(&target)).then_some(target)
}

fn listed(built: &BTreeSet<GpuTarget>) -> String {
    built.iter().map(GpuTarget::as_str).collect::<Vec<_>>().join(", ")
}

/// Parts of the names of variables and options with targets, in lower case.
const SETS_TARGETS: [&str; 4] = ["gpu_archs", "gpu_targets", "hip_architectures", "rocm_arch"];

/// Checks for the override of a service that selects a target for which CMake compiles nothing in
/// the service's image.
pub(super) fn of_service(service: &[Word], dockerfile: &str, path: &str, found: &mut Findings<'_>) {
    let start = format!("--env={}=", ::pins::OVERRIDE);
    // Most services have no override, so that their image need not be read.
    if !service.iter().any(|word| word.text.starts_with(&start)) {
        return;
    }
    let image = Facts::read("Dockerfile", dockerfile);
    let mut built: BTreeSet<GpuTarget> = BTreeSet::new();
    for value in options(&image) {
        let own = targets(&value.to_ascii_lowercase());
        // `gfx110X`, `gfx11-generic` and unknown parts can contain any target.
        if own.is_empty() || value.matches("gfx").count() != own.len() {
            return;
        }
        built.extend(own);
    }
    // The image may choose between targets, or have wheels with code for other GPUs.
    let lower = image.code.to_ascii_lowercase();
    let count =
        |names: &[&str]| names.iter().map(|name| lower.matches(name).count()).sum::<usize>();
    let is_only = count(&["torch", "vllm"]) == 0 && count(&SETS_TARGETS) == options(&image).count();
    if built.is_empty() || built.len() > FEW || !is_only {
        return;
    }
    for word in service {
        let Some(value) = word.text.strip_prefix(&start) else { continue };
        let Some(target) = unbuilt(value, &built) else { continue };
        let is_said =
            |(at, rule): &(usize, &str)| *at == word.line && rule.starts_with("hsa-override");
        if found.places().iter().any(is_said) {
            continue;
        }
        let message = format!(
            "`{}={value}` selects code for {target}, but `{path}` compiles only for {}",
            ::pins::OVERRIDE,
            listed(&built)
        );
        let hit = Hit::new("hsa-override-other", word.line, message).at_most(Severity::Warning);
        found.hit(hit.help("compile for the GPU that the override names, or remove the override"));
    }
}

/// The greatest number of targets of a build for a particular machine.
const FEW: usize = 3;

/// Words of comments that compare releases, or describe something else than the next line.
const COMPARES: [&str; 36] = [
    " not ",
    "n't",
    "than",
    "older",
    "newer",
    "from ",
    "instead",
    " was ",
    "until",
    "require",
    "since",
    "min",
    "only",
    "before",
    "after",
    "upgrade",
    "downgrade",
    "unlike",
    "match",
    "compat",
    "override",
    "spoof",
    "pretend",
    "as gfx",
    "like",
    "same",
    "bump",
    "+",
    ">",
    "<",
    "≥",
    "fallback",
    " or ",
    "also",
    "todo",
    "e.g",
];

/// Longer lines are not checked.
pub(super) const LONGEST: usize = 2_000;

/// Checks comments that name another release or target than the line that they describe.
fn comments(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if !matches!(facts.kind, Kind::Dockerfile | Kind::Compose | Kind::Shell | Kind::Environment) {
        return;
    }
    let lines: Vec<(usize, &str)> = facts.lines().collect();
    for (at, (line, text)) in lines.iter().enumerate() {
        if facts.kind.is_comment(text) || text.trim().is_empty() || text.len() > LONGEST {
            continue;
        }
        let (code, own) = text.split_once(" # ").unwrap_or((text, ""));
        let above = at.checked_sub(1).map_or("", |above| lines[above].1);
        // A comment of several lines describes more than the next line.
        let is_single = at < 2 || !facts.kind.is_comment(lines[at - 2].1);
        let above = if facts.kind.is_comment(above) && is_single { above } else { "" };
        for comment in [own, above].into_iter().filter(|one| !one.is_empty()) {
            if let Some((said, is)) = contradiction(comment, code) {
                let message = format!("the comment says {said}, but the line says {is}");
                found.add("comment-contradicts", *line, message);
                break;
            }
        }
    }
}

/// Returns what a comment says, and what its line says instead.
fn contradiction(comment: &str, code: &str) -> Option<(String, String)> {
    let (comment, code) = (comment.to_ascii_lowercase(), code.to_ascii_lowercase());
    if COMPARES.iter().any(|word| comment.contains(word)) || comment.contains('=') {
        return None;
    }
    let named = |text: &str| -> BTreeSet<String> {
        targets(text).iter().map(|target| target.as_str().to_owned()).collect()
    };
    let kinds = [
        ("ROCm", releases_after(&comment, "rocm"), releases_after(&code, "rocm")),
        ("", named(&comment), named(&code)),
    ];
    kinds.iter().find_map(|(name, said, is)| {
        let (said, is) = (single(said)?, single(is)?);
        let is_same = said.starts_with(is) || is.starts_with(said);
        let shown = |text: &str| format!("{name} {text}").trim().to_owned();
        (!is_same).then(|| (shown(said), shown(is)))
    })
}

fn single(all: &BTreeSet<String>) -> Option<&str> {
    all.first().filter(|_| all.len() == 1).map(String::as_str)
}

/// Returns the releases that follow a name in a text in lower case: `rocm 7.2`, `rocm-7.2.1`,
/// `rocm7.2`, `rocm_version=7.2`, `dev-ubuntu-24.04:7.2`.
pub(super) fn releases_after(lower: &str, name: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (at, _) in lower.match_indices(name) {
        let rest = &lower[at + name.len()..];
        let rest = ["_version", "_ver", "_release", "_tag", "-rel"]
            .iter()
            .find_map(|end| rest.strip_prefix(end))
            .unwrap_or(rest);
        let rest = rest.trim_start_matches(['-', '_', '/', ' ', '=', ':', '"', '\'', 'v']);
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        let release = rest[..end].trim_end_matches('.');
        let is_release = release.starts_with(|c: char| ('3'..='9').contains(&c))
            && release.split('.').count() >= 2
            && release.split('.').next().is_some_and(|major| major.len() == 1);
        if is_release {
            all.insert(release.to_owned());
        }
    }
    for word in lower.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '=')) {
        let image = Some(word).filter(|word| word.contains("rocm/") && word.contains(':'));
        all.extend(image.and_then(images::rocm_in).map(str::to_owned));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_that_names_another_release_contradicts_its_line() {
        for (comment, code, is_wrong) in [
            ("# ROCm 6.4 base image", "FROM rocm/dev-ubuntu-24.04:7.2-complete", true),
            ("# ROCm 7.2 base image", "FROM rocm/dev-ubuntu-24.04:7.2.1-complete", false),
            ("# newer than ROCm 6.4", "FROM rocm/dev-ubuntu-24.04:7.2-complete", false),
            ("# for gfx1151", "ARG GPU_TARGETS=gfx1100", true),
            ("# for gfx1151 and gfx1100", "ARG GPU_TARGETS=gfx1100", false),
            ("# the GPU", "ARG GPU_TARGETS=gfx1100", false),
        ] {
            assert_eq!(contradiction(comment, code).is_some(), is_wrong, "{comment} {code}");
        }
    }

    #[test]
    fn releases_follow_the_name() {
        for (text, expected) in [
            ("export rocm_path=/opt/rocm-6.2.4", vec!["6.2.4"]),
            ("rocm_version=6.2", vec!["6.2"]),
            ("--index-url https://download.pytorch.org/whl/rocm6.2", vec!["6.2"]),
            ("rocm/pytorch:rocm7.2.1_ubuntu24.04_py3.12", vec!["7.2.1"]),
            ("rocm-smi", vec![]),
            ("rocm 12.8", vec![]),
        ] {
            let found: Vec<String> = releases_after(text, "rocm").into_iter().collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
