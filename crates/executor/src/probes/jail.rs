//! The file system and the limits of a confined probe.
//!
//! The root is a new file system in memory. It has the system's programs and libraries (read-only),
//! `/dev/null` and `/dev/urandom`, the files of the probe in `/tree` (read-only), and an empty
//! `/tmp`. A program that changes a file gets its files in `/tmp/tree` instead. The root has no
//! home, no `/proc`, no `/sys` and no socket, and of `/etc` only the dynamic linker's files and
//! Debian's alternatives.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::process::{Resource, Rlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::confine::Confined;
use super::process::feed;

/// The folders with the system's programs. Those that do not exist are left out.
pub(super) const PROGRAMS: [&str; 10] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
    "/gnu/store",
];

/// What programs need in addition: the dynamic linker's list of libraries, Debian's alternatives,
/// and two devices.
const ALSO: [&str; 5] =
    ["/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/alternatives", "/dev/null", "/dev/urandom"];

/// The folder for files that the probe must not change.
const READ_ONLY: &str = "/tree";

/// The folder for files that the program may change.
const WRITABLE: &str = "/tmp/tree";

/// Mount options of the tmpfs file systems. A patch has at most 64 MiB of files.
const ROOT: &std::ffi::CStr = c"mode=0755,size=80m,nr_inodes=8k";
const TEMPORARY: &std::ffi::CStr = c"mode=1777,size=80m,nr_inodes=8k";

/// The memory limit of one process, in bytes.
const MEMORY: u64 = 1 << 30;

/// The maximum size of a file that a probe writes, in bytes.
const FILE: u64 = 64 << 20;

/// The CPU time limit of one process, in seconds. Unlike elapsed time, CPU time hardly depends on
/// what else the machine does.
pub(super) const CPU_TIME: u64 = 10;

/// The maximum number of open files of one process.
const OPEN_FILES: u64 = 256;

/// Replaces the root with one that contains only what a probe may see, and changes into the folder
/// with its files.
pub(super) fn enter(files: &BTreeMap<String, &[u8]>, may_change: bool) -> Result<(), String> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    at("/", rustix::mount::mount_change("/", private))?;
    at("/tmp", in_memory("/tmp", ROOT))?;
    at("/tmp/old", made("/tmp/old"))?;
    at("/tmp", rustix::process::pivot_root("/tmp", "/tmp/old"))?;
    at("/", rustix::process::chdir("/"))?;
    PROGRAMS.iter().chain(&ALSO).try_for_each(|path| at(path, show(path)))?;
    at("/tmp", made("/tmp"))?;
    at("/tmp", in_memory("/tmp", TEMPORARY))?;
    let folder = if may_change { WRITABLE } else { READ_ONLY };
    at(folder, made(folder))?;
    for (name, bytes) in files {
        let path = Path::new(folder).join(name);
        let parent = path.parent().unwrap_or(Path::new(folder));
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, bytes))
            .map_err(|error| format!("writing `{name}` for the probe failed: {error}"))?;
    }
    let mounts = fs::read_to_string("/old/proc/self/mountinfo")
        .map_err(|error| format!("reading the list of mounts failed: {error}"))?;
    for (mount, flags) in mounts.lines().filter_map(mount_point) {
        at(&mount, rustix::mount::mount_remount(mount.as_str(), flags, c""))?;
    }
    at("/", rustix::mount::unmount("/old", UnmountFlags::DETACH))?;
    at("/", rustix::fs::rmdir("/old"))?;
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    at("/", rustix::mount::mount_remount("/", flags, c""))?;
    at(folder, rustix::process::chdir(folder))
}

fn at(path: &str, result: rustix::io::Result<()>) -> Result<(), String> {
    result.map_err(|error| {
        format!("creating `{path}` in the probe's file system failed: {}", io::Error::from(error))
    })
}

fn made(path: &str) -> rustix::io::Result<()> {
    fs::create_dir_all(path).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

fn in_memory(path: &str, options: &std::ffi::CStr) -> rustix::io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("tmpfs", path, "tmpfs", flags, options)
}

/// Makes a folder, file or link of the old root visible at the same path in the new one.
fn show(path: &str) -> rustix::io::Result<()> {
    let errno = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let old = format!("/old{path}");
    let Ok(found) = fs::symlink_metadata(&old) else { return Ok(()) };
    if let Some(parent) = Path::new(path).parent() {
        fs::create_dir_all(parent).map_err(errno)?;
    }
    if found.is_symlink() {
        // `/bin` is a link to `usr/bin` on most systems.
        let link = fs::read_link(&old).map_err(errno)?;
        return symlink(link, path).map_err(errno);
    }
    if found.is_dir() {
        fs::create_dir(path).map_err(errno)?;
    } else {
        fs::write(path, "").map_err(errno)?;
    }
    rustix::mount::mount_bind_recursive(old.as_str(), path)
}

/// Returns the mount point in a line of `mountinfo` that must become read-only, with the flags for
/// that. The kernel refuses to drop flags that a mount has.
fn mount_point(line: &str) -> Option<(String, MountFlags)> {
    let mut fields = line.split(' ').skip(4);
    let (point, options) = (fields.next()?, fields.next()?);
    let is_ours = matches!(point, "/" | "/tmp") || point == "/old" || point.starts_with("/old/");
    if is_ours {
        return None;
    }
    let mut flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID;
    if options.split(',').any(|option| option == "noexec") {
        flags |= MountFlags::NOEXEC;
    }
    if !point.starts_with("/dev/") || options.split(',').any(|option| option == "nodev") {
        flags |= MountFlags::NODEV;
    }
    Some((unescaped(point), flags))
}

/// Replaces escapes such as `\040`, which the kernel writes for a space.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                plain.push(char::from(code));
                plain.push_str(&part[3..]);
            }
            None => {
                plain.push('\\');
                plain.push_str(part);
            }
        }
    }
    plain
}

/// Gives up all capabilities, and the ability to gain new ones.
pub(super) fn give_up_rights() -> rustix::io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets)
}

/// Limits the resources of the processes that this process starts.
pub(super) fn set_limits(processes: u64) -> rustix::io::Result<()> {
    for (resource, limit) in [
        (Resource::Nproc, processes),
        (Resource::As, MEMORY),
        (Resource::Fsize, FILE),
        (Resource::Cpu, CPU_TIME),
        (Resource::Nofile, OPEN_FILES),
        (Resource::Core, 0),
        (Resource::Memlock, 0),
    ] {
        // A hard limit can only be lowered.
        let most = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let limit = limit.min(most);
        // A process gets SIGXCPU at the soft limit of CPU time, and SIGKILL at the hard limit.
        let last = if matches!(resource, Resource::Cpu) { (limit + 1).min(most) } else { limit };
        let limits = Rlimit { current: Some(limit), maximum: Some(last) };
        rustix::process::setrlimit(resource, limits)?;
    }
    Ok(())
}

/// Runs the program, and returns how it ended.
pub(super) fn run(confined: &Confined, stdin: &[u8]) -> Result<ExitStatus, String> {
    let mut command = Command::new(&confined.program);
    command
        .args(&confined.arguments)
        .env_clear()
        .env("PATH", &confined.path)
        .env("LC_ALL", "C")
        .env("TMPDIR", "/tmp")
        .stdin(Stdio::piped());
    if confined.result.is_some() {
        command.stdout(Stdio::null());
    }
    let program = confined.program.display();
    let mut child =
        command.spawn().map_err(|error| format!("starting `{program}` failed: {error}"))?;
    if let Some(pipe) = child.stdin.take()
        && let Err(reason) = feed(pipe, stdin.to_vec())
    {
        drop(child.kill());
        drop(child.wait());
        return Err(reason);
    }
    child.wait().map_err(|error| error.to_string())
}

/// Reads the file that a program changed, unless the program replaced it with something else.
pub(super) fn result(name: &str) -> Result<Vec<u8>, String> {
    let is_file = fs::symlink_metadata(name).is_ok_and(|found| found.is_file());
    if !is_file {
        return Err(format!("`{name}` is no longer a file"));
    }
    fs::read(name).map_err(|error| format!("reading `{name}` failed: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_the_jail_are_found_with_the_flags_that_must_stay() {
        let line = |point: &str, options: &str| {
            mount_point(&format!("36 35 98:0 / {point} {options} master:1 - ext4 /dev/root rw"))
        };
        let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID;
        assert_eq!(line("/", "rw"), None);
        assert_eq!(line("/old/proc", "rw"), None);
        assert_eq!(line("/usr", "rw"), Some(("/usr".to_owned(), flags | MountFlags::NODEV)));
        assert_eq!(line("/dev/null", "rw"), Some(("/dev/null".to_owned(), flags)));
        let space = line("/opt/a\\040b", "rw,noexec").unwrap();
        assert_eq!(space.0, "/opt/a b");
        assert!(space.1.contains(MountFlags::NOEXEC));
    }

    #[test]
    fn only_complete_escapes_of_mount_points_are_replaced() {
        for (text, plain) in [
            ("/plain", "/plain"),
            ("a\\040b\\134c", "a b\\c"),
            ("\\011", "\t"),
            ("a\\04", "a\\04"),
            ("a\\09x", "a\\09x"),
            ("a\\", "a\\"),
            ("a\\éb", "a\\éb"),
        ] {
            assert_eq!(unescaped(text), plain, "{text}");
        }
    }
}
