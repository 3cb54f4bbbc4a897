//! Rules for pipes whose last program hides that the first one has failed.

use super::failures::{is_condition, is_strict, step};
use super::stages::{instruction_of, parts};
use crate::shell::{Operator, ShellCommand};
use crate::{Facts, Findings, Hit, Kind, Severity};

/// The rule.
const LOST: &str = "build-status-lost";

/// Texts of files that look at the status of the whole pipe.
const LOOKS: [&str; 4] = ["pipefail", "pipestatus", "shell: bash", "shell: pwsh"];

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let lower = facts.code.to_ascii_lowercase();
    if LOOKS.iter().any(|text| lower.contains(text)) {
        return;
    }
    let stops = match facts.kind {
        Kind::Dockerfile => true,
        Kind::Shell => {
            facts.text.lines().any(|line| line.trim_start().starts_with("set -") && is_strict(line))
                || facts
                    .text
                    .lines()
                    .next()
                    .is_some_and(|first| first.starts_with("#!") && first.ends_with(" -e"))
        }
        // GitHub starts `bash -e`. GitLab sets `pipefail`.
        Kind::Workflow => facts.text.contains("runs-on:"),
        _ => false,
    };
    if !stops {
        return;
    }
    let places = found.places();
    let is_said = |line: usize| places.contains(&(line, LOST));
    for (at, tee) in facts.commands.iter().enumerate().skip(1) {
        let is_end = tee.operator != Operator::Or && !tee.is_piped && !is_condition(tee);
        if tee.words[0].text != "tee" || !is_end {
            continue;
        }
        let (before, line) = (&facts.commands[at - 1], tee.words[0].line);
        // `} | tee`
        let own = facts.line(line).trim_start();
        let is_block = own.starts_with(['}', ')']) && own.contains('|');
        let program = match (is_block, before.is_piped) {
            (true, _) => works(facts, at).then(|| "the block".to_owned()),
            (false, true) => program(before).map(|name| format!("`{name}`")),
            (false, false) => None,
        };
        let Some(program) = program.filter(|_| is_checked(facts, before)) else { continue };
        if is_said(line) || is_said(before.words[0].line) {
            continue;
        }
        let message =
            format!("`tee` succeeds even if {program} fails, and nothing sets `pipefail`");
        let hit = Hit::new(LOST, line, message);
        let is_step = facts.kind == Kind::Dockerfile && step(before).is_some();
        let is_step = is_step && !is_needed(facts, at) && !is_tested(facts, at);
        return found.hit(if is_step {
            hit.help("write `SHELL [\"/bin/bash\", \"-o\", \"pipefail\", \"-c\"]` before it, or leave `tee` out: the builder keeps the messages")
        } else {
            hit.at_most(Severity::Information)
        });
    }
}

/// Commands that fail if the file that they name does not exist.
const NEED: [&str; 7] = ["cp", "install", "ls", "mv", "strip", "test", "["];

/// Returns whether a later command of the same instruction needs a file, so that the build stops
/// there.
pub(super) fn is_needed(facts: &Facts<'_>, at: usize) -> bool {
    let own = instruction_of(facts.instructions(), facts.commands[at].words[0].line);
    let is_in = |one: &&ShellCommand| own.is_some_and(|own| one.words[0].line <= own.last);
    let joined = facts.commands[at..].windows(2).take_while(|two| two[0].operator == Operator::And);
    let mut later = joined.map(|two| &two[1]).take_while(is_in);
    later.any(|one| NEED.contains(&one.words[0].text.as_str()))
}

/// The number of instructions in which a test of the result is looked for.
const SOON: usize = 3;

/// Returns whether one of the next instructions tests the result: it imports a package or asks a
/// program for its version.
fn is_tested(facts: &Facts<'_>, at: usize) -> bool {
    let line = facts.commands[at].words[0].line;
    let next = facts.instructions().iter().filter(|one| one.line > line);
    let mut runs = next.filter(|one| parts(one).0 == "RUN").take(SOON);
    runs.any(|one| {
        let is_import = one.text.contains(" -c ") && one.text.contains("import ");
        is_import || one.text.contains(" --version") || one.text.contains("pip show")
    })
}

/// Returns whether the shell would stop if a command fails: it is no test, and in a Dockerfile, part
/// of a `RUN`. `docker build | tee` has a check of its own.
fn is_checked(facts: &Facts<'_>, command: &ShellCommand) -> bool {
    let is_other =
        is_condition(command) || matches!(&*command.words[0].text, "docker" | "podman" | "buildah");
    let is_run = || {
        let own = instruction_of(facts.instructions(), command.words[0].line);
        own.is_some_and(|own| parts(own).0 == "RUN")
    };
    !is_other && (facts.kind != Kind::Dockerfile || is_run())
}

/// The number of commands of a block that are looked at.
const LONGEST: usize = 200;

/// Returns whether the block that ends before a command does more than print text.
fn works(facts: &Facts<'_>, end: usize) -> bool {
    let is_start = |one: &&ShellCommand| {
        let line = facts.line(one.words[0].line.saturating_sub(1)).trim();
        let own = facts.line(one.words[0].line).trim_start();
        matches!(line, "{" | "(") || own.starts_with("{ ") || own.starts_with('(')
    };
    let mut block = facts.commands[..end].iter().rev().take(LONGEST);
    let mut works = false;
    while let Some(command) = block.next().filter(|_| !works) {
        works = program(command).is_some();
        if is_start(&command) {
            break;
        }
    }
    works
}

/// Programs whose failure does not matter before `tee`, because they only write text.
const WRITERS: [&str; 8] = ["cat", "curl", "echo", "grep", "printf", "sed", "wget", "yes"];

/// Returns the name of a program that does work, if a command runs it.
fn program(command: &ShellCommand) -> Option<String> {
    let first = command.words[0].text.as_str();
    let name = first.rsplit('/').next().unwrap_or(first);
    if WRITERS.contains(&name) {
        return None;
    }
    let is_work = first.starts_with("./")
        || name.starts_with("python")
        || name.starts_with("llama-")
        || name.ends_with(".sh")
        || name.ends_with(".py")
        || matches!(name, "bash" | "cargo" | "ctest" | "torchrun" | "accelerate" | "vllm" | "sh");
    is_work.then(|| name.to_owned()).or_else(|| step(command))
}
