//! apt's package lists: commands that install packages without them, or with old ones.

use super::images::path_and_tag;
use super::stages::{by_instruction, commands_of, fixed_base, parent, parts};
use crate::data::{data, matches_any};
use crate::dockerfile::Instruction;
use crate::shell::{ShellCommand, UNKNOWN};
use crate::{Facts, Findings, Hit, Kind, Severity};

/// The package lists in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lists {
    /// Nothing is known about them.
    Unknown,
    /// They are those of the base image, if it has any.
    OfBase,
    /// There are none.
    Missing,
    /// An earlier instruction fetched them.
    Old,
    /// This instruction fetched them.
    New,
}

/// Checks for `apt-get install` without package lists.
pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    match facts.kind {
        Kind::Dockerfile => {}
        Kind::Shell => return in_script(facts, found),
        _ => return,
    }
    let all = facts.instructions();
    let commands = by_instruction(facts, all);
    let mut ends: Vec<Lists> = Vec::new();
    for stage in 1..=facts.stages.len() {
        let start = match parent(facts, all, stage) {
            Some(earlier) => ends.get(earlier - 1).copied().unwrap_or(Lists::Unknown),
            None if is_without_lists(facts, all, stage) => Lists::Missing,
            None if is_published(fixed_base(facts, all, stage)) => Lists::OfBase,
            None => Lists::Unknown,
        };
        let mut own = Stage { lists: start, is_reported: false };
        for instruction in all.iter().filter(|one| one.stage == stage && parts(one).0 == "RUN") {
            own.read(commands_of(&commands, instruction), instruction, found);
        }
        ends.push(own.lists);
    }
}

/// Checks for a script that root runs, as in a build, and that fetches no package lists.
fn in_script(facts: &Facts<'_>, found: &mut Findings<'_>) {
    // On a host, the lists are usually there. Another script can fetch them.
    if ["sudo", "update", "source "].iter().any(|text| facts.code.contains(text)) {
        return;
    }
    let installs = |one: &&ShellCommand| {
        let words = one.texts();
        let mut named = words.iter().skip_while(|word| **word != "install").skip(1);
        let is_package = |word: &str| {
            !word.starts_with('-') && !word.contains(['/', UNKNOWN]) && !word.ends_with(".deb")
        };
        let is_apt = matches!(words[0], "apt" | "apt-get");
        is_apt && one.keywords.is_empty() && named.any(|word| is_package(word))
    };
    if let Some(command) = facts.commands.iter().find(installs) {
        let message = "the script fetches no package lists, so apt may find no package";
        let hit = Hit::new("package-lists-missing", command.words[0].line, message);
        found.hit(hit.at_most(Severity::Information));
    }
}

/// Returns whether a stage starts from an image without lists.
fn is_without_lists(facts: &Facts<'_>, all: &[Instruction], stage: usize) -> bool {
    matches_any(&data().without_lists, &path_and_tag(fixed_base(facts, all, stage)))
}

/// Returns whether somebody else built an image, at a time that the file does not choose.
fn is_published(image: &str) -> bool {
    image.contains('/') && !image.contains(UNKNOWN) && !image.starts_with("local")
}

/// A stage, up to the instruction that was read last.
struct Stage {
    lists: Lists,
    is_reported: bool,
}

impl Stage {
    fn read(&mut self, commands: &[&ShellCommand], own: &Instruction, found: &mut Findings<'_>) {
        if self.lists == Lists::New {
            self.lists = Lists::Old;
        }
        let mut script = own.text.contains("<<") || own.text.contains("--mount");
        for command in commands {
            let words = command.texts();
            let program = words[0].rsplit('/').next().unwrap_or_default();
            let has = |wanted: &str| words.contains(&wanted);
            match program {
                "apt" | "apt-get" | "aptitude" if has("update") || has("--update") || has("-U") => {
                    self.lists = Lists::New;
                }
                "apt" | "apt-get" | "aptitude" if has("install") => {
                    self.installed(command, script, found);
                }
                "rm" if words.iter().any(|word| word.starts_with("/var/lib/apt")) => {
                    self.lists = Lists::Missing;
                }
                "add-apt-repository" | "apt-add-repository" => self.lists = Lists::New,
                "bash" | "sh" | "." | "source" | "eval" | "find" => script = true,
                _ => script |= words[0].contains(['/', UNKNOWN]) || program.ends_with(".sh"),
            }
        }
        if script && matches!(self.lists, Lists::Missing | Lists::OfBase) {
            self.lists = Lists::Unknown;
        }
    }

    /// Checks a command that installs packages.
    fn installed(&mut self, command: &ShellCommand, has_script: bool, found: &mut Findings<'_>) {
        let words = command.texts();
        let packages = words.iter().skip_while(|word| **word != "install").skip(1);
        let named: Vec<&&str> = packages.filter(|word| !word.starts_with('-')).collect();
        let is_local =
            named.iter().all(|word| word.contains(['/', UNKNOWN]) || word.ends_with(".deb"));
        // Without lists, an upgrade of installed packages only does nothing.
        let is_upgrade = words.contains(&"--only-upgrade");
        if is_local || is_upgrade || has_script || self.is_reported {
            return;
        }
        let line = command.words[0].line;
        match self.lists {
            Lists::Missing => {
                let message = "there are no package lists here, so apt finds no package";
                found.add("package-lists-missing", line, message);
            }
            Lists::Old => {
                let message = "the package lists are those of an earlier layer";
                found.add("package-lists-stale", line, message);
            }
            Lists::OfBase => {
                let message = "the package lists are those of the base image, if it has any";
                let hit = Hit::new("package-lists-missing", line, message);
                found.hit(hit.at_most(Severity::Warning));
            }
            Lists::Unknown | Lists::New => return,
        }
        self.is_reported = true;
    }
}
