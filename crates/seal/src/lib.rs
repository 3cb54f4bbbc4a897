//! Turns layer tars into canonical layer tars: the contract `seal/1`.
//!
//! A layer from an engine contains more than the image's content: it also shows when and where it
//! was built. The output of [`Sealer`] depends only on the content, so that identical content has
//! identical digests, whichever engine built it. [`Listing`] is the text form of a layer, [`Index`]
//! is the merged view of several layers, and [`compare()`] determines the kind of every difference.
//!
//! `seal/1` does the following to a layer, in this order (the terms are from OCI image-spec,
//! layer.md):
//!
//! - If a path has several entries, the last one is used. Sparse files are expanded. aufs's
//!   `.wh..wh.*` and the entry of the root are dropped.
//! - Extended attributes except `security.capability` are dropped. Modes are masked with 07777; the
//!   mode of symbolic links is 0777. Owner names are dropped.
//! - A whiteout is kept if it hides something below and no parent directory is hidden. The marker
//!   of an opaque directory is replaced with whiteouts for everything that the layers below have in
//!   it and that the layer does not create again. The whiteout of a directory that the layer
//!   creates again is replaced in the same way.
//! - Paths on the scrub list are dropped, as if nothing had been written there.
//! - Entries that are the same in the layers below are dropped: same type, mode, owner, group,
//!   capability and content. The time is ignored. The paths of one file are dropped together or not
//!   at all.
//! - If a file has several paths, the first one in order has the content and the others link to it.
//!   A link to a file in a layer below stays a link.
//! - Times after the epoch become the epoch; directories always get the epoch. Times before 1970
//!   become 0.
//! - If Python bytecode was valid for its source, its header gets the source's new time (PEP 552).
//!   Hash-based bytecode and stale bytecode stay unchanged; the report lists the stale files.
//! - The layer contains every parent directory of a kept entry, as the merged view shows it:
//!   engines would create a missing one with mode 0755.
//! - Entries are sorted by path components. Headers are ustar, with a PAX header if a value does
//!   not fit. A whiteout has mode, owner and time 0.
//! - A layer without entries is dropped.
//! - The tar is compressed as described for [`gzip()`].
//!
//! `seal/1` is frozen: golden digests in the tests protect every byte of it, including the
//! compressor's. If any byte changes, the contract becomes `seal/2`. This crate opens no files and
//! reads no clock; its threads only compress and hash.

#![cfg_attr(
    test,
    expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")
)]

mod changes;
mod compare;
mod edit;
mod entry;
mod error;
mod files;
mod glob;
mod gzip;
mod header;
mod index;
mod layer;
mod listing;
mod path;
mod pyc;
mod report;
mod sealer;
mod upper;
mod visitor;

pub use compare::{Cause, Difference, Placed, Sorted, compare};
pub use edit::{LayerEditor, Replacement, edit_layer};
pub use entry::{CAPABILITY, Entry, Kind, Xattrs};
pub use error::SealError;
pub use files::layer_of_files;
pub use glob::{Glob, ParseGlobError};
pub use gzip::{Compressed, Gzip, MEMBER, gzip};
pub use index::Index;
pub use listing::{Entries, Listing, ParseListingError};
pub use path::{EntryPath, MAX_PATH, PathError};
pub use report::{Bytecode, Report};
pub use sealer::{Rules, Sealed, SealedLayer, Sealer};
pub use tar_stream::TarError;
pub use visitor::LayerVisitor;

/// The name of the contract in labels and records.
pub const VERSION: &str = "seal/1";
