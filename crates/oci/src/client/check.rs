//! Checks a blob while it is streamed.

use std::io;

use bytes::Bytes;
use names::{Digest, Hasher};

use super::blob::wrong_size;
use super::error::Failure;
use super::mismatch;
use crate::media::Descriptor;

/// The beginning of a blob that an earlier transfer left behind.
#[derive(Debug, Default)]
pub struct Prefix {
    hasher: Hasher,
    length: u64,
}

impl Prefix {
    /// Reads the beginning of a blob: everything in `bytes`.
    ///
    /// # Errors
    /// Fails if `bytes` cannot be read.
    pub fn read(mut bytes: impl io::Read) -> io::Result<Self> {
        let mut prefix = Self::default();
        let mut buffer = vec![0; 256 << 10];
        loop {
            match bytes.read(&mut buffer)? {
                0 => return Ok(prefix),
                count => {
                    prefix.hasher.update(&buffer[..count]);
                    prefix.length += count as u64;
                }
            }
        }
    }

    /// Returns whether it is the whole blob.
    pub fn is(self, blob: &Descriptor) -> bool {
        self.length == blob.size && Digest::from_sha256(self.hasher.finish()) == blob.digest
    }

    /// Returns its length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }
}

/// Checks the size and digest of streamed data, and holds back the last chunk.
pub(super) struct Check {
    pub(super) digest: Digest,
    pub(super) size: u64,
    /// How many bytes have been streamed.
    pub(super) seen: u64,
    /// Whether the beginning came from elsewhere. If so, a wrong digest need not be the fault of
    /// the server that sent the rest.
    pub(super) is_continued: bool,
    hasher: Hasher,
    held: Option<Bytes>,
}

impl Check {
    pub(super) fn new(digest: &Digest, size: u64) -> Self {
        Self::after(Prefix::default(), digest, size)
    }

    /// Checks the rest of a blob together with its beginning.
    pub(super) fn after(prefix: Prefix, digest: &Digest, size: u64) -> Self {
        let Prefix { hasher, length } = prefix;
        let (digest, is_continued) = (digest.clone(), length > 0);
        Self { digest, size, seen: length, is_continued, hasher, held: None }
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

    /// Returns the last chunk if size and digest are correct.
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
