//! Finds the AMD GPU code in a file, decides whether it runs on a GPU, and removes the code for
//! other GPUs.
//!
//! Start at [`scan()`]: it takes a file as a [`Spool`] and returns its code objects, each with its
//! target and its size. [`is_candidate`] decides by the path and the first bytes whether a file may
//! contain GPU code. [`Wish::judge`] turns the targets of a file into a [`Verdict`], and [`slim()`]
//! removes code.
//!
//! | Format | Specification |
//! |---|---|
//! | bundles in the section `.hip_fatbin`, or as a file | clang, ClangOffloadBundler |
//! | compressed bundles (`CCOB`, zlib and zstd) | the same |
//! | code objects (ELF for machine 224) | LLVM, AMDGPUUsage |
//! | kernel files of Tensile, hipBLASLt, MIOpen and AOTriton | their names |
//! | kpack archives (`KPAK`) | rocm-kpack |
//!
//! Nothing in a file is trusted: sizes are checked before memory is used, and a damaged file
//! results in an error that names the position.

#![cfg_attr(
    test,
    expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")
)]

mod bundle;
mod elf;
mod error;
mod file_name;
mod judge;
mod kpack;
mod sample;
mod scan;
mod slim;
mod spool;
mod target;
#[cfg(test)]
mod tests;

pub use error::ScanError;
pub use judge::{Verdict, Wish};
pub use sample::{sample_bundle, sample_object};
pub use scan::{CodeObject, HEAD, Owner, is_candidate, is_library, scan};
pub use slim::{Slimmed, slim};
pub use spool::{Spool, SpoolReader};
pub use target::{CodeTarget, Fit};
