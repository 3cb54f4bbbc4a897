//! `build-pipeline lint` and `explain`: report wrong, stale and dangerous settings in files, and
//! explain the rules.

mod files;
mod report;
mod sarif;

use std::collections::BTreeSet;

use failure::{Failure, Kind};
use lint::{Context, Finding, Severity, rules};
use names::TrackName;
use pins::Tracks;
use project::Project;
use project::clock::today;

use self::files::{Folder, Read};
pub(crate) use self::report::LintFindings;
use crate::cli::{Lint, LintFormat};
use crate::global;
use terminal::output;
use text::Page;
use text::annotations::{self, Annotation, Level};

/// Runs the command.
pub(crate) fn run(args: &Lint) -> Result<(), Failure> {
    let here = global::working_folder()?;
    // Files outside a project can also be checked; inside a project, the project's data is used.
    let project = Project::find(&here);
    let compat = match &project {
        Ok(project) => project.compat()?,
        Err(_) => None,
    };
    let compat = match compat {
        Some(compat) => compat,
        None => {
            let (name, text) = lint::data::COMPAT;
            pins::parse_compat(name, text)
                .map_err(|error| Failure::from_chain(Kind::Bug, &error))?
        }
    };
    // Any target is accepted, because files can be for any GPU.
    let gpu = args.gpu.as_deref().map(failure::gpu_target).transpose()?;
    let project_gpu = project.as_ref().ok().and_then(|project| project.default_gpu().ok());
    // If the pins are invalid, tracks are checked without them: the pins must be corrected first.
    let pins = project.as_ref().ok().and_then(|project| project.pins().ok());
    let has_built_in = project.as_ref().is_ok_and(Project::has_built_in);
    let tracks = project.as_ref().ok().and_then(|project| project.built_in_tracks().ok()?);
    let root = project.as_ref().map_or_else(|_| here.clone(), |project| project.root.clone());
    let Read { files, findings: mut found, failed } = match args.files.as_slice() {
        [] => files::of_project(&project?),
        names => files::read(&here, names),
    };
    let defined: BTreeSet<String> =
        files.iter().flat_map(|(name, text)| lint::defined(name, text)).collect();
    let built: BTreeSet<String> =
        files.iter().flat_map(|(name, text)| lint::built(name, text)).collect();
    let (_, day) = today()?;
    let here = if args.files.is_empty() { &root } else { &here };
    let folder = Folder { here, root: &root, has_built_in };
    let context = Context {
        compat: Some(&compat),
        today: Some(&day),
        defined: Some(&defined),
        built: Some(&built),
        pins: pins.as_ref(),
        tracks: tracks.as_ref(),
        exists: Some(&folder),
        gpu: gpu.as_ref(),
        project_gpu: project_gpu.as_ref(),
    };
    found.extend(files.iter().flat_map(|(name, text)| lint::check(name, text, context)));
    match args.format {
        // Print only the error.
        LintFormat::Text if files.is_empty() && found.is_empty() && failed.is_some() => {}
        LintFormat::Text => output::sanitised_result(&report::text(&found, files.len()))?,
        LintFormat::Json => output::json(&LintFindings::new(&found, files.len()))?,
        LintFormat::Sarif => output::json(&sarif::document(&found))?,
        LintFormat::Github => {
            output::sanitised_result(&annotations::lines(found.iter().map(mark)))?;
        }
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

fn mark(finding: &Finding) -> Annotation<'_> {
    Annotation {
        level: match finding.severity {
            Severity::Error => Level::Error,
            Severity::Warning => Level::Warning,
            Severity::Information => Level::Notice,
        },
        file: &finding.file,
        line: finding.line,
        title: finding.rule.id.clone(),
        message: format!("{}; {}", finding.message, finding.help),
    }
}

/// Explains a rule, or lists all rules.
pub(crate) fn explain(name: Option<&str>, tracks: Option<&Tracks>) -> Result<(), Failure> {
    let mut page = Page::default();
    let Some(name) = name else {
        for rule in rules() {
            page.line(format_args!("{:24} {:12} {}", rule.id, rule.severity.name(), rule.title));
        }
        return output::result(&page.into_text());
    };
    let Some(rule) = lint::rule(name) else {
        let told = Failure::new(Kind::Input, format!("there is no rule or track `{name}`"));
        let tracks = tracks.into_iter().flat_map(|all| all.tracks.keys().map(TrackName::as_str));
        let ids = rules().iter().map(|rule| rule.id.as_str());
        let otherwise =
            "`build-pipeline explain` lists the rules, and `build-pipeline` lists the tracks";
        return Err(told.did_you_mean(name, ids.chain(tracks), otherwise));
    };
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
    output::result(&page.into_text())
}
