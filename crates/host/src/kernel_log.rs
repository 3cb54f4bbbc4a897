//! The kernel's log, where it may be read.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The most that is read, in bytes. The kernel's own buffer is smaller by far.
const MOST: usize = 64 << 20;

/// Returns what `/dev/kmsg` below `root` holds, record by record as the kernel writes them; nothing
/// where this user may not read it.
pub fn kernel_log(root: &Path) -> Option<String> {
    let never_waits = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut file =
        OpenOptions::new().read(true).custom_flags(never_waits).open(root.join("dev/kmsg")).ok()?;
    let (mut all, mut record) = (Vec::new(), vec![0; 64 << 10]);
    while all.len() < MOST {
        match file.read(&mut record) {
            Ok(0) => break,
            Ok(length) => all.extend_from_slice(&record[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            // Some records were overwritten meanwhile; the next read has the oldest that is left.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    Some(String::from_utf8_lossy(&all).into_owned())
}
