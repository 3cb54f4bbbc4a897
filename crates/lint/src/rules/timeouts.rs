//! Rules for units whose commands take longer than systemd waits for the start.

use crate::{Facts, Findings, Kind};

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if !matches!(facts.kind, Kind::Quadlet | Kind::Unit)
        || facts.code.contains("TimeoutStartSec")
        || facts.code.contains("TimeoutSec")
    {
        return;
    }
    // systemd waits for such a service without a limit.
    let is_once = |text: &str| text.replace([' ', '"'], "") == "Type=oneshot";
    if facts.lines().any(|(_, line)| is_once(line)) {
        return;
    }
    for (line, text) in facts.lines().filter(|(_, text)| !facts.kind.is_comment(text)) {
        let Some((key, command)) = text.split_once('=') else { continue };
        let key = key.trim();
        if matches!(key, "ExecStartPre" | "ExecStartPost") && pulls(command) {
            let message =
                format!("`{key}` is part of the start, and systemd ends it after 90 seconds");
            return found.add("unit-start-timeout", line, message);
        }
    }
}

/// Programs and subcommands that download much.
const DOWNLOADS: [(&str, &str); 7] = [
    ("git", "clone"),
    ("hf", "download"),
    ("huggingface-cli", "download"),
    ("npm", "install"),
    ("ollama", "pull"),
    ("pip", "install"),
    ("pip3", "install"),
];

/// The path of Ollama's API that downloads a model.
const API: &str = "/api/pull";

/// Returns whether a command pulls or builds an image, or downloads a model or a program.
fn pulls(command: &str) -> bool {
    if command.contains(API) {
        return true;
    }
    let words: Vec<&str> = command.split([' ', '"', '\'', ';']).collect();
    words.windows(2).any(|two| {
        let name = two[0].rsplit('/').next().unwrap_or_default().trim_start_matches('-');
        let is_pull = matches!(two[1], "pull" | "build");
        is_pull && matches!(name, "docker" | "podman" | "compose")
            || DOWNLOADS.contains(&(name, two[1]))
    })
}
