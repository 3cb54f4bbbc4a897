//! The registry client against a real registry that is made to fail, all on loopback.
//!
//! `faults` is a table: one line a fault, with the verdict it must get. The other modules each
//! hold one promise of the client.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail a test as tests themselves do")]

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
