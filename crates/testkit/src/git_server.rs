//! Real git servers on loopback: `git daemon`, and smart HTTP through git's own `http-backend`.
//!
//! [`GitFolder`] creates repositories with `git`, without the machine's configuration; both servers
//! serve all repositories in the folder.

use std::fs;
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::http::{Head, read_body, serve};

/// A temporary folder of git repositories.
#[derive(Debug)]
pub struct GitFolder {
    folder: tempfile::TempDir,
}

/// Returns a `git` command without the machine's configuration, and with a fixed time and author.
fn git(folder: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(folder).env_clear().args([
        "-c",
        "init.defaultBranch=main",
        "-c",
        "protocol.file.allow=always",
        "-c",
        "gc.auto=0",
    ]);
    for (key, value) in [
        ("PATH", std::env::var("PATH").unwrap_or_default().as_str()),
        ("HOME", "/nonexistent"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_AUTHOR_NAME", "A"),
        ("GIT_AUTHOR_EMAIL", "a@example.org"),
        ("GIT_AUTHOR_DATE", "1700000000 +0000"),
        ("GIT_COMMITTER_NAME", "A"),
        ("GIT_COMMITTER_EMAIL", "a@example.org"),
        ("GIT_COMMITTER_DATE", "1700000000 +0000"),
    ] {
        command.env(key, value);
    }
    command
}

impl GitFolder {
    /// Creates an empty folder.
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("git-folder-").tempdir();
        Self { folder: folder.expect("a temporary folder") }
    }

    /// Returns the folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs `git` in `repository` and returns its output.
    ///
    /// # Panics
    /// Panics if git fails.
    pub fn run(&self, repository: &str, arguments: &[&str]) -> String {
        let output = git(&self.path().join(repository)).args(arguments).output();
        let output = output.expect("git runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {said}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Creates a repository with a work tree.
    pub fn init(&self, repository: &str) {
        fs::create_dir_all(self.path().join(repository)).expect("a folder");
        self.run(repository, &["init", "-q"]);
        self.run(repository, &["config", "uploadpack.allowFilter", "true"]);
    }

    /// Writes a file in the work tree.
    pub fn write(&self, repository: &str, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path().join(repository).join(path);
        fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("a folder");
        fs::write(path, bytes).expect("a file");
    }

    /// Commits all changes and returns the commit.
    pub fn commit(&self, repository: &str) -> String {
        self.run(repository, &["add", "-A"]);
        self.run(repository, &["commit", "-q", "--allow-empty", "-m", "a change"]);
        self.run(repository, &["rev-parse", "HEAD"])
    }
}

impl Default for GitFolder {
    fn default() -> Self {
        Self::new()
    }
}

/// A running `git daemon`. It ends when this value is dropped.
#[derive(Debug)]
pub struct GitDaemon {
    port: u16,
    child: Child,
}

impl GitDaemon {
    /// Starts a daemon for all repositories of `folder` and waits until it responds.
    ///
    /// # Panics
    /// Panics if no daemon responds: there are 5 attempts of at most 5 minutes.
    pub fn start(folder: &Path) -> Self {
        // Another process may take the free port before the server uses it.
        let started = (0..5).find_map(|_| Self::try_start(folder));
        started.expect("git daemon does not respond")
    }

    fn try_start(folder: &Path) -> Option<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        // `git daemon` starts another process. Here, that process is started directly, so that
        // killing the child stops it.
        let core = Command::new("git").arg("--exec-path").output().expect("git runs").stdout;
        let program = PathBuf::from(String::from_utf8_lossy(&core).trim()).join("git-daemon");
        let mut command = Command::new(program);
        command.env_clear().current_dir(folder);
        command.envs(git(folder).get_envs().filter_map(|(key, value)| Some((key, value?))));
        let child = command
            .args(["--export-all", "--reuseaddr", "--listen=127.0.0.1"])
            .arg(format!("--port={port}"))
            .arg(format!("--base-path={}", folder.display()))
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("git-daemon is installed");
        let mut this = Self { port, child };
        let deadline = Instant::now() + Duration::from_secs(300);
        while Instant::now() < deadline {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(this);
            }
            if !matches!(this.child.try_wait(), Ok(None)) {
                return None;
            }
            thread::sleep(Duration::from_millis(10));
        }
        None
    }

    /// Returns the URL of a repository.
    pub fn url(&self, repository: &str) -> String {
        format!("git://127.0.0.1:{}/{repository}", self.port)
    }
}

impl Drop for GitDaemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A server for smart HTTP, which runs `git http-backend` for each request.
#[derive(Debug)]
pub struct GitHttp {
    port: u16,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    folder: PathBuf,
    configuration: Mutex<Vec<String>>,
    is_old: AtomicBool,
    requests: AtomicUsize,
    is_closed: AtomicBool,
}

impl GitHttp {
    /// Starts a server for all repositories of `folder`.
    pub fn start(folder: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::new(State {
            folder: folder.to_owned(),
            configuration: Mutex::default(),
            is_old: AtomicBool::new(false),
            requests: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
        });
        let (shared, serving) = (Arc::clone(&state), Arc::clone(&state));
        let is_closed = move || shared.is_closed.load(Ordering::Relaxed);
        // It is not a server error if a client disconnects.
        serve(listener, is_closed, move |stream| drop(serving.connection(stream)));
        Self { port, state }
    }

    /// Returns the server's `127.0.0.1:port`.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the URL of a repository.
    pub fn url(&self, repository: &str) -> String {
        format!("http://{}/{repository}", self.host())
    }

    /// Sets `key=value` in git's configuration for the server.
    pub fn configure(&self, setting: &str) {
        let mut settings = self.state.configuration.lock().unwrap_or_else(PoisonError::into_inner);
        settings.push(setting.to_owned());
    }

    /// Makes the server use only protocol 0, whatever the client requests.
    pub fn be_old(&self) {
        self.state.is_old.store(true, Ordering::Relaxed);
    }

    /// Returns the number of requests so far.
    pub fn requests(&self) -> usize {
        self.state.requests.load(Ordering::Relaxed)
    }
}

impl Drop for GitHttp {
    fn drop(&mut self) {
        self.state.is_closed.store(true, Ordering::Relaxed);
        // This wakes the thread that waits for connections.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl State {
    fn connection(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut writer = stream.try_clone()?;
        let mut reader = BufReader::new(stream);
        while let Some(head) = Head::read(&mut reader)? {
            self.requests.fetch_add(1, Ordering::Relaxed);
            let body = read_body(&head, &mut reader, false)?;
            let answer = self.backend(&head, &body)?;
            let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(0);
            let text = String::from_utf8_lossy(&answer[..end]).into_owned();
            let mut status = "200 OK".to_owned();
            let mut headers = Vec::new();
            for line in text.lines() {
                match line.split_once(": ") {
                    Some(("Status", value)) => status = value.to_owned(),
                    _ => headers.push(line.to_owned()),
                }
            }
            let answer_body = answer.get(end + 4..).unwrap_or_default();
            headers.push(format!("Content-Length: {}", answer_body.len()));
            let answer_head = format!("HTTP/1.1 {status}\r\n{}\r\n\r\n", headers.join("\r\n"));
            writer.write_all(answer_head.as_bytes())?;
            writer.write_all(answer_body)?;
        }
        Ok(())
    }

    fn backend(&self, head: &Head, body: &[u8]) -> std::io::Result<Vec<u8>> {
        let target = head.word(1);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut command = git(&self.folder);
        for setting in self.configuration.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            command.args(["-c", setting]);
        }
        let mut child = command
            .arg("http-backend")
            .env("GIT_PROJECT_ROOT", &self.folder)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("PATH_INFO", path)
            .env("QUERY_STRING", query)
            .env("REQUEST_METHOD", head.word(0))
            .env("CONTENT_TYPE", head.get("content-type").unwrap_or_default())
            .env("CONTENT_LENGTH", body.len().to_string())
            .env(
                "GIT_PROTOCOL",
                if self.is_old.load(Ordering::Relaxed) {
                    ""
                } else {
                    head.get("git-protocol").unwrap_or_default()
                },
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut input = child.stdin.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
        let body = body.to_owned();
        // The backend may respond before it has read the whole request.
        let feed = thread::spawn(move || drop(input.write_all(&body)));
        let mut answer = Vec::new();
        if let Some(mut output) = child.stdout.take() {
            output.read_to_end(&mut answer)?;
        }
        drop(feed.join());
        child.wait()?;
        Ok(answer)
    }
}
