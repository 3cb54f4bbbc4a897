//! Tests with fixtures and damaged files, and tests of the rules about targets.

#![expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")]
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
