//! Paths that certainly do not exist when a command or instruction of a build uses them, or when the
//! container starts.

use super::stages::{last_stages, parts};
use super::starts::command_text;
use crate::dockerfile::Instruction;
use crate::facts::numbered;
use crate::image::effects::{Effect, absolute, base_name, operands, value};
use crate::image::files::{Presence, parent};
use crate::image::{State, Step};
use crate::python::is_pip;
use crate::shell::{ShellCommand, UNKNOWN, commands};
use crate::{Context, Facts, Findings, Hit, Severity};

/// Checks one step of a build.
pub(super) fn at(
    facts: &Facts<'_>,
    context: Context<'_>,
    state: &State,
    step: &Step<'_>,
    found: &mut Findings<'_>,
) {
    match step {
        Step::Command { own, command, effects, is_sure: true } => {
            useless(state, command, found);
            repeated(command, found);
            without_project(state, command, found);
            let Some((path, is_folder)) = missing(state, command, effects) else { return };
            let line = command.words[0].line;
            let message = format!("`{path}` does not exist here");
            let hit = Hit::new("path-absent", line, message);
            let hit = match (copied_later(facts, own, &path), other_list(facts, own, &path)) {
                (Some(later), _) if !is_folder => {
                    hit.help(format!("move the copy in line {later} before this command"))
                }
                (_, Some(other)) => hit.help(format!("install `{other}`, which is copied")),
                _ => hit,
            };
            let may_go_on = own.text.contains(';');
            found.hit(if may_go_on { hit.at_most(Severity::Warning) } else { hit });
        }
        Step::Copy { own, copy, from: Some(from) } => {
            let is_absent = |path: &&String| {
                let path = absolute("/", "", path);
                from.files.find(&path) == Presence::Absent
            };
            let name = copy.from.as_deref().unwrap_or_default();
            if let Some(source) = copy.sources.iter().find(is_absent) {
                let message = format!("the stage `{name}` has no `{source}`");
                found.add("path-absent", own.line, message);
            }
        }
        Step::End { stage } if *stage == facts.stages.len() => {
            started(facts, context, state, found);
        }
        _ => {}
    }
}

/// Files of which a Python project has at least one.
const PROJECT: [&str; 3] = ["pyproject.toml", "setup.py", "setup.cfg"];

/// Checks for the installation of a project whose own files are not copied.
fn without_project(state: &State, command: &ShellCommand, found: &mut Findings<'_>) {
    let words = command.texts();
    let is_project = |word: &&str| matches!(word.split('[').next(), Some("." | "./"));
    let Some(project) = words.iter().copied().find(is_project) else { return };
    if !is_pip(&words) || !words.contains(&"install") {
        return;
    }
    let folder = state.folder_of(command);
    let is_absent =
        |name: &&str| state.files.find(&absolute(&folder, "", name)) == Presence::Absent;
    if !folder.is_empty() && PROJECT.iter().all(is_absent) {
        let message = format!(
            "`{folder}` has neither `pyproject.toml` nor `setup.py`, which `{project}` needs"
        );
        let hit = Hit::new("path-absent", command.words[0].line, message);
        found.hit(hit.help("copy the project's `pyproject.toml` before this command"));
    }
}

/// Returns the only other list of requirements that an earlier instruction of the stage copies.
fn other_list<'f>(facts: &'f Facts<'_>, own: &Instruction, path: &str) -> Option<&'f str> {
    let before = |one: &&Instruction| {
        one.stage == own.stage && one.line < own.line && matches!(&*parts(one).0, "COPY" | "ADD")
    };
    let all = facts.instructions().iter().filter(before);
    let words = all.flat_map(|one| one.text.split_whitespace());
    let mut lists = words.filter(|word| word.ends_with(".txt") && path.ends_with(".txt"));
    lists.next().map(base_name).filter(|_| lists.next().is_none())
}

/// Checks for a list of requirements whose path repeats the folder that `cd` has entered:
/// `cd a && pip install -r a/requirements.txt`.
fn repeated(command: &ShellCommand, found: &mut Findings<'_>) {
    let words = command.texts();
    let inside = base_name(command.folder.trim_end_matches('/'));
    let is_repeated = |path: &&str| {
        let rest = path.strip_prefix(inside).and_then(|rest| rest.strip_prefix('/'));
        rest.is_some_and(|rest| rest.starts_with("requirements") && !rest.contains('/'))
    };
    let list = needed(command).into_iter().find(is_repeated);
    if let Some(path) = list.filter(|_| is_pip(&words) && !inside.is_empty()) {
        let message = format!("`{path}` is looked for in `{inside}`, so it is `{inside}/{path}`");
        found.add("path-absent", command.words[0].line, message);
    }
}

/// Variables that name the folder of a cache, and the folder without the variable.
const CACHES: [(&str, &str); 5] = [
    ("HF_HOME", ".cache/huggingface"),
    ("HF_HUB_CACHE", ".cache/huggingface/hub"),
    ("PIP_CACHE_DIR", ".cache/pip"),
    ("TORCH_HOME", ".cache/torch"),
    ("UV_CACHE_DIR", ".cache/uv"),
];

/// Checks for the removal of something that is in another place.
fn useless(state: &State, command: &ShellCommand, found: &mut Findings<'_>) {
    let words = command.texts();
    let is_recursive = words[1..].iter().any(|word| word.starts_with('-') && word.contains('r'));
    if words[0] != "rm" || !is_recursive {
        return;
    }
    for path in operands(&words, &[]) {
        let full = state.path(command, path.trim_end_matches(['*', '/']));
        let other = CACHES.iter().find_map(|(name, folder)| {
            let (place, _) = state.variables.of_image(name)?;
            let is_default = full.strip_suffix(folder).is_some_and(|home| home.ends_with('/'));
            (is_default && !place.contains(UNKNOWN) && !place.starts_with(&full))
                .then_some((name, place))
        });
        let line = command.words[0].line;
        if let Some((name, place)) = other {
            let message = format!("`{path}` is empty: `{name}` is `{place}`");
            return found.add("removal-useless", line, message);
        }
        if is_plain(&full)
            && state.files.find(&full) == Presence::Absent
            && !state.files.is_removed(&full)
        {
            let message = format!("`{path}` does not exist here, so nothing is removed");
            return found.add("removal-useless", line, message);
        }
    }
}

/// Returns a path that a command needs and that certainly does not exist, as the file names it, and
/// whether it is the working directory of the command.
fn missing(state: &State, command: &ShellCommand, effects: &[Effect]) -> Option<(String, bool)> {
    let is_absent = |path: &str| state.files.find(path) == Presence::Absent;
    let folder = state.folder_of(command);
    if !command.folder.is_empty() && folder != state.last && is_absent(&folder) {
        return Some((folder, true));
    }
    let own = |path: &&str| is_plain(path) && is_absent(&state.path(command, path));
    if let Some(path) = needed(command).into_iter().find(own) {
        let shown = state.path(command, path);
        return Some((shown, false));
    }
    // A new file needs its folder.
    let above = effects.iter().find_map(|effect| {
        let (Effect::File(path) | Effect::Folder { path, has_parents: false }) = effect else {
            return None;
        };
        let path = state.path(command, path);
        let above = parent(&path).filter(|_| is_plain(&path))?;
        is_absent(above).then(|| above.to_owned())
    });
    above.map(|path| (path, true))
}

/// Returns whether a word is a path without variables and patterns.
fn is_plain(path: &str) -> bool {
    !path.is_empty() && !path.contains(['*', '?', '[', '{', '$', UNKNOWN, ':', '<', '>', '=', ' '])
}

/// Ends of the names of archives.
const ARCHIVES: [&str; 8] = [".gz", ".tgz", ".tar", ".xz", ".bz2", ".zst", ".zip", ".7z"];

/// Returns the paths that must exist so that a command succeeds.
fn needed(command: &ShellCommand) -> Vec<&str> {
    let words = command.texts();
    let first = words[0];
    let program = base_name(first);
    let plain = || operands(&words, &[]);
    let is_archive = |word: &&str| ARCHIVES.iter().any(|end| word.ends_with(end));
    let mut all = Vec::new();
    if first.starts_with("./") || first.starts_with("../") || first.starts_with('/') {
        all.push(first);
    }
    if is_pip(&words) {
        let is_list = |two: &[&str]| matches!(two[0], "-r" | "--requirement" | "-c");
        all.extend(words.windows(2).filter(|two| is_list(two)).map(|two| two[1]));
        return all;
    }
    match program {
        "source" | "." => all.extend(words.get(1).filter(|path| path.contains('/'))),
        "bash" | "sh" | "zsh" => {
            let script = words.get(1).filter(|word| !word.starts_with('-'));
            all.extend(script.filter(|script| script.ends_with(".sh") || script.contains('/')));
        }
        _ if program.starts_with("python") => {
            let script = words.get(1).filter(|word| word.ends_with(".py"));
            all.extend(script.filter(|script| !script.starts_with('-')));
        }
        "chmod" | "chown" => {
            let is_reference = words.iter().any(|word| word.starts_with("--reference"));
            all.extend(plain().into_iter().skip(1).filter(|_| !is_reference));
        }
        "cp" | "mv" if value(&words, &["-t"]).is_none() => {
            let mut sources = plain();
            sources.pop();
            all.extend(sources);
        }
        "tar" | "bsdtar" | "unzip" => {
            let unpacks = program != "tar"
                || words[1..].iter().any(|word| {
                    matches!(*word, "--extract" | "--get")
                        || word.contains('x')
                            && !word.starts_with("--")
                            && !word.contains(['/', '.'])
                });
            all.extend(plain().into_iter().filter(is_archive).take(1).filter(|_| unpacks));
            all.extend(value(&words, &["-C", "--directory"]).filter(|_| program == "tar"));
        }
        "dpkg" if words.contains(&"-i") => all.extend(plain()),
        "apt" | "apt-get" if words.contains(&"install") => {
            all.extend(plain().into_iter().filter(|word| word.starts_with(['.', '/'])));
        }
        "cat" | "patch" if program == "cat" => all.extend(plain()),
        "cmake" => all.extend(value(&words, &["-S", "--build", "--install"])),
        "make" | "ninja" => all.extend(value(&words, &["-C"])),
        "git" => all.extend(value(&words[..words.len().min(3)], &["-C"])),
        _ => {}
    }
    all
}

/// Returns the line of a later instruction that copies a file with this name.
fn copied_later(facts: &Facts<'_>, own: &Instruction, path: &str) -> Option<usize> {
    let name = base_name(path);
    let later = facts.instructions().iter().filter(|one| one.line > own.line);
    let mut copies = later.filter(|one| matches!(parts(one).0.as_str(), "COPY" | "ADD"));
    let names_it =
        |one: &&Instruction| one.text.split_whitespace().any(|word| base_name(word) == name);
    copies.find(names_it).map(|one| one.line)
}

/// Checks the program that the container starts, and its script.
fn started(facts: &Facts<'_>, context: Context<'_>, state: &State, found: &mut Findings<'_>) {
    let all = facts.instructions();
    let stages = last_stages(facts, all);
    let last = |name: &str| {
        let mut own = all.iter().rev().filter(|one| stages.contains(&one.stage));
        own.find(|one| parts(one).0 == name)
    };
    let Some(start) = last("ENTRYPOINT").or_else(|| last("CMD")) else { return };
    let text = state.variables.expand(&command_text(parts(start).1));
    if ends_at_once(&text) {
        let message = "the container ends at once: its command only prepares a shell";
        found.add("container-ends", start.line, message);
    }
    let first = commands("x.sh", &text).into_iter().find(|one| one.words[0].text != "set");
    let Some(mut command) = first.filter(|one| one.operator != crate::shell::Operator::Or) else {
        return;
    };
    if command.folder.is_empty() {
        command.folder.clone_from(&state.folder);
    }
    let is_absent = |path: &&str| {
        let path = absolute(&command.folder, &state.home(), path);
        is_plain(&path)
            && state.files.find(&path) == Presence::Absent
            && !is_mounted(facts, context, &path)
    };
    if let Some(path) = needed(&command).into_iter().find(is_absent) {
        let shown = absolute(&command.folder, &state.home(), path);
        let message = format!("the image has no `{shown}`, which the container starts");
        found.add("script-missing", start.line, message);
    }
}

/// Returns whether a script does nothing other than to prepare its own shell.
fn ends_at_once(script: &str) -> bool {
    let all = commands("x.sh", script);
    let prepares = |one: &ShellCommand| {
        let words = one.texts();
        matches!(words[0], "source" | "." | "set" | "conda" | "module")
            && (words[0] != "conda" || words.get(1) == Some(&"activate"))
    };
    !all.is_empty() && all.iter().all(prepares) && !script.contains("exec")
}

/// Returns whether a compose file or script beside the Dockerfile, or a comment in it, mounts a folder
/// that may contain a path.
fn is_mounted(facts: &Facts<'_>, context: Context<'_>, path: &str) -> bool {
    let above = parent(path).filter(|above| *above != "/").unwrap_or(path);
    let names = |text: &str| numbered(text).any(|(_, line)| line.contains(&format!(":{above}")));
    let Some(files) = context.exists else { return names(facts.text) };
    names(facts.text)
        || files.compose_files(facts.file).iter().any(|text| names(text))
        || files.beside(facts.file).iter().any(|(_, text)| names(text))
}
