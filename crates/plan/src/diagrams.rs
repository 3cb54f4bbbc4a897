//! A plan as a diagram: Graphviz, or a Mermaid flowchart.

use names::{Digest, GpuTarget};
use text::{Page, counted};

use crate::{Action, ImageEdit, Input, Plan, Step};

/// Returns the plan as a Graphviz digraph.
pub fn dot(plan: &Plan) -> String {
    let mut out = Page::default();
    out.line(format_args!("digraph {} {{", quoted(&plan.name)));
    out.line(format_args!("  rankdir=LR; node [shape=box];"));
    for step in &plan.steps {
        out.line(format_args!("  {} [label={}];", quoted(&step.id), quoted(&caption(plan, step))));
        for need in step.action.needs() {
            out.line(format_args!("  {} -> {};", quoted(need), quoted(&step.id)));
        }
    }
    out.line(format_args!("}}"));
    out.into_text()
}

/// Returns the plan as a Mermaid flowchart.
pub fn mermaid(plan: &Plan) -> String {
    let mut out = Page::default();
    out.line(format_args!("flowchart LR"));
    for step in &plan.steps {
        // Mermaid writes a quote as an entity and a line break as <br/>.
        let text = caption(plan, step).replace('"', "#quot;").replace('\n', "<br/>");
        out.line(format_args!("  {}[\"{text}\"]", step.id));
        for need in step.action.needs() {
            out.line(format_args!("  {need} --> {}", step.id));
        }
    }
    out.into_text()
}

/// Returns the text of a step: its name, and what it works on.
fn caption(plan: &Plan, step: &Step) -> String {
    let id = &step.id;
    match &step.action {
        Action::FetchBase { input, .. } | Action::FetchSource { input, .. } => {
            match plan.input_of(step) {
                Some(Input::Image { reference, .. }) => {
                    let digest = reference.digest.as_ref().map(Digest::short);
                    format!("{id}\n{}@{}", reference.repository, digest.unwrap_or_default())
                }
                Some(Input::Source { url, commit, .. }) => {
                    format!("{id}\n{url}@{}", &commit.as_str()[..12])
                }
                Some(Input::Archive { project, version, .. }) => {
                    format!("{id}\n{project} {version}")
                }
                _ => format!("{id}\n{input}"),
            }
        }
        Action::FetchPackages { input, .. } | Action::FetchWheels { input } => {
            format!("{id}\n{input}")
        }
        Action::BootstrapBase { set, .. } => format!("{id}\npackages `{set}`"),
        Action::BuildImage { dockerfile, .. } => format!("{id}\n{dockerfile}"),
        Action::SealImage { seal, edit, .. } => made(id, &seal.contract.to_string(), edit),
        Action::SlimImage { contract, gpus, .. } => {
            let gpus: Vec<&str> = gpus.iter().map(GpuTarget::as_str).collect();
            format!("{id}\n{contract}: {}", gpus.join(", "))
        }
        Action::AddFiles { contract, files, .. } => {
            format!("{id}\n{contract}: {}", counted(files.len(), "entry"))
        }
        Action::AuditImage { gpu, .. } | Action::AuditWheels { gpu, .. } => {
            format!("{id}\ncode for {gpu}")
        }
        Action::DeriveImage { contract, edit, .. } => made(id, &contract.to_string(), edit),
    }
}

/// Returns the text of a step that makes an image.
fn made(id: &str, contract: &str, edit: &ImageEdit) -> String {
    let variables = counted(edit.env.len(), "variable");
    let labels = counted(edit.labels.len() + 1, "label");
    format!("{id}\n{contract}: {variables}, {labels}")
}

/// Returns a quoted Graphviz string.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
