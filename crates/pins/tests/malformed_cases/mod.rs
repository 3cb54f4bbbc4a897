//! The malformed texts, as tables of name and text, by data file. What is common to them stands in
//! the test.

pub(crate) mod compat;
pub(crate) mod gpus;
pub(crate) mod locks;
pub(crate) mod python;
pub(crate) mod toml;
pub(crate) mod tracks;
pub(crate) mod variables;
pub(crate) mod versions;
