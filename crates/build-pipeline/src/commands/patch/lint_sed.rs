//! `patch lint-sed`: shows what the `sed -i` lines of Dockerfiles and scripts do to a tree.

use std::path::Path;

use executor::{Confinement, Tools};
use failure::{Failure, Kind};
use lint::shell::commands;
use names::GpuTarget;
use patcher::{NoProbes, Patch, PatchSet, Subject, TreePath, Verdict};
use patching::sed::{Bench, Judgement, Rule, sed_call};
use patching::{Rooted, prepared, version};
use project::{Project, environment, patches, read_text};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::{Format, Global, LintSed};
use crate::commands::patch::report::SCHEMA;
use crate::global;
use terminal::output;
use text::{Page, counted};

/// The output of `patch lint-sed --format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LintReport {
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

/// Lints files.
pub(crate) fn run(
    global: &Global,
    here: &Path,
    project: &Project,
    args: &LintSed,
) -> Result<(), Failure> {
    let tree: Option<Box<dyn Rooted>> = match (&args.root, &args.pin) {
        (Some(root), _) => Some(Box::new(prepared::open(here, root)?)),
        (None, Some(name)) => {
            Some(Box::new(prepared::fetch(|| global::sources(global), project, name)?))
        }
        (None, None) => None,
    };
    let tree = tree.as_deref();
    let gpu = prepared::gpu(project, args.gpu.as_deref())?;
    let all: Vec<Patch> = patches::read_all(project)?.into_values().flatten().collect();
    // Nothing here executes code from the tree: sed runs with `--sandbox`, Python only compiles.
    let tools = Tools::new(&environment::program_path()).with_confinement(Confinement::Preferred);
    let mut report = LintReport {
        schema: SCHEMA,
        root: tree.map(Rooted::shown),
        calls: 0,
        faults: 0,
        findings: Vec::new(),
    };
    for file in &args.files {
        let name = file.display().to_string();
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
                    .map(|(tree, target)| instead(tree, target, &all, &gpu, args));
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
    match args.format {
        Format::Json => output::json(&report)?,
        Format::Text => output::sanitised_result(&text(&report))?,
    }
    match report.faults {
        0 => Ok(()),
        count => {
            let (faults, calls) = (counted(count, "fault"), counted(report.calls, "call"));
            let told = format!("{faults} in {calls} of `sed -i`");
            Err(Failure::new(Kind::Failed, told)
                .hint("an anchored patch fails with an error if it does not apply; to try the project's patches, run `build-pipeline patch check`"))
        }
    }
}

/// Returns what to use instead of a call that edits `target`: the project's patches for that file.
fn instead(
    tree: &dyn Rooted,
    target: &TreePath,
    all: &[Patch],
    gpu: &GpuTarget,
    args: &LintSed,
) -> String {
    let mut ways = Vec::new();
    for patch in all {
        let Some(verdict) = alone(tree, target, patch, gpu) else { continue };
        let (id, component) = (&patch.id, &patch.component);
        match verdict {
            Verdict::Applied { .. } => {
                let required: String =
                    patch.relations.requires.iter().map(|needed| format!(",{needed}")).collect();
                let options = match (&args.root, &args.pin) {
                    (Some(root), _) => format!("--root {}", root.display()),
                    (None, pin) => {
                        let pin = pin.as_deref().unwrap_or(component);
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

fn text(report: &LintReport) -> String {
    let mut page = Page::default();
    for (index, finding) in report.findings.iter().enumerate() {
        let Finding { file, line, rule, script, message, instead, fault, .. } = finding;
        let mark = if *fault { '✗' } else { '-' };
        page.line(format_args!("{mark} {file}:{line}: {message} [{}]", rule.name()));
        // Print this once for all findings about one script and file.
        let is_last = report.findings.get(index + 1).is_none_or(|next| {
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
    let LintReport { calls, faults, .. } = report;
    page.line(format_args!(
        "{} of `sed -i`, {}",
        counted(*calls, "call"),
        counted(*faults, "fault")
    ));
    if report.root.is_none() {
        page.line(format_args!(
            "without `--root DIR` or `--pin PIN`, only the text of the lines was checked"
        ));
    }
    page.into_text()
}
