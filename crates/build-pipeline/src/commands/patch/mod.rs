//! `build-pipeline patch`: patches trees, or says why not.
//!
//! `subject` finds the tree, its version, the patches and the GPU target; `patcher` works out what
//! they do; `apply` writes it and `revert` takes it back; `report` words it. `auto` chooses by what is
//! installed, and `hook` has that done after upgrades. `audit` tries many trees,
//! `lint_sed` judges what others do with sed.

mod apply;
pub(crate) mod args;
pub(crate) mod audit;
mod auto;
mod hook;
pub(crate) mod lint_sed;
pub(crate) mod report;
mod revert;
mod subject;

use executor::Tools;
use patcher::{NoProbes, Outcome};

use crate::cli::{Format, Global};
use crate::commands::patch::args::{Check, Options, Patch, PatchCommand};
use crate::commands::patch::report::{PatchReport, TreeReport};
use crate::commands::patch::subject::Prepared;
use crate::error::CommandError;
use crate::project::Project;
use crate::{environment, output};

/// Runs one of the commands behind `patch`.
pub(crate) fn run(global: &Global, patch: &Patch) -> Result<(), CommandError> {
    let here = crate::working_folder(global)?;
    let project = Project::find(&here)?;
    match &patch.command {
        PatchCommand::Check(args) => {
            let (prepared, outcome) = work_out(&here, &project, args)?;
            let tree = TreeReport::new(&prepared, outcome);
            report::print(&PatchReport::new("check", vec![tree]), &args.options)
        }
        PatchCommand::Diff(args) => diff(work_out(&here, &project, args)?, &args.options),
        PatchCommand::Apply(args) => match &args.component {
            Some(component) => apply::run(&here, &project, component, args),
            None => auto::run(&here, &project, args),
        },
        PatchCommand::Revert(args) => revert::run(&here, args),
        PatchCommand::Audit(args) => audit::run(&here, &project, args),
        PatchCommand::Hook(args) => hook::run(&here, &project, args),
        PatchCommand::LintSed(args) => lint_sed::run(&here, &project, args),
    }
}

fn work_out(
    here: &std::path::Path,
    project: &Project,
    args: &Check,
) -> Result<(Prepared, Outcome), CommandError> {
    let prepared = Prepared::new(here, project, &args.component, &args.options)?;
    let outcome = outcome(&prepared, args.options.no_probes);
    Ok((prepared, outcome))
}

/// Works out what the patches do.
fn outcome(prepared: &Prepared, no_probes: bool) -> Outcome {
    let subject = prepared.subject();
    match no_probes {
        true => patcher::apply(&prepared.set, &subject, prepared.tree(), &NoProbes),
        false => {
            let tools = Tools::new(&environment::program_path());
            patcher::apply(&prepared.set, &subject, prepared.tree(), &tools)
        }
    }
}

fn diff((prepared, outcome): (Prepared, Outcome), options: &Options) -> Result<(), CommandError> {
    let diff = outcome.diff();
    let mut tree = TreeReport::new(&prepared, outcome);
    if options.format == Format::Json {
        tree.set_diff(&diff);
        return report::print(&PatchReport::new("diff", vec![tree]), options);
    }
    let report = PatchReport::new("diff", vec![tree]);
    match report.verdict(options) {
        Ok(()) => output::exact_result(&diff),
        Err(error) => {
            // Standard output is for the diff alone; there is none.
            output::say(&crate::sanitise::sanitise(report.text(options).trim_end()));
            Err(error)
        }
    }
}
