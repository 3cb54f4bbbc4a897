//! Compares images: with their plan and its pins, with a rebuild, and with each other.
//!
//! [`Verification`] compares an image with what its plan requires, field by field and layer by
//! layer; [`request_of`] finds out from its labels how it was planned. [`Comparison`] compares two
//! images file by file, and `files` keeps the differing files on disk. [`slimmed`] slims an image
//! again, and compares the result. `record::verify` compares manifests and configs.
//!
//! The crate prints nothing, and runs no step that needs an engine: the caller passes in the result
//! of a rebuild.

mod comparison;
mod files;
pub mod slimmed;
mod verification;

pub use comparison::Comparison;
pub use verification::{Source, Verification, request_of};
