//! Opens untrusted files: only regular files, and without blocking.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use names::{Digest, Hasher};
use rustix::fs::OFlags;

/// Opens a regular file for reading. Links are followed. FIFOs, sockets and devices are refused
/// without blocking.
///
/// # Errors
/// Fails if the file cannot be opened or is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    // Checked first, because opening a device can have side effects.
    check(&fs::metadata(path)?)?;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// Refuses anything except regular files.
fn check(found: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt as _;
    let kind = found.file_type();
    let what = match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_dir() => "a folder",
        () if kind.is_fifo() => "a FIFO",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a regular file")))
}

/// Returns whether an error means that a path is wrong: a parent is not a folder, the path is too
/// long, its links form a loop, or it refers to something of a different kind than the caller
/// needs. Repairing the machine would not help.
pub fn is_wrong_path(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    let number = error.raw_os_error();
    // The system also returns EINVAL for other reasons. If there is no error number, [`open`] or
    // the standard library has refused the path.
    let is_refused = number.is_none() && error.kind() == Kind::InvalidInput;
    let is_loop = number == Some(rustix::io::Errno::LOOP.raw_os_error());
    is_refused
        || is_loop
        || matches!(
            error.kind(),
            Kind::AlreadyExists | Kind::InvalidFilename | Kind::IsADirectory | Kind::NotADirectory
        )
}

/// Returns the SHA-256 of a reader's content.
///
/// # Errors
/// Fails if the content cannot be read completely.
pub fn hash(mut reader: impl io::Read) -> io::Result<Digest> {
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(Digest::from_sha256(hasher.finish())),
            n => hasher.update(&buffer[..n]),
        }
    }
}
