//! Tests the executor with real plans, real registries on loopback and real files.

#![expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "test helpers may panic")]

mod bases;
mod configs;
#[expect(dead_code, reason = "the tests of `debian` use more of it")]
#[path = "../../../debian/tests/it/support.rs"]
mod debian_support;
mod engines;
mod failures;
mod interrupts;
mod outputs;
#[path = "../../../engine/tests/it/settings.rs"]
mod settings;
mod support;
mod together;
mod wheels;
mod wrapper;
