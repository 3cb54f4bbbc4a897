//! The small checked types that everything else is made of: image references and digests (OCI),
//! commits (git), versions (PEP 440), GPU targets (LLVM), the names of pins and container engines.
//!
//! Each type is parsed once, where text enters the program. A value of the type is valid.
//! Image references are always fully qualified: short names such as `fedora:43` are refused,
//! because which registry answers for them depends on the machine (containers-registries.conf(5)).
//! The grammar is that of the OCI distribution specification 1.1 ("Pulling manifests") and of
//! Docker's reference library, ports included: `127.0.0.1:5000/x` names a host with a port, never
//! a tag `5000/x`.
//!
//! [`Secret`] is the one type for texts that may hold a secret, and [`mask`] hides the secret parts of
//! any other text.
//!
//! This crate knows no network and no files.

mod digest;
mod engine;
mod gfx_version;
mod hasher;
mod reference;
mod secret;
mod text;
mod version;

pub use digest::{Digest, ParseDigestError};
pub use engine::{Builder, EngineKind, ParseEngineKindError};
pub use gfx_version::{GfxVersion, ParseGfxVersionError};
pub use hasher::Hasher;
pub use reference::{ImageRef, ParseImageRefError, Repository, Tag};
pub use secret::{Secret, mask, mask_in_place};
pub use text::{CommitId, GpuTarget, ParseNameError, PinName, Sha256};
pub use version::{ParseVersionError, Version};
