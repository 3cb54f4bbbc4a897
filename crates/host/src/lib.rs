//! Examines the machine that images run on, and finds its problems.
//!
//! Start at [`Snapshot::read`], which reads a machine from a root directory, so a recorded machine
//! works too. Then see [`rules::check`], which applies pure rules to a snapshot and the data under
//! `versions/`, and [`report`], the result. [`failures`] recognises known failures in logs. [`run`]
//! decides which rights a container of a track gets, and writes files that start it. Nothing here
//! calls an engine, changes the machine, reads the environment (the caller passes it in [`Caller`])
//! or prints.

mod access;
pub mod failures;
pub mod forms;
mod gpu;
mod kernel;
mod kernel_log;
pub mod model;
pub mod report;
mod root;
pub mod rules;
pub mod run;
mod snapshot;
mod storage;
mod wsl;

pub use access::{DeviceNode, Engine, Programs, User};
pub use gpu::{CarveOut, Gpu, gpus};
pub use kernel::{Firmware, FirmwarePackage, FreeBlocks, Kernel, Memory, Parameter};
pub use kernel_log::kernel_log;
pub use snapshot::{Caller, Snapshot, Unusable};
pub use storage::{BrokenImage, Disk};
pub use wsl::{Wsl, wsl};

/// Returns `text` as one word of a POSIX shell: unchanged if no character is special, otherwise in
/// single quotes.
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,+@%=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}
