//! Programs that a stage or a health check calls although the image lacks them, and packages that
//! the distribution does not have.

use std::collections::BTreeSet;

use super::images::{parts as parts_of, path_and_tag, released};
use super::stages::{instruction_of, last_stages, parent, parts};
use super::traps::{Instruction, instructions};
use crate::data::{GoneRow, data, matches, matches_any};
use crate::facts::{Container, Kind};
use crate::python::is_pip;
use crate::shell::{ShellCommand, UNKNOWN};
use crate::{Facts, Findings, Hit};

/// Programs that are certainly missing. An empty set means that nothing is known.
type Lacks = BTreeSet<String>;

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if facts.kind != Kind::Dockerfile {
        return;
    }
    let all = instructions(facts.text);
    let mut ends: Vec<Lacks> = Vec::new();
    for stage in 1..=facts.stages.len() {
        let base = facts.base(stage).map_or("", |stage| &stage.base);
        let lacks = match parent(facts, &all, stage) {
            Some(earlier) => ends.get(earlier - 1).cloned().unwrap_or_default(),
            None => lacks(base),
        };
        let mut own = Stage { facts, base, lacks, reported: BTreeSet::new() };
        for instruction in all.iter().filter(|one| one.stage == stage) {
            own.read(instruction, &all, found);
        }
        ends.push(own.lacks);
    }
    let stages = last_stages(facts, &all);
    let check = all.iter().rev().find(|one| parts(one).0 == "HEALTHCHECK");
    if let Some((check, (_, command))) =
        check.and_then(|one| Some((one, one.text.split_once("CMD")?)))
    {
        useless(check.line, command, found);
    }
    if let Some((check, end)) = check.zip(ends.last())
        && stages.contains(&check.stage)
        && let Some((_, command)) = check.text.split_once("CMD")
        && let Some(program) = called(command).into_iter().find(|one| end.contains(*one))
    {
        unhealthy(check.line, program, found);
    }
}

/// Checks the health checks of containers.
pub(super) fn health_checks(container: &Container, found: &mut Findings<'_>) {
    entrypoint(container, found);
    let check = container.options.iter().find(|one| one.text.starts_with("--health-cmd="));
    let (Some(image), Some(check)) = (container.image.as_ref(), check) else { return };
    let command = check.text.trim_start_matches("--health-cmd=");
    let command = command.strip_prefix("CMD-SHELL").unwrap_or(command);
    let command = command.strip_prefix("CMD ").unwrap_or(command);
    useless(check.line, command, found);
    let missing = lacks(&image.text);
    if let Some(program) = called(command).into_iter().find(|one| missing.contains(*one)) {
        unhealthy(check.line, program, found);
    }
}

/// Checks for a program in the entrypoint of a service that its image lacks.
fn entrypoint(container: &Container, found: &mut Findings<'_>) {
    let own = container.options.iter().find(|one| one.text.starts_with("--entrypoint="));
    let (Some(image), Some(own)) = (container.image.as_ref(), own) else { return };
    let command = own.text.trim_start_matches("--entrypoint=");
    // The container may install what it needs.
    if command.contains("install") || command.contains(" add ") {
        return;
    }
    let missing = lacks(&image.text);
    if let Some(program) = called(command).into_iter().find(|one| missing.contains(*one)) {
        let message = format!("`{}` has no `{program}`", image.text);
        let hit = Hit::new("program-missing", own.line, message);
        found.hit(hit.help("use a program of the image, or build an image with the program"));
    }
}

/// Checks for a health check that cannot fail.
fn useless(line: usize, command: &str, found: &mut Findings<'_>) {
    let words =
        command.split(|c: char| c.is_whitespace() || matches!(c, '[' | ']' | '"' | '\'' | ','));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let programs = called(command);
    let first =
        programs.iter().find(|one| !matches!(**one, "sh" | "bash" | "/bin/sh" | "/bin/bash"));
    let is_idle = matches!(first, Some(&("true" | "echo" | "exit" | ":")))
        && !command.contains(['|', '>'])
        || words.windows(3).any(|all| all == ["kill", "-0", "1"]);
    let is_hidden = matches!(words.as_slice(), [.., "||", "true"] | [.., "||", "exit", "0"]);
    if is_idle || is_hidden {
        let message = "the health check cannot fail";
        found.add("healthcheck-useless", line, message);
    }
}

fn unhealthy(line: usize, program: &str, found: &mut Findings<'_>) {
    let message = format!("the health check calls {program}, which the image does not contain");
    let help = format!("install {program}, or check with a program of the image");
    found.hit(Hit::new("healthcheck-fails", line, message).help(help));
}

/// Returns the programs that a command calls.
fn called(command: &str) -> Vec<&str> {
    let separators = |c: char| c.is_whitespace() || matches!(c, '[' | ']' | '"' | '\'' | ',' | '(');
    let words = command.split(separators).filter(|word| !word.is_empty());
    let mut programs = Vec::new();
    let mut is_first = true;
    for word in words {
        if is_first {
            programs.push(word.trim_end_matches(';'));
        }
        let starts = ["||", "&&", "|", "!", "-c", ";", "if", "until", "while", "do", "then"];
        is_first = starts.contains(&word) || word.ends_with(';');
    }
    programs
}

/// Returns the programs that an image lacks. The longest pattern that matches it decides.
fn lacks(image: &str) -> Lacks {
    let name = path_and_tag(image);
    let patterns =
        data().contents.iter().flat_map(|row| row.images.iter().map(move |one| (one, row)));
    let matching = patterns.filter(|(pattern, _)| matches(pattern, &name));
    let row = matching.max_by_key(|(pattern, _)| pattern.len()).map(|(_, row)| row);
    row.map_or_else(Lacks::new, |row| row.lacks.iter().cloned().collect())
}

/// A stage, up to the instruction that was read last.
struct Stage<'f> {
    facts: &'f Facts<'f>,
    /// The image that it starts from.
    base: &'f str,
    lacks: Lacks,
    reported: BTreeSet<String>,
}

/// Programs that run code which is not part of the file, or which install from elsewhere.
const OPAQUE: [&str; 33] = [
    ".",
    "amdgpu-install",
    "ansible-playbook",
    "bash",
    "brew",
    "cargo",
    "conda",
    "cpanm",
    "dash",
    "debootstrap",
    "dpkg",
    "eval",
    "gem",
    "go",
    "mamba",
    "micromamba",
    "nix-env",
    "npm",
    "opkg",
    "pacman",
    "perl",
    "pnpm",
    "rpm",
    "ruby",
    "rustup",
    "sh",
    "snap",
    "source",
    "tdnf",
    "xargs",
    "yarn",
    "zsh",
    "zypper",
];

/// Texts that show that a file adds package sources of its own.
const OTHER_SOURCES: [&str; 8] =
    [".deb", ".sh", "PPA", "add-apt-repository", "extrepo", "ppa:", "setup_", "sources.list"];

/// Programs that pip packages bring.
const OF_PIP: [&str; 8] = ["clang", "cmake", "ffmpeg", "node", "ninja", "npm", "patch", "uv"];

impl Stage<'_> {
    fn read(&mut self, own: &Instruction, all: &[Instruction], found: &mut Findings<'_>) {
        match parts(own).0.as_str() {
            "COPY" | "ADD" => self.copied(own),
            // The commands of a here document are not known one by one.
            "RUN" if own.text.contains("<<") => self.lacks.clear(),
            "RUN" => {
                let is_own = |one: &&ShellCommand| {
                    let place = instruction_of(all, one.words[0].line);
                    place.is_some_and(|place| place.line == own.line)
                };
                for command in self.facts.commands.iter().filter(is_own) {
                    self.gone(own, command, found);
                    self.missing(own, command, found);
                    self.installed(command);
                }
            }
            _ => {}
        }
    }

    /// Reads what a copy from another stage or image, or an archive, can bring.
    fn copied(&mut self, own: &Instruction) {
        let words: Vec<&str> = own.text.split_whitespace().skip(1).collect();
        let is_other = words.iter().any(|word| word.starts_with("--from="));
        let plain: Vec<&str> = words.into_iter().filter(|word| !word.starts_with("--")).collect();
        let Some((target, sources)) = plain.split_last().filter(|_| is_other) else { return };
        let is_to_programs =
            target.trim_end_matches('/').ends_with("bin") || target.contains("/bin/");
        for source in sources {
            let name = base_name(source.trim_end_matches(['/', ',', '"']));
            let is_file =
                name.contains('.') && name != "." || is_to_programs && !source.ends_with('/');
            if self.lacks.remove(name)
                || is_file && !matches!(name, "bin" | "sbin") && !name.contains(['*', '$'])
            {
                continue;
            }
            // A folder can contain any program.
            self.lacks.clear();
        }
    }

    /// Checks for a program that is missing.
    fn missing(&mut self, own: &Instruction, command: &ShellCommand, found: &mut Findings<'_>) {
        let program = match command.words[0].text.as_str() {
            "apt-key" => "gpg",
            program => program,
        };
        if !self.lacks.contains(program) || is_conditional(&own.text) {
            return;
        }
        if self.reported.insert(program.to_owned()) {
            let line = command.words[0].line;
            let message = format!("`{}` has no `{program}`, and nothing installs it", self.base);
            found.add("program-missing", line, message);
        }
    }

    /// Reads what a command installs.
    fn installed(&mut self, command: &ShellCommand) {
        let words: Vec<&str> = command.texts();
        let program = base_name(words[0]);
        if let Some(packages) = packages(&words) {
            for package in packages {
                match data().brings.get(package) {
                    Some(programs) => self.lacks.retain(|one| !programs.contains(one)),
                    None => self.lacks.clear(),
                }
            }
            return;
        }
        if is_pip(&words) {
            self.lacks.retain(|one| !OF_PIP.contains(&one.as_str()));
        }
        // A virtual environment has its own `python` and `pip`.
        if words.iter().any(|word| matches!(*word, "venv" | "virtualenv" | "sync")) {
            self.lacks.retain(|one| !one.starts_with("python") && !one.starts_with("pip"));
        }
        let is_build = matches!(program, "make" | "ninja" | "cmake") && command.installs();
        let has_script =
            words[0].contains('/') && !is_pip(&words) && !words[0].starts_with("/usr/bin/");
        let unpacks = matches!(program, "tar" | "unzip")
            && words
                .iter()
                .any(|word| *word == "/" || word.starts_with("/usr") || word.starts_with("/opt"));
        let is_script = program.ends_with(".sh") || program.ends_with(".py");
        if OPAQUE.contains(&program)
            || words[0].contains([UNKNOWN, '$'])
            || is_build
            || has_script
            || is_script
            || unpacks
        {
            self.lacks.clear();
        }
        // `ln -s /usr/bin/python3 /usr/bin/python`, `curl -o /usr/local/bin/jq`
        for word in &words[1..] {
            self.lacks.remove(base_name(word));
        }
    }

    /// Checks for packages that the distribution does not have.
    fn gone(&self, own: &Instruction, command: &ShellCommand, found: &mut Findings<'_>) {
        let words: Vec<&str> = command.texts();
        let (Some(release), Some(packages)) = (released(self.base), packages(&words)) else {
            return;
        };
        let has = |texts: &[&str]| texts.iter().any(|text| self.facts.code.contains(text));
        if has(&["snapshot.debian", "snapshot.ubuntu"]) || is_conditional(&own.text) {
            return;
        }
        let has_others = has(&OTHER_SOURCES) || parts_of(self.base).path.contains('/');
        for package in packages {
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
                Some(instead) if instead.contains(' ') => hit.help(instead),
                Some(instead) => hit.help(format!("install `{instead}`")),
                None => hit,
            });
        }
    }
}

impl ShellCommand {
    /// Returns whether `install` is one of its words.
    fn installs(&self) -> bool {
        self.words.iter().any(|word| matches!(word.text.as_str(), "install" | "--install"))
    }
}

/// Returns whether the commands of a `RUN` may be skipped, or may fail.
fn is_conditional(text: &str) -> bool {
    let words = ["if ", "case ", "command -v", "type ", "which ", "hash ", "while ", "until "];
    let mut others = text.split("||").skip(1);
    let is_end = |rest: &str| {
        let first = rest.split_whitespace().next().unwrap_or_default();
        matches!(first.trim_start_matches(['(', '{']), "exit" | "echo" | "false")
    };
    words.iter().any(|word| text.contains(word)) || others.any(|rest| !is_end(rest))
}

/// Returns the packages that a command of a package manager installs; `None` if it is another
/// command. An unknown word is kept, because it may stand for any package.
fn packages<'w>(words: &[&'w str]) -> Option<Vec<&'w str>> {
    let managers = ["apt", "apt-get", "apk", "aptitude", "dnf", "microdnf", "yum"];
    let is_install =
        |word: &&str| matches!(*word, "add" | "build-dep" | "install" | "groupinstall");
    let at = words.iter().position(is_install).filter(|_| managers.contains(&words[0]))?;
    let mut packages = Vec::new();
    let mut is_value = false;
    for word in &words[at + 1..] {
        if word.starts_with('-') {
            is_value =
                matches!(*word, "-t" | "-o" | "-c" | "--target-release" | "--repository" | "-X");
        } else if !std::mem::take(&mut is_value) {
            packages.push(word.split(['=', '/', '~', '<', '>']).next().unwrap_or(word));
        }
    }
    Some(packages)
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_read_without_options_and_versions() {
        let read = |text: &str| {
            let words: Vec<&str> = text.split_whitespace().collect();
            packages(&words).map(|all| all.join(" "))
        };
        assert_eq!(
            read("apt-get install -y -t trixie git=1.2 curl/sid").as_deref(),
            Some("git curl")
        );
        assert_eq!(read("apk add --no-cache git~2").as_deref(), Some("git"));
        assert_eq!(read("apt-get update"), None);
        assert_eq!(read("pip install git"), None);
    }

    #[test]
    fn the_programs_of_a_health_check_are_those_at_the_start_of_commands() {
        assert_eq!(called(" curl -f http://x || exit 1"), ["curl", "exit"]);
        assert_eq!(called(" [\"pgrep\", \"-f\", \"python\"]"), ["pgrep"]);
        assert_eq!(called(" sh -c 'wget -q x | grep y'"), ["sh", "wget", "grep"]);
    }

    #[test]
    fn a_command_that_may_be_skipped_is_recognized() {
        assert!(is_conditional("RUN if [ -n \"$A\" ]; then git clone x; fi"));
        assert!(is_conditional("RUN curl x || wget x"));
        assert!(is_conditional("RUN git clone x || true"));
        assert!(!is_conditional("RUN git clone x || exit 1"));
    }
}
