//! Sources from real git servers and a faulty web server, on loopback.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail a test as tests themselves do")]

mod archives;
mod cache;
mod faults;
mod git;
mod support;
