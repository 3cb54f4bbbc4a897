//! Undoes the patches of a tree.

use std::collections::BTreeMap;

use failure::{Failure, Kind};
use patcher::{RevertError, Tree, TreePath, Unreadable};
use schemars::JsonSchema;
use serde::Serialize;

use crate::apply::{failed, lock, replace};
use crate::directory::Directory;
use crate::installed;
use crate::receipts::{self, ReceiptList};
use crate::replace::Replacement;

/// The patches that were undone in one tree.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Reverted {
    /// The location of the tree.
    pub root: String,
    /// The component.
    pub component: String,
    /// The patches that were undone.
    pub patches: Vec<String>,
    /// The files whose old content was restored.
    pub files: Vec<String>,
}

/// A tree in which some files are already restored.
struct Overlay<'a> {
    tree: &'a Directory,
    files: BTreeMap<TreePath, Vec<u8>>,
}

impl Tree for Overlay<'_> {
    fn read(&self, path: &TreePath) -> Result<Option<Vec<u8>>, Unreadable> {
        match self.files.get(path) {
            Some(bytes) => Ok(Some(bytes.clone())),
            None => self.tree.read(path),
        }
    }
}

/// Undoes all patches of a tree and of the Python packages in it.
///
/// # Errors
/// Fails if no patch was applied, or if a tree cannot be restored.
pub fn revert_all(directory: Directory) -> Result<Vec<Reverted>, Failure> {
    let mut reverted = Vec::new();
    let shown = directory.path().display().to_string();
    for place in installed::places(directory) {
        sweep(&place)?;
        let receipt_list = ReceiptList::read(&place)?;
        let mut components: Vec<&str> =
            receipt_list.receipts.iter().rev().map(|receipt| receipt.component.as_str()).collect();
        components.dedup();
        for component in components {
            reverted.push(revert(&place, component)?);
        }
    }
    if !reverted.is_empty() {
        Ok(reverted)
    } else {
        Err(Failure::new(
            Kind::Input,
            format!("no patch was applied to `{shown}` or to Python packages in it"),
        )
        .hint("`revert` can undo only changes by `build-pipeline patch apply`"))
    }
}

/// Removes leftovers of a run that was killed before it changed any file of the tree.
fn sweep(directory: &Directory) -> Result<(), Failure> {
    let folder = receipts::FOLDER.parse().ok().and_then(|path| directory.inside(&path));
    if folder.is_some() {
        let lock = lock(directory)?;
        ReceiptList::sweep(directory);
        drop(lock);
    }
    Ok(())
}

/// Undoes the patches of one component in one tree.
///
/// # Errors
/// Fails if no patch of the component was applied, or if the tree has been changed since.
pub fn revert(directory: &Directory, component: &str) -> Result<Reverted, Failure> {
    let lock = lock(directory)?;
    ReceiptList::sweep(directory);
    let receipt_list = ReceiptList::read(directory)?;
    directory.sweep(receipt_list.files());
    let shown = directory.path().display().to_string();
    if !receipt_list.receipts.iter().any(|receipt| receipt.component == component) {
        let told = Failure::new(
            Kind::Input,
            format!("no patch of `{component}` was applied to `{shown}`"),
        );
        let others: Vec<&str> =
            receipt_list.receipts.iter().map(|receipt| receipt.component.as_str()).collect();
        let otherwise = if others.is_empty() {
            "`revert` can undo only changes by `build-pipeline patch apply`".to_owned()
        } else {
            format!("there are receipts for {}", others.join(", "))
        };
        return Err(told.did_you_mean(component, others.iter().copied(), otherwise));
    }
    let mut overlay = Overlay { tree: directory, files: BTreeMap::new() };
    let mut patches = Vec::new();
    for receipt in receipt_list.receipts.iter().rev().filter(|one| one.component == component) {
        let back = patcher::revert(receipt, &overlay).map_err(|error| refused(&error))?;
        overlay.files.extend(back);
        patches.extend(receipt.patches.iter().map(|patch| patch.id.clone()));
    }
    patches.sort();
    patches.dedup();
    let mut all = Vec::new();
    for (path, new) in &overlay.files {
        let old = directory.read(path).ok().flatten().unwrap_or_default();
        all.push((path, old, new));
    }
    let all: Vec<Replacement<'_>> = all
        .iter()
        .filter(|(_, old, new)| old != *new)
        .map(|(path, old, new)| Replacement { path, old, new })
        .collect();
    replace(directory, &all, || Ok(()), || Ok(()))?;
    let mut rest = receipt_list.clone();
    rest.receipts.retain(|receipt| receipt.component != component);
    rest.write(directory).map_err(|error| failed(&error))?;
    drop(lock);
    let files = all.iter().map(|one| one.path.to_string()).collect();
    Ok(Reverted { root: shown, component: component.to_owned(), patches, files })
}

fn refused(error: &RevertError) -> Failure {
    let told = Failure::from_chain(Kind::Patch, error);
    match error {
        RevertError::Changed { .. } | RevertError::Missing(_) => told.hint(
            "nothing was written; undo the other change first, or reinstall the package and remove `.build-pipeline/patches.json`",
        ),
        RevertError::Schema(_) => told.hint(
            "nothing was written; update build-pipeline, or check whether `.build-pipeline/patches.json` was damaged or edited",
        ),
        RevertError::Damaged(_) => told.hint(
            "nothing was written; remove `.build-pipeline/patches.json`, then fetch the tree or install the package again",
        ),
        RevertError::Unreadable { .. } => {
            told.hint("nothing was written; check the permissions of the file that `.build-pipeline/patches.json` names")
        }
    }
}
