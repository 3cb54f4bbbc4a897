//! The engine's verdicts on edits and patches.

use std::fmt;

use names::Sha256;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{NearestLine, TreePath};

/// The verdict on an edit or a patch. Files are written only if every verdict is good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Verdict {
    /// Good: changes were made.
    Applied {
        /// The number of changed places.
        count: usize,
    },
    /// Good: the text is already there.
    AlreadyPresent {
        /// Where the text comes from.
        by: PresentBy,
        /// The preprocessor condition that the text is under, if it is under one.
        #[serde(skip_serializing_if = "Option::is_none")]
        condition: Option<String>,
    },
    /// Good: upstream solved the problem in another way.
    SatisfiedOtherwise,
    /// Good: the patch is not for this version, GPU target or tree. Not good if the patch breaks
    /// this version.
    NotApplicable {
        /// The reason.
        because: String,
    },
    /// Upstream includes a part of the change. Good only if the patch allows it (`if_partial =
    /// "apply"`).
    PartialUpstream {
        /// The number of places without the change.
        missing: usize,
        /// The number of places with the change.
        present: usize,
    },
    /// The anchor does not match.
    AnchorMissing {
        /// The edit's files that exist; possibly none.
        files: Vec<TreePath>,
        /// The most similar line in the first of these files.
        nearest: Option<NearestLine>,
    },
    /// The anchor matches an unexpected number of times.
    Ambiguous {
        /// The file.
        file: TreePath,
        /// The number of matches; counting stops one above the largest expected count.
        found: usize,
        /// The expected numbers of matches.
        expected: Vec<usize>,
        /// The lines of the matches, from 1.
        lines: Vec<usize>,
    },
    /// A post-condition is not met.
    PostConditionFailed {
        /// The file.
        file: TreePath,
        /// The reason.
        reason: String,
    },
    /// A probe ran and failed.
    ProbeFailed {
        /// The name of the probe.
        probe: String,
        /// The reason.
        reason: String,
    },
    /// The patch conflicts with another patch or with this build.
    Conflict {
        /// The other patch, if there is one.
        with: Option<String>,
        /// The reason.
        reason: String,
    },
    /// Someone changed the file after it was fetched or patched.
    BaseDirty {
        /// The file.
        file: TreePath,
        /// The expected hash.
        expected: Sha256,
        /// The actual hash.
        found: Sha256,
    },
    /// The path is not a regular file, or the file is too large to be patched.
    Unreadable {
        /// The file.
        file: TreePath,
        /// The reason.
        reason: String,
    },
}

/// Where text that is already present comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PresentBy {
    /// Upstream: the file is as upstream released it.
    Upstream,
    /// This tool: the file is as a receipt describes it.
    Ours,
    /// Unknown: there is no receipt and no known base.
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

    /// Returns the name that reports use.
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

    /// Returns whether an edit with this verdict stops the whole run.
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

    /// Returns the verdict as a phrase for people.
    pub fn explain(&self) -> String {
        match self {
            Self::Applied { count: 1 } => "one place was changed".to_owned(),
            Self::Applied { count } => format!("{count} places were changed"),
            Self::AlreadyPresent { by, condition } => {
                let present = match by {
                    PresentBy::Upstream => "upstream includes it",
                    PresentBy::Ours => "it was applied earlier",
                    PresentBy::Unknown => "the text is already there",
                };
                match condition {
                    Some(condition) => format!("{present}, but only under `{condition}`"),
                    None => present.to_owned(),
                }
            }
            Self::SatisfiedOtherwise => "upstream solved this in another way".to_owned(),
            Self::NotApplicable { because } => because.clone(),
            Self::PartialUpstream { missing, present } => {
                format!("upstream includes it at {present} of {} places", missing + present)
            }
            Self::AnchorMissing { files, .. } if files.is_empty() => {
                "none of its files exists".to_owned()
            }
            Self::AnchorMissing { files, nearest } => {
                let names: Vec<&str> = files.iter().map(TreePath::as_str).collect();
                let near = nearest.as_ref().map(|near| {
                    format!("; line {} is the most similar: `{}`", near.line, near.text)
                });
                format!(
                    "the anchor was not found in {}{}",
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
                format!("someone changed `{file}`: its hash is {found}, expected {expected}")
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
