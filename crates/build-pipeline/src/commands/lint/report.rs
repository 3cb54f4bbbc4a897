//! Findings as text and JSON.

use lint::{Evidence, Finding, Severity};
use pins::Known;
use schemars::JsonSchema;
use serde::Serialize;
use text::{Page, counted};

/// The version of this JSON format.
const SCHEMA: u32 = 1;

/// The output of `lint --format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LintFindings {
    /// The version of this JSON format.
    schema: u32,
    /// The number of files.
    files: usize,
    /// The number of errors.
    errors: usize,
    /// The number of warnings.
    warnings: usize,
    /// The number of informational findings.
    information: usize,
    /// The findings, file by file.
    findings: Vec<OneFinding>,
}

/// One finding of a rule.
#[derive(Debug, Serialize, JsonSchema)]
struct OneFinding {
    /// The file.
    file: String,
    /// The line; the first line is 1.
    line: usize,
    /// The rule.
    rule: &'static str,
    /// Its severity here: error, warning or information. It can be lower than that of the rule.
    severity: &'static str,
    /// The problem.
    message: String,
    /// What to do instead.
    help: String,
    /// The fact behind the rule.
    fact: &'static str,
    /// The source of that fact.
    source: String,
    /// How the fact is known: vendor, maintainer, reports or one-source.
    known: &'static str,
    /// The number of independent reports, if the fact is known from reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    reports: Option<u16>,
    /// The date on which the source was read, `YYYY-MM-DD`.
    checked: String,
}

fn count(found: &[Finding], severity: Severity) -> usize {
    found.iter().filter(|finding| finding.severity == severity).count()
}

impl LintFindings {
    pub(super) fn new(found: &[Finding], files: usize) -> Self {
        let one = |finding: &Finding| OneFinding {
            file: finding.file.clone(),
            line: finding.line,
            rule: &finding.rule.id,
            severity: finding.severity.name(),
            message: finding.message.clone(),
            help: finding.help.clone(),
            fact: &finding.rule.fact,
            source: finding.evidence.source.clone(),
            known: known(finding.evidence.known),
            reports: match finding.evidence.known {
                Known::Reports(number) => Some(number),
                Known::Vendor | Known::Maintainer | Known::OneSource => None,
            },
            checked: finding.evidence.checked.clone(),
        };
        Self {
            schema: SCHEMA,
            files,
            errors: count(found, Severity::Error),
            warnings: count(found, Severity::Warning),
            information: count(found, Severity::Information),
            findings: found.iter().map(one).collect(),
        }
    }
}

/// Returns the JSON value for how a fact is known.
pub(super) fn known(known: Known) -> &'static str {
    match known {
        Known::Vendor => "vendor",
        Known::Maintainer => "maintainer",
        Known::Reports(_) => "reports",
        Known::OneSource => "one-source",
    }
}

/// Returns the source of a fact, how it is known, and when it was read.
pub(super) fn source(evidence: &Evidence) -> String {
    let Evidence { source, known, checked } = evidence;
    format!("{source} ({known}; checked on {checked})")
}

/// Returns the findings as text.
pub(super) fn text(found: &[Finding], files: usize) -> String {
    let mut page = Page::default();
    for Finding { rule, severity, file, line, message, help, evidence } in found {
        page.line(format_args!("{file}:{line}: {}: {message} [{}]", severity.name(), rule.id));
        page.line(format_args!("    {}", rule.fact));
        page.line(format_args!("    help: {help}"));
        page.line(format_args!("    source: {}", source(evidence)));
    }
    let files = counted(files, "file");
    if found.is_empty() {
        page.line(format_args!("{files}: nothing found"));
    } else {
        page.line(format_args!(
            "{files}: {}, {}, {} informational; `build-pipeline explain RULE` shows details",
            counted(count(found, Severity::Error), "error"),
            counted(count(found, Severity::Warning), "warning"),
            count(found, Severity::Information),
        ));
    }
    page.into_text()
}
