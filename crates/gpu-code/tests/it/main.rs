//! Fixtures, damaged files, and the rules about targets.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod elf;
mod fixtures;
mod fuzz;
mod hostile;
mod judge;
mod kpack;
mod sample;
mod slim;
mod support;
mod target;
