//! `build-pipeline patch`: patches trees, or reports why a patch does not apply.
//!
//! `patching::prepared` finds the tree, its version, the patches and the GPU target. `patcher`
//! works out the changes, `apply` writes them, and `revert` undoes them. `report` formats the
//! results. `auto` chooses patches based on the installed packages, and `hook` prints hooks that
//! apply them again after upgrades. `audit` tries many trees, and `lint_sed` checks the sed lines
//! in third-party files.

mod apply;
pub(crate) mod audit;
mod auto;
mod hook;
pub(crate) mod lint_sed;
pub(crate) mod report;
mod revert;
mod wanted;

use failure::Failure;
use patching::Rooted;
use patching::prepared::{Prepared, RunProbes};
use project::Project;
use sources::Submodules;

use crate::cli::{Check, Format, Global, Options, Patch, PatchCommand};
use crate::commands::patch::report::{PatchReport, TreeReport};
use crate::commands::patch::wanted::{run_probes, wanted};
use crate::global;
use terminal::output;

/// Runs a subcommand of `patch`.
pub(crate) fn run(global: &Global, patch: &Patch) -> Result<(), Failure> {
    let here = global::working_folder()?;
    let project = Project::find_or_built_in(&here);
    match &patch.command {
        PatchCommand::Check(args) => {
            let (tree, _) = work_out(global, &here, &project, args)?;
            report::print(&PatchReport::new("check", vec![tree]), &args.options)
        }
        PatchCommand::Diff(args) => {
            let (tree, changes) = work_out(global, &here, &project, args)?;
            diff(tree, &changes, &args.options)
        }
        PatchCommand::Apply(args) => match (&args.component, &args.options.root) {
            (Some(component), Some(root)) => apply::run(&here, &project, component, args, root),
            (Some(component), None) => apply::export(global, &here, &project, component, args),
            (None, _) => auto::run(&here, &project, args),
        },
        PatchCommand::Revert(args) => revert::run(&here, args),
        PatchCommand::Audit(args) => audit::run(global, &here, &project, args),
        PatchCommand::Hook(args) => hook::run(&here, &project, args),
        PatchCommand::LintSed(args) => lint_sed::run(global, &here, &project, args),
    }
}

/// Works out the changes that the patches make, and their diff.
fn work_out(
    global: &Global,
    here: &std::path::Path,
    project: &Project,
    Check { component, options }: &Check,
) -> Result<(TreeReport, Vec<u8>), Failure> {
    fn worked_out<T: Rooted>(prepared: &Prepared<T>, probes: RunProbes) -> (TreeReport, Vec<u8>) {
        let outcome = prepared.outcome(probes);
        let diff = outcome.diff();
        (TreeReport::new(prepared, outcome), diff)
    }
    match &options.root {
        Some(root) => {
            let prepared = Prepared::new(here, project, component, wanted(options), root)?;
            Ok(worked_out(&prepared, run_probes(&options.probes)))
        }
        None => {
            let sources = || global::sources(global);
            // No patch edits a submodule's files.
            let none = Submodules::None;
            let prepared = Prepared::pinned(sources, project, component, wanted(options), none)?;
            Ok(worked_out(&prepared, run_probes(&options.probes)))
        }
    }
}

fn diff(mut tree: TreeReport, diff: &[u8], options: &Options) -> Result<(), Failure> {
    if options.format == Format::Json {
        tree.set_diff(diff);
        return report::print(&PatchReport::new("diff", vec![tree]), options);
    }
    let report = PatchReport::new("diff", vec![tree]);
    match report.verdict(options) {
        Ok(()) => output::exact_result(diff),
        Err(error) => {
            // Standard output is only for the diff, and there is none.
            output::say(&text::sanitise::sanitise(report.text(options).trim_end()));
            Err(error)
        }
    }
}
