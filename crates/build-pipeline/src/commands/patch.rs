//! `build-pipeline patch`: patches trees, or reports why a patch does not apply. The crate
//! `patching` does the work.

use std::io;
use std::path::Path;

use failure::{Failure, Kind};
use patching::Rooted;
use patching::apply::{Applying, TarOutput, apply, export};
use patching::audit::{self, Trees, audit};
use patching::auto::{self, System};
use patching::hook::{self, hook};
use patching::prepared::{Prepared, RunProbes, Wanted, open};
use patching::report::{PatchReport, TreeReport};
use patching::revert::{RevertReport, Reverting, revert, revert_all};
use patching::sed::{self, LintReport};
use project::Project;
use sources::Submodules;
use terminal::output;
use text::sanitise::sanitise;

use crate::cli::{
    Apply, Audit, Check, Format, Global, Hook, LintSed, Manager, Options, Patch, PatchCommand,
    ProbeOptions, Revert,
};
use crate::global;

/// Runs a subcommand of `patch`.
pub(crate) fn run(global: &Global, patch: &Patch) -> Result<(), Failure> {
    let here = global::working_folder()?;
    let project = Project::find_or_built_in(&here);
    match &patch.command {
        PatchCommand::Check(args) => {
            let (tree, _) = work_out(global, &here, &project, args)?;
            print(&PatchReport::new("check", vec![tree]), &args.options)
        }
        PatchCommand::Diff(args) => {
            let (tree, changes) = work_out(global, &here, &project, args)?;
            diff(tree, &changes, &args.options)
        }
        PatchCommand::Apply(args) => match (&args.component, &args.options.root) {
            (Some(component), Some(root)) => {
                let wanted = wanted(&args.options);
                let prepared = Prepared::new(&here, &project, component, wanted, root)?;
                let tree = apply(prepared, &project, applying(args), Vec::new())?;
                print(&PatchReport::new("apply", vec![tree]), &args.options)
            }
            (Some(component), None) => apply_to_pin(global, &here, &project, component, args),
            (None, _) => apply_auto(&here, &project, args),
        },
        PatchCommand::Revert(args) => undo(&here, &project, args),
        PatchCommand::Audit(args) => try_many(global, &here, &project, args),
        PatchCommand::Hook(args) => print_hook(&here, &project, args),
        PatchCommand::LintSed(args) => lint_sed(global, &here, &project, args),
    }
}

/// Works out the changes that the patches make, and their diff.
fn work_out(
    global: &Global,
    here: &Path,
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

/// Prints the diff of a tree.
fn diff(mut tree: TreeReport, diff: &[u8], options: &Options) -> Result<(), Failure> {
    if options.format == Format::Json {
        tree.set_diff(diff);
        return print(&PatchReport::new("diff", vec![tree]), options);
    }
    let report = PatchReport::new("diff", vec![tree]);
    match report.verdict(options.strict) {
        Ok(()) => output::exact_result(diff),
        Err(error) => {
            // Standard output is only for the diff, and there is none.
            say(&report, options);
            Err(error)
        }
    }
}

/// Writes the patched source of a pin as a tar.
fn apply_to_pin(
    global: &Global,
    here: &Path,
    project: &Project,
    component: &str,
    args: &Apply,
) -> Result<(), Failure> {
    let Some(output) = &args.output else {
        return Err(Failure::new(
            Kind::Input,
            format!("no output given for the patched tree of `{component}`"),
        )
        .hint("use `--root DIR` to patch a folder, or `--output FILE.tar` to write the patched source of the pin"));
    };
    let is_standard_output = output.as_os_str() == "-";
    let mut stream = io::stdout();
    let to = if is_standard_output {
        TarOutput::Stream(&mut stream)
    } else {
        TarOutput::File { path: here.join(output), shown: output }
    };
    let sources = || global::sources(global);
    let wanted = wanted(&args.options);
    let tree = export(project, component, wanted, sources, applying(args), to)?;
    let is_good = tree.is_good(args.options.strict);
    let report = PatchReport::new("apply", vec![tree]);
    if is_standard_output && is_good {
        // Standard output is used for the tar.
        say(&report, &args.options);
        report.verdict(args.options.strict)
    } else {
        print(&report, &args.options)
    }
}

/// Applies all patches for the packages of a system.
fn apply_auto(here: &Path, project: &Project, args: &Apply) -> Result<(), Failure> {
    let Some(root) = &args.options.root else {
        return Err(Failure::new(Kind::Input, "no system given")
            .hint("use `--root DIR`; `--root /` is this system"));
    };
    let host_root = args.host_root.as_deref().unwrap_or(Path::new("/"));
    let system = System { here, root, host_root, gpu: args.options.gpu.as_deref() };
    let (report, mut errors) = auto::run(project, system, applying(args))?;
    errors.extend(print(&report, &args.options).err());
    all_of(&mut errors)
}

/// Undoes applied patches.
fn undo(here: &Path, project: &Project, args: &Revert) -> Result<(), Failure> {
    let how = Reverting { project: project.folder(), writes_to_system: args.write };
    let directory = open(here, &args.root)?;
    let (trees, mut errors) = match &args.component {
        Some(component) => (vec![revert(&directory, component, how)?], Vec::new()),
        None => revert_all(directory, how)?,
    };
    if !trees.is_empty() {
        let report = RevertReport::new(trees);
        match args.format {
            Format::Json => output::json(&report)?,
            Format::Text => output::page(&report.page())?,
        }
    }
    all_of(&mut errors)
}

/// Returns the last error, after printing the others.
fn all_of(errors: &mut Vec<Failure>) -> Result<(), Failure> {
    match errors.pop() {
        None => Ok(()),
        Some(last) => {
            errors.iter().for_each(output::error);
            Err(last)
        }
    }
}

/// Tries the patches of a component on many trees.
fn try_many(global: &Global, here: &Path, project: &Project, args: &Audit) -> Result<(), Failure> {
    let asked = audit::Asked {
        component: &args.component,
        trees: match (&args.releases, args.trees.as_slice()) {
            (Some(range), _) => Trees::Releases(range),
            (None, []) => Trees::Pins,
            (None, folders) => Trees::Folders(folders),
        },
        gpu: args.gpu.as_deref(),
        probes: run_probes(&args.probes),
    };
    let report = audit(here, project, asked, || global::sources(global), &output::warn)?;
    match args.format {
        Format::Json => output::json(&report)?,
        Format::Text => output::page(&report.page())?,
    }
    report.verdict()
}

/// Prints a hook.
fn print_hook(here: &Path, project: &Project, args: &Hook) -> Result<(), Failure> {
    let manager = match args.manager {
        Manager::Apt => hook::Manager::Apt,
        Manager::Dnf => hook::Manager::Dnf,
        Manager::Zypper => hook::Manager::Zypper,
        Manager::Pip => hook::Manager::Pip,
        Manager::Uv => hook::Manager::Uv,
    };
    output::result(&hook(here, project, manager, args.root.as_deref(), args.gpu.as_deref())?)
}

/// Shows what the `sed -i` lines of files do to a tree.
fn lint_sed(
    global: &Global,
    here: &Path,
    project: &Project,
    args: &LintSed,
) -> Result<(), Failure> {
    let asked = sed::Asked {
        files: &args.files,
        root: args.root.as_deref(),
        pin: args.pin.as_deref(),
        gpu: args.gpu.as_deref(),
    };
    let report = LintReport::new(here, project, asked, || global::sources(global))?;
    match args.format {
        Format::Json => output::json(&report)?,
        Format::Text => output::page(&report.page())?,
    }
    report.verdict()
}

/// Returns how to run probes.
fn run_probes(options: &ProbeOptions) -> RunProbes {
    match options {
        ProbeOptions { no_probes: true, .. } => RunProbes::No,
        ProbeOptions { unconfined_probes: true, .. } => RunProbes::ConfinedIfPossible,
        _ => RunProbes::Confined,
    }
}

/// Returns the selection of patches, pin, version and GPU target.
fn wanted(options: &Options) -> Wanted<'_> {
    Wanted {
        only: &options.only,
        pin: options.pin.as_deref(),
        version: options.version.as_deref(),
        gpu: options.gpu.as_deref(),
    }
}

/// Returns how to apply patches.
fn applying(args: &Apply) -> Applying {
    Applying {
        writes_to_system: args.write,
        is_dry: args.dry_run,
        is_strict: args.options.strict,
        probes: run_probes(&args.options.probes),
    }
}

/// Prints a report to standard error.
fn say(report: &PatchReport, options: &Options) {
    output::say(&sanitise(report.page(options.strict).into_text().trim_end()));
}

/// Prints a report and returns its verdict.
fn print(report: &PatchReport, options: &Options) -> Result<(), Failure> {
    let unrun = report.unrun_probes();
    unrun.iter().for_each(|warning| output::warn("probe-not-run", warning));
    match options.format {
        Format::Json => output::json(report)?,
        Format::Text => output::page(&report.page(options.strict))?,
    }
    report.verdict(options.strict)
}
