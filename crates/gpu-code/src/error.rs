//! Why a file cannot be scanned.

use std::io;

/// Why the GPU code of a file cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The file, or a temporary file, cannot be read or written.
    #[error("cannot read it")]
    Read(#[from] io::Error),
    /// The file violates its format.
    #[error("at byte {offset}: {why}")]
    Damaged {
        /// The position in the file, in bytes.
        offset: u64,
        /// What is wrong.
        why: String,
    },
}

impl ScanError {
    pub(crate) fn at(offset: u64, why: impl Into<String>) -> Self {
        Self::Damaged { offset, why: why.into() }
    }
}
