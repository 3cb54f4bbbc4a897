//! Packages that the release of the distribution does not have.

use super::images::{parts as parts_of, released};
use super::programs::{is_conditional, packages};
use super::stages::{by_instruction, commands_of, fixed_base, parts};
use super::traps::{Instruction, instructions};
use crate::data::{GoneRow, data, matches_any};
use crate::{Facts, Findings, Hit, Kind};

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

/// Checks the packages that a Dockerfile installs.
pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if facts.kind != Kind::Dockerfile {
        return;
    }
    let all = instructions(facts.text);
    let mut others =
        all.iter().filter(|one| matches!(parts(one).0.as_str(), "RUN" | "COPY" | "ADD"));
    let adds = |own: &Instruction| {
        let is_run = parts(own).0 == "RUN";
        OTHER_SOURCES.iter().any(|text| own.text.contains(text) && (is_run || *text != ".sh"))
    };
    if others.any(adds) {
        return;
    }
    let commands = by_instruction(facts, &all);
    for own in &all {
        let base = fixed_base(facts, &all, own.stage);
        let Some(release) = released(base).filter(|_| !is_conditional(&own.text)) else { continue };
        // An image of somebody else can have sources of its own.
        let has_others = parts_of(base).path.contains('/');
        for command in commands_of(&commands, own) {
            for package in packages(&command.texts()).unwrap_or_default() {
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
                found.hit(match &row.instead {
                    Some(instead) => hit.help(instead),
                    None => hit,
                });
            }
        }
    }
}
