//! Tar, read in every dialect that layers come in and written in one.
//!
//! The formats: POSIX.1-2024, pax, "ustar Interchange Format" and "pax Extended Header"; GNU tar's
//! manual, "Basic Tar Format" and "Storing Sparse Files". Where they leave room, this reads as Go's
//! archive/tar does, because the engines unpack layers with that.

mod block;
mod content;
mod pax;
mod reader;
mod sparse;
mod write;

pub(crate) use content::{Content, Expanded, Forward, Seekable};
pub use reader::TarError;
pub(crate) use reader::{Located, TarReader};
pub(crate) use write::write_header;
pub use write::{Ustar, pax_record};

/// The size of all blocks of a tar.
pub const BLOCK: usize = 512;
/// The largest number in the eleven octal digits of a size or time.
pub const MAX_OCTAL: u64 = 0o777_7777_7777;
/// The name that every PAX header has.
pub const PAX_NAME: &str = "././@PaxHeader";
