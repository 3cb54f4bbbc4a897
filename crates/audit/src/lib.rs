//! Finds out which GPUs an image, a folder, a package or a file contains code for.
//!
//! Start at [`Input`]: it finds what a person named, and [`Input::read`] reads it as a stream. The
//! result is [`Found`], from which [`AuditReport::new`] makes the answer for one GPU. `gpu-code`
//! reads the files; this crate finds them, follows the layers of images, and adds up.

mod files;
mod input;
mod layers;
mod report;

pub use files::Found;
pub use input::Input;
pub use report::{AuditReport, Part, Target, Unreadable, VerdictName};
