//! Rules for the packages of a project in an image: versions of JavaScript packages, and the lock
//! files of JavaScript and Python projects.

use super::stages::{instruction_of, parts};
use crate::data::matches;
use crate::dockerfile::Instruction;
use crate::shell::{ShellCommand, UNKNOWN};
use crate::{Context, Facts, Findings, Kind};

/// A package manager with the files that it reads.
#[derive(Debug, Clone, Copy)]
struct Manager {
    name: &'static str,
    /// The file that names the packages.
    list: &'static str,
    /// The files with their versions.
    locks: &'static [&'static str],
    /// The command that installs the packages of a project.
    install: &'static [&'static str],
}

/// The list of JavaScript packages.
const PACKAGES: &str = "package.json";

/// The package managers.
const MANAGERS: [Manager; 8] = [
    Manager {
        name: "npm",
        list: PACKAGES,
        locks: &["package-lock.json", "npm-shrinkwrap.json", "yarn.lock"],
        install: &["install", "i"],
    },
    Manager {
        name: "pnpm",
        list: PACKAGES,
        locks: &["pnpm-lock.yaml"],
        install: &["install", "i"],
    },
    Manager { name: "yarn", list: PACKAGES, locks: &["yarn.lock"], install: &["install", "i"] },
    Manager {
        name: "bun",
        list: PACKAGES,
        locks: &["bun.lock", "bun.lockb"],
        install: &["install", "i"],
    },
    Manager {
        name: "poetry",
        list: "pyproject.toml",
        locks: &["poetry.lock"],
        install: &["install", "sync"],
    },
    Manager { name: "uv", list: "pyproject.toml", locks: &["uv.lock"], install: &["sync"] },
    Manager {
        name: "pdm",
        list: "pyproject.toml",
        locks: &["pdm.lock"],
        install: &["install", "sync"],
    },
    Manager {
        name: "pipenv",
        list: "Pipfile",
        locks: &["Pipfile.lock"],
        install: &["install", "sync"],
    },
];

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let is_used = |manager: &Manager| facts.code.contains(manager.name);
    if facts.kind != Kind::Dockerfile || !MANAGERS.iter().any(is_used) {
        return;
    }
    let all = facts.instructions();
    for command in &facts.commands {
        let program = command.words[0].text.rsplit('/').next().unwrap_or_default();
        let manager = MANAGERS.iter().find(|one| one.name == program);
        let own = instruction_of(all, command.words[0].line);
        if let Some((manager, own)) = manager.zip(own) {
            if manager.list == PACKAGES {
                named(command, found);
            }
            let is_open = is_based_on_stage(facts, all, own.stage)
                || lacks_lock(facts, own.stage, manager.locks, context);
            if !is_open {
                unlocked(all, own, command, manager, found);
            }
        }
    }
}

/// Options whose value is the next word. A command with one of them is not judged.
const TAKES_VALUE: [&str; 13] = [
    "-C",
    "-w",
    "--cache",
    "--cwd",
    "--dir",
    "--filter",
    "--include",
    "--loglevel",
    "--omit",
    "--prefix",
    "--registry",
    "--store-dir",
    "--workspace",
];

/// Checks `npm install NAME` without a version.
fn named(command: &ShellCommand, found: &mut Findings<'_>) {
    let words: Vec<&str> = command.texts();
    let plain: Vec<&str> =
        words[1..].iter().copied().filter(|word| !word.starts_with('-')).collect();
    let takes = |word: &&str| TAKES_VALUE.contains(word);
    let names = match plain.as_slice() {
        ["install" | "i" | "add", names @ ..] if !words.iter().any(takes) => names,
        ["global", "add", names @ ..] => names,
        _ => return,
    };
    let is_open = |name: &&str| {
        let version =
            name.get(1..).and_then(|rest| rest.split_once('@')).map(|(_, version)| version);
        let is_package = !name.starts_with(['.', '/', '~'])
            && !name.contains([':', UNKNOWN, '='])
            && name.matches('/').count() == usize::from(name.starts_with('@'))
            && ![".tgz", ".json"].iter().any(|end| name.ends_with(end));
        is_package && version.is_none_or(|version| matches!(version, "latest" | "next"))
    };
    let open: Vec<String> =
        names.iter().filter(|name| is_open(name)).map(|name| format!("`{name}`")).collect();
    if !open.is_empty() {
        let verb = if open.len() == 1 { "is" } else { "are" };
        let message = format!("{} {verb} installed without a version", open.join(", "));
        found.add("javascript-unpinned", command.words[0].line, message);
    }
}

/// Returns whether a stage is based on an earlier one, which can contain the lock file.
fn is_based_on_stage(facts: &Facts<'_>, all: &[Instruction], stage: usize) -> bool {
    let from = all.iter().find(|one| one.stage == stage && parts(one).0 == "FROM");
    let mut words = from.map_or("", |one| parts(one).1).split_whitespace();
    let base = words.find(|word| !word.starts_with("--")).unwrap_or_default();
    let is_it = |name: &String| name.eq_ignore_ascii_case(base);
    facts.stages.iter().any(|one| one.name.as_ref().is_some_and(is_it))
}

/// Returns whether a stage copies `package*.json`, but the folder that the pattern names has no lock
/// file.
fn lacks_lock(facts: &Facts<'_>, stage: usize, locks: &[&str], context: Context<'_>) -> bool {
    let Some(files) = context.exists else { return false };
    let is_missing = |source: &str| {
        let (folder, file) = source.rsplit_once('/').unwrap_or((".", source));
        let mut fitting = locks.iter().filter(|lock| file.contains('*') && matches(file, lock));
        let first = fitting.next();
        let is_absent =
            |lock: &&str| files.exists(facts.file, &format!("{folder}/{lock}")) == Some(false);
        first.is_some_and(|first| is_absent(first) && fitting.all(is_absent))
    };
    let copies = facts.instructions().iter().filter(|one| one.stage == stage);
    copies.filter(|one| parts(one).0 == "COPY").any(|one| {
        parts(one).1.split(|c: char| c.is_whitespace() || "[],\"".contains(c)).any(is_missing)
    })
}

/// Returns the words of a copy with `poetry.lock` instead of the pattern `poetry.loc[k]`. A bracket
/// at the start of a word belongs to a list of words.
fn without_brackets(rest: &str) -> String {
    let plain = |word: &str| match word.find('[') {
        None | Some(0) => word.to_owned(),
        Some(_) => word.replace(['[', ']'], ""),
    };
    rest.split_whitespace().map(plain).collect::<Vec<String>>().join(" ")
}

/// Checks for an installation from the list of packages alone.
fn unlocked(
    all: &[Instruction],
    own: &Instruction,
    command: &ShellCommand,
    manager: &Manager,
    found: &mut Findings<'_>,
) {
    let Manager { name, list, locks, install } = *manager;
    let words: Vec<&str> = command.words[1..].iter().map(|word| word.text.as_str()).collect();
    let plain: Vec<&&str> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let is_install = match plain.as_slice() {
        [] => name == "yarn" && words.is_empty(),
        [only] => install.contains(only),
        // The options of the others are followed by names of groups.
        [first, ..] => list != PACKAGES && install.contains(first),
    };
    let is_other = words.iter().any(|word| {
        matches!(*word, "-g" | "--global" | "-C" | "--dir" | "--prefix" | "--cwd")
            || word.contains("lock")
            || word.contains("immutable")
    });
    // `npm ci || npm install` has a strict installation.
    let is_strict = ["--mount=type=bind", "npm ci"].iter().any(|one| own.text.contains(one));
    if !is_install || is_other || is_strict {
        return;
    }
    let before: Vec<&Instruction> =
        all.iter().filter(|one| one.stage == own.stage && one.line < own.line).collect();
    let is_javascript = list == PACKAGES;
    // Managers of Python packages are often downloaded themselves.
    let creates: &[&str] = if is_javascript {
        &["clone", "curl", "wget", "lock", "npm init"]
    } else {
        &["clone", "rsync"]
    };
    let (mut has_list, mut has_lock, mut may_create) = (false, false, false);
    for one in before {
        let (instruction, rest) = parts(one);
        let is_copy = matches!(instruction.as_str(), "COPY" | "ADD");
        if !is_copy {
            // Other commands can fetch or create the lock file.
            may_create |= instruction == "RUN" && creates.iter().any(|word| rest.contains(word));
            continue;
        }
        let rest = without_brackets(rest);
        let sources: Vec<&str> = rest
            .split(|c: char| c.is_whitespace() || matches!(c, '[' | ']' | ',' | '"'))
            .filter(|word| !word.is_empty())
            .collect();
        // Programs of another image are no lock file.
        let is_program =
            sources.last().is_some_and(|target| target.trim_end_matches('/').ends_with("/bin"));
        if sources.iter().any(|word| word.starts_with("--from")) {
            if is_program {
                continue;
            }
            return;
        }
        let sources: Vec<&str> =
            sources.into_iter().filter(|word| !word.starts_with("--")).collect();
        let Some((_, sources)) = sources.split_last() else { return };
        for source in sources {
            let file = source.rsplit('/').next().unwrap_or(source);
            let is_list = matches(file, list) || is_javascript && matches("package*.json", file);
            let may_have_lock = locks.iter().any(|lock| matches(file, lock));
            // Anything else can be a folder with all files; `src` of a Python project is not.
            let is_file = file.contains('.') && file.len() > 2 && !source.ends_with('/');
            let is_part = !is_javascript && source.starts_with(|c: char| c.is_ascii_alphabetic());
            if !may_have_lock && !is_list && !is_file && !is_part {
                return;
            }
            has_list |= is_list;
            has_lock |= may_have_lock;
        }
    }
    if has_lock && name == "npm" {
        let message = "`npm install` may change the lock file";
        found.add("lock-file-unused", command.words[0].line, message);
    } else if has_list && !has_lock && !may_create {
        let lock = locks[0];
        let message = format!("`{name}` installs without `{lock}`, which is not copied");
        found.add("lock-file-missing", command.words[0].line, message);
    }
}
