//! Opens files that others may have put there: a regular file, and nothing that could be waited for.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use names::{Digest, Hasher};
use rustix::fs::OFlags;

/// Opens a regular file for reading. A link counts as what it leads to. A FIFO, socket or device is
/// refused and not waited for.
///
/// # Errors
/// It cannot be opened, or is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    // Looked at first, because to open a device can be an action of its own.
    check(&fs::metadata(path)?)?;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// Refuses what is not a regular file.
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

/// Returns the SHA-256 of all that a reader gives.
pub(crate) fn hash(mut reader: impl io::Read) -> io::Result<Digest> {
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(Digest::from_sha256(hasher.finish())),
            n => hasher.update(&buffer[..n]),
        }
    }
}
