//! Rules for the options of containers: devices, groups, isolation.

use std::cell::LazyCell;
use std::collections::BTreeSet;

use super::{addresses, for_gpu, health, images, rocm};
use crate::data::{ContainerRow, data, matches_any};
use crate::facts::{Container, Kind};
use crate::shell::{UNKNOWN, Word};
use crate::{Context, Facts, Findings, Hit, Severity, compose, quadlets};

/// Rules about the isolation of containers, which do not apply to examples.
const EXAMPLES: [&str; 3] = ["container-unconfined", IPC, "network-shared"];

/// The rule for the host's shared memory.
const IPC: &str = "ipc-shared";

/// The starts of options with which an author isolates a container.
const HARDENS: [&str; 3] = ["--cap-drop", "--read-only", "--security-opt=no-new-privileges"];

/// The rule for services without a login.
const OPEN: &str = "service-open";

/// The rule for numbers of devices, which users can change if they are the value of a variable.
const NUMBER: &str = "device-number";

/// The rule for data outside of volumes, which tests do not keep.
const LOST: &str = "data-lost";

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    for key in &facts.unknown_keys {
        let hit = Hit::new("quadlet-key", key.line, format!("`{}` is not a Quadlet key", key.text));
        let right = data().sections.iter().filter(|row| quadlets::is_of_unit(row));
        let right = right.into_iter().find(|row| row.keys.contains(&key.text));
        found.hit(match similar_keys(&key.text).as_slice() {
            _ if right.is_some() => {
                let section = right.map_or("", |row| &row.section);
                hit.help(format!("move the line to `[{section}]`"))
            }
            [] => hit,
            near => hit.help(format!("did you mean {}?", near.join(" or "))),
        });
    }
    for problem in &facts.problems {
        let hit = Hit::new(problem.rule, problem.line, problem.message.as_str());
        found.hit(if problem.rule == OPEN { hit.at_most(Severity::Information) } else { hit });
    }
    group_numbers(facts, found);
    group_settings(facts, found);
    let mut seen: BTreeSet<(&str, usize, String)> = BTreeSet::new();
    // AMD recommends `seccomp=unconfined` for machines with several GPUs.
    let has_several = LazyCell::new(|| names_several(facts));
    for single in &facts.containers {
        let merged = single.merged();
        let container = merged.as_ref().unwrap_or(single);
        images::in_base(facts, container, single, context, found);
        health::of_container(facts, container, context, found);
        addresses::of_container(container, found);
        for row in &data().containers {
            let Some(option) = broken(container, row) else { continue };
            // The base file has its own findings.
            if single.base.as_ref().is_some_and(|base| broken(base, row).is_some()) {
                continue;
            }
            // Several rows can describe the same service.
            let key = (row.row.rule.as_str(), option.line, option.text.clone());
            let is_again = row.row.rule == OPEN && !seen.insert(key);
            let is_test = row.row.rule == LOST && facts.file.contains("test")
                || row.row.rule == IPC && !is_hardened(container)
                || option.text.contains("seccomp") && (*has_several || !adds_rights(container));
            if is_again || is_test || is_part(facts, row, single, context) {
                continue;
            }
            let image = container.image.as_ref().map_or("", |image| &image.text);
            let shown = option.text.replace(UNKNOWN, "…");
            let message = row.row.message.replace("{option}", &shown).replace("{image}", image);
            let is_of_base = single.base.is_some() && !single.options.contains(option);
            // The owner closes a port where it is published.
            if is_of_base && row.row.rule == OPEN {
                continue;
            }
            let message =
                if is_of_base { format!("{message} (from the base file)") } else { message };
            let sure = facts.target().matches(&row.row.gpus, context);
            let hit = Hit::new(&row.row.rule, option.line, message).of(&row.row);
            // Commands in comments are examples; nothing runs them as they are.
            let own = facts.line(option.line);
            let is_example = facts.kind.is_comment(own) && EXAMPLES.contains(&&*row.row.rule)
                || row.row.rule == NUMBER && own.contains("${");
            if let Some(hit) = for_gpu(hit, sure).filter(|_| !is_example) {
                found.hit(hit);
            }
        }
    }
}

/// Returns whether the author isolates a container: only then is the host's shared memory a gap.
/// Programs with several processes need it otherwise, and their documentation names it.
fn is_hardened(container: &Container) -> bool {
    let hardens = |option: &Word| {
        let text = option.text.as_str();
        HARDENS.iter().any(|start| text.starts_with(start)) && !text.ends_with("=false")
    };
    container.options.iter().any(hardens)
}

/// Returns whether a container also gets capabilities. AMD's own commands switch off seccomp, which
/// alone does little harm.
fn adds_rights(container: &Container) -> bool {
    container.options.iter().any(|option| option.text.starts_with("--cap-add"))
}

/// Options and variables with the number of GPUs that a program uses, in lower case.
const COUNTS: [&str; 9] = [
    "--gpus",
    "--num-gpus",
    "--tp",
    "data-parallel-size",
    "gpus_per_node",
    "nproc-per-node",
    "nproc_per_node",
    "tensor-parallel-size",
    "tensor_parallel_size",
];

/// Variables that choose GPUs, in lower case.
const CHOICES: [&str; 3] = ["cuda_visible_devices", "hip_visible_devices", "rocr_visible_devices"];

/// Returns whether a file is for a machine with several GPUs: it names AMD's GPUs for servers, or a
/// program that uses more than one.
fn names_several(facts: &Facts<'_>) -> bool {
    let lower = facts.code.to_ascii_lowercase();
    let value = |(at, name): (usize, &str)| -> String {
        let rest = lower[at + name.len()..].trim_start_matches([' ', '=', ':', '"', '\'', '\n']);
        rest.chars().take_while(|c| c.is_ascii_digit() || *c == ',').collect()
    };
    let is_many = |text: String| text.parse::<u32>().is_ok_and(|count| count > 1);
    let counts = || COUNTS.iter().any(|name| lower.match_indices(name).map(value).any(is_many));
    let is_list = |name: &&str| lower.match_indices(*name).map(value).any(|one| one.contains(','));
    let chooses = || CHOICES.iter().any(is_list);
    // "Radeon RX or Instinct" is for one card too.
    let has_cards =
        ["radeon", "rx 7", "rx 9"].iter().any(|one| facts.text.to_ascii_lowercase().contains(one));
    rocm::named_server(facts) && !has_cards || counts() || chooses()
}

/// Returns the keys of Quadlet that start with a text, or else the one that is most similar to it.
fn similar_keys(text: &str) -> Vec<String> {
    let keys = || data().quadlets.iter().flat_map(|row| row.keys.iter().map(String::as_str));
    let longer: Vec<String> =
        keys().filter(|key| key.starts_with(text)).map(|key| format!("`{key}`")).collect();
    if longer.is_empty() {
        ::pins::reader::nearest(text, keys()).map(|near| format!("`{near}`")).into_iter().collect()
    } else {
        longer
    }
}

/// Words of comments that ask users to change a number.
const ASKS: [&str; 9] =
    ["adjust", "your", "getent", "stat -c", "match", "change", "replace", "find", "must be"];

/// Returns whether a number is one that Debian and Ubuntu choose, from 100 to 999, when a group is
/// created.
fn is_chosen(gid: &str) -> bool {
    gid.len() == 3 && gid.bytes().all(|byte| byte.is_ascii_digit()) && !gid.starts_with('0')
}

/// Checks an environment file for the GID of a machine's `render` group.
fn group_settings(facts: &Facts<'_>, found: &mut Findings<'_>) {
    for setting in facts.settings.iter().filter(|_| facts.kind == Kind::Environment) {
        let is_group = setting.name.contains("RENDER")
            && ["GID", "GROUP"].iter().any(|part| setting.name.contains(part));
        let own = facts.line(setting.line).to_ascii_lowercase();
        let comments = facts.before(setting.line).iter().rev().take(3);
        let comments =
            comments.filter(|text| text.contains('#')).map(|one| one.to_ascii_lowercase());
        let asks = |text: &String| ASKS.iter().any(|word| text.contains(word));
        if is_group
            && is_chosen(setting.value.trim())
            && !comments.chain([own]).any(|one| asks(&one))
        {
            let (name, value) = (&setting.name, setting.value.trim());
            let message = format!("`{name}={value}` is the GID of a group on one machine");
            let hit = Hit::new("group-number", setting.line, message);
            found.hit(hit.help("say in a comment that `stat -c %g /dev/kfd` prints the number"));
        }
    }
}

/// Checks for the GID of a machine's `render` group.
fn group_numbers(facts: &Facts<'_>, found: &mut Findings<'_>) {
    // A comment at the start can say how to find the number.
    let is_about = |text: &str| {
        text.trim_start().starts_with('#') && text.to_ascii_lowercase().contains("render")
    };
    let remarks = facts.text.lines().zip(1..).filter(|(text, _)| is_about(text));
    let remarks: Vec<(&str, usize)> = remarks.collect();
    // A unit is for one host.
    for container in facts.containers.iter().filter(|_| facts.kind != Kind::Unit) {
        let has = |start: &str| container.options.iter().any(|one| one.text.starts_with(start));
        let is_gpu = has("--device=/dev/kfd") || has("--device=/dev/dri");
        for option in container.options.iter().filter(|_| is_gpu) {
            let group = option.text.strip_prefix("--group-add=");
            let own = facts.line(option.line);
            let comments = facts.before(option.line).iter().rev().take(3);
            let comments = comments.filter(|text| text.contains('#'));
            // Some comments ask users to change the number.
            let asks = |text: &str| {
                ["adjust", "your", "getent", "stat -c"].iter().any(|word| text.contains(word))
            };
            let is_said = group.is_some_and(|gid| {
                remarks.iter().any(|(text, line)| *line < option.line && text.contains(gid))
            });
            // Users can set the variable, even if it has a default.
            let is_open = is_said
                || own.contains('$')
                || asks(own)
                || comments.into_iter().any(|text| asks(text));
            if let Some(gid) = group.filter(|gid| is_chosen(gid)).filter(|_| !is_open) {
                let message = format!("`{gid}` is the GID of a group on one machine");
                let hit = Hit::new("group-number", option.line, message);
                // A manifest contains numbers only.
                let lower = own.to_ascii_lowercase();
                found.hit(if facts.kind == Kind::Manifest {
                    hit.help("use the number that `stat -c %g /dev/kfd` prints on the nodes, or AMD's device plugin and an image that runs as root")
                } else if lower.contains("video") && !lower.contains("render") {
                    hit.help("let users set it: `${VIDEO_GID:?}`, with the number that `getent group video` prints")
                } else {
                    hit
                });
            }
        }
    }
}

/// Returns the first option of a container that a row matches.
fn broken<'c>(container: &'c Container, row: &ContainerRow) -> Option<&'c Word> {
    let has = |patterns: &[String]| {
        container.options.iter().any(|option| matches_any(patterns, &option.text))
    };
    let is_image = |patterns: &[String]| {
        let reference = container.image.as_ref().map(|image| image.text.to_ascii_lowercase());
        reference.is_some_and(|image| {
            let images::Parts { path, tag, .. } = images::parts(&image);
            matches_any(patterns, &format!("{path}:{}", tag.unwrap_or_default()))
        })
    };
    let is_wanted = (row.needs.is_empty() || has(&row.needs))
        && !has(&row.unless)
        && (row.images.is_empty() || is_image(&row.images))
        && !is_image(&row.except_images);
    let is_broken = |option: &&Word| {
        matches_any(&row.options, &option.text) && !matches_any(&row.except, &option.text)
    };
    // A row about the image itself: what its containers need is missing.
    if row.options == [IMAGE] {
        return container.image.as_ref().filter(|_| is_wanted);
    }
    container.options.iter().find(is_broken).filter(|_| is_wanted)
}

/// Returns whether the base file can say what a service lacks.
fn is_part(
    facts: &Facts<'_>,
    row: &ContainerRow,
    container: &Container,
    context: Context<'_>,
) -> bool {
    let name = container.service.as_ref().filter(|_| row.options == [IMAGE]);
    let both = name.zip(context.exists);
    both.is_some_and(|(own, files)| compose::is_in_base(facts.file, &own.text, files))
}

/// The option of rows that are about the image of a container.
const IMAGE: &str = "--image";
