//! Talks to OCI registries, reads and writes OCI layouts, derives images, and serves the loopback
//! registry.
//!
//! Where to start:
//! - [`derive()`] makes a new config and manifest from a base, and [`assemble()`] makes them for
//!   sealed layers on a base. Both are pure.
//! - [`client::RegistryClient`] reads from and pushes to registries, and checks every byte.
//! - [`read_config()`] and [`media::Document::parse`] read documents, and refuse those that parsers
//!   interpret differently.
//! - [`layout`] and [`archive`] write images to disk; [`LayoutImage`] reads them back.
//! - [`inputs`] describes everything that plans need as an OCI artifact, and reads it from files.
//! - [`ArtifactPlace`] stores artifacts by tag, in a repository or a folder.
//! - [`loopback::LoopbackRegistry`] is an in-process registry; [`stand_in`] makes the small bases
//!   that a rehearsal serves from it.
//!
//! This crate reads no environment variables and prints nothing: the caller provides paths, for
//! example of credential files.

#![cfg_attr(
    test,
    expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")
)]

mod agreement;
pub mod archive;
mod artifact_folder;
mod artifacts;
mod assemble;
pub mod client;
pub mod credentials;
mod derive;
mod document;
pub mod files;
pub mod inputs;
pub mod layout;
mod local;
pub mod loopback;
pub mod media;
pub mod registries_conf;
pub mod stand_in;
mod verified;

pub use artifact_folder::{ArtifactFolder, Removed};
pub use artifacts::{ArtifactError, ArtifactPlace, ParsePlaceError};
pub use assemble::{AssembleError, Base, NewLayer, add_layer, assemble, replace_layers};
pub use derive::{DeriveError, DerivedImage, derive, native_gpus, variable};
pub use document::{DocumentError, read_config};
pub use layout::{LayoutError, LayoutImage};
pub use local::{LocalBlobs, open_part, part_of};
pub use verified::{Verified, VerifiedFolder};

#[cfg(test)]
mod tests;
