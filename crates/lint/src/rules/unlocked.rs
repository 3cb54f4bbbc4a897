//! Rules for installations in which a list or a constraints file seems to fix the versions, but does
//! not.

use std::collections::BTreeSet;

use super::commands::{cloned_folder, join, plain};
use super::packages::HELPERS;
use super::requirements::{FEWEST, SETTLED, requirements_in};
use crate::facts::Package;
use crate::python::is_pip;
use crate::requirements::options;
use crate::shell::{ShellCommand, UNKNOWN};
use crate::{Context, Exists, Facts, Findings, Hit, Kind};

/// The rule.
const OPEN: &str = "index-unpinned";

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    match facts.kind {
        Kind::Requirements => list(facts, context.exists, found),
        Kind::Dockerfile | Kind::Shell if found.wants(OPEN) => {
            constrained(facts, context.exists, found);
            of_clone(facts, context.exists, found);
        }
        _ => {}
    }
}

/// Parts of the names of lists whose versions matter less, or that are the source or the result of a
/// lock.
const OTHER_LISTS: [&str; 13] = [
    "base",
    "build",
    "constraint",
    "dev",
    "doc",
    "extra",
    "freeze",
    "lint",
    "lock",
    "minimal",
    "optional",
    "pinned",
    "test",
];

/// Folders with lists that nothing is deployed from, without the `s` of the plural.
const OTHER_FOLDERS: [&str; 6] = ["bench", "benchmark", "ci", "doc", "example", "test"];

/// Files that fix the versions of a list beside them.
const LOCKS: [&str; 8] = [
    "Pipfile.lock",
    "constraints.txt",
    "pdm.lock",
    "poetry.lock",
    "pylock.toml",
    "requirements.in",
    "requirements.lock",
    "uv.lock",
];

/// Files of a package that people install; its list should leave the versions open.
const OF_PACKAGE: [&str; 5] =
    ["pyproject.toml", "setup.cfg", "setup.py", "../pyproject.toml", "../setup.py"];

/// Checks a list in which most packages have no version.
fn list(facts: &Facts<'_>, exists: Option<&dyn Exists>, found: &mut Findings<'_>) {
    let name = facts.file.rsplit('/').next().unwrap_or(facts.file).to_ascii_lowercase();
    let starts = |line: &str| SETTLED.iter().any(|one| line.trim_start().starts_with(one));
    let is_settled = facts.text.lines().any(|line| starts(line) || line.contains("--hash="));
    let has = |path: &&str| exists.is_some_and(|all| all.exists(facts.file, path) == Some(true));
    let is_of_package = || {
        let texts = OF_PACKAGE.iter().filter_map(|path| exists?.text(facts.file, path));
        texts.into_iter().any(|text| text.contains("requirements") || text.contains("[project]"))
    };
    let folders = facts.file.to_ascii_lowercase();
    let mut folders = folders.rsplit('/').skip(1);
    let is_aside = folders
        .any(|folder| OTHER_FOLDERS.iter().any(|one| folder.trim_end_matches('s').ends_with(one)));
    if is_settled || is_aside || OTHER_LISTS.iter().any(|part| name.contains(part)) {
        return;
    }
    let all = requirements_in(facts.text);
    let open = all.iter().filter(|one| one.is_open()).count();
    if all.len() < FEWEST || open * 2 <= all.len() || LOCKS.iter().any(has) {
        return;
    }
    let is_open = |one: &&Package| one.version.is_none() && !one.is_special && !one.is_limited;
    let first = facts.packages.iter().find(is_open);
    if let Some(first) = first.filter(|_| !is_of_package()) {
        let message =
            format!("{open} of {} packages have no version, or only the oldest one", all.len());
        found.hit(Hit::new(OPEN, first.line, message).help(
            "write `==` and a version for each, or keep this list as the source of a lock: `uv pip compile --generate-hashes`",
        ));
    }
}

/// Returns the constraints file of a command.
fn constraints(words: &[&str]) -> Option<String> {
    let pair =
        words.windows(2).find(|two| matches!(two[0], "-c" | "--constraint" | "--constraints"));
    let joined = || words.iter().find_map(|word| word.strip_prefix("--constraint="));
    pair.map(|two| two[1]).or_else(joined).map(str::to_owned)
}

/// The number of commands with a constraints file that are checked.
const MOST: usize = 20;

/// Checks packages that the constraints file of a command does not name.
fn constrained(facts: &Facts<'_>, exists: Option<&dyn Exists>, found: &mut Findings<'_>) {
    let is_one = |words: &[&str]| is_pip(words) && constraints(words).is_some();
    let all = facts.commands.iter().enumerate().filter(|(_, one)| is_one(&one.texts()));
    for (at, command) in all.take(MOST) {
        let Some(path) = constraints(&command.texts()) else { continue };
        let Some(named) = named(facts, command, &path, exists) else { continue };
        let is_open = |one: &&Package| {
            one.command == at + 1
                && one.version.is_none()
                && !one.is_special
                && !one.is_limited
                && !HELPERS.contains(&one.name.as_str())
                && !named.replace('_', "-").contains(&one.name)
        };
        if let Some(package) = facts.packages.iter().find(is_open) {
            let name = &package.name;
            let message =
                format!("`{name}` has no version, and the constraints file does not name it");
            return found.add(OPEN, package.line, message);
        }
    }
}

/// Returns the text that names the packages of a constraints file, in lower case: the file beside the
/// Dockerfile, or the lines that write it. `None` if it can name any package.
fn named(
    facts: &Facts<'_>,
    command: &ShellCommand,
    path: &str,
    exists: Option<&dyn Exists>,
) -> Option<String> {
    let file =
        path.rsplit('/').next().filter(|name| !name.is_empty() && !name.contains(UNKNOWN))?;
    let (first, last) = (command.words.first()?.line, command.words.last()?.line);
    let is_own = |line: usize| (first..=last).contains(&line);
    let lines: Vec<(usize, &str)> = facts.lines().collect();
    let writes = |text: &str| {
        text.split_once(file).is_some_and(|(before, _)| {
            let before = before.trim_end_matches(|c: char| !c.is_whitespace() && c != '>');
            before.trim_end().ends_with(['>', '|']) || before.trim_end().ends_with("tee")
        })
    };
    let writing: Vec<usize> = lines
        .iter()
        .filter(|(line, text)| !is_own(*line) && writes(text))
        .map(|one| one.0)
        .collect();
    if writing.is_empty() {
        let is_copied = facts.kind == Kind::Dockerfile
            && lines.iter().any(|(_, text)| text.starts_with("COPY") && text.contains(file));
        return exists
            .filter(|_| is_copied)?
            .text(facts.file, file)
            .map(|one| one.to_ascii_lowercase());
    }
    // The command before `>` can begin on a line above; a here document follows.
    let is_near = |line: usize| {
        writing.iter().any(|own| line <= *own && own - line < NEAR || line > *own && line < first)
    };
    let near = lines.iter().filter(|(line, _)| is_near(*line) && !is_own(*line));
    let text = near.map(|(_, text)| text.to_ascii_lowercase()).collect::<Vec<_>>().join("\n");
    // `pip freeze` alone names whatever is installed.
    let is_any = text.contains("freeze") && !text.contains("grep")
        || ["pip list", "pip-compile", "pip compile", "uv export", "curl", "wget", "python"]
            .iter()
            .any(|word| text.contains(word));
    (!is_any).then_some(text)
}

/// The number of lines above a redirection in which its command begins.
const NEAR: usize = 4;

/// Parts of the names of lists with fixed versions.
const FIXED: [&str; 7] = ["constraint", "freeze", "frozen", "hash", "lock", "pinned", "version"];

/// Checks for a list of a clone that a command installs without a lock or constraints.
fn of_clone(facts: &Facts<'_>, exists: Option<&dyn Exists>, found: &mut Findings<'_>) {
    let mut clones: BTreeSet<String> = BTreeSet::new();
    let places = found.places();
    for command in &facts.commands {
        let words = command.texts();
        clones.extend(cloned_folder(command).map(|folder| plain(&folder)));
        let is_settled = words.iter().any(|word| {
            matches!(*word, "--require-hashes" | "--no-index" | "--no-deps" | "--dry-run")
        });
        if !is_pip(&words) || is_settled || constraints(&words).is_some() || command.is_for_other {
            continue;
        }
        let is_pre = words.contains(&"--pre");
        let project = words.windows(2).find(|two| {
            matches!(two[0], "-e" | "--editable")
                && two[1].starts_with('.')
                && !two[1].contains("://")
        });
        let has_index = words.iter().any(|word| word.contains("index") || *word == "-i");
        if let Some(two) = project.filter(|_| is_pre && !has_index) {
            let message = format!(
                "with `--pre`, `-e {}` also installs pre-releases of all packages that it needs",
                two[1]
            );
            return found.add(OPEN, command.words[0].line, message);
        }
        let is_of_clone = |path: &str| {
            let full = plain(&join(&command.folder, path));
            let mut above = full.match_indices('/').map(|(at, _)| &full[..at]);
            above.any(|folder| {
                // The folder of a relative clone may be written completely.
                let name = folder.rsplit('/').next().unwrap_or(folder);
                clones.contains(folder) || facts.kind == Kind::Shell && clones.contains(name)
            })
        };
        let list = options(command).into_iter().find(|(_, path, _)| {
            let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
            let is_fixed = FIXED.iter().any(|part| name.contains(part));
            let is_list = !is_fixed && name.ends_with(".txt") && !name.contains(UNKNOWN);
            let is_here = || exists.is_some_and(|all| all.in_context(facts.file, path).is_some());
            is_list && is_of_clone(path) && !is_here()
        });
        let Some((_, path, line)) = list else { continue };
        if places.contains(&(line, OPEN)) {
            continue;
        }
        let name = path.rsplit('/').next().unwrap_or(&path);
        let message = format!("nothing fixes the versions that `{name}` of the clone leaves open");
        return found.hit(Hit::new(OPEN, line, message).help(
            "install with a constraints file of your own (`-c constraints.txt`) that has exact versions",
        ));
    }
}
