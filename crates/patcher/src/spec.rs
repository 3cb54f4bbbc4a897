//! What a patch file says, as types. [`crate::parse_patch`] makes them.

use std::collections::{BTreeMap, BTreeSet};

use names::{GpuTarget, Sha256};
use serde::Serialize;

use crate::hash::sha256;
use crate::{TreePath, VersionRange};
use names::Version;

/// The `schema` number this crate reads.
pub const SCHEMA: i64 = 1;

/// A named set of edits for one component.
#[derive(Debug, Clone)]
pub struct Patch {
    /// Its name, unique within the component.
    pub id: String,
    /// The component it is for, for example `vllm`.
    pub component: String,
    /// Where it comes from, after DEP-3.
    pub provenance: Provenance,
    /// What it is for.
    pub applies: Applies,
    /// What it changes, in order. At least one.
    pub edits: Vec<Edit>,
    /// What must hold afterwards.
    pub asserts: Vec<Assert>,
    /// What can be run to see that it works.
    pub probes: Vec<Probe>,
    /// How it stands to other patches.
    pub relations: Relations,
    /// Its own tests.
    pub tests: Vec<PatchTest>,
}

/// Where a patch comes from. The fields are those of DEP-3, the Debian patch tagging guidelines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// What it does and why.
    pub description: String,
    /// Who wrote it.
    pub author: String,
    /// `upstream`, `backport`, `vendor` or `other`, and where it was taken from.
    pub origin: String,
    /// The upstream bug it is about.
    pub bug: Option<String>,
    /// `no`, `not-needed`, or where it was sent.
    pub forwarded: String,
    /// The upstream version or commit that has it.
    pub applied_upstream: Option<String>,
    /// The day it was last changed, as `YYYY-MM-DD`.
    pub last_update: String,
    /// What it does not achieve; shown wherever it is applied.
    pub limits: Option<String>,
}

/// The versions and GPU targets that a patch is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Applies {
    /// Versions that are edited.
    pub versions: VersionRange,
    /// What holds for versions before them.
    pub below: Option<Outside>,
    /// What holds for versions after them.
    pub above: Option<Outside>,
    /// A pattern that matches the whole name of the GPU targets it is of use for.
    pub gpus: Option<String>,
    /// What to do where upstream has a part of it.
    pub if_partial: IfPartial,
}

/// What holds for versions on one side of a range.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outside {
    /// What to do.
    pub then: Then,
    /// Why, for readers.
    pub because: String,
}

/// What to do with a version outside the range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Then {
    /// The patch is of no use: not applicable.
    Skip,
    /// Upstream must have it by now, in the same words or others.
    ExpectSatisfied,
    /// The patch does harm: not applicable, and an error.
    Refuse,
}

/// What to do where some edits are upstream already and others are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IfPartial {
    /// Stop: somebody must look.
    Refuse,
    /// Make the edits that are missing.
    Apply,
}

/// One change to one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Edit {
    /// The names the file has had. The first that exists and fits is edited.
    pub files: Vec<TreePath>,
    /// Whether it is all right that none of `files` exists.
    pub if_absent: IfAbsent,
    /// The pattern that finds the place.
    pub anchor: String,
    /// How often the anchor must match.
    pub expect: Expect,
    /// What to do there.
    #[serde(flatten)]
    pub op: Op,
    /// A pattern that says that it is done: within the list or value, or in the file for insertions.
    pub already: Option<String>,
    /// A pattern on the file that says that upstream reached the aim in another way.
    pub satisfied_by: Option<String>,
}

/// What to do where none of an edit's files exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IfAbsent {
    /// The anchor is missing.
    Fail,
    /// The edit is not applicable.
    Skip,
}

/// What an edit does at its anchor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum Op {
    /// Puts an item behind the last one of the group `list`.
    ListAppend(Item),
    /// Puts an item before the first one of the group `list`.
    ListPrepend(Item),
    /// Puts lines before the line the match begins on.
    InsertBefore(Lines),
    /// Puts lines behind the line the match ends on.
    InsertAfter(Lines),
    /// Replaces the group `value`.
    ReplaceCapture(Replacement),
}

/// An item of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Item {
    /// The item, with its quotes.
    pub item: String,
    /// What stands between items; how it is written in a list of one item.
    pub sep: String,
}

/// Whole lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lines {
    /// The lines, with their indentation.
    pub text: String,
}

/// What stands in place of a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Replacement {
    /// The new value.
    pub with: String,
}

/// How often an anchor must match, by version. The ranges neither overlap nor leave a gap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Expect(pub Vec<(VersionRange, usize)>);

impl Expect {
    /// Returns the counts that are right for `version`. Where it is not known or lies outside all
    /// ranges, each stated count is right.
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
    /// The pattern matches, exactly `count` times where that is given.
    Matches {
        /// The pattern.
        pattern: String,
        /// How often.
        count: Option<usize>,
    },
    /// The pattern matches nowhere.
    Absent {
        /// The pattern.
        pattern: String,
    },
}

/// A post-condition: what must hold of a file once all patches are applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Assert {
    /// The names the file has had. The first that this patch settled on is looked at; a file no
    /// edit of this patch names is looked at in any case.
    pub files: Vec<TreePath>,
    /// What must hold.
    pub condition: Condition,
}

/// Something that can be run, without a GPU, to see that a patch works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// Its name, unique within the patch.
    pub name: String,
    /// The files it looks at.
    pub files: Vec<TreePath>,
    /// What is run.
    #[serde(flatten)]
    pub kind: ProbeKind,
    /// Whether the run must succeed (or must fail).
    pub success: bool,
    /// What must hold of its standard output.
    pub conditions: Vec<Condition>,
}

/// What a probe runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ProbeKind {
    /// `cmake -P` with this script; those of the files that exist lie beside it.
    CmakeScript {
        /// The script.
        script: String,
    },
    /// The C++ preprocessor over the first of the files that exists, its `#include` lines left out.
    CppMacro {
        /// Macros that are defined, as `NAME` or `NAME=VALUE`.
        defines: Vec<String>,
    },
    /// Python compiles those of the files that exist.
    PythonCompile,
    /// Python takes functions out of the first of the files that exists, and calls them.
    PythonCall {
        /// The functions.
        functions: Vec<String>,
        /// What is run before they are defined.
        prelude: String,
        /// What is run afterwards.
        call: String,
    },
}

/// How a patch stands to other patches and to the build.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Relations {
    /// Patches without which this one does harm.
    pub requires: Vec<String>,
    /// Patches that cannot stand beside this one.
    pub conflicts: Vec<String>,
    /// Patches with a smaller number are applied first.
    pub order: i64,
    /// Environment variables of the build without which this patch does harm.
    pub build_env: BTreeMap<String, String>,
}

/// A test inside a patch file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchTest {
    /// Its name.
    pub name: String,
    /// The version the files are of, where the test names one.
    pub version: Option<Version>,
    /// The GPU target.
    pub gpu: GpuTarget,
    /// The files before.
    pub given: BTreeMap<TreePath, String>,
    /// The verdict, as [`crate::Verdict`] prints: `applied(1)`, `already-present`.
    pub verdict: String,
    /// The files after. Files that are not named must not change.
    pub then: BTreeMap<TreePath, String>,
}

impl Patch {
    /// Returns the SHA-256 of what the patch does: not of its comments, provenance and tests.
    pub fn sha256(&self) -> Sha256 {
        let Self { id, component, applies, edits, asserts, probes, relations, .. } = self;
        let effect = (SCHEMA, id, component, applies, edits, asserts, probes, relations);
        // Maps are ordered and all keys are text, so this cannot fail and is always the same.
        sha256(&serde_json::to_vec(&effect).expect("a patch is plain data"))
    }
}
