//! Old ROCm releases in places that no other rule reads: paths, variables, labels, names of files.

use std::collections::BTreeSet;

use super::contradictions::{LONGEST, releases_after};
use super::rocm::{self, Named};
use super::{packages, unread};
use crate::{Context, Facts, Findings, Kind};

/// Rules about the age of a ROCm release.
const SAID: [&str; 6] = [
    "gpu-without-rocblas",
    "rocm-7-2-0",
    "rocm-before-gpu",
    "rocm-below-minimum",
    "rocm-outdated",
    "rocm-too-old",
];

/// Words of lines that compare releases, search for them, or print them.
const OTHER: [&str; 20] = [
    "if ",
    "elif ",
    "case ",
    "[[",
    "[ ",
    "grep",
    "echo",
    "printf",
    "print_",
    "log",
    "warn",
    "info",
    "docs",
    "/issues/",
    "/pull/",
    "changelog",
    "sed ",
    "rm -",
    "uninstall",
    "remove",
];

/// Checks the first mention of a ROCm release, if no other rule said that it is old.
pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let is_kind = matches!(
        facts.kind,
        Kind::Dockerfile
            | Kind::Shell
            | Kind::Compose
            | Kind::Manifest
            | Kind::Quadlet
            | Kind::Requirements
            | Kind::Unit
    );
    let is_said = found.places().iter().any(|(_, rule)| SAID.contains(rule));
    if !is_kind || is_said {
        return;
    }
    let unread = unread::lines(facts);
    let unused = |line: usize| {
        let mut own =
            facts.commands.iter().filter(|one| one.words.iter().any(|word| word.line == line));
        own.any(|one| packages::leaves_index(facts, one))
    };
    let mut first: Option<(usize, String)> = None;
    let mut all: BTreeSet<String> = BTreeSet::new();
    for (line, text) in facts.lines().filter(|(_, text)| !facts.kind.is_comment(text)) {
        let lower = text.split(" # ").next().unwrap_or(text).to_ascii_lowercase();
        if lower.len() > LONGEST || !lower.contains("rocm") || unread.contains(&line) {
            continue;
        }
        let releases = releases_after(&lower, "rocm");
        let is_arm = lower.trim_end().ends_with(";;")
            || lower.contains("*)")
            || lower.trim_start().starts_with('[');
        let is_other = OTHER.iter().any(|word| lower.contains(word)) || is_arm;
        all.extend(releases.iter().map(|one| series(one)));
        // A list of releases is a choice.
        if let Some(release) = releases.first().filter(|_| releases.len() == 1 && !is_other) {
            first.get_or_insert_with(|| (line, release.clone()));
        }
    }
    let Some((line, release)) = first.filter(|(line, _)| all.len() == 1 && !unused(*line)) else {
        return;
    };
    let message = format!("the line names ROCm {release}");
    let named = Named { release: &release, line, is_series: true, is_word: true, message };
    rocm::judge(named, facts, context, found);
}

/// Returns the first two numbers of a release.
pub(super) fn series(release: &str) -> String {
    release.split('.').take(2).collect::<Vec<_>>().join(".")
}
