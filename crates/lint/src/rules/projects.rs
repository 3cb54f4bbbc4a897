//! Rules for a Python project that a Dockerfile copies and installs: what its `pyproject.toml` says
//! against the image.

use super::commands::{join, plain};
use super::pythons;
use super::requirements::{FEWEST, is_settled, replaces, torch_of_base};
use super::stages::{instruction_of, parts};
use crate::data::matches;
use crate::dockerfile::Instruction;
use crate::pyproject::{self, Project, normal};
use crate::python::{is_pip, takes_value};
use crate::shell::ShellCommand;
use crate::specifier::{allows, requirement};
use crate::{Context, Exists, Facts, Findings, Hit, Kind, Severity};

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let Some(exists) = context.exists.filter(|_| facts.kind == Kind::Dockerfile) else { return };
    secrets(facts, exists, found);
    // The project can be another one.
    if facts.code.contains("git clone") {
        return;
    }
    let all = facts.instructions();
    for command in &facts.commands {
        let Some(install) = install(command) else { continue };
        let own = instruction_of(all, command.words[0].line);
        let Some(own) = own.filter(|own| !own.text.contains("cd ")) else { continue };
        let Some(copied) = copied(all, own, install.target) else { continue };
        let Some(text) = exists.in_context(facts.file, &copied.path) else { continue };
        let Some(project) = pyproject::read(&text) else { continue };
        let place = Place { facts, all, command, own };
        extras(&install, &project, found);
        python(&place, &project, found);
        torch(&place, &project, found);
        if !project.has_uv {
            let required = (project.dependencies.as_slice(), install.line);
            super::transitive::of_project(facts, context, required, found);
        }
        readme(&place, &copied, &project, exists, found);
        versions(&place, &install, &project, found);
    }
}

/// Checks for a project most of whose packages have no version.
fn versions(place: &Place<'_>, install: &Install<'_>, project: &Project, found: &mut Findings<'_>) {
    let words = place.command.texts();
    let is_settled = is_settled(&words) || words.contains(&"--no-deps") || words[0] == "uv";
    let all: Vec<_> = project.dependencies.iter().filter_map(|one| requirement(one)).collect();
    let open = all.iter().filter(|one| one.is_open()).count();
    let is_said = || found.places().contains(&(install.line, "index-unpinned"));
    if is_settled || all.len() < FEWEST || open * 2 <= all.len() || is_said() {
        return;
    }
    let message = format!(
        "`pyproject.toml` gives no version, or only the oldest one, for {open} of {} packages",
        all.len()
    );
    found.hit(
        Hit::new("index-unpinned", install.line, message)
            .help("install with a constraints file that has exact versions, or from a lock"),
    );
}

/// A command that installs a project, with its place.
struct Place<'f> {
    facts: &'f Facts<'f>,
    all: &'f [Instruction],
    command: &'f ShellCommand,
    own: &'f Instruction,
}

/// What a command installs: `pip install -e .[dev]`.
struct Install<'c> {
    /// The folder: `.` or an absolute path.
    target: &'c str,
    extras: Vec<&'c str>,
    line: usize,
}

/// Returns the project that a command installs.
fn install(command: &ShellCommand) -> Option<Install<'_>> {
    let words = command.texts();
    let at = words.iter().position(|word| *word == "install").filter(|_| is_pip(&words))?;
    let takes = |option: &str| takes_value(option) && !matches!(option, "-e" | "--editable");
    let pairs = command.words.windows(2).skip(at);
    pairs.filter(|two| !takes(&two[0].text)).find_map(|two| {
        let word = &two[1];
        let text = word.text.strip_prefix("-e").unwrap_or(&word.text);
        let (target, extras) = text
            .strip_suffix(']')
            .map_or((text, ""), |text| text.split_once('[').unwrap_or((text, "")));
        let is_folder = matches!(target, "." | "./")
            || target.starts_with('/') && !target.contains('.') && target.len() > 1;
        is_folder.then(|| Install {
            target: if target == "./" { "." } else { target },
            extras: extras.split(',').map(str::trim).filter(|one| !one.is_empty()).collect(),
            line: word.line,
        })
    })
}

/// A copy of a project into the image.
struct Copied {
    /// The path of its `pyproject.toml` in the folder of the Dockerfile.
    path: String,
    /// Whether the whole folder is copied.
    is_whole: bool,
}

/// Returns the words of a copy without options; `None` for a copy from another stage.
fn copy_words(one: &Instruction) -> Option<Vec<&str>> {
    let (name, rest) = parts(one);
    let is_copy = matches!(name.as_str(), "COPY" | "ADD") && !rest.contains("--from=");
    let split = rest.split(|c: char| c.is_whitespace() || matches!(c, '[' | ']' | ',' | '"'));
    let words = split.filter(|word| !word.is_empty() && !word.starts_with("--"));
    is_copy.then(|| words.collect())
}

/// Returns the copy that brings the project which an instruction installs.
fn copied(all: &[Instruction], own: &Instruction, target: &str) -> Option<Copied> {
    let before = all.iter().filter(|one| one.stage == own.stage && one.line < own.line);
    let mut place = "/".to_owned();
    let mut found = None;
    for one in before {
        let (name, rest) = parts(one);
        if name == "WORKDIR" {
            place = join(&place, rest.trim());
        }
        let words = copy_words(one).unwrap_or_default();
        let Some((last, sources)) = words.split_last() else { continue };
        let folder = plain(&join(&place, last.strip_suffix(PROJECT).unwrap_or(last)));
        for source in sources {
            let is_whole = matches!(*source, "." | "./");
            if is_whole || source.rsplit('/').next() == Some(PROJECT) {
                let path = if is_whole { PROJECT } else { source };
                found = Some((Copied { path: path.to_owned(), is_whole }, folder.clone()));
            }
        }
    }
    let wanted = plain(&join(&place, target));
    found.filter(|(_, folder)| *folder == wanted).map(|(copied, _)| copied)
}

/// The file that describes a project.
const PROJECT: &str = "pyproject.toml";

/// Checks for extras that the project does not define.
fn extras(install: &Install<'_>, project: &Project, found: &mut Findings<'_>) {
    let Some(known) = &project.extras else { return };
    let is_unknown = |extra: &&&str| !extra.contains('$') && !known.contains(&normal(extra));
    let unknown: Vec<String> =
        install.extras.iter().filter(is_unknown).map(|extra| format!("`{extra}`")).collect();
    if !unknown.is_empty() && unknown.iter().all(|one| one.is_ascii()) {
        let verb = if unknown.len() == 1 { "the extra" } else { "the extras" };
        let message = format!("`pyproject.toml` does not define {verb} {}", unknown.join(", "));
        let hit = Hit::new("extra-removed", install.line, message);
        found.hit(hit.help("define the extra in `[project.optional-dependencies]`, or remove it"));
    }
}

/// Checks for a project that needs another Python than the base image has.
fn python(place: &Place<'_>, project: &Project, found: &mut Findings<'_>) {
    if place.command.texts().contains(&"--ignore-requires-python") {
        return;
    }
    let own = pythons::python(place.facts, place.all, place.own.stage);
    let (Some(wanted), Some(own)) = (&project.python, own) else { return };
    let text = format!("python{wanted}");
    let Some(read) = requirement(&text) else { return };
    // A patch release that the tag does not name must not decide.
    let is_decided = read.clauses().all(|(operator, version)| {
        matches!(operator, ">=" | "<") && version.split('.').count() == 2
    });
    if is_decided && allows(read.clauses(), own.version) == Some(false) {
        let message = format!(
            "`pyproject.toml` needs Python {wanted}, but `{}` has Python {}",
            own.base, own.version
        );
        found.add("python-other", place.command.words[0].line, message);
    }
}

/// Checks for a project that requires another torch than the base image has.
fn torch(place: &Place<'_>, project: &Project, found: &mut Findings<'_>) {
    let Some(torch) = torch_of_base(place.facts, place.command) else { return };
    // uv reads its indexes, and pip does not.
    if project.has_uv && place.command.words[0].text == "uv" {
        return;
    }
    let all = project.dependencies.iter().filter_map(|one| requirement(one));
    let mut messages = all.filter_map(|one| replaces(&one, torch, "pyproject.toml"));
    if let Some(message) = messages.next() {
        let line = place.command.words[0].line;
        let hit = Hit::new("torch-replaced", line, message).at_most(Severity::Warning);
        found.hit(
            hit.help("require the torch of the base image, or choose a base image that has it"),
        );
    }
}

/// Programs that need the file with the description to build a package. setuptools only warns.
const NEED_README: [&str; 5] = ["flit_core", "hatchling", "pdm.backend", "poetry.core", "uv_build"];

/// Checks for a project whose description is not copied.
fn readme(
    place: &Place<'_>,
    copied: &Copied,
    project: &Project,
    exists: &dyn Exists,
    found: &mut Findings<'_>,
) {
    let Place { facts, all, own, .. } = place;
    let backend = project.backend.as_deref().unwrap_or_default();
    let is_needed = NEED_README.iter().any(|one| backend.starts_with(one));
    let Some(readme) = project.readme.as_deref().filter(|_| is_needed) else { return };
    let line = place.command.words[0].line;
    if copied.is_whole {
        let name = facts.file.rsplit('/').next().unwrap_or(facts.file);
        let ignored = exists.text(facts.file, &format!("{name}.dockerignore"));
        let ignored = ignored.or_else(|| exists.in_context(facts.file, ".dockerignore"));
        if ignored.is_some_and(|text| ignores(&text, readme)) {
            let message =
                format!("`.dockerignore` excludes `{readme}`, which `pyproject.toml` names");
            let hit = Hit::new("missing-file", line, message);
            found.hit(hit.help(format!("write `!{readme}` at the end of `.dockerignore`")));
        }
        return;
    }
    let name = readme.rsplit('/').next().unwrap_or(readme);
    let stem = name.split('.').next().unwrap_or(name);
    let before = all.iter().filter(|one| one.stage == own.stage && one.line < own.line);
    let may_have = |one: &Instruction| {
        let rest = parts(one).1;
        let is_made = parts(one).0 == "RUN" && rest.contains(stem);
        let is_based = rest.contains("--from=") || parts(one).0 == "COPY" && rest.contains('$');
        let words = copy_words(one).unwrap_or_default();
        let is_copied = words.iter().any(|word| {
            word.contains(stem)
                || word.contains('*') && matches(word, name)
                || matches!(*word, "*" | "*.*")
        });
        is_made || is_based || is_copied
    };
    let mounts = own.text.contains("--mount") || own.text.contains(stem);
    let is_stage = super::stages::parent(facts, all, own.stage).is_some();
    if !before.into_iter().any(may_have) && !mounts && !is_stage {
        let message = format!("`{readme}`, which `pyproject.toml` names, is not copied");
        let hit = Hit::new("missing-file", line, message);
        found.hit(hit.help(format!(
            "copy it as well: without `{readme}`, `{}` cannot build the package",
            backend.split('.').next().unwrap_or(backend)
        )));
    }
}

/// Files from which people make the file `.env`.
const EXAMPLES: [&str; 5] = [".env", ".env.example", ".env.sample", ".env.template", "env.example"];

/// Parts of the names of variables that are secret.
const SECRET: [&str; 4] = ["KEY", "PASS", "SECRET", "TOKEN"];

/// Checks for a copy of the whole folder with the file `.env`.
fn secrets(facts: &Facts<'_>, exists: &dyn Exists, found: &mut Findings<'_>) {
    let all = facts.instructions();
    let stages = super::stages::last_stages(facts, all);
    let is_whole = |one: &&Instruction| {
        let words = copy_words(one).unwrap_or_default();
        stages.contains(&one.stage)
            && matches!(words.as_slice(), ["." | "./", _])
            && !one.text.contains("--exclude")
    };
    let Some(copy) = all.iter().find(is_whole) else { return };
    let name = facts.file.rsplit('/').next().unwrap_or(facts.file);
    let ignored = exists.text(facts.file, &format!("{name}.dockerignore"));
    let ignored = ignored.or_else(|| exists.in_context(facts.file, ".dockerignore"));
    // The top of a repository has all its files.
    let git = exists.text(facts.file, ".gitignore");
    let is_missing = match exists.exists(facts.file, ".dockerignore") {
        Some(is_there) => !is_there,
        None => git.is_some(),
    };
    let is_copied = ignored.map_or(is_missing, |text| !ignores(&text, ".env"));
    let has_secret = |text: &str| {
        let names = text.lines().filter_map(|line| line.split_once('=')).map(|(own, _)| own);
        names.into_iter().any(|own| SECRET.iter().any(|part| own.contains(part)))
    };
    let file = EXAMPLES
        .iter()
        .find(|file| exists.text(facts.file, file).is_some_and(|text| has_secret(&text)));
    let has_file = || exists.exists(facts.file, ".git") == Some(true);
    let names_file =
        facts.text.contains("--env-file") || git.is_some_and(|text| ignores(&text, ".env"));
    let has_git_only = file.is_none() && is_missing && is_copied && (names_file || has_file());
    if has_git_only && !facts.code.contains("rm -rf .git") {
        let message =
            "no `.dockerignore` excludes `.git` and a local `.env`, so the image gets them too";
        let hit = Hit::new("password-in-file", copy.line, message).at_most(Severity::Information);
        return found.hit(hit.help("write a `.dockerignore` with `.git` and `.env`"));
    }
    if let Some(file) = file.filter(|_| is_copied && !facts.code.contains(".env")) {
        let message = match *file {
            ".env" => "`.env` with its secrets becomes part of the image".to_owned(),
            file => format!("a `.env` made from `{file}` becomes part of the image"),
        };
        let hit = Hit::new("password-in-file", copy.line, message).at_most(Severity::Information);
        found.hit(hit.help("write `.env` in `.dockerignore`"));
    }
}

/// Returns whether `.dockerignore` or `.gitignore` excludes a file at the top of the folder.
pub(super) fn ignores(text: &str, name: &str) -> bool {
    let mut is_ignored = false;
    for line in
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (pattern, excludes) = match line.strip_prefix('!') {
            Some(pattern) => (pattern, false),
            None => (line, true),
        };
        let pattern = pattern.trim_start_matches("**/").trim_matches('/');
        if !pattern.contains('/') && matches(pattern, name) {
            is_ignored = excludes;
        }
    }
    is_ignored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_pattern_decides() {
        for (text, expected) in [
            ("*.md\n", true),
            ("**/*.md\n", true),
            ("*.md\n!README.md\n", false),
            ("docs/*.md\n", false),
            ("# *.md\n", false),
        ] {
            assert_eq!(ignores(text, "README.md"), expected, "{text}");
        }
    }
}
