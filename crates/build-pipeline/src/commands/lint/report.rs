//! Findings in words and as JSON.

use lint::{Finding, Severity};
use schemars::JsonSchema;
use serde::Serialize;

use crate::output::Page;

/// The number of this JSON form.
const SCHEMA: u32 = 1;

/// What `lint --format json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LintFindings {
    /// The number of this JSON form.
    schema: u32,
    /// How many files were read.
    files: usize,
    /// How many findings are errors.
    errors: usize,
    /// How many are warnings.
    warnings: usize,
    /// How many are information.
    information: usize,
    /// The findings, file by file.
    findings: Vec<OneFinding>,
}

/// One place that a rule objects to.
#[derive(Debug, Serialize, JsonSchema)]
struct OneFinding {
    /// The file.
    file: String,
    /// The line, from 1.
    line: usize,
    /// The rule.
    rule: &'static str,
    /// How bad it is: error, warning or information.
    severity: &'static str,
    /// What is so.
    message: String,
    /// What to do instead.
    help: String,
    /// What is right.
    fact: &'static str,
    /// Who says so.
    source: &'static str,
}

fn count(found: &[Finding], severity: Severity) -> usize {
    found.iter().filter(|finding| finding.rule.severity == severity).count()
}

impl LintFindings {
    pub(super) fn new(found: &[Finding], files: usize) -> Self {
        let one = |finding: &Finding| OneFinding {
            file: finding.file.clone(),
            line: finding.line,
            rule: finding.rule.id,
            severity: finding.rule.severity.name(),
            message: finding.message.clone(),
            help: finding.help.clone(),
            fact: finding.rule.fact,
            source: finding.rule.source,
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

/// Returns the findings for reading.
pub(super) fn text(found: &[Finding], files: usize) -> String {
    let mut page = Page::default();
    for Finding { rule, file, line, message, help } in found {
        page.line(format_args!("{file}:{line}: {}: {message} [{}]", rule.severity.name(), rule.id));
        page.line(format_args!("    {}", rule.fact));
        page.line(format_args!("    help: {help}"));
        page.line(format_args!("    source: {}", rule.source));
    }
    let files = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
    match found.is_empty() {
        true => page.line(format_args!("{files}: nothing found")),
        false => page.line(format_args!(
            "{files}: {} errors, {} warnings, {} information; `build-pipeline explain RULE` tells more",
            count(found, Severity::Error),
            count(found, Severity::Warning),
            count(found, Severity::Information),
        )),
    }
    page.into_text()
}
