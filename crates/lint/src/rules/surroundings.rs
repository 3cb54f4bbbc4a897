//! Rules for what a script or a `RUN` assumes about its shell and its system.

use super::stages::{last_stages, parts};
use crate::dockerfile::own_lines;
use crate::shell::{Scope, Setting, ShellCommand};
use crate::{Facts, Findings, Hit, Kind, Severity};

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if !matches!(facts.kind, Kind::Dockerfile | Kind::Shell) {
        return;
    }
    start_file(facts, found);
    activates(facts, found);
    if facts.kind == Kind::Shell {
        release(facts, found);
        cut_off(facts, found);
    } else {
        profile(facts, found);
    }
}

/// The rule about changes of a shell.
const LOST: &str = "shell-state-lost";

/// Texts of files whose shell is interactive or reads its start files.
const INTERACTIVE: [&str; 5] = ["bash -i", " -ic ", " -lic ", "--rcfile", "\"-i\""];

/// Distributions whose `~/.bashrc` returns at once in a shell that is not interactive.
const RETURNS: [&str; 2] = ["ubuntu", "rocm/"];

/// Checks for `source ~/.bashrc`.
fn start_file(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let lower = facts.code.to_ascii_lowercase();
    let has = |texts: &[&str]| texts.iter().any(|text| lower.contains(text));
    let is_image = facts.kind == Kind::Dockerfile;
    if has(&INTERACTIVE) || is_image && !has(&RETURNS) {
        return;
    }
    // Other commands can be part of a file that the script writes.
    let own: Vec<usize> = own_lines(facts.text)
        .filter(|(_, text)| {
            let start = text.trim_start().trim_start_matches("RUN ").trim_start_matches("&& ");
            ["source ", ". "].iter().any(|word| start.starts_with(word))
        })
        .map(|(line, _)| line)
        .collect();
    let is_loaded = |one: &&ShellCommand| {
        let words: Vec<&str> = one.texts();
        own.contains(&one.words[0].line)
            && matches!(words.as_slice(), ["source" | ".", file] if file.ends_with("/.bashrc"))
    };
    let Some(command) = facts.commands.iter().find(is_loaded) else { return };
    let line = command.words[0].line;
    if found.places().contains(&(line, LOST)) {
        return;
    }
    let message = if is_image {
        "`~/.bashrc` of Ubuntu returns at once in a shell that is not interactive"
    } else {
        "this changes only the script's own shell, and `~/.bashrc` usually returns at once in a script"
    };
    found.hit(Hit::new(LOST, line, message).at_most(Severity::Information));
}

/// Texts of files that make `conda activate` known.
const HOOKS: [&str; 8] = [
    "conda.sh",
    "shell.bash",
    "shell hook",
    "conda shell",
    "bashrc",
    "bash_profile",
    "--login",
    "-l\"",
];

/// Checks for `conda activate` in a shell that does not know it.
fn activates(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let has = |texts: &[&str]| texts.iter().any(|text| facts.code.contains(text));
    let is_program = facts.kind == Kind::Dockerfile || facts.text.starts_with("#!");
    let is_login = facts.text.lines().next().is_some_and(|first| {
        first.starts_with("#!") && first.split(' ').any(|word| word.starts_with('-'))
    });
    if !is_program || is_login || has(&HOOKS) || has(&INTERACTIVE) || has(&["bash -l", "-lc"]) {
        return;
    }
    let activates = |one: &&ShellCommand| {
        let words: Vec<&str> = one.texts();
        matches!(words.as_slice(), ["conda", "activate", ..])
    };
    let loads = facts.commands.iter().any(|one| matches!(&*one.words[0].text, "source" | "."));
    if let Some(command) = facts.commands.iter().find(activates).filter(|_| !loads) {
        let message = "`conda activate` fails: this shell has not loaded conda's functions";
        let hit = Hit::new(LOST, command.words[0].line, message);
        found.hit(hit.help("write `source \"$(conda info --base)/etc/profile.d/conda.sh\"` before it, or `conda run -n NAME COMMAND`"));
    }
}

/// Names of releases of Ubuntu in AMD's repositories.
const RELEASES: [&str; 4] = ["bionic", "focal", "jammy", "noble"];

/// Texts of scripts that ask for the release of the system.
const ASKS: [&str; 6] =
    ["codename", "hostnamectl", "lsb_release", "os-release", "version_id", "/etc/issue"];

/// Checks for packages for one release of Ubuntu that a script for a machine installs on any system.
fn release(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let lower = facts.code.to_ascii_lowercase();
    let has = |texts: &[&str]| texts.iter().any(|text| lower.contains(text));
    let is_for_machine =
        has(&["sudo ", "euid", "id -u", "systemctl"]) && !facts.file.contains("docker");
    let is_said = facts.lines().any(|(_, text)| says_release(text)) || says_release(facts.file);
    if has(&ASKS) || !is_for_machine || is_said {
        return;
    }
    for (line, text) in facts.lines().filter(|(_, text)| !facts.kind.is_comment(text)) {
        let own = text.to_ascii_lowercase();
        let mut words = own.split(|c: char| !c.is_ascii_alphanumeric());
        let name = words.find(|word| RELEASES.contains(word));
        // A message names commands; `echo` with a pipe writes a file.
        let is_message = ["echo", "print"].iter().any(|word| own.contains(word))
            && !own.contains(['|', '>'])
            && !own.trim_end().ends_with('\\');
        let is_source = own.contains("repo.radeon.com/") && !is_message;
        let Some(name) = name.filter(|_| is_source) else { continue };
        if found.places().contains(&(line, "other-distribution")) {
            return;
        }
        let message = format!(
            "packages for Ubuntu's release `{name}` are installed, whatever the release of the system is"
        );
        let hit = Hit::new("other-distribution", line, message).at_most(Severity::Information);
        return found.hit(hit.help("compare `VERSION_CODENAME` of /etc/os-release before"));
    }
}

/// Returns whether a comment, a message or a name says for which release of Ubuntu the script is.
fn says_release(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let is_said = ["#", "echo", "print", "log", "info"].iter().any(|word| lower.contains(word))
        || !text.contains(' ');
    let names = RELEASES.iter().any(|name| lower.contains(name));
    let has_number = lower.split("ubuntu").skip(1).any(|rest| {
        rest.trim_start_matches([' ', '-', '_', ':']).starts_with(|c: char| c.is_ascii_digit())
    });
    is_said && !lower.contains("radeon.com") && (has_number || names)
}

/// Files that only a login or an interactive shell reads.
const PROFILES: [&str; 5] =
    ["/.bashrc", "/.profile", "/etc/bash.bashrc", "/etc/profile", "/.bash_profile"];

/// Words of start commands that may read such a file.
const SHELLS: [&str; 8] = ["bash", "sh", "zsh", "fish", "su", "sshd", "tmux", "supervisord"];

/// Checks for variables that a `RUN` writes to a file that the program of the image does not read.
fn profile(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let all = facts.instructions();
    let stages = last_stages(facts, all);
    let own = || all.iter().filter(|one| stages.contains(&one.stage));
    let mut starts = own().filter(|one| matches!(&*parts(one).0, "CMD" | "ENTRYPOINT")).peekable();
    if starts.peek().is_none() || starts.any(|one| may_read(&one.text)) {
        return;
    }
    for instruction in own().filter(|one| parts(one).0 == "RUN") {
        let lines = facts.lines().skip(instruction.line.saturating_sub(1));
        for (line, text) in lines.take((instruction.last + 1).saturating_sub(instruction.line)) {
            if let Some(file) = written_profile(facts, text) {
                let shown = file
                    .strip_prefix("/.")
                    .map_or_else(|| file.to_owned(), |rest| format!("~/.{rest}"));
                let message =
                    format!("the program of the image does not read `{shown}`, only a shell does");
                let hit = Hit::new("variable-without-effect", line, message);
                return found.hit(hit.at_most(Severity::Information).help("write `ENV`"));
            }
        }
    }
}

/// Returns whether the command that starts a container may read such a file.
fn may_read(start: &str) -> bool {
    let text = start.replace(['[', ']', '"', ','], " ");
    text.split_whitespace().any(|word| {
        let name = word.rsplit('/').next().unwrap_or(word);
        let is_script = name.contains('.') && !name.contains(".py") || name.contains("entry");
        SHELLS.contains(&name) || is_script
    })
}

/// Returns the file to which a line writes a variable that the image does not have otherwise.
fn written_profile(facts: &Facts<'_>, text: &str) -> Option<&'static str> {
    let (before, rest) = text.split_once("export ")?;
    let name = rest.split_once('=')?.0.trim_start_matches(['"', '\'']);
    let is_set = |one: &Setting| one.name == name && one.scope == Scope::Image;
    let targets = rest.split('>').skip(1);
    let mut targets = targets.flat_map(|one| one.split(['"', '\'', ' ', ';']));
    let file = targets.find_map(|word| PROFILES.into_iter().find(|file| word.contains(file)));
    file.filter(|_| before.contains("echo") && !facts.settings.iter().any(is_set))
}

/// Checks for a comment between the lines of a command: the rest is another command.
fn cut_off(facts: &Facts<'_>, found: &mut Findings<'_>) {
    // In an array, a comment ends nothing.
    let mut is_array = false;
    let lines = own_lines(facts.text).filter(|(_, text)| {
        let own = text.trim();
        is_array = own.ends_with("=(")
            || own.contains("=(") && !own.contains(')')
            || is_array && !own.starts_with(')') && !own.ends_with(')');
        !is_array
    });
    let lines: Vec<(usize, &str)> = lines.collect();
    for three in lines.windows(3) {
        let [(_, first), (line, comment), (next_line, next)] = [three[0], three[1], three[2]];
        let is_continued = first.trim_end().ends_with('\\') && !first.trim_start().starts_with('#');
        let is_comment = comment.trim_start().starts_with('#');
        let rest = next.trim_start();
        let is_option = rest.starts_with('-') && rest.len() > 2 && !rest.starts_with("- ");
        let is_command = facts
            .commands
            .iter()
            .any(|one| one.words[0].line == next_line && one.words[0].text.starts_with('-'));
        let is_next = next_line == line + 1;
        if is_continued && is_comment && is_next && is_option && is_command {
            let message =
                "the comment ends the command, and the options after it are run as a command";
            let hit = Hit::new("operator-missing", line, message);
            found.hit(hit.help("move the comment before the command"));
        }
    }
}
