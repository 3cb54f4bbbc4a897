//! The receipts in a tree, which record the applied patches so that they can be listed and undone.
//!
//! The file with the receipts is called the ledger. While files are being replaced, it contains the
//! old receipts and the new one; afterwards it contains one receipt per component. A run that was
//! killed between two files can therefore be continued or undone.

use failure::{Failure, Kind};
use names::Sha256;
use patcher::{PatchReceipt, Receipt, Tree as _, TreePath, Unreadable};
use serde::{Deserialize, Serialize};

use crate::directory::Directory;
use crate::replace::ReplaceError;

/// The version of the ledger format.
const SCHEMA: u32 = 1;

/// The explanation for a ledger that cannot be read.
const DAMAGED: &str = "it was damaged or edited; without it nothing can be reverted, but if you remove it, the patches can be applied again";

/// The folder of the ledger in a tree.
pub const FOLDER: &str = ".build-pipeline";

/// The path of the ledger in a tree.
pub const PATH: &str = ".build-pipeline/patches.json";

/// All receipts of a tree, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiptList {
    schema: u32,
    /// The receipts.
    pub receipts: Vec<Receipt>,
}

fn path() -> TreePath {
    PATH.parse().expect("the ledger's path is inside the tree")
}

/// Returns the hash of a file's content.
pub fn hash(bytes: &[u8]) -> Sha256 {
    names::Digest::of(bytes).hex().parse().expect("a digest has 64 hexadecimal digits")
}

impl ReceiptList {
    /// Returns the ledger of a tree without patches.
    pub fn empty() -> Self {
        Self { schema: SCHEMA, receipts: Vec::new() }
    }

    /// Reads the ledger of a tree. A missing ledger is empty.
    pub fn read(tree: &Directory) -> Result<Self, Failure> {
        let shown = tree.path().join(PATH);
        let fault =
            |what: String| Failure::new(Kind::Input, format!("`{}` {what}", shown.display()));
        let bytes = match tree.read(&path()) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(Self::empty()),
            Err(Unreadable(reason)) => {
                return Err(fault(format!("cannot be read: {reason}"))
                    .hint("it must be a readable regular file, and not reached through a link"));
            }
        };
        // Parse the version alone first, to distinguish a newer format from a damaged file.
        #[derive(Deserialize)]
        struct Numbered {
            schema: u32,
        }
        match serde_json::from_slice(&bytes) {
            Ok(Numbered { schema }) if schema > SCHEMA => {
                let what = "was made by a newer build-pipeline; nothing was changed";
                return Err(fault(what.to_owned()).hint("update build-pipeline"));
            }
            Ok(Numbered { schema }) if schema < SCHEMA => {
                return Err(
                    fault(format!("has schema {schema}, which never existed")).hint(DAMAGED)
                );
            }
            _ => {}
        }
        serde_json::from_slice(&bytes)
            .map_err(|error| fault(format!("is not a list of receipts: {error}")).hint(DAMAGED))
    }

    /// Writes the ledger, or removes it if it is empty.
    pub fn write(&self, tree: &Directory) -> Result<(), ReplaceError> {
        if self.receipts.is_empty() {
            return tree.remove_own(&path());
        }
        let text = serde_json::to_string_pretty(self).expect("receipts always serialise");
        tree.write_own(&path(), format!("{text}\n").as_bytes())
    }

    /// Removes leftovers of a killed run that was writing the ledger. The caller holds the tree's
    /// lock.
    pub fn sweep(tree: &Directory) {
        tree.sweep_own(&path());
    }

    /// Returns the files of all receipts.
    pub fn files(&self) -> impl Iterator<Item = &TreePath> {
        self.receipts.iter().flat_map(|receipt| &receipt.files).map(|file| &file.path)
    }

    /// Returns the ledger with an additional receipt.
    pub fn with(&self, receipt: Option<Receipt>) -> Self {
        let receipts = self.receipts.iter().cloned().chain(receipt).collect();
        Self { schema: SCHEMA, receipts }
    }

    /// Returns the ledger without the files of a component that an upgrade removed or replaced:
    /// patches cannot be undone in them.
    pub fn without_replaced(&self, tree: &Directory, component: &str) -> Self {
        let mut kept = self.clone();
        let is_known = |path: &TreePath| {
            let now = tree.read(path).ok().flatten().map(|bytes| hash(&bytes));
            let mut of_path = self.receipts.iter().filter_map(|receipt| receipt.file(path));
            now.is_some_and(|now| of_path.any(|file| file.before == now || file.after == now))
        };
        for receipt in kept.receipts.iter_mut().filter(|one| one.component == component) {
            receipt.files.retain(|file| is_known(&file.path));
        }
        kept.receipts.retain(|receipt| !receipt.files.is_empty());
        kept
    }

    /// Returns the ledger with one receipt for a component, which describes the current files.
    /// Leaves out files that have been restored or replaced since. Receipts of other components
    /// stay as they are.
    pub fn settled(&self, tree: &Directory, component: &str) -> Self {
        let mut receipts: Vec<Receipt> = Vec::new();
        for receipt in &self.receipts {
            let is_same =
                |one: &&mut Receipt| one.component == component && receipt.component == component;
            match receipts.iter_mut().find(is_same) {
                Some(one) => merge(one, receipt),
                None => receipts.push(receipt.clone()),
            }
        }
        for receipt in receipts.iter_mut().filter(|one| one.component == component) {
            receipt.files.retain(|file| {
                tree.read(&file.path).ok().flatten().is_some_and(|now| hash(&now) == file.after)
            });
        }
        receipts.retain(|receipt| !receipt.files.is_empty());
        Self { schema: SCHEMA, receipts }
    }
}

/// Adds a later change to a receipt.
fn merge(receipt: &mut Receipt, later: &Receipt) {
    receipt.version.clone_from(&later.version);
    receipt.gpu.clone_from(&later.gpu);
    for patch in &later.patches {
        let is_same = |one: &PatchReceipt| one.id == patch.id;
        match receipt.patches.iter_mut().find(|one| is_same(one)) {
            Some(one) => one.clone_from(patch),
            None => receipt.patches.push(patch.clone()),
        }
    }
    for file in &later.files {
        match receipt.files.iter_mut().find(|one| one.path == file.path) {
            Some(one) if one.after == file.before => {
                one.after.clone_from(&file.after);
                one.splices.extend(file.splices.iter().cloned());
            }
            // The file was restored or replaced in between.
            Some(one) => one.clone_from(file),
            None => receipt.files.push(file.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(before: &str, after: &str) -> Receipt {
        let file = serde_json::json!({
            "path": "f",
            "before": hash(before.as_bytes()),
            "after": hash(after.as_bytes()),
            "splices": [{ "at": 0, "removed": before, "inserted": after }],
        });
        let receipt = serde_json::json!({
            "schema": 1, "component": "vllm", "version": null, "gpu": "gfx1151",
            "patches": [], "files": [file],
        });
        serde_json::from_value(receipt).unwrap()
    }

    #[test]
    fn a_later_change_is_joined_only_to_the_file_that_it_started_from() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), "three").unwrap();
        let directory = Directory::open(folder.path()).unwrap();
        let settled = |later: Receipt| {
            let list = ReceiptList::empty().with(Some(receipt("one", "two"))).with(Some(later));
            let [settled] = list.settled(&directory, "vllm").receipts.try_into().unwrap();
            let [file] = settled.files.try_into().unwrap();
            let file: patcher::FileReceipt = file;
            (file.before, file.after, file.splices.len())
        };
        let wanted = (hash(b"one"), hash(b"three"), 2);
        assert_eq!(settled(receipt("two", "three")), wanted);
        // The file was replaced between the two runs, so it cannot become `one` again.
        let wanted = (hash(b"other"), hash(b"three"), 1);
        assert_eq!(settled(receipt("other", "three")), wanted);
    }
}
