//! Reads containers that a file describes without starting them: options in a variable of a
//! script, and `docker run` or `podman run` in the comments of a Dockerfile.

use crate::containers;
use crate::facts::{Container, Facts};
use crate::shell::{self, Scope, Setting, ShellCommand, Word};

/// Adds the containers whose options a script keeps in a variable: `OPTIONS="--device /dev/kfd …"`.
pub(crate) fn held(facts: &mut Facts<'_>) {
    let is_docker = facts.code.contains("docker run") || facts.code.contains("docker create");
    let programs = ["toolbox", "podman", "distrobox"];
    let is_podman = !is_docker && programs.iter().any(|program| facts.code.contains(program));
    let mut found: Vec<Held> = Vec::new();
    for setting in &facts.settings {
        let value = setting.value.as_str();
        let is_shell = matches!(setting.scope, Scope::Shell | Scope::Exported);
        let is_gpu = value.contains("/dev/kfd") || value.contains("/dev/dri");
        if !is_shell || !is_gpu || !value.trim_start().starts_with("--") {
            continue;
        }
        // `OPTIONS="$OPTIONS …"` extends the earlier value, whose options keep their line numbers.
        let earlier = found
            .iter()
            .position(|held| held.name == setting.name && value.starts_with(held.value.as_str()));
        let mut held = match earlier {
            Some(index) => found.swap_remove(index),
            None => Held { name: setting.name.clone(), ..Held::default() },
        };
        let added = value[held.value.len()..].to_owned();
        let word = Word { text: added, line: setting.line };
        held.options.extend(containers::options(&[word]));
        held.value = value.to_owned();
        found.push(held);
    }
    for mut held in found {
        if is_podman {
            let line = held.options.first().map_or(1, |option| option.line);
            held.options.push(containers::named("--podman", None, line));
        }
        // A command with the variable has the same options; what is wrong with them is in the variable.
        let has =
            |one: &Container, option: &Word| one.options.iter().any(|own| own.text == option.text);
        let is_user = |one: &&mut Container| held.options.iter().all(|option| has(one, option));
        match facts.containers.iter_mut().take(MOST).find(is_user) {
            Some(user) => {
                for option in &mut user.options {
                    let own = held.options.iter().find(|one| one.text == option.text);
                    option.line = own.map_or(option.line, |one| one.line);
                }
            }
            None => facts.containers.push(Container::new(None, held.options)),
        }
    }
}

/// Adds the containers whose options a script keeps in an array:
/// `ARGS=(--device /dev/kfd …)`, `ARGS+=(…)`. Each line of an array is read as a command.
pub(crate) fn arrays(facts: &mut Facts<'_>) {
    let mut found: Vec<Held> = Vec::new();
    let mut name: Option<String> = None;
    let is_option = |command: &ShellCommand| command.words[0].text.starts_with('-');
    let is_start = |one: &&Setting| one.value.is_empty() && one.scope == Scope::Shell;
    let mut starts: Vec<&Setting> = facts.settings.iter().filter(is_start).collect();
    starts.sort_by_key(|one| one.line);
    for (at, command) in facts.commands.iter().enumerate() {
        if !is_option(command) {
            name = None;
            continue;
        }
        let before = at.checked_sub(1).and_then(|at| facts.commands.get(at));
        let added = before.and_then(|one| one.words[0].text.strip_suffix("+="));
        let line = command.words[0].line;
        let started = starts[..starts.partition_point(|one| one.line <= line)].last();
        let new = added.map(str::to_owned).or_else(|| started.map(|one| one.name.clone()));
        let Some(own) = name.clone().or(new) else { continue };
        name = Some(own.clone());
        let options = containers::options(&command.words);
        match found.iter_mut().find(|held| held.name == own) {
            Some(held) => held.options.extend(options),
            None => found.push(Held { name: own, value: String::new(), options }),
        }
    }
    let is_gpu = |held: &Held| {
        let devices = ["--device=/dev/kfd", "--device=/dev/dri"];
        held.options.iter().any(|one| devices.iter().any(|gpu| one.text.starts_with(gpu)))
    };
    // A command that starts a container with the array has its options already.
    let is_used = |held: &Held| {
        let has_all = |one: &Container| held.options.iter().all(|own| one.options.contains(own));
        facts.containers.iter().any(has_all)
    };
    let containers: Vec<Held> =
        found.into_iter().filter(|held| is_gpu(held) && !is_used(held)).collect();
    let containers = containers.into_iter();
    let containers = containers.map(|held| Container::new(None, held.options));
    facts.containers.extend(containers);
}

/// Adds the containers that a script starts with a command in a variable:
/// `COMMAND="docker run …"`, followed by `$COMMAND`.
pub(crate) fn commands(facts: &mut Facts<'_>) {
    let is_run = |setting: &&Setting| {
        let is_shell = matches!(setting.scope, Scope::Shell | Scope::Exported);
        is_shell && starts_with_engine(setting.value.trim_start().trim_start_matches("sudo "))
    };
    let values = facts.settings.iter().filter(is_run);
    let values: Vec<(String, usize)> = values.map(|one| (one.value.clone(), one.line)).collect();
    for (value, line) in values {
        for mut command in shell::commands("x.sh", &value) {
            for word in &mut command.words {
                word.line = line;
            }
            containers::read(&command, facts);
        }
    }
}

/// The number of containers that are compared with the options in a variable.
const MOST: usize = 50;

/// A variable with a container's options.
#[derive(Default)]
struct Held {
    name: String,
    value: String,
    options: Vec<Word>,
}

/// Adds the containers that the comments of a Dockerfile tell users to start.
pub(crate) fn comments(text: &str, facts: &mut Facts<'_>) {
    let is_run = |line: &str| ["docker run ", "podman run "].iter().any(|run| line.contains(run));
    let mut script = String::new();
    let mut continues = false;
    for line in text.lines() {
        let comment = line.trim_start().strip_prefix('#').map(str::trim);
        let comment = comment.filter(|comment| {
            let command = comment.trim_start_matches(['$', ' ']);
            let command = command.strip_prefix("sudo ").unwrap_or(command);
            continues || is_run(&format!("{command} ")) && starts_with_engine(command)
        });
        script.push_str(comment.unwrap_or_default().trim_start_matches(['$', ' ']));
        script.push('\n');
        continues = comment.is_some_and(|comment| comment.ends_with('\\'));
    }
    if !is_run(&script) {
        return;
    }
    // Only the options count: users choose the image and the variables.
    let (images, settings) = (facts.images.len(), facts.settings.len());
    let before = facts.containers.len();
    for command in shell::commands("x.sh", &script) {
        containers::read(&command, facts);
    }
    for container in facts.containers.iter_mut().skip(before) {
        container.options.push(containers::named(COMMENT, None, 1));
    }
    facts.images.truncate(images);
    facts.settings.truncate(settings);
}

/// Marks a container that only a comment names.
const COMMENT: &str = "--comment";

fn starts_with_engine(command: &str) -> bool {
    ["docker run ", "podman run "].iter().any(|run| format!("{command} ").starts_with(run))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_in_variables_and_comments() {
        let script = "OPTIONS=\"--device /dev/kfd --ipc=host\"\ntoolbox create a -- $OPTIONS\n";
        let facts = Facts::read("a.sh", script);
        let all = |read: &Facts<'_>| -> Vec<String> {
            let options = read.containers.iter().flat_map(|one| one.options.iter());
            options.map(|one| format!("{}:{}", one.line, one.text)).collect()
        };
        let expected = ["1:--device=/dev/kfd", "1:--ipc=host", "1:--podman"];
        assert!(expected.iter().all(|one| all(&facts).contains(&(*one).to_owned())));
        let longer = "O='--device /dev/kfd --ipc=host'\nO=\"$O --ulimit memlock=-1\"\n";
        let kept = ["1:--device=/dev/kfd", "1:--ipc=host", "2:--ulimit=memlock=-1"];
        assert_eq!(all(&Facts::read("a.sh", longer)), kept);
        let text =
            "# A tool.\n# docker run --device /dev/kfd \\\n#   --ipc=host a/b\nFROM scratch\n";
        let found = Facts::read("Dockerfile", text);
        assert_eq!(all(&found), ["2:--device=/dev/kfd", "3:--ipc=host", "1:--comment"]);
        assert_eq!(found.images.len(), 1);
    }
}
