//! Rules for behaviour of shells and Dockerfiles that authors do not expect.

use std::collections::{BTreeMap, BTreeSet};

use super::folder::is_root;
use super::{access, images};
use crate::dockerfile::{Instruction, here_document, own_lines};
use crate::shell::{Setting, UNKNOWN};
use crate::{Context, Facts, Findings, Hit, Kind, Severity};

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    match facts.kind {
        Kind::Dockerfile => {
            arguments(facts, found);
            sources(facts, found);
            if !access::gets_groups(facts, context) {
                user(facts, found);
            }
        }
        Kind::Shell => {
            first_line(facts, found);
            unset(facts, found);
            features(facts, found);
        }
        _ => {}
    }
}

/// Checks for a script whose interpreter is not on its first line.
fn first_line(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let lines: Vec<&str> = facts.text.lines().take(LATE).collect();
    if lines.iter().any(|line| here_document(line).is_some()) {
        return;
    }
    let Some(first) = lines.first().filter(|first| !first.starts_with("#!")) else { return };
    if ["#/bin/", "#/usr/bin/", "# !/bin/", "!#/bin/"].iter().any(|form| first.starts_with(form)) {
        let hit = Hit::new("shebang", 1, format!("`{first}` is only a comment"));
        let is_loaded = is_for_source(facts);
        return found.hit(if is_loaded { hit.at_most(Severity::Information) } else { hit });
    }
    if let Some(at) = lines.iter().position(|line| line.starts_with("#!/")) {
        return found.add("shebang", at + 1, "`#!` is not on the first line");
    }
    if facts.file.ends_with(".sh") && !is_for_source(facts) && is_bash_program(facts) {
        let message = "the script uses bash, but has no first line `#!/bin/bash`";
        found.hit(Hit::new("shebang", 1, message).at_most(Severity::Information));
    }
}

/// Parts of the names of files that other scripts load.
const LOADED: [&str; 9] =
    ["activate", "common", "config", "env", "func", "init", "lib", "profile", "source"];

/// Returns whether a file is made to be loaded by a shell: its name or its text says so.
pub(super) fn is_for_source(facts: &Facts<'_>) -> bool {
    let path = facts.file.rsplit('/').take(2);
    let is_loaded = |part: &str| {
        let lower = part.to_ascii_lowercase();
        LOADED.iter().any(|word| lower.contains(word))
    };
    let lower = facts.text.to_ascii_lowercase();
    let name = facts.file.rsplit('/').next().unwrap_or(facts.file).to_ascii_lowercase();
    let says = [format!("source {name}"), format!("source ./{name}"), format!(". ./{name}")];
    path.into_iter().any(is_loaded)
        || says.iter().any(|text| lower.contains(text))
        || ["sourced", "source this", "source it"].iter().any(|text| lower.contains(text))
        || facts.text.lines().any(|line| line.starts_with("return"))
}

/// Programs that install, build, fetch or start something.
const WORKERS: [&str; 22] = [
    "apt", "apt-get", "cargo", "cmake", "curl", "dnf", "docker", "git", "make", "ninja", "pacman",
    "pip", "pip3", "podman", "python", "python3", "rocm-smi", "rpm", "uv", "wget", "yum", "zypper",
];

/// Returns whether a script uses features of bash, and does more than set variables and define
/// functions.
fn is_bash_program(facts: &Facts<'_>) -> bool {
    let lines = || own_lines(facts.text).map(|(_, text)| text).filter(|text| is_code(facts, text));
    if lines().count() < FEWEST {
        return false;
    }
    let outside = lines_outside_functions(facts.text);
    let works = |program: &str| WORKERS.contains(&program);
    let does_work = facts.commands.iter().any(|command| {
        let first = &command.words[0];
        works(first.text.rsplit('/').next().unwrap_or_default()) && outside.contains(&first.line)
    });
    let is_short = |text: &&str| text.len() < LONGEST;
    does_work
        && lines().filter(is_short).any(|text| feature(text).is_some_and(|shown| shown != "=="))
}

/// The number of lines below which a text is only part of a script.
const FEWEST: usize = 4;

/// The length of the longest line that is searched for features of bash.
const LONGEST: usize = 500;

/// Returns whether a line is neither empty nor a comment.
fn is_code(facts: &Facts<'_>, text: &str) -> bool {
    !text.trim().is_empty() && !facts.kind.is_comment(text)
}

/// Returns the lines that are not part of a function.
fn lines_outside_functions(text: &str) -> BTreeSet<usize> {
    let mut lines = BTreeSet::new();
    let mut is_inside = false;
    for (line, own) in own_lines(text) {
        let start = own.trim_end();
        let is_function = start.ends_with("()") || start.replace(' ', "").contains("(){");
        let is_whole = start.ends_with('}');
        if is_function || start.starts_with("function ") {
            is_inside = !is_whole;
            continue;
        }
        if is_inside {
            is_inside = !own.starts_with('}');
            continue;
        }
        lines.insert(line);
    }
    lines
}

/// The number of lines at the start of a script that are searched for `#!`.
const LATE: usize = 4;

/// Variables with search paths, which are usually not set.
const PATHS: [&str; 8] = [
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "LIBRARY_PATH",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "PKG_CONFIG_PATH",
    "CMAKE_PREFIX_PATH",
];

/// Checks for search paths that a script with `set -u` expands, but does not set before.
fn unset(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let mut set: BTreeSet<&str> = BTreeSet::new();
    let mut is_strict = false;
    for (line, text) in own_lines(facts.text) {
        let trimmed = text.trim_start();
        let words: Vec<&str> = trimmed.split_whitespace().collect();
        match words.first() {
            Some(&"set") => {
                is_strict |= words[1..].iter().any(|word| is_strict_option(word));
                if words[1..].contains(&"+u") {
                    return;
                }
            }
            // The sourced file may set them.
            Some(&("source" | ".")) => return,
            _ => {}
        }
        if trimmed.starts_with('#') {
            continue;
        }
        for name in PATHS {
            if is_strict && !set.contains(name) && expands(text, name) {
                let message = format!("`{name}` is expanded without a default");
                found.add("unset-variable", line, message);
                set.insert(name);
            }
            if assigns(text, name) {
                set.insert(name);
            }
        }
    }
}

fn is_strict_option(word: &str) -> bool {
    word == "nounset" || word.starts_with('-') && !word.starts_with("--") && word.contains('u')
}

/// Returns whether a line expands a variable, outside single quotes and without a default.
fn expands(text: &str, name: &str) -> bool {
    [format!("${name}"), format!("${{{name}}}")].iter().any(|form| {
        text.match_indices(form.as_str()).any(|(at, _)| {
            let after = text[at + form.len()..].chars().next();
            let is_whole = !after.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
            let before = &text[..at];
            let tests = [format!("${{{name}:+"), format!("${{{name}+")];
            let is_tested = tests.iter().any(|test| before.contains(test.as_str()));
            is_whole && !is_tested && !before.contains('\'') && !before.ends_with('\\')
        })
    })
}

/// Checks for features of bash in a script for /bin/sh.
fn features(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let is_sh = facts.text.lines().next().is_some_and(|line| {
        matches!(line.trim_end(), "#!/bin/sh" | "#!/bin/sh -e" | "#!/usr/bin/env sh")
    });
    // In distributions with these package managers, /bin/sh supports most of these features.
    let has_other = ["apk ", "dnf ", "pacman ", "yum "].iter().any(|one| facts.code.contains(one));
    let writes_script = facts.text.matches("#!").count() > 1;
    if !is_sh || has_other || writes_script {
        return;
    }
    for (line, text) in own_lines(facts.text).filter(|(_, text)| !facts.kind.is_comment(text)) {
        if let Some(shown) = feature(text) {
            let message = format!("`{shown}` is used in a script for /bin/sh");
            return found.add("shell-feature", line, message);
        }
    }
}

/// Returns the feature of bash that a line of a script uses.
fn feature(text: &str) -> Option<&'static str> {
    let mut before: &[&str] = &[];
    let words: Vec<&str> = text.split_whitespace().filter(|word| *word != "\\").collect();
    let mut is_test = false;
    for (at, word) in words.iter().enumerate() {
        let quotes = before.iter().flat_map(|one| one.chars());
        let is_quoted = quotes.filter(|c| matches!(c, '"' | '\'' | '`')).count() % 2 == 1;
        let is_first =
            before.last().is_none_or(|last| STARTS.contains(last) || last.ends_with(';'));
        before = &words[..=at];
        if is_quoted {
            continue;
        }
        is_test = matches!((*word, is_test), ("[", _) | (_, true)) && !word.starts_with(']');
        let name = word.split_once("=(").map(|(name, _)| name.trim_end_matches('+'));
        let is_name = |one: &str| {
            !one.is_empty() && one.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        match *word {
            "[[" if is_first => return Some("[["),
            "pushd" if is_first && words.len() > at + 1 => return Some("pushd"),
            "source" | "function" if is_first && words.len() > at + 1 => {
                return Some(if *word == "source" { "source" } else { "function" });
            }
            "==" if is_test => return Some("=="),
            _ if word.starts_with("&>") => return Some("&>"),
            _ if is_first && name.is_some_and(is_name) => return Some("=("),
            _ => {}
        }
    }
    None
}

/// Words after which a command starts.
const STARTS: [&str; 11] =
    ["RUN", "&&", "||", "if", "elif", "while", "then", "else", "do", "!", "{"];

/// Base images whose /bin/sh is dash.
const DASH: [&str; 3] = ["ubuntu", "debian", "rocm/dev-ubuntu"];

/// Checks for features of bash, except arrays, in images whose /bin/sh is dash.
fn sources(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let upper = facts.code.to_ascii_uppercase();
    let others = ["SHELL [", "BASH -", "<<", "/BIN/SH"];
    // A line with `#!` is part of a script that the Dockerfile writes.
    let has_shell = others.iter().any(|one| upper.contains(one)) || facts.text.contains("#!");
    let is_dash = facts.stages.iter().all(|stage| {
        let path = images::parts(&stage.base).path;
        DASH.iter().any(|one| path == *one || one.contains('/') && path.starts_with(one))
    });
    if has_shell || !is_dash || facts.stages.is_empty() {
        return;
    }
    for (line, text) in facts.lines().filter(|(_, text)| !facts.kind.is_comment(text)) {
        if let Some(shown) = feature(text).filter(|shown| *shown != "=(") {
            found.add("shell-feature", line, format!("`{shown}` is used, but /bin/sh is dash"));
        }
    }
}

/// Checks for a ROCm image with a user other than root, if the file mentions no group for the GPU.
fn user(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let lower = facts.text.to_ascii_lowercase();
    // A comment can say which group the container needs. On Fedora and Red Hat's systems, every user
    // can open the GPU.
    let has_group = ["group-add", "keep-groups", "dnf ", "redhat"];
    // `libxrender1` is not a group.
    let mut tokens = lower.split(|c: char| !c.is_ascii_alphanumeric());
    let has_render = tokens.any(|word| word == "render" || word.starts_with("renderd"));
    let is_rocm = facts.stages.last().is_some_and(|stage| stage.base.contains("rocm"));
    let is_said = lower.contains("group_add") && !relies_on_video(&lower);
    // `--group-add video` does not help: the device belongs to the group `render`.
    let others = lower.replace("--group-add video", "").replace("--group-add=video", "");
    if !is_rocm || has_render || is_said || has_group.iter().any(|group| others.contains(group)) {
        return;
    }
    let Some((line, name)) = last_user(facts) else { return };
    if !is_root(&name) {
        let message =
            format!("`{name}` can open the GPU only in the group that owns the host's device");
        let hit = Hit::new("render-group-missing", line, message);
        found.hit(hit.at_most(Severity::Information));
    }
}

/// Returns the user of the last stage of a Dockerfile, and the line that sets it; `None` if the stage
/// sets none, or if it is not known.
pub(super) fn last_user(facts: &Facts<'_>) -> Option<(usize, String)> {
    let mut last = None;
    for Instruction { line, text, .. } in facts.instructions() {
        let mut words = text.split_whitespace();
        match (words.next().unwrap_or_default().to_ascii_uppercase().as_str(), words.next()) {
            ("FROM", _) => last = None,
            ("USER", Some(name)) => last = Some((*line, name.to_owned())),
            _ => {}
        }
    }
    let (line, name) = last?;
    // `USER ${UID}:${GID}`
    let Some(variable) = name.strip_prefix('$') else {
        return (!name.contains('$')).then_some((line, name));
    };
    let end = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let variable = variable.trim_start_matches('{').split(end).next().unwrap_or_default();
    let is_set = |one: &&Setting| one.name == variable && one.line < line;
    let value = facts.settings.iter().rfind(is_set)?.value.clone();
    (!value.is_empty() && !value.contains(UNKNOWN)).then_some((line, value))
}

/// Returns whether the comments of a text in lower case say that the group `video` gives access to
/// the GPU.
fn relies_on_video(lower: &str) -> bool {
    let comments = lower.lines().filter_map(|line| line.trim_start().strip_prefix('#'));
    let comments: Vec<&str> = comments.flat_map(str::split_whitespace).collect();
    let comments = comments.join(" ").replace('`', "");
    let has = |texts: &[&str]| texts.iter().any(|text| comments.contains(text));
    has(&["video group", "group video"]) && has(&["/dev/kfd", "/dev/dri"])
}

/// Prefixes of names that a base image often sets itself.
const OF_BASES: [&str; 8] = ["CUDA", "HIP", "NVIDIA", "PATH", "PYTHON", "PYTORCH", "ROCM", "LD_"];

/// Returns whether a base image often sets a variable.
fn is_of_base(name: &str) -> bool {
    OF_BASES.iter().any(|start| name.starts_with(start))
}

/// Returns whether an argument selects the base image, which then may set the same value, or whether
/// the base always sets the variable.
fn is_for_base(all: &[Instruction], name: &str) -> bool {
    let is_from = |one: &&Instruction| {
        let first = one.text.split_whitespace().next();
        // An argument before the first `FROM` can be a part of another one.
        one.stage == 0 || first.is_some_and(|word| word.eq_ignore_ascii_case("from"))
    };
    let forms = [format!("${name}"), format!("${{{name}")];
    let is_search_path = name.ends_with("PATH") || name.starts_with("LD_");
    let uses = |one: &Instruction| forms.iter().any(|form| one.text.contains(form.as_str()));
    is_search_path || all.iter().filter(is_from).any(uses)
}

/// Instructions that expand arguments.
const EXPANDED: [&str; 10] =
    ["ADD", "ARG", "COPY", "ENV", "EXPOSE", "LABEL", "RUN", "USER", "VOLUME", "WORKDIR"];

/// Checks for arguments before the first `FROM` that a `RUN` or `WORKDIR` uses, but its stage does
/// not declare again.
fn arguments(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let mut global: BTreeSet<String> = BTreeSet::new();
    let mut stages: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut stage: Option<BTreeSet<String>> = None;
    let mut name = String::new();
    let mut reported: BTreeSet<String> = BTreeSet::new();
    let all = facts.instructions();
    for Instruction { line, text, .. } in all {
        let words: Vec<&str> = text.split_whitespace().collect();
        let rest = words.get(1..).unwrap_or_default();
        let Some(first) = words.first() else { continue };
        match first.to_ascii_uppercase().as_str() {
            "FROM" => {
                if let Some(done) = stage.take() {
                    stages.insert(std::mem::take(&mut name), done);
                }
                let plain: Vec<&&str> = rest.iter().filter(|one| !one.starts_with("--")).collect();
                let base = plain.first().map(|base| base.to_ascii_lowercase()).unwrap_or_default();
                stage = Some(stages.get(&base).cloned().unwrap_or_default());
                name = plain.get(2).map(|own| own.to_ascii_lowercase()).unwrap_or_default();
                reported.clear();
            }
            instruction if EXPANDED.contains(&instruction) => {
                let is_setting = matches!(instruction, "ARG" | "ENV");
                let names = rest.iter().filter(|_| is_setting);
                let names = names.map(|word| word.split('=').next().unwrap_or(word).to_owned());
                let Some(known) = &mut stage else {
                    global.extend(names);
                    continue;
                };
                let missing = global.iter().filter(|one| {
                    !known.contains(*one)
                        && !reported.contains(*one)
                        && expands(text, one)
                        && (instruction == "ENV" || !assigns(text, one))
                        && !text.contains(&format!(" {one} in "))
                        && !(is_of_base(one) && is_for_base(all, one))
                });
                let missing: Vec<String> = missing.cloned().collect();
                known.extend(names);
                for one in missing {
                    let value = if is_of_base(&one) {
                        "the stage does not get this value"
                    } else {
                        "it is empty here"
                    };
                    let message = format!("`{one}` is set before `FROM`, so {value}");
                    let at = line_of(facts, *line, &one);
                    found.add("argument-out-of-scope", at, message);
                    reported.insert(one);
                }
            }
            _ => {}
        }
    }
}

/// Returns whether a text assigns a value to a variable.
fn assigns(text: &str, name: &str) -> bool {
    text.match_indices(&format!("{name}=")).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        !before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Returns the first line from `start` that expands a variable.
fn line_of(facts: &Facts<'_>, start: usize, name: &str) -> usize {
    let mut lines = facts.lines().skip(start.saturating_sub(1));
    lines.find(|(_, text)| expands(text, name)).map_or(start, |(line, _)| line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expansion_is_found_outside_quotes() {
        for (text, expected) in [
            ("export CPATH=/a:$CPATH", true),
            ("export CPATH=/a:${CPATH}", true),
            ("export CPATH=/a:${CPATH:-}", false),
            ("export CPATH=/a${CPATH:+:$CPATH}", false),
            ("echo 'export CPATH=/a:$CPATH' >> ~/.bashrc", false),
            ("echo \"export CPATH=/a:\\$CPATH\"", false),
            ("echo $CPATH_EXTRA", false),
        ] {
            assert_eq!(expands(text, "CPATH"), expected, "{text}");
        }
    }
}
