//! Rules for scripts that go on after an error: those that a build runs, and those that continue
//! without their virtual environment.

use std::collections::BTreeSet;

use super::failures::{is_condition, is_lax, unnoticed};
use super::stages::{gives_gpu, gpu_tool, is_own, parts};
use super::starts::script_text;
use crate::dockerfile::Instruction;
use crate::shell::{Operator, ShellCommand, UNKNOWN};
use crate::{Context, Exists, Facts, Findings, Hit, Kind, Severity};

/// The rule for scripts that go on after an error.
const IGNORED: &str = "errors-ignored";

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    match (facts.kind, context.exists) {
        (Kind::Dockerfile, Some(files)) => {
            built(facts, files, found);
            started(facts, files, found);
        }
        (Kind::Shell, _) => activates(facts, found),
        _ => {}
    }
}

/// The subject of all findings about scripts of a build.
const LAX: &str = "scripts of a build";

/// The number of scripts of a build that are read.
const MOST: usize = 10;

/// Returns the script that a command runs: `./a.sh`, `bash /src/a.sh`.
fn script(command: &ShellCommand) -> Option<&str> {
    let words = command.texts();
    let is_shell = matches!(words[0], "bash" | "sh" | "/bin/bash" | "/bin/sh");
    let path =
        if is_shell { words[1..].iter().find(|word| !word.starts_with('-'))? } else { words[0] };
    // `bash -e a.sh` stops at an error.
    let is_strict = is_shell && words[1..].iter().any(|word| word.starts_with('-'));
    (path.ends_with(".sh") && !path.contains([UNKNOWN, '$']) && !is_strict).then_some(path)
}

/// Checks for a `RUN` with a script that goes on after an error, so that the build succeeds.
fn built(facts: &Facts<'_>, files: &dyn Exists, found: &mut Findings<'_>) {
    let all = facts.instructions();
    let own: Vec<&Instruction> = all.iter().collect();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let runs = facts.commands.iter().filter(|one| is_own(all, one));
    for command in runs {
        let Some(path) = script(command).filter(|path| seen.insert(path)) else { continue };
        if seen.len() > MOST {
            return;
        }
        let copies: Vec<&Instruction> = own
            .iter()
            .filter(|one| parts(one).0 == "COPY" && one.stage <= command.stage)
            .copied()
            .collect();
        let Some(text) = script_text(facts, &copies, path, files) else { continue };
        let script = Facts::read("a.sh", &text);
        looks_for_gpu(facts, command, path, &script, found);
        let message = unnoticed(&script).filter(|message| !message.is_empty() && is_lax(&script));
        if let Some(message) = message {
            let name = path.rsplit('/').next().unwrap_or(path);
            let message =
                format!("`{name}` {message}: a later step may fail, or the result may lack parts");
            let hit = Hit::new(IGNORED, command.words[0].line, message);
            // One such finding is enough for a file.
            found.hit(hit.help("write `set -e` in the second line of the script").about(LAX));
        }
    }
}

/// Checks for a script of a build that looks for a GPU, and does without it if it finds none.
fn looks_for_gpu(
    facts: &Facts<'_>,
    command: &ShellCommand,
    path: &str,
    script: &Facts<'_>,
    found: &mut Findings<'_>,
) {
    let is_given = facts.line(command.words[0].line).contains("--device") || gives_gpu(facts);
    // A script with its own test of the device knows of builds.
    if is_given || script.code.contains("/dev/kfd") {
        return;
    }
    // A list of packages can contain the name of a tool, and a tool alone only prints.
    let is_used = |one: &&ShellCommand| {
        let line = script.line(one.words[0].line);
        ["|", ">", "if ", "$(", "&&"].iter().any(|text| line.contains(text))
    };
    if let Some(tool) = script.commands.iter().filter(is_used).find_map(gpu_tool) {
        let name = path.rsplit('/').next().unwrap_or(path);
        let message = format!("`{name}` calls `{tool}`, and the build has no GPU");
        found.add("gpu-during-build", command.words[0].line, message);
    }
}

/// Checks for a script that the kernel starts, without a shell, and that names no interpreter.
fn started(facts: &Facts<'_>, files: &dyn Exists, found: &mut Findings<'_>) {
    // An instruction can write the line, or a shell can start the script.
    if facts.text.contains("#!") {
        return;
    }
    let all = facts.instructions();
    let last = facts.stages.len();
    let of = |name: &str| all.iter().rev().find(|one| one.stage == last && parts(one).0 == name);
    let Some(start) = of("ENTRYPOINT").or_else(|| of("CMD")) else { return };
    let rest = parts(start).1.trim_start().strip_prefix('[');
    let path = rest.and_then(|rest| rest.trim_start().strip_prefix('"')?.split('"').next());
    let Some(path) = path.filter(|path| path.ends_with(".sh")) else { return };
    let copies: Vec<&Instruction> =
        all.iter().filter(|one| one.stage == last && parts(one).0 == "COPY").collect();
    let text = script_text(facts, &copies, path, files);
    let has_content = |one: &String| !one.trim().is_empty() && !one.starts_with('\u{7f}');
    if text.filter(has_content).is_some_and(|own| !own.starts_with("#!")) {
        let message =
            format!("`{path}` has no first line such as `#!/bin/sh`, and no shell starts it");
        found.hit(Hit::new("shebang", start.line, message));
    }
}

/// Returns the virtual environment that a command activates.
fn environment(command: &ShellCommand) -> Option<&str> {
    let words = command.texts();
    let path = words.get(1).filter(|_| matches!(words[0], "source" | "."))?;
    path.strip_suffix("/bin/activate")
}

/// Programs of an environment.
const PROGRAMS: [&str; 6] = ["pip", "pip3", "python", "python3", "uvicorn", "vllm"];

/// Checks for a script that goes on with the system's Python if its virtual environment is missing.
fn activates(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let is_plain = |one: &&ShellCommand| {
        one.operator == Operator::End && one.keywords.is_empty() && !is_condition(one)
    };
    let mut commands = facts.commands.iter();
    let Some(command) = commands.find(|one| environment(one).is_some()).filter(is_plain) else {
        return;
    };
    let Some(folder) = environment(command) else { return };
    let name = folder.rsplit('/').next().unwrap_or(folder);
    // The script creates or tests it.
    let is_known = facts.commands.iter().any(|one| {
        let words = one.texts();
        let tests =
            matches!(words[0], "[" | "[[" | "test") && words.iter().any(|word| word.contains(name));
        tests || ["venv", "virtualenv"].iter().any(|word| words.contains(word))
    });
    let uses = commands.any(|one| {
        let program = one.words[0].text.rsplit('/').next().unwrap_or_default();
        PROGRAMS.contains(&program)
    });
    let is_said = found.places().iter().any(|(_, rule)| *rule == IGNORED);
    if uses && !is_known && !is_said && is_lax(facts) {
        let message =
            "if the virtual environment is missing, the script goes on with another Python";
        let hit = Hit::new(IGNORED, command.words[0].line, message);
        found.hit(hit.at_most(Severity::Information));
    }
}
