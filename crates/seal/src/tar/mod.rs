//! Tar, read in every dialect that layers use and written in one.
//!
//! The formats are described in POSIX.1-2024, pax, "ustar Interchange Format" and "pax Extended
//! Header", and in GNU tar's manual, "Basic Tar Format" and "Storing Sparse Files". Where they are
//! ambiguous, this module behaves like Go's archive/tar, which engines use to unpack layers.

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

/// The size of a tar block.
pub const BLOCK: usize = 512;
/// The largest number in the eleven octal digits of a size or time.
pub const MAX_OCTAL: u64 = 0o777_7777_7777;
/// The name of every PAX header.
pub const PAX_NAME: &str = "././@PaxHeader";
