//! Users that the base image already has.

use super::images::path_and_tag;
use super::stages::is_own;
use super::traps::instructions;
use crate::data::{data, matches_any};
use crate::shell::ShellCommand;
use crate::{Facts, Findings, Kind};

/// Words of commands that remove or change the user, or that allow two users with one UID.
const OTHER: [&str; 8] =
    ["userdel", "deluser", "groupdel", "usermod", "groupmod", "non-unique", "getent", "id -"];

/// Checks for a user or group with an ID that the base image's own user has.
pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let is_known =
        facts.kind == Kind::Dockerfile && !OTHER.iter().any(|one| facts.code.contains(one));
    if !is_known {
        return;
    }
    let all = instructions(facts.text);
    for command in facts.commands.iter().filter(|one| is_own(&all, one)) {
        let Some(stage) = facts.base(command.stage) else { continue };
        let own = super::stages::instruction_of(&all, command.words[0].line);
        let is_certain =
            own.is_some_and(|own| !own.text.contains("||") && !own.text.contains("if "));
        if is_certain
            && takes_1000(command)
            && matches_any(&data().uid_1000, &path_and_tag(&stage.base))
        {
            let line = command.words[0].line;
            let message =
                format!("`{}` already has a user and a group with the ID 1000", stage.base);
            found.add("user-exists", line, message);
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
    let allows_two = words.iter().any(|word| *word == "-o");
    !allows_two && (words.iter().any(is_joined) || words.windows(2).any(is_pair))
}
