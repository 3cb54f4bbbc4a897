//! What is known about the pins of a plan: stale locks are refused, and what `lint` and the table of
//! what runs with what say of a pin is quoted beside the planner's own warnings.

use plan::{Action, Plan};
use planner::{Planned, Warning};

use crate::commands::bump::{couplings, report::FILE, today};
use crate::commands::lock;
use crate::error::CommandError;
use crate::project::{Project, read_text};

/// The rules of `lint` that a plan quotes. What is discontinued the planner says itself.
const QUOTED: [&str; 4] =
    ["index-moved", "known-bad-version", "packages-do-not-match", "pin-expired"];

/// Refuses a plan that uses a stale lock, and adds what is known to its warnings.
pub(crate) fn judge(project: &Project, planned: &mut Planned) -> Result<(), CommandError> {
    check_locks(project, &planned.plan)?;
    // A rehearsal stands on no pin.
    if !planned.plan.rehearsal {
        let more = quoted(project, &planned.plan)?;
        planned.warnings.extend(more);
    }
    Ok(())
}

/// Refuses Python locks that a plan uses and that were made from something else than what is
/// asked for.
fn check_locks(project: &Project, plan: &Plan) -> Result<(), CommandError> {
    let mut stale = Vec::new();
    for (name, set) in project.python_sets()? {
        let path = pins::python_lock_path(name.as_str());
        let is_used =
            |action: &Action| matches!(action, Action::FetchWheels { lock, .. } if *lock == path);
        if plan.steps.iter().any(|step| is_used(&step.action)) {
            let why = lock::python::stale(project, &project.pins()?, name.as_str(), &set)?;
            stale.extend(why.map(|why| (name.to_string(), why)));
        }
    }
    match stale.is_empty() {
        true => Ok(()),
        false => Err(lock::refuse_stale(stale)),
    }
}

fn quoted(project: &Project, plan: &Plan) -> Result<Vec<Warning>, CommandError> {
    let (Some(compat), Ok(text)) = (project.compat()?, read_text(&project.root.join(FILE))) else {
        return Ok(Vec::new());
    };
    let pins = project.pins()?;
    let lines = pins::pin_lines(&text);
    // What is overridden for one run is another thing than what the file speaks of.
    let used = |name: &str| plan.pins.contains_key(name) && !plan.overrides.contains_key(name);
    let (_, day) = today()?;
    let context =
        lint::Context { compat: Some(&compat), today: Some(&day), ..lint::Context::default() };
    let mut warnings = Vec::new();
    for finding in lint::check(FILE, &text, context) {
        let is_used = lines.iter().any(|(name, line)| *line == finding.line && used(name.as_str()));
        if is_used && QUOTED.contains(&finding.rule.id) {
            let message = format!("{}; {}", finding.message, finding.help);
            warnings.push(Warning { rule: finding.rule.id, message });
        }
    }
    for name in pins.sources.keys().filter(|name| used(name.as_str())) {
        let known = couplings(&compat, &pins, name).into_iter();
        warnings.extend(known.map(|message| Warning { rule: "known-bad-version", message }));
    }
    let gpu = plan.gpu.parse().ok();
    for (name, pin) in pins.images.iter().filter(|(name, _)| used(name.as_str())) {
        let (Some(rocm), Some(gpu)) = (&pin.rocm, &gpu) else { continue };
        let on = |is_fixed| compat.kernel_support(gpu, rocm, is_fixed);
        let (Some((row, fixed)), Some((_, other))) = (on(true), on(false)) else { continue };
        if other != pins::compat::Support::Supported {
            let message = format!(
                "pin `{name}` has ROCm {rocm}: {} on {gpu} with a kernel whose driver is mended, {} with any other ({}, {}); `build-pipeline doctor` says which one this machine has",
                fixed.name(),
                other.name(),
                row.evidence.source,
                row.evidence.checked,
            );
            warnings.push(Warning { rule: "rocm-and-kernel", message });
        }
    }
    Ok(warnings)
}
