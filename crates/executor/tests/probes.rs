//! Probes run confined: hostile probes cannot reach the machine, neither as root nor as an ordinary
//! user.

#![expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "test helpers may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use executor::{CANNOT_CONFINE, Confinement, Edited, Tools};
use keyutils::{Keyring, keytypes};
use patcher::{ProbeJob, ProbeRun, Probes as _, Tool};

fn tools() -> Tools {
    Tools::new("/usr/bin:/bin".as_ref())
        .launched_by(env!("CARGO_BIN_EXE_probe-helper").as_ref())
        .limited_to(Duration::from_secs(120), 4 << 20)
}

fn python(script: &str) -> ProbeJob {
    ProbeJob {
        patch: "a".to_owned(),
        probe: "b".to_owned(),
        tool: Tool::Python,
        arguments: ["-I", "-B", "-"].map(str::to_owned).to_vec(),
        stdin: script.as_bytes().to_vec(),
        files: BTreeMap::from([("sub/a.txt".to_owned(), b"text".to_vec())]),
    }
}

/// Returns the output of a script that must have succeeded.
fn printed(run: ProbeRun) -> String {
    match run {
        ProbeRun::Ended { success: true, stdout, .. } => String::from_utf8(stdout).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn stopped(run: &ProbeRun) -> &str {
    match run {
        ProbeRun::Stopped { reason } => reason,
        other => panic!("{other:?}"),
    }
}

/// Returns whether a process of this machine has these arguments.
fn is_running(line: &str) -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        fs::read(entry.path().join("cmdline")).is_ok_and(|found| found == line.as_bytes())
    })
}

/// A killed process ends when the kernel next schedules it, which takes a while on a busy machine.
fn wait_until_gone(line: &str) {
    let begun = Instant::now();
    while is_running(line) {
        assert!(begun.elapsed() < Duration::from_secs(300), "a process of the probe is left");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs this test binary's test `name` again as an ordinary user, from a copy that this user can
/// read.
fn as_ordinary_user(name: &str) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let open = |path: &Path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    open(folder.path());
    let copy = |from: &Path, to: &str| {
        let to = folder.path().join(to);
        fs::copy(from, &to).unwrap();
        open(&to);
        to
    };
    let test = copy(&std::env::current_exe().unwrap(), "test");
    let helper = copy(env!("CARGO_BIN_EXE_probe-helper").as_ref(), "helper");
    // This test needs Debian's `util-linux`.
    let ran = Command::new("setpriv")
        .args(["--reuid", "4321", "--regid", "4321", "--clear-groups"])
        .arg(test)
        .args(["--exact", name, "--nocapture"])
        .env("PROBE_HELPER", helper)
        .current_dir("/")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{told}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(told.contains("1 passed"), "{told}");
}

/// The tools, also for the copy of this test that an ordinary user runs.
fn tools_of_user() -> Tools {
    match std::env::var_os("PROBE_HELPER") {
        Some(helper) => tools().launched_by(helper.as_ref()),
        None => tools(),
    }
}

#[test]
fn a_probe_sees_its_files_and_nothing_of_the_environment() {
    let script = "import os\nprint(sorted(os.listdir('.')), open('sub/a.txt').read())\n\
         print(sorted(set(os.environ) - {'LC_CTYPE'}))";
    let told = printed(tools().run(&python(script)));
    assert_eq!(told, "['sub'] text\n['LC_ALL', 'PATH', 'TMPDIR']\n");
}

/// Tries to change, read and reach what is outside the jail, and prints each success. Nothing
/// here harms a machine on which it succeeds: a test of confinement must not rely on confinement.
const HOSTILE: &str = r#"
import ctypes, os, socket, sys
outside, port = sys.argv[1], int(sys.argv[2])
def attempt(name, call):
    try:
        if call() is False:
            return
    except OSError:
        return
    print("reached:", name)
if 0 in os.getresuid() or 0 in os.getresgid() or 0 in os.getgroups():
    print("reached: root", os.getresuid(), os.getresgid(), os.getgroups())
for path in ["/", "/tree", "/tree/sub", "/tree/sub/a.txt", "/usr", "/usr/bin", "/etc", "/dev", "/opt"]:
    attempt("write " + path, lambda: os.access(path, os.W_OK))
attempt("write outside", lambda: open(outside + "/probe", "w").write("x"))
home = os.path.expanduser("~")
for path in [outside + "/secret", home if home != "/" else "/root", "/root", "/home", "/etc/passwd", "/etc/shadow", "/proc/self/environ", "/proc/1/root", "/sys/kernel", "/run", "/var", "/dev/tty", "/dev/kmsg", "/dev/mem"]:
    attempt("read " + path, lambda: os.listdir(path) if os.path.isdir(path) else open(path).read(1))
attempt("change a mode", lambda: os.chmod("/tree/sub/a.txt", 0o777))
attempt("unlink", lambda: os.unlink("/tree/sub/a.txt"))
def connect(family, address):
    found = socket.socket(family, socket.SOCK_STREAM)
    found.settimeout(5)
    found.connect(address)
attempt("the network", lambda: connect(socket.AF_INET, ("127.0.0.1", port)))
attempt("a socket of the host", lambda: connect(socket.AF_UNIX, "\0probe-test-" + str(port)))
libc = ctypes.CDLL(None, use_errno=True)
def key():
    keyctl, search, session = {"x86_64": 250, "aarch64": 219}[os.uname().machine], 10, -3
    return libc.syscall(keyctl, search, session, b"user", b"probe-test", 0) > 0
attempt("a key", key)
attempt("a raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("a mount namespace", lambda: libc.unshare(0x00020000) == 0)
attempt("chroot", lambda: os.chroot("/"))
attempt("host name", lambda: socket.sethostname(socket.gethostname()))
def device():
    os.mknod("/tmp/probe-device", 0o600 | 0o020000, os.makedev(1, 3))
    os.unlink("/tmp/probe-device")
attempt("a device", device)
for pid in range(2, 400):
    if pid != os.getpid():
        attempt("a process", lambda: os.kill(pid, 0))
for descriptor in range(3, 1024):
    attempt("a descriptor", lambda: os.fstat(descriptor))
with open("/tmp/probe-own", "w") as own:
    own.write("x")
os.unlink("/tmp/probe-own")
print("done")
"#;

#[test]
fn a_hostile_probe_reaches_nothing() {
    let outside = tempfile::tempdir().unwrap();
    fs::set_permissions(outside.path(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let name = SocketAddr::from_abstract_name(format!("probe-test-{port}"));
    let _socket = std::os::unix::net::UnixListener::bind_addr(&name.unwrap()).unwrap();
    // A descriptor that a shell left open.
    let held = fs::File::open(outside.path().join("secret")).unwrap();
    rustix::io::fcntl_setfd(&held, rustix::io::FdFlags::empty()).unwrap();
    // A container may refuse keys; then no probe can have one.
    let has_key = Keyring::join_anonymous_session()
        .and_then(|mut session| {
            session.add_key::<keytypes::User, _, _>("probe-test", &b"secret"[..])
        })
        .is_ok();
    let mut job = python(HOSTILE);
    job.arguments.extend([outside.path().display().to_string(), port.to_string()]);
    assert_eq!(printed(tools_of_user().run(&job)), "done\n");
    assert_eq!(outside.path().read_dir().unwrap().count(), 1);
    // Without confinement the script reaches all this, so the attempts are real.
    let free = printed(tools_of_user().with_confinement(Confinement::Off).run(&job));
    for reached in [
        "write outside",
        "read /etc/passwd",
        "read /proc/self/environ",
        "the network",
        "a socket of the host",
    ] {
        assert!(free.contains(&format!("reached: {reached}")), "{reached}: {free}");
    }
    assert_eq!(free.contains("reached: a key"), has_key, "{free}");
    as_ordinary_user("a_hostile_probe_reaches_nothing");
}

#[test]
fn a_fork_bomb_is_bounded_and_gone() {
    let mark = format!("{}", 86_400 + std::process::id());
    let script = format!(
        "import os, subprocess\nfailed = False\nfor _ in range(5000):\n    try:\n        \
         subprocess.Popen(['sleep', '{mark}'], start_new_session=True)\n    except OSError:\n        \
         failed = True\n        break\nprint('bounded' if failed else 'not bounded')"
    );
    assert_eq!(printed(tools_of_user().run(&python(&script))), "bounded\n");
    wait_until_gone(&format!("sleep\0{mark}\0"));
    as_ordinary_user("a_fork_bomb_is_bounded_and_gone");
}

#[test]
fn memory_and_files_are_bounded() {
    for script in ["x = bytearray(3 << 30)", "open('/tmp/a', 'wb').write(bytes(100 << 20))"] {
        match tools().run(&python(script)) {
            ProbeRun::Ended { success: false, .. } => {}
            other => panic!("{script}: {other:?}"),
        }
    }
}

#[test]
fn processes_of_a_probe_end_with_it() {
    let mark = format!("{}", 186_400 + std::process::id());
    let script = format!(
        "import os, subprocess\nif os.fork() == 0:\n    os.setsid()\n    \
         subprocess.Popen(['sleep', '{mark}'], start_new_session=True).wait()\n\
         while not os.path.exists('/nowhere'):\n    break\nprint('ended')"
    );
    let begun = Instant::now();
    assert_eq!(printed(tools_of_user().run(&python(&script))), "ended\n");
    assert!(begun.elapsed() < Duration::from_secs(300));
    wait_until_gone(&format!("sleep\0{mark}\0"));
    as_ordinary_user("processes_of_a_probe_end_with_it");
}

#[test]
fn a_probe_that_takes_too_long_is_stopped_with_all_it_started() {
    let mark = format!("{}", 286_400 + std::process::id());
    let script = format!(
        "import subprocess\nsubprocess.Popen(['sleep', '{mark}'], start_new_session=True)\n\
         while True: pass"
    );
    let begun = Instant::now();
    let tools = tools_of_user().limited_to(Duration::from_millis(1500), 1000);
    assert_eq!(stopped(&tools.run(&python(&script))), "it took longer than 1.5 s");
    assert!(begun.elapsed() < Duration::from_secs(300));
    wait_until_gone(&format!("sleep\0{mark}\0"));
    as_ordinary_user("a_probe_that_takes_too_long_is_stopped_with_all_it_started");
}

/// The verdict must not depend on what else the machine does.
#[test]
fn a_probe_that_uses_too_much_cpu_time_is_stopped_and_one_that_waits_is_not() {
    let tools = tools_of_user();
    assert_eq!(
        stopped(&tools.run(&python("while True: pass"))),
        "it used more than 10 s of CPU time"
    );
    assert_eq!(printed(tools.run(&python("import time\ntime.sleep(12)\nprint('done')"))), "done\n");
}

#[test]
fn a_killed_tool_takes_its_probe_along() {
    // This test binary is the tool: the inner run starts a probe that never ends.
    let mark = format!("{}", 386_400 + std::process::id());
    if let Some(mark) = std::env::var_os("PROBE_THAT_SLEEPS") {
        let mark = mark.to_str().unwrap();
        let script = format!("import os\nos.setsid()\nos.execvp('sleep', ['sleep', '{mark}'])");
        tools().run(&python(&script));
        return;
    }
    let mut tool = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_killed_tool_takes_its_probe_along"])
        .env("PROBE_THAT_SLEEPS", &mark)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let line = format!("sleep\0{mark}\0");
    let begun = Instant::now();
    while !is_running(&line) {
        assert!(begun.elapsed() < Duration::from_secs(300), "the probe does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    tool.kill().unwrap();
    tool.wait().unwrap();
    wait_until_gone(&line);
}

#[test]
fn a_probe_that_prints_too_much_is_stopped() {
    let tools = tools().limited_to(Duration::from_secs(300), 1000);
    let run = tools.run(&python("print('x' * 100000)"));
    assert_eq!(stopped(&run), "it printed more than 1000 bytes");
}

#[test]
fn a_missing_tool_is_no_pass() {
    let empty = tempfile::tempdir().unwrap();
    let not_run = |path: &Path| match Tools::new(path.as_os_str()).run(&python("")) {
        ProbeRun::NotRun { reason } => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(not_run(empty.path()), "python3 is not installed");
    // A program outside the system folders is code that nobody installed for this purpose.
    let own = empty.path().join("python3");
    fs::write(&own, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(not_run(empty.path()).contains("is not in a system folder"));
}

#[test]
fn a_failure_is_told_with_its_last_words() {
    match tools().run(&python("raise SystemExit('no such list')")) {
        ProbeRun::Ended { success: false, stderr, .. } => assert_eq!(stderr, b"no such list\n"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_machine_that_cannot_confine_runs_nothing_unless_asked_to() {
    // Set in a user namespace that allows no further namespaces, as in many containers.
    const INNER: &str = "PROBE_WITHOUT_NAMESPACES";
    if std::env::var_os(INNER).is_some() {
        let mark = std::env::temp_dir().join(format!("probe-ran-{}", std::process::id()));
        let job = python(&format!("open({:?}, 'w')", mark.display().to_string()));
        match tools().run(&job) {
            ProbeRun::NotRun { reason } => assert!(reason.starts_with(CANNOT_CONFINE), "{reason}"),
            other => panic!("{other:?}"),
        }
        assert!(!mark.exists());
        for asked in [Confinement::Preferred, Confinement::Off] {
            printed(tools().with_confinement(asked).run(&job));
            fs::remove_file(&mark).unwrap();
        }
        return;
    }
    let test = "a_machine_that_cannot_confine_runs_nothing_unless_asked_to";
    let shell = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\"";
    let ran = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", shell])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INNER, "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{told}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(told.contains("1 passed"), "{told}");
}

#[test]
fn a_program_changes_a_copy_of_one_file() {
    let edit = |script: &str| {
        let arguments = ["-i", script, "a.txt"].map(str::to_owned);
        tools().edit("sed", &arguments, "a.txt", b"one\n")
    };
    assert_eq!(edit("s/one/two/"), Edited::Content(b"two\n".to_vec()));
    assert!(matches!(edit("s/one"), Edited::Failed(told) if told.contains("unterminated")));
    let outside = tempfile::tempdir().unwrap();
    edit(&format!("w {}/x", outside.path().display()));
    assert_eq!(outside.path().read_dir().unwrap().count(), 0);
}
