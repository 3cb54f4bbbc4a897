//! Tar: reads every dialect as a stream of entries, and writes ustar and PAX headers.
//!
//! Start at [`Reader`]. It checks lengths, numbers and headers. Its callers decide what names and
//! types mean, and which ones to allow: `seal` reads layers, and `sources` reads source archives.
//! [`Ustar`] and [`pax_header`] write headers.
//!
//! The formats are described in POSIX.1-2024, pax, "ustar Interchange Format" and "pax Extended
//! Header", and in GNU tar's manual, "Basic Tar Format" and "Storing Sparse Files". Where they are
//! ambiguous, this crate behaves like Go's archive/tar, which engines use to unpack layers.

#![cfg_attr(
    test,
    expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")
)]

mod block;
mod content;
mod error;
mod pax;
mod reader;
mod sparse;
#[cfg(test)]
mod tests;
mod write;

pub use content::{Content, Expanded, Forward, Seekable, Skip};
pub use error::{Fault, TarError, escaped};
pub use pax::Xattrs;
pub use reader::{Entry, Reader};
pub use write::{MAX_OWNER, Ustar, padding, pax_header, pax_record};

/// The size of a tar block.
pub const BLOCK: usize = 512;
/// The largest number that fits in the eleven octal digits of a size or time field.
pub const MAX_OCTAL: u64 = 0o777_7777_7777;
/// The name of every PAX header.
pub const PAX_NAME: &str = "././@PaxHeader";
