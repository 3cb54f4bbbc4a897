//! What a person or a program sees of a run: results on standard output, and messages, progress and
//! errors on standard error. Other crates write the text.
//!
//! [`output`] is the only module that prints. [`reporter`] shows the progress of builds, and
//! [`downloads`] that of downloads; both draw on a terminal with `live`. [`heartbeat`] prints a
//! line when a step, an output or a command has been silent for a while. [`exit_code`] gives each
//! kind of failure its exit code.

pub mod downloads;
pub mod exit_code;
pub mod heartbeat;
mod live;
pub mod output;
pub mod reporter;
