//! The known failures that a log shows, in the form of JSON output.

use host::failures::Diagnosis;
use schemars::JsonSchema;
use serde::Serialize;

/// A known failure.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// The cause.
    pub cause: String,
    /// What to do, most promising first.
    pub fix: Vec<String>,
    /// How this is known: the vendor, a maintainer, independent reports, or one source.
    pub known: String,
    /// Whether programs continue normally.
    pub harmless: bool,
    /// The source of this information.
    pub evidence: String,
    /// The date on which the source was read, `YYYY-MM-DD`, if that is known.
    pub checked: Option<String>,
    /// The number of lines that match one of its patterns.
    pub count: u64,
    /// The first lines that show it.
    pub lines: Vec<Line>,
}

/// A line of the log.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Line {
    /// Its number; the first line is 1.
    pub number: u64,
    /// Its text, shortened if it is long.
    pub text: String,
}

impl From<&Diagnosis<'_>> for Known {
    fn from(diagnosis: &Diagnosis<'_>) -> Self {
        let Diagnosis { failure, lines, count } = diagnosis;
        Self {
            name: failure.name.clone(),
            cause: failure.cause.clone(),
            fix: failure.fix.clone(),
            known: failure.known.to_string(),
            harmless: failure.is_harmless,
            evidence: failure.evidence.clone(),
            checked: failure.checked.clone(),
            count: *count,
            lines: lines
                .iter()
                .map(|line| Line { number: line.number, text: line.text.clone() })
                .collect(),
        }
    }
}
