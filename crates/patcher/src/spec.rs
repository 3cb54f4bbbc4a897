//! The content of a patch file, as types. [`crate::parse_patch`] creates them.

use std::collections::{BTreeMap, BTreeSet};

use names::{GpuTarget, Sha256};
use serde::Serialize;

use crate::hash::sha256;
use crate::{TreePath, VersionRange};
use names::Version;

/// The `schema` number that this crate reads.
pub const SCHEMA: i64 = 1;

/// A named set of edits for one component.
#[derive(Debug, Clone)]
pub struct Patch {
    /// Its name, unique within the component.
    pub id: String,
    /// The component it is for, for example `vllm`.
    pub component: String,
    /// Where it comes from, in the fields of DEP-3.
    pub provenance: Provenance,
    /// The versions and GPU targets that the patch applies to.
    pub applies: Applies,
    /// Its changes, in order. There is at least one.
    pub edits: Vec<Edit>,
    /// The post-conditions.
    pub asserts: Vec<Assert>,
    /// The probes that check whether it works.
    pub probes: Vec<Probe>,
    /// Its relations to other patches.
    pub relations: Relations,
    /// Its own tests.
    pub tests: Vec<PatchTest>,
}

/// Where a patch comes from. The fields are those of DEP-3, the Debian patch tagging guidelines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// What it does, and why.
    pub description: String,
    /// Who wrote it.
    pub author: String,
    /// `upstream`, `backport`, `vendor` or `other`, and the place it was taken from.
    pub origin: String,
    /// The upstream bug that the patch fixes.
    pub bug: Option<String>,
    /// `no`, `not-needed`, or the place it was sent to.
    pub forwarded: String,
    /// The upstream version or commit that includes it.
    pub applied_upstream: Option<String>,
    /// The date of the last change, as `YYYY-MM-DD`.
    pub last_update: String,
    /// What it does not achieve; shown whenever it is applied.
    pub limits: Option<String>,
}

/// The versions and GPU targets that a patch applies to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Applies {
    /// The versions to edit.
    pub versions: VersionRange,
    /// The rule for earlier versions.
    pub below: Option<Outside>,
    /// The rule for later versions.
    pub above: Option<Outside>,
    /// A pattern that must match the whole name of a GPU target.
    pub gpus: Option<String>,
    /// The versions of ROCm that the patch is for. Only `apply --when auto` checks them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rocm: Option<VersionRange>,
    /// What to do if upstream includes a part of it.
    pub if_partial: IfPartial,
}

/// The rule for the versions on one side of a range.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outside {
    /// What to do.
    pub then: Then,
    /// The reason, for people.
    pub because: String,
}

/// What to do with a version outside the range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Then {
    /// Not applicable: the version lacks the text that the patch edits. The tree is searched to
    /// confirm this.
    Skip,
    /// Not applicable, whatever the tree contains.
    LeaveAlone,
    /// Upstream must include the change, in the same form or another.
    ExpectSatisfied,
    /// The patch breaks the version: not applicable, and an error.
    Refuse,
}

/// What to do if upstream includes only some of the edits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IfPartial {
    /// Stop, so that a person can check.
    Refuse,
    /// Make the missing edits.
    Apply,
}

/// One change to one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Edit {
    /// The file and its earlier names. The first one that exists and matches is edited.
    pub files: Vec<TreePath>,
    /// What to do if none of `files` exists.
    pub if_absent: IfAbsent,
    /// With [`IfAbsent::Skip`], the versions that may lack the files; if `None`, all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent_in: Option<VersionRange>,
    /// The pattern that finds the text to edit.
    pub anchor: String,
    /// How often the anchor must match.
    pub expect: Expect,
    /// How to change the text.
    #[serde(flatten)]
    pub op: Op,
    /// A pattern that matches when the edit is already done. It is applied to the list or value;
    /// for insertions, to the file.
    pub already: Option<String>,
    /// A pattern that matches the file when upstream solved the problem in another way.
    pub satisfied_by: Option<String>,
    /// A pattern that finds the code to edit even if the anchor does not match. If a version that
    /// the patch skips contains a match, the patch fails. An edit whose files may be absent is not
    /// applicable to files without a match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guards: Option<String>,
}

/// What to do if none of an edit's files exists, or none contains a match of its `guards`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IfAbsent {
    /// Treat the anchor as missing.
    Fail,
    /// Treat the edit as not applicable.
    Skip,
}

/// The operation of an edit at its anchor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum Op {
    /// Adds an item after the last one of the group `list`.
    ListAppend(Item),
    /// Adds an item before the first one of the group `list`.
    ListPrepend(Item),
    /// Inserts lines before the first line of the match.
    InsertBefore(Lines),
    /// Inserts lines after the last line of the match.
    InsertAfter(Lines),
    /// Replaces the group `value`.
    ReplaceCapture(Replacement),
}

/// An item of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Item {
    /// The item, with its quotes.
    pub item: String,
    /// The separator between items. The spaces around it are used only if the list has one item.
    pub sep: String,
}

/// Whole lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lines {
    /// The lines, with their indentation.
    pub text: String,
}

/// The replacement of a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Replacement {
    /// The new value.
    pub with: String,
}

/// How often an anchor must match, by version. The ranges have no overlaps and no gaps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Expect(pub Vec<(VersionRange, usize)>);

impl Expect {
    /// Returns the accepted counts for `version`. If the version is unknown or outside all ranges,
    /// every stated count is accepted.
    pub fn counts(&self, version: Option<&Version>) -> BTreeSet<usize> {
        let is_meant = |range: &VersionRange| {
            version.is_some_and(|version| range.position(version) == crate::Position::Inside)
        };
        let meant: BTreeSet<usize> =
            self.0.iter().filter(|(range, _)| is_meant(range)).map(|(_, count)| *count).collect();
        if meant.is_empty() { self.0.iter().map(|(_, count)| *count).collect() } else { meant }
    }
}

/// A condition on a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// The pattern matches; exactly `count` times, if given.
    Matches {
        /// The pattern.
        pattern: String,
        /// The exact number of matches.
        count: Option<usize>,
    },
    /// The pattern does not match.
    Absent {
        /// The pattern.
        pattern: String,
    },
}

/// A post-condition: a condition on a file after all patches are applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Assert {
    /// The file and its earlier names. The first one that an edit of this patch matched is checked;
    /// a file that no edit of this patch refers to is always checked.
    pub files: Vec<TreePath>,
    /// The condition.
    pub condition: Condition,
}

/// A program that checks, without a GPU, whether a patch works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// Its name, unique within the patch.
    pub name: String,
    /// The files that it checks. A probe of one file checks the first one that an edit of the patch
    /// matched, or else the first one that exists.
    pub files: Vec<TreePath>,
    /// What to run.
    #[serde(flatten)]
    pub kind: ProbeKind,
    /// Whether the run must succeed; otherwise, it must fail.
    pub success: bool,
    /// The conditions on its standard output.
    pub conditions: Vec<Condition>,
}

/// What a probe runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ProbeKind {
    /// `cmake -P` with this script; the existing files are in the same directory.
    CmakeScript {
        /// The script.
        script: String,
        /// A pattern for commands of the checked file. The script includes them, in order, as
        /// `build-pipeline-commands.cmake`.
        #[serde(skip_serializing_if = "Option::is_none")]
        commands: Option<String>,
    },
    /// The C++ preprocessor on the checked file, with its `#include` lines removed.
    CppMacro {
        /// Macros to define, as `NAME` or `NAME=VALUE`.
        defines: Vec<String>,
    },
    /// Python compiles the existing files.
    PythonCompile,
    /// Python extracts functions from the checked file and calls them.
    PythonCall {
        /// The functions.
        functions: Vec<String>,
        /// The code to run before the functions are defined.
        prelude: String,
        /// The code to run afterwards.
        call: String,
    },
}

/// The relations of a patch to other patches and to the build.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Relations {
    /// Patches that this one needs; without them it breaks the source.
    pub requires: Vec<String>,
    /// Patches that cannot be combined with this one.
    pub conflicts: Vec<String>,
    /// Patches with a smaller number are applied first.
    pub order: i64,
    /// The build's environment variables that this patch needs; without them it breaks the build.
    pub build_env: BTreeMap<String, String>,
}

/// A test inside a patch file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchTest {
    /// Its name.
    pub name: String,
    /// The version of the files, if the test names one.
    pub version: Option<Version>,
    /// The GPU target.
    pub gpu: GpuTarget,
    /// The files before the test.
    pub given: BTreeMap<TreePath, String>,
    /// The verdict, as [`crate::Verdict`] prints it: `applied(1)`, `already-present`.
    pub verdict: String,
    /// The files after the test. Files that are not listed must not change.
    pub then: BTreeMap<TreePath, String>,
}

impl Patch {
    /// Returns the SHA-256 of the effect of the patch. Comments, provenance and tests do not count.
    pub fn sha256(&self) -> Sha256 {
        let Self { id, component, applies, edits, asserts, probes, relations, .. } = self;
        let effect = (SCHEMA, id, component, applies, edits, asserts, probes, relations);
        // Maps are ordered and all keys are texts, so this cannot fail and always gives the same
        // result.
        sha256(&serde_json::to_vec(&effect).expect("a patch is plain data"))
    }
}
