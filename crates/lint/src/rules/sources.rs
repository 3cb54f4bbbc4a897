//! Files that a Dockerfile copies and that no folder has which can be the context of the build.

use super::projects::ignores;
use super::stages::parts;
use crate::dockerfile::Instruction;
use crate::{Context, Exists, Facts, Findings, Hit, Kind, Severity};

/// Returns whether a file is a script or a list of packages, which people write, and no build makes.
fn is_written(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.ends_with(".sh") || name.ends_with(".txt") && name.contains("requirements")
}

/// Checks for a script or a list that is copied, but does not exist. Outside a repository, another one
/// from the same folder must exist, which shows that the project's files are there.
pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let Some(exists) = context.exists.filter(|_| facts.kind == Kind::Dockerfile) else { return };
    let sources: Vec<(usize, &str)> = facts.instructions().iter().flat_map(of).collect();
    let is_there = |(_, path): &(usize, &str)| exists.is_in_context(facts.file, path);
    let (there, missing): (Vec<_>, Vec<_>) = sources.into_iter().partition(is_there);
    for (line, path) in missing.into_iter().filter(|(_, path)| is_written(path)) {
        let is_neighbour = |other: &str| is_written(other) && folder(other) == folder(path);
        let is_whole = exists.exists(facts.file, path) == Some(false) && !there.is_empty()
            || there.iter().any(|(_, other)| is_neighbour(other));
        if is_whole && !is_made(facts, exists, path) {
            let message = format!("`{path}` is in no folder that can be the context");
            let hit = Hit::new("missing-file", line, message).at_most(Severity::Warning);
            let help = "add the file, or write its path from the folder that is the context";
            found.hit(hit.help(help));
        }
    }
}

/// Returns the folder of a path.
fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Returns the files that an instruction copies from the context.
fn of(own: &Instruction) -> Vec<(usize, &str)> {
    let (name, rest) = parts(own);
    let is_other = ["--from", "<<", "$", "*", "?", "[", "://", "..", "\\"];
    if !matches!(name.as_str(), "COPY" | "ADD") || is_other.iter().any(|text| rest.contains(text)) {
        return Vec::new();
    }
    let words = rest.split_whitespace().filter(|word| !word.starts_with("--"));
    let words: Vec<&str> = words.map(|word| word.trim_start_matches("./")).collect();
    let sources = words.split_last().map_or(&[][..], |(_, sources)| sources);
    let is_file = |path: &&&str| {
        let file = path.rsplit('/').next().unwrap_or(path);
        file.trim_start_matches('.').contains('.') && !path.ends_with('/')
    };
    sources.iter().filter(is_file).map(|path| (own.line, path.trim_start_matches('/'))).collect()
}

/// Parts of commands that make a file.
const MAKES: [&str; 9] = [">", "cp ", "mv ", "ln ", "tee ", "curl", "wget", "-o ", "compile"];

/// Returns whether the project makes a file before the build: git ignores it, a comment names it, or a
/// script makes it.
fn is_made(facts: &Facts<'_>, exists: &dyn Exists, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_ignored = exists.in_context(facts.file, ".gitignore");
    let is_ignored = is_ignored.is_some_and(|text| ignores(&text, name));
    let is_script = |file: &str| file.ends_with(".sh") || matches!(file, "Makefile" | "justfile");
    let makes = |line: &str| line.contains(name) && MAKES.iter().any(|one| line.contains(one));
    let is_maker = |(other, text): (String, String)| is_script(&other) && text.lines().any(makes);
    let is_said = facts.lines().any(|(_, text)| facts.kind.is_comment(text) && text.contains(name));
    is_ignored || is_said || exists.beside(facts.file).into_iter().any(is_maker)
}
