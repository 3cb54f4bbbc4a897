//! What was done to a tree, kept beside it, so that it can be told and taken back.

use std::collections::BTreeMap;

use names::Sha256;
use serde::{Deserialize, Serialize};

use crate::Splice;
use crate::hash;
use crate::tree::{Tree, TreePath, Unreadable};

/// What one run of patches did to a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// The version of this format.
    pub schema: u32,
    /// The component.
    pub component: String,
    /// The version of the tree, where it was known.
    pub version: Option<String>,
    /// The GPU target.
    pub gpu: String,
    /// The patches that changed something.
    pub patches: Vec<PatchReceipt>,
    /// The files that were changed.
    pub files: Vec<FileReceipt>,
}

/// A patch that changed something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatchReceipt {
    /// Its id.
    pub id: String,
    /// The hash of what it does.
    pub sha256: Sha256,
}

/// A file that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileReceipt {
    /// Its path.
    pub path: TreePath,
    /// The hash it had.
    pub before: Sha256,
    /// The hash it was left with.
    pub after: Sha256,
    /// What was changed, in order.
    pub splices: Vec<Splice>,
}

/// Why patches cannot be taken back. Nothing is written then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RevertError {
    /// The receipt is of a newer format.
    #[error("the receipt has schema {0}, made by a newer build-pipeline; this one reads {known}", known = Receipt::SCHEMA)]
    Schema(u32),
    /// The file cannot be read.
    #[error("`{path}` cannot be read: {reason}")]
    Unreadable {
        /// The file.
        path: TreePath,
        /// Why.
        reason: String,
    },
    /// The file is gone.
    #[error("`{0}` is gone")]
    Missing(TreePath),
    /// Somebody changed the file since.
    #[error(
        "`{path}` was changed since the patches were applied: it has {found}, the receipt says {expected}"
    )]
    Changed {
        /// The file.
        path: TreePath,
        /// The hash it was left with.
        expected: Sha256,
        /// The hash it has.
        found: Sha256,
    },
    /// The receipt does not lead back to the file as it was.
    #[error("the receipt does not lead back to `{0}` as it was; the receipt was damaged or edited")]
    Damaged(TreePath),
}

impl Receipt {
    /// The version of this format.
    pub const SCHEMA: u32 = 1;

    /// Returns what was done to a file.
    pub fn file(&self, path: &TreePath) -> Option<&FileReceipt> {
        self.files.iter().find(|file| file.path == *path)
    }
}

/// Works out the contents that files had before. Of several receipts, the newest comes first.
///
/// Files that already have their old hash are left out: they were reverted before, or a package
/// manager has put the originals back.
///
/// # Errors
/// A file is not as the receipt left it, or the receipt is damaged. Then nothing is given back.
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
