//! Reports what the `sed -i` lines of Dockerfiles and scripts do to a tree, and what to use
//! instead.

use std::path::{Path, PathBuf};

use executor::{Confinement, Tools};
use failure::{Failure, Kind};
use lint::shell::commands;
use names::GpuTarget;
use patcher::{NoProbes, Patch, PatchSet, Subject, TreePath, Verdict};
use project::kinds::{PathKind, refuse_others};
use project::{Project, environment, patches, read_text};
use schemars::JsonSchema;
use serde::Serialize;
use sources::Sources;
use text::{Page, counted};

use crate::rooted::Rooted;
use crate::sed::call::sed_call;
use crate::sed::judge::{Bench, Judgement, Rule};
use crate::{prepared, version};

/// The version of the JSON format.
const SCHEMA: u32 = 1;

/// The output of `patch lint-sed --format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LintReport {
    /// The version of this JSON format.
    schema: u32,
    /// The tree that the lines were run on, if one was given.
    root: Option<String>,
    /// The number of `sed -i` calls.
    calls: usize,
    /// The number of findings that are faults.
    faults: usize,
    /// The findings, by file and line.
    findings: Vec<Finding>,
}

/// A finding about one call.
#[derive(Debug, Serialize, JsonSchema)]
struct Finding {
    /// The file.
    file: String,
    /// The line; the first line is 1.
    line: usize,
    /// The rule.
    rule: Rule,
    /// Whether it is a fault and not only a note.
    fault: bool,
    /// The sed script, shortened.
    script: String,
    /// The problem.
    message: String,
    /// The affected file of the tree.
    target: Option<String>,
    /// What to use instead.
    instead: Option<String>,
}

/// What to check.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The files, relative to the working folder.
    pub files: &'a [PathBuf],
    /// The folder with the tree, if one was given.
    pub root: Option<&'a Path>,
    /// The pin whose source is the tree, if one was given. Ignored if there is a `root`.
    pub pin: Option<&'a str>,
    /// The GPU target of the suggested patches, or `None` for the project's target.
    pub gpu: Option<&'a str>,
}

impl LintReport {
    /// Checks files. Paths are relative to `here`, and `sources` fetches the source of a pin.
    ///
    /// # Errors
    /// A file, the tree or a patch cannot be read, or the GPU is not a target.
    pub fn new(
        here: &Path,
        project: &Project,
        asked: Asked<'_>,
        sources: impl FnOnce() -> Result<Sources, Failure>,
    ) -> Result<Self, Failure> {
        let tree: Option<Box<dyn Rooted>> = match (asked.root, asked.pin) {
            (Some(root), _) => Some(Box::new(prepared::open(here, root)?)),
            (None, Some(name)) => Some(Box::new(prepared::fetch(sources, project, name)?)),
            (None, None) => None,
        };
        let tree = tree.as_deref();
        let gpu = prepared::gpu(project, asked.gpu)?;
        let all: Vec<Patch> = patches::read_all(project)?.into_values().flatten().collect();
        // Nothing here executes code from the tree: sed runs with `--sandbox`, Python only
        // compiles.
        let tools =
            Tools::new(&environment::program_path()).with_confinement(Confinement::Preferred);
        let (root, findings) = (tree.map(Rooted::shown), Vec::new());
        let mut report = Self { schema: SCHEMA, root, calls: 0, faults: 0, findings };
        for file in asked.files {
            let name = file.display().to_string();
            let wanted = "a Dockerfile or a shell script";
            refuse_others(&here.join(file), &name, wanted, &[PathKind::Dockerfile])?;
            let text = read_text(&here.join(file)).map_err(|error| {
                Failure::caused(Kind::Input, format!("reading `{name}` failed"), &error)
                    .hint("pass a Dockerfile or a shell script")
            })?;
            // Each file starts with the original tree.
            let mut bench = Bench::new(tree, &tools);
            for call in commands(&name, &text).iter().filter_map(sed_call) {
                report.calls += 1;
                for Judgement { rule, message, target } in bench.judge(&call) {
                    let instead = tree
                        .zip(target.as_ref())
                        .filter(|_| rule.is_fault())
                        .map(|(tree, target)| instead(tree, target, &all, &gpu, asked));
                    report.findings.push(Finding {
                        file: name.clone(),
                        line: call.line,
                        rule,
                        fault: rule.is_fault(),
                        script: call.shown(),
                        message,
                        target: target.map(|path| path.to_string()),
                        instead,
                    });
                }
            }
        }
        report.faults = report.findings.iter().filter(|finding| finding.fault).count();
        Ok(report)
    }

    /// Returns an error if a call has a fault.
    ///
    /// # Errors
    /// A call has a fault.
    pub fn verdict(&self) -> Result<(), Failure> {
        match self.faults {
            0 => Ok(()),
            count => {
                let (faults, calls) = (counted(count, "fault"), counted(self.calls, "call"));
                let told = format!("{faults} in {calls} of `sed -i`");
                Err(Failure::new(Kind::Failed, told)
                    .hint("an anchored patch fails with an error if it does not apply; to try the project's patches, run `build-pipeline patch check`"))
            }
        }
    }

    /// Returns the findings as text.
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        for (index, finding) in self.findings.iter().enumerate() {
            let Finding { file, line, rule, script, message, instead, fault, .. } = finding;
            let mark = if *fault { '✗' } else { '-' };
            page.line(format_args!("{mark} {file}:{line}: {message} [{}]", rule.name()));
            // Print this once for all findings about one script and file.
            let is_last = self.findings.get(index + 1).is_none_or(|next| {
                (&next.file, next.line, &next.script) != (file, *line, script)
                    || next.instead.is_some() && next.instead != *instead
            });
            if is_last {
                page.line(format_args!("      {script}"));
                if let Some(instead) = instead {
                    page.line(format_args!("      instead: {instead}"));
                }
            }
        }
        let Self { calls, faults, .. } = self;
        page.line(format_args!(
            "{} of `sed -i`, {}",
            counted(*calls, "call"),
            counted(*faults, "fault")
        ));
        if self.root.is_none() {
            page.line(format_args!(
                "without `--root DIR` or `--pin PIN`, only the text of the lines was checked"
            ));
        }
        page
    }
}

/// Returns what to use instead of a call that edits `target`: the project's patches for that file.
fn instead(
    tree: &dyn Rooted,
    target: &TreePath,
    all: &[Patch],
    gpu: &GpuTarget,
    asked: Asked<'_>,
) -> String {
    let mut ways = Vec::new();
    for patch in all {
        let Some(verdict) = alone(tree, target, patch, gpu) else { continue };
        let (id, component) = (&patch.id, &patch.component);
        match verdict {
            Verdict::Applied { .. } => {
                let required: String =
                    patch.relations.requires.iter().map(|needed| format!(",{needed}")).collect();
                let options = match (asked.root, asked.pin) {
                    (Some(root), _) => format!("--root {}", root.display()),
                    (None, pin) => {
                        let pin = pin.unwrap_or(component);
                        format!("--pin {pin} --output {component}.tar")
                    }
                };
                ways.push(format!(
                    "`build-pipeline patch apply {component} {options} --only {id}{required}`"
                ));
            }
            Verdict::AlreadyPresent { .. } | Verdict::SatisfiedOtherwise => {
                ways.push(format!("nothing, because upstream already contains `{id}` ({verdict})"));
            }
            _ => {}
        }
    }
    if !ways.is_empty() {
        ways.join("; or ")
    } else {
        "a patch under `patches/`, whose anchor defines how often it must match".to_owned()
    }
}

/// Returns the effect of a single patch on a file, if the patch edits that file.
fn alone(tree: &dyn Rooted, target: &TreePath, patch: &Patch, gpu: &GpuTarget) -> Option<Verdict> {
    if !patch.edits.iter().any(|edit| edit.files.contains(target)) {
        return None;
    }
    let mut patch = patch.clone();
    patch.relations.requires.clear();
    patch.probes.clear();
    let found = version::detect(tree, &patch.component);
    let set = PatchSet::new(vec![patch]).ok()?;
    let subject = Subject {
        gpu,
        version: found.as_ref().map(|found| &found.version),
        build_env: None,
        is_pristine: false,
        base: &std::collections::BTreeMap::new(),
        receipts: &[],
    };
    let outcome = patcher::apply(&set, &subject, tree, &NoProbes);
    let edits = outcome.patches.into_iter().flat_map(|patched| patched.edits);
    edits.into_iter().find(|edit| edit.file.as_ref() == Some(target)).map(|edit| edit.verdict)
}
