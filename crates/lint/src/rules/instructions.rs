//! Rules for the form of a Dockerfile's instructions: unknown ones, lists that are not JSON, and `CMD`
//! in place of `RUN`.

use super::commands::join;
use super::stages::{is_known_base, last_stages, parts};
use crate::dockerfile::Instruction;
use crate::shell::Scope;
use crate::{Facts, Findings, Hit, Kind, Severity};

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if facts.kind != Kind::Dockerfile || is_template(facts) {
        return;
    }
    let all = facts.instructions();
    unknown(all, found);
    for own in all {
        list(own, found);
        doubled(own, found);
        shell_in_copy(own, found);
    }
    frontend(facts, found);
    started(facts, all, found);
    without_file(facts, all, found);
    shell_variables(facts, all, found);
}

/// Variables that a shell has, and the builder does not.
const SHELL_VARIABLES: [&str; 3] = ["HOME", "PWD", "USER"];

/// Checks for a variable of a shell in an instruction that no shell reads. The first one is enough.
fn shell_variables(facts: &Facts<'_>, all: &[Instruction], found: &mut Findings<'_>) {
    let is_set = |name: &str| {
        let mut own = facts.settings.iter();
        own.any(|one| one.name == name && matches!(one.scope, Scope::Image | Scope::Argument))
    };
    // Other images may set them.
    let is_known = |stage: usize| {
        let is_vendor = |base: &str| {
            let path = super::image_path(base);
            ["nvidia/cuda", "rocm/"].iter().any(|start| path.starts_with(start))
        };
        is_known_base(facts, stage) || facts.base(stage).is_some_and(|one| is_vendor(&one.base))
    };
    let names: Vec<&str> = SHELL_VARIABLES.into_iter().filter(|name| !is_set(name)).collect();
    for own in all {
        let (instruction, rest) = parts(own);
        if !matches!(&*instruction, "ADD" | "COPY" | "ENV" | "WORKDIR") || rest.contains("<<") {
            continue;
        }
        let used = names.iter().find(|name| uses(rest, name));
        if let Some(name) = used.filter(|name| **name == "PWD" || is_known(own.stage)) {
            let message = format!("`${name}` is a variable of a shell, and empty here");
            let hit = Hit::new("builder-variable", own.line, message);
            let is_sure = *name == "PWD";
            return found.hit(if is_sure { hit } else { hit.at_most(Severity::Information) });
        }
    }
}

/// Returns whether the builder replaces `$NAME` or `${NAME}` in a text.
fn uses(text: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name = |rest: &str| {
        let braced = rest.strip_prefix('{').and_then(|inner| inner.strip_prefix(name));
        braced.is_some_and(|end| end.starts_with('}'))
            || rest.strip_prefix(name).is_some_and(|end| !end.starts_with(is_word))
    };
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            '$' if !is_quoted && !is_escaped && is_name(&text[at + 1..]) => return true,
            '\'' => is_quoted = !is_quoted,
            _ => {}
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    false
}

/// The instructions of Dockerfiles.
const INSTRUCTIONS: [&str; 18] = [
    "ADD",
    "ARG",
    "CMD",
    "COPY",
    "ENTRYPOINT",
    "ENV",
    "EXPOSE",
    "FROM",
    "HEALTHCHECK",
    "LABEL",
    "MAINTAINER",
    "ONBUILD",
    "RUN",
    "SHELL",
    "STOPSIGNAL",
    "USER",
    "VOLUME",
    "WORKDIR",
];

/// Texts of templates, from which another program makes the Dockerfile.
const TEMPLATES: [&str; 7] = ["{{", "{%", "<%", "%(", "\n#include", "\n#if", "INCLUDE"];

/// Returns whether another program reads the file first, or the builder reads it in another way.
fn is_template(facts: &Facts<'_>) -> bool {
    let directives = facts.text.lines().take_while(|line| line.trim_start().starts_with('#'));
    let is_other = directives.into_iter().any(|line| {
        let text: String = line.to_ascii_lowercase().split_whitespace().collect();
        let syntax = text.strip_prefix("#syntax=");
        text.starts_with("#escape=") || syntax.is_some_and(|name| !name.contains("/dockerfile"))
    });
    is_other || TEMPLATES.iter().any(|mark| facts.text.contains(mark))
}

/// Checks for a line that is no instruction, because `RUN` or the backslash above is missing. The
/// builder stops at the first one.
fn unknown(all: &[Instruction], found: &mut Findings<'_>) {
    let is_known = |one: &Instruction| {
        INSTRUCTIONS.contains(&parts(one).0.as_str()) || one.text.trim().is_empty()
    };
    let first = all.first().map(|one| parts(one).0).unwrap_or_default();
    let at = all.iter().position(|one| !is_known(one) && one.stage > 0);
    let Some(at) = at.filter(|_| matches!(first.as_str(), "FROM" | "ARG")) else { return };
    let word = all[at].text.split_whitespace().next().unwrap_or_default();
    // A mark of a template, or of a conflict, is no mistake of this kind.
    let is_plain = !word.contains(['@', '%', '$', '{', '<', '>', '=']) && word != "-";
    // The end of a here document can have a form that is not read here.
    let is_document = at.checked_sub(1).is_some_and(|last| all[last].text.contains("<<"));
    if is_plain && !is_document {
        let message = format!("`{word}` is no instruction of a Dockerfile");
        found.add("instruction-unknown", all[at].line, message);
    }
}

/// Checks for an instruction inside `RUN`: `RUN RUN make`.
fn doubled(own: &Instruction, found: &mut Findings<'_>) {
    let (name, rest) = parts(own);
    let first = rest.split_whitespace().next().unwrap_or_default();
    if name == "RUN" && INSTRUCTIONS.contains(&first) {
        let message = format!("`RUN {first}` starts a program with the name `{first}`");
        let hit = Hit::new("instruction-unknown", own.line, message);
        found.hit(hit.help("write only one instruction"));
    }
}

/// Checks for a list in brackets that is not JSON.
fn list(own: &Instruction, found: &mut Findings<'_>) {
    let (name, rest) = parts(own);
    let text = rest.trim();
    let inside = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let Some(inside) = inside.filter(|_| serde_json::from_str::<Vec<String>>(text).is_err()) else {
        return;
    };
    let is_quoted = inside.trim_start().starts_with(['"', '\'', '“']);
    match name.as_str() {
        "CMD" | "ENTRYPOINT" | "RUN" if is_quoted => {
            let message = format!("the list of `{name}` is not JSON, so the shell gets it as text");
            found.add("list-not-json", own.line, message);
        }
        "VOLUME" => {
            let message = "the list of `VOLUME` is not JSON, so `[` is the name of a folder";
            let hit = Hit::new("list-not-json", own.line, message).at_most(Severity::Warning);
            found.hit(hit.help("write the folders in double quotes: `VOLUME [\"/app\"]`"));
        }
        _ => {}
    }
}

/// Words of a shell, which the builder takes as the names of files.
const OF_SHELL: [&str; 8] =
    ["&&", "||", "|", ";", "2>/dev/null", ">/dev/null", "2>&1", "&>/dev/null"];

/// Checks for a copy with words of a shell.
fn shell_in_copy(own: &Instruction, found: &mut Findings<'_>) {
    let (name, rest) = parts(own);
    let is_copy = matches!(name.as_str(), "COPY" | "ADD") && !rest.contains("<<");
    let mut words = rest.split_whitespace().filter(|word| OF_SHELL.contains(word));
    if let Some(word) = words.next().filter(|_| is_copy) {
        let message = format!("`{name}` runs no shell, so `{word}` is the name of a file");
        let hit = Hit::new("missing-file", own.line, message);
        found.hit(
            hit.help(
                "a source that may be missing can be written as a pattern: `COPY file* /app/`",
            ),
        );
    }
}

/// Checks for the experimental frontend of the builder.
fn frontend(facts: &Facts<'_>, found: &mut Findings<'_>) {
    for (line, text) in facts.lines().take_while(|(_, text)| text.trim_start().starts_with('#')) {
        let directive: String = text.split_whitespace().collect();
        let name = directive.strip_prefix("#syntax=").unwrap_or_default();
        if name.contains("docker/dockerfile:") && name.contains("experimental") {
            let message = format!("`{name}` is an old, experimental frontend");
            let hit = Hit::new("instruction-deprecated", line, message);
            found
                .hit(hit.help("write `# syntax=docker/dockerfile:1`: cache mounts are part of it"));
        }
    }
}

/// Programs that prepare an image, and are no services.
const PREPARES: [&str; 12] =
    ["apt", "apt-get", "cd", "chmod", "chown", "cp", "dnf", "ln", "mkdir", "mv", "pip", "pip3"];

/// Checks for a `CMD` that only prepares the image, which instructions after it go on to do.
fn started(facts: &Facts<'_>, all: &[Instruction], found: &mut Findings<'_>) {
    let stages = last_stages(facts, all);
    let own = || all.iter().enumerate().filter(|(_, one)| stages.contains(&one.stage));
    // `CMD` contains the arguments of an `ENTRYPOINT`.
    if own().any(|(_, one)| parts(one).0 == "ENTRYPOINT") {
        return;
    }
    for (at, one) in own().filter(|(_, one)| parts(one).0 == "CMD") {
        let rest = parts(one).1;
        let word = rest.split_whitespace().next().unwrap_or_default();
        let is_alone = !rest.contains(['&', ';', '|']) && !rest.starts_with('[');
        let builds = |next: &Instruction| {
            let name = parts(next).0;
            next.stage == one.stage && matches!(name.as_str(), "RUN" | "COPY" | "WORKDIR" | "CMD")
        };
        if PREPARES.contains(&word) && is_alone && all[at + 1..].iter().any(builds) {
            let message = format!("`{word}` does not run during the build");
            let hit = Hit::new("command-not-run", one.line, message);
            found.hit(hit.help("write `RUN`: the container runs `CMD`, and only the last one"));
        }
    }
}

/// Returns whether the path of a copy is that of one file: `docker/requirements.txt`.
fn is_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let has_end =
        name.rsplit_once('.').is_some_and(|(start, end)| !start.is_empty() && !end.is_empty());
    has_end && !path.contains(['*', '?', '[', '$', '"']) && !name.starts_with('.')
}

/// Checks for a script that the container starts, whose folder the image has in another place.
fn without_file(facts: &Facts<'_>, all: &[Instruction], found: &mut Findings<'_>) {
    let stages = last_stages(facts, all);
    let own: Vec<&Instruction> = all.iter().filter(|one| stages.contains(&one.stage)).collect();
    let is_start = |one: &&&Instruction| matches!(parts(one).0.as_str(), "CMD" | "ENTRYPOINT");
    let starts: Vec<&&Instruction> = own.iter().filter(is_start).collect();
    let [start] = starts.as_slice() else { return };
    let Ok(words) = serde_json::from_str::<Vec<String>>(parts(start).1) else { return };
    let [program, script, ..] = words.as_slice() else { return };
    let program = program.rsplit('/').next().unwrap_or_default();
    let is_interpreter =
        ["python", "node", "bash", "sh"].iter().any(|one| program.starts_with(one));
    let is_relative = !script.starts_with(['/', '-', '.', '$', '~']);
    let Some((folder, _)) = script.split_once('/').filter(|_| is_interpreter && is_relative) else {
        return;
    };
    let (mut place, mut elsewhere) = (String::new(), None);
    for one in &own {
        let (name, rest) = parts(one);
        let plain = rest.split_whitespace().filter(|word| !word.starts_with("--"));
        let plain: Vec<&str> = plain.map(|word| word.trim_end_matches('/')).collect();
        match (name.as_str(), plain.as_slice()) {
            ("WORKDIR" | "COPY" | "ADD", _) if rest.contains('$') => return,
            ("WORKDIR", [path]) => place = join(&place, path),
            ("COPY", [source, target]) if target.starts_with('/') && source.ends_with(folder) => {
                elsewhere = Some(*target);
            }
            // Files that are copied to a place beside the working directory do not matter.
            ("COPY" | "ADD", [.., target])
                if target.starts_with('/')
                    && !place.starts_with(*target)
                    && !target.starts_with(&*place) => {}
            // The target can be any place, but a file is no folder.
            ("COPY", [sources @ .., _]) if sources.iter().all(|source| is_file(source)) => {}
            ("COPY" | "ADD", _) => return,
            ("RUN", _) if rest.contains(folder) || rest.contains("clone") => return,
            _ => {}
        }
    }
    let wanted = join(&place, folder);
    if let Some(target) = elsewhere.filter(|target| place.starts_with('/') && *target != wanted) {
        let message = format!("`{script}` is {place}/{script} here, and the image has {target}");
        found.add("script-missing", start.line, message);
    }
}
