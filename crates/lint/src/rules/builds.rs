//! Rules for builds: their Dockerfiles, their status, links to libraries, and search paths.

use super::commands::join;
use super::folder::is_root;
use super::stages::{last_stages, parts};
use super::starts;
use super::variables::is_plain_base;
use crate::dockerfile::Instruction;
use crate::python::is_pip;
use crate::shell::{self, Scope, Setting, ShellCommand, UNKNOWN};
use crate::{Context, Exists, Facts, Findings, Hit, Kind};

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    for (at, command) in facts.commands.iter().enumerate() {
        let words: Vec<&str> = command.texts();
        match words[0].rsplit('/').next().unwrap_or_default() {
            "docker" | "podman" | "buildah" => {
                built(facts, command, context, found);
                copied(facts, at, &words, found);
            }
            "ln" => linked(command, found),
            _ => {}
        }
    }
    search_paths(facts, found);
    at_start(facts, context, found);
    cache_mounts(facts, found);
    foreign_mounts(facts, found);
    torchvision(facts, found);
}

/// Returns whether a command compiles torchvision in its folder.
fn compiles_vision(command: &ShellCommand) -> bool {
    let words = command.texts();
    let has = |wanted: &[&str]| words.iter().any(|word| wanted.contains(word));
    let is_folder = |word: &&str| {
        let is_own = matches!(*word, "." | "./") && command.folder.ends_with("vision");
        is_own || word.trim_end_matches('/').ends_with("/vision")
    };
    has(&["setup.py"]) && has(&["bdist_wheel", "develop", "install"])
        || is_pip(&words) && has(&["install", "wheel"]) && words.iter().any(is_folder)
}

/// Texts, in lower case, that switch the GPU on, or show that there is none from AMD.
const OTHER_VISION: [&str; 5] =
    ["force_cuda", "nvidia/cuda", "nvcr.io", "use_rocm=0", "target_device=cpu"];

/// Checks for a build of torchvision, which looks for a GPU unless a variable is set.
fn torchvision(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let lower = facts.code.to_ascii_lowercase();
    let has = |texts: &[&str]| texts.iter().any(|text| lower.contains(text));
    let is_for_rocm = facts.kind == Kind::Dockerfile && has(&["rocm"]) && !has(&OTHER_VISION);
    if !is_for_rocm || !facts.commands.iter().any(compiles_vision) {
        return;
    }
    let is_vision = |text: &str| {
        let text = text.to_ascii_lowercase();
        let path = text.trim_end_matches('/').trim_end_matches(".git");
        ["github.com/pytorch/vision", "github.com/rocm/vision"]
            .iter()
            .any(|end| path.ends_with(end))
    };
    let clones = facts.commands.iter().filter(|one| {
        let words = one.texts();
        words[0] == "git" && words.contains(&"clone") && words.iter().any(|word| is_vision(word))
    });
    for command in clones {
        let message = "without `FORCE_CUDA=1`, torchvision is compiled without operators for the GPU, because a build has none";
        let hit = Hit::new("cpu-package", command.words[0].line, message);
        found.hit(hit.help("set `FORCE_CUDA=1` for the build of torchvision"));
    }
}

/// Checks for commands of a container's start that install software.
fn at_start(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let name = facts.file.rsplit('/').next().unwrap_or(facts.file);
    let is_entrypoint = facts.kind == Kind::Shell
        && (name.contains("entrypoint") || starts::is_started(facts, context.exists));
    if facts.kind == Kind::Dockerfile {
        synced(facts, context.exists, found);
        return in_start(facts, context.exists, found);
    }
    if !is_entrypoint && !matches!(facts.kind, Kind::Compose | Kind::Manifest) {
        return;
    }
    if let Some((verb, program, line)) = facts.commands.iter().find_map(installs) {
        let message = format!("software is {verb} with `{program}` when the container starts");
        found.add("install-at-start", line, message);
    }
}

/// Returns what a command does, with its program and line, if it installs or fetches software.
fn installs(command: &ShellCommand) -> Option<(&'static str, String, usize)> {
    let words: Vec<&str> = command.texts();
    let program = words[0].rsplit('/').next().unwrap_or_default();
    let has = |wanted: &str| words.contains(&wanted);
    let is_package = |word: &&str| !word.starts_with(['-', '.', '/']) && !word.ends_with(".whl");
    let is_one = match program {
        "apt" | "apt-get" | "apk" | "dnf" | "yum" | "microdnf" => has("install") || has("add"),
        "git" => has("clone") || has("pull"),
        _ if is_pip(&words) => {
            let rest = words.iter().skip_while(|word| **word != "install").skip(1);
            has("install") && rest.copied().any(|word| is_package(&word))
        }
        _ => false,
    };
    let verb = if program == "git" { "fetched" } else { "installed" };
    is_one.then(|| (verb, program.to_owned(), command.words[0].line))
}

/// Checks for `uv run` at the start of an image from which the build has left out the development
/// packages: it installs what is missing.
fn synced(facts: &Facts<'_>, exists: Option<&dyn Exists>, found: &mut Findings<'_>) {
    let leaves_out = facts.commands.iter().any(|one| {
        let words = one.texts();
        words.starts_with(&["uv", "sync"]) && words.contains(&"--no-dev")
    });
    if !leaves_out || ["UV_NO_SYNC", "UV_NO_DEV"].iter().any(|name| facts.code.contains(name)) {
        return;
    }
    let list = exists.and_then(|files| files.in_context(facts.file, "pyproject.toml"));
    let is_group = |line: &str| {
        let key = line.split('=').next().unwrap_or_default().trim();
        key == "dev-dependencies" || key == "dev" && line.contains('[')
    };
    let has_group = list.is_some_and(|text| {
        let groups = text.contains("[dependency-groups]") || text.contains("[tool.uv]");
        groups && text.lines().any(is_group)
    });
    let all = facts.instructions();
    let stages = last_stages(facts, all);
    let is_start = |one: &&Instruction| {
        stages.contains(&one.stage) && matches!(&*parts(one).0, "CMD" | "ENTRYPOINT")
    };
    let syncs = |one: &&Instruction| {
        let commands = shell::commands("x.sh", &starts::command_text(parts(one).1));
        commands.iter().any(|command| {
            let words = command.texts();
            let after = words.windows(2).position(|two| two == ["uv", "run"]);
            let options = after.map_or(&[][..], |at| &words[at + 2..]);
            after.is_some()
                && !options
                    .iter()
                    .any(|word| matches!(*word, "--no-sync" | "--no-dev" | "--no-project"))
        })
    };
    if let Some(start) = all.iter().filter(is_start).filter(|_| has_group).find(syncs) {
        let message = "`uv run` installs the development packages, which the build left out, when the container starts";
        let hit = Hit::new("install-at-start", start.line, message);
        found.hit(hit.help("write `uv run --no-sync`, or `ENV UV_NO_SYNC=1`"));
    }
}

/// Checks the start of an image, and a script of the image that has no finding of its own.
fn in_start(facts: &Facts<'_>, exists: Option<&dyn Exists>, found: &mut Findings<'_>) {
    let all = facts.instructions();
    let stages = last_stages(facts, all);
    let own: Vec<&Instruction> = all.iter().filter(|one| stages.contains(&one.stage)).collect();
    for key in ["ENTRYPOINT", "CMD"] {
        let Some(start) = own.iter().rev().find(|one| parts(one).0 == key) else { continue };
        let commands = shell::commands("x.sh", &starts::command_text(parts(start).1));
        let mut message = commands.iter().find_map(installs).map(|(verb, program, _)| {
            format!("software is {verb} with `{program}` when the container starts")
        });
        let script = exists.and_then(|files| script_of(facts, &own, &commands, files));
        if let Some((name, text)) = script.filter(|_| message.is_none()) {
            let first = shell::commands("x.sh", &text).iter().find_map(installs);
            message = first.map(|(verb, program, line)| {
                format!(
                    "software is {verb} with `{program}` when the container starts (`{name}`, line {line})"
                )
            });
        }
        if let Some(message) = message {
            return found.add("install-at-start", start.line, message);
        }
    }
}

/// Returns the name and the text of a script that commands start, if it has no finding of its own.
fn script_of(
    facts: &Facts<'_>,
    own: &[&Instruction],
    commands: &[ShellCommand],
    files: &dyn Exists,
) -> Option<(String, String)> {
    let file = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let is_script = |word: &str| word.ends_with(".sh") || word.ends_with("entrypoint");
    let mut words = commands.iter().flat_map(|one| &one.words);
    let script = words.find(|word| is_script(&word.text))?;
    let name = file(&script.text);
    let image = file(facts.file);
    let is_reported = name.contains("entrypoint") || starts::DOCKERFILES.contains(&image.as_str());
    let text = starts::script_text(facts, own, &script.text, files).filter(|_| !is_reported)?;
    Some((name, text))
}

/// Checks `docker build … | tee LOG` in a script without `pipefail`.
fn copied(facts: &Facts<'_>, at: usize, words: &[&str], found: &mut Findings<'_>) {
    let command = &facts.commands[at];
    let next = facts.commands.get(at + 1).filter(|_| command.is_piped);
    let is_copied = next.is_some_and(|next| next.words[0].text == "tee");
    let is_kept = ["pipefail", "PIPESTATUS"].iter().any(|word| facts.code.contains(word));
    let is_build = words.iter().take(3).any(|word| matches!(*word, "build" | "bud"));
    if is_build && is_copied && !is_kept {
        let message = format!("`{} build | tee` succeeds even if the build fails", words[0]);
        found.add("build-status-lost", command.words[0].line, message);
    }
}

/// Checks that the Dockerfile that `docker build -f` names exists.
fn built(
    facts: &Facts<'_>,
    command: &ShellCommand,
    context: Context<'_>,
    found: &mut Findings<'_>,
) {
    let words: Vec<&str> = command.texts();
    let Some(exists) = context.exists.filter(|_| facts.kind == Kind::Shell) else { return };
    let is_known = !command.folder.contains([UNKNOWN, '~']);
    if !is_known || !words.iter().any(|word| matches!(*word, "build" | "bud")) {
        return;
    }
    let file = words.iter().enumerate().find_map(|(index, word)| match *word {
        "-f" | "--file" => words.get(index + 1).copied(),
        word => word.strip_prefix("--file="),
    });
    let Some(file) = file.filter(|file| !file.contains(UNKNOWN) && *file != "-") else { return };
    // podman also looks in the context, which is the last word.
    let in_context = words.last().map(|last| join(last, file));
    let places = [Some(file.to_owned()), Some(join(&command.folder, file)), in_context];
    if places.iter().flatten().all(|path| exists.exists(facts.file, path) == Some(false)) {
        let line = command.words[0].line;
        found.add(
            "missing-file",
            line,
            format!("`{file}` is used for a build, but does not exist"),
        );
    }
}

/// The variable with which pip uses no cache.
const OFF: &str = "PIP_NO_CACHE_DIR";

/// Options with which pip uses no cache.
const NO_CACHE: [&str; 2] = ["--no-cache-dir", "--no-cache"];

/// Checks for cache mounts of pip in instructions whose pip commands use no cache.
fn cache_mounts(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if facts.kind != Kind::Dockerfile || !facts.code.contains("type=cache") {
        return;
    }
    for own in facts.instructions() {
        let mut options = own.text.split_whitespace();
        let is_mount = |word: &str| {
            word.starts_with("--mount=") && word.contains("type=cache") && word.contains("/pip")
        };
        if !options.any(is_mount) {
            continue;
        }
        let is_inside = |one: &&ShellCommand| (own.line..=own.last).contains(&one.words[0].line);
        let fetches = |words: &Vec<&str>| {
            is_pip(words)
                && words[0] != "uv"
                && words.iter().any(|word| ["install", "download", "wheel"].contains(word))
        };
        let commands = facts.commands.iter().filter(is_inside).map(ShellCommand::texts);
        let fetching: Vec<Vec<&str>> = commands.filter(fetches).collect();
        let is_off = |words: &Vec<&str>| words.iter().any(|word| NO_CACHE.contains(word));
        if !fetching.is_empty() && fetching.iter().all(is_off) {
            let message = "with `--no-cache-dir`, pip does not use the cache that is mounted";
            let hit = Hit::new("cache-mount-unused", own.line, message);
            let is_off_everywhere = facts.code.contains(OFF);
            let help = format!("remove `--no-cache-dir`, and `{OFF}` too");
            found.hit(if is_off_everywhere { hit.help(help) } else { hit });
        }
    }
}

/// Checks for cache mounts in the home folder of root in instructions that another user runs.
fn foreign_mounts(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if facts.kind != Kind::Dockerfile || !facts.code.contains("type=cache") {
        return;
    }
    let mut user: Option<&str> = None;
    for own in facts.instructions() {
        let mut words = own.text.split_whitespace();
        match words.next().unwrap_or_default().to_ascii_uppercase().as_str() {
            "FROM" => user = None,
            "USER" => user = words.next(),
            "RUN" => {
                let is_roots = |word: &&str| {
                    word.starts_with("--mount=")
                        && word.contains("type=cache")
                        && ["target=/root/", "dst=/root/"].iter().any(|one| word.contains(one))
                };
                let is_given = ["sudo", "CACHE_DIR", "cache-dir"];
                let is_given = is_given.iter().any(|one| own.text.contains(one))
                    || facts.text.contains("_CACHE_DIR")
                    || facts.text.contains("HOME=/root");
                let is_other = |name: &&str| !is_root(name) && !name.contains('$') && !is_given;
                let other = user.filter(is_other);
                if let Some(name) = other.filter(|_| words.any(|word| is_roots(&word))) {
                    let message =
                        format!("`{name}` does not use the cache in /root that is mounted");
                    let hit = Hit::new("cache-mount-unused", own.line, message);
                    return found.hit(hit.help(format!(
                        "mount it into the home folder of `{name}`, with `uid=` and `gid=`"
                    )));
                }
            }
            _ => {}
        }
    }
}

/// Returns the name and the major version in the file name of a library: `librocblas.so.4.3`.
fn library(path: &str) -> Option<(&str, &str)> {
    let file = path.rsplit('/').next().unwrap_or(path);
    let (name, version) = file.split_once(".so.")?;
    let major = version.split('.').next()?;
    let is_number = !major.is_empty() && major.bytes().all(|byte| byte.is_ascii_digit());
    (name.starts_with("lib") && !file.contains(UNKNOWN) && is_number).then_some((name, major))
}

/// Checks `ln -s liba.so.4 liba.so.5`.
fn linked(command: &ShellCommand, found: &mut Findings<'_>) {
    let words: Vec<_> =
        command.words.iter().skip(1).filter(|word| !word.text.starts_with('-')).collect();
    let [target, link] = words.as_slice() else { return };
    let (Some(old), Some(new)) = (library(&target.text), library(&link.text)) else { return };
    if old.0 == new.0 && old.1 != new.1 {
        let message = format!("`{}.so.{}` is a link to `{}.so.{}`", new.0, new.1, old.0, old.1);
        found.add("library-other-version", link.line, message);
    }
}

/// Checks for empty parts of search paths, which stand for the current folder.
fn search_paths(facts: &Facts<'_>, found: &mut Findings<'_>) {
    for setting in facts.settings.iter().filter(|one| is_search_path(one)) {
        let Setting { name, value, line, .. } = setting;
        let is_empty = |part: &str| part.is_empty();
        // The last place matters only for what no earlier folder has: seldom for a library.
        let front = value.strip_suffix(':').filter(|_| name != "PATH").unwrap_or(value);
        let has_empty = front.contains(':') && front.split(':').any(is_empty);
        if has_empty || is_unset(facts, setting) {
            let message = format!("`{name}` contains the current folder, as an empty part");
            found.add("search-path-open", *line, message);
        }
    }
}

/// Returns whether a setting is a search path that programs see in every run.
fn is_search_path(setting: &Setting) -> bool {
    matches!(&*setting.name, "PATH" | "LD_LIBRARY_PATH" | "PYTHONPATH")
        && setting.scope == Scope::Image
}

/// Returns whether a part of a search path is a variable that nothing sets.
fn is_unset(facts: &Facts<'_>, setting: &Setting) -> bool {
    let Setting { name, value, line, stage, .. } = setting;
    let is_missing = facts
        .missing
        .iter()
        .any(|one| one.name == *name && one.stage == *stage && one.line.abs_diff(*line) <= 1);
    // A stage can be based on an earlier one.
    let is_first = !facts.settings.iter().any(|one| one.name == *name && one.line < *line);
    let is_part = value.split(':').count() > 1
        && value.split(':').any(|part| part.chars().eq(std::iter::once(UNKNOWN)));
    matches!(name.as_str(), "LD_LIBRARY_PATH" | "PYTHONPATH")
        && is_missing
        && is_first
        && is_part
        && is_plain_base(facts, *stage)
}
