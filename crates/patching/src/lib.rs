//! Patching: trees on disk, receipts, versions, and trying, applying and undoing patches.
//!
//! `directory` reads a tree on disk, `replace` writes it, and `receipts` records the applied
//! patches. `sed` shows the effect of `sed -i` in a Dockerfile or script on a tree. `pinned` is the
//! tree of a pin, `version` detects the version of a tree, and `installed` detects the packages and
//! GPUs of a system. `prepared` contains everything that is needed to try a patch, `apply` writes
//! the changes, `revert` undoes them, and `audit` tries patches on many versions. `auto` chooses
//! patches based on the installed packages and the GPU, `hook` writes hooks of package managers,
//! and `report` is the result for people and programs. The crate `patcher`, which does not access
//! the disk, computes the changes.

#![cfg_attr(
    test,
    expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")
)]

pub mod apply;
pub mod audit;
pub mod auto;
mod bytecode;
pub mod directory;
pub mod hook;
pub mod installed;
pub mod pinned;
pub mod prepared;
pub mod receipts;
mod records;
pub mod replace;
pub mod report;
pub mod revert;
mod rooted;
pub mod sed;
pub mod version;

pub use rooted::Rooted;
