//! Programs that a stage calls although its base lacks them and nothing has brought them.

use std::collections::BTreeSet;

use super::images::path_and_tag;
use super::stages::{by_instruction, commands_of, fixed_base, parent, parts};
use crate::data::{data, matches};
use crate::dockerfile::Instruction;
use crate::facts::Kind;
use crate::python::is_pip;
use crate::shell::{ShellCommand, UNKNOWN};
use crate::{Facts, Findings};

/// Programs that are certainly missing. An empty set means that nothing is known.
pub(super) type Lacks = BTreeSet<String>;

/// Checks the commands of a Dockerfile.
pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if facts.kind == Kind::Dockerfile {
        let all = facts.instructions();
        each_stage(facts, all, &mut |line, message| found.add("program-missing", line, message));
    }
}

/// Returns what each stage lacks at its end.
pub(super) fn at_ends(facts: &Facts<'_>, all: &[Instruction]) -> Vec<Lacks> {
    each_stage(facts, all, &mut |_, _| {})
}

/// Reads the stages of a Dockerfile in order, and reports missing programs.
fn each_stage(
    facts: &Facts<'_>,
    all: &[Instruction],
    report: &mut dyn FnMut(usize, String),
) -> Vec<Lacks> {
    let commands = by_instruction(facts, all);
    let mut ends: Vec<Lacks> = Vec::new();
    for number in 1..=facts.stages.len() {
        let base = fixed_base(facts, all, number);
        let start = match parent(facts, all, number) {
            Some(earlier) => ends.get(earlier - 1).cloned().unwrap_or_default(),
            None => lacks(base),
        };
        let mut contents = Contents { lacks: start, reported: BTreeSet::new() };
        for own in all.iter().filter(|one| one.stage == number) {
            if OWN_CERTIFICATES.iter().any(|text| own.text.contains(text)) {
                contents.lacks.remove(CERTIFICATES);
            }
            match parts(own).0.as_str() {
                "COPY" | "ADD" => contents.copied(own),
                "RUN" if brings_unknown(&own.text) => contents.lacks.clear(),
                "RUN" => {
                    for command in commands_of(&commands, own) {
                        if let Some(program) = contents.missing(own, command) {
                            let message =
                                format!("`{base}` has no `{program}`, and nothing installs it");
                            report(command.words[0].line, message);
                        }
                        contents.after(command);
                    }
                    if let Some(line) = contents.missing_sudo(own, facts) {
                        report(line, format!("`{base}` has no `sudo`, and nothing installs it"));
                    }
                }
                _ => {}
            }
        }
        ends.push(contents.lacks);
    }
    ends
}

/// Returns whether a `RUN` mounts programs from elsewhere, or runs a here document, whose commands
/// are not known one by one.
fn brings_unknown(text: &str) -> bool {
    text.contains("<<")
        || text.contains("--mount") && (text.contains("from=") || text.contains("bin"))
}

/// Returns the programs that an image lacks. The longest pattern that matches it decides.
pub(super) fn lacks(image: &str) -> Lacks {
    let name = path_and_tag(image);
    let patterns =
        data().contents.iter().flat_map(|row| row.images.iter().map(move |one| (one, row)));
    let matching = patterns.filter(|(pattern, _)| matches(pattern, &name));
    let row = matching.max_by_key(|(pattern, _)| pattern.len()).map(|(_, row)| row);
    row.map_or_else(Lacks::new, |row| row.lacks.iter().cloned().collect())
}

/// The contents of a stage, up to the command that was read last.
struct Contents {
    lacks: Lacks,
    /// The programs that were reported, so that each is reported once.
    reported: BTreeSet<String>,
}

/// The program that starts another one as root.
const SUDO: &str = "sudo";

/// The package that Python's module `venv` needs on Debian and Ubuntu.
const VENV: &str = "python3-venv";

/// The package with the certificates of authorities.
const CERTIFICATES: &str = "ca-certificates";

/// Texts of instructions that bring or name certificates, or that switch the check off.
const OWN_CERTIFICATES: [&str; 5] =
    ["/etc/ssl", "/ca-certificates", "CURL_CA_BUNDLE", "GIT_SSL_", "SSL_CERT_"];

/// Endings of files that contain no programs.
const NO_PROGRAMS: [&str; 12] = [
    ".conf", ".crt", ".env", ".ini", ".json", ".list", ".md", ".pem", ".toml", ".txt", ".whl",
    ".yaml",
];

impl Contents {
    /// Reads what a copy can bring: any program, if it copies a folder or an archive.
    fn copied(&mut self, own: &Instruction) {
        let is_other = own.text.contains("--from=");
        if is_other {
            self.lacks.remove(CERTIFICATES);
        }
        let words = own.text.split_whitespace().skip(1).filter(|word| !word.starts_with("--"));
        let words: Vec<&str> = words.map(|word| word.trim_matches(['"', '[', ']', ','])).collect();
        let Some((target, sources)) = words.split_last() else { return };
        let is_for_programs =
            target.trim_end_matches('/').ends_with("bin") || target.contains("/bin/");
        let is_for_system =
            matches!(target.trim_end_matches('/'), "" | "/usr" | "/usr/local" | "/opt");
        for source in sources {
            let name = base_name(source.trim_end_matches('/'));
            let is_plain =
                NO_PROGRAMS.iter().any(|end| name.ends_with(end)) || name.contains(".so");
            let is_program =
                is_for_programs && !source.ends_with('/') && !matches!(name, "bin" | "sbin");
            let is_known = is_plain || is_program && !name.contains(['*', '$']);
            // The build context rarely contains programs.
            let is_own = !is_other && !is_for_system && !is_for_programs && !name.contains(".tar");
            if !is_known && !is_own {
                self.lacks.clear();
            }
            self.remove(name);
        }
        self.remove(base_name(target));
    }

    /// Removes a program that is brought in another way than by a package. That way can bring
    /// certificates too.
    fn remove(&mut self, program: &str) {
        if self.lacks.remove(program) {
            self.lacks.remove(CERTIFICATES);
        }
    }

    /// Returns the program that a command calls, if it is missing.
    fn missing(&mut self, own: &Instruction, command: &ShellCommand) -> Option<String> {
        let program = match command.words[0].text.as_str() {
            "apt-key" => "gpg",
            _ if self.makes_broken_environment(command) => VENV,
            program if self.cannot_verify(program, command) => CERTIFICATES,
            program => program,
        };
        let is_missing = self.lacks.contains(program) && !is_conditional(&own.text);
        (is_missing && self.reported.insert(program.to_owned())).then(|| program.to_owned())
    }

    /// Returns whether a command makes a virtual environment without the package that it needs on
    /// Debian and Ubuntu.
    fn makes_broken_environment(&self, command: &ShellCommand) -> bool {
        let words = command.texts();
        let is_module = words.windows(2).any(|two| two == ["-m", "venv"]);
        let is_python = base_name(words[0]).starts_with("python3");
        is_python
            && is_module
            && !words.contains(&"--without-pip")
            && !self.lacks.contains("python3")
    }

    /// Returns whether a program downloads over HTTPS without the certificates of authorities.
    fn cannot_verify(&self, program: &str, command: &ShellCommand) -> bool {
        let has = |wanted: &[&str]| {
            command.words.iter().any(|word| wanted.iter().any(|one| word.text.starts_with(one)))
        };
        let is_short =
            |text: &str| text.starts_with('-') && !text.starts_with("--") && text.contains('k');
        let is_open = has(&["--insecure", "--no-check-certificate", "http.sslVerify", "--cacert"])
            || program == "curl" && command.words.iter().any(|word| is_short(&word.text));
        matches!(program, "curl" | "git" | "wget")
            && has(&["https://"])
            && !is_open
            && !self.lacks.contains(program)
    }

    /// Returns the line with `sudo`, if it is missing and a `RUN` calls it. Commands do not contain the
    /// word, because it only starts another command.
    fn missing_sudo(&mut self, own: &Instruction, facts: &Facts<'_>) -> Option<usize> {
        let is_missing = self.lacks.contains(SUDO) && !is_conditional(&own.text);
        let is_call = |text: &str| {
            let text = text.trim_start();
            let text =
                ["RUN ", "run "].iter().find_map(|run| text.strip_prefix(run)).unwrap_or(text);
            let mut commands = text.split(['&', ';', '|', '(']).map(str::trim_start);
            commands.any(|one| one.starts_with("sudo "))
        };
        let lines = facts.lines().skip(own.line - 1).take(own.last + 1 - own.line);
        let code = without_quotes(lines.filter(|(_, text)| !facts.kind.is_comment(text)));
        let (line, _) = code.iter().find(|(_, text)| is_call(text)).filter(|_| is_missing)?;
        let line = *line;
        self.reported.insert(SUDO.to_owned()).then_some(line)
    }

    /// Reads what a command brings.
    fn after(&mut self, command: &ShellCommand) {
        let words: Vec<&str> = command.texts();
        let program = base_name(words[0]);
        if let Some(packages) = packages(&words) {
            // Recommendations bring the certificates with nearly every package.
            if !words.iter().any(|word| word.to_ascii_lowercase().contains("install-recommends")) {
                self.lacks.remove(CERTIFICATES);
            }
            // The dependencies are known only for the packages of Debian and Ubuntu.
            let is_apt = program.starts_with("apt");
            for package in packages {
                let brought = data().brings.get(package).filter(|_| is_apt);
                match brought {
                    Some(programs) => self.lacks.retain(|one| !programs.contains(one)),
                    None => {
                        self.lacks.retain(|one| is_apt && one == PYTHON && keeps_python(package));
                    }
                }
            }
        } else if is_pip(&words) {
            self.lacks.retain(|one| !OF_PIP.contains(&one.as_str()));
        } else if makes_environment(&words) {
            self.lacks.retain(|one| !one.starts_with("python") && !one.starts_with("pip"));
        } else if !is_harmless(program, &words) {
            self.lacks.clear();
        }
        // `ln -s /usr/bin/python3 /usr/bin/python`, `curl -o /usr/local/bin/jq`
        for word in &words[1..] {
            self.remove(base_name(word));
        }
    }
}

/// The program that only a few packages of Debian and Ubuntu contain.
const PYTHON: &str = "python";

/// Returns whether a package of Debian or Ubuntu certainly brings no `python`. `python-is-python3`
/// and the packages that require it have similar names.
fn keeps_python(package: &str) -> bool {
    let is_version = |rest: &str| rest.starts_with([UNKNOWN, '3']);
    let is_plain = package.starts_with(|c: char| c.is_ascii_lowercase());
    match package.strip_prefix(PYTHON) {
        Some(rest) => is_version(rest),
        None => is_plain && !package.contains(UNKNOWN) && !package.contains("conda"),
    }
}

/// Returns lines without the texts in quotes, which can go on in the next line.
fn without_quotes<'t>(lines: impl Iterator<Item = (usize, &'t str)>) -> Vec<(usize, String)> {
    let mut quote = None;
    let mut is_escaped = false;
    let mut is_code = |c: char| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match quote {
            Some(end) if end == c && !was_escaped => quote = None,
            None if matches!(c, '"' | '\'') && !was_escaped => quote = Some(c),
            _ => is_escaped = c == '\\' && !was_escaped && quote != Some('\''),
        }
        quote.is_none()
    };
    lines.map(|(line, text)| (line, text.chars().filter(|c| is_code(*c)).collect())).collect()
}

/// Programs that some packages of pip contain.
const OF_PIP: [&str; 8] = ["clang", "cmake", "ffmpeg", "ninja", "node", "npm", "patch", "uv"];

/// Returns whether a command makes a virtual environment, which has its own `python` and `pip`.
fn makes_environment(words: &[&str]) -> bool {
    words.iter().any(|word| matches!(*word, "sync" | "venv" | "virtualenv"))
}

/// Programs that install nothing. Any other program can install anything.
const HARMLESS: [&str; 81] = [
    "[",
    "add-apt-repository",
    "apk",
    "apt",
    "apt-cache",
    "apt-get",
    "apt-key",
    "apt-mark",
    "awk",
    "basename",
    "cat",
    "cd",
    "chgrp",
    "chmod",
    "chown",
    "chpasswd",
    "cmake",
    "cp",
    "curl",
    "cut",
    "date",
    "df",
    "dirname",
    "dnf",
    "du",
    "echo",
    "env",
    "export",
    "file",
    "find",
    "g++",
    "gcc",
    "git",
    "gpg",
    "grep",
    "groupadd",
    "gzip",
    "head",
    "id",
    "install",
    "ldconfig",
    "ln",
    "locale-gen",
    "ls",
    "make",
    "mkdir",
    "mv",
    "ninja",
    "nproc",
    "passwd",
    "pkg-config",
    "printf",
    "ps",
    "pwd",
    "readlink",
    "realpath",
    "rm",
    "rmdir",
    "sed",
    "set",
    "sha256sum",
    "sleep",
    "sort",
    "strip",
    "tail",
    "tar",
    "tee",
    "test",
    "touch",
    "tr",
    "true",
    "uname",
    "unlink",
    "unzip",
    "update-ca-certificates",
    "update-locale",
    "useradd",
    "userdel",
    "usermod",
    "wget",
    "xz",
];

/// Returns whether a command brings no program other than those that its words name.
fn is_harmless(program: &str, words: &[&str]) -> bool {
    let is_version = words.iter().any(|word| word.contains("version"));
    let unpacks = matches!(program, "tar" | "unzip")
        && words
            .iter()
            .any(|word| *word == "/" || word.starts_with("/usr") || word.starts_with("/opt"));
    let is_builder = matches!(program, "cmake" | "make" | "ninja");
    let installs = is_builder && words.iter().any(|word| word.ends_with("install"));
    let copies = matches!(program, "cp" | "mv") && words.iter().any(|word| word.ends_with("bin/"));
    let is_known = HARMLESS.contains(&program) || is_version || words[0].contains('=');
    is_known && !unpacks && !installs && !copies
}

/// Returns whether the commands of a `RUN` may be skipped, or may fail.
pub(crate) fn is_conditional(text: &str) -> bool {
    let words =
        ["if ", "case ", "command -v", "type ", "which ", "hash ", "while ", "until ", "set +e"];
    let mut others = text.split("||").skip(1);
    let is_end = |rest: &str| {
        let rest = rest.trim_start().trim_start_matches(['(', '{']).trim_start();
        rest.starts_with("exit") && !rest.starts_with("exit 0")
            || rest.starts_with("echo") && rest.contains("exit 1")
            || rest.starts_with("false")
    };
    let is_ended_well = text.trim_end().ends_with("true") || text.trim_end().ends_with("exit 0");
    words.iter().any(|word| text.contains(word))
        || others.any(|rest| !is_end(rest))
        || is_ended_well
}

/// Returns the packages that a command of a package manager installs; `None` if it is another
/// command. An unknown word is kept, because it may stand for any package.
pub(super) fn packages<'w>(words: &[&'w str]) -> Option<Vec<&'w str>> {
    let managers = ["apt", "apt-get", "apk", "aptitude", "dnf", "microdnf", "yum"];
    let is_install =
        |word: &&str| matches!(*word, "add" | "build-dep" | "install" | "groupinstall");
    let at = words.iter().position(is_install).filter(|_| managers.contains(&words[0]))?;
    let mut packages = Vec::new();
    let mut is_value = false;
    for word in &words[at + 1..] {
        if word.starts_with('-') {
            let values = ["-t", "-o", "-c", "-X", "--target-release", "--repository"];
            is_value = values.contains(word);
        } else if !std::mem::take(&mut is_value) {
            packages.push(word.split(['=', '/', '~', '<', '>']).next().unwrap_or(word));
        }
    }
    Some(packages)
}

/// Returns the last part of a path.
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
        let apt = "apt-get install -y -t trixie git=1.2 curl/sid";
        assert_eq!(read(apt).as_deref(), Some("git curl"));
        assert_eq!(read("apk add --no-cache git~2").as_deref(), Some("git"));
        assert_eq!(read("apt-get update"), None);
        assert_eq!(read("pip install git"), None);
    }

    #[test]
    fn a_command_that_may_be_skipped_is_recognized() {
        assert!(is_conditional("RUN if [ -n \"$A\" ]; then git clone x; fi"));
        assert!(is_conditional("RUN curl x || wget x"));
        assert!(is_conditional("RUN git clone x || true"));
        assert!(is_conditional("RUN git describe || echo unknown"));
        assert!(is_conditional("RUN git describe; true"));
        assert!(!is_conditional("RUN git clone x || exit 1"));
        assert!(!is_conditional("RUN git clone x || (echo failed && exit 1)"));
    }
}
