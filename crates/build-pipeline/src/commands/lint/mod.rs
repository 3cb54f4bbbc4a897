//! `build-pipeline lint` and `explain`: what is wrong, stale or dangerous in files, and why.

mod report;
mod sarif;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use failure::{Failure, Kind, nearest};
use lint::{Context, Exists, Finding, RULES, Severity};
use names::TrackName;
use pins::Tracks;
use project::clock::today;
use project::{Project, read_text};

pub(crate) use self::report::LintFindings;
use crate::annotations::{self, Annotation, Level};
use crate::cli::{Global, Lint, LintFormat};
use crate::global;
use crate::output::{self, Page};

/// The folder that paths in files are relative to.
#[derive(Debug)]
struct Folder<'a>(&'a Path);

impl Exists for Folder<'_> {
    fn exists(&self, file: &str, path: &str) -> bool {
        let beside = self.0.join(file).parent().map(|folder| folder.join(path));
        self.0.join(path).exists() || beside.is_some_and(|path| path.exists())
    }
}

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Lint) -> Result<(), Failure> {
    let here = global::working_folder(global)?;
    // Files outside a project can be checked too; inside one, its tables are used.
    let project = Project::find(&here);
    let compat = match &project {
        Ok(project) => project.compat()?,
        Err(_) => None,
    };
    // Tracks are read with the pins; if the pins are invalid, their own problems come first.
    let pins = project.as_ref().ok().and_then(|project| project.pins().ok());
    let root = project.as_ref().map_or_else(|_| here.clone(), |project| project.root.clone());
    let files = match args.files.as_slice() {
        [] => project_files(&project?)?,
        files => files.iter().map(|file| read(&here, file)).collect::<Result<_, _>>()?,
    };
    let defined: BTreeSet<String> =
        files.iter().flat_map(|(name, text)| lint::defined(name, text)).collect();
    let (_, day) = today()?;
    let folder = Folder(if args.files.is_empty() { &root } else { &here });
    let context = Context {
        compat: compat.as_ref(),
        today: Some(&day),
        defined: Some(&defined),
        pins: pins.as_ref(),
        exists: Some(&folder),
    };
    let found: Vec<Finding> =
        files.iter().flat_map(|(name, text)| lint::check(name, text, context)).collect();
    match args.format {
        LintFormat::Text => output::sanitised_result(&report::text(&found, files.len()))?,
        LintFormat::Json => output::json(&LintFindings::new(&found, files.len()))?,
        LintFormat::Sarif => output::json(&sarif::document(&found))?,
        LintFormat::Github => {
            output::sanitised_result(&annotations::lines(found.iter().map(mark)))?;
        }
    }
    let fails = |finding: &Finding| match finding.rule.severity {
        Severity::Error => true,
        Severity::Warning => args.strict,
        Severity::Information => false,
    };
    if found.iter().any(fails) { Err(Failure::told(Kind::Failed)) } else { Ok(()) }
}

fn mark(finding: &Finding) -> Annotation<'_> {
    Annotation {
        level: match finding.rule.severity {
            Severity::Error => Level::Error,
            Severity::Warning => Level::Warning,
            Severity::Information => Level::Notice,
        },
        file: &finding.file,
        line: finding.line,
        title: finding.rule.id.to_owned(),
        message: format!("{}; {}", finding.message, finding.help),
    }
}

fn read(here: &Path, file: &Path) -> Result<(String, String), Failure> {
    let name = file.display().to_string();
    match read_text(&here.join(file)) {
        Ok(text) => Ok((name, text)),
        Err(error) => Err(Failure::caused(Kind::Input, format!("reading `{name}` failed"), &error)
            .hint("name text files: `build-pipeline lint Dockerfile run.sh .env compose.yml`")),
    }
}

/// Returns the pins, the tracks, the requirements of Python locks, and everything below
/// `dockerfiles/`.
fn project_files(project: &Project) -> Result<Vec<(String, String)>, Failure> {
    let data = ["versions/versions.toml", "versions/tracks.toml", "versions/python.toml"];
    let mut names: Vec<PathBuf> = data.map(PathBuf::from).into();
    names.retain(|name| project.root.join(name).exists());
    let mut folders = vec![PathBuf::from("dockerfiles")];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(project.root.join(&folder)) else { continue };
        for entry in entries.flatten() {
            let name = folder.join(entry.file_name());
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(name),
                Ok(kind) if kind.is_file() => names.push(name),
                Ok(_) | Err(_) => {}
            }
        }
    }
    names.sort();
    names.iter().map(|name| read(&project.root, name)).collect()
}

/// Explains a rule, or lists all rules.
pub(crate) fn explain(name: Option<&str>, tracks: Option<&Tracks>) -> Result<(), Failure> {
    let mut page = Page::default();
    let Some(name) = name else {
        for rule in RULES {
            page.line(format_args!("{:24} {:12} {}", rule.id, rule.severity.name(), rule.title));
        }
        return output::result(&page.into_text());
    };
    let Some(rule) = lint::rule(name) else {
        let told = Failure::new(Kind::Input, format!("there is no rule or track `{name}`"));
        let tracks = tracks.into_iter().flat_map(|all| all.tracks.keys().map(TrackName::as_str));
        return Err(match nearest(name, RULES.iter().map(|rule| rule.id).chain(tracks)) {
            Some(near) => told.hint(format!("did you mean `build-pipeline explain {near}`?")),
            None => told.hint("`build-pipeline explain` lists the rules"),
        });
    };
    page.line(format_args!("{} ({})\n", rule.id, rule.severity.name()));
    page.line(format_args!("What: {}", rule.title));
    page.line(format_args!("Why: {}", rule.fact));
    page.line(format_args!("Do: {}", rule.advice));
    page.line(format_args!("Source: {}", rule.source));
    page.line(format_args!(
        "\nTo allow one place, write `# build-pipeline: allow {}` on its line or on the line above.",
        rule.id
    ));
    output::result(&page.into_text())
}
