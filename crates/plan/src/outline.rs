//! A plan as an indented outline.

use std::collections::BTreeMap;

use names::GpuTarget;
use text::{Page, size};

use crate::{
    Action, Expectation, ImageEdit, Input, OwnFile, OwnFiles, PatchUse, Plan, Seal, Step, labels,
};

/// The size of an image's layers in bytes, before and after they were slimmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlimmedSizes {
    /// Before.
    pub before: u64,
    /// After.
    pub after: u64,
}

/// Returns the plan as an indented outline.
///
/// `slimmed` is the result of an earlier run of the step that slims the image.
pub fn outline(plan: &Plan, slimmed: Option<SlimmedSizes>) -> Page {
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
    for (name, value) in &plan.overrides {
        out.line(format_args!("├─ changed     {name} = {value}"));
    }
    for (name, input) in plan.inputs.iter().filter(|(_, input)| input.is_pinned()) {
        out.line(format_args!("├─ pin         {name} = {input}"));
    }
    for (index, step) in plan.steps.iter().enumerate() {
        let is_last = index + 1 == plan.steps.len();
        let (branch, bar) = if is_last { ("└─", "   ") } else { ("├─", "│  ") };
        let needs = match step.action.needs().as_slice() {
            [] => String::new(),
            needs => format!("  (needs {})", needs.join(", ")),
        };
        out.line(format_args!("{branch} {}. {}{needs}", index + 1, step.id));
        if let (Action::SlimImage { .. }, Some(slimmed)) = (&step.action, slimmed) {
            out.line(format_args!(
                "{bar}├─ last time: {} of layers before, {} after",
                size(slimmed.before),
                size(slimmed.after)
            ));
        }
        action(&mut out, bar, plan, step, &all_labels);
    }
    out
}

/// Adds what a step does.
fn action(out: &mut Page, bar: &str, plan: &Plan, step: &Step, labels: &BTreeMap<String, String>) {
    let input = plan.input_of(step);
    match &step.action {
        Action::FetchBase { platform, .. } => {
            out.line(format_args!("{bar}├─ {}", input.map(spelled).unwrap_or_default()));
            out.line(format_args!(
                "{bar}└─ {platform}: manifest and config, every byte checked; no layers transferred"
            ));
        }
        Action::FetchSource { input: name, patches } => {
            let pin_branch = if patches.is_empty() { "└─" } else { "├─" };
            let source = input.map(spelled).unwrap_or_default();
            out.line(format_args!("{bar}{pin_branch} pin {name}: {source}"));
            self::patches(out, bar, patches);
        }
        Action::FetchPackages { input: name, sets } => {
            out.line(format_args!("{bar}├─ lock {name}{}", short_digest(input)));
            out.line(format_args!(
                "{bar}└─ sets {}: each package is checked against its SHA-256",
                sets.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
            ));
        }
        Action::FetchWheels { input: name } => {
            out.line(format_args!("{bar}└─ lock {name}{}", short_digest(input)));
        }
        Action::BootstrapBase { set, seal, .. } => {
            out.line(format_args!("{bar}├─ a root file system from the package set `{set}`"));
            self::seal(out, bar, "└─", seal);
        }
        Action::BuildImage { base, dockerfile, network, .. } => {
            out.line(format_args!("{bar}├─ {dockerfile}{} on {base}", short_digest(input)));
            build_inputs(out, bar, plan, &step.action);
            let network = if *network { "with network access" } else { "without network access" };
            out.line(format_args!("{bar}└─ RUN {network}"));
        }
        Action::SealImage { seal, edit, .. } => {
            self::seal(out, bar, "├─", seal);
            // An intermediate stage does not set labels.
            let none = BTreeMap::new();
            self::edit(out, bar, edit, if edit.labels.is_empty() { &none } else { labels });
        }
        Action::SlimImage { contract, gpus, if_present, .. } => {
            out.line(format_args!("{bar}├─ contract {contract}; no engine is needed"));
            let both = |targets: &[GpuTarget]| {
                targets.iter().map(GpuTarget::as_str).collect::<Vec<_>>().join(" and ")
            };
            out.line(format_args!(
                "{bar}├─ code that {} can run is kept; the image must contain some",
                both(gpus)
            ));
            if !if_present.is_empty() {
                out.line(format_args!(
                    "{bar}├─ code that {} can run is kept, if there is any",
                    both(if_present)
                ));
            }
            out.line(format_args!(
                "{bar}└─ code for other GPUs is removed: their kernel files, and their parts of libraries and bundles"
            ));
        }
        Action::AddFiles { contract, files, .. } => {
            out.line(format_args!("{bar}├─ contract {contract}"));
            own_files(out, bar, plan, files);
        }
        Action::AuditImage { image, gpu } => {
            out.line(format_args!("{bar}└─ {image} must contain code for {gpu}"));
        }
        Action::AuditWheels { wheels, gpu } => {
            out.line(format_args!("{bar}└─ GPU code in {wheels} must include code for {gpu}"));
        }
        Action::DeriveImage { contract, edit, .. } => {
            out.line(format_args!("{bar}├─ contract {contract}"));
            self::edit(out, bar, edit, labels);
        }
    }
}

/// Adds the patches of a source.
fn patches(out: &mut Page, bar: &str, patches: &[PatchUse]) {
    for (index, patch) in patches.iter().enumerate() {
        let branch = if index + 1 == patches.len() { "└─" } else { "├─" };
        let PatchUse { component, id, effect, expect } = patch;
        let effect = &effect.as_str()[..12];
        let expect = match expect {
            Expectation::InEffect => "",
            Expectation::Upstream => "; upstream must contain it",
        };
        out.line(format_args!("{bar}{branch} patch {component}/{id} ({effect}{expect})"));
    }
}

/// Adds the arguments and the context of a build.
fn build_inputs(out: &mut Page, bar: &str, plan: &Plan, action: &Action) {
    let Action::BuildImage { args, context, files, .. } = action else { return };
    for (name, value) in args {
        out.line(format_args!("{bar}├─ ARG {name}={value}"));
    }
    for (folder, source) in context {
        out.line(format_args!("{bar}├─ context {folder}/ from {source}"));
    }
    for (path, file) in files {
        match file {
            OwnFile::File { from, .. } => {
                let digest = short_digest(plan.inputs.get(from));
                out.line(format_args!("{bar}├─ context {path} from the project{digest}"));
            }
            OwnFile::Link { target, .. } => {
                out.line(format_args!("{bar}├─ context {path} -> {target}"));
            }
            OwnFile::Folder { .. } => {}
        }
    }
}

/// Adds the entries of a layer with the project's own files.
fn own_files(out: &mut Page, bar: &str, plan: &Plan, files: &OwnFiles) {
    for (index, (path, file)) in files.iter().enumerate() {
        let branch = if index + 1 == files.len() { "└─" } else { "├─" };
        match file {
            OwnFile::File { from, mode, uid, gid } => {
                let digest = short_digest(plan.inputs.get(from));
                out.line(format_args!(
                    "{bar}{branch} {path} {mode} {uid}:{gid} from {from}{digest}"
                ));
            }
            OwnFile::Folder { mode, uid, gid } => {
                out.line(format_args!("{bar}{branch} {path}/ {mode} {uid}:{gid}"));
            }
            OwnFile::Link { target, uid, gid } => {
                out.line(format_args!("{bar}{branch} {path} -> {target} {uid}:{gid}"));
            }
        }
    }
}

/// Returns an input as users write it.
fn spelled(input: &Input) -> String {
    match input {
        Input::Image { reference, manifest } => {
            let kind = manifest.map(|kind| format!(" ({kind})"));
            format!("{reference}{}", kind.unwrap_or_default())
        }
        Input::Source { url, commit, .. } => format!("{url} at {commit}"),
        Input::Archive { project, version, sha256, subdirectory } => {
            let inside = subdirectory.as_ref().map(|inside| format!(", its folder {inside}/"));
            format!("{project} {version}, sha256 {sha256}{}", inside.unwrap_or_default())
        }
        Input::Lock { digest } | Input::File { digest } => digest.to_string(),
    }
}

/// Returns the short digest of a lock or file, in brackets.
fn short_digest(input: Option<&Input>) -> String {
    match input {
        Some(Input::Lock { digest } | Input::File { digest }) => format!(" ({})", digest.short()),
        _ => String::new(),
    }
}

/// Adds the contract of a seal, and what it leaves out.
fn seal(out: &mut Page, bar: &str, branch: &str, seal: &Seal) {
    out.line(format_args!("{bar}├─ contract {}", seal.contract));
    let scrub = if seal.scrub.is_empty() { "nothing".to_owned() } else { seal.scrub.join(" ") };
    out.line(format_args!("{bar}{branch} left out: {scrub}"));
}

/// Adds the changes that an image makes to its base. `labels` are its final labels.
fn edit(out: &mut Page, bar: &str, edit: &ImageEdit, labels: &BTreeMap<String, String>) {
    for (name, value) in &edit.env {
        out.line(format_args!("{bar}├─ env {name}={value}"));
    }
    if !edit.entrypoint_prefix.is_empty() {
        let then = if edit.entrypoint.is_some() { "the next line" } else { "the base's own" };
        out.line(format_args!(
            "{bar}├─ entrypoint: a wrapper that honours BUILD_PIPELINE_SPOOF=off, then {then}"
        ));
    }
    for (what, words) in [("entrypoint", &edit.entrypoint), ("arguments", &edit.cmd)] {
        if let Some(words) = words {
            out.line(format_args!("{bar}├─ {what} {words:?}"));
        }
    }
    for (what, value) in [("user", &edit.user), ("working directory", &edit.working_dir)] {
        if let Some(value) = value {
            out.line(format_args!("{bar}├─ {what} {value}"));
        }
    }
    let reset_branch = if labels.is_empty() { "└─" } else { "├─" };
    out.line(format_args!(
        "{bar}{reset_branch} removes labels that describe only the base, such as its version ({} known names)",
        edit.reset.len()
    ));
    let last = labels.len().saturating_sub(1);
    for (index, (key, value)) in labels.iter().enumerate() {
        let branch = if index == last { "└─" } else { "├─" };
        out.line(format_args!("{bar}{branch} label {key}={value}"));
    }
}
