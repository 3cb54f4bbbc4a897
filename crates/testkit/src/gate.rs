//! Gates: promises of reliability, each with a number of cases. CONTRIBUTING.md lists them.
//!
//! A test of a gate asks [`gate_cases`] how many cases to try, and calls [`gate_passed`] at its end.
//! `cargo xtask gates` runs the tests of all gates with the promised numbers and prints a table.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Names the file that tests write into, and says that the promised numbers are wanted.
const VARIABLE: &str = "BUILD_PIPELINE_GATES";

/// Returns how many cases a test tries: `promised` of them for `cargo xtask gates`, and `usual` of
/// them otherwise.
pub fn gate_cases(usual: usize, promised: usize) -> usize {
    if std::env::var_os(VARIABLE).is_some() { promised } else { usual }
}

/// Notes that this test has tried so many cases of a gate, and that all of them passed.
///
/// # Panics
/// The file of `cargo xtask gates` cannot be written.
pub fn gate_passed(gate: u8, cases: usize) {
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a thread");
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .expect("the file of the gates can be opened");
    // One call is one write, so that tests which end together do not mix their lines.
    file.write_all(format!("{gate} {cases} {test}\n").as_bytes())
        .expect("the file of the gates can be written");
}
