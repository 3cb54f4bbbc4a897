//! `patch apply`: writes what the patches make of a tree, every file or none.

use std::fs::TryLockError;
use std::path::Path;

use crate::commands::patch::args::Apply;
use crate::commands::patch::report::{self, PatchReport, TreeReport};
use crate::commands::patch::subject::Prepared;
use crate::error::CommandError;
use crate::exit_code::ExitCode;
use crate::patching::directory::Directory;
use crate::patching::replace::{ReplaceError, Replacement};
use crate::project::Project;

/// Directories that belong to the system.
const SYSTEM: [&str; 10] =
    ["/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/opt", "/sbin", "/usr", "/var"];

/// Patches the tree of a component.
pub(crate) fn run(
    here: &Path,
    project: &Project,
    component: &str,
    args: &Apply,
) -> Result<(), CommandError> {
    let prepared = Prepared::new(here, project, component, &args.options)?;
    let tree = apply(prepared, project, args, Vec::new())?;
    report::print(&PatchReport::new("apply", vec![tree]), &args.options)
}

/// Patches one tree, unless a patch fails or the directory is the system's.
pub(crate) fn apply(
    mut prepared: Prepared,
    project: &Project,
    args: &Apply,
    left_out: Vec<report::LeftOut>,
) -> Result<TreeReport, CommandError> {
    let why_not = why_not(prepared.directory.path(), &project.root, args);
    let lock = match why_not {
        Some(_) => None,
        None => {
            let lock = lock(&prepared.directory)?;
            prepared.refresh()?;
            Some(lock)
        }
    };
    let outcome = super::outcome(&prepared, args.options.no_probes);
    let mut tree = TreeReport::new(&prepared, outcome);
    tree.set_left_out(left_out);
    match why_not {
        Some(because) => tree.set_not_written(because),
        None if report::is_good(tree.outcome(), &args.options) => {
            write(&prepared, &tree)?;
            if !tree.outcome().files.is_empty() {
                tree.set_written();
            }
        }
        None => {}
    }
    drop(lock);
    Ok(tree)
}

/// Writes the ledger, the files, and the ledger again.
fn write(prepared: &Prepared, tree: &TreeReport) -> Result<(), CommandError> {
    let (directory, ledger) = (&prepared.directory, &prepared.ledger);
    let outcome = tree.outcome();
    let all: Vec<Replacement<'_>> = outcome
        .files
        .iter()
        .map(|file| Replacement { path: &file.path, old: &file.old, new: &file.new })
        .collect();
    let next = ledger.with(outcome.receipt());
    replace(directory, &all, || next.write(directory), || ledger.write(directory))?;
    let settled = next.settled(directory);
    let on_disk = if all.is_empty() { ledger } else { &next };
    if settled != *on_disk {
        settled.write(directory).map_err(|error| failed(&error))?;
    }
    Ok(())
}

/// Replaces files; if that fails, `take_back` undoes what `commit` did.
pub(crate) fn replace(
    directory: &Directory,
    all: &[Replacement<'_>],
    commit: impl FnOnce() -> Result<(), ReplaceError>,
    take_back: impl FnOnce() -> Result<(), ReplaceError>,
) -> Result<(), CommandError> {
    if all.is_empty() {
        return Ok(());
    }
    directory.replace(all, commit).map_err(|error| {
        let told = failed(&error);
        match take_back() {
            Ok(()) => told,
            Err(second) => {
                told.hint(format!("the list of receipts could not be put back: {second}"))
            }
        }
    })
}

/// Words an error of writing.
pub(crate) fn failed(error: &ReplaceError) -> CommandError {
    match error {
        ReplaceError::Changed(_) => CommandError::from_chain(ExitCode::Busy, error)
            .hint("nothing was written; end what changes the tree and try again"),
        ReplaceError::Read(..) => {
            CommandError::from_chain(ExitCode::Input, error).hint("nothing was written")
        }
        ReplaceError::Write(..) => CommandError::from_chain(ExitCode::Machine, error).hint(
            "all files are as they were; check the space of the disk and the rights of the folder",
        ),
        ReplaceError::Stuck { .. } => CommandError::from_chain(ExitCode::Machine, error)
            .hint("`build-pipeline patch revert` puts it back once the disk can be written"),
    }
}

/// Takes the lock of a tree; it ends with the value.
pub(crate) fn lock(directory: &Directory) -> Result<std::fs::File, CommandError> {
    let failed = |error: &std::io::Error| {
        let shown = directory.path().display();
        CommandError::caused(ExitCode::Machine, format!("locking `{shown}` failed"), error)
    };
    let root = directory.root().try_clone().map_err(|error| failed(&error))?;
    match root.try_lock() {
        Ok(()) => Ok(root),
        Err(TryLockError::WouldBlock) => Err(CommandError::new(
            ExitCode::Busy,
            format!("`{}` is being patched by another run", directory.path().display()),
        )
        .hint("wait for that run")),
        Err(TryLockError::Error(error)) => Err(failed(&error)),
    }
}

/// Says why nothing is to be written, if so.
pub(crate) fn why_not(path: &Path, project: &Path, args: &Apply) -> Option<String> {
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

/// Says what makes a directory one that is not written into unasked.
fn system_kind(path: &Path, project: &Path) -> Option<&'static str> {
    let is_package_folder =
        |part: &std::ffi::OsStr| part == "site-packages" || part == "dist-packages";
    let is_in_project =
        std::fs::canonicalize(project).is_ok_and(|project| path.starts_with(project));
    match () {
        () if path == Path::new("/") || SYSTEM.iter().any(|folder| path.starts_with(folder)) => {
            Some("belongs to the system")
        }
        () if !is_in_project && path.iter().any(is_package_folder) => {
            Some("holds installed packages")
        }
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_the_system_are_known() {
        let kind = |path: &str| system_kind(Path::new(path), Path::new("/nowhere"));
        for path in ["/", "/usr", "/usr/lib/python3/dist-packages", "/opt/rocm", "/lib/x", "/etc"] {
            assert_eq!(kind(path), Some("belongs to the system"), "{path}");
        }
        assert_eq!(
            kind("/home/a/venv/lib/python3.12/site-packages"),
            Some("holds installed packages")
        );
        for path in ["/home/a/vllm", "/usrlocal", "/optional", "/tmp/lib"] {
            assert_eq!(kind(path), None, "{path}");
        }
    }
}
