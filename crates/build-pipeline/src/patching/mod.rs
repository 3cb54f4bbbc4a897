//! The local parts of patching: patch files, trees on disk, receipts, versions.
//!
//! `patches` reads the project's patch files. `directory` reads a tree on disk, `replace` writes
//! it, and `ledger` keeps its receipts. `pinned` is the tree of a pin, `version` detects the
//! version of a tree, and `installed` detects what is installed in a system and its GPUs. The crate
//! `patcher`, which touches no disk, works out the changes.

pub(crate) mod directory;
pub(crate) mod installed;
pub(crate) mod ledger;
pub(crate) mod patches;
pub(crate) mod pinned;
pub(crate) mod replace;
pub(crate) mod version;

use patcher::Tree;

/// A tree with a name for people and a root that can be listed.
pub(crate) trait Rooted: Tree + std::fmt::Debug {
    /// Returns the names in the root, sorted. Leaves out unreadable names.
    fn names(&self) -> Vec<String>;

    /// Returns the tree's name for people.
    fn shown(&self) -> String;
}
