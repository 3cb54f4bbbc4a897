//! Real engines with their own stores: they do not touch this machine's podman or docker.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The time limit for a daemon's first response. It is long enough for a slow machine, and only
/// detects a daemon that never responds.
pub(crate) const ANSWER: Duration = Duration::from_secs(300);

/// Returns whether a program can run.
fn is_there(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

/// Runs a program that must succeed, and returns the lines it prints, sorted.
pub(crate) fn said(command: &mut Command) -> Vec<String> {
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{command:?}: {output:?}");
    let text = String::from_utf8(output.stdout).expect("the output is text");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

pub(crate) fn temporary(prefix: &str) -> TempDir {
    // The path is short, because the path of a socket has at most 107 bytes.
    tempfile::Builder::new().prefix(prefix).tempdir_in("/tmp").expect("a temporary folder")
}

/// A separate store for podman. It starts no service, but provides the options for one.
#[derive(Debug)]
pub struct PodmanStore {
    folder: TempDir,
}

impl PodmanStore {
    /// Creates an empty store.
    ///
    /// # Panics
    /// Panics if podman or runc is not installed.
    pub fn new() -> Self {
        for program in ["podman", "runc"] {
            assert!(is_there(program), "{program} is missing: apt-get install {program}");
        }
        Self { folder: temporary("bp-podman-") }
    }

    /// Returns podman's options for this store.
    pub fn arguments(&self) -> Vec<OsString> {
        let path = |name: &str| self.folder.path().join(name).into_os_string();
        vec!["--root".into(), path("root"), "--runroot".into(), path("run")]
    }

    /// Returns the folder for sockets.
    pub fn sockets(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    /// Returns the folder for build contexts.
    pub fn scratch(&self) -> PathBuf {
        self.folder.path().join("t")
    }

    /// Returns the folder for cache mounts.
    pub fn caches(&self) -> PathBuf {
        self.folder.path().join("c")
    }

    /// Returns the store's own folder.
    pub fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// Runs podman on the store, and returns the lines of its output, sorted.
    ///
    /// # Panics
    /// Panics if podman fails.
    pub fn podman(&self, arguments: &[&str]) -> Vec<String> {
        let mut command = Command::new("podman");
        command.args(self.arguments()).args(["--runtime", "runc"]).args(arguments);
        said(&mut command)
    }

    /// Returns the paths in the store at which file systems of containers are mounted.
    pub fn mounts(&self) -> Vec<String> {
        let root = self.root();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let overlays = mounts.lines().filter(|line| line.starts_with("overlay "));
        let points = overlays.filter_map(|line| line.split(' ').nth(1));
        points.filter(|point| Path::new(point).starts_with(&root)).map(str::to_owned).collect()
    }

    /// Returns the containers of this store that the OCI runtime knows.
    pub fn known_to_the_runtime(&self) -> Vec<PathBuf> {
        let folder = self.folder.path().to_str().expect("the path is text");
        let entries = fs::read_dir("/run/runc").into_iter().flatten().flatten();
        let states = entries.map(|entry| entry.path().join("state.json"));
        states
            .filter(|state| fs::read_to_string(state).is_ok_and(|text| text.contains(folder)))
            .collect()
    }

    /// Returns the processes whose root file system is a container of this store.
    pub fn container_processes(&self) -> Vec<u32> {
        processes_below(&self.root())
    }

    /// Returns the services that run on this store: podman itself, not the processes that it
    /// started.
    pub fn services(&self) -> Vec<u32> {
        let root = self.root();
        let root = root.to_str().expect("the path is text");
        processes(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            words.first().is_some_and(|word| word.ends_with(b"podman"))
                && words.contains(&root.as_bytes())
        })
    }
}

impl Default for PodmanStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for PodmanStore {
    fn drop(&mut self) {
        // A service whose watchdog was killed would run forever. One that has just ended is no error.
        for service in self.services() {
            drop(Command::new("kill").args(["-KILL", &service.to_string()]).output());
        }
        // A folder with mounts in it cannot be removed.
        unmount_below(self.folder.path());
    }
}

/// Runs dockerd until its standard input is closed, which happens however this process ends; `$1`
/// is the folder. Each line of input starts dockerd again after it was killed.
const WATCHDOG: &str = r#"folder=$1; shift
exec 3<&0
start() { "$@" </dev/null 3<&- >>"$folder/log" 2>&1 & docker=$!; }
start "$@"
while read -r _ <&3; do
  wait $docker 2>/dev/null
  # Its containerd died with it, but looks alive if nobody reaped it.
  rm -f "$folder/exec/containerd/containerd.pid"
  start "$@"
done
kill -TERM $docker; n=0
while kill -0 $docker 2>/dev/null && [ $n -lt 100 ]; do sleep 0.1; n=$((n+1)); done
kill -KILL $docker 2>/dev/null
wait $docker 2>/dev/null
awk -v below="$folder/" 'index($2, below) == 1 {print $2}' /proc/mounts | sort -r |
  while read -r point; do umount -l "$point"; done
rm -rf "$folder""#;

/// A docker daemon with all its folders in a temporary folder. It ends when this value is dropped
/// or the process dies.
#[derive(Debug)]
pub struct Dockerd {
    folder: TempDir,
    watchdog: Child,
    input: Option<ChildStdin>,
}

impl Dockerd {
    /// Starts a daemon without a bridge or firewall rules, and waits until it responds.
    ///
    /// # Panics
    /// Panics if dockerd, containerd or runc is not installed, or if dockerd does not respond
    /// within 5 minutes.
    pub fn start() -> Self {
        for program in ["dockerd", "containerd", "runc"] {
            assert!(is_there(program), "{program} is missing: apt-get install docker.io");
        }
        let folder = temporary("bp-docker-");
        let path = |name: &str| folder.path().join(name);
        let mut command = Command::new("sh");
        command.args(["-c", WATCHDOG, "sh"]).arg(folder.path()).arg("dockerd");
        command.arg("--data-root").arg(path("data")).arg("--exec-root").arg(path("exec"));
        command.arg("--pidfile").arg(path("pid"));
        command.arg("--host").arg(format!("unix://{}", path("docker.sock").display()));
        command.args(["--iptables=false", "--ip-masq=false", "--bridge=none"]);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut watchdog = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh runs");
        let input = watchdog.stdin.take();
        let daemon = Self { folder, watchdog, input };
        daemon.wait();
        daemon
    }

    fn wait(&self) {
        let deadline = Instant::now() + ANSWER;
        while UnixStream::connect(self.socket()).is_err() {
            let log = || fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "dockerd does not respond: {}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills the daemon and waits until it has ended. Processes in containers keep running.
    ///
    /// # Panics
    /// Panics if the daemon is not running.
    pub fn kill(&self) {
        let pid = fs::read_to_string(self.folder.path().join("pid")).expect("dockerd runs");
        let killed =
            Command::new("kill").args(["-KILL", pid.trim()]).status().expect("`kill` runs");
        assert!(killed.success(), "dockerd had ended");
        while UnixStream::connect(self.socket()).is_ok() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Starts the killed daemon again, with its data, and waits until it responds.
    ///
    /// # Panics
    /// Panics if the daemon does not respond within 5 minutes.
    pub fn start_again(&self) {
        let mut input = self.input.as_ref().expect("it is not dropped");
        input.write_all(b"\n").expect("the watchdog is running");
        self.wait();
    }

    /// Returns its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("docker.sock")
    }

    /// Runs the docker client against the daemon, and returns the lines of its output, sorted.
    ///
    /// # Panics
    /// Panics if docker fails.
    pub fn docker(&self, arguments: &[&str]) -> Vec<String> {
        let mut command = Command::new("docker");
        command.arg("--host").arg(format!("unix://{}", self.socket().display()));
        said(command.env("DOCKER_BUILDKIT", "0").args(arguments))
    }

    /// Returns the processes whose root file system is a container of this daemon.
    pub fn container_processes(&self) -> Vec<u32> {
        processes_below(&self.folder.path().join("data"))
    }
}

impl Drop for Dockerd {
    fn drop(&mut self) {
        drop(self.input.take());
        drop(self.watchdog.wait());
        unmount_below(self.folder.path());
    }
}

/// Returns the processes for which `is_it` returns `true`.
pub(crate) fn processes(is_it: impl Fn(u32) -> bool) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc can be listed").flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|pid| is_it(*pid)).collect()
}

/// Returns the parent of a process.
pub fn parent_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

/// Kills a process and its child processes at the same time, so that none of them can clean up
/// after another.
pub fn kill_with_children(pid: u32) {
    let children = processes(|child| parent_of(child) == Some(pid));
    let all = std::iter::once(pid).chain(children).map(|pid| pid.to_string());
    let killed = Command::new("kill").arg("-KILL").args(all).status().expect("`kill` runs");
    assert!(killed.success(), "process {pid} had ended");
}

/// Returns the processes whose root is an overlay with its upper layer in `folder`.
fn processes_below(folder: &Path) -> Vec<u32> {
    let upper = format!("upperdir={}/", folder.display());
    processes(|pid| {
        let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        mounts.lines().any(|line| line.contains(" / / ") && line.contains(&upper))
    })
}

/// Unmounts everything that is mounted in a folder, the deepest mounts first.
fn unmount_below(folder: &Path) {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut points: Vec<&str> = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .filter(|point| Path::new(point).starts_with(folder))
        .collect();
    points.sort_unstable();
    for point in points.iter().rev() {
        drop(Command::new("umount").args(["--lazy", point]).stderr(Stdio::null()).status());
    }
}

/// Returns a tar of a root file system that contains only Debian's static busybox.
///
/// # Panics
/// Panics if `busybox-static` is not installed.
pub fn busybox_root() -> Vec<u8> {
    let busybox = fs::read("/bin/busybox").expect("/bin/busybox: apt-get install busybox-static");
    let mut tar = tar::Builder::new(Vec::new());
    let folder = |archive: &mut tar::Builder<Vec<u8>>, name: &str, mode: u32| {
        let mut entry = tar::Header::new_ustar();
        entry.set_entry_type(tar::EntryType::Directory);
        entry.set_mode(mode);
        entry.set_size(0);
        archive.append_data(&mut entry, name, std::io::empty()).expect("a folder fits");
    };
    for (name, mode) in [("bin/", 0o755), ("etc/", 0o755), ("tmp/", 0o1777)] {
        folder(&mut tar, name, mode);
    }
    let mut header = tar::Header::new_ustar();
    header.set_mode(0o755);
    header.set_size(busybox.len() as u64);
    tar.append_data(&mut header, "bin/busybox", busybox.as_slice()).expect("busybox fits");
    let list = Command::new("/bin/busybox").arg("--list").output().expect("busybox runs");
    let names = String::from_utf8(list.stdout).expect("names are text");
    for name in names.lines().filter(|name| *name != "busybox") {
        let mut link = tar::Header::new_ustar();
        link.set_entry_type(tar::EntryType::Symlink);
        link.set_mode(0o777);
        link.set_size(0);
        tar.append_link(&mut link, format!("bin/{name}"), "busybox").expect("a link fits");
    }
    tar.into_inner().expect("the tar ends")
}
