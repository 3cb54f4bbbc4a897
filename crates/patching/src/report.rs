//! The results of patching, as text and JSON.

use std::path::Path;

use failure::{Failure, Kind};
use patcher::{EditOutcome, FileChange, Outcome, PatchOutcome, PresentBy, Verdict};
use schemars::JsonSchema;
use serde::Serialize;
use sources::TarSummary;
use text::{Page, counted, size};

use crate::prepared::Prepared;
use crate::rooted::Rooted;

/// The version of the JSON format.
const SCHEMA: u32 = 1;

/// The output of `patch check`, `diff` and `apply` with `--format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PatchReport {
    /// The version of this JSON format.
    schema: u32,
    /// The command.
    command: &'static str,
    /// Whether all patches succeeded in all trees.
    ok: bool,
    /// What was detected about the system, with `--when auto`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) detected: Option<Detected>,
    /// The result for each tree.
    trees: Vec<TreeReport>,
}

/// What was detected about a system.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Detected {
    /// The version of ROCm, if there is one.
    pub(crate) rocm: Option<String>,
    /// Where it was found.
    pub(crate) rocm_from: Option<String>,
    /// The GPU target.
    pub(crate) gpu: String,
    /// Where it was found.
    pub(crate) gpu_from: String,
}

/// The results of one component's patches in one tree.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TreeReport {
    /// The location of the tree.
    root: String,
    /// Where its version was found, if it was.
    version_from: Option<String>,
    /// Whether files were written.
    written: bool,
    /// Why nothing was written, if this was a dry run.
    not_written: Option<String>,
    /// The canonical tar of the patched source.
    #[serde(skip_serializing_if = "Option::is_none")]
    exported: Option<Exported>,
    /// Patches that were left out.
    left_out: Vec<LeftOut>,
    /// The verdicts.
    report: Outcome,
    /// The unified diff, if it was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

/// A canonical tar.
#[derive(Debug, Serialize, JsonSchema)]
struct Exported {
    /// Its path; `-` is standard output.
    path: String,
    /// Its SHA-256.
    sha256: String,
    /// Its size in bytes.
    size: u64,
    /// The number of entries, including directories.
    entries: u64,
}

/// A patch that was left out, because it is not for this tree.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LeftOut {
    /// The patch.
    pub(crate) id: String,
    /// The reason.
    pub(crate) because: String,
}

impl TreeReport {
    /// Creates the report of a tree to which nothing was written.
    pub fn new<T: Rooted>(prepared: &Prepared<T>, report: Outcome) -> Self {
        Self {
            root: prepared.tree.shown(),
            version_from: prepared.version.as_ref().map(|found| found.from.clone()),
            written: false,
            not_written: None,
            exported: None,
            left_out: Vec::new(),
            report,
            diff: None,
        }
    }

    /// Returns whether the changes may be written. If `is_strict`, every patch must be needed, and
    /// every probe must have run.
    pub fn is_good(&self, is_strict: bool) -> bool {
        let is_strictly_good = |patch: &PatchOutcome| !is_retired(patch) && !has_skipped(patch);
        self.report.ok && (!is_strict || self.report.patches.iter().all(is_strictly_good))
    }

    /// Returns the verdicts.
    pub(crate) fn outcome(&self) -> &Outcome {
        &self.report
    }

    /// Adds the unified diff.
    pub fn set_diff(&mut self, diff: &[u8]) {
        self.diff = Some(String::from_utf8_lossy(diff).into_owned());
    }

    /// Says that files were written.
    pub(crate) fn set_written(&mut self) {
        self.written = true;
    }

    /// Says that the tree was written as a tar.
    pub(crate) fn set_exported(&mut self, path: &Path, summary: &TarSummary) {
        self.written = true;
        self.exported = Some(Exported {
            path: path.display().to_string(),
            sha256: summary.sha256.to_string(),
            size: summary.size,
            entries: summary.entries,
        });
    }

    /// Says why nothing was written.
    pub(crate) fn set_not_written(&mut self, because: String) {
        self.not_written = Some(because);
    }

    /// Adds the patches that are not for this tree.
    pub(crate) fn set_left_out(&mut self, left_out: Vec<LeftOut>) {
        self.left_out = left_out;
    }

    /// Adds the tree to a page.
    fn show(&self, page: &mut Page, is_strict: bool) {
        let Outcome { component, version, gpu, patches, files, .. } = &self.report;
        let component = component.as_deref().unwrap_or("no component");
        let version = match (version, &self.version_from) {
            (Some(version), Some(from)) => format!(" {version} ({from})"),
            _ => String::new(),
        };
        page.line(format_args!("{component}{version} for {gpu} in {}\n", self.root));
        let width = patches.iter().map(|patch| patch.id.len()).max().unwrap_or_default();
        for patch in patches {
            patch_text(page, patch, width, self.written, is_strict);
        }
        for left in &self.left_out {
            page.line(format_args!("  - {:width$}  left out: {}", left.id, left.because));
        }
        let (done, nothing) = match (self.written, self.report.ok) {
            (true, _) => ("changed", ""),
            (false, true) => ("to change", "nothing to write"),
            (false, false) => return,
        };
        page.line(format_args!(""));
        for file in files {
            page.line(format_args!("  {done}  {}, {}", file.path, changed_lines(file)));
        }
        if files.is_empty() {
            page.line(format_args!("  {nothing}"));
        }
        if let Some(Exported { path, sha256, size: bytes, entries }) = &self.exported {
            let (size, entries) = (size(*bytes), counted(*entries, "entry"));
            page.line(format_args!("\n  {path}: {entries}, {size}, sha256 {sha256}"));
        }
        if let Some(because) = &self.not_written {
            page.line(format_args!("\n  {because}"));
        }
    }
}

/// Adds a patch to a page.
fn patch_text(page: &mut Page, patch: &PatchOutcome, width: usize, written: bool, is_strict: bool) {
    let explanation = |verdict: &Verdict| match verdict {
        Verdict::Applied { count: 1 } if !written => "one place to change".to_owned(),
        Verdict::Applied { count } if !written => format!("{count} places to change"),
        verdict => verdict.explain(),
    };
    let (patch_mark, patch_verdict) = (mark(patch.ok), patch.verdict.to_string());
    let explained = explanation(&patch.verdict);
    page.line(format_args!("  {patch_mark} {:width$}  {patch_verdict:18}  {explained}", patch.id));
    for EditOutcome { file, verdict } in &patch.edits {
        let file = file.as_ref().map_or_else(|| "no file".to_owned(), ToString::to_string);
        let mark = self::mark(is_good_edit(verdict));
        if *verdict == patch.verdict {
            page.line(format_args!("      {mark} {file}"));
        } else {
            page.line(format_args!("      {mark} {file}  {verdict}  {}", explanation(verdict)));
        }
    }
    for probe in &patch.probes {
        let reason = probe.reason.as_deref().unwrap_or_default();
        let result = match probe.result {
            "passed" => "✓ passed".to_owned(),
            "skipped" => format!("- not run: {reason}"),
            _ => format!("✗ failed: {reason}"),
        };
        page.line(format_args!("      probe `{}`: {result}", probe.name));
    }
    if is_strict && is_retired(patch) {
        page.line(format_args!(
            "      ✗ this version does not need it: retire the patch (--strict)"
        ));
    }
    if let Some(limits) = &patch.limits {
        page.line(format_args!("      limits: {limits}"));
    }
}

/// Returns the mark of a success or failure.
fn mark(is_good: bool) -> char {
    if is_good { '✓' } else { '✗' }
}

/// Returns whether an edit had a good result.
fn is_good_edit(verdict: &Verdict) -> bool {
    matches!(
        verdict,
        Verdict::Applied { .. }
            | Verdict::AlreadyPresent { .. }
            | Verdict::SatisfiedOtherwise
            | Verdict::NotApplicable { .. }
            | Verdict::PartialUpstream { .. }
    )
}

/// Returns the line numbers of new content: `line 3`, `lines 5-7, 9`.
fn changed_lines(file: &FileChange) -> String {
    let diff = similar::TextDiff::from_lines(&file.old, &file.new);
    let inserted = diff.iter_all_changes().filter(|one| one.tag() == similar::ChangeTag::Insert);
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for line in inserted.filter_map(|one| Some(one.new_index()? + 1)) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == line => *last = line,
            _ => ranges.push((line, line)),
        }
    }
    let one = |(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    let s = if matches!(ranges.as_slice(), [(first, last)] if first == last) { "" } else { "s" };
    format!("line{s} {}", ranges.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// Returns whether this version does not need the patch.
fn is_retired(patch: &PatchOutcome) -> bool {
    let is_there = match patch.verdict {
        // If the text is conditional, the build decides whether the patch is needed.
        Verdict::AlreadyPresent { by, condition: None } => by != PresentBy::Ours,
        Verdict::SatisfiedOtherwise => true,
        _ => false,
    };
    patch.ok && is_there
}

/// Returns whether a probe of the patch did not run.
fn has_skipped(patch: &PatchOutcome) -> bool {
    patch.probes.iter().any(|probe| probe.result == "skipped")
}

impl PatchReport {
    /// Creates the report of a command.
    pub fn new(command: &'static str, trees: Vec<TreeReport>) -> Self {
        let ok = trees.iter().all(|tree| tree.report.ok);
        Self { schema: SCHEMA, command, ok, detected: None, trees }
    }

    /// Returns the report as text. If `is_strict`, it marks patches that are not needed.
    pub fn page(&self, is_strict: bool) -> Page {
        let mut page = Page::default();
        if let Some(Detected { rocm, rocm_from, gpu, gpu_from }) = &self.detected {
            let rocm = match (rocm, rocm_from) {
                (Some(rocm), Some(from)) => format!("ROCm {rocm} ({from})"),
                _ => "no ROCm".to_owned(),
            };
            page.line(format_args!("{rocm}, {gpu} ({gpu_from})\n"));
        }
        for tree in &self.trees {
            tree.show(&mut page, is_strict);
            page.line(format_args!(""));
        }
        let (good, all) = (self.count(|patch| patch.ok), self.count(|_| true));
        page.line(format_args!("{good} of {} succeeded", counted(all, "patch")));
        page
    }

    /// Returns the results of all patches in all trees.
    fn patches(&self) -> impl Iterator<Item = &PatchOutcome> {
        self.trees.iter().flat_map(|tree| &tree.report.patches)
    }

    /// Returns the number of patches with a property.
    fn count(&self, holds: impl Fn(&PatchOutcome) -> bool) -> usize {
        self.patches().filter(|patch| holds(patch)).count()
    }

    /// Returns the names of the trees with a patch that failed.
    fn failed_roots(&self) -> String {
        let failed = self.trees.iter().filter(|tree| !tree.report.ok);
        let roots: Vec<String> = failed.map(|tree| format!("`{}`", tree.root)).collect();
        roots.join(", ")
    }

    /// Returns an error unless all patches succeeded. If `is_strict`, every patch must be needed,
    /// and every probe must have run.
    ///
    /// # Errors
    /// A patch failed or, if `is_strict`, was not needed or has a probe that did not run.
    pub fn verdict(&self, is_strict: bool) -> Result<(), Failure> {
        let failed: Vec<&PatchOutcome> = self.patches().filter(|patch| !patch.ok).collect();
        let fault = |what: String| Failure::new(Kind::Patch, what);
        if let Some(first) = failed.first() {
            let told = fault(format!(
                "{} of {} did not apply; nothing was written to {}",
                failed.len(),
                counted(self.count(|_| true), "patch"),
                self.failed_roots()
            ));
            return Err(hinted(told, first));
        }
        match () {
            () if is_strict && self.count(is_retired) > 0 => Err(fault(format!(
                "not needed for this version: {} (--strict); trees with them were not changed",
                counted(self.count(is_retired), "patch")
            ))
            .hint("leave out `--strict`, or narrow `versions` in the patch file")),
            () if is_strict && self.count(has_skipped) > 0 => Err(fault(format!(
                "probes of {} were not run (--strict); trees with such patches were not changed",
                counted(self.count(has_skipped), "patch")
            ))
            .hint("install what the report names, or leave out `--strict`")),
            () => Ok(()),
        }
    }

    /// Returns warnings about probes that did not run, because they do not count as passed.
    pub fn unrun_probes(&self) -> Vec<String> {
        let mut reasons: Vec<&str> = self
            .patches()
            .flat_map(|patch| &patch.probes)
            .filter(|probe| probe.result == "skipped")
            .filter_map(|probe| probe.reason.as_deref())
            .collect();
        reasons.sort_unstable();
        reasons.dedup();
        let warning = |reason: &str| {
            let next = if reason.starts_with(executor::CANNOT_CONFINE) {
                "; `--unconfined-probes` runs them with all your permissions, if you trust the tree"
            } else {
                ""
            };
            format!("probes were not run: {reason}{next}")
        };
        reasons.into_iter().map(warning).collect()
    }
}

/// Adds what to do next after a failed patch.
fn hinted(told: Failure, patch: &PatchOutcome) -> Failure {
    match &patch.verdict {
        Verdict::AnchorMissing { .. } | Verdict::Ambiguous { .. } => told.hint(format!(
            "the anchor of `{}` does not match upstream's text; is the version right (`--version`)? If so, the patch file must be updated",
            patch.id
        )),
        Verdict::BaseDirty { .. } => told.hint(
            "reinstall the package to restore its original file, or undo the patches with `build-pipeline patch revert`",
        ),
        Verdict::PartialUpstream { .. } => {
            told.hint("upstream already contains part of this patch; `if_partial` in the patch file specifies what happens then")
        }
        Verdict::Unreadable { .. } => {
            told.hint("a patched file must be a regular file inside the tree")
        }
        _ => told.hint("the report above shows where and why"),
    }
}
