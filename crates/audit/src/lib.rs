//! Finds out which GPUs an image, a folder, a package or a file contains code for.
//!
//! A [`Layer`] receives the files of one layer, and [`Layers`] determines which of them are visible
//! in the image. The result is [`Found`], which [`AuditReport::new`] turns into a report for one
//! GPU. `gpu-code` scans the files; this crate combines the layers of images, reads wheels, and
//! adds up the results. It opens no files: callers pass the bytes.

mod files;
mod layers;
mod page;
mod report;
mod zip;

pub use ::zip::result::ZipError;
pub use files::{FileCode, Found, Scanned, head, scan};
pub use layers::{Layer, Layers};
pub use report::{AuditReport, Part, Target, Unreadable, VerdictName};
