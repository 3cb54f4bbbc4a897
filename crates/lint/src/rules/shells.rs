//! Rules for what a shell makes of a script: escapes in `echo`, lists in braces, and names of commands
//! that are taken for variables.

use super::images::released;
use super::stages::{fixed_base, parts};
use crate::dockerfile::own_lines;
use crate::shell::ShellCommand;
use crate::{Context, Facts, Findings, Kind};

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    if matches!(facts.kind, Kind::Dockerfile | Kind::Shell) {
        jobs(facts, context, found);
        escapes(facts, found);
        braces(facts, found);
    }
}

/// Distributions whose /bin/sh does not expand `{a,b}`.
const PLAIN: [&str; 3] = ["Alpine", "Debian", "Ubuntu"];

/// Package managers of distributions whose /bin/sh is bash.
const OTHERS: [&str; 4] = ["dnf ", "pacman ", "yum ", "zypper "];

/// Checks for a list in braces, which only bash expands. The first one is enough.
fn braces(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let list = match facts.kind {
        Kind::Dockerfile if !facts.code.contains("SHELL [") => {
            let all = facts.instructions();
            let mut runs = all.iter().filter(|one| parts(one).0 == "RUN");
            runs.find_map(|own| {
                let rest = parts(own).1;
                let base = fixed_base(facts, all, own.stage);
                let is_plain = || {
                    released(base)
                        .is_some_and(|row| PLAIN.iter().any(|one| row.name.starts_with(one)))
                };
                let is_other =
                    rest.contains("bash") || rest.contains("<<") || rest.starts_with('[');
                let shown = listed(rest).filter(|_| !is_other && is_plain())?;
                Some((own.line, shown))
            })
        }
        Kind::Shell => {
            let first = facts.text.lines().next().unwrap_or_default().trim_end();
            let is_sh = matches!(first, "#!/bin/sh" | "#!/bin/sh -e" | "#!/usr/bin/env sh");
            let is_other = OTHERS.iter().any(|one| facts.code.contains(one));
            let lines = own_lines(facts.text).filter(|_| is_sh && !is_other);
            let mut code = lines.filter(|(_, text)| !facts.kind.is_comment(text));
            code.find_map(|(line, text)| Some((line, listed(text)?)))
        }
        _ => None,
    };
    if let Some((line, shown)) = list {
        let message = format!("`{shown}` is one name for /bin/sh: only bash expands it");
        found.add("shell-feature", line, message);
    }
}

/// Programs that get the names of files.
const WITH_FILES: [&str; 8] = ["chmod", "chown", "cp", "install", "mkdir", "mv", "rm", "touch"];

/// Returns the first word of a command for files that contains a list in braces outside quotes.
fn listed(text: &str) -> Option<&str> {
    let is_list = |word: &str| {
        let (before, rest) = word.split_once('{')?;
        let (inside, _) = rest.split_once('}')?;
        let is_plain = !word.contains(['"', '\'', '`', '\\']) && !before.ends_with('$');
        Some(is_plain && inside.contains(',') && !word.contains("://"))
    };
    let mut is_quoted = false;
    let mut is_for_files = false;
    let mut starts = true;
    for word in text.split_whitespace() {
        if starts && !word.contains('=') && word != "sudo" {
            is_for_files = WITH_FILES.contains(&word);
        }
        starts = matches!(word, "&&" | "||" | "|" | "do" | "then" | "else" | "sudo")
            || word.ends_with(';')
            || starts && word.contains('=');
        if is_for_files && !is_quoted && is_list(word) == Some(true) {
            return Some(word.trim_end_matches(';'));
        }
        is_quoted ^= word.chars().filter(|c| matches!(c, '"' | '\'')).count() % 2 == 1;
    }
    None
}

/// Programs that accept a number of jobs.
const BUILDERS: [&str; 5] = ["-j", "--parallel", "cmake", "make", "ninja"];

/// Checks for `${nproc}`, which is the name of a command.
fn jobs(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    const NAME: &str = "nproc";
    let is_set = facts.settings.iter().any(|one| one.name == NAME)
        || context.defined.is_some_and(|names| names.contains(NAME))
        || facts.code.contains("${nproc:");
    let is_sourced = facts.commands.iter().any(|one| matches!(&*one.words[0].text, "source" | "."));
    if is_set || is_sourced {
        return;
    }
    for missing in facts.missing.iter().filter(|one| one.name == NAME) {
        if BUILDERS.iter().any(|name| facts.line(missing.line).contains(name)) {
            let message = "`nproc` is a command, and no variable of this name is set";
            found.add("jobs-unlimited", missing.line, message);
        }
    }
}

/// Checks for `\n` in a text that bash's `echo` writes to a file.
fn escapes(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let first = facts.text.lines().next().unwrap_or_default();
    let is_bash = facts.kind == Kind::Shell && first.starts_with("#!") && first.contains("bash");
    // The stages, and the lines from which bash runs their commands.
    let shells: Vec<(usize, usize)> = match facts.kind {
        Kind::Dockerfile if facts.code.contains("SHELL") => {
            let all = facts.instructions();
            let is_shell = |text: &str| text.starts_with("SHELL") && text.contains("bash");
            let shells = all.iter().filter(|one| is_shell(&one.text));
            shells.map(|one| (one.stage, one.line)).collect()
        }
        _ => Vec::new(),
    };
    if !is_bash && shells.is_empty() || facts.code.contains("xpg_echo") {
        return;
    }
    for (at, command) in facts.commands.iter().enumerate() {
        let line = command.words[0].line;
        let is_run =
            is_bash || shells.iter().any(|(stage, start)| *stage == command.stage && *start < line);
        let next = facts.commands.get(at + 1).filter(|_| command.is_piped);
        let is_tee = next.is_some_and(|next| next.words[0].text == "tee");
        if is_run && (command.is_saved || is_tee) && has_escape(facts, command) {
            let message = "`echo` of bash writes `\\n` as two characters";
            found.add("echo-escape", line, message);
        }
    }
}

/// Returns whether `echo` without `-e` gets a text with `\n` that is no code.
fn has_escape(facts: &Facts<'_>, command: &ShellCommand) -> bool {
    let [program, rest @ ..] = command.words.as_slice() else { return false };
    let has_option = rest.first().is_some_and(|word| {
        let letters = word.text.strip_prefix('-').unwrap_or_default();
        letters.contains('e') && letters.bytes().all(|letter| b"neE".contains(&letter))
    });
    let is_escaped = facts.line(program.line).contains("\\\\n");
    // A text with quotes or parentheses can be code, in which `\n` is right.
    let is_code = |text: &str| text.contains(['"', '\'', '(', '`', '$']) || text.contains("printf");
    let is_text = |text: &str| text.contains("\\n") && !is_code(text);
    program.text == "echo" && !has_option && !is_escaped && rest.iter().any(|w| is_text(&w.text))
}
