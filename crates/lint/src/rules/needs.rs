//! Python packages that need something of the system, and users of images and units.

use super::apt_lists::is_without_lists;
use super::images::path_and_tag;
use super::stages::{fixed_base, last_stages, parts};
use super::traps::instructions;
use crate::data::{NeedsRow, data, matches_any};
use crate::{Facts, Findings, Hit, Kind, Severity};

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    match facts.kind {
        Kind::Dockerfile => {
            packages(facts, found);
            unused_user(facts, found);
        }
        Kind::Unit => as_root(facts, found),
        _ => {}
    }
}

/// Texts that show that a file may install more than it names.
const OTHER: [&str; 7] = [".sh", "conda", "mamba", "ansible", "$(cat", "xargs", "<<"];

/// Checks for Python packages without the program or library that they need.
fn packages(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let lower = facts.code.to_ascii_lowercase();
    let has = |text: &&str| lower.contains(text);
    let all = instructions(facts.text);
    if OTHER.iter().any(has) {
        return;
    }
    // Such images contain hardly more than the distribution or Python.
    let is_small = |stage: usize| is_without_lists(facts, &all, stage);
    let lacks = |row: &NeedsRow| {
        let is_listed =
            |stage: usize| matches_any(&row.images, &path_and_tag(fixed_base(facts, &all, stage)));
        (1..=facts.stages.len()).all(|stage| is_small(stage) || is_listed(stage))
    };
    for package in &facts.packages {
        let is_about = |row: &&NeedsRow| row.packages.contains(&package.name);
        let Some(row) = data().needs.iter().find(is_about) else { continue };
        let is_there = row.unless.iter().any(|text| lower.contains(text)) || !lacks(row);
        if !is_there && !package.is_special {
            let message = format!("`{}` needs {}, which nothing installs", package.name, row.needs);
            let hit = Hit::new("package-needs-program", package.line, message);
            found.hit(hit.evidence(row.evidence.as_ref()));
        }
    }
}

/// Programs that switch to another user.
const SWITCHES: [&str; 10] =
    ["gosu", "su-exec", "runuser", "setpriv", "sudo", "su ", "su-", "sshd", "chroot", "s6-"];

/// Checks for a user that the last stage creates and never switches to.
fn unused_user(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let all = instructions(facts.text);
    let stages = last_stages(facts, &all);
    let own = || all.iter().filter(|one| stages.contains(&one.stage));
    let lower = facts.code.to_ascii_lowercase();
    // A start script, or the one who starts the container, can switch.
    let switches = SWITCHES.iter().any(|program| lower.contains(program));
    let has_script = own().any(|one| {
        let name = parts(one).0;
        matches!(name.as_str(), "ENTRYPOINT" | "CMD") && one.text.contains(".sh")
    });
    if switches || has_script || own().any(|one| parts(one).0 == "USER") {
        return;
    }
    let creates = facts.commands.iter().find(|one| {
        stages.contains(&one.stage)
            && matches!(one.words[0].text.as_str(), "useradd" | "adduser")
            && !one.words.iter().any(|word| matches!(word.text.as_str(), "-r" | "--system" | "-S"))
    });
    if let Some(command) = creates {
        let message = "the image creates a user, but its program runs as root";
        found.add("user-unused", command.words[0].line, message);
    }
}

/// Servers that need no rights of root.
const SERVERS: [&str; 8] =
    ["comfy", "koboldcpp", "lemonade", "llama-server", "ollama", "sglang", "uvicorn", "vllm"];

/// Checks for a unit that starts a server as root.
fn as_root(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let mut start = None;
    for (line, text) in facts.lines().filter(|(_, text)| !facts.kind.is_comment(text)) {
        let Some((key, value)) = text.split_once('=') else { continue };
        match key.trim() {
            "User" | "DynamicUser" => return,
            // A unit of the user manager runs as that user.
            "WantedBy" if value.contains("default.target") => return,
            "ExecStart" if start.is_none() => start = Some((line, value)),
            _ => {}
        }
    }
    let is_user_unit = facts.file.contains("/user/") || facts.code.contains("%h");
    if let Some((line, value)) = start.filter(|_| !is_user_unit) {
        let lower = value.to_ascii_lowercase();
        let is_server = SERVERS.iter().any(|server| lower.contains(server));
        // The container has its own user.
        let is_container = lower.contains("docker ") || lower.contains("podman ");
        let has_section = facts.lines().any(|(_, text)| text.trim() == "[Unit]");
        if is_server && !is_container && has_section {
            let hit = Hit::new("user-unused", line, "without `User=`, the server runs as root");
            let hit = hit.at_most(Severity::Information);
            found.hit(hit.help("write `User=` and `SupplementaryGroups=render`"));
        }
    }
}
