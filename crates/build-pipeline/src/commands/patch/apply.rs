//! `patch apply`: writes the patched files of a tree, all or none.

use std::path::Path;

use failure::{Failure, Kind};
use patching::apply::{check_output, lock, write, write_file};
use patching::directory::Directory;
use patching::prepared::Prepared;
use project::{Project, environment};
use sources::{Submodules, WriteTarError};

use crate::cli::{Apply, Global};
use crate::commands::patch::report::{self, PatchReport, TreeReport};
use crate::commands::patch::wanted::{run_probes, wanted};
use crate::global;
use terminal::output;

/// System directories.
const SYSTEM: [&str; 10] =
    ["/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/opt", "/sbin", "/usr", "/var"];

/// Patches the tree of a component.
pub(crate) fn run(
    here: &Path,
    project: &Project,
    component: &str,
    args: &Apply,
    root: &Path,
) -> Result<(), Failure> {
    let prepared = Prepared::new(here, project, component, wanted(&args.options), root)?;
    let tree = apply(prepared, project, args, Vec::new())?;
    report::print(&PatchReport::new("apply", vec![tree]), &args.options)
}

/// Patches the source of a pin and writes it, with its submodules, as a canonical tar.
pub(crate) fn export(
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
    let epoch = match environment::source_date_epoch()? {
        Some(epoch) => epoch,
        None => project.pins()?.source_date_epoch,
    };
    let sources = || global::sources(global);
    let wanted = wanted(&args.options);
    let prepared = Prepared::pinned(sources, project, component, wanted, Submodules::All)?;
    let outcome = prepared.outcome(run_probes(&args.options.probes));
    let mut tree = TreeReport::new(&prepared, outcome);
    let is_good = report::is_good(tree.outcome(), &args.options);
    let is_standard_output = output.as_os_str() == "-";
    if !is_standard_output {
        check_output(&here.join(output))?;
    }
    if args.dry_run {
        tree.set_not_written("dry run: nothing was written".to_owned());
    } else if is_good {
        let files = &tree.outcome().files;
        let patched = prepared.tree.with(files.iter().map(|file| (&file.path, &*file.new)))?;
        let summary = if is_standard_output {
            patched.write_tar(epoch, std::io::stdout().lock())
        } else {
            write_file(&here.join(output), |file| patched.write_tar(epoch, file))
        };
        let summary = summary.map_err(|error| not_written(output, &error))?;
        tree.set_exported(output, &summary);
    }
    let report = PatchReport::new("apply", vec![tree]);
    if is_standard_output && is_good {
        // Standard output is used for the tar.

        output::say(&text::sanitise::sanitise(report.text(&args.options).trim_end()));
        report.verdict(&args.options)
    } else {
        report::print(&report, &args.options)
    }
}

fn not_written(output: &Path, error: &WriteTarError) -> Failure {
    let told = format!("cannot write `{}`", output.display());
    Failure::caused(Kind::Machine, told, error).hint(
        "check the free disk space and the folder's permissions; existing output was not changed",
    )
}

/// Patches one tree, unless a patch fails or `why_not` returns a reason.
pub(crate) fn apply(
    mut prepared: Prepared<Directory>,
    project: &Project,
    args: &Apply,
    left_out: Vec<report::LeftOut>,
) -> Result<TreeReport, Failure> {
    let why_not = why_not(prepared.tree.path(), project.folder(), args);
    let lock = match why_not {
        Some(_) => None,
        None => {
            let lock = lock(&prepared.tree)?;
            prepared.refresh()?;
            Some(lock)
        }
    };
    let outcome = prepared.outcome(run_probes(&args.options.probes));
    let mut tree = TreeReport::new(&prepared, outcome);
    tree.set_left_out(left_out);
    match why_not {
        Some(because) => tree.set_not_written(because),
        None if report::is_good(tree.outcome(), &args.options) => {
            write(&prepared, tree.outcome())?;
            if !tree.outcome().files.is_empty() {
                tree.set_written();
            }
        }
        None => {}
    }
    drop(lock);
    Ok(tree)
}

/// Returns the reason if nothing will be written.
fn why_not(path: &Path, project: Option<&Path>, args: &Apply) -> Option<String> {
    if args.write {
        return None;
    }
    if args.dry_run {
        return Some("dry run: nothing was written".to_owned());
    }
    let kind = system_kind(path, project)?;
    Some(format!(
        "dry run: `{}` {kind}; nothing was written. Add `--write` to patch it",
        path.display()
    ))
}

/// Returns why a directory is not written to by default.
fn system_kind(path: &Path, project: Option<&Path>) -> Option<&'static str> {
    let is_package_folder =
        |part: &std::ffi::OsStr| part == "site-packages" || part == "dist-packages";
    let project = project.and_then(|project| std::fs::canonicalize(project).ok());
    let is_in_project = project.is_some_and(|project| path.starts_with(project));
    match () {
        () if path == Path::new("/") || SYSTEM.iter().any(|folder| path.starts_with(folder)) => {
            Some("belongs to the system")
        }
        () if !is_in_project && path.iter().any(is_package_folder) => {
            Some("contains installed packages")
        }
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_the_system_are_known() {
        let kind = |path: &str| system_kind(Path::new(path), None);
        for path in ["/", "/usr", "/usr/lib/python3/dist-packages", "/opt/rocm", "/lib/x", "/etc"] {
            assert_eq!(kind(path), Some("belongs to the system"), "{path}");
        }
        assert_eq!(
            kind("/home/a/venv/lib/python3.12/site-packages"),
            Some("contains installed packages")
        );
        for path in ["/home/a/vllm", "/usrlocal", "/optional", "/tmp/lib"] {
            assert_eq!(kind(path), None, "{path}");
        }
    }
}
