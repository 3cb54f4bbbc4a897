//! The way from names to a root file system, with the real programs and the machine's real mirror.
//!
//! `mmdebstrap` needs root here, or ranges in `/etc/subuid`; a machine that has neither fails. The
//! tests of `machines` need root.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail a test as tests themselves do")]

mod bootstrap;
mod fetch;
mod local;
mod machines;
mod resolve;
mod support;
