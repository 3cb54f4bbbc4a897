//! A podman service of our own, which ends when we do, whatever ends us.
//!
//! podman 4.3 goes on with a `RUN` when its client leaves. So each build has a service of its own,
//! and to cancel a build is to end its service: [`KEEPER`] does that, and ends the `RUN`s itself.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinHandle;

use crate::error::EngineError;

/// How long a service may take until it answers: with a cold cache and a large store, seconds, and
/// more on a busy machine. A service that cannot start ends, and nobody waits for that one.
const START: Duration = Duration::from_secs(120);
/// How long is waited for the last words of a service that has ended. Another process may hold its
/// standard error.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How long the keeper may take to end a service: it insists after 10 s.
const STOP: Duration = Duration::from_secs(60);
/// How much of what a service says is kept for an error, in bytes.
const WORDS: usize = 8 << 10;

/// What starts podman, and ends it with all that it runs.
///
/// It is a process of its own, so that it outlives us. `PR_SET_PDEATHSIG` would act when the
/// *thread* ends that started the child, which in an asynchronous runtime may be at any time. Its
/// standard output is the folder, locked: a folder without a lock is of a keeper that was killed.
const KEEPER: &str = include_str!("keeper.sh");

/// What a service is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// One build. Told to stop, podman gives the build time to remove its container: as much as it
    /// may be idle, and the keeper does not wait that long.
    Build,
    /// Calls of any kind, at any time. Told to stop, podman takes at most a second.
    Calls,
}

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
    /// A folder of ours where `RUN --mount=type=cache` keeps what outlives a build.
    pub caches: PathBuf,
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
    pub(crate) async fn start(
        settings: &ServiceSettings,
        purpose: Purpose,
    ) -> Result<Self, EngineError> {
        let failed = |reason: String| EngineError::Service {
            program: settings.program.display().to_string(),
            reason,
        };
        let place = Place::claim(settings).map_err(failed)?;
        let mut command = place.keeper();
        command.arg(&settings.program).args(&settings.arguments);
        if let Some(runtime) = &settings.runtime {
            command.args(["--runtime", runtime]);
        }
        let idle = if purpose == Purpose::Build { "60" } else { "0" };
        command.args(["system", "service", "--time", idle]);
        command.arg(format!("unix://{}", place.socket.display()));
        command.env("TMPDIR", &place.folder);
        command.stdin(Stdio::piped()).stdout(Stdio::from(place.lock)).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        // With it goes our own copy of the lock.
        drop(command);
        let input = child.stdin.take();
        let words = Arc::new(Mutex::new(Vec::new()));
        let stderr = child.stderr.take();
        let listener = stderr.map(|stderr| tokio::spawn(listen(stderr, Arc::clone(&words))));
        let mut service = Self { socket: place.socket, child, input, words };
        service.wait_until_it_answers(listener).await.map_err(failed)?;
        Ok(service)
    }

    async fn wait_until_it_answers(
        &mut self,
        listener: Option<JoinHandle<()>>,
    ) -> Result<(), String> {
        let deadline = Instant::now() + START;
        loop {
            if UnixStream::connect(&self.socket).await.is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                // Its last words may still be on their way.
                if let Some(listener) = listener {
                    drop(tokio::time::timeout(LAST_WORDS, listener).await);
                }
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

/// Where one service lives. Nobody else has its name.
#[derive(Debug)]
struct Place {
    folder: PathBuf,
    socket: PathBuf,
    /// The folder itself, locked.
    lock: File,
}

impl Place {
    /// Makes a place for a service to start.
    fn claim(settings: &ServiceSettings) -> Result<Self, String> {
        static STARTED: AtomicU64 = AtomicU64::new(0);
        let failed = |folder: &Path, error: &io::Error| {
            format!("cannot make `{}`: {error}", folder.display())
        };
        for folder in [&settings.sockets, &settings.scratch, &settings.caches] {
            fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
        }
        loop {
            let number = STARTED.fetch_add(1, Ordering::Relaxed);
            // Processes in other containers, and those before the last start, had our number too.
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let salt = now.as_micros() & 0xf_ffff;
            let name = format!("{PREFIX}{}-{number}-{salt:05x}", std::process::id());
            let folder = settings.scratch.join(&name);
            match fs::create_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made.map_err(|error| failed(&folder, &error))?,
            }
            // Whoever sweeps may come between; then this one is not ours any more.
            let lock = match File::open(&folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened.map_err(|error| failed(&folder, &error))?,
            };
            if lock.try_lock().is_ok() && folder.is_dir() {
                // What podman keeps in its TMPDIR must not go with it. (Before buildah 1.29 the name
                // had no number.)
                let user = rustix::process::getuid().as_raw();
                for name in ["buildah-cache".to_owned(), format!("buildah-cache-{user}")] {
                    std::os::unix::fs::symlink(&settings.caches, folder.join(name))
                        .map_err(|error| failed(&folder, &error))?;
                }
                let socket = settings.sockets.join(format!("{name}.sock"));
                return Ok(Self { folder, socket, lock });
            }
        }
    }

    /// Returns the place of a folder whose keeper was killed.
    fn left(settings: &ServiceSettings, folder: PathBuf) -> Option<Self> {
        let name = folder.file_name()?.to_str()?;
        if !name.starts_with(PREFIX) {
            return None;
        }
        let lock = File::open(&folder).ok()?;
        lock.try_lock().ok()?;
        let socket = settings.sockets.join(format!("{name}.sock"));
        Some(Self { folder, socket, lock })
    }

    /// Returns the command of the keeper, without what it shall run.
    fn keeper(&self) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", KEEPER, "sh"]).arg(&self.folder).arg(&self.socket);
        // Ctrl-C at a terminal goes to the whole group; whether a build ends is ours to decide.
        command.process_group(0);
        command
    }
}

/// How the names of folders and sockets of ours begin.
const PREFIX: &str = "podman-";

/// Returns the folders and sockets that keepers left behind which were killed.
pub fn abandoned(settings: &ServiceSettings) -> Vec<PathBuf> {
    let sockets = sockets_left(settings).into_iter();
    sockets.chain(places_left(settings).into_iter().map(|place| place.folder)).collect()
}

fn places_left(settings: &ServiceSettings) -> Vec<Place> {
    let entries = fs::read_dir(&settings.scratch).into_iter().flatten().flatten();
    entries.filter_map(|entry| Place::left(settings, entry.path())).collect()
}

/// Returns the sockets at which nobody listens.
fn sockets_left(settings: &ServiceSettings) -> Vec<PathBuf> {
    let entries = fs::read_dir(&settings.sockets).into_iter().flatten().flatten();
    let is_left = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.and_then(|name| name.strip_suffix(".sock"));
        let Some(name) = name.filter(|name| name.starts_with(PREFIX)) else { return false };
        let refused = io::ErrorKind::ConnectionRefused;
        // A service that is just starting has its folder.
        !settings.scratch.join(name).is_dir()
            && std::os::unix::net::UnixStream::connect(path).is_err_and(|e| e.kind() == refused)
    };
    entries.map(|entry| entry.path()).filter(is_left).collect()
}

/// Ends what goes on in the folders that keepers left behind, and removes folders and sockets.
/// What is still in use is left alone. Returns what was removed.
pub async fn sweep(settings: &ServiceSettings) -> Vec<PathBuf> {
    let mut removed = sockets_left(settings);
    removed.retain(|socket| fs::remove_file(socket).is_ok());
    for place in places_left(settings) {
        let mut command = place.keeper();
        command.stdin(Stdio::null()).stderr(Stdio::null());
        // It holds the lock until the folder is gone.
        command.stdout(Stdio::from(place.lock));
        if let Err(error) = command.status().await {
            tracing::warn!(%error, folder = %place.folder.display(), "a folder cannot be swept");
        }
        if !place.folder.exists() {
            removed.push(place.folder);
        }
    }
    removed
}
