//! The known failures that a log shows, as JSON and as text.

use host::failures::{self, Diagnoses, Diagnosis, LogLine};
use schemars::JsonSchema;
use serde::Serialize;
use text::{Page, counted};

/// The words before an assessment.
pub(crate) const ASSESSED: &str = "assessment (not a known failure, check it)";

/// The output of `diagnose --format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DiagnoseReport {
    /// The version of this JSON format.
    schema: u32,
    /// The number of lines in the log.
    lines: u64,
    /// The size of the log in bytes.
    bytes: u64,
    /// The failures in the log, in order of appearance.
    failures: Vec<Known>,
    /// The failures that it shows if it comes from a machine with an AMD GPU. Only if nothing in the
    /// log names a GPU, and if it shows no other failure.
    possible: Vec<Known>,
    /// What the log states as errors, if it shows no failure, or only harmless ones; and what it
    /// states before failures without a certain cause, which are often only its consequence.
    errors: StatedErrors,
    /// Which part failed, and how, as far as the lines of the log say it. It is no known failure.
    /// Only if the log shows no failure with a certain cause.
    assessment: Option<Assessment>,
}

/// Which part failed, and how. Nobody has confirmed the cause.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Assessment {
    /// The name of the kind of failure.
    pub kind: String,
    /// The name of the component that failed, if the log names one.
    pub component: Option<String>,
    /// What happened.
    pub what: String,
    /// What the component is.
    pub place: Option<String>,
    /// The lines that show it.
    pub lines: Vec<Line>,
    /// What to do, most promising first.
    pub fix: Vec<String>,
    /// How to learn more.
    pub more: Vec<String>,
    /// Where to report it.
    pub report: Option<String>,
    /// The source of what is said about the component.
    pub evidence: Option<String>,
    /// The date on which the source was read, `YYYY-MM-DD`, if that is known.
    pub checked: Option<String>,
}

/// The lines in which a log states an error.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StatedErrors {
    /// The number of such lines.
    pub count: u64,
    /// The first and the last of them.
    pub lines: Vec<Line>,
}

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

impl From<&LogLine> for Line {
    fn from(line: &LogLine) -> Self {
        Self { number: line.number, text: line.text.clone() }
    }
}

impl From<&Diagnosis<'_>> for Known {
    fn from(diagnosis: &Diagnosis<'_>) -> Self {
        let Diagnosis { failure, cause, fix, lines, count } = diagnosis;
        Self {
            name: failure.name.clone(),
            cause: cause.clone(),
            fix: fix.clone(),
            known: failure.known.to_string(),
            harmless: failure.is_harmless,
            evidence: failure.evidence.clone(),
            checked: failure.checked.clone(),
            count: *count,
            lines: lines.iter().map(Line::from).collect(),
        }
    }
}

impl From<&failures::Assessment<'_>> for Assessment {
    fn from(assessment: &failures::Assessment<'_>) -> Self {
        let failures::Assessment { kind, component, what, place, lines, .. } = assessment;
        Self {
            kind: (*kind).to_owned(),
            component: component.map(str::to_owned),
            what: what.clone(),
            place: place.clone(),
            lines: lines.iter().map(Line::from).collect(),
            fix: assessment.fix.clone(),
            more: assessment.more.clone(),
            report: assessment.report.map(str::to_owned),
            evidence: assessment.evidence.map(str::to_owned),
            checked: assessment.checked.map(str::to_owned),
        }
    }
}

impl From<&Diagnoses<'_>> for DiagnoseReport {
    fn from(found: &Diagnoses<'_>) -> Self {
        let failures = found.found.iter().map(Known::from).collect();
        let possible = found.possible.iter().map(Known::from).collect();
        let lines = found.errors.lines.iter().map(Line::from).collect();
        let errors = StatedErrors { count: found.errors.count, lines };
        let assessment = found.assessment.as_ref().map(Assessment::from);
        let Diagnoses { lines: count, bytes, .. } = *found;
        Self { schema: 1, lines: count, bytes, failures, possible, errors, assessment }
    }
}

impl Known {
    /// Adds it to a page.
    fn add_to(&self, page: &mut Page) {
        let Self { name, cause, known, evidence, checked, count, lines, .. } = self;
        let harmless = if self.harmless { " (harmless)" } else { "" };
        page.line(format_args!("{name}{harmless}: {cause}"));
        for line in lines {
            page.line(format_args!("  line {}: {}", line.number, line.text));
        }
        if *count > lines.len() as u64 {
            page.line(format_args!("  in {}", counted(*count, "line")));
        }
        for (index, fix) in self.fix.iter().enumerate() {
            let head = if index == 0 { "fix" } else { "" };
            page.line(format_args!("  {head:7} {fix}"));
        }
        page.line(format_args!("  known   {known}"));
        page.line(format_args!("  source  {evidence}{}\n", read_on(checked.as_deref())));
    }
}

impl Assessment {
    /// Adds it to a page.
    fn add_to(&self, page: &mut Page) {
        page.line(format_args!("{ASSESSED}: {}", self.what));
        if let Some(place) = &self.place {
            page.line(format_args!("  where   {place}"));
        }
        for line in &self.lines {
            page.line(format_args!("  line {}: {}", line.number, line.text));
        }
        for (head, all) in [("try", &self.fix), ("learn", &self.more)] {
            for (index, one) in all.iter().enumerate() {
                let head = if index == 0 { head } else { "" };
                page.line(format_args!("  {head:7} {one}"));
            }
        }
        if let Some(report) = &self.report {
            page.line(format_args!("  report  {report}"));
        }
        if let Some(evidence) = &self.evidence {
            page.line(format_args!("  source  {evidence}{}", read_on(self.checked.as_deref())));
        }
    }
}

/// Returns the date on which a source was read, as it stands after the source.
fn read_on(checked: Option<&str>) -> String {
    checked.map_or_else(String::new, |day| format!(" ({day})"))
}

impl DiagnoseReport {
    /// Returns the report as text.
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        self.failures.iter().for_each(|one| one.add_to(&mut page));
        let lines = counted(self.lines, "line");
        match self.failures.iter().filter(|one| !one.harmless).count() {
            0 if self.possible.is_empty() => {
                page.line(format_args!("no known failure in {lines}"));
            }
            0 => page.line(format_args!(
                "nothing in {lines} names a GPU; on a machine with an AMD GPU, this is a known failure:\n"
            )),
            count => page.line(format_args!("{} in {lines}", counted(count, "known failure"))),
        }
        self.possible.iter().for_each(|one| one.add_to(&mut page));
        match self.errors.count {
            0 => {}
            1 => page.line(format_args!("1 line states an error:")),
            2 => page.line(format_args!("2 lines state errors:")),
            count => page.line(format_args!("{count} lines state errors, the first and the last:")),
        }
        for line in &self.errors.lines {
            page.line(format_args!("  line {}: {}", line.number, line.text));
        }
        if let Some(assessment) = &self.assessment {
            page.line(format_args!(""));
            assessment.add_to(&mut page);
        }
        page
    }
}
