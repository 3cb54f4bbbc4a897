//! Applies regex-anchored edits to file contents, or reports exactly why an edit does not apply.
//!
//! A *patch* is a TOML file ([`parse_patch`]): a named set of *edits* for one component. Each edit
//! has an *anchor* (the pattern that finds the place) and the number of times that the anchor must
//! match. [`apply`] applies a [`PatchSet`] to a [`Tree`] in memory and returns an [`Outcome`]: a
//! [`Verdict`] for each edit and patch, and the new contents only if every verdict is good.
//! [`revert`] undoes the changes of a [`Receipt`].
//!
//! This crate reads and writes no files, runs no probes, and uses no clock or environment. It reads
//! contents through [`Tree`], and passes probes as [`ProbeJob`]s to [`Probes`]. Time and memory are
//! bounded even for hostile input: files, patterns and compiled patterns have size limits, patterns
//! run in linear time, and match counting stops one above the expected count.

#![cfg_attr(
    test,
    expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")
)]

mod audit;
mod checks;
mod cmake;
mod conditions;
mod engine;
pub mod forms;
mod gpu;
mod hash;
mod list;
mod nearest;
mod outcome;
mod parse;
mod pattern;
mod prepared;
mod probe;
mod reader;
mod receipt;
mod selftest;
mod set;
mod spec;
#[cfg(test)]
mod tests;
mod text;
mod tree;
mod verdict;
mod version_range;
mod work;

pub use audit::{Retirement, retirement};
pub use engine::{Selected, Selection, Subject, apply};
pub use gpu::PLACEHOLDERS;
pub use nearest::NearestLine;
pub use outcome::{EditOutcome, FileChange, Outcome, PatchOutcome, ProbeOutcome};
pub use parse::{PatchPlace, parse_patch, parse_patch_at};
pub use pattern::MAX_PATTERN_BYTES;
pub use prepared::Splice;
pub use probe::{NoProbes, ProbeJob, ProbeRun, Probes, Tool, judge_probe, probe_job};
pub use receipt::{FileReceipt, PatchReceipt, Receipt, RevertError, revert};
pub use selftest::{TestFailure, run_tests};
pub use set::{PatchSet, PatchSetError};
pub use spec::{
    Applies, Assert, Condition, Edit, Expect, IfAbsent, IfPartial, Item, Lines, Op, Outside, Patch,
    PatchTest, Probe, ProbeKind, Provenance, Relations, Replacement, SCHEMA, Then,
};
pub use tree::{MAX_FILE_BYTES, MAX_TOTAL_BYTES, ParseTreePathError, Tree, TreePath, Unreadable};
pub use verdict::{PresentBy, Verdict};
pub use version_range::{Position, VersionRange};
