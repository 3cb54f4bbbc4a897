//! `build-pipeline pins`: prints the pins, for people, programs and shells.

use failure::Failure;
use pins::listing::{document, environment, one, overview, values};
use project::origin::OriginReport;
use project::pins_file::pin_name;
use terminal::output;

use crate::cli::{ExportFormat, Format, PinsArgs, PinsCommand, ShownPins};
use crate::global;

/// Runs the command.
pub(crate) fn run(args: &PinsArgs) -> Result<(), Failure> {
    let project = global::project()?;
    let pins = project.pins()?;
    match &args.command {
        PinsCommand::Show(ShownPins { origin: true, pin, set, format }) => {
            let report = OriginReport::new(&project, &pins, pin.as_deref(), set)?;
            match format {
                Format::Json => output::json(&report),
                Format::Text => output::page(&report.page()),
            }
        }
        PinsCommand::Show(ShownPins { pin: None, format: Format::Text, .. }) => {
            output::page(&overview(&pins))
        }
        PinsCommand::Show(ShownPins { pin: None, format: Format::Json, .. })
        | PinsCommand::Export { format: ExportFormat::Json } => output::json(&document(&pins)),
        PinsCommand::Show(ShownPins { pin: Some(pin), format, .. }) => {
            let name = pin_name(pin, &pins)?;
            let values = values(&pins).remove(&name).unwrap_or_default();
            match format {
                Format::Json => output::json(&values),
                Format::Text => output::page(&one(&values)),
            }
        }
        PinsCommand::Export { format: ExportFormat::Env } => output::page(&environment(&pins)),
    }
}
