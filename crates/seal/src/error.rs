//! Why a layer cannot be sealed.

use std::io;

use crate::path::EntryPath;
use crate::tar::TarError;

/// Why a layer cannot be sealed.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The layer cannot be read.
    #[error(transparent)]
    Tar(#[from] TarError),
    /// An entry lies in something that is no directory, which engines unpack differently.
    #[error("`{path}` lies in `{above}`, which is no directory in this layer or those below")]
    NoDirectory {
        /// The entry.
        path: EntryPath,
        /// What it lies in.
        above: EntryPath,
    },
    /// A hard link leads to no file.
    #[error("`{path}` is a hard link to `{target}`, which is no file of this layer or those below")]
    Link {
        /// The link.
        path: EntryPath,
        /// Where it leads.
        target: EntryPath,
    },
    /// The epoch does not fit a tar header.
    #[error("the epoch {0} lies after the year 2242, which is the last that a tar header holds")]
    Epoch(u64),
    /// A device number does not fit a tar header.
    #[error("the device `{0}` has a number above 2097151, which a tar header does not hold")]
    Device(EntryPath),
    /// The sealed layer cannot be written.
    #[error("the sealed layer cannot be written")]
    Write(#[from] io::Error),
}
