//! The record of the changes to a tree, kept next to it, so that they can be recognised and undone.

use std::collections::BTreeMap;

use names::Sha256;
use serde::{Deserialize, Serialize};

use crate::Splice;
use crate::hash;
use crate::tree::{Tree, TreePath, Unreadable};

/// The changes that one run made to a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// The version of this format.
    pub schema: u32,
    /// The component.
    pub component: String,
    /// The version of the tree, if it was known.
    pub version: Option<String>,
    /// The GPU target.
    pub gpu: String,
    /// The patches that changed the tree.
    pub patches: Vec<PatchReceipt>,
    /// The changed files.
    pub files: Vec<FileReceipt>,
}

/// A patch that changed the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatchReceipt {
    /// Its id.
    pub id: String,
    /// The hash of its effect.
    pub sha256: Sha256,
}

/// A changed file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileReceipt {
    /// Its path.
    pub path: TreePath,
    /// The hash before the change.
    pub before: Sha256,
    /// The hash after the change.
    pub after: Sha256,
    /// The changes, in order.
    pub splices: Vec<Splice>,
}

/// The reason why patches cannot be reverted. In this case nothing is written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RevertError {
    /// The receipt has a newer format.
    #[error("the receipt has schema {0} and was written by a newer build-pipeline; this one reads {known}", known = Receipt::SCHEMA)]
    Schema(u32),
    /// The file cannot be read.
    #[error("`{path}` cannot be read: {reason}")]
    Unreadable {
        /// The file.
        path: TreePath,
        /// The reason.
        reason: String,
    },
    /// The file no longer exists.
    #[error("`{0}` no longer exists")]
    Missing(TreePath),
    /// The file was changed after the patches were applied.
    #[error(
        "`{path}` was changed after the patches were applied: its hash is {found}, but the receipt has {expected}"
    )]
    Changed {
        /// The file.
        path: TreePath,
        /// The hash after the patches.
        expected: Sha256,
        /// The current hash.
        found: Sha256,
    },
    /// Undoing the changes in the receipt does not produce the original file.
    #[error("the receipt does not restore the original `{0}`; the receipt was damaged or edited")]
    Damaged(TreePath),
}

impl Receipt {
    /// The version of this format.
    pub const SCHEMA: u32 = 1;

    /// Returns the record of a file's changes.
    pub fn file(&self, path: &TreePath) -> Option<&FileReceipt> {
        self.files.iter().find(|file| file.path == *path)
    }
}

/// Computes the earlier contents of files. If a tree has several receipts, revert the newest first.
///
/// Files that already have their old hash are skipped: they were reverted earlier, or a package
/// manager restored the originals.
///
/// # Errors
/// Fails if a file is missing, cannot be read or was changed after the patches were applied, or if
/// the receipt is damaged or has another format. In this case no contents are returned.
pub fn revert(
    receipt: &Receipt,
    tree: &dyn Tree,
) -> Result<BTreeMap<TreePath, Vec<u8>>, RevertError> {
    if receipt.schema != Receipt::SCHEMA {
        return Err(RevertError::Schema(receipt.schema));
    }
    let mut contents = BTreeMap::new();
    for file in &receipt.files {
        let path = &file.path;
        let bytes = tree
            .read(path)
            .map_err(|Unreadable(reason)| RevertError::Unreadable { path: path.clone(), reason })?
            .ok_or_else(|| RevertError::Missing(path.clone()))?;
        let found = hash::sha256(&bytes);
        if found == file.before {
            continue;
        }
        if found != file.after {
            return Err(RevertError::Changed {
                path: path.clone(),
                expected: file.after.clone(),
                found,
            });
        }
        let original = undo(bytes, &file.splices)
            .filter(|original| hash::sha256(original) == file.before)
            .ok_or_else(|| RevertError::Damaged(path.clone()))?;
        contents.insert(path.clone(), original);
    }
    Ok(contents)
}

fn undo(mut bytes: Vec<u8>, splices: &[Splice]) -> Option<Vec<u8>> {
    for splice in splices.iter().rev() {
        let range = splice.at..splice.at.checked_add(splice.inserted.len())?;
        if bytes.get(range.clone())? != splice.inserted.as_bytes() {
            return None;
        }
        bytes.splice(range, splice.removed.bytes());
    }
    Some(bytes)
}
