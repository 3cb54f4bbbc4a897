//! Writes the patched files of a tree, all or none, and the patched source of a pin.

use std::fs::{self, File, TryLockError};
use std::io::BufWriter;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use atomic_write_file::AtomicWriteFile;
use failure::{Failure, Kind};
use patcher::Outcome;
use sources::{TarSummary, WriteTarError};

use crate::directory::Directory;
use crate::prepared::Prepared;
use crate::records;
use crate::replace::{ReplaceError, Replacement};

/// The hint if the files were patched, but the ledger could not be written a second time. The first
/// version also lists every change.
const PATCHED: &str = "the files were patched, and `build-pipeline patch revert` undoes this; check the free disk space and the folder's permissions";

/// Writes the changed files of an outcome, the RECORDs that list them, and the receipt. It writes
/// the ledger, then the files, then the ledger again if it changed.
///
/// # Errors
/// Fails if the tree cannot be written, or if another program changed it. Unless the error says
/// otherwise, all files then have their old content.
pub fn write(prepared: &Prepared<Directory>, outcome: &Outcome) -> Result<(), Failure> {
    let (directory, receipt_list) = (&prepared.tree, &prepared.receipt_list);
    let component = prepared.component.as_str();
    let records = records::changes(directory, &outcome.files);
    let files = outcome.files.iter();
    let files = files.map(|file| Replacement { path: &file.path, old: &file.old, new: &file.new });
    let of_records = records.iter().map(|record| Replacement {
        path: &record.receipt.path,
        old: &record.old,
        new: &record.new,
    });
    let all: Vec<Replacement<'_>> = files.chain(of_records).collect();
    let mut receipt = outcome.receipt();
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
pub fn replace(
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
pub fn failed(error: &ReplaceError) -> Failure {
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
pub fn lock(directory: &Directory) -> Result<std::fs::File, Failure> {
    let failed = |error: &std::io::Error| {
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
pub fn check_output(path: &Path) -> Result<(), Failure> {
    let refuse = |what: &str| {
        let what = format!("`{}` exists, and is {what}", path.display());
        Err(Failure::new(Kind::Input, what).hint("choose a new file with `--output`"))
    };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Ok(found) if !found.is_file() => refuse("not a regular file"),
        Ok(found) if found.len() == 0 => Ok(()),
        Ok(_) | Err(_) => {
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
pub fn write_file(
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
