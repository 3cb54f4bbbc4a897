//! A tree with a name and a root.

use patcher::Tree;

/// A tree with a name for people and a root that can be listed.
pub trait Rooted: Tree + std::fmt::Debug {
    /// Returns the names in the root, sorted. Leaves out unreadable names.
    fn names(&self) -> Vec<String>;

    /// Returns the tree's name for people.
    fn shown(&self) -> String;
}
