//! A private podman service that ends together with this process, however the process ends.
//!
//! podman 4.3 continues a `RUN` when its client disconnects. So each build has its own service, and
//! cancelling a build means stopping its service: [`WATCHDOG`] does that, and also kills the `RUN`
//! processes.

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

/// How long a service may take to answer. With a cold cache and a large store, this takes seconds;
/// on a busy machine, it takes longer. If a service cannot start, it exits and there is no wait.
const START: Duration = Duration::from_secs(120);
/// How long to wait for the remaining output of a service that has ended. Another process may hold
/// its standard error open.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How long the watchdog may take to stop a service. It sends SIGKILL after 10 s.
const STOP: Duration = Duration::from_secs(60);
/// How much of a service's output is kept for an error, in bytes.
const WORDS: usize = 8 << 10;

/// The script that starts podman, and stops it together with everything that it runs.
///
/// It runs as a separate process, so that it outlives this one. `PR_SET_PDEATHSIG` would take
/// effect when the *thread* that started the child ends, which in an asynchronous runtime can
/// happen at any time. Its standard output is the locked folder: if a folder is not locked, its
/// watchdog was killed.
const WATCHDOG: &str = include_str!("watchdog.sh");

/// The purpose of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// One build. When told to stop, podman waits up to its idle timeout (`--time`) for the build
    /// to remove its container. The watchdog does not wait that long.
    Build,
    /// Any calls, at any time. When told to stop, podman takes at most a second.
    Calls,
}

/// How to start a podman service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceSettings {
    /// The program, by name or path.
    pub program: PathBuf,
    /// Options before `system service`, such as `--root`.
    pub arguments: Vec<OsString>,
    /// The OCI runtime (`--runtime`), if podman's default does not work.
    pub runtime: Option<String>,
    /// This tool's folder for sockets. Its path must be short, because a socket's path has at most
    /// 107 bytes.
    pub sockets: PathBuf,
    /// This tool's folder on a disk with enough space. podman unpacks each build context there.
    pub scratch: PathBuf,
    /// This tool's folder for caches of `RUN --mount=type=cache`, which persist between builds.
    pub caches: PathBuf,
    /// podman's folder for its own state (`XDG_RUNTIME_DIR`), if it would put it into `TMPDIR`.
    pub state: Option<PathBuf>,
}

/// How much a folder for podman's service must be able to take, in bytes.
const TRIAL: usize = 64 << 10;

impl ServiceSettings {
    /// Returns the first folder for the service that cannot be written, with the reason.
    pub fn unusable_folder(&self) -> Option<(&Path, io::Error)> {
        let folders = [&self.scratch, &self.caches, &self.sockets];
        folders.into_iter().find_map(|folder| Some((folder.as_path(), trial(folder).err()?)))
    }
}

/// Creates a folder, and a file in it, which is removed.
fn trial(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let path = folder.join(format!(".trial-{}", std::process::id()));
    let written = fs::write(&path, [1; TRIAL]);
    drop(fs::remove_file(&path));
    written
}

/// A running service. Dropping it stops it; [`Service::stop`] also waits for the end.
#[derive(Debug)]
pub(crate) struct Service {
    socket: PathBuf,
    child: Child,
    /// When this closes, the watchdog stops podman.
    input: Option<ChildStdin>,
    words: Arc<Mutex<Vec<u8>>>,
    /// Reads the service's standard error.
    listener: Option<JoinHandle<()>>,
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
        let mut command = place.watchdog();
        command.arg(&settings.program).args(&settings.arguments);
        if let Some(runtime) = &settings.runtime {
            command.args(["--runtime", runtime]);
        }
        let idle = if purpose == Purpose::Build { "60" } else { "0" };
        command.args(["system", "service", "--time", idle]);
        command.arg(format!("unix://{}", place.socket.display()));
        if let Some(folder) = &settings.state {
            command.env("XDG_RUNTIME_DIR", folder);
        }
        command.env("TMPDIR", &place.folder);
        command.stdin(Stdio::piped()).stdout(Stdio::from(place.lock)).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        // This also drops this process's copy of the lock.
        drop(command);
        let input = child.stdin.take();
        let words = Arc::new(Mutex::new(Vec::new()));
        let stderr = child.stderr.take();
        let listener = stderr.map(|stderr| tokio::spawn(listen(stderr, Arc::clone(&words))));
        let mut service = Self { socket: place.socket, child, input, words, listener };
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
                return Err(format!("it ended with {status}: {}", self.last_words().await));
            }
            if Instant::now() > deadline {
                let words = self.words();
                return Err(format!("no response after {} s: {words}", START.as_secs()));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns whether the service is still running.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Stops the service and everything that it runs, and waits until they have ended.
    pub(crate) async fn stop(mut self) {
        self.end().await;
    }

    /// Stops the service like [`Self::stop`], and returns the end of its output.
    pub(crate) async fn stop_and_report(mut self) -> String {
        self.end().await;
        self.last_words().await
    }

    async fn end(&mut self) {
        drop(self.input.take());
        if tokio::time::timeout(STOP, self.child.wait()).await.is_err() {
            tracing::warn!(socket = %self.socket.display(), "a podman service did not stop");
        }
    }

    /// Returns the end of the output of a service that has ended.
    async fn last_words(&mut self) -> String {
        // The last part may not have arrived yet.
        if let Some(listener) = self.listener.take() {
            drop(tokio::time::timeout(LAST_WORDS, listener).await);
        }
        self.words()
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

/// Keeps the end of a service's output.
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

/// The folder and socket of one service. The name is unique.
#[derive(Debug)]
struct Place {
    folder: PathBuf,
    socket: PathBuf,
    /// The folder itself, locked.
    lock: File,
}

impl Place {
    /// Creates the folder for a new service.
    fn claim(settings: &ServiceSettings) -> Result<Self, String> {
        static STARTED: AtomicU64 = AtomicU64::new(0);
        let failed = |folder: &Path, error: &io::Error| {
            format!("cannot create `{}`: {error}", folder.display())
        };
        for folder in [&settings.sockets, &settings.scratch, &settings.caches] {
            fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
        }
        loop {
            let number = STARTED.fetch_add(1, Ordering::Relaxed);
            // The process ID is not unique: processes in other containers, or before the last
            // reboot, may have had the same one.
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let salt = now.as_micros() & 0xf_ffff;
            let name = format!("{PREFIX}{}-{number}-{salt:05x}", std::process::id());
            let folder = settings.scratch.join(&name);
            match fs::create_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made.map_err(|error| failed(&folder, &error))?,
            }
            // A concurrent sweep may lock or remove the folder here. In that case, try again with
            // another name.
            let lock = match File::open(&folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened.map_err(|error| failed(&folder, &error))?,
            };
            if lock.try_lock().is_ok() && folder.is_dir() {
                // podman keeps caches in its TMPDIR, and they must outlive this folder. (Before
                // buildah 1.29 the name had no number.)
                let user = rustix::process::getuid().as_raw();
                for cache in ["buildah-cache".to_owned(), format!("buildah-cache-{user}")] {
                    std::os::unix::fs::symlink(&settings.caches, folder.join(cache))
                        .map_err(|error| failed(&folder, &error))?;
                }
                let socket = settings.sockets.join(format!("{name}.sock"));
                return Ok(Self { folder, socket, lock });
            }
        }
    }

    /// Locks a folder whose watchdog was killed, and returns it with its socket.
    fn left(settings: &ServiceSettings, folder: PathBuf) -> Option<Self> {
        let name = folder.file_name()?.to_str()?;
        // What a link refers to may belong to others.
        if !name.starts_with(PREFIX) || folder.is_symlink() {
            return None;
        }
        let lock = File::open(&folder).ok()?;
        lock.try_lock().ok()?;
        let socket = settings.sockets.join(format!("{name}.sock"));
        Some(Self { folder, socket, lock })
    }

    /// Returns the watchdog command, without the program that it runs.
    fn watchdog(&self) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", WATCHDOG, "sh"]).arg(&self.folder).arg(&self.socket);
        // The watchdog gets its own process group: Ctrl-C at a terminal reaches all processes of
        // the terminal's group, but only this process may stop a build.
        command.process_group(0);
        command
    }
}

/// The name prefix of this tool's folders and sockets.
const PREFIX: &str = "podman-";

/// Returns the folders and sockets that killed watchdogs left behind.
pub fn abandoned(settings: &ServiceSettings) -> Vec<PathBuf> {
    let sockets = sockets_left(settings).into_iter();
    sockets.chain(places_left(settings).into_iter().map(|place| place.folder)).collect()
}

fn places_left(settings: &ServiceSettings) -> Vec<Place> {
    let entries = fs::read_dir(&settings.scratch).into_iter().flatten().flatten();
    entries.filter_map(|entry| Place::left(settings, entry.path())).collect()
}

/// Returns the sockets on which nothing listens.
fn sockets_left(settings: &ServiceSettings) -> Vec<PathBuf> {
    let entries = fs::read_dir(&settings.sockets).into_iter().flatten().flatten();
    let is_left = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.and_then(|name| name.strip_suffix(".sock"));
        let Some(name) = name.filter(|name| name.starts_with(PREFIX)) else { return false };
        let refused = io::ErrorKind::ConnectionRefused;
        // A service that is starting already has its folder.
        !settings.scratch.join(name).is_dir()
            && std::os::unix::net::UnixStream::connect(path).is_err_and(|e| e.kind() == refused)
    };
    entries.map(|entry| entry.path()).filter(is_left).collect()
}

/// Ends the processes in folders that killed watchdogs left, and removes the folders and sockets.
/// Anything in use is kept. Returns what was removed.
pub async fn sweep(settings: &ServiceSettings) -> Vec<PathBuf> {
    let mut removed = sockets_left(settings);
    removed.retain(|socket| fs::remove_file(socket).is_ok());
    for place in places_left(settings) {
        let mut command = place.watchdog();
        command.stdin(Stdio::null()).stderr(Stdio::null());
        // The watchdog holds the lock until the folder is removed.
        command.stdout(Stdio::from(place.lock));
        if let Err(error) = command.status().await {
            tracing::warn!(%error, folder = %place.folder.display(), "cannot clean up a folder");
        }
        if !place.folder.exists() {
            removed.push(place.folder);
        }
    }
    removed
}
