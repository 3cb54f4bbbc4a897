//! Talks to OCI registries, reads and writes OCI layouts, derives images, serves the loopback registry.
//!
//! Where to start:
//! - [`derive()`] makes a new config and manifest over a base; it is pure. So is [`assemble()`], which
//!   makes them for sealed layers on a base.
//! - [`client::RegistryClient`] reads from and pushes to registries, checking every byte.
//! - [`read_config()`] and [`media::Document::parse`] read documents so that all readers agree on them.
//! - [`layout`] and [`archive`] write images to disk; [`LayoutImage`] reads them back.
//! - [`loopback::LoopbackRegistry`] is a registry inside this process; [`stand_in`] makes the small
//!   bases that a rehearsal serves from it.
//!
//! This crate reads no environment and prints nothing: paths of credential files and the like are
//! given to it.

pub mod archive;
mod assemble;
pub mod client;
pub mod credentials;
mod derive;
mod document;
pub mod files;
pub mod layout;
pub mod loopback;
pub mod media;
pub mod policy;
pub mod registries_conf;
pub mod stand_in;
mod verified;

pub use assemble::{AssembleError, NewLayer, assemble};
pub use derive::{DeriveError, DerivedImage, derive, native_gpus};
pub use document::{DocumentError, read_config};
pub use layout::{LayoutError, LayoutImage};
pub use verified::{Verified, VerifiedFolder};

#[cfg(test)]
mod tests;
