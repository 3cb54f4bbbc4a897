//! Remembers the damaged files of a cache, which a run replaces and reports.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The damaged files that were found. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Damaged(Arc<Mutex<BTreeSet<PathBuf>>>);

impl Damaged {
    pub(crate) fn add(&self, file: &Path) {
        tracing::warn!("`{}` is damaged", file.display());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(file.to_owned());
    }

    /// Returns the files that were found since the last call.
    pub(crate) fn take(&self) -> BTreeSet<PathBuf> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
