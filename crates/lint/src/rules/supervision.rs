//! Rules for containers that start several servers in one shell.

use super::stages::{last_stages, parts};
use super::starts::{command_text, is_started};
use crate::dockerfile::Instruction;
use crate::shell::{self, Operator, ShellCommand};
use crate::{Context, Exists, Facts, Findings, Kind, compose};

/// Words of commands that start a server which runs for ever.
const SERVERS: [&str; 26] = [
    "api_server",
    "caddy",
    "celery",
    "comfyui",
    "gunicorn",
    "http.server",
    "jupyter",
    "jupyter-lab",
    "llama-server",
    "main.py",
    "app.py",
    "api.py",
    "nginx",
    "node",
    "redis-server",
    "runserver",
    "server.py",
    "serve",
    "sshd",
    "streamlit",
    "tensorboard",
    "uvicorn",
    "webui.py",
    "webui.sh",
    "start.sh",
    "worker.py",
];

/// Texts of scripts that notice the end of a server, or pass signals on.
const WATCHES: [&str; 10] = [
    "wait -n",
    "wait -fn",
    "trap ",
    "supervisord",
    "s6-",
    "tini -g",
    "kill -0",
    "pgrep",
    "concurrently",
    "honcho",
];

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    match facts.kind {
        Kind::Dockerfile => image(facts, context.exists, found),
        Kind::Compose if facts.code.contains('&') => {
            for (text, line) in compose::scripts(facts.text) {
                if several(&shell::commands("x.sh", &text), &text).is_some() {
                    report(line, found);
                }
            }
        }
        Kind::Shell => {
            if let Some(line) = several(&facts.commands, &facts.code)
                && is_started(facts, context.exists)
            {
                report(line, found);
            }
        }
        _ => {}
    }
}

fn report(line: usize, found: &mut Findings<'_>) {
    let message = "several servers run in one shell: if this one ends, nobody notices, and signals do not reach them";
    found.add("servers-unsupervised", line, message);
}

/// Checks the command of an image, and a script that the Dockerfile writes itself.
fn image(facts: &Facts<'_>, exists: Option<&dyn Exists>, found: &mut Findings<'_>) {
    let all = facts.instructions();
    let stages = last_stages(facts, all);
    let is_start = |one: &&Instruction| {
        stages.contains(&one.stage) && matches!(&*parts(one).0, "CMD" | "ENTRYPOINT")
    };
    let Some(start) = all.iter().rev().find(is_start) else { return };
    let rest = parts(start).1.trim();
    let command = command_text(rest);
    if several(&shell::commands("x.sh", &command), &command).is_some() {
        return report(start.line, found);
    }
    // `RUN echo "a &" > start.sh`
    let words: Vec<&str> = command.split_whitespace().collect();
    let script = words.iter().find(|word| word.ends_with(".sh"));
    let Some(name) = script.and_then(|script| script.rsplit('/').next()) else { return };
    if exists.is_some_and(|files| files.text(facts.file, name).is_some()) {
        return;
    }
    let (places, lines): (Vec<usize>, Vec<String>) = written(facts, name).into_iter().unzip();
    let text = lines.join("\n");
    if let Some(line) = several(&shell::commands("x.sh", &text), &text) {
        report(places.get(line - 1).copied().unwrap_or(start.line), found);
    }
}

/// Returns the lines of a script that a Dockerfile writes itself, with their places: those of
/// `echo "…" > FILE`, and here documents.
fn written(facts: &Facts<'_>, name: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut end: Option<String> = None;
    for (place, line) in facts.lines() {
        if let Some(delimiter) = &end {
            if line.trim() == delimiter {
                end = None;
            } else {
                found.push((place, line.to_owned()));
            }
            continue;
        }
        let is_copy = line.trim_start().to_ascii_uppercase().starts_with("COPY ");
        if !line.contains(name) || !(is_copy || line.contains('>')) {
            continue;
        }
        if let Some((_, rest)) = line.split_once("<<") {
            let word = rest.trim_start_matches('-').split([' ', '>', ';', '&']).next();
            end = word.map(|word| word.trim_matches(['"', '\'']).to_owned());
        } else if let Some((_, inner)) = line.split_once(['"', '\'']) {
            let last = inner.rfind(['"', '\'']).unwrap_or(inner.len());
            let inner = inner[..last].replace("\\n", "\n");
            found.extend(inner.lines().map(|one| (place, one.to_owned())));
        }
    }
    found
}

/// Returns whether a command starts a server.
fn serves(command: &ShellCommand) -> bool {
    command.words.iter().take(5).any(|word| {
        let name = word.text.rsplit('/').next().unwrap_or_default();
        SERVERS.contains(&name)
            || name.ends_with("server.py")
            || name == "vllm.entrypoints.openai.api_server"
    })
}

/// Returns the line of the first server in the background, if another one runs beside it and nothing
/// watches both.
fn several(commands: &[ShellCommand], text: &str) -> Option<usize> {
    if WATCHES.iter().any(|word| text.contains(word)) {
        return None;
    }
    let is_behind = |one: &&ShellCommand| one.operator == Operator::Background && serves(one);
    let first = commands.iter().find(is_behind)?;
    let behind = commands.iter().filter(is_behind).count();
    let after = commands.iter().skip_while(|one| *one != first).skip(1);
    let in_front = after.filter(|one| one.operator != Operator::Background && serves(one)).count();
    // A server for the time of a build or a download is stopped again.
    let is_stopped =
        commands.iter().any(|one| matches!(&*one.words[0].text, "kill" | "pkill" | "killall"));
    (behind + in_front >= 2 && !is_stopped).then(|| first.words[0].line)
}
