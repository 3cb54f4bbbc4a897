//! A proxy in front of an engine's socket. It causes faults that cannot be provoked in a real
//! engine.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tempfile::TempDir;

/// A proxy socket for an engine. Each connection carries one request, because build-pipeline sends
/// one request per connection.
#[derive(Debug)]
pub struct EngineProxy {
    folder: TempDir,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    upstream: PathBuf,
    /// The received request lines, in order.
    requests: Mutex<Vec<String>>,
    /// The number of builds to interrupt, starting with the next one.
    broken: AtomicUsize,
    /// The number of builds on a base, starting with the next one, that fail as if the engine had
    /// lost a cached image.
    lost: AtomicUsize,
    /// The number of pulls, starting with the next one, that fail as if containerd had lost a
    /// snapshot.
    lost_pulls: AtomicUsize,
    has_no_buildkit: AtomicBool,
    has_no_sizes: AtomicBool,
}

impl EngineProxy {
    /// Starts a proxy in front of the engine at a socket.
    ///
    /// # Panics
    /// Panics if no socket can be created.
    pub fn start(upstream: &Path) -> Self {
        // The path is short, because the path of a socket has at most 107 bytes.
        let folder = tempfile::Builder::new().prefix("bp-proxy-").tempdir_in("/tmp");
        let folder = folder.expect("a temporary folder");
        let state = Arc::new(State {
            upstream: upstream.to_owned(),
            requests: Mutex::default(),
            broken: AtomicUsize::new(0),
            lost: AtomicUsize::new(0),
            lost_pulls: AtomicUsize::new(0),
            has_no_buildkit: AtomicBool::new(false),
            has_no_sizes: AtomicBool::new(false),
        });
        let listener = UnixListener::bind(folder.path().join("s")).expect("a socket");
        let own = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), shared) = (client, Arc::clone(&own)) else { return };
                // Broken connections are the purpose of this proxy.
                thread::spawn(move || drop(shared.serve(client)));
            }
        });
        Self { folder, state }
    }

    /// Returns the proxy's socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    /// Closes the connections of the next `count` builds without a response.
    pub fn break_builds(&self, count: usize) {
        self.state.broken.store(count, Ordering::SeqCst);
    }

    /// Makes a docker daemon behave as one without BuildKit: it uses the classic builder even if
    /// the client requests BuildKit, as daemons before 18.09 do. All responses come from the daemon
    /// itself.
    pub fn remove_buildkit(&self) {
        self.state.has_no_buildkit.store(true, Ordering::SeqCst);
    }

    /// Refuses to list containers with their sizes, as docker 26 with the containerd image store
    /// does while a container lacks its layer.
    pub fn refuse_sizes(&self) {
        self.state.has_no_sizes.store(true, Ordering::SeqCst);
    }

    /// Makes the next `count` builds on a base fail as docker's classic builder does when another
    /// build removes a cached image at the same time.
    pub fn lose_cache(&self, count: usize) {
        self.state.lost.store(count, Ordering::SeqCst);
    }

    /// Makes the next `count` pulls fail as docker with the containerd image store does when its
    /// garbage collection removes a snapshot at the same time.
    pub fn lose_pulls(&self, count: usize) {
        self.state.lost_pulls.store(count, Ordering::SeqCst);
    }

    /// Returns the received request lines, in order.
    pub fn requests(&self) -> Vec<String> {
        self.state.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the number of requested builds.
    pub fn builds(&self) -> usize {
        self.requests().iter().filter(|line| is_build(line)).count()
    }
}

/// The response of docker's classic builder if a cached image is lost.
const LOST: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n\
{\"stream\":\"Step 7/8 : COPY --from=build /1 /1\\n\"}\r\n\
{\"stream\":\" ---\\u003e Using cache\\n\"}\r\n\
{\"errorDetail\":{\"message\":\"No such image: sha256:b288d79eb65820a9402d98c91defc9eb9a9efce52bb9fe53a5d01e77dab16950\"},\
\"error\":\"No such image: sha256:b288d79eb65820a9402d98c91defc9eb9a9efce52bb9fe53a5d01e77dab16950\"}\r\n";

/// The response of docker 29 to a pull if containerd loses a snapshot.
const LOST_PULL: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
Connection: close\r\n\r\n{\"errorDetail\":{\"message\":\"failed to prepare extraction snapshot \
\\\"extract-1 sha256:2\\\": parent snapshot sha256:3 does not exist: not found\"}}\r\n";

/// The response of docker 26 to a request for sizes while a container lacks its layer.
const NO_SIZES: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\n\
Connection: close\r\n\r\n{\"message\":\"rw layer snapshot not found for container be82064ff1a0\"}\n";

fn is_build(line: &str) -> bool {
    line.starts_with("POST ") && line.contains("/build?")
}

impl State {
    fn serve(&self, mut client: UnixStream) -> io::Result<()> {
        let head = read_head(&mut client)?;
        let text = String::from_utf8_lossy(&head).into_owned();
        let line = text.lines().next().unwrap_or_default().to_owned();
        let is_build = is_build(&line);
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(line.clone());
        let less = |left: usize| left.checked_sub(1);
        if is_build && self.broken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok() {
            return Ok(());
        }
        // Probes are not affected: they have no base.
        let is_lost = is_build
            && line.contains("BASE")
            && self.lost.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok();
        if is_lost {
            read_body(&mut client, head)?;
            return client.write_all(LOST.as_bytes());
        }
        let is_lost_pull = line.starts_with("POST ")
            && line.contains("/images/create?")
            && self.lost_pulls.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok();
        if is_lost_pull {
            return client.write_all(LOST_PULL.as_bytes());
        }
        let has_sizes = line.contains("/containers/json?") && line.contains("size=true");
        if has_sizes && self.has_no_sizes.load(Ordering::SeqCst) {
            return client.write_all(NO_SIZES.as_bytes());
        }
        let mut engine = UnixStream::connect(&self.upstream)?;
        if is_build && self.has_no_buildkit.load(Ordering::SeqCst) {
            engine.write_all(line.replace("version=2", "version=1").as_bytes())?;
            engine.write_all(&head[line.len()..])?;
        } else {
            engine.write_all(&head)?;
        }
        let (from, to) = (client.try_clone()?, engine.try_clone()?);
        thread::spawn(move || pass(from, to));
        pass(engine, client);
        Ok(())
    }
}

/// Reads at least the head of a request, and returns all bytes received.
fn read_head(client: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut buffer = [0; 16 << 10];
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let length = client.read(&mut buffer)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&buffer[..length]);
    }
    Ok(head)
}

/// Reads to the end of a request with a chunked body.
fn read_body(client: &mut UnixStream, mut last: Vec<u8>) -> io::Result<()> {
    let mut buffer = [0; 16 << 10];
    while !last.ends_with(b"\r\n0\r\n\r\n") {
        let length = client.read(&mut buffer)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        last.extend_from_slice(&buffer[..length]);
        last.drain(..last.len().saturating_sub(16));
    }
    Ok(())
}

/// Forwards bytes until `from` ends, and then closes this direction. After an error, closes both
/// directions.
fn pass(mut from: UnixStream, mut to: UnixStream) {
    let ended = io::copy(&mut from, &mut to);
    // A normal end of one direction leaves the other one open.
    let how = if ended.is_ok() { Shutdown::Write } else { Shutdown::Both };
    drop(to.shutdown(how));
    if ended.is_err() {
        drop(from.shutdown(Shutdown::Both));
    }
}
