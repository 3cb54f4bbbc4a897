//! `build-pipeline plan`: prints plans, and builds nothing.

use executor::Store;
use failure::{Failure, Kind};
use project::environment;
use project::prepare::{Prepared, prepare};
use record::SlimSummary;

use crate::cli::{Global, PlanArgs};
use crate::global;
use crate::render::PlanFormat;
use terminal::output;

/// Prints the plans of the requested tracks.
pub(crate) fn run(global: &Global, args: &PlanArgs) -> Result<(), Failure> {
    let subject = global::with_names(&args.subject, &args.names);
    if subject.tracks.is_empty() {
        let tracks = global::data()?.tracks()?;
        let names: Vec<&str> =
            tracks.in_order().into_iter().map(|(name, _)| name.as_str()).collect();
        return Err(Failure::new(Kind::Input, "no track given")
            .hint("use `build-pipeline plan TRACK`")
            .hint(format!("the tracks are {}", names.join(", "))));
    }
    let project = global::project()?;
    let plans = prepare(&global.mirror, &project, &global::subject(&subject))?.plans;
    print(&plans, args.format)
}

/// Returns the result of the step that slims the image, if this machine has run it.
fn slimmed(prepared: &Prepared) -> Option<SlimSummary> {
    let plan = &prepared.plan;
    let step = plan.slim_step()?;
    Store::new(environment::store_folder().ok()?).slimmed(plan.step_keys().get(&*step.id)?)
}

/// Prints plans.
pub(crate) fn print(plans: &[Prepared], format: PlanFormat) -> Result<(), Failure> {
    if !format.has_warnings() {
        let warnings = plans.iter().flat_map(|one| &one.warnings);
        warnings.for_each(|warning| output::warn(warning.rule, &warning.message));
    }
    output::result(&format.text(plans, slimmed)?)
}
