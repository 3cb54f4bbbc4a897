//! Runs a probe in its own namespaces. Two helper processes do this; each is this program, started
//! again.
//!
//! A process with several threads cannot create a user namespace, so [`Confined::command`] starts
//! this program again with [`HELPER`] as its first argument, and [`run_helper`] takes over before
//! anything else happens. The outer helper becomes an ordinary user if it is root, creates the
//! namespaces, and starts the inner helper as PID 1 of the new PID namespace. The inner helper
//! makes the file system (`jail`), gives up all privileges, and runs the probe. When the inner
//! helper ends, the kernel kills everything that the probe started.
//!
//! This needs no programs from the host: `unshare` and `bwrap` are missing on some hosts and differ
//! between versions.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use keyutils::Keyring;
use nix::sched::{CloneFlags, unshare};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Gid, Signal, Uid};
use rustix::thread::CapabilitySet;
use serde::{Deserialize, Serialize};

use super::jail;

/// The first argument of the helpers.
const HELPER: &str = "confine-a-probe";

/// The path that starts this program again, even if its file has been replaced.
pub(super) const THIS_PROGRAM: &str = "/proc/self/exe";

/// The user and group `nobody`, for probes that root starts.
const NOBODY: u32 = 65534;

/// The number of processes that a probe may start.
const PROCESSES: u64 = 64;

/// The exit codes of the helpers, chosen so that other programs are unlikely to use them.
const SUCCEEDED: u8 = 200;
const FAILED: u8 = 201;
const NOT_CONFINED: u8 = 202;
const OUT_OF_TIME: u8 = 203;

/// A program to run in its own namespaces.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Confined {
    /// The program's path, which must exist in the jail.
    pub(super) program: PathBuf,
    /// Its arguments.
    pub(super) arguments: Vec<String>,
    /// The directories in which it finds other programs.
    pub(super) path: String,
    /// A file whose content is the result, instead of standard output.
    pub(super) result: Option<String>,
    /// The names of the files in its working directory, with their sizes.
    pub(super) sizes: BTreeMap<String, usize>,
}

/// How a confined program ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It ran. `success` is set if it exited with 0.
    Ran { success: bool },
    /// It was not started, because it could not be confined. Standard error contains the reason.
    NotConfined,
    /// It was stopped because it used too much CPU time.
    OutOfTime,
    /// A signal killed the helper, or it exited with an unknown code.
    Stopped,
}

impl Confined {
    /// Returns the command that runs it, and the command's standard input.
    pub(super) fn command(
        mut self,
        launcher: &Path,
        files: &BTreeMap<String, Vec<u8>>,
        stdin: &[u8],
    ) -> Result<(Command, Vec<u8>), String> {
        self.sizes = files.iter().map(|(name, bytes)| (name.clone(), bytes.len())).collect();
        let mut input = serde_json::to_vec(&self).map_err(|error| error.to_string())?;
        input.push(b'\n');
        files.values().for_each(|bytes| input.extend_from_slice(bytes));
        input.extend_from_slice(stdin);
        let mut command = Command::new(launcher);
        command.args([HELPER, "outer"]).env_clear().current_dir("/");
        Ok((command, input))
    }
}

/// The content of the standard input of [`Confined::command`].
struct Received<'a> {
    confined: Confined,
    files: BTreeMap<String, &'a [u8]>,
    /// The program's own standard input.
    stdin: &'a [u8],
}

impl<'a> Received<'a> {
    fn parse(input: &'a [u8]) -> Option<Self> {
        let end = input.iter().position(|byte| *byte == b'\n')?;
        let confined: Confined = serde_json::from_slice(&input[..end]).ok()?;
        let mut stdin = &input[end + 1..];
        let mut files = BTreeMap::new();
        for (name, size) in &confined.sizes {
            let (file, behind) = stdin.split_at_checked(*size)?;
            files.insert(name.clone(), file);
            stdin = behind;
        }
        Some(Self { confined, files, stdin })
    }
}

/// Returns how a confined program ended.
pub(super) fn ended(status: ExitStatus) -> Ended {
    match status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(SUCCEEDED) => Ended::Ran { success: true },
        Some(FAILED) => Ended::Ran { success: false },
        Some(NOT_CONFINED) => Ended::NotConfined,
        Some(OUT_OF_TIME) => Ended::OutOfTime,
        _ => Ended::Stopped,
    }
}

/// Acts as a helper process of a probe if the arguments request it. A program that runs probes with
/// [`super::Tools`] must call this first, before it starts a thread.
pub fn run_helper(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    if arguments.nth(1)? != HELPER {
        return None;
    }
    let stage = arguments.next().and_then(|stage| stage.into_string().ok());
    let ended = match (stage.as_deref(), arguments.next()) {
        (Some("outer"), None) => outer(),
        (Some("inner"), Some(processes)) => inner(&processes),
        _ => Err("the helper was started by hand".to_owned()),
    };
    Some(match ended {
        Ok(code) => ExitCode::from(code),
        Err(reason) => {
            drop(writeln!(io::stderr(), "{reason}"));
            ExitCode::from(NOT_CONFINED)
        }
    })
}

/// Returns a function that turns an error number into a message about the failed operation.
fn failed(what: &'static str) -> impl Fn(rustix::io::Errno) -> String {
    move |error| format!("{what} failed: {}", io::Error::from(error))
}

/// Creates the namespaces and starts the inner helper in them.
fn outer() -> Result<u8, String> {
    end_with_parent()?;
    close_inherited()?;
    leave_keys()?;
    // This process is the first to be killed if memory runs out. A failure to set this does not
    // matter.
    drop(fs::write("/proc/self/oom_score_adj", "1000"));
    let (mut uid, mut gid) = (rustix::process::geteuid(), rustix::process::getegid());
    if uid.is_root() || rustix::process::getuid().is_root() {
        become_nobody().map_err(failed("giving up root privileges"))?;
        (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    }
    let limit = PROCESSES + threads_of(uid.as_raw());
    let namespaces = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS;
    unshare(namespaces).map_err(|error| format!("creating namespaces failed: {}", error.desc()))?;
    for (file, text) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{0} {0} 1", uid.as_raw())),
        ("gid_map", format!("{0} {0} 1", gid.as_raw())),
    ] {
        fs::write(format!("/proc/self/{file}"), text)
            .map_err(|error| format!("writing `{file}` of the user namespace failed: {error}"))?;
    }
    keep_mount_rights().map_err(failed("keeping the privilege to mount"))?;
    end_with_parent()?;
    let status = Command::new(THIS_PROGRAM)
        .args([HELPER, "inner", &limit.to_string()])
        .env_clear()
        .status()
        .map_err(|error| format!("starting the helper again failed: {error}"))?;
    // A killed helper means that its probe was killed, for example because memory ran out.
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED))
}

/// Makes the kernel kill this process when its parent ends for any reason.
fn end_with_parent() -> Result<(), String> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(failed("requesting the parent-death signal"))
}

/// Closes the files, pipes and sockets that the user's shell or another program left open for this
/// process.
fn close_inherited() -> Result<(), String> {
    let entries = fs::read_dir("/proc/self/fd")
        .map_err(|error| format!("listing the open files failed: {error}"))?;
    let open: Vec<i32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // The descriptor that listed the others is already closed.
        let _ = nix::unistd::close(descriptor);
    }
    Ok(())
}

/// Leaves the session keyring of the user for an empty one. A process inherits its session keyring,
/// and can read the keys in it, such as Kerberos tickets.
fn leave_keys() -> Result<(), String> {
    match Keyring::join_anonymous_session().map_err(|error| error.0) {
        Ok(_) => Ok(()),
        // The kernel has no keys, or a container refuses the call, also to the probe.
        Err(code) if [Errno::NOSYS, Errno::PERM].map(Errno::raw_os_error).contains(&code) => Ok(()),
        Err(code) => {
            let error = io::Error::from_raw_os_error(code);
            Err(format!("leaving the user's keyring failed: {error}"))
        }
    }
}

/// Turns root into `nobody`, who keeps root's privileges until the next program starts. With these
/// privileges, namespaces can be created even where the system reserves this for root.
fn become_nobody() -> rustix::io::Result<()> {
    let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    rustix::thread::set_keep_capabilities(true)?;
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    let mut sets = rustix::thread::capabilities(None)?;
    sets.effective = sets.permitted;
    rustix::thread::set_capabilities(None, sets)?;
    // After a change of user, the process's own files in /proc belong to root.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)
}

/// Lets the inner helper mount file systems in its namespace.
fn keep_mount_rights() -> rustix::io::Result<()> {
    let mut sets = rustix::thread::capabilities(None)?;
    sets.inheritable |= CapabilitySet::SYS_ADMIN;
    rustix::thread::set_capabilities(None, sets)?;
    rustix::thread::configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true)
}

/// Returns the number of threads of a user. Old kernels count all of them against the process
/// limit.
fn threads_of(uid: u32) -> u64 {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let tasks = entries.filter_map(|entry| fs::metadata(entry.path().join("task")).ok());
    tasks.filter(|tasks| tasks.uid() == uid).map(|tasks| tasks.nlink().saturating_sub(2)).sum()
}

/// Makes the jail, gives up all privileges, and runs the program.
fn inner(processes: &OsString) -> Result<u8, String> {
    end_with_parent()?;
    let processes = processes.to_str().and_then(|text| text.parse().ok());
    let mut input = Vec::new();
    io::stdin().read_to_end(&mut input).map_err(|error| error.to_string())?;
    let received = Received::parse(&input).ok_or("the helper's input is damaged")?;
    let Received { confined, files, stdin } = received;
    jail::enter(&files, confined.result.is_some())?;
    jail::give_up_rights().map_err(failed("giving up all privileges"))?;
    jail::set_limits(processes.unwrap_or(PROCESSES)).map_err(failed("setting limits"))?;
    let status = jail::run(&confined, stdin)?;
    if status.signal() == Some(Signal::XCPU.as_raw()) {
        return Ok(OUT_OF_TIME);
    }
    let success = status.success();
    if let Some(result) = confined.result.filter(|_| success) {
        let content = jail::result(&result)?;
        io::stdout().write_all(&content).map_err(|error| error.to_string())?;
    }
    Ok(if success { SUCCEEDED } else { FAILED })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn a_helper_receives_the_files_and_the_input_of_its_probe() {
        let files = [("a", &b"one\n"[..]), ("b/c", b""), ("d", b"{}")];
        let files: BTreeMap<String, Vec<u8>> =
            files.map(|(name, bytes)| (name.to_owned(), bytes.to_vec())).into();
        let confined = Confined {
            program: "/usr/bin/x".into(),
            arguments: vec!["-a".to_owned(), "two\nlines".to_owned()],
            result: Some("a".to_owned()),
            ..Confined::default()
        };
        let (command, input) = confined.command("/launcher".as_ref(), &files, b"in").unwrap();
        let arguments: Vec<_> = command.get_args().collect();
        assert_eq!(
            (command.get_program(), &*arguments),
            ("/launcher".as_ref(), &[HELPER.as_ref(), "outer".as_ref()][..])
        );
        let received = Received::parse(&input).unwrap();
        let found: BTreeMap<_, _> =
            received.files.iter().map(|(name, bytes)| (name.clone(), bytes.to_vec())).collect();
        assert_eq!((found, received.stdin), (files, &b"in"[..]));
        assert_eq!(received.confined.arguments, ["-a", "two\nlines"]);
        assert_eq!(received.confined.result.as_deref(), Some("a"));
        // Without its own input it is complete; without the last byte of a file it is not.
        let end = input.len() - 2;
        assert_eq!(Received::parse(&input[..end]).unwrap().stdin, b"");
        for end in [end - 1, end - 6, 1, 0] {
            assert!(Received::parse(&input[..end]).is_none(), "{end}");
        }
    }

    #[test]
    fn the_end_of_a_helper_says_whether_its_probe_ran() {
        for (raw, wanted) in [
            (200 << 8, Ended::Ran { success: true }),
            (201 << 8, Ended::Ran { success: false }),
            (202 << 8, Ended::NotConfined),
            (203 << 8, Ended::OutOfTime),
            (204 << 8, Ended::Stopped),
            (0, Ended::Stopped),
            (9, Ended::Stopped),
        ] {
            assert_eq!(ended(ExitStatus::from_raw(raw)), wanted, "{raw}");
        }
    }

    #[test]
    fn only_the_arguments_of_a_helper_start_one() {
        let run = |words: &[&str]| {
            let words = ["program"].iter().chain(words).map(OsString::from);
            run_helper(words.collect::<Vec<_>>().into_iter())
        };
        for words in [&[][..], &["build"], &["build", HELPER], &["outer"]] {
            assert!(run(words).is_none(), "{words:?}");
        }
        let refused = format!("{:?}", ExitCode::from(NOT_CONFINED));
        for words in
            [&[HELPER][..], &[HELPER, "other"], &[HELPER, "inner"], &[HELPER, "outer", "9"]]
        {
            assert_eq!(format!("{:?}", run(words).unwrap()), refused, "{words:?}");
        }
    }
}
