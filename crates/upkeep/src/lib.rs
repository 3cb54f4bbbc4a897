//! Keeps the pins and locks of a project current.
//!
//! `init` writes a new project. `bump` looks up a new value for a pin, checks it and writes it.
//! `outdated` checks whether pinned inputs changed upstream. `lock` looks up Debian and Python
//! packages again. `status` reports the state of each track. The crate parses no arguments and
//! prints nothing: each part takes plain values and returns a report.

pub mod bump;
mod choice;
mod files;
pub mod init;
pub mod lock;
pub mod outdated;
pub mod status;
