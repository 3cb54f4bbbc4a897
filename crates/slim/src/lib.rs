//! Removes code for other GPUs from the layers of an image: the contract `slim/1`.
//!
//! First, [`Survey`] receives all layers, as `audit` reads them. It returns a [`Slimmer`], which
//! rewrites the layers that have such code, lowest first. The result depends only on the layers and
//! the GPUs; [`check`] determines whether the image would still work. This crate opens no input
//! files; it keeps large contents in a temporary folder.
//!
//! `slim/1` does the following for a list of GPUs:
//!
//! - Code is kept if one of the GPUs might run it: code for the GPU with any features, for a
//!   generic target or a family that the GPU belongs to, portable code (SPIR-V), and code for
//!   generic targets and numbers that this program does not know. Other code is removed
//!   ([`gpu_code::CodeTarget::may_fit`]).
//! - A file that is only for other GPUs is removed: code objects, bundles, kpack archives, and the
//!   kernel files of Tensile, hipBLASLt, MIOpen and AOTriton. If something from a lower layer would
//!   then be visible at its path, a whiteout takes its place. A file with several hard links is
//!   kept.
//! - In a bundle, the entries for other GPUs are removed. The other entries keep their order, their
//!   bytes, and their distance from the start of a page of 4096 bytes. A compressed bundle is
//!   compressed again with the same method and version: zstd at level 10, zlib at level 6. If that
//!   would not make it smaller, it does not change.
//! - In programs and libraries, each bundle stays at its address, and zeros follow it. Whole pages
//!   of zeros are removed from libraries for x86-64 (`gpu_code`, module `slim::library`): no
//!   address changes, and the dynamic linker fills the pages with zeros.
//! - The new file is read again. It must contain the same code objects for the GPUs, by SHA-256.
//! - A file that is damaged or cannot be rewritten stays as it is, and the report names it.
//! - A layer without code for other GPUs stays as it is, byte for byte. Other layers keep the order
//!   of their entries, and get the headers and the compression of `seal/1`, with all extended
//!   attributes. Times before 1970 become 0.
//! - In the config, only `rootfs.diff_ids` changes, and labels are added ([`CONTRACT`]).
//!
//! The command `slim` adds the labels `slim`, `slim-base` and `gpu-targets`. A plan with the step
//! `slim-image` has the same layers, and its last step writes the labels.
//!
//! The modules `slim::library` and `slim::bundles` of `gpu_code` describe the layout of rewritten
//! files. The compressed bytes also depend on the versions of zstd and zlib-rs in `Cargo.lock`.
//! Golden digests in the tests protect the bytes. Any change to the bytes requires `slim/2`.

mod refusal;
mod report;
mod slimmer;

pub use refusal::{Refusal, check};
pub use report::{ChangedFile, SlimReport, WholeFile};
pub use slimmer::{Slimmer, Survey};

/// The name of the contract in labels and records.
pub const CONTRACT: &str = "slim/1";
