//! What the engine says about an edit or a patch.

use std::fmt;

use names::Sha256;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{NearestLine, TreePath};

/// What became of an edit or a patch. Files are written only if every verdict is a good one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Verdict {
    /// Good: changes were made.
    Applied {
        /// How many places were changed.
        count: usize,
    },
    /// Good: the text is there already.
    AlreadyPresent {
        /// Who put it there.
        by: PresentBy,
    },
    /// Good: upstream reached the aim in another way.
    SatisfiedOtherwise,
    /// Good: the patch is not for this version, GPU target or tree. Not good where the version is
    /// one that the patch harms.
    NotApplicable {
        /// Why.
        because: String,
    },
    /// Upstream has a part of it. Good only where the patch says so (`if_partial = "apply"`).
    PartialUpstream {
        /// How many places were missing it.
        missing: usize,
        /// How many places have it.
        present: usize,
    },
    /// The anchor matches nowhere.
    AnchorMissing {
        /// The files of the edit that exist; none of them may.
        files: Vec<TreePath>,
        /// The line that comes nearest, in the first of them.
        nearest: Option<NearestLine>,
    },
    /// The anchor does not match as often as stated.
    Ambiguous {
        /// The file.
        file: TreePath,
        /// How often it matches; counting stops one above the largest expected count.
        found: usize,
        /// How often it should.
        expected: Vec<usize>,
        /// The lines of the matches, from 1.
        lines: Vec<usize>,
    },
    /// What must hold afterwards does not.
    PostConditionFailed {
        /// The file.
        file: TreePath,
        /// What does not hold.
        reason: String,
    },
    /// A probe ran and did not say what it should.
    ProbeFailed {
        /// The name of the probe.
        probe: String,
        /// What it said.
        reason: String,
    },
    /// The patch cannot stand beside another one or in this build.
    Conflict {
        /// The other patch, if there is one.
        with: Option<String>,
        /// Why.
        reason: String,
    },
    /// Somebody changed the file since it was fetched or patched.
    BaseDirty {
        /// The file.
        file: TreePath,
        /// The hash it should have.
        expected: Sha256,
        /// The hash it has.
        found: Sha256,
    },
    /// What stands there is no regular file of a size that is patched.
    Unreadable {
        /// The file.
        file: TreePath,
        /// Why.
        reason: String,
    },
}

/// Who put a text there that is present already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PresentBy {
    /// The file is as upstream released it.
    Upstream,
    /// The file is as a receipt of ours says we left it.
    Ours,
    /// Nobody can tell: there is neither a receipt nor a known base.
    Unknown,
}

impl Verdict {
    /// The names of all verdicts, as they are printed.
    pub const NAMES: [&str; 12] = [
        "applied",
        "already-present",
        "satisfied-otherwise",
        "not-applicable",
        "partial-upstream",
        "anchor-missing",
        "ambiguous",
        "post-condition-failed",
        "probe-failed",
        "conflict",
        "base-dirty",
        "unreadable",
    ];

    /// Returns the name, as reports print it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Applied { .. } => "applied",
            Self::AlreadyPresent { .. } => "already-present",
            Self::SatisfiedOtherwise => "satisfied-otherwise",
            Self::NotApplicable { .. } => "not-applicable",
            Self::PartialUpstream { .. } => "partial-upstream",
            Self::AnchorMissing { .. } => "anchor-missing",
            Self::Ambiguous { .. } => "ambiguous",
            Self::PostConditionFailed { .. } => "post-condition-failed",
            Self::ProbeFailed { .. } => "probe-failed",
            Self::Conflict { .. } => "conflict",
            Self::BaseDirty { .. } => "base-dirty",
            Self::Unreadable { .. } => "unreadable",
        }
    }

    /// Returns whether an edit of this verdict stops everything.
    pub(crate) fn is_failure(&self) -> bool {
        match self {
            Self::Applied { .. }
            | Self::AlreadyPresent { .. }
            | Self::SatisfiedOtherwise
            | Self::NotApplicable { .. }
            | Self::PartialUpstream { .. } => false,
            Self::AnchorMissing { .. }
            | Self::Ambiguous { .. }
            | Self::PostConditionFailed { .. }
            | Self::ProbeFailed { .. }
            | Self::Conflict { .. }
            | Self::BaseDirty { .. }
            | Self::Unreadable { .. } => true,
        }
    }

    /// Returns one sentence fragment for people: what is the matter, and where.
    pub fn explain(&self) -> String {
        match self {
            Self::Applied { count: 1 } => "one place was changed".to_owned(),
            Self::Applied { count } => format!("{count} places were changed"),
            Self::AlreadyPresent { by: PresentBy::Upstream } => "upstream has it".to_owned(),
            Self::AlreadyPresent { by: PresentBy::Ours } => "it was applied before".to_owned(),
            Self::AlreadyPresent { by: PresentBy::Unknown } => {
                "the text is there already".to_owned()
            }
            Self::SatisfiedOtherwise => "upstream reached the aim in another way".to_owned(),
            Self::NotApplicable { because } => because.clone(),
            Self::PartialUpstream { missing, present } => {
                format!("upstream has it at {present} of {} places", missing + present)
            }
            Self::AnchorMissing { files, .. } if files.is_empty() => {
                "none of its files exists".to_owned()
            }
            Self::AnchorMissing { files, nearest } => {
                let names: Vec<&str> = files.iter().map(TreePath::as_str).collect();
                let near = nearest
                    .as_ref()
                    .map(|near| format!("; line {} comes nearest: `{}`", near.line, near.text));
                format!(
                    "the anchor matches nowhere in {}{}",
                    crate::reader::list(&names),
                    near.unwrap_or_default()
                )
            }
            Self::Ambiguous { file, found, expected, lines } => {
                let join = |numbers: &[usize]| {
                    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
                };
                let at_least =
                    if expected.iter().all(|expected| found > expected) { "at least " } else { "" };
                format!(
                    "the anchor matches {at_least}{found} times in `{file}` (lines {}), expected {}",
                    join(lines),
                    join(expected)
                )
            }
            Self::PostConditionFailed { file, reason } => format!("`{file}`: {reason}"),
            Self::ProbeFailed { probe, reason } => format!("probe `{probe}`: {reason}"),
            Self::Conflict { with: Some(with), reason } => format!("with `{with}`: {reason}"),
            Self::Conflict { with: None, reason } => reason.clone(),
            Self::BaseDirty { file, expected, found } => {
                format!(
                    "`{file}` was changed by somebody: it has {found} where {expected} was expected"
                )
            }
            Self::Unreadable { file, reason } => format!("`{file}`: {reason}"),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Applied { count } => write!(f, "applied({count})"),
            _ => f.write_str(self.name()),
        }
    }
}
