//! Local copies of sources, which are looked up by hash before any server is contacted.

use std::fmt;
use std::io;
use std::path::Path;

use futures_util::future::BoxFuture;
use names::{CommitId, Sha256};

use crate::error::{ErrorKind, Failure};

/// A store of copies of sources, such as a bundle. Nothing in it is trusted: files are hashed, and
/// packs are indexed like packs from a server.
pub trait Copies: fmt::Debug + Send + Sync {
    /// Writes the file with this hash to `to`, which is replaced. Returns whether the store has it.
    ///
    /// # Errors
    /// Fails if the copy cannot be read (`InvalidData` if it is damaged), or if `to` cannot be
    /// written.
    fn file<'a>(&'a self, sha256: &'a Sha256, to: &'a Path) -> BoxFuture<'a, io::Result<bool>>;

    /// Writes a pack with a commit and its files to `to`, which is replaced. Returns whether the
    /// store has the commit.
    ///
    /// # Errors
    /// Fails like [`Self::file`].
    fn pack<'a>(&'a self, commit: &'a CommitId, to: &'a Path) -> BoxFuture<'a, io::Result<bool>>;
}

/// Turns an error from reading a copy into a failure.
pub(crate) fn failure(error: &io::Error) -> Failure {
    let kind = match error.kind() {
        io::ErrorKind::InvalidData => ErrorKind::Integrity,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::Disk,
        _ => ErrorKind::Unreachable,
    };
    Failure::fatal(kind, "its copy cannot be used").because(error)
}
