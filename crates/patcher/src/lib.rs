//! Applies regex-anchored edits to file contents, or says exactly why not.
//!
//! A *patch* is a TOML file ([`parse_patch`]): a named set of *edits* for one component, each with
//! an *anchor* (the pattern that finds the place) and the number of times it must match. [`apply`]
//! works out what a [`PatchSet`] does to a [`Tree`] and gives back an [`Outcome`]: a [`Verdict`] per
//! edit and patch, and the new contents only if every verdict is a good one. [`revert`] takes a
//! [`Receipt`] back.
//!
//! Nothing is read or written here, no probe is run, no clock or environment is asked: contents
//! come through [`Tree`], probes go out as [`ProbeJob`]s through [`Probes`]. Time and memory are
//! bounded on hostile input: sizes of files, patterns and compiled patterns have limits, patterns
//! run in linear time, and counting matches stops one above the expected count.

mod audit;
mod checks;
mod engine;
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
