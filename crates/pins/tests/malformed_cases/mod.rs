//! The malformed texts, as tables of names and texts, one table per data file. The test adds the
//! lines that they share.

pub(crate) mod compat;
pub(crate) mod gpus;
pub(crate) mod locks;
pub(crate) mod python;
pub(crate) mod toml;
pub(crate) mod tracks;
pub(crate) mod variables;
pub(crate) mod versions;
