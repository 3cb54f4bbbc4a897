//! Patching: trees on disk, receipts, versions, and trying, applying and undoing patches.
//!
//! `directory` reads a tree on disk, `replace` writes it, and `receipts` keeps what was applied.
//! `sed` shows what `sed -i` in a Dockerfile or script does to a tree. `pinned` is the tree of a
//! pin, `version` detects the version of a tree, and `installed` detects what is installed in a
//! system and its GPUs. `prepared` is everything that is needed to try a patch, `apply` writes the
//! changes, `revert` undoes them, and `audit` tries patches on many versions. The crate `patcher`,
//! which touches no disk, works out the changes.

pub mod apply;
pub mod audit;
pub mod directory;
pub mod installed;
pub mod pinned;
pub mod prepared;
pub mod receipts;
mod records;
pub mod replace;
pub mod revert;
mod rooted;
pub mod sed;
pub mod version;

pub use rooted::Rooted;
