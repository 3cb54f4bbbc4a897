//! Finds out which GPUs an image, a folder, a package or a file contains code for.
//!
//! A [`Layer`] is given the files of a layer, and [`Layers`] knows which of them can be seen at the
//! end. The result is [`Found`], from which [`AuditReport::new`] makes the answer for one GPU.
//! `gpu-code` reads the files; this crate follows the layers of images, reads wheels, and adds up. It
//! opens nothing: its callers pass the bytes.

mod files;
mod layers;
mod report;
mod zip;

pub use ::zip::result::ZipError;
pub use files::{FileCode, Found, Scanned, head, scan};
pub use layers::{Layer, Layers};
pub use report::{AuditReport, Part, Target, Unreadable, VerdictName};
