//! Rules for commands that are not run as the author means it: arguments of another command, and input
//! of an interpreter.

use crate::shell::ShellCommand;
use crate::{Facts, Findings, Kind};

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if !matches!(facts.kind, Kind::Dockerfile | Kind::Shell) {
        return;
    }
    for command in &facts.commands {
        missing(command, found);
    }
}

/// Programs that install packages.
const MANAGERS: [&str; 7] = ["apt", "apt-get", "dnf", "yum", "apk", "pip", "pip3"];

/// The subcommands of those programs.
const SUBCOMMANDS: [&str; 10] = [
    "add",
    "autoclean",
    "autoremove",
    "clean",
    "install",
    "purge",
    "remove",
    "uninstall",
    "update",
    "upgrade",
];

/// Programs that can follow such a command.
const NEXT: [&str; 8] = ["apt", "apt-get", "dnf", "yum", "apk", "pip", "pip3", "usermod"];

/// Checks for `apt-get update apt-get install …`, without `&&`.
fn missing(command: &ShellCommand, found: &mut Findings<'_>) {
    let words: Vec<&str> = command.texts();
    let program = words[0].rsplit('/').next().unwrap_or_default();
    let is_change = |at: &usize| {
        let has_folder = words[1..*at].iter().any(|word| !word.starts_with('-'));
        words[*at] == "cd" && words.len() == *at + 2 && has_folder
    };
    if let Some(at) = (2..words.len()).find(is_change).filter(|_| program == "mkdir") {
        let message = "`cd` and what follows are arguments of `mkdir`";
        return found.add("operator-missing", command.words[at].line, message);
    }
    if !MANAGERS.contains(&program) {
        return;
    }
    let is_start = |at: usize| {
        let rest = words[at..].strip_prefix(&["sudo"]).unwrap_or(&words[at..]);
        let next = rest.get(1).copied().unwrap_or_default();
        let is_command = SUBCOMMANDS.contains(&next);
        let is_removal = rest.first() == Some(&"rm") && next.starts_with('-');
        is_removal || rest.first().is_some_and(|first| NEXT.contains(first)) && is_command
    };
    if let Some(at) = (2..words.len()).find(|at| is_start(*at)) {
        let message = format!("`{}` and what follows are arguments of `{program}`", words[at]);
        found.add("operator-missing", command.words[at].line, message);
    }
}

/// Returns whether an interpreter runs its input, and not the code in an option: `perl -pe '…'`.
pub(super) fn runs_input(program: &str, rest: &[&str]) -> bool {
    let is_code = |word: &&str| {
        let letters = word.strip_prefix('-').unwrap_or_default();
        let is_short = !letters.starts_with('-') && letters.contains(['e', 'n', 'p', 'r']);
        is_short || letters.starts_with("-eval") || letters.starts_with("-print")
    };
    let first = rest.iter().find(|word| **word != "-" && !word.starts_with('-'));
    let is_file = program != "perl" && first.is_some() || first.is_some_and(|w| w.ends_with(".pl"));
    !rest.iter().any(is_code) && !is_file
}
