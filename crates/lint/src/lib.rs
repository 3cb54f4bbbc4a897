//! Finds wrong, stale and dangerous advice in files: pins, Dockerfiles, shell scripts, environment
//! files, compose files, requirements and comments.
//!
//! Start at [`check`]. It first extracts the [`Facts`] of a file (`facts`, [`shell`], `compose`,
//! `tracks`), which each module of `rules` then checks. The table [`RULES`] contains the name, the
//! reason and the source of each rule. `build-pipeline: allow RULE` in a comment, on the line or on
//! the line above, allows one exception.
//!
//! This crate does not read files: it takes texts and returns findings.

mod compose;
mod facts;
mod rules;
pub mod shell;
mod table;
mod tracks;

use std::collections::BTreeSet;

pub use facts::{Facts, Kind};
pub use table::{RULES, Rule, Severity, rule};

/// A violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// The file, as the caller names it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The problem, with the value in backticks.
    pub message: String,
    /// What to do instead.
    pub help: String,
}

/// Facts from outside the text of a file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Context<'a> {
    /// The compatibility table.
    pub compat: Option<&'a pins::Compat>,
    /// The current date, `YYYY-MM-DD`, for pins that expire.
    pub today: Option<&'a str>,
    /// The variables that other files in the same run define.
    pub defined: Option<&'a BTreeSet<String>>,
    /// The pins that tracks and Python locks can name.
    pub pins: Option<&'a pins::Pins>,
    /// Checks whether a path, relative to the file's folder, exists.
    pub exists: Option<&'a dyn Exists>,
}

/// Checks whether a path exists.
pub trait Exists: std::fmt::Debug {
    /// Returns whether `path`, relative to the folder of `file`, exists.
    fn exists(&self, file: &str, path: &str) -> bool;
}

/// Returns the findings in a file, in the order of its lines.
pub fn check(file: &str, text: &str, context: Context<'_>) -> Vec<Finding> {
    let facts = Facts::read(file, text);
    let mut all = Findings { file, all: Vec::new() };
    rules::run(&facts, context, &mut all);
    let mut found = all.all;
    let lines: Vec<&str> = text.lines().collect();
    found.retain(|finding| !is_allowed(&lines, finding));
    found.sort_by(|one, other| (one.line, one.rule.id).cmp(&(other.line, other.rule.id)));
    found.dedup_by(|one, other| one.line == other.line && one.rule.id == other.rule.id);
    found
}

/// Returns the variables that a file defines, for [`Context::defined`].
pub fn defined(file: &str, text: &str) -> BTreeSet<String> {
    Facts::read(file, text).settings.into_iter().map(|setting| setting.name).collect()
}

/// Returns whether a comment on the line or the line above allows the exception.
fn is_allowed(lines: &[&str], finding: &Finding) -> bool {
    let at = finding.line.saturating_sub(1);
    let above = at.checked_sub(1).and_then(|above| lines.get(above));
    [lines.get(at), above].into_iter().flatten().any(|line| {
        line.split_once("build-pipeline: allow ")
            .is_some_and(|(_, rules)| rules.split([' ', ',']).any(|word| word == finding.rule.id))
    })
}

/// Collects findings.
#[derive(Debug)]
pub(crate) struct Findings<'a> {
    file: &'a str,
    all: Vec<Finding>,
}

impl Findings<'_> {
    /// Adds a finding of the rule `id`, with the rule's own advice.
    pub(crate) fn add(&mut self, id: &str, line: usize, message: impl Into<String>) {
        let help = rule(id).map_or_else(String::new, |rule| rule.advice.to_owned());
        self.add_with(id, line, message, help);
    }

    /// Adds a finding of the rule `id`, with different advice.
    pub(crate) fn add_with(
        &mut self,
        id: &str,
        line: usize,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let Some(rule) = rule(id) else { return };
        let file = self.file.to_owned();
        self.all.push(Finding {
            rule,
            file,
            line: line.max(1),
            message: message.into(),
            help: help.into(),
        });
    }
}
