//! Findings as text, as JSON and as annotations for GitHub, and rules as text.

use pins::Known;
use schemars::JsonSchema;
use serde::Serialize;
use text::annotations::{self, Annotation, Level};
use text::{Page, counted};

use crate::{Evidence, Finding, Rule, Severity};

/// The version of this JSON format.
const SCHEMA: u32 = 1;

/// The output of `lint --format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LintFindings {
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
    /// The files in folders that seem to have a known kind, but were not checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<Skipped>,
}

/// A file in a folder that seems to have a known kind, but was not checked.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Skipped {
    /// The file.
    pub file: String,
    /// Why it was not checked.
    pub why: &'static str,
}

/// One finding of a rule.
#[derive(Debug, Serialize, JsonSchema)]
struct OneFinding {
    /// The file.
    file: String,
    /// The line; the first line is 1.
    line: usize,
    /// Other lines with the same defect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    also: Vec<usize>,
    /// The rule.
    rule: &'static str,
    /// Its severity here: error, warning or information. It can differ from that of the rule.
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

/// Returns the number of findings with a severity.
fn count(found: &[Finding], severity: Severity) -> usize {
    found.iter().filter(|finding| finding.severity == severity).count()
}

impl LintFindings {
    /// Creates the document. `files` is the number of files that were checked.
    pub fn new(found: &[Finding], files: usize, skipped: Vec<Skipped>) -> Self {
        let one = |finding: &Finding| OneFinding {
            file: finding.file.clone(),
            line: finding.line,
            also: finding.also.clone(),
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
            skipped,
        }
    }
}

/// Returns the JSON value for how a fact is known.
pub(crate) fn known(known: Known) -> &'static str {
    match known {
        Known::Vendor => "vendor",
        Known::Maintainer => "maintainer",
        Known::Reports(_) => "reports",
        Known::OneSource => "one-source",
    }
}

/// Returns the source of a fact, how it is known, and when it was read.
pub(crate) fn source(evidence: &Evidence) -> String {
    let Evidence { source, known, checked } = evidence;
    format!("{source} ({known}; checked on {checked})")
}

/// Returns the findings as text. `files` is the number of files that were checked, and `skipped` of
/// those that were not.
pub fn page(found: &[Finding], files: usize, skipped: usize) -> Page {
    let mut page = Page::default();
    for Finding { rule, severity, file, line, message, help, evidence, also, .. } in found {
        page.line(format_args!("{file}:{line}: {}: {message} [{}]", severity.name(), rule.id));
        if !also.is_empty() {
            page.line(format_args!("    also in {}", lines(also)));
        }
        page.line(format_args!("    {}", rule.fact));
        page.line(format_args!("    help: {help}"));
        page.line(format_args!("    source: {}", source(evidence)));
    }
    let files = match skipped {
        0 => counted(files, "file"),
        _ => format!("{} ({skipped} skipped)", counted(files, "file")),
    };
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
    page
}

/// Returns line numbers as text: `line 3`, `lines 3, 5 and 9`.
pub(crate) fn lines(numbers: &[usize]) -> String {
    let all: Vec<String> = numbers.iter().map(usize::to_string).collect();
    match all.split_last() {
        Some((last, [])) => format!("line {last}"),
        Some((last, others)) => format!("lines {} and {last}", others.join(", ")),
        None => String::new(),
    }
}

/// Returns the lines that annotate the files in the log of a workflow.
pub fn annotations(found: &[Finding]) -> String {
    annotations::lines(found.iter().map(|finding| Annotation {
        level: match finding.severity {
            Severity::Error => Level::Error,
            Severity::Warning => Level::Warning,
            Severity::Information => Level::Notice,
        },
        file: &finding.file,
        line: finding.line,
        title: finding.rule.id.clone(),
        message: match &*finding.also {
            [] => format!("{}; {}", finding.message, finding.help),
            also => {
                format!("{} (also in {}); {}", finding.message, lines(also), finding.help)
            }
        },
    }))
}

/// Returns a list of rules, one per line.
pub fn list(rules: &[Rule]) -> Page {
    let mut page = Page::default();
    for rule in rules {
        page.line(format_args!("{:24} {:12} {}", rule.id, rule.severity.name(), rule.title));
    }
    page
}

/// Returns the explanation of a rule.
pub fn explanation(rule: &Rule) -> Page {
    let mut page = Page::default();
    page.line(format_args!("{} ({})\n", rule.id, rule.severity.name()));
    page.line(format_args!("What: {}", rule.title));
    page.line(format_args!("Why: {}", rule.fact));
    page.line(format_args!("Do: {}", rule.advice));
    page.line(format_args!("Source: {}", rule.evidence.source));
    page.line(format_args!("Known: {}; checked on {}", rule.evidence.known, rule.evidence.checked));
    page.line(format_args!(
        "\nTo allow this in one place, write `# build-pipeline: allow {}` on the reported line or on the line above it.",
        rule.id
    ));
    page
}
