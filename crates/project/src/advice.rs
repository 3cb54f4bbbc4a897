//! Checks the pins of a plan: refuses stale locks, and adds findings of `lint` and of the
//! compatibility table to the planner's warnings.

use std::collections::BTreeMap;

use failure::Failure;
use names::PinName;
use pins::Pins;
use plan::{Action, Plan};
use planner::Warning;

use crate::clock::today;
use crate::folder::Project;
use crate::pins_file::{FILE, couplings};
use crate::python_locks;

/// The `lint` rules that a plan quotes. The planner itself reports discontinued pins.
const QUOTED: [&str; 4] =
    ["index-moved", "known-bad-version", "packages-do-not-match", "pin-expired"];

/// Refuses Python locks that a plan uses but that do not match the current `python.toml` and pins.
///
/// # Errors
/// A lock is stale, or `python.toml` or a lock cannot be read.
pub fn check_locks(project: &Project, plan: &Plan, pins: &Pins) -> Result<(), Failure> {
    let is_used = |path: &str| {
        let reads =
            |action: &Action| matches!(action, Action::FetchWheels { input } if input == path);
        plan.steps.iter().any(|step| reads(&step.action))
    };
    if !plan.steps.iter().any(|step| matches!(step.action, Action::FetchWheels { .. })) {
        return Ok(());
    }
    let mut stale = Vec::new();
    for (name, set) in project.python_sets()? {
        if is_used(&pins::python_lock_path(name.as_str())) {
            let why = python_locks::stale(project, pins, name.as_str(), &set)?;
            stale.extend(why.map(|why| (name.to_string(), why)));
        }
    }
    if stale.is_empty() { Ok(()) } else { Err(python_locks::refuse_stale(stale)) }
}

/// Returns the known facts about the pins of a plan. Returns none for a rehearsal, which uses no
/// pin of the real image.
///
/// # Errors
/// A data file cannot be read or is invalid.
pub fn advise(project: &Project, plan: &Plan, pins: &Pins) -> Result<Vec<Warning>, Failure> {
    if plan.rehearsal {
        return Ok(Vec::new());
    }
    let Ok(text) = project.text(FILE) else { return Ok(Vec::new()) };
    // The data files do not describe a value that was set for this run.
    let used = |name: &str| plan.inputs.contains_key(name) && !plan.overrides.contains_key(name);
    let (_, day) = today()?;
    let used_pins = Pins {
        sources: of_names(&pins.sources, used),
        archives: of_names(&pins.archives, used),
        images: of_names(&pins.images, used),
        releases: of_names(&pins.releases, used),
        ..*pins
    };
    let compat = if is_in_compat(&used_pins) { project.compat()? } else { None };
    let context = lint::Context {
        compat: compat.as_ref(),
        today: Some(&day),
        project_gpu: Some(&plan.gpu),
        ..lint::Context::default()
    };
    let mut warnings = Vec::new();
    for finding in lint::check_pins(FILE, &text, &used_pins, &QUOTED, context) {
        let message = format!("{}; {}", finding.message, finding.help);
        warnings.push(Warning { rule: finding.rule.id.as_str(), message });
    }
    let Some(compat) = &compat else { return Ok(warnings) };
    for name in used_pins.sources.keys() {
        let known = couplings(compat, pins, name).into_iter();
        warnings.extend(known.map(|message| Warning { rule: "known-bad-version", message }));
    }
    for (name, pin) in &used_pins.images {
        let Some(rocm) = &pin.rocm else { continue };
        let on = |is_fixed| compat.kernel_support(&plan.gpu, rocm, is_fixed);
        let (Some((row, fixed)), Some((_, other))) = (on(true), on(false)) else { continue };
        if other != pins::compat::Support::Supported {
            let message = format!(
                "pin `{name}` has ROCm {rocm}: {} on {} with a kernel that contains the driver fix, {} with any other ({}, {}); `build-pipeline doctor` shows which kernel this machine has",
                fixed.name(),
                plan.gpu,
                other.name(),
                row.evidence.source,
                row.evidence.checked,
            );
            warnings.push(Warning { rule: "rocm-and-kernel", message });
        }
    }
    Ok(warnings)
}

/// Returns whether the compatibility table can have rows about the pins: it is about sources,
/// releases, and images with a known ROCm version.
fn is_in_compat(pins: &Pins) -> bool {
    let has_rocm = pins.images.values().any(|pin| pin.rocm.is_some());
    has_rocm || !pins.sources.is_empty() || !pins.releases.is_empty()
}

/// Returns the entries whose names `is_wanted` accepts.
fn of_names<T: Clone>(
    all: &BTreeMap<PinName, T>,
    is_wanted: impl Fn(&str) -> bool,
) -> BTreeMap<PinName, T> {
    let wanted = all.iter().filter(|(name, _)| is_wanted(name.as_str()));
    wanted.map(|(name, pin)| (name.clone(), pin.clone())).collect()
}
