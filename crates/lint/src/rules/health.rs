//! Health checks and entrypoints: programs that the image lacks, and checks that cannot fail.

use super::folder::dockerfile;
use super::programs::{Lacks, at_ends, lacks};
use super::stages::{last_stages, parts};
use super::starts::command_text;
use crate::facts::Container;
use crate::shell::commands;
use crate::{Context, Facts, Finding, Findings, Hit, Kind};

/// Checks the last health check of a Dockerfile.
pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if facts.kind != Kind::Dockerfile {
        return;
    }
    let all = facts.instructions();
    let stages = last_stages(facts, all);
    let missing = at_ends(facts, all).pop().unwrap_or_default();
    starts(facts, &stages, &missing, found);
    let checks = all.iter().filter(|one| stages.contains(&one.stage));
    let Some(check) = checks.rev().find(|one| parts(one).0 == "HEALTHCHECK") else { return };
    let Some((_, command)) = check.text.split_once(" CMD") else { return };
    useless(check.line, command, found);
    if let Some(program) = called(command).into_iter().find(|one| missing.contains(*one)) {
        fails(check.line, program, found);
    }
}

/// Checks for a program that the container starts, and that the image lacks.
fn starts(facts: &Facts<'_>, stages: &[usize], missing: &Lacks, found: &mut Findings<'_>) {
    let last = |name: &str| {
        let mut own = facts.instructions().iter().rev().filter(|one| stages.contains(&one.stage));
        own.find(|one| parts(one).0 == name)
    };
    let Some(start) = last("ENTRYPOINT").or_else(|| last("CMD")) else { return };
    let text = command_text(parts(start).1);
    let first = commands("x.sh", &text).into_iter().next();
    let Some(program) = first.map(|one| one.words[0].text.clone()) else { return };
    let shown = format!("`{program}`");
    let is_said = |one: &Finding| one.rule.id == "program-missing" && one.message.contains(&shown);
    if missing.contains(&program) && !found.all.iter().any(is_said) {
        let message = format!("the image has no `{program}`, which the container starts");
        let help = match program.as_str() {
            "python" if !missing.contains("python3") => "write `python3`".to_owned(),
            _ => format!("install {program}, or start a program of the image"),
        };
        found.hit(Hit::new("program-missing", start.line, message).help(help));
    }
}

/// Checks the health check and the entrypoint of a container.
pub(super) fn of_container(
    facts: &Facts<'_>,
    container: &Container,
    context: Context<'_>,
    found: &mut Findings<'_>,
) {
    let base = container.base.as_ref().and_then(|base| base.image.as_ref());
    let built = dockerfile(facts, container, context).map(|text| {
        let image = Facts::read("Dockerfile", &text);
        at_ends(&image, image.instructions()).pop().unwrap_or_default()
    });
    let image = container.image.as_ref().or(base).map_or("", |image| &image.text);
    if built.is_none() && image.is_empty() {
        return;
    }
    let option = |start: &str| {
        container.options.iter().find_map(|one| Some((one.line, one.text.strip_prefix(start)?)))
    };
    let missing = built.unwrap_or_else(|| lacks(image));
    if let Some((line, command)) = option("--health-cmd=") {
        let command = command.strip_prefix("CMD-SHELL").unwrap_or(command);
        let command = command.strip_prefix("CMD ").unwrap_or(command);
        useless(line, command, found);
        if let Some(program) = called(command).into_iter().find(|one| missing.contains(*one)) {
            fails(line, program, found);
        }
    }
    // The container may install what it needs.
    let installs = |command: &str| command.contains("install") || command.contains(" add ");
    if let Some((line, command)) = option("--entrypoint=").filter(|one| !installs(one.1))
        && let Some(program) = called(command).into_iter().find(|one| missing.contains(*one))
    {
        let message = match image {
            "" => format!("the image has no `{program}`"),
            name => format!("`{name}` has no `{program}`"),
        };
        let hit = Hit::new("program-missing", line, message);
        found.hit(hit.help("use a program of the image, or build an image with the program"));
    }
}

/// Checks for a health check that cannot fail.
fn useless(line: usize, command: &str, found: &mut Findings<'_>) {
    let words = words(command);
    let is_shell = |word: &&&str| matches!(**word, "sh" | "bash" | "/bin/sh" | "/bin/bash" | "-c");
    let rest: Vec<&str> = words.iter().skip_while(is_shell).copied().collect();
    let is_idle = match rest.as_slice() {
        ["true" | ":"] | ["exit", "0"] => true,
        ["echo", ..] => !command.contains(['|', '>', '&', '$', ';']),
        ["kill", "-0", "1", ..] => true,
        [_, "--version" | "-version" | "--help"] => true,
        _ => false,
    };
    let is_hidden = matches!(words.as_slice(), [.., "||", "true"] | [.., "||", "exit", "0"]);
    if is_idle || is_hidden {
        return found.add("healthcheck-useless", line, "the health check cannot fail");
    }
    // `curl -f`, `curl -sf`, `curl --fail`
    let notices = |word: &&str| {
        word.starts_with("--fail")
            || word.starts_with('-') && !word.starts_with("--") && word.contains('f')
    };
    let plain = command.replace("|| exit 1", "");
    let looks = plain.contains(['|', '$', '`']) || plain.contains("grep") || plain.contains("%{");
    if rest.first() == Some(&"curl") && !looks && !rest.iter().any(notices) {
        let message = "without `--fail`, curl succeeds although the server reports an error";
        let hit = Hit::new("healthcheck-useless", line, message);
        found.hit(hit.help("write `curl --fail`"));
    }
}

/// Reports a health check whose program is missing.
fn fails(line: usize, program: &str, found: &mut Findings<'_>) {
    let message = format!("the health check calls {program}, which the image does not contain");
    let help = format!("install {program}, or check with a program of the image");
    found.hit(Hit::new("healthcheck-fails", line, message).help(help));
}

/// Returns the words of a command, or of a list in brackets.
fn words(command: &str) -> Vec<&str> {
    let separators = |c: char| c.is_whitespace() || matches!(c, '[' | ']' | '"' | '\'' | ',' | '(');
    command.split(separators).filter(|word| !word.is_empty()).collect()
}

/// Words after which the name of a program follows.
const BEFORE_PROGRAM: [&str; 11] =
    ["!", "&&", "-c", ";", "do", "if", "then", "until", "while", "|", "||"];

/// Returns the programs that a command calls.
fn called(command: &str) -> Vec<&str> {
    let mut programs = Vec::new();
    let mut is_first = true;
    for word in words(command) {
        if is_first {
            programs.push(word.trim_end_matches(';'));
        }
        is_first = BEFORE_PROGRAM.contains(&word) || word.ends_with(';');
    }
    programs
}

#[cfg(test)]
mod tests {
    use super::called;

    #[test]
    fn the_programs_of_a_health_check_are_those_at_the_start_of_commands() {
        assert_eq!(called(" curl -f http://x || exit 1"), ["curl", "exit"]);
        assert_eq!(called(" [\"pgrep\", \"-f\", \"python\"]"), ["pgrep"]);
        assert_eq!(called(" sh -c 'wget -q x | grep y'"), ["sh", "wget", "grep"]);
    }
}
