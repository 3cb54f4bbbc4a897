//! Sources from real git servers and a faulty web server, on loopback.

#![expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")]
#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod archives;
mod cache;
mod faults;
mod git;
mod support;
