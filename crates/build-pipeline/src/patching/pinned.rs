//! The tree of a pin, as a tree that patches are tried on. It lies in the cache; nothing is unpacked.

use patcher::{MAX_FILE_BYTES, Tree, TreePath, Unreadable};
use sources::Mode;

use crate::patching::{Rooted, too_large};

/// The tree of a pin.
#[derive(Debug)]
pub(crate) struct PinnedTree {
    tree: sources::Tree,
    shown: String,
}

impl PinnedTree {
    /// Makes it of a fetched tree; `shown` says which one it is.
    pub(crate) fn new(tree: sources::Tree, shown: String) -> Self {
        Self { tree, shown }
    }

    /// Returns the tree with some files in place of those it had.
    pub(crate) fn with<'f>(
        &self,
        files: impl IntoIterator<Item = (&'f TreePath, &'f [u8])>,
    ) -> Result<sources::Tree, sources::SourceError> {
        let mut tree = self.tree.clone();
        for (path, bytes) in files {
            tree.put_file(path.as_str(), bytes)?;
        }
        Ok(tree)
    }
}

impl Tree for PinnedTree {
    fn read(&self, path: &TreePath) -> Result<Option<Vec<u8>>, Unreadable> {
        let path = path.as_str();
        let failed = |error: sources::SourceError| Unreadable(error.to_string());
        match self.tree.mode(path) {
            None if self.tree.has_directory(path) => {
                Err(Unreadable("it is a directory".to_owned()))
            }
            None => Ok(None),
            Some(Mode::Symlink) => Err(Unreadable("it is a symbolic link".to_owned())),
            Some(Mode::File | Mode::Executable) => {
                let size = self.tree.size(path).map_err(failed)?;
                match size > MAX_FILE_BYTES as u64 {
                    true => Err(too_large(size)),
                    false => self.tree.read_file(path).map(Some).map_err(failed),
                }
            }
        }
    }
}

impl Rooted for PinnedTree {
    fn names(&self) -> Vec<String> {
        let tops = self.tree.paths().map(|(path, _)| path.as_str().split('/').next());
        let mut names: Vec<String> = tops.flatten().map(str::to_owned).collect();
        names.dedup();
        names
    }

    fn shown(&self) -> String {
        self.shown.clone()
    }
}
