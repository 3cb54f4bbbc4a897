//! Rules for what a shell makes of a script: escapes in `echo`, and names of commands that are taken
//! for variables.

use crate::shell::ShellCommand;
use crate::{Context, Facts, Findings, Kind};

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    if matches!(facts.kind, Kind::Dockerfile | Kind::Shell) {
        jobs(facts, context, found);
        escapes(facts, found);
    }
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
