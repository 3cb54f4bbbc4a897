//! The content of a lock, before and after a lookup.

use std::collections::BTreeMap;

use super::report::Index;

/// The folder of the locks.
pub(crate) const FOLDER: &str = "versions/locks";

/// The content of a lock: each package with its version and the hashes of its files.
pub(crate) type Content = BTreeMap<String, Locked>;

/// One package of a lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Locked {
    pub(crate) version: String,
    /// The hashes, by file name.
    pub(crate) files: BTreeMap<String, String>,
}

/// The new content of a lock.
#[derive(Debug)]
pub struct Found {
    pub(crate) name: String,
    /// `debian` or `python`.
    pub(crate) kind: &'static str,
    pub(crate) before: Content,
    pub(crate) after: Content,
    /// The signed indexes in which Debian packages were found.
    pub(crate) indexes: Vec<Index>,
    /// The files of the lock with their new text, by path from the project's root. The file that
    /// makes the lock valid comes last.
    pub(crate) files: Vec<(String, String)>,
}
