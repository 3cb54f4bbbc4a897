//! The executor with real plans, real registries on loopback and real files.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

mod engines;
mod failures;
mod interrupts;
mod outputs;
#[path = "../../../engine/tests/it/settings.rs"]
mod settings;
mod support;
mod together;
mod wrapper;
