//! Plans in the forms that people read and draw. JSON is the plan's own canonical text.

use std::collections::BTreeMap;

use plan::{Action, ImageEdit, Plan, Seal, Source, labels};
use planner::Warning;

use crate::output::Page;

/// Returns the plan as an indented outline.
pub(crate) fn tree(plan: &Plan, warnings: &[Warning]) -> String {
    let mut out = Page::default();
    let kind = if plan.rehearsal { ", rehearsal on stand-ins" } else { "" };
    out.line(format_args!("{} for {}{kind}", plan.track, plan.gpu));
    let all_labels = plan.final_labels();
    let label = |key| all_labels.get(key).map(String::as_str).unwrap_or_default();
    out.line(format_args!("├─ plan digest {}", label(labels::PLAN_DIGEST)));
    let created = label(labels::CREATED);
    out.line(format_args!(
        "├─ time        {created} (SOURCE_DATE_EPOCH {})",
        plan.source_date_epoch
    ));
    match &plan.recipe {
        Some(recipe) => {
            let state = if recipe.modified { ", with changes that are not committed" } else { "" };
            out.line(format_args!("├─ recipe      {}{state}", recipe.commit));
        }
        None => out.line(format_args!("├─ recipe      unknown: the project is no git checkout")),
    }
    for (name, value) in &plan.overrides {
        out.line(format_args!("├─ changed     {name} = {value}"));
    }
    for (name, value) in &plan.pins {
        out.line(format_args!("├─ pin         {name} = {value}"));
    }
    for (index, step) in plan.steps.iter().enumerate() {
        let is_last = index + 1 == plan.steps.len();
        let (branch, bar) = if is_last { ("└─", "   ") } else { ("├─", "│  ") };
        let needs = match step.needs.as_slice() {
            [] => String::new(),
            needs => format!("  (needs {})", needs.join(", ")),
        };
        out.line(format_args!("{branch} {}. {}{needs}", index + 1, step.id));
        action(&mut out, bar, &step.action, &all_labels);
    }
    for warning in warnings {
        out.line(format_args!("warning: {} [{}]", warning.message, warning.rule));
    }
    out.into_text()
}

fn action(out: &mut Page, bar: &str, action: &Action, labels: &BTreeMap<String, String>) {
    match action {
        Action::FetchBase { image, kind, platform } => {
            let kind = kind.map(|kind| format!(" ({kind})")).unwrap_or_default();
            out.line(format_args!("{bar}├─ {image}{kind}"));
            out.line(format_args!(
                "{bar}└─ {platform}: manifest and config, every byte checked; no layer moves"
            ));
        }
        Action::FetchSource { pin, source, patches, .. } => {
            let branch = if patches.is_empty() { "└─" } else { "├─" };
            out.line(format_args!("{bar}{branch} pin {pin}: {}", spelled(source)));
            for (index, patch) in patches.iter().enumerate() {
                let branch = if index + 1 == patches.len() { "└─" } else { "├─" };
                let (id, digest) = (&patch.id, patch.digest.short());
                out.line(format_args!("{bar}{branch} patch {}/{id} ({digest})", patch.component));
            }
        }
        Action::FetchPackages { lock, digest, sets } => {
            out.line(format_args!("{bar}├─ lock {lock} ({})", digest.short()));
            out.line(format_args!(
                "{bar}└─ sets {}: every package by its SHA-256",
                sets.join(", ")
            ));
        }
        Action::FetchWheels { lock, digest } => {
            out.line(format_args!("{bar}└─ lock {lock} ({})", digest.short()));
        }
        Action::BootstrapBase { set, seal, .. } => {
            out.line(format_args!("{bar}├─ a root file system of the packages `{set}`"));
            self::seal(out, (bar, "└─"), seal);
        }
        Action::BuildImage { base, dockerfile, digest, args, context, network } => {
            out.line(format_args!("{bar}├─ {dockerfile} ({}) on {base}", digest.short()));
            for (name, value) in args {
                out.line(format_args!("{bar}├─ ARG {name}={value}"));
            }
            for (folder, step) in context {
                out.line(format_args!("{bar}├─ context {folder}/ from {step}"));
            }
            let network = if *network { "with the network" } else { "without network" };
            out.line(format_args!("{bar}└─ RUN {network}"));
        }
        Action::SealImage { seal, edit, .. } => {
            self::seal(out, (bar, "├─"), seal);
            // A stage on the way has no labels of its own.
            let none = BTreeMap::new();
            self::edit(out, bar, edit, if edit.labels.is_empty() { &none } else { labels });
        }
        Action::DeriveImage { contract, edit, .. } => {
            out.line(format_args!("{bar}├─ contract {contract}"));
            self::edit(out, bar, edit, labels);
        }
    }
}

/// Returns a source as people write it.
fn spelled(source: &Source) -> String {
    match source {
        Source::Git { url, commit } => format!("{url} at {commit}"),
        Source::Archive { project, version, sha256, subdirectory } => {
            let inside = subdirectory.as_ref().map(|inside| format!(", {inside}/ of it"));
            format!("{project} {version}, sha256 {sha256}{}", inside.unwrap_or_default())
        }
    }
}

fn seal(out: &mut Page, (bar, branch): (&str, &str), seal: &Seal) {
    out.line(format_args!("{bar}├─ contract {}", seal.contract));
    out.line(format_args!("{bar}{branch} left out: {}", seal.scrub.join(" ")));
}

fn edit(out: &mut Page, bar: &str, edit: &ImageEdit, labels: &BTreeMap<String, String>) {
    for (name, value) in &edit.env {
        out.line(format_args!("{bar}├─ env {name}={value}"));
    }
    if !edit.entrypoint_prefix.is_empty() {
        out.line(format_args!(
            "{bar}├─ entrypoint: a wrapper that honours BUILD_PIPELINE_SPOOF=off, then the base's own"
        ));
    }
    let branch = if labels.is_empty() { "└─" } else { "├─" };
    out.line(format_args!(
        "{bar}{branch} {} labels of the base are reset where it has them",
        edit.reset.len()
    ));
    let last = labels.len().saturating_sub(1);
    for (index, (key, value)) in labels.iter().enumerate() {
        let branch = if index == last { "└─" } else { "├─" };
        out.line(format_args!("{bar}{branch} label {key}={value}"));
    }
}

/// Returns the plan as a Graphviz digraph.
pub(crate) fn dot(plan: &Plan) -> String {
    let mut out = Page::default();
    out.line(format_args!("digraph {} {{", quoted(&plan.name)));
    out.line(format_args!("  rankdir=LR; node [shape=box];"));
    for step in &plan.steps {
        out.line(format_args!(
            "  {} [label={}];",
            quoted(&step.id),
            quoted(&caption(&step.id, &step.action))
        ));
        for need in &step.needs {
            out.line(format_args!("  {} -> {};", quoted(need), quoted(&step.id)));
        }
    }
    out.line(format_args!("}}"));
    out.into_text()
}

/// Returns the plan as a Mermaid flowchart.
pub(crate) fn mermaid(plan: &Plan) -> String {
    let mut out = Page::default();
    out.line(format_args!("flowchart LR"));
    for step in &plan.steps {
        // In Mermaid a quote is written as an entity, a line break as <br/>.
        let text = caption(&step.id, &step.action).replace('"', "#quot;").replace('\n', "<br/>");
        out.line(format_args!("  {}[\"{text}\"]", step.id));
        for need in &step.needs {
            out.line(format_args!("  {need} --> {}", step.id));
        }
    }
    out.into_text()
}

fn caption(id: &str, action: &Action) -> String {
    match action {
        Action::FetchBase { image, .. } => {
            let digest = image.digest.as_ref().map(|digest| digest.short()).unwrap_or_default();
            format!("{id}\n{}@{digest}", image.repository)
        }
        Action::FetchSource { source, .. } => match source {
            Source::Git { url, commit } => {
                format!("{id}\n{url}@{}", &commit[..commit.len().min(12)])
            }
            Source::Archive { project, version, .. } => format!("{id}\n{project} {version}"),
        },
        Action::FetchPackages { lock, .. } | Action::FetchWheels { lock, .. } => {
            format!("{id}\n{lock}")
        }
        Action::BootstrapBase { set, .. } => format!("{id}\npackages `{set}`"),
        Action::BuildImage { dockerfile, .. } => format!("{id}\n{dockerfile}"),
        Action::SealImage { seal: Seal { contract, .. }, edit, .. }
        | Action::DeriveImage { contract, edit, .. } => {
            format!(
                "{id}\n{contract}: {} variables, {} labels",
                edit.env.len(),
                edit.labels.len() + 1
            )
        }
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
