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

mod gpu;
mod hash;
mod list;
mod nearest;
mod parse;
mod pattern;
mod reader;
mod spec;
mod text;
mod tree;
mod verdict;
mod version;
mod version_range;

pub use gpu::PLACEHOLDERS;
pub use nearest::NearestLine;
pub use parse::parse_patch;
pub use pattern::MAX_PATTERN_BYTES;
pub use spec::{
    Applies, Assert, Condition, Edit, Expect, IfAbsent, IfPartial, Item, Lines, Op, Outside, Patch,
    PatchTest, Probe, ProbeKind, Provenance, Relations, Replacement, SCHEMA, Then,
};
pub use tree::{MAX_FILE_BYTES, MAX_TOTAL_BYTES, ParseTreePathError, Tree, TreePath, Unreadable};
pub use verdict::{PresentBy, Verdict};
pub use version::{ParseVersionError, Version};
pub use version_range::{Position, VersionRange};
