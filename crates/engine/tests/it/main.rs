//! The engine crate against real engines: podman with runc, and dockerd, both with stores of their
//! own. `faults` alone uses a false engine, for what a real one does not do when asked.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod cancel;
mod conformance;
mod containers;
mod faults;
mod kills;
mod probes;
mod settings;
mod support;
