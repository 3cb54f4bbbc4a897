//! A rule for the small functions with which a script prints its messages.

use std::collections::BTreeSet;

use crate::{Facts, Findings, Kind};

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if facts.kind == Kind::Shell {
        undefined(facts, found);
    }
}

/// Usual names of functions that print a message. No program in a usual PATH has one of these names.
const HELPERS: [&str; 28] = [
    "abort",
    "debug",
    "die",
    "err",
    "error",
    "fail",
    "fatal",
    "header",
    "info",
    "log",
    "log_debug",
    "log_err",
    "log_error",
    "log_info",
    "log_ok",
    "log_step",
    "log_success",
    "log_warn",
    "log_warning",
    "msg",
    "ok",
    "print_error",
    "print_info",
    "print_success",
    "print_warning",
    "success",
    "warn",
    "warning",
];

/// Checks for a helper that the script calls and does not define. A script that defines no helper, or
/// reads another file of code, can have them from elsewhere.
fn undefined(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let reads = |command: &crate::shell::ShellCommand| {
        let words = command.texts();
        let is_source = matches!(words[0], "source" | ".");
        words[0] == "eval" || is_source && words.get(1).is_some_and(|file| !is_known(file))
    };
    if facts.commands.iter().any(reads) {
        return;
    }
    let defined: BTreeSet<&str> = facts.text.lines().flat_map(definitions).collect();
    if !HELPERS.iter().any(|name| defined.contains(name)) {
        return;
    }
    let mut seen = BTreeSet::new();
    for command in &facts.commands {
        let name = command.words[0].text.as_str();
        let is_call = command.words.len() > 1 && command.folder.is_empty();
        if is_call && HELPERS.contains(&name) && !defined.contains(name) && seen.insert(name) {
            let message = format!("the script calls `{name}`, and does not define it");
            found.add("helper-undefined", command.words[0].line, message);
        }
    }
}

/// Returns whether a file that a script reads contains settings only.
fn is_known(file: &str) -> bool {
    file.ends_with("/os-release") || file.ends_with("/activate") || file.ends_with(".env")
}

/// Returns the names of the functions and aliases that a line defines.
fn definitions(line: &str) -> impl Iterator<Item = &str> {
    let is_part = |letter: char| !letter.is_alphanumeric() && letter != '_';
    let named = line
        .match_indices('(')
        .map(move |(at, _)| line[..at].trim_end().rsplit(is_part).next().unwrap_or_default());
    let words: Vec<&str> = line.split_whitespace().collect();
    let next = (1..words.len())
        .filter(|at| matches!(words[at - 1], "function" | "alias"))
        .map(|at| words[at].split(['=', '(', '{']).next().unwrap_or_default())
        .collect::<Vec<_>>();
    named.chain(next)
}
