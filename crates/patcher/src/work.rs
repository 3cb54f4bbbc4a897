//! The files of a tree while patches are computed: read once, changed only in memory.

use std::collections::BTreeMap;

use crate::prepared::{Splice, splice};
use crate::tree::{MAX_FILE_BYTES, MAX_TOTAL_BYTES, Tree, TreePath, Unreadable};

/// A file: its original and current content.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    pub(crate) original: Vec<u8>,
    pub(crate) current: Vec<u8>,
    pub(crate) splices: Vec<Splice>,
    /// The patches that changed it, in order.
    pub(crate) patches: Vec<String>,
}

/// A file as a patch sees it.
#[derive(Debug, Clone)]
pub(crate) enum Slot {
    Absent,
    Unreadable(String),
    File(Work),
}

/// All files that were read.
pub(crate) struct WorkTree<'t> {
    tree: &'t dyn Tree,
    slots: BTreeMap<TreePath, Slot>,
    total: usize,
    /// The files before the current patch.
    undo: BTreeMap<TreePath, Slot>,
}

impl<'t> WorkTree<'t> {
    pub(crate) fn new(tree: &'t dyn Tree) -> Self {
        Self { tree, slots: BTreeMap::new(), total: 0, undo: BTreeMap::new() }
    }

    /// Returns the file at `path`. The first call reads it.
    pub(crate) fn slot(&mut self, path: &TreePath) -> &Slot {
        if !self.slots.contains_key(path) {
            let slot = self.load(path);
            self.slots.insert(path.clone(), slot);
        }
        &self.slots[path]
    }

    fn load(&mut self, path: &TreePath) -> Slot {
        match self.tree.read(path) {
            Ok(None) => Slot::Absent,
            Err(Unreadable(reason)) => Slot::Unreadable(reason),
            Ok(Some(bytes)) if bytes.len() > MAX_FILE_BYTES => Slot::Unreadable(format!(
                "it has {} bytes; the maximum is {MAX_FILE_BYTES}",
                bytes.len()
            )),
            Ok(Some(bytes)) => {
                self.total += bytes.len();
                if self.total > MAX_TOTAL_BYTES {
                    return Slot::Unreadable(format!(
                        "all files together have more than {MAX_TOTAL_BYTES} bytes"
                    ));
                }
                Slot::File(Work {
                    original: bytes.clone(),
                    current: bytes,
                    splices: Vec::new(),
                    patches: Vec::new(),
                })
            }
        }
    }

    /// Returns the current bytes of a file.
    pub(crate) fn current(&mut self, path: &TreePath) -> Option<&[u8]> {
        match self.slot(path) {
            Slot::File(work) => Some(&work.current),
            Slot::Absent | Slot::Unreadable(_) => None,
        }
    }

    /// Starts the computation of a patch.
    pub(crate) fn begin(&mut self) {
        self.undo.clear();
    }

    /// Changes a file that was read before.
    pub(crate) fn change(&mut self, patch: &str, path: &TreePath, splices: &[Splice]) {
        if let Some(slot) = self.slots.get_mut(path) {
            self.undo.entry(path.clone()).or_insert_with(|| slot.clone());
            if let Slot::File(work) = slot {
                work.current = splice(&work.current, splices);
                work.splices.extend_from_slice(splices);
                if work.patches.last().is_none_or(|last| last != patch) {
                    work.patches.push(patch.to_owned());
                }
            }
        }
    }

    /// Rolls back the patch, so that the other patches are judged without it.
    pub(crate) fn roll_back(&mut self) {
        self.slots.append(&mut self.undo);
    }

    /// Returns the files that were read, with their paths.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&TreePath, &Work)> {
        self.slots.iter().filter_map(|(path, slot)| match slot {
            Slot::File(work) => Some((path, work)),
            Slot::Absent | Slot::Unreadable(_) => None,
        })
    }
}
