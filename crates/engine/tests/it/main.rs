//! The engine crate against real engines: podman with runc, and dockerd, both with stores of their
//! own. `faults` alone uses a false engine, for what a real one does not do when asked.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

// Runs that are cut off: podman 4.3 now and then hangs in them on a busy machine, so that they are
// run by themselves: `cargo test -p engine --features kills`.
#[cfg(feature = "kills")]
mod cancel;
mod conformance;
mod containers;
mod faults;
mod support;
