//! What patching needs of the machine: patch files, trees on disk, receipts, versions.
//!
//! `patches` reads the project's patch files, `directory` a tree and `replace` writes it, `ledger`
//! keeps the receipts in it, `version` finds out of what version it is, `installed` what lies in an
//! installed system and on which GPU. What the patches do to it is
//! worked out in the crate `patcher`, which touches no disk.

pub(crate) mod directory;
pub(crate) mod installed;
pub(crate) mod ledger;
pub(crate) mod patches;
pub(crate) mod replace;
pub(crate) mod version;
