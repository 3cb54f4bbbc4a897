//! Arguments of a build that look like a choice, but that nothing uses.

use std::collections::BTreeMap;

use super::stages::parts;
use crate::dockerfile::Instruction;
use crate::{Facts, Findings, Hit, Kind, Severity};

/// Arguments that the builder or its tools read themselves.
const OF_BUILDER: [&str; 6] =
    ["BUILDKIT_", "BUILDPLATFORM", "DOCKER_", "SOURCE_DATE_EPOCH", "TARGET", "_PROXY"];

/// Ends of the names of arguments that choose what is installed.
const CHOICES: [&str; 7] = ["_BRANCH", "_COMMIT", "_RELEASE", "_SHA", "_TAG", "_VER", "_VERSION"];

/// Texts of commands that may read the arguments from the environment.
const READERS: [&str; 8] = [".py", ".sh", "bash", "cargo", "cmake", "env", "make", "setup"];

/// Checks for arguments that are named only where they are declared.
pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let all = facts.instructions();
    if facts.kind != Kind::Dockerfile || all.iter().all(|one| parts(one).0 != "ARG") {
        return;
    }
    let names = counted(&facts.code);
    let is_alone = |name: &str| names.get(name) == Some(&1);
    for own in all.iter().filter(|one| parts(one).0 == "ARG") {
        for word in parts(own).1.split_whitespace() {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let is_builders =
                OF_BUILDER.iter().any(|part| name.to_ascii_uppercase().contains(part));
            if !is_alone(name) || is_builders {
                continue;
            }
            if own.stage == 0 {
                let message =
                    format!("nothing uses `{name}`: only `FROM` lines see an argument before them");
                found.add(RULE, own.line, message);
            } else if !value.is_empty() && chooses(name) && !may_be_read(all, own) {
                let hit = Hit::new(RULE, own.line, format!("nothing uses `{name}`"));
                found.hit(hit.at_most(Severity::Information));
            }
        }
    }
}

const RULE: &str = "argument-unused";

fn chooses(name: &str) -> bool {
    CHOICES.iter().any(|end| name.ends_with(end))
}

/// Returns whether a later command of the stage may read an argument from its environment.
fn may_be_read(all: &[Instruction], own: &Instruction) -> bool {
    let later = all.iter().filter(|one| one.stage == own.stage && one.line > own.line);
    let mut commands = later.filter(|one| parts(one).0 == "RUN");
    commands.any(|one| READERS.iter().any(|word| one.text.contains(word)))
}

/// Returns how often each name occurs in a text.
fn counted(code: &str) -> BTreeMap<&str, usize> {
    let mut names = BTreeMap::new();
    for name in code.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
        *names.entry(name).or_insert(0) += 1;
    }
    names
}
