//! `build-pipeline schema`: prints the JSON schemas of the tool's documents and data files.

use audit::AuditReport;
use compare::{Comparison, Verification};
use failure::Failure;
use host::report::DoctorReport;
use launch::clean::CleanReport;
use launch::known::DiagnoseReport;
use launch::smoke::SmokeReport;
use launch::variables::EnvReport;
use lint::report::LintFindings;
use patching::audit::AuditReport as PatchAuditReport;
use patching::report::PatchReport;
use patching::revert::RevertReport;
use patching::sed::LintReport;
use pins::listing::{ShownPin, ShownPins};
use pins::schema as file;
use project::history::ListedRecord;
use project::origin::OriginReport;
use project::push::PushReport;
use project::slim::SlimmedImage;
use project::steps::StepReport;
use record::ExplainReport;
use schemars::{JsonSchema, Schema};
use upkeep::bump::BumpReport;
use upkeep::lock::LockReport;
use upkeep::outdated::OutdatedReport;
use upkeep::status::StatusReport;

use crate::cli::{Document, SchemaArgs};
use crate::commands::build::BuildReport;
use terminal::output;

/// A line of `--progress json`.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Line {
    Event(terminal::reporter::PlanEvent),
    Talk(terminal::output::Talk),
}

/// One plan, or several.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Plans {
    One(Box<plan::Plan>),
    Several(Vec<plan::Plan>),
}

/// Prints the schema of a document.
pub(crate) fn run(args: &SchemaArgs) -> Result<(), Failure> {
    output::json(&schema(args.document))
}

/// Returns the schema of a document.
pub(crate) fn schema(document: Document) -> Schema {
    match document {
        Document::Plan => of::<Plans>(),
        Document::Build => of::<BuildReport>(),
        Document::Pins => of::<ShownPins<'static>>(),
        Document::Pin => of::<ShownPin<'static>>(),
        Document::Record => of::<record::BuildRecord>(),
        Document::Records => of::<Vec<ListedRecord<'static>>>(),
        Document::Event => of::<Line>(),
        Document::Verify => of::<Verification>(),
        Document::Diff => of::<Comparison>(),
        Document::Audit => of::<AuditReport>(),
        Document::Slim => of::<SlimmedImage>(),
        Document::Push => of::<PushReport>(),
        Document::Status => of::<StatusReport>(),
        Document::Steps => of::<StepReport>(),
        Document::Bump => of::<BumpReport>(),
        Document::Outdated => of::<OutdatedReport>(),
        Document::Lint => of::<LintFindings>(),
        Document::Explain => of::<ExplainReport>(),
        Document::Lock => of::<LockReport>(),
        Document::PinsOrigin => of::<OriginReport>(),
        Document::Versions => pins::forms::versions(),
        Document::Patch => of::<PatchReport>(),
        Document::PatchAudit => of::<PatchAuditReport>(),
        Document::PatchLintSed => of::<LintReport>(),
        Document::PatchRevert => of::<RevertReport>(),
        Document::Doctor => of::<DoctorReport>(),
        Document::Env => of::<EnvReport>(),
        Document::Smoke => of::<SmokeReport>(),
        Document::Diagnose => of::<DiagnoseReport>(),
        Document::Clean => of::<CleanReport>(),
        Document::Tracks => file("versions/tracks.toml", &pins::forms::TRACKS),
        Document::Gpus => file("versions/gpus.toml", &pins::forms::GPUS),
        Document::Run => file("versions/run.toml", &host::forms::RUN),
        Document::Python => file("versions/python.toml", &pins::forms::PYTHON),
        Document::PackageLock => file("versions/locks/NAME.toml", &pins::forms::PACKAGE_LOCK),
        Document::Compat => file("versions/compat.toml", &pins::forms::COMPAT),
        Document::Failures => file("versions/failures.toml", &host::forms::FAILURES),
        Document::LintRules => file("versions/lint.toml", &lint::forms::LINT),
        Document::PatchFile => file("patches/COMPONENT/ID.toml", &patcher::forms::PATCH),
        Document::Config => file("config.toml", &project::config::FORM),
    }
}

/// Returns the schema of a type.
fn of<T: JsonSchema>() -> Schema {
    schemars::schema_for!(T)
}
