//! Users that the base image already has.

use super::images::path_and_tag;
use super::programs::is_conditional;
use super::stages::{by_instruction, commands_of, fixed_base};
use crate::data::{data, matches_any};
use crate::shell::ShellCommand;
use crate::{Facts, Findings, Kind};

/// Words of commands that remove or change the user, or that allow two users with one UID.
const CHANGES_USERS: [&str; 10] = [
    "/etc/passwd",
    "delgroup",
    "deluser",
    "getent",
    "groupdel",
    "groupmod",
    "id -",
    "non-unique",
    "userdel",
    "usermod",
];

/// Checks for a user or group with an ID that the base image's own user has.
pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let changes = CHANGES_USERS.iter().any(|one| facts.code.contains(one));
    if facts.kind != Kind::Dockerfile || changes {
        return;
    }
    let all = facts.instructions();
    let commands = by_instruction(facts, all);
    for own in all.iter().filter(|own| !is_conditional(&own.text)) {
        let base = fixed_base(facts, all, own.stage);
        if !matches_any(&data().uid_1000, &path_and_tag(base)) {
            continue;
        }
        if let Some(command) = commands_of(&commands, own).iter().find(|one| takes_1000(one)) {
            let message = format!("`{base}` already has a user and a group with the ID 1000");
            found.add("user-exists", command.words[0].line, message);
        }
    }
}

/// Returns whether a command creates a user or group with the ID 1000.
fn takes_1000(command: &ShellCommand) -> bool {
    let words: Vec<&str> = command.texts();
    let options: &[&str] = match words[0] {
        "useradd" | "adduser" => &["-u", "--uid"],
        "groupadd" | "addgroup" => &["-g", "--gid"],
        _ => return false,
    };
    let is_joined = |word: &&str| {
        options.iter().any(|option| {
            word.strip_prefix(option).map(|rest| rest.trim_start_matches('=')) == Some("1000")
        })
    };
    let is_pair = |two: &[&str]| options.contains(&two[0]) && two[1] == "1000";
    let allows_two = words.iter().any(|word| matches!(*word, "-o" | "-f" | "--force"));
    !allows_two && (words.iter().any(is_joined) || words.windows(2).any(is_pair))
}
