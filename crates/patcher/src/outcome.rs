//! The result of applying patches: verdicts, new contents, differences, a receipt, a report.

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

/// The result of applying patches. As JSON it is the report, which does not contain the new
/// contents.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Outcome {
    schema: &'static str,
    /// The component.
    pub component: Option<String>,
    /// The version, if known.
    pub version: Option<String>,
    /// The GPU target.
    pub gpu: String,
    /// The hash of the effect of all patches.
    pub set: Sha256,
    /// Whether every verdict is good. Only then are there changes.
    pub ok: bool,
    /// The result of each patch, in the order of application.
    pub patches: Vec<PatchOutcome>,
    /// The files to write, sorted by path. Empty unless `ok`.
    pub files: Vec<FileChange>,
}

/// The result of a patch.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PatchOutcome {
    /// The patch.
    pub id: String,
    /// The hash of the effect of the patch.
    pub sha256: Sha256,
    /// Whether the verdict is good.
    pub ok: bool,
    /// The verdict.
    pub verdict: Verdict,
    /// The verdict as text for people.
    pub explanation: String,
    /// What the patch does not achieve, if it was applied.
    pub limits: Option<String>,
    /// Whether upstream includes the change, so that this version no longer needs the patch.
    pub is_retired: bool,
    /// The result of each edit.
    pub edits: Vec<EditOutcome>,
    /// The result of each probe.
    pub probes: Vec<ProbeOutcome>,
}

/// The result of an edit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EditOutcome {
    /// The file that the edit matched; if there is none, the first one that exists.
    pub file: Option<TreePath>,
    /// The verdict.
    pub verdict: Verdict,
}

/// The result of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProbeOutcome {
    /// The probe.
    pub name: String,
    /// `passed`, `failed` or `skipped`.
    pub result: &'static str,
    /// The reason, unless it passed.
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

/// A file to write.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct FileChange {
    /// Its path.
    pub path: TreePath,
    /// The current hash.
    pub before: Sha256,
    /// The hash after the change.
    pub after: Sha256,
    /// The patches that change the file, in order.
    pub patches: Vec<String>,
    /// The current content.
    #[serde(skip)]
    pub old: Vec<u8>,
    /// The new content. The file mode does not change.
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

    /// Returns the changes as a unified diff that `git apply` and `patch -p1` accept.
    pub fn diff(&self) -> Vec<u8> {
        self.files.iter().flat_map(|file| unified(&file.path, &file.old, &file.new)).collect()
    }

    /// Returns the diff that undoes the changes.
    pub fn reverse_diff(&self) -> Vec<u8> {
        self.files.iter().flat_map(|file| unified(&file.path, &file.new, &file.old)).collect()
    }

    /// Returns the receipt to keep next to the tree, or `None` if nothing changed.
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

/// The number of unchanged lines around a change.
const CONTEXT: usize = 3;

/// Returns the unified diff of a file as bytes, without decoding them. Only `\n` ends a line, as in
/// git and patch. Few lines change, so this is fast even on large files.
fn unified(path: &TreePath, old: &[u8], new: &[u8]) -> Vec<u8> {
    let lines = |text| <[u8]>::split_inclusive(text, |byte| *byte == b'\n').collect::<Vec<_>>();
    let (old, new) = (lines(old), lines(new));
    let changes = similar::capture_diff_slices(similar::Algorithm::Myers, &old, &new);
    // A tab ends a name that contains spaces.
    let name_end = if path.as_str().contains(' ') { "\t" } else { "" };
    let mut diff = format!("--- a/{path}{name_end}\n+++ b/{path}{name_end}\n").into_bytes();
    for group in similar::group_diff_ops(changes, CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let range = |start: usize, end: usize| match end - start {
            0 => format!("{start},0"),
            1 => format!("{}", start + 1),
            length => format!("{},{length}", start + 1),
        };
        let of_old = range(first.old_range().start, last.old_range().end);
        let of_new = range(first.new_range().start, last.new_range().end);
        diff.extend_from_slice(format!("@@ -{of_old} +{of_new} @@\n").as_bytes());
        for change in &group {
            if change.tag() == similar::DiffTag::Equal {
                add_lines(&mut diff, b' ', &old[change.old_range()]);
            } else {
                add_lines(&mut diff, b'-', &old[change.old_range()]);
                add_lines(&mut diff, b'+', &new[change.new_range()]);
            }
        }
    }
    diff
}

fn add_lines(diff: &mut Vec<u8>, sign: u8, lines: &[&[u8]]) {
    for line in lines {
        diff.push(sign);
        diff.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            diff.extend_from_slice(b"\n\\ No newline at end of file\n");
        }
    }
}
