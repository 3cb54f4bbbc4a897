//! The kernel's log, if it is readable.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The maximum number of bytes to read. The kernel's own buffer is much smaller.
const MOST: usize = 64 << 20;

/// Returns the content of `/dev/kmsg` in `root`, one record after another as the kernel writes
/// them, or `None` if this user cannot read it.
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
            // Some records were overwritten in the meantime; the next read returns the oldest
            // remaining one.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    Some(String::from_utf8_lossy(&all).into_owned())
}
