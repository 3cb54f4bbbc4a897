//! The rule for pip in the Python of a distribution that refuses it.

use super::images;
use super::stages::{is_own, last_stages};
use crate::data::{ReleaseRow, data, matches_any};
use crate::python::is_pip;
use crate::shell::ShellCommand;
use crate::{Facts, Findings, Hit, Kind, Severity};

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    match facts.kind {
        Kind::Dockerfile if !has_other_python(facts) => refused(facts, found),
        Kind::Shell => on_host(facts, found),
        _ => {}
    }
}

/// Texts, in lower case, that show that a file uses another Python, or changes what pip may do.
const OTHER: [&str; 11] = [
    "alternatives",
    "break",
    "conda",
    "deadsnakes",
    "externally",
    "get-pip",
    "mamba",
    "pip.conf",
    "pipx",
    "pyenv",
    "uv ",
];

/// More such texts in a Dockerfile: a script can do it, too.
const OTHER_IN_IMAGE: [&str; 3] = ["venv", ".sh", "path="];

/// More such texts in a script, which may also run in a container.
const OTHER_IN_SCRIPT: [&str; 4] = ["activate", "container", "docker", "env "];

/// Returns whether a text in lower case uses another Python, or changes what pip may do.
fn is_other(lower: &str, more: &[&str]) -> bool {
    OTHER.iter().chain(more).any(|text| lower.contains(text))
}

fn has_other_python(facts: &Facts<'_>) -> bool {
    let lower = facts.code.to_ascii_lowercase();
    is_other(&lower, &OTHER_IN_IMAGE)
}

/// Options with which pip does not write to the distribution's folders.
const ELSEWHERE: [&str; 7] =
    ["--dry-run", "--prefix", "--python", "--root", "--target", "-t", "download"];

/// Returns whether a script in lower case names a release of a distribution, which may be an old one.
fn names_release(lower: &str) -> bool {
    let number = |row: &ReleaseRow| row.name.rsplit(' ').next().unwrap_or_default().to_owned();
    let is_named = |name: &str| name.len() > 2 && lower.contains(name);
    data()
        .releases
        .iter()
        .any(|row| is_named(&number(row)) || row.codename.as_deref().is_some_and(is_named))
}

/// Checks for pip in a script that changes a host with Debian or Ubuntu.
fn on_host(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let lower = facts.code.to_ascii_lowercase();
    let has_other = is_other(&lower, &OTHER_IN_SCRIPT);
    if !lower.contains("sudo apt") || has_other || lower.contains("venv") || names_release(&lower) {
        return;
    }
    let installs = |one: &ShellCommand| one.words.iter().any(|word| word.text == "install");
    let is_apt = |one: &ShellCommand| matches!(&*one.words[0].text, "apt" | "apt-get");
    let is_system = |one: &&ShellCommand| {
        let words = one.texts();
        let option = |word: &&str| ELSEWHERE.contains(&word.split('=').next().unwrap_or(word));
        matches!(words[0], "pip" | "pip3" | "python3")
            && is_pip(&words)
            && installs(one)
            && !words.iter().any(option)
    };
    let has_pip = |one: &ShellCommand| one.words.iter().any(|word| word.text == "python3-pip");
    let is_own = facts.commands.iter().any(|one| is_apt(one) && has_pip(one));
    if let Some(command) = facts.commands.iter().find(is_system).filter(|_| is_own) {
        let message = "pip refuses to change the Python of current releases of Debian and Ubuntu";
        let hit = Hit::new("pip-refused", command.words[0].line, message);
        found.hit(hit.at_most(Severity::Information));
    }
}

/// Checks for pip without `--break-system-packages` on distributions that refuse it.
fn refused(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let all = facts.instructions();
    let is_refused = |one: &&ShellCommand| {
        let base = facts.base(one.stage).map(|stage| images::parts(&stage.base));
        let is_managed = base.is_some_and(|base| {
            let name = format!("{}:{}", base.path, base.tag.unwrap_or_default());
            matches_any(&data().externally_managed, &name)
        });
        let words: Vec<&str> = one.texts();
        let is_system = matches!(words[0], "pip" | "pip3" | "python3") && is_pip(&words);
        let changes = words.iter().any(|word| matches!(*word, "install" | "uninstall"));
        let option = |word: &&str| ELSEWHERE.contains(&word.split('=').next().unwrap_or(word));
        is_managed && is_system && changes && !words.iter().any(option)
    };
    // AMD's images contain pip.
    let is_amd = |stage: usize| {
        facts.base(stage).is_some_and(|one| images::parts(&one.base).path.starts_with("rocm/"))
    };
    let installs_pip = |stage: usize| {
        is_amd(stage)
            || facts.commands.iter().any(|one| {
                let is_manager = matches!(one.words[0].text.as_str(), "apt" | "apt-get");
                let has_pip = one.words.iter().any(|word| word.text == "python3-pip");
                is_manager && has_pip && one.stage == stage
            })
    };
    let stages = last_stages(facts, all);
    let own = facts.commands.iter().filter(|one| is_own(all, one) && one.stage > 0);
    let hit = own.filter(is_refused).find(|one| {
        installs_pip(one.stage)
            || stages.contains(&one.stage) && stages.iter().any(|stage| installs_pip(*stage))
    });
    if let Some(command) = hit {
        let line = command.words[0].line;
        found.add("pip-refused", line, "pip refuses to change the distribution's Python");
    }
}
