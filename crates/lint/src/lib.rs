//! Finds wrong, stale and dangerous advice in files: pins, Dockerfiles, shell scripts, environment
//! files, compose files, Kubernetes manifests, workflows, quadlets, systemd units, requirements and
//! comments.
//!
//! Start at [`check`]. It first extracts the [`Facts`] of a file ([`shell`], `compose`,
//! `kubernetes`, `units`, `containers`, `python`, `tracks`), which each module of `rules` then
//! checks. The rules, with their reasons and sources, and the facts about versions are data in `versions/lint.toml`; moved
//! indexes, known-bad versions and packages that must match each other are in
//! `versions/compat.toml`. Both are compiled in, and `data` reads the first. `target` decides
//! whether a row about a GPU applies to a file. `build-pipeline: allow RULE` in a comment, on the
//! line of a finding or on the line above, suppresses the findings of that rule there. [`report`]
//! and [`sarif`] write the findings.
//!
//! This crate does not read files: it takes texts and returns findings.

mod compose;
mod containers;
pub mod data;
mod dockerfile;
mod duplicates;
mod facts;
pub mod forms;
mod image;
mod kubernetes;
mod manifests;
mod pyproject;
mod python;
mod quadlets;
pub mod registry;
pub mod report;
mod requirements;
mod rules;
pub mod sarif;
pub mod shell;
mod specifier;
mod target;
mod tracks;
mod unit_values;
mod units;
mod usage;
mod workflows;
mod yaml;

use std::collections::BTreeSet;

use ::pins::Pins;
pub use data::{Evidence, Rule, Severity, rule, rules};
pub use facts::{Facts, Kind};
use names::GpuTarget;

/// A violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// The severity of this violation: at most that of the rule, or `Error` for a binary file.
    pub severity: Severity,
    /// The file, as the caller names it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// Other lines with the same defect, sorted.
    pub also: Vec<usize>,
    /// What the finding is about, if the rule names it: findings of a rule about one subject are one
    /// finding.
    pub(crate) subject: Option<String>,
    /// The problem, with the value in backticks.
    pub message: String,
    /// What to do instead.
    pub help: String,
    /// The source of the fact.
    pub evidence: Evidence,
}

impl Finding {
    /// Replaces the rule's advice by that for files of a kind, if it has one. A file for Vulkan does
    /// not name the device of ROCm.
    fn help_for(&mut self, kind: Kind, is_vulkan: bool) {
        let own = self.rule.advice_in.iter().find(|(of, _)| *of == kind);
        if let Some((_, advice)) = own.filter(|_| self.help == self.rule.advice) {
            self.help.clone_from(advice);
        }
        if is_vulkan {
            self.help = self.help.replace("%g /dev/kfd", "%g /dev/dri/renderD128");
        }
    }
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
    /// The images that files in the same run build.
    pub built: Option<&'a BTreeSet<String>>,
    /// The pins that tracks and Python locks can refer to.
    pub pins: Option<&'a pins::Pins>,
    /// The tracks that a track can be based on, in addition to those in its own file.
    pub tracks: Option<&'a pins::Tracks>,
    /// Looks for other files.
    pub exists: Option<&'a dyn Exists>,
    /// The GPU that the caller specifies. It takes precedence over all others.
    pub gpu: Option<&'a GpuTarget>,
    /// The project's default target, for files that do not name a GPU.
    pub project_gpu: Option<&'a GpuTarget>,
}

/// Looks for the files that a file names, and for the compose files in its folder, and reads them.
pub trait Exists: std::fmt::Debug {
    /// Returns whether `path`, as `file` names it, exists; `None` if the folder that the path is
    /// relative to is unknown.
    fn exists(&self, _file: &str, _path: &str) -> Option<bool> {
        None
    }

    /// Returns the texts of the compose files in the folder of `file`.
    fn compose_files(&self, _file: &str) -> Vec<String> {
        Vec::new()
    }

    /// Returns the names and texts of the scripts, units, quadlets, manifests and Dockerfiles in the
    /// folder of `file`.
    fn beside(&self, _file: &str) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Returns the text of the file `path`, which is relative to the folder of `file`; `None` if it
    /// cannot be read.
    fn text(&self, _file: &str, _path: &str) -> Option<String> {
        None
    }

    /// Returns the path of `file`, from the name of the repository's folder on.
    fn place(&self, _file: &str) -> Option<String> {
        None
    }

    /// Returns the text of the file `path` of the build context of the Dockerfile `file`: the folder
    /// of the Dockerfile, or a folder above it.
    fn in_context(&self, file: &str, path: &str) -> Option<String> {
        self.text(file, path)
    }

    /// Returns whether the file or folder `path` is in a folder that can be the build context of the
    /// Dockerfile `file`.
    fn is_in_context(&self, file: &str, path: &str) -> bool {
        self.in_context(file, path).is_some()
    }
}

/// Returns the findings in a file, in the order of its lines.
pub fn check(file: &str, text: &str, context: Context<'_>) -> Vec<Finding> {
    check_facts(Facts::read(file, text), context)
}

/// Returns the findings in a file that has been read, in the order of its lines.
pub fn check_facts(mut facts: Facts<'_>, context: Context<'_>) -> Vec<Finding> {
    let (file, text, kind) = (facts.file, facts.text, facts.kind);
    if let Some(place) = context.exists.and_then(|exists| exists.place(file)) {
        facts.add_place(&place);
    }
    if let Some(exists) = context.exists.filter(|_| facts.kind == Kind::Compose) {
        compose::extend(&mut facts, exists);
        compose::complete(&mut facts, exists);
        compose::check_images(&mut facts, exists);
        compose::check_folders(&mut facts, exists);
    }
    if let Some(exists) = context.exists.filter(|_| facts.kind == Kind::Quadlet) {
        quadlets::complete(&mut facts, exists);
    }
    let mut all = Findings::new(file);
    rules::run(&facts, context, &mut all);
    if let Some(exists) = context.exists.filter(|_| facts.kind == Kind::Dockerfile) {
        together(file, text, context, exists, &mut all);
    }
    in_order(all.all, text, kind)
}

/// Adds the findings of a Dockerfile that only its lists of requirements together with its commands
/// have.
fn together<'a>(
    file: &'a str,
    text: &str,
    context: Context<'_>,
    exists: &dyn Exists,
    all: &mut Findings<'a>,
) {
    let Some(inlined) = requirements::inlined(file, text, exists) else { return };
    let facts = Facts::read(file, &inlined.text);
    let mut found = Findings { only: Some(&TOGETHER), ..Findings::new(file) };
    rules::run(&facts, context, &mut found);
    let mut known: BTreeSet<&str> = BTreeSet::new();
    for list in &inlined.lists {
        let list_facts = Facts::read("requirements.txt", list);
        let mut own = Findings::new("requirements.txt");
        rules::run(&list_facts, context, &mut own);
        known.extend(own.all.iter().map(|one| one.rule.id.as_str()));
    }
    let places = all.places();
    all.all.extend(found.all.into_iter().filter(|one| {
        let rule = one.rule.id.as_str();
        !known.contains(rule) && !places.contains(&(one.line, rule))
    }));
}

/// The rules about packages that depend on the image or on other packages.
const TOGETHER: [&str; 13] = [
    "cpu-package",
    "cuda-package",
    "known-bad-version",
    "no-such-version",
    "package-needs-program",
    "packages-do-not-match",
    "packages-same-module",
    "package-other-system",
    "python-other",
    "rocm-twice",
    "torch-kept",
    "torch-replaced",
    "wheel-python",
];

/// Returns the findings of `rules` for the pins that were read from `text`, in the order of its
/// lines.
///
/// The data file of the rules is read only if it is needed.
pub fn check_pins(
    file: &str,
    text: &str,
    pins: &Pins,
    rules: &[&str],
    context: Context<'_>,
) -> Vec<Finding> {
    let mut all = Findings { only: Some(rules), ..Findings::new(file) };
    rules::check_pins(pins, text, context, &mut all);
    in_order(all.all, text, Kind::Pins)
}

/// Folders with tests, which may use what is newest, and with scripts for machines that run tests.
const TESTS: [&str; 8] =
    ["test", "tests", "e2e", "ci", ".ci", ".buildkite", "integration-tests", "tests-unit"];

/// Returns whether a file is in a folder with tests.
fn is_for_tests(file: &str) -> bool {
    file.split('/').rev().skip(1).any(|folder| TESTS.contains(&folder))
}

/// Drops the findings that the file allows, reports each defect once, and sorts the findings.
fn in_order(mut found: Vec<Finding>, text: &str, kind: Kind) -> Vec<Finding> {
    if found.is_empty() {
        return found;
    }
    let lines: Vec<&str> = text.lines().collect();
    let is_test = matches!(kind, Kind::Shell | Kind::Requirements) && is_for_tests(&found[0].file);
    found.retain(|one| !(is_allowed(&lines, one) || is_test && one.rule.except_tests));
    let is_comment =
        |line: usize| lines.get(line.saturating_sub(1)).is_some_and(|one| kind.is_comment(one));
    let is_vulkan = text.contains("/dev/dri") && !text.contains("/dev/kfd");
    for one in &mut found {
        one.help_for(kind, is_vulkan);
    }
    duplicates::once(found, is_comment)
}

/// Returns the finding for a file that is not UTF-8 text; `line` is the first line that is not
/// UTF-8. A binary file is not checked at all, so its finding has the severity `error`.
pub fn not_utf8(file: &str, line: usize, bytes: &[u8]) -> Option<Finding> {
    let mut all = Findings::new(file);
    let is_binary = is_binary(bytes);
    let hit = if is_utf16(bytes) {
        Hit::new("not-utf-8", line, "the text is UTF-16, not UTF-8, and was not checked")
            .help(format!("convert it: `iconv -f UTF-16 -t UTF-8 {file}` prints it as UTF-8"))
    } else if is_binary {
        Hit::new("not-utf-8", line, "the file is binary, and was not checked")
            .help("pass text files: `build-pipeline lint Dockerfile run.sh .env compose.yml`")
    } else {
        Hit::new("not-utf-8", line, "the line is not UTF-8; unreadable bytes were replaced")
    };
    all.hit(hit);
    let mut finding = all.all.pop()?;
    if is_binary {
        finding.severity = Severity::Error;
    }
    Some(finding)
}

/// Returns whether the bytes of a file are not text in UTF-8 or a similar encoding.
pub fn is_binary(bytes: &[u8]) -> bool {
    is_utf16(bytes) || bytes.contains(&0)
}

/// Returns whether a file begins as Windows programs begin text in UTF-16.
pub fn is_utf16(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff")
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

/// A violation before its rule is looked up.
#[derive(Debug)]
pub(crate) struct Hit<'r> {
    rule: &'r str,
    line: usize,
    message: String,
    help: Option<String>,
    severity: Option<Severity>,
    evidence: Option<Evidence>,
    subject: Option<String>,
}

impl<'r> Hit<'r> {
    /// Creates a violation with the rule's own advice, severity and source.
    pub(crate) fn new(rule: &'r str, line: usize, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { rule, line, message, help: None, severity: None, evidence: None, subject: None }
    }

    /// Replaces the advice.
    pub(crate) fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// Names what the violation is about: a repository, an image, a release. The violations of the
    /// rule about one subject are one finding.
    pub(crate) fn about(self, subject: impl Into<String>) -> Self {
        Self { subject: Some(subject.into()), ..self }
    }

    /// Lowers the severity.
    pub(crate) fn at_most(self, severity: Severity) -> Self {
        let severity = self.severity.map_or(severity, |own| own.max(severity));
        Self { severity: Some(severity), ..self }
    }

    /// Uses the source of a row of the data, if it has one, and lowers the severity to the row's.
    pub(crate) fn of(self, row: &data::Row) -> Self {
        let hit = match row.severity {
            Some(severity) => self.at_most(severity),
            None => self,
        };
        let help = row.advice.clone().or(hit.help);
        Self { help, ..hit }.evidence(row.evidence.as_ref())
    }

    /// Replaces the source, if `evidence` is given.
    pub(crate) fn evidence(self, evidence: Option<&Evidence>) -> Self {
        Self { evidence: evidence.cloned().or(self.evidence), ..self }
    }

    /// Uses the source and the `known` value of a row of the compatibility table. If the row has no
    /// `known` value, the rule's value is used.
    pub(crate) fn compat(self, evidence: &pins::compat::Evidence) -> Self {
        let Some(rule) = rule(self.rule) else { return self };
        let known = evidence.known.unwrap_or(rule.evidence.known);
        let (source, checked) = (evidence.source.clone(), evidence.checked.clone());
        Self { evidence: Some(Evidence { source, known, checked }), ..self }
    }
}

/// Collects findings.
#[derive(Debug)]
pub(crate) struct Findings<'a> {
    file: &'a str,
    /// The rules to report. `None` means all.
    only: Option<&'a [&'a str]>,
    all: Vec<Finding>,
    /// The ROCm releases that were found.
    releases: BTreeSet<String>,
}

impl<'a> Findings<'a> {
    fn new(file: &'a str) -> Self {
        Self { file, only: None, all: Vec::new(), releases: BTreeSet::new() }
    }

    /// Returns whether this is the first finding about a ROCm release.
    pub(crate) fn is_first(&mut self, release: &str) -> bool {
        self.releases.insert(release.to_owned())
    }

    /// Returns whether the caller wants findings of the rule `id`.
    pub(crate) fn wants(&self, id: &str) -> bool {
        self.only.is_none_or(|only| only.contains(&id))
    }

    /// Adds a violation. Its rule always exists: the data reader checks the rules in rows, and a
    /// test checks the rules in the code.
    pub(crate) fn hit(&mut self, hit: Hit<'_>) {
        let Hit { rule: id, line, message, help, severity, evidence, subject } = hit;
        if !self.wants(id) {
            return;
        }
        let found = rule(id);
        debug_assert!(found.is_some(), "there is no rule `{id}`");
        let Some(rule) = found else { return };
        self.all.push(Finding {
            rule,
            severity: severity.map_or(rule.severity, |most| most.max(rule.severity)),
            file: self.file.to_owned(),
            line: line.max(1),
            also: Vec::new(),
            subject,
            message,
            help: help.unwrap_or_else(|| rule.advice.clone()),
            evidence: evidence.unwrap_or_else(|| rule.evidence.clone()),
        });
    }

    /// Returns the lines and the rules that they violate.
    pub(crate) fn places(&self) -> BTreeSet<(usize, &'static str)> {
        self.all.iter().map(|one| (one.line, one.rule.id.as_str())).collect()
    }

    /// Adds a violation of the rule `id`, with the rule's own advice.
    pub(crate) fn add(&mut self, id: &str, line: usize, message: impl Into<String>) {
        self.hit(Hit::new(id, line, message));
    }

    /// Adds a violation of the rule `id`, with different advice.
    pub(crate) fn add_with(
        &mut self,
        id: &str,
        line: usize,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.hit(Hit::new(id, line, message).help(help));
    }
}
