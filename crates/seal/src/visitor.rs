//! What reads a layer tells its caller.

use std::io;

use crate::entry::Entry;
use crate::path::EntryPath;

/// Receives what a layer contains, in the order of its tar.
pub trait LayerVisitor {
    /// Takes a part of the content of the file at `path`.
    ///
    /// # Errors
    /// The visitor cannot go on.
    fn content(&mut self, path: &EntryPath, part: &[u8]) -> io::Result<()> {
        let _ = (path, part);
        Ok(())
    }

    /// Takes an entry. All of its content was passed before.
    ///
    /// # Errors
    /// The visitor cannot go on.
    fn entry(&mut self, path: EntryPath, entry: Entry) -> io::Result<()>;
}

impl<F: FnMut(EntryPath, Entry) -> io::Result<()>> LayerVisitor for F {
    fn entry(&mut self, path: EntryPath, entry: Entry) -> io::Result<()> {
        self(path, entry)
    }
}
