//! The small validated types that all other crates use: image references and digests (OCI), commits
//! (git), versions (PEP 440), GPU targets (LLVM), file modes, and the names of pins and container
//! engines.
//!
//! Text is parsed once, where it enters the program, so a value of these types is always valid.
//! Image references are always fully qualified. Short names such as `fedora:43` are refused,
//! because machines resolve them to different registries (containers-registries.conf(5)). The
//! grammar is that of the OCI distribution specification 1.1 ("Pulling manifests") and of Docker's
//! reference library, including ports: `127.0.0.1:5000/x` is a host with a port, never a tag
//! `5000/x`.
//!
//! [`Secret`] is the type for texts that may contain a secret, and [`mask`] hides the secret parts
//! of any other text.
//!
//! This crate does not access the network or files.

#![cfg_attr(
    test,
    expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")
)]

mod digest;
mod engine;
mod file_mode;
mod gfx_version;
mod hasher;
mod image;
mod reference;
mod secret;
mod text;
mod version;

pub use digest::{Digest, ParseDigestError};
pub use engine::{Builder, EngineFacts, EngineKind, ParseEngineKindError};
pub use file_mode::{CONTEXT_NAMES, FileMode, ParseFileModeError};
pub use gfx_version::{GfxVersion, ParseGfxVersionError};
pub use hasher::Hasher;
pub use image::{ImageEdit, ManifestKind, Platform, TRACK_LABEL};
pub use reference::{ImageRef, ParseImageRefError, Repository, Tag};
pub use secret::{Secret, has_secret, is_secret_value, mask, mask_in_place};
pub use text::{CommitId, GpuTarget, ParseNameError, PinName, Sha256, TrackName};
pub use version::{ParseVersionError, Version};
