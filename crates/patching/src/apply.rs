//! Writes the patched files of a tree, all or none, and the patched source of a pin.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use atomic_write_file::AtomicWriteFile;
use failure::{Failure, Kind};
use patcher::{Outcome, Receipt};
use project::kinds::refuse_others;
use project::{Project, environment};
use sources::{Sources, Submodules, TarSummary, WriteTarError};

use crate::bytecode::{self, Bytecode};
use crate::directory::Directory;
use crate::prepared::{Prepared, RunProbes, Wanted};
use crate::records;
use crate::replace::{ReplaceError, Replacement};
use crate::report::{LeftOut, TreeReport};

/// System directories.
const SYSTEM: [&str; 10] =
    ["/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/opt", "/sbin", "/usr", "/var"];

/// How to apply patches.
#[derive(Debug, Clone, Copy)]
pub struct Applying {
    /// Whether to write to system directories and installed packages too.
    pub writes_to_system: bool,
    /// Whether to write nothing.
    pub is_dry: bool,
    /// Whether every patch must be needed, and every probe must have run.
    pub is_strict: bool,
    /// Whether to run the patches' probes.
    pub probes: RunProbes,
}

/// Where to write the tar of a patched source.
pub enum TarOutput<'a> {
    /// To a file.
    File {
        /// The file.
        path: PathBuf,
        /// Its path as the user wrote it.
        shown: &'a Path,
    },
    /// To standard output, which is shown as `-`.
    Stream(&'a mut dyn io::Write),
}

impl std::fmt::Debug for TarOutput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File { path, .. } => f.debug_tuple("File").field(path).finish(),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// Patches one tree, unless a patch fails, or the tree must not be written to. `left_out` are the
/// patches that are not for this tree.
///
/// # Errors
/// Fails if the tree cannot be locked, read or written.
pub fn apply(
    mut prepared: Prepared<Directory>,
    project: &Project,
    how: Applying,
    left_out: Vec<LeftOut>,
) -> Result<TreeReport, Failure> {
    let why_not = why_not(prepared.tree.path(), project.folder(), how);
    let lock = match why_not {
        Some(_) => None,
        None => {
            let lock = lock(&prepared.tree)?;
            prepared.refresh()?;
            Some(lock)
        }
    };
    let outcome = prepared.outcome(how.probes);
    let mut tree = TreeReport::new(&prepared, outcome);
    tree.set_left_out(left_out);
    match why_not {
        Some(because) => tree.set_not_written(because),
        None if tree.is_good(how.is_strict) => {
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
fn why_not(path: &Path, project: Option<&Path>, how: Applying) -> Option<String> {
    if how.writes_to_system {
        return None;
    }
    if how.is_dry {
        return Some("dry run: nothing was written".to_owned());
    }
    needs_write(path, project, "patch it")
}

/// Returns the reason if nothing is written to a directory without `--write`. `purpose` is what the
/// user wants to do.
pub(crate) fn needs_write(path: &Path, project: Option<&Path>, purpose: &str) -> Option<String> {
    let kind = system_kind(path, project)?;
    let shown = path.display();
    Some(format!("dry run: `{shown}` {kind}; nothing was written. Add `--write` to {purpose}"))
}

/// Patches the fetched source of a pin and writes it, with its submodules, as a canonical tar,
/// unless a patch fails or this is a dry run.
///
/// # Errors
/// Fails if the source cannot be fetched, or if the tar cannot be written.
pub fn export(
    project: &Project,
    component: &str,
    wanted: Wanted<'_>,
    sources: impl FnOnce() -> Result<Sources, Failure>,
    how: Applying,
    to: TarOutput<'_>,
) -> Result<TreeReport, Failure> {
    let epoch = match environment::source_date_epoch()? {
        Some(epoch) => epoch,
        None => project.pins()?.source_date_epoch,
    };
    // Nothing is fetched for an output that cannot be written.
    if let TarOutput::File { path, .. } = &to {
        check_output(path)?;
    }
    let prepared = Prepared::pinned(sources, project, component, wanted, Submodules::All)?;
    let mut tree = TreeReport::new(&prepared, prepared.outcome(how.probes));
    if how.is_dry {
        tree.set_not_written("dry run: nothing was written".to_owned());
    } else if tree.is_good(how.is_strict) {
        let files = &tree.outcome().files;
        let patched = prepared.tree.with(files.iter().map(|file| (&file.path, &*file.new)))?;
        let (shown, summary) = match to {
            TarOutput::Stream(writer) => (Path::new("-"), patched.write_tar(epoch, writer)),
            TarOutput::File { path, shown } => {
                (shown, write_file(&path, |file| patched.write_tar(epoch, file)))
            }
        };
        let summary = summary.map_err(|error| not_written(shown, &error))?;
        tree.set_exported(shown, &summary);
    }
    Ok(tree)
}

/// Returns the error for a tar that could not be written.
fn not_written(output: &Path, error: &WriteTarError) -> Failure {
    let told = format!("cannot write `{}`", output.display());
    Failure::caused(Kind::Machine, told, error).hint(
        "check the free disk space and the folder's permissions; existing output was not changed",
    )
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

/// The hint if the files were patched, but the ledger could not be written a second time. The first
/// version also lists every change.
const PATCHED: &str = "the files were patched, and `build-pipeline patch revert` undoes this; check the free disk space and the folder's permissions";

/// Writes the changed files of an outcome, the RECORDs that list them, and the receipt. It writes
/// the ledger, then the files, then the ledger again if it changed.
///
/// # Errors
/// Fails if the tree cannot be written, or if another program changed it. Unless the error says
/// otherwise, all files then have their old content.
pub(crate) fn write(prepared: &Prepared<Directory>, outcome: &Outcome) -> Result<(), Failure> {
    let (directory, receipt_list) = (&prepared.tree, &prepared.receipt_list);
    let component = prepared.component.as_str();
    let records = records::changes(directory, &outcome.files, &receipt_list.receipts);
    let files = outcome.files.iter();
    let files = files.map(|file| Replacement { path: &file.path, old: &file.old, new: &file.new });
    let rows = records.iter().map(|record| Replacement {
        path: &record.receipt.path,
        old: &record.old,
        new: &record.new,
    });
    // Bytecode that Python checks is right for the old sources, too, so it is replaced first.
    let bytecode = bytecode::checked(directory, &outcome.files);
    let checked = bytecode.iter().map(Bytecode::replacement);
    let all: Vec<Replacement<'_>> = checked.chain(files).chain(rows).collect();
    // If a killed run has changed all files, only its RECORD is left.
    let of_records = || {
        let mut of_component = receipt_list.receipts.iter();
        let last = of_component.rfind(|one| one.component == component && !records.is_empty())?;
        Some(Receipt { patches: Vec::new(), files: Vec::new(), ..last.clone() })
    };
    let mut receipt = outcome.receipt().or_else(of_records);
    if let Some(receipt) = &mut receipt {
        receipt.files.extend(records.iter().map(|record| record.receipt.clone()));
    }
    // If this run is killed, receipts of files that an upgrade has replaced would prevent a revert.
    let next = receipt_list.without_replaced(directory, component).with(receipt);
    replace(directory, &all, || next.write(directory), || receipt_list.write(directory))?;
    let settled = next.settled(directory, component);
    let on_disk = if all.is_empty() { receipt_list } else { &next };
    if settled != *on_disk {
        settled.write(directory).map_err(|error| {
            if all.is_empty() { failed(&error) } else { hinted(&error, PATCHED) }
        })?;
    }
    Ok(())
}

/// Replaces files, and calls `announce` before it writes anything. If replacing the files fails,
/// `take_back` undoes the changes of `announce`, except after [`ReplaceError::Stuck`].
///
/// # Errors
/// Fails if a file cannot be replaced or was changed. Unless the error says otherwise, all files
/// then have their old content.
pub(crate) fn replace(
    directory: &Directory,
    all: &[Replacement<'_>],
    announce: impl FnOnce() -> Result<(), ReplaceError>,
    take_back: impl FnOnce() -> Result<(), ReplaceError>,
) -> Result<(), Failure> {
    if all.is_empty() {
        return Ok(());
    }
    directory.replace(all, announce).map_err(|error| {
        let told = failed(&error);
        // `revert` needs the announced receipts to restore the file that is stuck.
        if matches!(error, ReplaceError::Stuck { .. }) {
            return told;
        }
        match take_back() {
            Ok(()) => told,
            Err(second) => {
                told.hint(format!("the list of receipts could not be restored: {second}"))
            }
        }
    })
}

/// Turns a write error into the failure of a command. No file was changed, except after
/// [`ReplaceError::Stuck`].
pub(crate) fn failed(error: &ReplaceError) -> Failure {
    let hint = match error {
        ReplaceError::Changed(_) => {
            "nothing was written; stop the program that changes the tree, then try again"
        }
        ReplaceError::Read(..) => "nothing was written",
        ReplaceError::Write(..) => {
            "no file was changed; check the free disk space and the folder's permissions"
        }
        ReplaceError::Stuck { .. } => {
            "`build-pipeline patch revert` restores the file once the disk is writable"
        }
    };
    hinted(error, hint)
}

/// Turns a write error into the failure of a command. `hint` says what has happened to the files.
pub(crate) fn hinted(error: &ReplaceError, hint: &str) -> Failure {
    let kind = match error {
        ReplaceError::Changed(_) => Kind::Busy,
        ReplaceError::Read(..) => Kind::Input,
        ReplaceError::Write(..) | ReplaceError::Stuck { .. } => Kind::Machine,
    };
    Failure::from_chain(kind, error).hint(hint)
}

/// Takes the lock of a tree, which is released on drop.
///
/// # Errors
/// Fails if another run holds it, or if locking fails.
pub(crate) fn lock(directory: &Directory) -> Result<std::fs::File, Failure> {
    let failed = |error: &io::Error| {
        let shown = directory.path().display();
        Failure::caused(Kind::Machine, format!("locking `{shown}` failed"), error)
    };
    let root = directory.root().try_clone().map_err(|error| failed(&error))?;
    match root.try_lock() {
        Ok(()) => Ok(root),
        Err(TryLockError::WouldBlock) => Err(Failure::new(
            Kind::Busy,
            format!("another run is patching `{}`", directory.path().display()),
        )
        .hint("wait for that run")),
        Err(TryLockError::Error(error)) => Err(failed(&error)),
    }
}

/// Checks that a tar can be written to `path`: either nothing has this name, or it is a regular
/// file that is a tar or is empty.
///
/// # Errors
/// Another file, or something other than a regular file, has this name.
pub(crate) fn check_output(path: &Path) -> Result<(), Failure> {
    let refuse = |what: &str| {
        let what = format!("`{}` exists, and is {what}", path.display());
        Err(Failure::new(Kind::Input, what).hint("choose a new file with `--output`"))
    };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(found) if !found.is_file() => refuse("not a regular file"),
        Ok(found) if found.len() == 0 => Ok(()),
        Ok(_) | Err(_) => {
            // Images and bundles are tars too.
            let shown = path.display().to_string();
            refuse_others(path, &shown, "the tar of a source", &[])
                .map_err(|told| told.first_hint("choose a new file with `--output`"))?;
            // The magic of POSIX tar archives (pax interchange format, "ustar header block").
            let mut magic = [0; 5];
            let read = File::open(path).and_then(|file| file.read_exact_at(&mut magic, 257));
            if read.is_ok() && magic == *b"ustar" { Ok(()) } else { refuse("not a tar archive") }
        }
    }
}

/// Lets `write` write a temporary file, and renames it to `path` when it is complete.
///
/// # Errors
/// Fails if the file cannot be written, or if `write` fails.
pub(crate) fn write_file(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<AtomicWriteFile>) -> Result<TarSummary, WriteTarError>,
) -> Result<TarSummary, WriteTarError> {
    let file = AtomicWriteFile::open(path).map_err(WriteTarError::Writer)?;
    let mut file = BufWriter::with_capacity(256 << 10, file);
    let summary = write(&mut file)?;
    let file = file.into_inner().map_err(|error| WriteTarError::Writer(error.into_error()))?;
    file.commit().map_err(WriteTarError::Writer)?;
    Ok(summary)
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
