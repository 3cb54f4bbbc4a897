//! Patching: trees on disk, receipts, versions, and trying, applying and undoing patches.
//!
//! `directory` reads a tree on disk, `replace` writes it, and `receipts` keeps what was applied.
//! `sed` shows what `sed -i` in a Dockerfile or script does to a tree. `pinned` is the tree of a pin, `version` detects the
//! version of a tree, and `installed` detects what is installed in a system and its GPUs. The crate
//! `patcher`, which touches no disk, works out the changes. `prepared` is everything that is needed
//! to try a patch, `apply` writes the changes, `revert` undoes them, and `audit` tries patches on
//! many versions.

pub mod apply;
pub mod audit;
pub mod directory;
pub mod installed;
pub mod pinned;
pub mod prepared;
pub mod receipts;
pub mod replace;
pub mod revert;
pub mod sed;
pub mod version;

use patcher::Tree;

/// A tree with a name for people and a root that can be listed.
pub trait Rooted: Tree + std::fmt::Debug {
    /// Returns the names in the root, sorted. Leaves out unreadable names.
    fn names(&self) -> Vec<String>;

    /// Returns the tree's name for people.
    fn shown(&self) -> String;
}
