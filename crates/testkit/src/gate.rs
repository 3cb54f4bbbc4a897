//! Gates: promises of reliability, each tested with a number of cases. CONTRIBUTING.md describes
//! them.
//!
//! A test of a gate gets its number of cases from [`gate_cases`], and calls [`gate_passed`] at its
//! end. `cargo xtask gates` runs the tests of all gates with the promised numbers and prints a
//! table.

use std::fs::OpenOptions;
use std::io::Write as _;

/// The environment variable with the path of the file in which tests record their cases. If it is
/// set, tests run the promised number of cases.
const VARIABLE: &str = "BUILD_PIPELINE_GATES";

/// Returns the number of cases for a test: `promised` in `cargo xtask gates`, otherwise `usual`.
pub fn gate_cases(usual: usize, promised: usize) -> usize {
    if std::env::var_os(VARIABLE).is_some() { promised } else { usual }
}

/// Records that this test has run this many cases of a gate, and that all of them passed.
///
/// # Panics
/// Panics if the file of `cargo xtask gates` cannot be written.
pub fn gate_passed(gate: u8, cases: usize) {
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a thread");
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .expect("the file of the gates can be opened");
    // Each line is a single write, so that the lines of tests that end at the same time do not mix.
    file.write_all(format!("{gate} {cases} {test}\n").as_bytes())
        .expect("the file of the gates can be written");
}
