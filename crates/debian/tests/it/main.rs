//! From package names to the input of a root file system, with real packages from the machine's
//! real mirror. In the executor's tests, an engine makes the root file system.

#![expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")]
#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod archive;
mod fetch;
mod local;
mod resolve;
mod root;
mod suites;
mod support;
