//! The callbacks for reading a layer.

use std::io;

use crate::entry::Entry;
use crate::path::EntryPath;

/// Receives the entries of a layer and their content, in the order of its tar.
pub trait LayerVisitor {
    /// Returns whether the entries of files need the SHA-256 of their content.
    fn wants_hashes(&self) -> bool {
        true
    }

    /// Takes a part of the content of the file at `path`.
    ///
    /// # Errors
    /// Fails if the visitor cannot continue.
    fn content(&mut self, path: &EntryPath, part: &[u8]) -> io::Result<()> {
        let _ = (path, part);
        Ok(())
    }

    /// Takes an entry, after all of its content.
    ///
    /// # Errors
    /// Fails if the visitor cannot continue.
    fn entry(&mut self, path: EntryPath, entry: Entry) -> io::Result<()>;
}

impl<F: FnMut(EntryPath, Entry) -> io::Result<()>> LayerVisitor for F {
    fn entry(&mut self, path: EntryPath, entry: Entry) -> io::Result<()> {
        self(path, entry)
    }
}
