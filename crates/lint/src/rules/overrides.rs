//! Rules for the override that makes ROCm see another GPU.

use ::names::GfxVersion;

use super::variables::{comment_above, has_default, is_in, source_of};
use super::{for_gpu, targets};
use crate::data::{Place, data};
use crate::shell::{Scope, Setting, UNKNOWN};
use crate::target::{Match, Target};
use crate::{Context, Facts, Findings, Hit, Kind, Severity};

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    if facts.kind == Kind::Dockerfile {
        at_start(facts, context, found);
    }
}

/// Checks a variable, if it is an override.
pub(super) fn check(
    facts: &Facts<'_>,
    setting: &Setting,
    context: Context<'_>,
    found: &mut Findings<'_>,
) {
    if is_override(&setting.name) {
        spoof(facts, setting, context, found);
        for_image(setting, found);
    }
}

/// Returns whether a variable is the override, for all GPUs or for one node.
pub(super) fn is_override(name: &str) -> bool {
    name.strip_prefix(::pins::OVERRIDE).is_some_and(|rest| {
        rest.is_empty()
            || rest
                .strip_prefix('_')
                .is_some_and(|node| !node.is_empty() && node.bytes().all(|b| b.is_ascii_digit()))
    })
}

fn spoof(facts: &Facts<'_>, setting: &Setting, context: Context<'_>, found: &mut Findings<'_>) {
    let Setting { name, value, line, scope, .. } = setting;
    let (line, value) = (*line, value.trim());
    let is_undefined = |source: &String| context.defined.is_none_or(|all| !all.contains(source));
    if let Some(source) = source_of(facts, setting).filter(is_undefined) {
        let set = if source == *name { "it".to_owned() } else { format!("`{source}`") };
        let message = format!("`{name}` is empty if nothing sets {set}");
        let hit = Hit::new("hsa-override-empty", line, message).at_most(Severity::Warning);
        return found.hit(hit.help(format!("write `- {name}`, which passes it only if it is set")));
    }
    // Programs that only read the driver's files do not use HSA.
    let is_monitor =
        |program: &str| program.starts_with("rocm-smi") || program.starts_with("amd-smi");
    let is_unused = *scope == Scope::Command && setting.program.as_deref().is_some_and(is_monitor);
    if value.contains(UNKNOWN) || *scope == Scope::Argument || is_unused {
        return;
    }
    if value.is_empty() {
        // A shell variable that no program sees is often a default; a line of an environment file
        // without a value is often a blank to fill in.
        match scope {
            Scope::Shell => {}
            Scope::File if has_default(facts, name, context) => {}
            Scope::File => found.hit(
                Hit::new("hsa-override-empty", line, format!("`{name}` is set, but empty"))
                    .at_most(Severity::Warning),
            ),
            _ => found.add("hsa-override-empty", line, format!("`{name}` is set, but empty")),
        }
        return;
    }
    let Ok(version) = value.parse::<GfxVersion>() else {
        return found.add(
            "hsa-override-form",
            line,
            format!("`{name}={value}` is not three numbers"),
        );
    };
    if facts.target().is_build_only(version, context) {
        let message =
            format!("`{name}={value}` is set, and the code is built for a GPU with this version");
        let help = "remove it: this GPU needs no override; if the code is for similar GPUs too, name them in a comment";
        return found.add_with("hsa-override-any-gpu", line, message, help);
    }
    let is_default = facts.line(line).contains(&format!("${{{name}:-"));
    let is_for_one = facts.target().is_of_all(version, context);
    let names_others = facts.target().is_mixed() || facts.target().is_own(version, context);
    if is_default && *scope == Scope::Run && names_others && !is_for_one {
        let message = format!("`{name}={value}` is the default, and the file names other GPUs too");
        let help = format!("write `- {name}`, which passes it only if it is set");
        return found.add_with("hsa-override-any-gpu", line, message, help);
    }
    if facts.target().is_own(version, context) {
        if facts.target().is_of_all(version, context) && !is_deliberate(facts, line) {
            found.add("hsa-override-identity", line, format!("`{value}` is the GPU's own version"));
        } else if !facts.target().is_of_all(version, context) {
            in_example(facts, setting, found);
        }
        return;
    }
    if facts.target().is_foreign(version, context) {
        let message = format!("`{name}={value}` is for another generation of GPUs");
        let hit = Hit::new("hsa-override-other", line, message);
        // The file may target a second GPU as well.
        let is_sure = !facts.target().is_doubted() && name == ::pins::OVERRIDE;
        found.hit(if is_sure { hit } else { hit.at_most(Severity::Warning) });
    }
    if !facts.target().is_known(context) && is_in(*scope, Place::Kept) {
        let message = format!("`{name}={value}` is set, and the file names no GPU");
        return found.add("hsa-override-any-gpu", line, message);
    }
    if facts.target().is_mixed() && matches!(scope, Scope::Image | Scope::Run) {
        let message = format!("`{name}={value}` is set, and the file names several generations");
        found.add("hsa-override-any-gpu", line, message);
    }
    in_example(facts, setting, found);
    for row in &data().overrides {
        let is_listed = row.values.is_empty() || row.values.iter().any(|one| one == value);
        let sure = facts.target().matches(&row.row.gpus, context);
        if !is_listed || sure == Match::Unknown {
            continue;
        }
        let message = row.row.message.replace("{name}", name).replace("{value}", value);
        let mut hit = Hit::new(&row.row.rule, line, message).of(&row.row);
        if name != ::pins::OVERRIDE {
            // A numbered override applies only to one node, which may be a different GPU.
            hit = hit.at_most(Severity::Warning);
        }
        if let Some(hit) = for_gpu(hit, sure) {
            found.hit(hit);
        }
    }
}

/// Words of comments of people who know that the override is the GPU's own version.
const KNOWN: [&str; 7] =
    ["deliberate", "intention", "not spoof", "own isa", "own version", "self pin", "self-pin"];

/// Returns whether the comment above a line says that the override is meant so.
fn is_deliberate(facts: &Facts<'_>, line: usize) -> bool {
    let says = |text: &str| {
        let lower = text.to_ascii_lowercase();
        KNOWN.iter().any(|word| lower.contains(word))
    };
    comment_above(facts, line).any(says) || says(facts.line(line))
}

/// Parts of the names of files that people copy.
const EXAMPLES: [&str; 5] = ["dist", "example", "sample", "template", "tmpl"];

/// Checks for an override in an example that people with any GPU copy.
fn in_example(facts: &Facts<'_>, setting: &Setting, found: &mut Findings<'_>) {
    let file = facts.file.rsplit('/').next().unwrap_or(facts.file);
    let is_example = EXAMPLES.iter().any(|part| file.contains(part));
    let is_said = || found.places().iter().any(|(line, _)| *line == setting.line);
    // The folder can name the GPU of the whole project.
    let is_for_one = !Target::read(facts.file, "").named.is_empty();
    if facts.kind == Kind::Environment && is_example && !is_for_one && !is_said() {
        let message = format!(
            "who copies the file gets `{}={}`, whatever GPU the machine has",
            setting.name, setting.value
        );
        let hit = Hit::new("hsa-override-any-gpu", setting.line, message);
        found.hit(hit.help("make the line a comment that names its GPU"));
    }
}

/// Checks for an override that selects a GPU other than the one that the image is for.
fn for_image(setting: &Setting, found: &mut Findings<'_>) {
    let Setting { name, value, line, .. } = setting;
    let Ok(version) = value.trim().parse::<GfxVersion>() else { return };
    // The other rules say more precisely what is wrong.
    let is_judged = || {
        let places = found.places();
        places.iter().any(|(at, rule)| at == line && rule.starts_with("hsa-override"))
    };
    let target =
        targets::built_for(setting).filter(|gpu| GfxVersion::of_target(gpu) != Some(version));
    if let Some(target) = target.filter(|_| !is_judged()) {
        let message = format!("`{name}={value}`, but the image is for {target}");
        let hit = Hit::new("hsa-override-other", *line, message);
        found.hit(hit.at_most(Severity::Warning));
    }
}

/// Checks for overrides in the command that an image starts: `ENTRYPOINT NAME=VALUE program`.
fn at_start(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let start = format!("{}=", ::pins::OVERRIDE);
    let starts = ["CMD", "ENTRYPOINT"];
    for own in facts.instructions() {
        let name = own.text.split_whitespace().next().unwrap_or_default();
        if !starts.iter().any(|one| name.eq_ignore_ascii_case(one)) || !own.text.contains(&start) {
            continue;
        }
        for line in own.line..=own.last {
            let Some((_, rest)) = facts.line(line).split_once(&start) else { continue };
            let value = rest.trim_start_matches(['"', '\'']);
            let value = value.split([' ', '"', '\'', ';']).next().unwrap_or_default();
            if !value.contains('$') {
                let setting = Setting::new(::pins::OVERRIDE, value, line, Scope::Run);
                spoof(facts, &setting, context, found);
            }
        }
    }
}
