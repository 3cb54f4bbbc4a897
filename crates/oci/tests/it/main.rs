//! The registry client against a real registry with injected faults, all on loopback.
//!
//! `faults` is a table with one line per fault and the expected result. Each of the other modules
//! tests one property of the client.

#![expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")]
#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod auth;
mod faults;
mod leaks;
mod mirrors;
mod plain;
mod push;
mod redirects;
mod retry_after;
mod streams;
mod support;
mod tls;
