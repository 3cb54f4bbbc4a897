//! Sources from real git servers and a faulty web server, on loopback.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod archives;
mod cache;
mod faults;
mod git;
mod support;
