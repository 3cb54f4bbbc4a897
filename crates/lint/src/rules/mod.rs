//! The rules, grouped by what they check. [`crate::RULES`] contains their names and reasons.

mod commands;
mod images;
mod packages;
mod pins;
mod tracks;
mod variables;
mod words;

use crate::{Context, Facts, Findings, Kind};

/// Runs every rule on the facts of a file.
pub(crate) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    match facts.kind {
        Kind::Pins => return pins::run(facts, context, found),
        Kind::Python => return tracks::python(facts, context, found),
        Kind::Tracks => {
            tracks::run(facts, context, found);
            return variables::each(facts, found);
        }
        _ => {}
    }
    variables::run(facts, context, found);
    images::run(facts, found);
    packages::run(facts, context, found);
    commands::run(facts, context, found);
    words::run(facts, context, found);
}

/// The first ROCm release that AMD supports on gfx1151 with every kernel.
const FIRST_ROCM: &str = "7.2.1";

/// Returns whether a ROCm release is older than the first one that supports gfx1151. Returns
/// `false` for 7.2.0, which has its own rule.
fn is_old_rocm(release: &str) -> bool {
    let numbers: Vec<u32> = release.split('.').map_while(|part| part.parse().ok()).collect();
    match numbers.as_slice() {
        [7, minor, ..] => *minor < 2,
        [major, _, ..] => (3..7).contains(major),
        [_] | [] => false,
    }
}
