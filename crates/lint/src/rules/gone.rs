//! Packages that the release of the distribution does not have.

use super::images::{parts as parts_of, released};
use super::programs::{is_conditional, packages};
use super::stages::{by_instruction, commands_of, fixed_base, parts};
use crate::data::{GoneRow, ReleaseRow, data, matches_any};
use crate::dockerfile::{Instruction, instructions};
use crate::shell::ShellCommand;
use crate::{Context, Facts, Findings, Hit, Kind, Severity};

/// Texts that show that a file adds package sources of its own.
const OTHER_SOURCES: [&str; 10] = [
    ".deb",
    ".sh",
    "PPA",
    "add-apt-repository",
    "extrepo",
    "ppa:",
    "setup_",
    "snapshot.debian",
    "snapshot.ubuntu",
    "sources.list",
];

/// Checks the packages that a Dockerfile installs, and those of a script for its image.
pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    match facts.kind {
        Kind::Dockerfile => in_build(facts, found),
        Kind::Shell => in_script(facts, context, found),
        _ => {}
    }
}

/// Checks the packages that a Dockerfile installs.
fn in_build(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let all = facts.instructions();
    let mut others =
        all.iter().filter(|one| matches!(parts(one).0.as_str(), "RUN" | "COPY" | "ADD"));
    let adds = |own: &Instruction| {
        let may_run = parts(own).0 == "RUN" && starts_script(&own.text);
        OTHER_SOURCES.iter().any(|text| own.text.contains(text) && (may_run || *text != ".sh"))
    };
    if others.any(adds) {
        return;
    }
    let commands = by_instruction(facts, all);
    for own in all {
        let fixed = fixed_base(facts, all, own.stage);
        // The caller can choose another base than the default.
        let is_default = fixed.is_empty();
        let default = || facts.base(own.stage).map_or("", |stage| stage.base.as_str());
        let base = if is_default { default() } else { fixed };
        let Some(release) = released(base).filter(|_| !is_conditional(&own.text)) else { continue };
        // An image of somebody else can have sources of its own.
        let has_others = parts_of(base).path.contains('/');
        for command in commands_of(&commands, own) {
            for hit in missing(command, release, has_others) {
                found.hit(if is_default { hit.at_most(Severity::Warning) } else { hit });
            }
        }
    }
}

/// Programs that do not start the scripts that they name.
const QUIET: [&str; 7] = ["chmod", "chown", "cp", "dos2unix", "ln", "mv", "rm"];

/// Returns whether a `RUN` may start a script: it names one, and not only to change its mode or place.
fn starts_script(run: &str) -> bool {
    let text = run.strip_prefix("RUN").unwrap_or(run);
    let parts = text.split(['&', ';', '|']).filter(|part| part.contains(".sh"));
    parts.into_iter().any(|part| {
        let first = part.split_whitespace().next().unwrap_or_default();
        !QUIET.contains(&first)
    })
}

/// Returns the violations of a command that installs packages.
fn missing(command: &ShellCommand, release: &ReleaseRow, has_others: bool) -> Vec<Hit<'static>> {
    let texts = command.texts();
    let mut hits = Vec::new();
    for package in packages(&texts).unwrap_or_default() {
        let is_about = |row: &&GoneRow| {
            row.releases.contains(&release.name)
                && matches_any(&row.packages, package)
                && !(row.is_elsewhere && has_others)
        };
        let Some(row) = data().gone.iter().find(is_about) else { continue };
        let at = command.words.iter().find(|word| word.text.starts_with(package));
        let line = at.map_or(command.words[0].line, |word| word.line);
        let message = format!("{} has no package `{package}`", release.name);
        let hit = Hit::new("package-gone", line, message);
        hits.push(match &row.instead {
            Some(instead) => hit.help(instead),
            None => hit,
        });
    }
    hits
}

/// Checks the packages of a script that runs in the image of the Dockerfile beside it.
fn in_script(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let lower = facts.code.to_ascii_lowercase();
    let is_open = ["sudo", "os-release", "lsb_release", "codename"];
    let Some(files) = context.exists else { return };
    if is_open.iter().any(|text| lower.contains(text))
        || OTHER_SOURCES[2..].iter().any(|text| facts.code.contains(text))
    {
        return;
    }
    let Some(text) = files.text(facts.file, "Dockerfile") else { return };
    let name = facts.file.rsplit('/').next().unwrap_or(facts.file);
    let names_it = |other: &String| {
        other.lines().any(|line| line.contains(name) && !line.trim_start().starts_with('#'))
    };
    if !names_it(&text) && !files.compose_files(facts.file).iter().any(names_it) {
        return;
    }
    let image = Facts::read("Dockerfile", &text);
    let all = instructions(&text);
    // A file with several bases does not say which one the script meets.
    let names = || (1..=image.stages.len()).map(|stage| fixed_base(&image, &all, stage));
    let releases: Vec<Option<&ReleaseRow>> = names().map(released).collect();
    let Some(Some(release)) = releases.first().copied() else { return };
    if releases.iter().any(|one| one.is_none_or(|one| one.name != release.name)) {
        return;
    }
    let has_others = names().any(|base| parts_of(base).path.contains('/'));
    // A condition or `||` can choose between packages.
    let lines: Vec<&str> = facts.text.lines().collect();
    let is_plain = |one: &&ShellCommand| {
        one.keywords.is_empty()
            && !lines.get(one.words[0].line - 1).is_some_and(|line| line.contains("||"))
    };
    for command in facts.commands.iter().filter(|one| !one.is_message()).filter(is_plain) {
        for hit in missing(command, release, has_others) {
            found.hit(hit.at_most(Severity::Warning));
        }
    }
}
