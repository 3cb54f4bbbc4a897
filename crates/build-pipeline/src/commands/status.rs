//! `build-pipeline status`: prints one line per track.

use failure::Failure;
use terminal::output;
use upkeep::status::StatusReport;

use crate::cli::{Format, StatusArgs};
use crate::global;

/// Prints the state of each track.
pub(crate) fn run(args: &StatusArgs) -> Result<(), Failure> {
    let report = StatusReport::new(&global::project()?, output::warn)?;
    match args.format {
        Format::Json => output::json(&report),
        Format::Text => output::page(&report.page()),
    }
}
