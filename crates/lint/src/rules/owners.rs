//! Files that belong to root, and commands that change them as another user.

use super::commands::{join, plain};
use super::folder::is_root;
use super::stages::{by_instruction, commands_of, parts};
use crate::shell::{Operator, ShellCommand, UNKNOWN};
use crate::{Facts, Findings, Hit, Kind};

/// Checks for `chmod` or `chown`, as another user than root, of a file that COPY or ADD gave to root.
/// `USER` does not change whom copied files belong to.
pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if facts.kind != Kind::Dockerfile {
        return;
    }
    let all = facts.instructions();
    let commands = by_instruction(facts, all);
    let mut state = State::default();
    for own in all {
        let (name, rest) = parts(own);
        let words: Vec<&str> = rest.split_whitespace().collect();
        match name.as_str() {
            "FROM" => state = State::default(),
            "USER" => state.user = words.first().map(|user| (*user).to_owned()),
            "WORKDIR" => {
                let folder = words.first().copied().unwrap_or_default();
                state.folder = join(&state.folder, folder);
            }
            "COPY" | "ADD" => state.copy(&words),
            // sudo runs commands as root.
            "RUN" if !rest.contains("sudo") => {
                let changed = commands_of(&commands, own).iter().find_map(|one| state.change(one));
                let Some((line, path)) = changed else { continue };
                let user = state.user.as_deref().unwrap_or_default();
                let message = format!("`{user}` cannot change `{path}`, which belongs to root");
                found.hit(Hit::new("copy-not-owned", line, message));
            }
            _ => {}
        }
    }
}

/// What is known of a stage at an instruction.
#[derive(Default)]
struct State {
    user: Option<String>,
    /// The working directory; empty if it is not known.
    folder: String,
    /// The copied files, and the folders with copied files, that belong to root.
    of_root: Vec<String>,
}

impl State {
    fn copy(&mut self, words: &[&str]) {
        let files: Vec<&str> =
            words.iter().copied().filter(|word| !word.starts_with("--")).collect();
        let is_given = words.iter().any(|word| word.starts_with("--ch"));
        let Some((to, sources)) = files.split_last().filter(|_| !is_given) else { return };
        let to = to.trim_matches(['"', ']', ',']);
        let target = plain(&join(&self.folder, to));
        if !target.starts_with('/') || target.contains('$') {
            return;
        }
        match sources {
            [one] if to.ends_with('/') || to == "." => {
                let one = one.trim_matches(['"', '[', ',']).trim_end_matches('/');
                let file = one.rsplit('/').next().unwrap_or(one);
                // A folder's content is copied, but not the folder.
                let is_file = file.contains('.') && !file.trim_matches('.').is_empty();
                self.of_root.push(if is_file { join(&target, file) } else { target });
            }
            _ => self.of_root.push(target),
        }
    }

    /// Returns the line and the path of a copied file that a command of another user changes.
    fn change(&mut self, command: &ShellCommand) -> Option<(usize, String)> {
        let words = command.texts();
        let user = self.user.as_deref().unwrap_or("root");
        if is_root(user) {
            // Users and their files are made in many ways.
            if matches!(words[0], "chown" | "useradd" | "adduser") {
                self.of_root.clear();
            }
            return None;
        }
        if user.contains('$') {
            return None;
        }
        let is_change = matches!(words[0], "chmod" | "chown") && command.operator != Operator::Or;
        let files = words.iter().skip(1).filter(|word| !word.starts_with('-')).skip(1);
        for file in files.filter(|_| is_change) {
            let path = plain(&join(&self.folder, file));
            let is_copied = |root: &&String| {
                path == **root
                    || path.strip_prefix(root.as_str()).is_some_and(|rest| rest.starts_with('/'))
            };
            if !path.contains([UNKNOWN, '*', '$']) && self.of_root.iter().any(|one| is_copied(&one))
            {
                return Some((command.words[0].line, (*file).to_owned()));
            }
        }
        None
    }
}
