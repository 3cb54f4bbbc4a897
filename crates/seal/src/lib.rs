//! Turns layer tars into canonical layer tars: the contract `seal/1`.
//!
//! An engine's layer says more than what is in the image: when and on what it was built. What
//! [`Sealer`] writes is a function of content alone, so that equal content has equal digests
//! whichever engine built it. [`Listing`] is the text of a layer, [`Index`] what layers laid over
//! each other show, [`compare()`] names the kind of every difference.
//!
//! What `seal/1` does to a layer, in this order (OCI image-spec, layer.md, has the terms):
//!
//! - Of several entries of a path the last counts. Sparse files are full data. aufs's `.wh..wh.*`
//!   are dropped, and the entry of the root.
//! - Extended attributes are dropped, except `security.capability`. Modes are cut to 07777; that
//!   of symbolic links is 0777. Names of owners are dropped.
//! - A whiteout stays if it hides something below, and nothing above it is hidden. An opaque
//!   directory becomes whiteouts of what lies below and is not there anew; so does a directory
//!   that was hidden and made again.
//! - What the scrub list names is dropped, as if nothing had been written there.
//! - What shows the same below is dropped: same kind, mode, owner, group, capability, content.
//!   The time does not count. Paths of one file are dropped all or none.
//! - Of the paths of one file the smallest has the content, the others link to it. A link to a
//!   file of a layer below stays one.
//! - Times are cut to the epoch; directories always have the epoch. Times before 1970 are 0.
//! - Python bytecode that was valid for its source gets the source's new time into its header
//!   (PEP 552). Bytecode with a hash stays, stale one too; the report lists it.
//! - Every directory above what is kept stands in the layer, as the merged view shows it: where
//!   it is missing, engines make it with mode 0755.
//! - Entries stand in the order of their components. Headers are ustar, with PAX where something
//!   does not fit. A whiteout has mode, owner and time 0.
//! - A layer of no entries is dropped.
//! - The tar is compressed as [`gzip()`] says.
//!
//! `seal/1` is frozen: golden digests in the tests hold every byte of it, the compressor's too.
//! Another byte is `seal/2`. Nothing is opened here and no clock is asked; threads compute only.

mod changes;
mod compare;
mod entry;
mod error;
mod glob;
mod gzip;
mod index;
mod listing;
mod path;
mod pyc;
mod report;
mod sealer;
pub mod tar;
mod upper;

pub use compare::{Cause, Difference, Placed, Sorted, compare};
pub use entry::{CAPABILITY, Entry, Kind, Xattrs};
pub use error::SealError;
pub use glob::{Glob, ParseGlobError};
pub use gzip::{Compressed, Gzip, MEMBER, gzip};
pub use index::Index;
pub use listing::{Entries, Listing, ParseListingError};
pub use path::{EntryPath, MAX_PATH, PathError};
pub use report::{Bytecode, Report};
pub use sealer::{Rules, Sealed, SealedLayer, Sealer};
pub use tar::TarError;

/// The number of the contract, as labels and records name it.
pub const VERSION: &str = "seal/1";
