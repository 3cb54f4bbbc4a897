//! Undoes the patches of a tree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use failure::{Failure, Kind};
use patcher::{RevertError, Tree, TreePath, Unreadable};
use schemars::JsonSchema;
use serde::Serialize;
use text::Page;

use crate::apply::{hinted, lock, needs_write, replace};
use crate::directory::Directory;
use crate::installed;
use crate::receipts::{self, ReceiptList};
use crate::replace::Replacement;

/// The hint if the files were restored, but the ledger still lists them.
const RESTORED: &str = "the files were restored, but `.build-pipeline/patches.json` still lists them; check the free disk space and the folder's permissions, then run the command again";

/// The version of the JSON format.
const SCHEMA: u32 = 1;

/// The output of `patch revert --format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RevertReport {
    /// The version of this JSON format.
    schema: u32,
    /// What was reverted in each tree.
    trees: Vec<Reverted>,
}

impl RevertReport {
    /// Creates the report of some trees.
    pub fn new(trees: Vec<Reverted>) -> Self {
        Self { schema: SCHEMA, trees }
    }

    /// Returns what was reverted, as text.
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        for tree in &self.trees {
            page.line(format_args!("{} in {}\n", tree.component, tree.root));
            for patch in &tree.patches {
                page.line(format_args!("  ✓ {patch}"));
            }
            let verb = if tree.not_written.is_some() { "would restore" } else { "restored" };
            for file in &tree.files {
                page.line(format_args!("\n  {verb}  {file}"));
            }
            if tree.files.is_empty() {
                page.line(format_args!(
                    "\n  nothing to restore: the files already have their old content"
                ));
            }
            if let Some(because) = &tree.not_written {
                page.line(format_args!("\n  {because}"));
            }
        }
        page
    }
}

/// Where to undo patches.
#[derive(Debug, Clone, Copy)]
pub struct Reverting<'a> {
    /// The folder of the project, which is written to in any case.
    pub project: Option<&'a Path>,
    /// Whether to write to system directories and installed packages too.
    pub writes_to_system: bool,
}

impl Reverting<'_> {
    /// Returns the reason if nothing will be written to a tree.
    fn why_not(self, directory: &Directory) -> Option<String> {
        if self.writes_to_system {
            return None;
        }
        needs_write(directory.path(), self.project, "undo its patches")
    }
}

/// The patches that were undone in one tree, or would be.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Reverted {
    /// The location of the tree.
    pub root: String,
    /// The component.
    pub component: String,
    /// The patches that were undone.
    pub patches: Vec<String>,
    /// The files whose old content was restored, or would be.
    pub files: Vec<String>,
    /// Why nothing was written, if this was a dry run.
    pub not_written: Option<String>,
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

/// Undoes all patches of a tree and of the Python packages in it. Each component in each folder is
/// restored separately: if one cannot be restored, the others still are. Also returns the errors of
/// those that could not be restored.
///
/// # Errors
/// Fails if no patch was applied.
pub fn revert_all(
    directory: Directory,
    how: Reverting<'_>,
) -> Result<(Vec<Reverted>, Vec<Failure>), Failure> {
    let (mut reverted, mut errors) = (Vec::new(), Vec::new());
    let shown = directory.path().display().to_string();
    for place in installed::places(directory) {
        match applied_components(&place, how) {
            Ok(components) => {
                for component in &components {
                    match revert(&place, component, how) {
                        Ok(one) => reverted.push(one),
                        Err(told) => errors.push(told),
                    }
                }
            }
            Err(told) => errors.push(told),
        }
    }
    if reverted.is_empty() && errors.is_empty() {
        return Err(Failure::new(
            Kind::Input,
            format!("no patch was applied to `{shown}` or to Python packages in it"),
        )
        .hint("`revert` can undo only changes by `build-pipeline patch apply`"));
    }
    Ok((reverted, errors))
}

/// Returns the components whose patches were applied to one tree, the last one first.
fn applied_components(place: &Directory, how: Reverting<'_>) -> Result<Vec<String>, Failure> {
    if how.why_not(place).is_none() {
        sweep(place)?;
    }
    let receipt_list = ReceiptList::read(place)?;
    // After a killed run, a component can have several receipts, and others in between.
    let mut components: Vec<String> = Vec::new();
    for receipt in receipt_list.receipts.into_iter().rev() {
        if !components.contains(&receipt.component) {
            components.push(receipt.component);
        }
    }
    Ok(components)
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

/// Undoes the patches of one component in one tree, or only says what it would restore, if the tree
/// must not be written to.
///
/// # Errors
/// Fails if no patch of the component was applied, or if the tree has been changed since.
pub fn revert(
    directory: &Directory,
    component: &str,
    how: Reverting<'_>,
) -> Result<Reverted, Failure> {
    let not_written = how.why_not(directory);
    let lock = match not_written {
        Some(_) => None,
        None => {
            let lock = lock(directory)?;
            ReceiptList::sweep(directory);
            Some(lock)
        }
    };
    let receipt_list = ReceiptList::read(directory)?;
    if lock.is_some() {
        directory.sweep(receipt_list.files());
    }
    check_applied(directory, &receipt_list, component)?;
    let (files, patches) = old_files(directory, &receipt_list, component)?;
    let all: Vec<Replacement<'_>> = files
        .iter()
        .filter(|(_, old, new)| old != new)
        .map(|(path, old, new)| Replacement { path, old, new })
        .collect();
    if lock.is_some() {
        replace(directory, &all, || Ok(()), || Ok(()))?;
        let mut rest = receipt_list;
        rest.receipts.retain(|receipt| receipt.component != component);
        rest.write(directory).map_err(|error| hinted(&error, RESTORED))?;
    }
    drop(lock);
    Ok(Reverted {
        root: directory.path().display().to_string(),
        component: component.to_owned(),
        patches,
        files: all.iter().map(|one| one.path.to_string()).collect(),
        not_written,
    })
}

/// Checks that a tree has receipts of a component.
fn check_applied(
    directory: &Directory,
    receipt_list: &ReceiptList,
    component: &str,
) -> Result<(), Failure> {
    let shown = directory.path().display();
    if !receipt_list.receipts.iter().any(|receipt| receipt.component == component) {
        let told = Failure::new(
            Kind::Input,
            format!("no patch of `{component}` was applied to `{shown}`"),
        );
        let others: BTreeSet<&str> =
            receipt_list.receipts.iter().map(|receipt| receipt.component.as_str()).collect();
        let otherwise = if others.is_empty() {
            "`revert` can undo only changes by `build-pipeline patch apply`".to_owned()
        } else {
            format!("there are receipts for {}", Vec::from_iter(others.iter().copied()).join(", "))
        };
        return Err(told.did_you_mean(component, others, otherwise));
    }
    Ok(())
}

/// A file with its present and its old content.
type OldFile = (TreePath, Vec<u8>, Vec<u8>);

/// Returns the files that the patches of a component changed, and the names of these patches.
fn old_files(
    directory: &Directory,
    receipt_list: &ReceiptList,
    component: &str,
) -> Result<(Vec<OldFile>, Vec<String>), Failure> {
    let mut overlay = Overlay { tree: directory, files: BTreeMap::new() };
    let mut patches = Vec::new();
    for receipt in receipt_list.receipts.iter().rev().filter(|one| one.component == component) {
        let back = patcher::revert(receipt, &overlay).map_err(|error| refused(&error))?;
        overlay.files.extend(back);
        patches.extend(receipt.patches.iter().map(|patch| patch.id.clone()));
    }
    patches.sort();
    patches.dedup();
    let files = overlay.files.into_iter().map(|(path, new)| {
        let now = directory.read(&path).ok().flatten().unwrap_or_default();
        (path, now, new)
    });
    Ok((files.collect(), patches))
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

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;

    use crate::receipts::hash;

    const WRITE: Reverting<'_> = Reverting { project: None, writes_to_system: true };

    /// The path in which the ledger is written before it is renamed.
    const NEW_LEDGER: &str = ".build-pipeline/.patches.json.build-pipeline-new";

    /// Returns a tree whose ledger has a receipt for each change of a file, oldest first.
    fn tree(changes: &[(&str, &str, &str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let receipts: Vec<_> = changes
            .iter()
            .map(|(component, path, before, after)| {
                fs::write(folder.path().join(path), after).unwrap();
                serde_json::json!({
                    "schema": 1, "component": component, "version": null, "gpu": "gfx1151",
                    "patches": [], "files": [{
                        "path": path, "before": hash(before.as_bytes()),
                        "after": hash(after.as_bytes()),
                        "splices": [{ "at": 0, "removed": before, "inserted": after }],
                    }],
                })
            })
            .collect();
        fs::create_dir(folder.path().join(receipts::FOLDER)).unwrap();
        let ledger = serde_json::json!({ "schema": 1, "receipts": receipts }).to_string();
        fs::write(folder.path().join(receipts::PATH), ledger).unwrap();
        folder
    }

    #[test]
    fn each_component_is_undone_once_even_if_a_killed_run_left_two_receipts() {
        let changes = [
            ("vllm", "f", "one", "two"),
            ("aiter", "g", "one", "two"),
            ("vllm", "f", "two", "three"),
        ];
        let folder = tree(&changes);
        let open = || Directory::open(folder.path()).unwrap();
        let other = revert(&open(), "torch", WRITE).unwrap_err();
        assert_eq!(other.hints, ["there are receipts for aiter, vllm"]);
        let (reverted, errors) = revert_all(open(), WRITE).unwrap();
        assert!(errors.is_empty());
        let undone: Vec<&str> = reverted.iter().map(|one| one.component.as_str()).collect();
        assert_eq!(undone, ["vllm", "aiter"]);
        for file in ["f", "g"] {
            assert_eq!(fs::read_to_string(folder.path().join(file)).unwrap(), "one");
        }
        assert!(!folder.path().join(receipts::FOLDER).exists());
    }

    #[test]
    fn a_ledger_that_cannot_be_written_is_reported_after_the_files_were_restored() {
        let folder = tree(&[("vllm", "f", "one", "two"), ("aiter", "g", "one", "two")]);
        fs::create_dir(folder.path().join(NEW_LEDGER)).unwrap();
        let told = revert(&Directory::open(folder.path()).unwrap(), "vllm", WRITE).unwrap_err();
        assert_eq!((told.kind, told.hints), (Kind::Machine, vec![RESTORED.to_owned()]));
        assert_eq!(fs::read_to_string(folder.path().join("f")).unwrap(), "one");
        fs::remove_dir(folder.path().join(NEW_LEDGER)).unwrap();
        assert_eq!(revert_all(Directory::open(folder.path()).unwrap(), WRITE).unwrap().0.len(), 2);
    }

    #[test]
    fn a_component_that_cannot_be_restored_stops_no_other() {
        let changes = [("vllm", "f", "one", "two"), ("aiter", "g", "one", "two")];
        let folder = tree(&changes);
        fs::write(folder.path().join("g"), "mine").unwrap();
        let (reverted, errors) =
            revert_all(Directory::open(folder.path()).unwrap(), WRITE).unwrap();
        let undone: Vec<&str> = reverted.iter().map(|one| one.component.as_str()).collect();
        assert_eq!((undone, errors.len()), (vec!["vllm"], 1));
        assert_eq!(fs::read_to_string(folder.path().join("f")).unwrap(), "one");
        assert_eq!(fs::read_to_string(folder.path().join("g")).unwrap(), "mine");
    }

    #[test]
    fn a_damaged_ledger_stops_no_other_folder() {
        let folder = tree(&[("vllm", "f", "one", "two")]);
        let packages = folder.path().join("home/eve/.venv/lib/python3.12/site-packages");
        fs::create_dir_all(packages.join(receipts::FOLDER)).unwrap();
        fs::write(packages.join(receipts::PATH), "{").unwrap();
        let open = || Directory::open(folder.path()).unwrap();
        let (reverted, errors) = revert_all(open(), WRITE).unwrap();
        assert_eq!((reverted.len(), errors.len()), (1, 1));
        assert_eq!(fs::read_to_string(folder.path().join("f")).unwrap(), "one");
        // With nothing left to restore, the error is still reported.
        let (reverted, errors) = revert_all(open(), WRITE).unwrap();
        assert_eq!((reverted.len(), errors.len()), (0, 1));
    }

    #[test]
    fn installed_packages_are_restored_only_if_asked_for() {
        let folder = tree(&[("vllm", "f", "one", "two")]);
        let outside = folder.path().join("venv/lib/python3.12/site-packages");
        fs::create_dir_all(outside.parent().unwrap()).unwrap();
        let installed = tree(&[("aiter", "g", "one", "two")]);
        fs::rename(installed.path(), &outside).unwrap();
        let unfinished = outside.join(NEW_LEDGER);
        fs::write(&unfinished, "{").unwrap();
        let asked = Reverting { project: None, writes_to_system: false };
        let packages = || Directory::open(&outside).unwrap();
        let text = || fs::read_to_string(outside.join("g")).unwrap();

        let one = revert(&packages(), "aiter", asked).unwrap();
        assert_eq!(one.files, ["g"]);
        let because = one.not_written.clone().unwrap();
        assert!(because.ends_with("Add `--write` to undo its patches"), "{because}");
        let page = RevertReport::new(vec![one]).page().into_text();
        assert!(page.contains("would restore  g"), "{page}");
        assert_eq!(revert(&packages(), "vllm", asked).unwrap_err().kind, Kind::Input);
        // Other trees are restored.
        let (reverted, errors) =
            revert_all(Directory::open(folder.path()).unwrap(), asked).unwrap();
        let dry: Vec<bool> = reverted.iter().map(|one| one.not_written.is_some()).collect();
        assert_eq!((dry, errors.len()), (vec![false, true], 0));
        assert_eq!(fs::read_to_string(folder.path().join("f")).unwrap(), "one");
        assert_eq!((text().as_str(), unfinished.exists()), ("two", true));

        // The project's own environment is written to, as `apply` does.
        let project = fs::canonicalize(folder.path()).unwrap();
        let own = Reverting { project: Some(&project), writes_to_system: false };
        assert_eq!(revert(&packages(), "aiter", own).unwrap().not_written, None);
        assert_eq!((text().as_str(), unfinished.exists()), ("one", false));
    }
}
