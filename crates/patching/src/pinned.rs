//! The tree of a pin, as a tree to patch. It is in the cache; nothing is unpacked.

use executor::SourceTree;
use patcher::{Tree, TreePath, Unreadable};

use crate::rooted::Rooted;

/// The tree of a pin.
#[derive(Debug)]
pub struct PinnedTree {
    tree: SourceTree,
    shown: String,
}

impl PinnedTree {
    /// Wraps a fetched tree; `shown` is its name for people.
    pub fn new(tree: sources::Tree, shown: String) -> Self {
        Self { tree: SourceTree(tree), shown }
    }

    /// Returns the tree with some files replaced.
    pub fn with<'f>(
        &self,
        files: impl IntoIterator<Item = (&'f TreePath, &'f [u8])>,
    ) -> Result<sources::Tree, sources::SourceError> {
        let mut tree = self.tree.0.clone();
        for (path, bytes) in files {
            tree.put_file(path.as_str(), bytes)?;
        }
        Ok(tree)
    }
}

impl Tree for PinnedTree {
    fn read(&self, path: &TreePath) -> Result<Option<Vec<u8>>, Unreadable> {
        self.tree.read(path)
    }
}

impl Rooted for PinnedTree {
    fn names(&self) -> Vec<String> {
        let tops = self.tree.0.paths().map(|(path, _)| path.as_str().split('/').next());
        let mut names: Vec<String> = tops.flatten().map(str::to_owned).collect();
        names.dedup();
        names
    }

    fn shown(&self) -> String {
        self.shown.clone()
    }
}
