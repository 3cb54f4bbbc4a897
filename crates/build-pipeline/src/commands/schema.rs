//! `build-pipeline schema`: prints the JSON schemas of the tool's documents.

use audit::AuditReport;
use failure::Failure;
use launch::clean::CleanReport;
use launch::smoke::SmokeReport;
use patching::audit::AuditReport as PatchAuditReport;
use upkeep::bump::BumpReport;
use upkeep::lock::LockReport;
use upkeep::outdated::OutdatedReport;

use crate::cli::{Document, SchemaArgs};
use crate::commands::diagnose::DiagnoseReport;
use crate::commands::doctor::DoctorReport;
use crate::commands::env::EnvReport;
use crate::commands::explain::ExplainReport;
use crate::commands::lint::LintFindings;
use crate::commands::patch::lint_sed::LintReport;
use crate::commands::patch::report::{PatchReport, RevertReport};
use crate::commands::pins::form::VersionsFile;
use crate::commands::pins::origin::OriginReport;
use crate::commands::push::PushReport;
use crate::commands::records::ListedRecord;
use crate::commands::slim::SlimmedImage;
use crate::commands::status::StatusReport;
use crate::commands::verify::Verification;
use crate::comparison::Comparison;
use crate::output;

/// A line of `--progress json`.
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Line {
    Event(crate::reporter::PlanEvent),
    Talk(crate::output::Talk),
}

/// Prints the schema of a document.
pub(crate) fn run(args: &SchemaArgs) -> Result<(), Failure> {
    let schema = match args.document {
        Document::Plan => schemars::schema_for!(plan::Plan),
        Document::Record => schemars::schema_for!(record::BuildRecord),
        Document::Records => schemars::schema_for!(Vec<ListedRecord<'static>>),
        Document::Event => schemars::schema_for!(Line),
        Document::Verify => schemars::schema_for!(Verification),
        Document::Diff => schemars::schema_for!(Comparison),
        Document::Audit => schemars::schema_for!(AuditReport),
        Document::Slim => schemars::schema_for!(SlimmedImage),
        Document::Push => schemars::schema_for!(PushReport),
        Document::Status => schemars::schema_for!(StatusReport),
        Document::Bump => schemars::schema_for!(BumpReport),
        Document::Outdated => schemars::schema_for!(OutdatedReport),
        Document::Lint => schemars::schema_for!(LintFindings),
        Document::Explain => schemars::schema_for!(ExplainReport),
        Document::Lock => schemars::schema_for!(LockReport),
        Document::PinsOrigin => schemars::schema_for!(OriginReport),
        Document::Versions => schemars::schema_for!(VersionsFile),
        Document::Patch => schemars::schema_for!(PatchReport),
        Document::PatchAudit => schemars::schema_for!(PatchAuditReport),
        Document::PatchLintSed => schemars::schema_for!(LintReport),
        Document::PatchRevert => schemars::schema_for!(RevertReport),
        Document::Doctor => schemars::schema_for!(DoctorReport),
        Document::Env => schemars::schema_for!(EnvReport),
        Document::Smoke => schemars::schema_for!(SmokeReport),
        Document::Diagnose => schemars::schema_for!(DiagnoseReport),
        Document::Clean => schemars::schema_for!(CleanReport),
    };
    output::json(&schema)
}
