//! `build-pipeline lint` and `explain`: report wrong, stale and dangerous settings in files, and
//! explain the rules.

use std::path::Path;

use failure::{Failure, Kind};
use lint::report::{self, LintFindings};
use lint::{Finding, Severity, rules, sarif};
use names::TrackName;
use pins::Tracks;
use project::kinds::explained;
use project::lint_files::{Checked, check};
use terminal::output;

use crate::cli::{Lint, LintFormat};
use crate::global;

/// Runs the command.
pub(crate) fn run(args: &Lint) -> Result<(), Failure> {
    let here = global::working_folder()?;
    let Checked { findings: found, files, skipped, failed } =
        check(&here, &args.files, args.gpu.as_deref())?;
    for one in &skipped {
        output::warn("lint-skipped", &format!("`{}` was not checked: {}", one.file, one.why));
    }
    match args.format {
        // Print only the error.
        LintFormat::Text if files == 0 && found.is_empty() && failed.is_some() => {}
        LintFormat::Text => output::page(&report::page(&found, files, skipped.len()))?,
        LintFormat::Json => output::json(&LintFindings::new(&found, files, skipped))?,
        LintFormat::Sarif => output::json(&sarif::document(&found))?,
        LintFormat::Github => output::sanitised_result(&report::annotations(&found))?,
    }
    if let Some(failed) = failed {
        return Err(failed);
    }
    let fails = |finding: &Finding| match finding.severity {
        Severity::Error => true,
        Severity::Warning => args.strict,
        Severity::Information => false,
    };
    if found.iter().any(fails) { Err(Failure::told(Kind::Failed)) } else { Ok(()) }
}

/// Explains a rule, or lists all rules.
pub(crate) fn explain(name: Option<&str>, tracks: Option<&Tracks>) -> Result<(), Failure> {
    let Some(name) = name else {
        return output::result(&report::list(rules()).into_text());
    };
    let Some(rule) = lint::rule(name) else {
        let told = Failure::new(Kind::Input, format!("there is no rule or track `{name}`"));
        let tracks = tracks.into_iter().flat_map(|all| all.tracks.keys().map(TrackName::as_str));
        let ids = rules().iter().map(|rule| rule.id.as_str());
        let otherwise =
            "`build-pipeline explain` lists the rules, and `build-pipeline` lists the tracks";
        let told = told.did_you_mean(name, ids.chain(tracks), otherwise);
        return Err(explained(told, Path::new(name), name));
    };
    output::result(&report::explanation(rule).into_text())
}
