//! Rules for units whose image takes longer to arrive than systemd waits for the start.

use crate::{Facts, Findings, Kind};

/// Parts of the names of images with several gigabytes.
const LARGE: [&str; 33] = [
    "chatterbox",
    "comfy",
    "cuda",
    "docling",
    "exllama",
    "faster-whisper",
    "fooocus",
    "immich-machine",
    "infinity",
    "invokeai",
    "jupyter",
    "koboldcpp",
    "kokoro",
    "lemonade",
    "llama",
    "lmdeploy",
    "localai",
    "open-webui",
    "pytorch",
    "ramalama",
    "rocm",
    "sglang",
    "speaches",
    "stable-diffusion",
    "tabbyapi",
    "tensorflow",
    "text-embeddings",
    "text-generation",
    "tritonserver",
    "unsloth",
    "vllm",
    "whisper",
    "xinference",
];

/// Images of the host itself, and other units.
const NOT_PULLED: [&str; 4] = ["localhost/", "docker-daemon:", "oci-archive:", "dir:"];

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if !matches!(facts.kind, Kind::Quadlet | Kind::Unit)
        || facts.code.contains("TimeoutStartSec")
        || facts.code.contains("TimeoutSec")
    {
        return;
    }
    let value = |line: &str, key: &str| {
        let (own, value) = line.split_once('=')?;
        (own.trim() == key).then(|| value.trim().trim_matches('"').to_owned())
    };
    // systemd waits for such a service without a limit.
    if facts.lines().any(|(_, line)| value(line, "Type").as_deref() == Some("oneshot")) {
        return;
    }
    let is_never = facts.lines().any(|(_, line)| value(line, "Pull").as_deref() == Some("never"));
    let is_container = facts.file.ends_with(".container") || facts.code.contains("[Container]");
    for (line, text) in facts.lines().filter(|(_, text)| !facts.kind.is_comment(text)) {
        if let Some(image) = value(text, "Image").filter(|_| is_container && !is_never) {
            let lower = image.to_ascii_lowercase();
            let is_unit = lower.ends_with(".build") || lower.ends_with(".image");
            let is_here = is_unit
                || NOT_PULLED.iter().any(|start| lower.starts_with(start))
                || !lower.contains('/');
            if !is_here && LARGE.iter().any(|part| lower.contains(part)) {
                let message = format!(
                    "the first start pulls `{image}`, and systemd ends it after 90 seconds"
                );
                let mut sections = facts.lines().filter(|(_, own)| own.trim() == "[Service]");
                let place = sections.next().map_or(line, |(place, _)| place);
                return found.add("unit-start-timeout", place, message);
            }
        }
        let before = value(text, "ExecStartPre").filter(|_| facts.kind == Kind::Unit);
        let is_pull = before.is_some_and(|command| {
            let words: Vec<&str> = command.split_whitespace().collect();
            words.windows(2).any(|two| {
                let name = two[0].rsplit('/').next().unwrap_or_default().trim_start_matches('-');
                matches!(name, "docker" | "podman") && matches!(two[1], "pull" | "build")
                    || matches!(two[0], "compose") && matches!(two[1], "pull" | "build")
            })
        });
        if is_pull {
            let message =
                "`ExecStartPre` is part of the start, and systemd ends it after 90 seconds";
            return found.add("unit-start-timeout", line, message);
        }
    }
}
