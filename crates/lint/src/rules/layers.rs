//! Rules for the layers of an image: files that a later layer removes, content of volumes, and files
//! that the base already contains.

use std::collections::BTreeMap;

use super::commands::{cloned_folder, join};
use super::images;
use super::stages::{ByInstruction, by_instruction, commands_of, last_stages, parts};
use crate::dockerfile::Instruction;
use crate::python::is_pip;
use crate::shell::{Scope, Setting, ShellCommand, UNKNOWN, Word};
use crate::{Facts, Findings, Hit, Kind, Severity};

pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    if facts.kind != Kind::Dockerfile {
        return;
    }
    let all = facts.instructions();
    let commands = by_instruction(facts, all);
    let stages = last_stages(facts, all);
    let file = File { facts, all, stages: &stages, commands };
    removed_later(&file, found);
    removed_archive(&file, found);
    volumes(&file, found);
    copied_again(&file, found);
}

/// A Dockerfile.
struct File<'f> {
    facts: &'f Facts<'f>,
    all: &'f [Instruction],
    /// The last stage, and the stages that it is based on.
    stages: &'f [usize],
    /// The commands of each instruction by its line, without those of here documents.
    commands: ByInstruction<'f>,
}

impl<'f> File<'f> {
    fn commands_of(&self, own: &Instruction) -> &[&'f ShellCommand] {
        commands_of(&self.commands, own)
    }
}

/// The rule about files that stay in an earlier layer.
const REMOVED: &str = "removed-later";

/// Words of comments that say that a removal makes the image smaller.
const SMALLER: [&str; 7] = ["image size", "reduce", "save", "shrink", "slim", "smaller", "strip"];

/// Checks for a `RUN` of the last stage that only removes files of earlier layers.
fn removed_later(file: &File<'_>, found: &mut Findings<'_>) {
    if file.facts.text.contains("squash") {
        return;
    }
    for (at, own) in file.all.iter().enumerate() {
        let is_plain = parts(own).0 == "RUN" && !own.text.contains("<<");
        if !is_plain || !file.stages.contains(&own.stage) {
            continue;
        }
        let commands = file.commands_of(own);
        let only_removes = commands.iter().all(|one| removes(one) || is_idle(one));
        let earlier = &file.all[..at];
        let is_hidden = |one: &&&ShellCommand| is_made(file, earlier, one);
        let first = commands.iter().filter(|_| only_removes).find(is_hidden);
        if let Some(command) = first {
            let message = "the files that are removed here stay in an earlier layer of the image";
            let hit = Hit::new(REMOVED, command.words[0].line, message);
            let is_meant = says_smaller(file.facts, own.line);
            found.hit(if is_meant { hit } else { hit.at_most(Severity::Information) });
        }
    }
}

/// How to unpack an archive of the build context.
const UNPACK: &str =
    "write `ADD`, which unpacks an archive of the build context, or `RUN --mount=type=bind`";

/// Ends of the names of large files that are needed only once.
const ARCHIVES: [&str; 10] =
    [".7z", ".deb", ".rpm", ".run", ".tar", ".tar.bz2", ".tar.gz", ".tgz", ".whl", ".zip"];

/// Ends of the paths of folders with such files.
const FOLDERS: [&str; 4] = ["/debs", "/packages", "/wheelhouse", "/wheels"];

/// Returns the name of the file in the last part of a path or URL.
fn file_name(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split(['?', '#']).next().unwrap_or(name).replace("%2B", "+").replace("%2b", "+")
}

/// Parts of the names of archives with whole programs, libraries or models, in lower case.
const LARGE: [&str; 10] =
    ["boost", "cuda", "cudnn", "llvm", "model", "ollama", "onnx", "rocm", "therock", "torch"];

/// How to unpack an archive that a `RUN` downloads.
const UNPACK_DOWNLOAD: &str = "download, unpack and remove it in one `RUN`";

/// Checks for the removal of an archive or package in another layer than the one that contains it.
fn removed_archive(file: &File<'_>, found: &mut Findings<'_>) {
    if file.facts.text.contains("squash") {
        return;
    }
    // Whether the file is from the build context.
    let mut kept: BTreeMap<String, bool> = BTreeMap::new();
    for own in file.all.iter().filter(|one| file.stages.contains(&one.stage)) {
        let commands = file.commands_of(own);
        let is_rm = |one: &&&ShellCommand| one.words[0].text == "rm";
        let is_path = |word: &&Word| !word.text.starts_with('-');
        let gone: Vec<(usize, String, &str)> = commands
            .iter()
            .filter(is_rm)
            .flat_map(|one| one.words[1..].iter().filter(is_path))
            .map(|word| (word.line, word.text.trim_end_matches('/')))
            .map(|(line, path)| (line, file_name(path), path))
            .collect();
        let places = found.places();
        let first = gone.iter().find(|(_, name, _)| kept.contains_key(name));
        if let Some((line, _, path)) = first.filter(|(at, ..)| !places.contains(&(*at, REMOVED))) {
            let message = format!("`{path}` stays in an earlier layer of the image");
            found.hit(Hit::new(REMOVED, *line, message).at_most(Severity::Information));
            return;
        }
        let unpacks = |one: &&&ShellCommand| {
            let program = one.words[0].text.rsplit('/').next().unwrap_or_default();
            matches!(program, "tar" | "unzip" | "bsdtar")
        };
        let mut used = commands.iter().filter(unpacks).flat_map(|one| one.words[1..].iter());
        if let Some(word) = used.find(|word| kept.contains_key(&file_name(&word.text))) {
            let name = file_name(&word.text);
            let is_copied = kept.get(&name).is_some_and(|is_copied| *is_copied);
            // A small download does not matter.
            let lower = name.to_ascii_lowercase();
            if !is_copied && !LARGE.iter().any(|part| lower.contains(part)) {
                continue;
            }
            let message = format!("`{name}` is unpacked here, and stays in an earlier layer");
            let hit = Hit::new(REMOVED, word.line, message).at_most(Severity::Information);
            found.hit(hit.help(if is_copied { UNPACK } else { UNPACK_DOWNLOAD }));
            return;
        }
        let is_copy = matches!(&*parts(own).0, "COPY" | "ADD");
        let left =
            archives(own, commands).filter(|name| !gone.iter().any(|(_, one, _)| one == name));
        kept.extend(left.map(|name| (name, is_copy)));
    }
}

/// Returns the names of the archives that an instruction copies or downloads.
fn archives<'i>(
    own: &'i Instruction,
    commands: &'i [&ShellCommand],
) -> impl Iterator<Item = String> + 'i {
    let is_archive =
        |name: &String| ARCHIVES.iter().any(|end| name.ends_with(end)) && !name.contains(UNKNOWN);
    let is_copy = matches!(&*parts(own).0, "COPY" | "ADD") && !own.text.contains("<<");
    let copied = own.text.split_whitespace().filter(move |_| is_copy);
    // `COPY wheels/ /tmp/wheels/`
    let is_folder =
        |path: &&str| FOLDERS.iter().any(|end| path.trim_end_matches('/').ends_with(end));
    let folders = copied.clone().filter(is_folder);
    let folders = folders.map(|path| file_name(path.trim_end_matches('/')));
    let copied = copied.map(file_name).filter(is_archive);
    let downloads = commands.iter().filter(|one| {
        let program = one.words[0].text.rsplit('/').next().unwrap_or_default();
        matches!(program, "wget" | "curl" | "aria2c") && !own.text.contains("--mount")
    });
    let names = downloads.flat_map(|one| one.words[1..].iter().map(|word| file_name(&word.text)));
    copied.chain(names.filter(is_archive)).chain(folders)
}

/// Returns whether the comment above a line says that the image becomes smaller.
fn says_smaller(facts: &Facts<'_>, line: usize) -> bool {
    let comment =
        facts.before(line).iter().rev().take_while(|text| text.trim_start().starts_with('#'));
    comment
        .map(|text| text.to_ascii_lowercase())
        .any(|text| SMALLER.iter().any(|word| text.contains(word)))
}

/// Returns whether a command removes folders or caches.
fn removes(command: &ShellCommand) -> bool {
    let words: Vec<&str> = command.texts();
    let program = words[0].rsplit('/').next().unwrap_or_default();
    let is_recursive = |word: &&str| {
        let letters = word.strip_prefix('-').unwrap_or_default();
        *word == "--recursive" || !letters.starts_with('-') && letters.contains(['r', 'R'])
    };
    match program {
        "rm" => words[1..].iter().any(is_recursive),
        "find" => words.contains(&"-delete") || words.windows(2).any(|two| two == ["-exec", "rm"]),
        "apt" | "apt-get" | "dnf" | "yum" | "microdnf" => {
            let is_one = |word: &&str| matches!(*word, "clean" | "autoclean") || takes_away(word);
            words[1..].iter().any(is_one)
        }
        _ => is_pip(&words) && words.ends_with(&["cache", "purge"]),
    }
}

/// Returns whether a word is a command of a package manager that removes packages.
fn takes_away(word: &str) -> bool {
    matches!(word, "autoremove" | "erase" | "purge" | "remove")
}

/// Returns whether a command changes nothing.
fn is_idle(command: &ShellCommand) -> bool {
    let program = command.words[0].text.rsplit('/').next().unwrap_or_default();
    matches!(program, "true" | "echo" | "du" | "df" | "ls" | ":") && !command.is_saved
}

/// Returns whether an earlier layer contains what a command removes: the base image's ROCm, package
/// lists, the cache of pip, or a clone.
fn is_made(file: &File<'_>, earlier: &[Instruction], command: &ShellCommand) -> bool {
    let earlier = || earlier.iter().filter(|one| file.stages.contains(&one.stage));
    let runs =
        |is: &dyn Fn(&str) -> bool| earlier().any(|one| parts(one).0 == "RUN" && is(&one.text));
    let base = file.facts.base(*file.stages.last().unwrap_or(&0)).map(|stage| &stage.base);
    let has_rocm = || {
        base.is_some_and(|base| images::parts(base).path.contains("rocm"))
            || runs(&|text| text.contains("install") && text.contains(" rocm"))
    };
    let has_lists = || {
        runs(&|text| {
            let cleans = ["/var/lib/apt", "/var/cache/apt"].iter().any(|path| text.contains(path));
            text.contains("apt") && text.contains(" update") && !cleans
        })
    };
    let has_wheels = || {
        let settings = ["PIP_NO_CACHE_DIR", "no-cache-dir"];
        let cleans = ["--mount", ".cache", "purge"];
        let is_kept = |text: &str| {
            text.contains("pip") && text.contains(" install ") && !has_any(text, &cleans)
        };
        !has_any(file.facts.text, &settings) && runs(&is_kept)
    };
    let is_clone = |path: &str| {
        path.matches('/').count() > 1
            && !path.contains(UNKNOWN)
            && earlier()
                .flat_map(|one| file.commands_of(one))
                .any(|one| cloned_folder(one).is_some_and(|folder| is_below(&folder, path)))
    };
    let is_named = |word: &str| {
        let installs = |part: &str| {
            let mut words = part.split_whitespace();
            part.contains("install") && !part.contains("pip") && words.any(|own| own == word)
        };
        runs(&|text| text.split(['&', ';']).any(installs))
    };
    let texts = command.texts();
    let manages = ["apt", "apt-get", "dnf", "microdnf", "yum"].contains(&texts[0]);
    if manages && texts[1..].iter().any(|word| takes_away(word)) {
        return texts[2..].iter().any(|word| !word.starts_with('-') && is_named(word));
    }
    let purges = command.words.iter().any(|word| word.text == "purge") && has_wheels();
    let mut paths = command.words[1..].iter().filter(|word| !word.text.starts_with('-'));
    purges
        || paths.any(|word| {
            let path = join(&command.folder, word.text.trim_end_matches(['*', '/']));
            path.starts_with("/opt/rocm") && has_rocm()
                || path == "/var/lib/apt/lists" && has_lists()
                || path.starts_with("/root/.cache") && has_wheels()
                || is_clone(&path)
        })
}

fn has_any(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

/// Returns whether a path is a folder, or is inside it.
fn is_below(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Checks for content that a stage adds to a volume.
fn volumes(file: &File<'_>, found: &mut Findings<'_>) {
    for (at, own) in file.all.iter().enumerate().filter(|(_, one)| parts(one).0 == "VOLUME") {
        let text = expanded(file.facts, own.stage, parts(own).1.trim());
        let words = text.split(|c: char| c.is_whitespace() || matches!(c, ',' | '[' | ']' | '"'));
        let paths: Vec<&str> =
            words.filter(|path| path.starts_with('/') && path.len() > 1).collect();
        let later = file.all[at + 1..].iter().take_while(|one| one.stage == own.stage);
        let writes = later.into_iter().find_map(|one| {
            let path = paths.iter().find(|path| writes(file, one, path))?;
            Some(Hit::new(
                "volume-content",
                one.line,
                format!("`{}` writes to the volume `{path}`", parts(one).0),
            ))
        });
        if let Some(hit) = writes {
            found.hit(hit);
        }
    }
}

/// Programs that write to the folder in which they run.
const WRITERS: [&str; 6] = ["cmake", "curl", "make", "tar", "unzip", "wget"];

/// Returns whether an instruction writes files below a path.
fn writes(file: &File<'_>, own: &Instruction, path: &str) -> bool {
    match parts(own).0.as_str() {
        "COPY" | "ADD" => {
            let target = own.text.split_whitespace().last().unwrap_or_default();
            let target = target.trim_matches(['"', '\'', ']']);
            let target = target.trim_start_matches("./").trim_end_matches('.');
            let before =
                file.all.iter().filter(|one| one.stage == own.stage && one.line < own.line);
            let folders = before.filter(|one| parts(one).0 == "WORKDIR");
            let folder =
                folders.fold(String::new(), |folder, one| join(&folder, parts(one).1.trim()));
            let target = expanded(file.facts, own.stage, &join(&folder, target));
            !own.text.contains("<<") && is_below(target.trim_end_matches('/'), path)
        }
        "RUN" => file.commands_of(own).iter().any(|command| {
            let program = command.words[0].text.rsplit('/').next().unwrap_or_default();
            match cloned_folder(command) {
                Some(folder) => is_below(&folder, path),
                None => WRITERS.contains(&program) && is_below(&command.folder, path),
            }
        }),
        _ => false,
    }
}

/// Returns a text with the values of the variables that its stage sets.
pub(super) fn expanded(facts: &Facts<'_>, stage: usize, text: &str) -> String {
    let mut expanded = text.to_owned();
    let is_own =
        |one: &&Setting| one.stage == stage && matches!(one.scope, Scope::Argument | Scope::Image);
    for Setting { name, value, .. } in facts.settings.iter().filter(is_own) {
        expanded = expanded.replace(&format!("${{{name}}}"), value);
        let form = format!("${name}");
        if expanded.ends_with(&form) || expanded.contains(&format!("{form}/")) {
            expanded = expanded.replace(&form, value);
        }
    }
    expanded
}

/// Images of AMD that contain Python packages, which a copy from the same image repeats.
const WITH_PACKAGES: [&str; 5] =
    ["rocm/jax", "rocm/pytorch", "rocm/sgl-dev", "rocm/tensorflow", "rocm/vllm"];

/// Checks for a copy of all Python packages of a stage to a stage on the same image.
fn copied_again(file: &File<'_>, found: &mut Findings<'_>) {
    let facts = file.facts;
    for own in file.all.iter().filter(|one| parts(one).0 == "COPY") {
        let words: Vec<&str> = own.text.split_whitespace().collect();
        let from = words.iter().find_map(|word| word.strip_prefix("--from="));
        let plain: Vec<&str> =
            words[1..].iter().copied().filter(|word| !word.starts_with("--")).collect();
        let ([source, target], Some(from)) = (plain.as_slice(), from) else { continue };
        let is_name = |name: &String| name.eq_ignore_ascii_case(from);
        let earlier = facts.stages.iter().find(|one| one.name.as_ref().is_some_and(is_name));
        let Some(base) = facts.base(own.stage).filter(|base| {
            earlier.is_some_and(|one| one.base == base.base) && !base.base.contains(UNKNOWN)
        }) else {
            continue;
        };
        let path = images::parts(&base.base).path;
        let has_packages = WITH_PACKAGES.iter().any(|one| path.starts_with(one));
        let [source, target] = [source, target].map(|one| one.trim_end_matches('/'));
        let is_whole = ["/site-packages", "/dist-packages", "/opt/venv", "/opt/conda"]
            .iter()
            .any(|end| source.ends_with(end));
        // The packages of Debian's Python are in another folder than those of the environment.
        let is_environment = source.starts_with("/opt/") || path.contains("vllm");
        if has_packages && is_whole && is_environment && source == target {
            let message =
                format!("`COPY` stores what `{source}` of the base contains a second time");
            let hit = Hit::new("rocm-twice", own.line, message);
            found.hit(hit.help(
                "install the packages in the last stage, or copy only those that the builder adds",
            ));
        }
    }
}
