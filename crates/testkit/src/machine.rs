//! A guest that keeps running until it is dropped, with its own mounts, processes and engines.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Instant;

use tempfile::TempDir;

use crate::engines::{ANSWER, parent_of, processes, said, temporary};
use crate::guest::{AS_ORDINARY_USER, Guest};

/// Prepares the machine and keeps it running until standard input is closed; `$1` is its folder.
///
/// The stores of engines cannot be on an overlay, so they are in that folder. Podman's default
/// limits are replaced, because the machine that runs the tests may not allow them.
const WATCHDOG: &str = r#"set -eu
folder=$1
umount --lazy /proc; mount -t proc proc /proc
umount --recursive /sys/fs/cgroup || true
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /run/user/4242 /var/lib/containers "$folder/containers" "$folder/home"
mount --bind "$folder/containers" /var/lib/containers
chown 4242:4242 /run/user/4242 "$folder/home"; chmod 700 /run/user/4242
printf '[containers]\ndefault_ulimits = [%s]\npids_limit = 0\n[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n' \
  '"nofile=1024:1024", "nproc=1024:1024"' > /etc/containers/containers.conf
# Debian 12's crun raises a limit, which this machine may not allow.
if grep -q bookworm /etc/os-release; then
  echo 'runtime = "runc"' >> /etc/containers/containers.conf
fi
echo ready
# The first process must reap every process without a parent. This shell does so while it waits for a
# program. A test may kill that program.
exec 2> /dev/null
until cat > /dev/null; do :; done
"#;

/// The search path in a machine, after the shared programs.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// The ordinary user's folder for sockets and similar files.
const RUNTIME_FOLDER: &str = "/run/user/4242";

/// The user who runs a command in a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum User {
    /// root.
    Root,
    /// The ordinary user, for whom podman is rootless.
    Ordinary,
}

/// A guest that keeps running, with engines whose stores are deleted with it.
///
/// It has its own processes and mounts, but uses the network of this machine.
#[derive(Debug)]
pub struct Machine {
    folder: TempDir,
    watchdog: Child,
    /// The ID of the guest's first process, as seen from this machine.
    first: u32,
    input: Option<ChildStdin>,
}

impl Machine {
    /// Starts a machine. Each folder in `shared` has the same path in the machine; each program in
    /// `shared` is in `/usr/local/bin`.
    ///
    /// # Panics
    /// Panics if the test does not run as root.
    pub fn start(guest: &Guest, shared: &[&Path]) -> Self {
        let folder = temporary("bp-machine-");
        // The ordinary user has a store in this folder.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))
            .expect("the new folder belongs to this test");
        let shared = [shared, &[folder.path()]].concat();
        let mut command = guest.enter(&["--pid", "--fork", "--kill-child"], &shared, "sh");
        command.args(["-c", WATCHDOG, "sh"]).arg(folder.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut watchdog = command.spawn().expect("unshare runs");
        let input = watchdog.stdin.take();
        let mut line = String::new();
        let output = watchdog.stdout.take().expect("standard output is a pipe");
        BufReader::new(output).read_line(&mut line).expect("the machine's output can be read");
        assert_eq!(line, "ready\n", "the machine does not start");
        let first = processes(|pid| parent_of(pid) == Some(watchdog.id()));
        let first = *first.first().expect("the machine has a first process");
        Self { folder, watchdog, first, input }
    }

    /// Returns a command that runs in the machine. It has the arguments, environment variables and
    /// working directory of `command`. Its only other variables are the search path, the home
    /// folder and, for the ordinary user, a folder for sockets. The program is found in the
    /// machine's search path.
    pub fn inside(&self, user: User, command: &Command) -> Command {
        // The test runner may ignore interrupts, and every process that it starts would inherit
        // this.
        let mut entered = Command::new("env");
        entered.args(["--default-signal=INT", "nsenter"]);
        entered.args(["--target", &self.first.to_string(), "--mount", "--pid", "--"]);
        if user == User::Ordinary {
            entered.args(AS_ORDINARY_USER);
        }
        entered.args(["env", "--ignore-environment"]);
        if let Some(folder) = command.get_current_dir() {
            entered.arg(format!("--chdir={}", folder.display()));
        }
        entered.arg(format!("PATH=/usr/local/bin:{PATH}"));
        if user == User::Ordinary {
            entered.arg(format!("HOME={}", self.folder.path().join("home").display()));
            entered.arg(format!("XDG_RUNTIME_DIR={RUNTIME_FOLDER}"));
        } else {
            entered.arg("HOME=/root");
        }
        for (name, value) in command.get_envs() {
            if let Some(value) = value.filter(|_| name != "PATH") {
                entered.arg([name, value].join("=".as_ref()));
            }
        }
        let program = Path::new(command.get_program());
        entered.arg(program.file_name().expect("a program has a name")).args(command.get_args());
        entered
    }

    /// Runs a program that must succeed, and returns its output lines, sorted.
    ///
    /// # Panics
    /// Panics if the program fails.
    pub fn said(&self, user: User, program: &str, arguments: &[&str]) -> Vec<String> {
        let mut command = Command::new(program);
        command.args(arguments);
        said(&mut self.inside(user, &command))
    }

    /// Kills every process of the machine except the first one and the processes in containers.
    ///
    /// # Panics
    /// Panics if the machine has ended.
    pub fn kill_all(&self) {
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let ours = namespace(&self.first.to_string());
        assert!(ours.is_some() && ours != namespace("self"), "the machine has ended");
        // A killed process cannot start another one, so this loop ends.
        loop {
            let is_ours = |pid: u32| pid != self.first && namespace(&pid.to_string()) == ours;
            let left: Vec<String> = processes(is_ours).iter().map(u32::to_string).collect();
            if left.is_empty() {
                return;
            }
            // It is not an error if a process has already ended.
            let mut command = Command::new("kill");
            drop(command.arg("-KILL").args(left).stderr(Stdio::null()).status());
        }
    }

    /// Starts docker in the machine, with containerd's image store or docker's own. Returns its
    /// socket, which is in a folder that is shared with the machine.
    ///
    /// # Panics
    /// Panics if dockerd does not respond within 5 minutes, or was already started.
    pub fn start_docker(&self, has_containerd_store: bool) -> PathBuf {
        let path = |name: &str| self.folder.path().join(name);
        let (socket, settings, log) = (path("docker.sock"), path("daemon.json"), path("log"));
        let text =
            format!(r#"{{"features": {{"containerd-snapshotter": {has_containerd_store}}}}}"#);
        fs::write(&settings, text).expect("the test's own folder can be written");
        let log_file = fs::File::create_new(&log).expect("docker is started once");
        let mut command = Command::new("dockerd");
        command.arg("--config-file").arg(settings).arg("--data-root").arg(path("docker"));
        command.arg("--host").arg(format!("unix://{}", socket.display()));
        command.args(["--iptables=false", "--ip-masq=false", "--bridge=none"]);
        let mut command = self.inside(User::Root, &command);
        command.stdin(Stdio::null()).stdout(log_file.try_clone().expect("a file has two ends"));
        // The daemon ends with the machine.
        drop(command.stderr(log_file).spawn().expect("nsenter runs"));
        let deadline = Instant::now() + ANSWER;
        while UnixStream::connect(&socket).is_err() {
            let said = || fs::read_to_string(&log).unwrap_or_default();
            assert!(Instant::now() < deadline, "dockerd does not respond: {}", said());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        socket
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        drop(self.input.take());
        drop(self.watchdog.wait());
    }
}
