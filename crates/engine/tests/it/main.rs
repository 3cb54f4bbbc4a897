//! Tests the engine crate against real engines: podman with runc, and dockerd, each with its own
//! store. Only `faults` uses a fake engine, for behaviour that a real one does not show on request.

#![expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "test helpers may panic")]

mod cancel;
mod conformance;
mod containers;
mod faults;
mod kills;
mod probes;
mod settings;
mod support;
