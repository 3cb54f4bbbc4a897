//! Python packages that need something of the system, and users of images and units.

use super::images::path_and_tag;
use super::stages::{fixed_base, last_stages, parts};
use crate::data::{NeedsRow, data, matches_any};
use crate::dockerfile::Instruction;
use crate::shell::Word;
use crate::{Context, Facts, Findings, Hit, Kind, Severity};

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    match facts.kind {
        Kind::Dockerfile => {
            packages(facts, found);
            unused_user(facts, context, found);
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
    let all = facts.instructions();
    if OTHER.iter().any(has) {
        return;
    }
    let is_small =
        |stage: usize| matches_any(&data().small, &path_and_tag(fixed_base(facts, all, stage)));
    let lacks = |row: &NeedsRow| {
        let is_listed =
            |stage: usize| matches_any(&row.images, &path_and_tag(fixed_base(facts, all, stage)));
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
const SWITCHES: [&str; 13] = [
    "chroot",
    "gosu",
    "runuser",
    "s6-",
    "setpriv",
    "setuidgid",
    "sshd",
    "su ",
    "su-exec",
    "sudo -",
    "sudo $",
    "supervisord",
    "start-stop-daemon",
];

/// Programs that do not switch to another user themselves.
const PLAIN: [&str; 8] =
    ["gunicorn", "jupyter", "llama-server", "node", "ollama", "python", "streamlit", "uvicorn"];

/// Checks for a user that the last stage creates and never switches to.
fn unused_user(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let all = facts.instructions();
    let stages = last_stages(facts, all);
    let own = || all.iter().filter(|one| stages.contains(&one.stage));
    let is_root = |one: &&Instruction| {
        let user = parts(one).1.split([' ', ':']).next().unwrap_or_default();
        matches!(user, "root" | "0")
    };
    if own().any(|one| parts(one).0 == "USER" && !is_root(&one)) {
        return;
    }
    let starts: Vec<&Instruction> =
        own().filter(|one| matches!(&*parts(one).0, "ENTRYPOINT" | "CMD")).collect();
    let is_plain = starts.iter().any(|one| PLAIN.iter().any(|name| one.text.contains(name)));
    let is_system =
        |word: &Word| matches!(word.text.as_str(), "-r" | "--system" | "-S" | "-rm" | "-mr");
    let creates = facts.commands.iter().find(|one| {
        stages.contains(&one.stage)
            && matches!(one.words[0].text.as_str(), "useradd" | "adduser")
            && (is_plain || !one.words.iter().any(is_system))
    });
    let Some(command) = creates else { return };
    let lower = facts.code.to_ascii_lowercase();
    let switches = |text: &str| SWITCHES.iter().any(|program| text.contains(program));
    // The one who starts an image without a command can switch.
    let is_shell = starts.iter().all(|one| {
        let last = one.text.trim_end_matches([']', '"', '\'', ' ']).rsplit(['/', '"', ' ']).next();
        matches!(last, Some("bash" | "sh" | "zsh" | "fish" | "tail" | "infinity"))
    });
    if switches(&lower)
        || starts.iter().any(|one| script_switches(facts, context, all, one, &switches))
    {
        return;
    }
    if let Some(line) = commented_user(facts, command.words[0].line) {
        let message = "`USER` is commented out, so the user is created, but never used";
        return found.add("user-unused", line, message);
    }
    if !is_shell {
        let message = "the image creates a user, but its program runs as root";
        found.add("user-unused", command.words[0].line, message);
    }
}

/// Returns the line of a `USER` that is a comment, after the line that makes the user.
fn commented_user(facts: &Facts<'_>, made: usize) -> Option<usize> {
    let mut later = facts.lines().skip(made);
    let is_user = |text: &str| {
        let rest = text.trim_start().strip_prefix('#')?.trim_start().strip_prefix("USER ")?;
        let mut words = rest.split_whitespace();
        let name = words.next()?;
        (!matches!(name, "root" | "0") && words.next().is_none()).then_some(())
    };
    later.find(|(_, text)| is_user(text).is_some()).map(|(line, _)| line)
}

/// Returns whether the script that an instruction starts may switch to another user. A script that
/// cannot be read may do so.
fn script_switches(
    facts: &Facts<'_>,
    context: Context<'_>,
    all: &[Instruction],
    start: &Instruction,
    switches: &dyn Fn(&str) -> bool,
) -> bool {
    let words = start.text.split([' ', '"', '\'', ',', '[', ']']);
    let script =
        words.into_iter().find(|word| word.ends_with(".sh") || word.contains("entrypoint"));
    let Some(script) = script else { return false };
    let name = script.rsplit('/').next().unwrap_or(script);
    let is_copied = |one: &&Instruction| parts(one).0 == "COPY";
    let sources = all.iter().filter(is_copied).flat_map(|one| one.text.split_whitespace());
    let is_same = |word: &&str| word.rsplit('/').next() == Some(name);
    let named: Vec<&str> = sources.filter(is_same).collect();
    let Some(files) = context.exists else { return true };
    let texts = named.iter().chain([&name]).filter_map(|path| files.text(facts.file, path));
    let texts: Vec<String> = texts.collect();
    texts.is_empty() || texts.iter().any(|text| switches(text))
}

/// Servers that need no rights of root.
const SERVERS: [&str; 12] = [
    "comfy",
    "gunicorn",
    "koboldcpp",
    "lemonade",
    "llama-server",
    "ollama",
    "sglang",
    "streamlit",
    "uvicorn",
    "vllm",
    " --host",
    " serve ",
];

/// Checks for a unit that starts a server as root.
fn as_root(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let mut start = None;
    for (line, text) in facts.lines().filter(|(_, text)| !facts.kind.is_comment(text)) {
        let Some((key, value)) = text.split_once('=') else { continue };
        match key.trim() {
            "User" | "DynamicUser" => return,
            // A unit of the user manager runs as that user.
            "WantedBy" if value.contains("default.target") => return,
            "Type" if value.trim() == "oneshot" => return,
            "ExecStart" if start.is_none() => start = Some((line, value)),
            _ => {}
        }
    }
    let is_user_unit = facts.file.contains("/user/") || facts.code.contains("%h");
    if let Some((line, value)) = start.filter(|_| !is_user_unit) {
        let lower = format!("{} ", value.to_ascii_lowercase());
        let is_server = SERVERS.iter().any(|server| lower.contains(server));
        // The container has its own user.
        let is_container = ["docker", "podman", "compose"].iter().any(|one| lower.contains(one));
        let has_section = facts.lines().any(|(_, text)| text.trim() == "[Unit]");
        if is_server && !is_container && has_section {
            let is_user = |text: &str| {
                let text = text.trim_start().trim_start_matches('#').trim_start();
                text.starts_with("User=") && text.len() > "User=".len()
            };
            let commented = facts.lines().find(|(_, text)| is_user(text)).map(|(at, _)| at);
            let message = if commented.is_some() {
                "`User=` is commented out, so the server runs as root"
            } else {
                "without `User=`, the server runs as root"
            };
            let hit = Hit::new("user-unused", commented.unwrap_or(line), message);
            let hit = hit.at_most(Severity::Information);
            found.hit(hit.help("write `User=` and `SupplementaryGroups=render`"));
        }
    }
}
