//! Rules for pipes whose last program hides that the first one has failed.

use super::failures::{is_condition, is_strict, step};
use super::stages::instruction_of;
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
    let all = (facts.kind == Kind::Dockerfile).then(|| facts.instructions());
    let places = found.places();
    let is_said = |line: usize| places.contains(&(line, LOST));
    for (at, command) in facts.commands.iter().enumerate().filter(|(_, one)| one.is_piped) {
        let Some(next) = facts.commands.get(at + 1) else { continue };
        let line = command.words[0].line;
        let is_end = next.operator != Operator::Or && !next.is_piped;
        // `docker build | tee` has a check of its own, and so has a test.
        let is_other = is_condition(command)
            || is_condition(next)
            || matches!(&*command.words[0].text, "docker" | "podman" | "buildah");
        let is_run = facts.kind != Kind::Dockerfile
            || all.and_then(|all| instruction_of(all, line)).is_some_and(|own| {
                own.text.get(..3).is_some_and(|name| name.eq_ignore_ascii_case("run"))
            });
        if next.words[0].text != "tee" || !is_end || is_other || !is_run {
            continue;
        }
        let Some(program) = program(command) else { continue };
        let message =
            format!("`tee` succeeds even if `{program}` fails, and nothing sets `pipefail`");
        let hit = Hit::new(LOST, next.words[0].line, message);
        if is_said(line) || is_said(next.words[0].line) {
            continue;
        }
        let hit = if facts.kind == Kind::Dockerfile {
            hit.help("write `SHELL [\"/bin/bash\", \"-o\", \"pipefail\", \"-c\"]` before it, or leave `tee` out: the builder keeps the messages")
        } else {
            hit.at_most(Severity::Information)
        };
        return found.hit(hit);
    }
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
        || matches!(
            name,
            "}" | ")" | "bash" | "cargo" | "ctest" | "torchrun" | "accelerate" | "vllm" | "sh"
        );
    let shown = if matches!(name, "}" | ")") { "the block" } else { name };
    is_work.then(|| shown.to_owned()).or_else(|| step(command))
}
