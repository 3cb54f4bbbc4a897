//! Debian's `docker-registry` on a free port of this machine, with its data in a temporary folder.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::http::exchange;

/// Runs until its standard input is closed, which happens however this process ends; then stops
/// the registry and removes its data. `$0` is the configuration, `$1` the folder.
const WATCHDOG: &str = r#"docker-registry serve "$0" >/dev/null 2>&1 & registry=$!
read -r _; kill -9 $registry; wait $registry 2>/dev/null; rm -rf "$1""#;

/// A running `docker-registry`. It ends when this value is dropped or the process dies.
#[derive(Debug)]
pub struct DebianRegistry {
    host: String,
    watchdog: Child,
    input: Option<ChildStdin>,
}

impl DebianRegistry {
    /// Starts a registry and waits until it responds.
    ///
    /// # Panics
    /// Panics if `docker-registry` is not installed, or if none responds: there are 5 attempts of
    /// at most 5 minutes.
    pub fn start() -> Self {
        let is_installed = Command::new("docker-registry").arg("--version").output().is_ok();
        assert!(is_installed, "docker-registry is missing: apt-get install docker-registry");
        // Another process may take the free port before the registry uses it.
        let started = (0..5).find_map(|_| Self::try_start());
        started.expect("docker-registry does not respond")
    }

    fn try_start() -> Option<Self> {
        let folder = tempfile::Builder::new().prefix("debian-registry-").tempdir();
        let folder = folder.expect("a temporary folder").keep();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let host = listener.local_addr().expect("an address").to_string();
        drop(listener);
        let config = folder.join("config.yml");
        let text = format!(
            "version: 0.1\n\
             log: {{level: error}}\n\
             storage:\n  filesystem: {{rootdirectory: {root}}}\n  delete: {{enabled: true}}\n\
             http: {{addr: '{host}', net: tcp, relativeurls: false}}\n",
            root = folder.join("data").display()
        );
        fs::write(&config, text).expect("the configuration can be written");
        let mut watchdog = Command::new("sh")
            .args(["-c", WATCHDOG])
            .args([&config, &folder])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh runs");
        let input = watchdog.stdin.take();
        let registry = Self { host, watchdog, input };
        let deadline = Instant::now() + Duration::from_secs(300);
        while Instant::now() < deadline {
            if let Ok((200, ..)) = exchange(&registry.host, "GET", "/v2/", &[], b"") {
                return Some(registry);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }

    /// Returns the registry's `127.0.0.1:port`.
    pub fn host(&self) -> &str {
        &self.host
    }
}

impl Drop for DebianRegistry {
    fn drop(&mut self) {
        drop(self.input.take());
        drop(self.watchdog.wait());
    }
}

/// Returns a registry that all tests of a process share. Each test must use its own repositories in
/// this registry.
pub fn shared_registry() -> &'static DebianRegistry {
    static SHARED: OnceLock<DebianRegistry> = OnceLock::new();
    SHARED.get_or_init(DebianRegistry::start)
}
