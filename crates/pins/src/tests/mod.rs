//! Tests the checks of single values, the tables and their queries through the crate's functions.

mod compat;
mod files;
mod gpus;
mod hashes;
mod problems;
mod reader;
mod tracks;
mod values;
mod versions;

use crate::problem::Wrong;

/// Returns the message and the help of a refused value.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Wrong>) -> (String, String) {
    let Wrong { message, help } = result.expect_err("the value must be refused");
    (message, help)
}

/// Returns the message alone.
#[track_caller]
fn message<T: std::fmt::Debug>(result: Result<T, Wrong>) -> String {
    refused(result).0
}
