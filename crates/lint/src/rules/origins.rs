//! Programs that come from a stage with a newer C library.

use super::images::released;
use super::stages::{copied_from, fixed_base, last_stages};
use crate::data::ReleaseRow;
use crate::dockerfile::Instruction;
use crate::shell::ShellCommand;
use crate::{Facts, Findings, Kind};

/// Texts, in lower case, that show that programs need no C library of the system.
const STATIC: [&str; 5] = ["-static", "cgo_enabled=0", "crt-static", "musl", "zigbuild"];

/// Checks for a copy of compiled programs to an older release of a distribution.
pub(super) fn run(facts: &Facts<'_>, found: &mut Findings<'_>) {
    let lower = facts.code.to_ascii_lowercase();
    if facts.kind != Kind::Dockerfile || STATIC.iter().any(|text| lower.contains(text)) {
        return;
    }
    let all = facts.instructions();
    let stages = last_stages(facts, all);
    let release = |stage: usize| {
        let row = released(fixed_base(facts, all, stage))?;
        Some((row, numbers(row)?))
    };
    let Some((own, own_glibc)) = release(facts.stages.len()) else { return };
    for copy in all.iter().filter(|one| stages.contains(&one.stage)) {
        let Some(stage) = source(facts, copy).filter(|stage| compiles(facts, *stage)) else {
            continue;
        };
        if let Some((other, _)) = release(stage).filter(|(_, glibc)| *glibc > own_glibc) {
            let message = format!(
                "the program is compiled on {}, whose C library is newer than that of {}",
                other.name, own.name
            );
            return found.add("glibc-older", copy.line, message);
        }
    }
}

/// Returns the numbers of the version of a release's C library.
fn numbers(row: &ReleaseRow) -> Option<Vec<u32>> {
    row.glibc.as_ref()?.split('.').map(|part| part.parse().ok()).collect()
}

/// Parts of paths with compiled programs.
const COMPILED: [&str; 5] = ["/bin", "/build/", "/lib/", ".so", "target/release"];

/// Parts of paths with other files.
const OTHER: [&str; 5] = [".local", "dist-packages", "node_modules", "site-packages", "venv"];

/// Endings of files that are no compiled programs.
const NO_PROGRAMS: [&str; 8] = [".css", ".html", ".js", ".json", ".md", ".py", ".sh", ".txt"];

/// Returns the stage from which an instruction copies compiled programs.
fn source(facts: &Facts<'_>, own: &Instruction) -> Option<usize> {
    let (stage, paths) = copied_from(facts, own)?;
    let (_, sources) = paths.split_last()?;
    let has = |texts: &[&str]| {
        let is_program = |source: &&&str| !NO_PROGRAMS.iter().any(|end| source.ends_with(end));
        let mut programs = sources.iter().filter(is_program);
        programs.any(|source| texts.iter().any(|text| source.contains(text)))
    };
    (has(&COMPILED) && !has(&OTHER)).then_some(stage)
}

/// Parts of the names of compilers and their packages.
const COMPILERS: [&str; 5] = ["build-essential", "clang", "cmake", "g++", "gcc"];

/// Returns whether a stage compiles programs.
fn compiles(facts: &Facts<'_>, stage: usize) -> bool {
    let own = || facts.commands.iter().filter(|one| one.stage == stage);
    let has_compiler = own()
        .flat_map(|one| &one.words)
        .any(|word| COMPILERS.iter().any(|name| word.text.contains(name)));
    let is_build = |one: &&ShellCommand| {
        let words = one.texts();
        let program = words[0].rsplit('/').next().unwrap_or_default();
        let is_version = words.iter().any(|word| word.contains("version"));
        match program {
            "cargo" => words.iter().any(|word| matches!(*word, "build" | "b" | "install")),
            "g++" | "gcc" | "hipcc" | "ninja" => !is_version,
            // It can also copy files.
            "make" => !is_version && has_compiler,
            "cmake" => words.contains(&"--build"),
            _ => false,
        }
    };
    own().any(|one| is_build(&one))
}
