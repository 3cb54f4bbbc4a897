//! Users that the image does not have, users without a home folder, and files for shells that are in
//! no home folder.

use super::folder::is_root;
use super::programs;
use crate::image::effects::base_name;
use crate::image::files::{Presence, parent};
use crate::image::{State, Step};
use crate::shell::{ShellCommand, UNKNOWN};
use crate::{Facts, Findings, Hit};

/// Checks one step of a build.
pub(super) fn at(facts: &Facts<'_>, state: &State, step: &Step<'_>, found: &mut Findings<'_>) {
    match step {
        Step::User { own, name } => unknown(facts, state, name, own.line, found),
        Step::Copy { own, copy, .. } => {
            let owner = copy.owner.as_deref().unwrap_or_default();
            let name = owner.split(':').next().unwrap_or_default();
            unknown(facts, state, name, own.line, found);
        }
        Step::Command { command, is_sure: true, .. } => startup(facts, state, command, found),
        Step::End { stage } if *stage == facts.stages.len() => without_home(facts, state, found),
        _ => {}
    }
}

/// Checks for a user that nothing makes. A package can make one.
fn unknown(facts: &Facts<'_>, state: &State, name: &str, line: usize, found: &mut Findings<'_>) {
    let is_package = |one: &ShellCommand| {
        let words = one.texts();
        let packages = programs::packages(&words).unwrap_or_default();
        packages.iter().any(|package| package.contains(name) || package.contains(UNKNOWN))
    };
    let lacks = state.users.lacks(name) && !facts.commands.iter().any(is_package);
    if lacks && !facts.code.contains("/etc/passwd") {
        found.add(
            "user-missing",
            line,
            format!("nothing makes the user `{name}` before this line"),
        );
    }
}

/// Files that shells read from the home folder.
const STARTUP: [&str; 6] =
    [".bash_aliases", ".bash_profile", ".bashrc", ".profile", ".zprofile", ".zshrc"];

/// Checks for a file for shells in a folder in which no shell looks for it.
fn startup(facts: &Facts<'_>, state: &State, command: &ShellCommand, found: &mut Findings<'_>) {
    let words = command.texts();
    let output = if words[0] == "tee" { words.last().copied() } else { Some(&*command.output) };
    let Some(output) = output.filter(|path| STARTUP.contains(&base_name(path))) else { return };
    let path = state.path(command, output);
    let Some(folder) = parent(&path) else { return };
    let is_home = matches!(folder, "/root" | "/etc/skel" | "/etc")
        || folder.starts_with("/home/")
        || folder == state.home()
        || facts.code.matches(folder).count() > 1 && folder != "/"
        || facts.code.contains("HOME")
        || facts.code.contains("ZDOTDIR");
    if !is_home && !path.contains(UNKNOWN) {
        let message = format!("no shell reads `{path}`: it is not in a home folder");
        found.add("startup-file-unread", command.words[0].line, message);
    }
}

/// Packages that write to the home folder unless a variable names another one.
const WRITERS: [&str; 12] = [
    "accelerate",
    "diffusers",
    "faster-whisper",
    "huggingface-hub",
    "kokoro",
    "openai-whisper",
    "sentence-transformers",
    "sglang",
    "transformers",
    "tts",
    "vllm",
    "whisperx",
];

/// Variables that name another folder.
const OTHERS: [&str; 8] = [
    "HF_HOME",
    "HF_HUB_CACHE",
    "HOME",
    "HUGGINGFACE_HUB_CACHE",
    "SENTENCE_TRANSFORMERS_HOME",
    "TRANSFORMERS_CACHE",
    "XDG_CACHE_HOME",
    "HF_HUB_OFFLINE",
];

/// Checks for the user of an image whose home folder does not exist, if its program needs one.
fn without_home(facts: &Facts<'_>, state: &State, found: &mut Findings<'_>) {
    let Some(user) = state.users.get(&state.user).filter(|_| !is_root(&state.user)) else { return };
    let is_made = user.has_home != Some(false) || state.files.find(&user.home) == Presence::Present;
    let writer = facts.packages.iter().find(|one| WRITERS.contains(&one.name.as_str()));
    let Some(writer) = writer.filter(|_| !is_made && state.is_plain) else { return };
    if OTHERS.iter().any(|name| state.variables.get(name).is_some()) {
        return;
    }
    let is_command = |one: &&ShellCommand| {
        matches!(base_name(&one.words[0].text), "useradd" | "adduser")
            && one.words.iter().any(|word| word.text == state.user)
    };
    let Some(command) = facts.commands.iter().find(is_command) else { return };
    let message = format!(
        "`{}` has no home folder, but `{}` writes its cache there",
        state.user, writer.name
    );
    found.hit(Hit::new("home-missing", command.words[0].line, message));
}
