//! Parses and prints image references, tags and digests.
//!
//! Start at [`ImageRef`]. A reference here is always fully qualified: short names such as
//! `fedora:43` are refused, because which registry answers for them depends on the machine
//! (short-name squatting, containers-registries.conf(5)). The grammar is that of the OCI
//! distribution specification 1.1 ("Pulling manifests") and of the reference library of
//! Docker, ports included: `127.0.0.1:5000/x` names a host with a port, never a tag `5000/x`.
//!
//! This crate knows no network and no files.

mod digest;
mod hasher;
mod reference;

pub use digest::{Digest, ParseDigestError};
pub use hasher::Hasher;
pub use reference::{ImageRef, ParseImageRefError, Repository, Tag};
