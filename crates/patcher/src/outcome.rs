//! What applying patches came to: verdicts, new contents, differences, a receipt, a report.

use names::Sha256;
use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::Subject;
use crate::hash;
use crate::receipt::{FileReceipt, PatchReceipt, Receipt};
use crate::work::Work;
use crate::{PatchSet, Splice, TreePath, Verdict};

/// The name and version of the report's format.
const REPORT_SCHEMA: &str = "build-pipeline/patch-report/v1";

/// What applying patches came to. As JSON it is the report; new contents are not in it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Outcome {
    schema: &'static str,
    /// The component.
    pub component: Option<String>,
    /// The version, where it is known.
    pub version: Option<String>,
    /// The GPU target.
    pub gpu: String,
    /// The hash over what all patches do.
    pub set: Sha256,
    /// Whether every verdict is a good one. Only then are there changes.
    pub ok: bool,
    /// What became of each patch, in the order of application.
    pub patches: Vec<PatchOutcome>,
    /// The files to write, in the order of their paths. Empty unless `ok`.
    pub files: Vec<FileChange>,
}

/// What became of a patch.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PatchOutcome {
    /// The patch.
    pub id: String,
    /// The hash of what it does.
    pub sha256: Sha256,
    /// Whether the verdict is a good one.
    pub ok: bool,
    /// The verdict.
    pub verdict: Verdict,
    /// The verdict for people.
    pub explanation: String,
    /// What the patch does not achieve, where it was applied.
    pub limits: Option<String>,
    /// Whether upstream has it, so that it is of no more use for this version.
    pub is_retired: bool,
    /// What became of each edit.
    pub edits: Vec<EditOutcome>,
    /// What became of each probe.
    pub probes: Vec<ProbeOutcome>,
}

/// What became of an edit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EditOutcome {
    /// The file it settled on, or would have.
    pub file: Option<TreePath>,
    /// The verdict.
    pub verdict: Verdict,
}

/// What became of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProbeOutcome {
    /// The probe.
    pub name: String,
    /// `passed`, `failed` or `skipped`.
    pub result: &'static str,
    /// Why, unless it passed.
    pub reason: Option<String>,
}

impl ProbeOutcome {
    pub(crate) fn skipped(name: &str, reason: &str) -> Self {
        Self { name: name.to_owned(), result: "skipped", reason: Some(reason.to_owned()) }
    }

    pub(crate) fn ran(name: &str, result: &Result<(), String>) -> Self {
        let verdict = if result.is_ok() { "passed" } else { "failed" };
        Self { name: name.to_owned(), result: verdict, reason: result.clone().err() }
    }
}

/// A file that is to be written.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct FileChange {
    /// Its path.
    pub path: TreePath,
    /// The hash it has.
    pub before: Sha256,
    /// The hash it will have.
    pub after: Sha256,
    /// The patches that change it, in order.
    pub patches: Vec<String>,
    /// What it holds.
    #[serde(skip)]
    pub old: Vec<u8>,
    /// What it will hold. Its mode is to stay as it is.
    #[serde(skip)]
    pub new: Vec<u8>,
    #[serde(skip)]
    splices: Vec<Splice>,
}

impl FileChange {
    pub(crate) fn new(path: TreePath, work: Work) -> Self {
        Self {
            path,
            before: hash::sha256(&work.original),
            after: hash::sha256(&work.current),
            patches: work.patches,
            old: work.original,
            new: work.current,
            splices: work.splices,
        }
    }
}

impl Outcome {
    pub(crate) fn new(
        set: &PatchSet,
        subject: &Subject<'_>,
        ok: bool,
        patches: Vec<PatchOutcome>,
        files: Vec<FileChange>,
    ) -> Self {
        Self {
            schema: REPORT_SCHEMA,
            component: set.patches().first().map(|patch| patch.component.clone()),
            version: subject.version.map(ToString::to_string),
            gpu: subject.gpu.to_string(),
            set: set.sha256(),
            ok,
            patches,
            files,
        }
    }

    /// Returns the changes as a unified diff that `git apply` and `patch -p1` take.
    pub fn diff(&self) -> Vec<u8> {
        self.files.iter().flat_map(|file| unified(&file.path, &file.old, &file.new)).collect()
    }

    /// Returns the diff that takes the changes back.
    pub fn reverse_diff(&self) -> Vec<u8> {
        self.files.iter().flat_map(|file| unified(&file.path, &file.new, &file.old)).collect()
    }

    /// Returns the receipt to keep beside the tree, if anything was changed.
    pub fn receipt(&self) -> Option<Receipt> {
        if self.files.is_empty() {
            return None;
        }
        let file = |change: &FileChange| FileReceipt {
            path: change.path.clone(),
            before: change.before.clone(),
            after: change.after.clone(),
            splices: change.splices.clone(),
        };
        let patches = self.patches.iter().filter(|patch| {
            matches!(patch.verdict, Verdict::Applied { .. } | Verdict::PartialUpstream { .. })
        });
        let patches = patches
            .map(|patch| PatchReceipt { id: patch.id.clone(), sha256: patch.sha256.clone() });
        Some(Receipt {
            schema: Receipt::SCHEMA,
            component: self.component.clone().unwrap_or_default(),
            version: self.version.clone(),
            gpu: self.gpu.clone(),
            patches: patches.collect(),
            files: self.files.iter().map(file).collect(),
        })
    }
}

/// Differences are looked for line by line; the few changed lines keep this fast on large files.
fn unified(path: &TreePath, old: &[u8], new: &[u8]) -> Vec<u8> {
    let diff = similar::TextDiff::from_lines(old, new);
    let mut text = Vec::new();
    let header = (format!("a/{path}"), format!("b/{path}"));
    let written =
        diff.unified_diff().context_radius(3).header(&header.0, &header.1).to_writer(&mut text);
    written.expect("writing to memory does not fail");
    text
}
