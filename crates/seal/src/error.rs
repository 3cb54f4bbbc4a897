//! Why a layer cannot be sealed.

use std::io;

use tar_stream::TarError;

use crate::path::EntryPath;

/// Why a layer cannot be sealed.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The layer cannot be read.
    #[error(transparent)]
    Tar(#[from] TarError),
    /// The parent of an entry is not a directory. Engines unpack this differently.
    #[error("`{path}` is in `{above}`, which is not a directory in this layer or the layers below")]
    NoDirectory {
        /// The entry.
        path: EntryPath,
        /// Its parent.
        above: EntryPath,
    },
    /// The target of a hard link is not a file.
    #[error(
        "`{path}` is a hard link to `{target}`, which is not a file in this layer or the layers below"
    )]
    Link {
        /// The link.
        path: EntryPath,
        /// Its target.
        target: EntryPath,
    },
    /// The epoch does not fit in a tar header.
    #[error("the epoch {0} is after the year 2242, the latest that fits in a tar header")]
    Epoch(u64),
    /// A device number does not fit in a tar header.
    #[error("the device `{0}` has a number above 2097151, which does not fit in a tar header")]
    Device(EntryPath),
    /// The sealed layer cannot be written.
    #[error("cannot write the sealed layer")]
    Write(#[from] io::Error),
}
