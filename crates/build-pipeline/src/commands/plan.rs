//! `build-pipeline plan`: prints plans, and builds nothing.

use executor::Store;
use failure::{Failure, Kind};
use plan::{Plan, SlimmedSizes, dot, mermaid, outline};
use project::environment;
use project::prepare::{Prepared, prepare};
use terminal::output;
use text::sanitise::sanitise;

use crate::cli::{Global, PlanArgs, PlanFormat};
use crate::global;

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

/// Returns the sizes of the slimmed image's layers, if this machine has slimmed it.
fn slimmed(plan: &Plan) -> Option<SlimmedSizes> {
    let step = plan.slim_step()?;
    let store = Store::new(environment::store_folder().ok()?);
    let slimmed = store.slimmed(plan.step_keys().get(&*step.id)?)?;
    Some(SlimmedSizes { before: slimmed.layer_bytes_before, after: slimmed.layer_bytes_after })
}

/// Prints plans.
pub(crate) fn print(plans: &[Prepared], format: PlanFormat) -> Result<(), Failure> {
    if format != PlanFormat::Tree {
        let warnings = plans.iter().flat_map(|one| &one.warnings);
        warnings.for_each(|warning| output::warn(warning.rule, &warning.message));
    }
    let each = |text: &dyn Fn(&Prepared) -> String| -> String {
        plans.iter().map(|one| sanitise(&text(one))).collect()
    };
    output::result(&match format {
        PlanFormat::Tree => each(&tree),
        PlanFormat::Json => match plans {
            [one] => one.plan.canonical_text(),
            many => output::json_text(&many.iter().map(|one| &*one.plan).collect::<Vec<_>>())?,
        },
        PlanFormat::Dot => each(&|one| dot(&one.plan)),
        PlanFormat::Mermaid => each(&|one| mermaid(&one.plan)),
    })
}

/// Returns the outline of a plan, with its warnings.
fn tree(Prepared { plan, warnings, .. }: &Prepared) -> String {
    let mut page = outline(plan, slimmed(plan));
    for warning in warnings {
        page.line(format_args!("warning: {} [{}]", warning.message, warning.rule));
    }
    page.into_text()
}
