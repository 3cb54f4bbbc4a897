//! The way from names to what a root file system is made of, with real packages of the machine's
//! real mirror. The tests of the executor have an engine make it.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail a test as tests themselves do")]

mod fetch;
mod local;
mod resolve;
mod root;
mod support;
