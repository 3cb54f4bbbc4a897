//! Turns plans into files of CI systems.
//!
//! [`Jobs::of`] turns plans into jobs: one for each step that takes time and whose result is kept,
//! and one for each image. A [`Writer`] writes them for one CI system: `github`, `gitlab` or
//! `tekton`. [`ci`] writes the smaller file of a new project, which builds one image.
//!
//! The crate takes values and returns texts; it reads and writes no files.

pub mod ci;
mod github;
mod gitlab;
mod jobs;
mod tekton;
mod writer;

pub use github::WRITER as GITHUB;
pub use gitlab::WRITER as GITLAB;
pub use jobs::{EpochError, Jobs, Options, subject};
pub use tekton::WRITER as TEKTON;
pub use writer::{Writer, is_ours};
