//! `build-pipeline doctor`: finds problems on this machine and shows how to fix them.

use failure::{Failure, Kind};
use host::rules::Severity;
use launch::doctor::{Asked, check};
use terminal::output;

use crate::cli::{Doctor, Format};
use crate::global;

/// Runs the checks and prints the report.
pub(crate) fn run(args: &Doctor) -> Result<(), Failure> {
    let asked = Asked {
        here: &global::working_folder()?,
        gpu: args.gpu.as_deref(),
        tracks: &args.tracks,
        host_root: args.host_root.as_deref(),
        model: args.model.as_deref(),
        context: args.context,
    };
    let report = check(&global::data()?, asked, output::warn)?;
    match args.format {
        Format::Text => output::page(&report.page())?,
        Format::Json => output::json(&report)?,
    }
    match report.worst {
        None | Some(Severity::Note) => Ok(()),
        Some(Severity::Warning) => Err(Failure::told(Kind::Failed)),
        Some(Severity::Error) => Err(Failure::told(Kind::Machine)),
    }
}
