//! What patching needs of the machine: patch files, trees on disk, receipts, versions.
//!
//! `patches` reads the project's patch files, `directory` a tree on disk and `replace` writes it,
//! `ledger` keeps the receipts in it, `pinned` is the tree of a pin, `version` finds out of what
//! version a tree is, `installed` what lies in an installed system and on which GPU. What the
//! patches do to it is worked out in the crate `patcher`, which touches no disk.

pub(crate) mod directory;
pub(crate) mod installed;
pub(crate) mod ledger;
pub(crate) mod patches;
pub(crate) mod pinned;
pub(crate) mod replace;
pub(crate) mod version;

use patcher::{MAX_FILE_BYTES, Tree, Unreadable};

/// A tree whose root can be listed, and that people know by a name.
pub(crate) trait Rooted: Tree + std::fmt::Debug {
    /// Returns the names in the root, sorted; what cannot be read is left out.
    fn names(&self) -> Vec<String>;

    /// Returns which tree it is, for people.
    fn shown(&self) -> String;
}

/// Refuses a file that is too large to be patched.
fn too_large(size: u64) -> Unreadable {
    Unreadable(format!("it has {size} bytes, more than {MAX_FILE_BYTES}"))
}
