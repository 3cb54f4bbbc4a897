//! Arguments of a build that look like a choice, but that nothing uses.

use std::collections::{BTreeMap, BTreeSet};

use super::programs::is_conditional;
use super::stages::parts;
use crate::dockerfile::Instruction;
use crate::{Context, Facts, Findings, Hit, Kind, Severity};

/// Arguments that the builder or its tools read themselves.
const OF_BUILDER: [&str; 6] =
    ["BUILDKIT_", "BUILDPLATFORM", "DOCKER_", "SOURCE_DATE_EPOCH", "TARGET", "_PROXY"];

/// Ends of the names of arguments that choose what is installed.
const CHOICES: [&str; 7] = ["_BRANCH", "_COMMIT", "_RELEASE", "_SHA", "_TAG", "_VER", "_VERSION"];

/// Texts of commands that may read the arguments from the environment.
const READERS: [&str; 8] = [".py", ".sh", "bash", "cargo", "cmake", "env", "make", "setup"];

/// Checks for arguments that are named only where they are declared.
pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let all = facts.instructions();
    if facts.kind != Kind::Dockerfile || all.iter().all(|one| parts(one).0 != "ARG") {
        return;
    }
    without_value(facts, context, found);
    let names = counted(&facts.code);
    let readers = last_readers(all);
    let is_alone = |name: &str| names.get(name) == Some(&1);
    let mut early: Vec<(&str, usize)> = Vec::new();
    for own in all.iter().filter(|one| parts(one).0 == "ARG") {
        let words = parts(own).1.split_whitespace();
        // Some write a comment here, which the builder refuses.
        for word in words.take_while(|word| !word.starts_with('#')) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            if !is_alone(name) || is_builders(name) {
                continue;
            }
            let is_read = readers.get(&own.stage).is_some_and(|last| *last > own.line);
            if own.stage == 0 {
                early.push((name, own.line));
            } else if !value.is_empty() && chooses(name) && !is_read {
                let hit = Hit::new(RULE, own.line, format!("nothing uses `{name}`"));
                found.hit(hit.at_most(Severity::Information));
            }
        }
    }
    if let Some((name, line)) = early.first() {
        let others = match early.len() {
            1 => String::new(),
            2 => " and another argument".to_owned(),
            count => format!(" and {} other arguments", count - 1),
        };
        let message =
            format!("nothing uses `{name}`{others}: only `FROM` lines see an argument before them");
        found.add(RULE, *line, message);
    }
}

const RULE: &str = "argument-unused";

/// Texts before an argument without which the command cannot work.
const NEEDS: [&str; 6] = ["--branch ", "--branch=", "-b ", "checkout ", "--revision ", "=="];

/// The number of arguments without a default from which a file is made to be built by a script.
const BY_SCRIPT: usize = 4;

/// Checks for an argument without a default that a clone, a download or an installation needs.
fn without_value(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let mut open: BTreeMap<&str, usize> = BTreeMap::new();
    let mut set: BTreeSet<&str> = BTreeSet::new();
    for own in facts.instructions() {
        let (name, rest) = parts(own);
        if !matches!(name.as_str(), "ARG" | "ENV") {
            continue;
        }
        for word in rest.split_whitespace().take_while(|word| !word.starts_with('#')) {
            let (word, value) = word.split_once('=').unwrap_or((word, ""));
            let is_open = value.is_empty() && name == "ARG" && !is_builders(word);
            if is_open && own.stage == 0 && is_base(facts, word) {
                // Only a script can build the file.
                return;
            }
            if is_open && own.stage > 0 {
                open.insert(word, own.line);
            } else {
                set.insert(word);
            }
        }
    }
    open.retain(|name, _| !set.contains(name));
    if open.is_empty() || open.len() >= BY_SCRIPT {
        return;
    }
    for own in facts.instructions() {
        let (name, rest) = parts(own);
        let is_command = matches!(name.as_str(), "RUN" | "ADD");
        if !is_command || is_conditional(rest) || rest.contains(":-") {
            continue;
        }
        let needed = open.iter().find(|(argument, _)| needs(rest, argument));
        let Some((argument, line)) = needed else { continue };
        let message = format!("`{argument}` has no default, and line {} needs it", own.line);
        let hit = Hit::new("argument-without-value", *line, message);
        let is_passed = passes(facts, context, argument);
        return found.hit(if is_passed { hit.at_most(Severity::Information) } else { hit });
    }
}

/// Returns whether an argument is the base image of a stage.
fn is_base(facts: &Facts<'_>, name: &str) -> bool {
    let forms = [format!("FROM ${{{name}}}"), format!("FROM ${name}")];
    forms.iter().any(|form| facts.code.contains(form.as_str()))
}

/// Returns whether the builder gives an argument its value.
fn is_builders(name: &str) -> bool {
    OF_BUILDER.iter().any(|part| name.to_ascii_uppercase().contains(part))
}

/// Returns whether a command cannot work if an argument is empty.
fn needs(text: &str, name: &str) -> bool {
    let forms = [format!("${{{name}}}"), format!("${name}")];
    forms.iter().any(|form| {
        text.match_indices(form.as_str()).any(|(at, _)| {
            let after = text[at + form.len()..].chars().next();
            let is_whole = form.ends_with('}')
                || !after.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
            let before = text[..at].trim_end_matches(['"', '\'']);
            let word = before.rsplit([' ', '"', '\'', '=']).next().unwrap_or_default();
            let is_url = word.starts_with("https://") || word.starts_with("http://");
            is_whole && (is_url || NEEDS.iter().any(|end| before.ends_with(end)))
        })
    })
}

/// Returns whether a file beside the Dockerfile gives an argument a value.
fn passes(facts: &Facts<'_>, context: Context<'_>, name: &str) -> bool {
    let Some(files) = context.exists else { return false };
    let mut others = files.compose_files(facts.file);
    others.extend(files.beside(facts.file).into_iter().map(|(_, text)| text));
    let above = ["../build.sh", "../docker-compose.yml", "../docker-compose.yaml", "../Makefile"];
    others.extend(above.into_iter().filter_map(|path| files.text(facts.file, path)));
    others.iter().any(|text| text.contains(name) && text != facts.text)
}

fn chooses(name: &str) -> bool {
    CHOICES.iter().any(|end| name.ends_with(end))
}

/// Returns the last line of each stage with a command that may read arguments from its environment.
fn last_readers(all: &[Instruction]) -> BTreeMap<usize, usize> {
    let may_read = |one: &&Instruction| {
        parts(one).0 == "RUN" && READERS.iter().any(|word| one.text.contains(word))
    };
    all.iter().filter(may_read).map(|one| (one.stage, one.line)).collect()
}

/// Returns how often each name occurs in a text.
fn counted(code: &str) -> BTreeMap<&str, usize> {
    let mut names = BTreeMap::new();
    for name in code.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
        *names.entry(name).or_insert(0) += 1;
    }
    names
}
