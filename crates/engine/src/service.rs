//! A podman service of our own, which ends when we do, whatever ends us.
//!
//! podman 4.3 goes on with a `RUN` when its client leaves; only a SIGTERM to the service stops it
//! and removes its container. So each build has a service of its own, and to cancel a build is to
//! end its service.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStdin, Command};

use crate::error::EngineError;

/// How long a service may take until it answers: with a cold cache and a large store, seconds.
const START: Duration = Duration::from_secs(30);
/// How long a service may take to end its containers.
const STOP: Duration = Duration::from_secs(20);
/// How much of what a service says is kept for an error, in bytes.
const WORDS: usize = 8 << 10;

/// Runs podman until its own standard input ends, which it does however we end; then asks it to
/// stop, and insists after 10 s. `$1` is the folder of this service, the rest is the command.
///
/// When we are killed, the connection and the service end at once, and podman leaves its `RUN`
/// behind. Its bundle lies in our folder and tells its process, which is then ended here. The
/// folder goes only if nothing is mounted in it: removing would reach through the mount.
///
/// `PR_SET_PDEATHSIG` would act when the *thread* ends that started the child, which in an
/// asynchronous runtime may be at any time.
const KEEPER: &str = r#"folder=$1; shift
exec 3<&0
"$@" </dev/null 3<&- & podman=$!
{ read -r _ <&3; exec 3<&-; kill -TERM $podman
  for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1; kill -0 $podman || exit 0; done
  kill -KILL $podman; } >/dev/null 2>&1 & reader=$!
exec 3<&-
wait $podman; status=$?
kill $reader 2>/dev/null
for bundle in "$folder"/buildah*; do
  pid=$(cat "$bundle/pid" 2>/dev/null) || continue
  grep -q "${bundle##*/}" "/proc/$pid/mountinfo" "/proc/$pid/cgroup" && kill -KILL "$pid"
done 2>/dev/null
grep -qF " $folder/" /proc/self/mountinfo || rm -rf "$folder"
exit $status"#;

/// How to start a podman service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceSettings {
    /// The program, by name or path.
    pub program: PathBuf,
    /// Options before `system service`, such as `--root`.
    pub arguments: Vec<OsString>,
    /// The OCI runtime (`--runtime`), where podman's default does not work.
    pub runtime: Option<String>,
    /// A folder of ours for sockets. Its path is short: a socket's path has at most 107 bytes.
    pub sockets: PathBuf,
    /// A folder of ours on a disk with room: podman unpacks each build context below it.
    pub scratch: PathBuf,
}

/// A running service. It is stopped when this is dropped; [`Service::stop`] also waits for it.
#[derive(Debug)]
pub(crate) struct Service {
    socket: PathBuf,
    child: Child,
    /// Its end is what tells the keeper to stop podman.
    input: Option<ChildStdin>,
    words: Arc<Mutex<Vec<u8>>>,
}

impl Service {
    /// Starts a service and waits until it answers.
    pub(crate) async fn start(settings: &ServiceSettings) -> Result<Self, EngineError> {
        static STARTED: AtomicU64 = AtomicU64::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("podman-{}-{number}", std::process::id());
        let failed = |reason: String| EngineError::Service {
            program: settings.program.display().to_string(),
            reason,
        };
        let scratch = settings.scratch.join(&name);
        for folder in [&settings.sockets, &scratch] {
            std::fs::create_dir_all(folder)
                .map_err(|error| failed(format!("cannot make `{}`: {error}", folder.display())))?;
        }
        let socket = settings.sockets.join(format!("{name}.sock"));
        // Left by a process with our number, which is gone.
        drop(std::fs::remove_file(&socket));
        let mut command = Command::new("sh");
        command.args(["-c", KEEPER, "sh"]).arg(&scratch).arg(&settings.program);
        command.args(&settings.arguments);
        if let Some(runtime) = &settings.runtime {
            command.args(["--runtime", runtime]);
        }
        command.args(["system", "service", "--time", "0"]);
        command.arg(format!("unix://{}", socket.display()));
        command.env("TMPDIR", &scratch);
        // Ctrl-C at a terminal goes to the whole group; whether a build ends is ours to decide.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let input = child.stdin.take();
        let words = Arc::new(Mutex::new(Vec::new()));
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(listen(stderr, Arc::clone(&words)));
        }
        let mut service = Self { socket, child, input, words };
        service.wait_until_it_answers().await.map_err(failed)?;
        Ok(service)
    }

    async fn wait_until_it_answers(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + START;
        loop {
            if UnixStream::connect(&self.socket).await.is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                // Its last words may still be on their way.
                tokio::time::sleep(Duration::from_millis(50)).await;
                return Err(format!("it ended with {status}: {}", self.words()));
            }
            if Instant::now() > deadline {
                let words = self.words();
                return Err(format!("no answer after {} s: {words}", START.as_secs()));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns whether the service still runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Stops the service and all it runs, and waits until it is gone.
    pub(crate) async fn stop(mut self) {
        drop(self.input.take());
        if tokio::time::timeout(STOP, self.child.wait()).await.is_err() {
            tracing::warn!(socket = %self.socket.display(), "a podman service does not stop");
        }
    }

    fn words(&self) -> String {
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&words).trim().to_owned()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.input.take());
        drop(std::fs::remove_file(&self.socket));
    }
}

/// Keeps the last of what a service says.
async fn listen(mut stderr: tokio::process::ChildStderr, words: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = [0; 4096];
    while let Ok(length) = stderr.read(&mut buffer).await {
        if length == 0 {
            return;
        }
        let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
        words.extend_from_slice(&buffer[..length]);
        let excess = words.len().saturating_sub(WORDS);
        words.drain(..excess);
    }
}
