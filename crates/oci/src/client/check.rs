//! Checks a blob while it is streamed.

use bytes::Bytes;
use names::{Digest, Hasher};

use super::blob::wrong_size;
use super::error::Failure;
use super::mismatch;

/// Checks the size and digest of streamed data, and holds the last chunk back.
pub(super) struct Check {
    pub(super) digest: Digest,
    pub(super) size: u64,
    /// How many bytes have been streamed.
    pub(super) seen: u64,
    hasher: Hasher,
    held: Option<Bytes>,
}

impl Check {
    pub(super) fn new(digest: &Digest, size: u64) -> Self {
        let hasher = Hasher::new();
        Self { digest: digest.clone(), size, seen: 0, hasher, held: None }
    }

    /// Takes a chunk and returns the previous one.
    pub(super) fn take(&mut self, piece: Bytes) -> Result<Option<Bytes>, Failure> {
        self.seen += piece.len() as u64;
        if self.seen > self.size {
            let size = self.size;
            let found = format!("more than {size} bytes");
            return Err(mismatch("the size", format!("{size} bytes"), found));
        }
        self.hasher.update(&piece);
        Ok(self.held.replace(piece))
    }

    /// Returns the last chunk if size and digest are right.
    pub(super) fn finish(&mut self) -> Result<Option<Bytes>, Failure> {
        if self.seen != self.size {
            return Err(wrong_size(self.size, self.seen));
        }
        let found = Digest::from_sha256(std::mem::take(&mut self.hasher).finish());
        if found != self.digest {
            return Err(mismatch("the blob", &self.digest, found));
        }
        Ok(self.held.take())
    }
}
