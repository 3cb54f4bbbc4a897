//! Measures how long preparing and patching sources takes, compared with git and tar.
//!
//! A `git daemon` on loopback serves a repository with the content of a real vLLM release. Both
//! sides must produce the same tree.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::{median, side_by_side, timed};
use crate::run::{output, root};
use crate::say;

/// The pin whose archive is served: the release that the patches were written for.
const PIN: &str = "vllm-sdist-legacy";

/// The URL under which the project pins the served repository.
pub(super) const UPSTREAM: &str = "https://git.example.org";

/// The number of measurements of commands that take little time.
const CHECKS: usize = 11;

/// A `git daemon`. It ends when this value is dropped.
pub(super) struct Daemon {
    child: Child,
    port: u16,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // A daemon that has already ended cannot be killed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Daemon {
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        // `git daemon` would start `git-daemon` as another process, which would outlive it.
        let program = Path::new(output("git", &["--exec-path"])?.trim()).join("git-daemon");
        let child = Command::new(program)
            .args(["--export-all", "--reuseaddr", "--listen=127.0.0.1"])
            .arg(format!("--port={port}"))
            .arg(format!("--base-path={}", folder.display()))
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start git-daemon")?;
        let daemon = Self { child, port };
        for _ in 0..100 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(daemon);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("git daemon does not respond on port {port}")
    }

    /// Returns the value of `--mirror` that selects this daemon.
    pub(super) fn mirror(&self) -> String {
        format!("{UPSTREAM}=git://127.0.0.1:{}", self.port)
    }
}

/// The setup of a measurement.
struct Bench {
    tool: PathBuf,
    work: PathBuf,
}

impl Bench {
    /// Returns a command that runs the tool in the project that pins the served repository, with
    /// the cache of this name.
    fn ours(&self, cache: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.tool);
        command
            .arg("-C")
            .arg(self.work.join("project"))
            .args(arguments)
            .env("XDG_CACHE_HOME", self.work.join(cache))
            .env("XDG_STATE_HOME", self.work.join("state"))
            .env("XDG_CONFIG_HOME", self.work.join("config"));
        command
    }

    /// Returns a command that fetches and patches the sources, and packs them into `CACHE.tar`.
    fn prepare(&self, cache: &str, mirror: Option<&str>) -> Command {
        let tar = self.work.join(format!("{cache}.tar")).display().to_string();
        let mut command = self.ours(cache, &["patch", "apply", "vllm", "--no-probes", "-o", &tar]);
        if let Some(mirror) = mirror {
            command.args(["--mirror", mirror]);
        }
        command
    }

    /// Returns a shell command that runs in the folder of the benchmark, without git configuration.
    fn shell(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-euc", line])
            .current_dir(&self.work)
            .env("HOME", &self.work)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_DATE", "1700000000 +0000")
            .env("GIT_COMMITTER_DATE", "1700000000 +0000");
        command
    }

    fn size(&self, names: &[&str]) -> Result<u64> {
        let paths: Vec<String> =
            names.iter().map(|name| self.work.join(name).display().to_string()).collect();
        let arguments: Vec<&str> =
            ["-scB1"].into_iter().chain(paths.iter().map(String::as_str)).collect();
        let text = output("du", &arguments)?;
        let total = text.lines().last().and_then(|line| line.split_whitespace().next());
        total.context("du printed nothing")?.parse().context("du printed no number")
    }
}

/// Runs the measurements with the compiled tool.
pub(super) fn run(tool: &Path) -> Result<()> {
    let work = root()?.join("target/bench-sources");
    drop(std::fs::remove_dir_all(&work));
    std::fs::create_dir_all(work.join("project"))?;
    let bench = Bench { tool: tool.to_owned(), work };
    serve(&bench)?;
    let daemon = Daemon::start(&bench.work.join("served"))?;
    let mirror = daemon.mirror();
    timed(bench.prepare("warm", Some(&mirror)))?;
    let diff = bench.ours("warm", &["patch", "diff", "vllm"]).output()?;
    std::fs::write(bench.work.join("vllm.patch"), diff.stdout)?;

    prepare(&bench, &mirror, daemon.port)?;
    // From here on, no server can be contacted.
    drop(daemon);
    let again = (0..CHECKS).map(|_| timed(bench.prepare("warm", None)));
    let again = median(again.collect::<Result<Vec<_>>>()?);
    say(&format!("the same from the cache, without a server: {:.3} s", again.as_secs_f64()));
    check(&bench)
}

/// Creates the served repository from the release's archive, and a project that pins it.
fn serve(bench: &Bench) -> Result<()> {
    let data = root()?;
    timed(bench.shell(&format!("cp -r '{0}/versions' '{0}/patches' project/", data.display())))?;
    let cache = root()?.join("target/bench-archives");
    let mut fetch = bench.ours("", &["patch", "check", "vllm", "--no-probes", "--pin", PIN]);
    timed({
        fetch.env("XDG_CACHE_HOME", &cache);
        fetch
    })?;
    let versions = bench.work.join("project/versions/versions.toml");
    let text = std::fs::read_to_string(&versions)?;
    let table = text.split(&format!("[archive.{PIN}]")).nth(1).context("the pin is missing")?;
    let hash = table.split("sha256 = \"").nth(1).and_then(|rest| rest.get(..64));
    let archive =
        cache.join("build-pipeline/sources/archives").join(hash.context("the pin has no hash")?);
    let identity = "-c user.name=A -c user.email=a@example.org -c gc.auto=0";
    timed(bench.shell(&format!(
        "mkdir -p served/vllm && tar -xzf '{}' --strip-components=1 -C served/vllm\n\
         cd served/vllm && git init -q && git add -A -f && git {identity} commit -qm release && git repack -adq",
        archive.display()
    )))?;
    let git = bench.work.join("served/vllm").display().to_string();
    let commit = output("git", &["-C", &git, "rev-parse", "HEAD"])?;
    std::fs::write(
        versions,
        format!(
            "schema = 1\nsource-date-epoch = 1795132800\n\n[source.vllm]\nurl = \"{UPSTREAM}/vllm\"\n\
             version = \"0.10.2\"\ncommit = \"{}\"\npatches = \"vllm\"\n",
            commit.trim()
        ),
    )?;
    Ok(())
}

/// Measures the whole preparation, from a request to the server to a patched tar.
fn prepare(bench: &Bench, mirror: &str, port: u16) -> Result<()> {
    side_by_side(
        "preparing a source, compared with git clone --depth 1, git apply and tar c",
        &|run| Ok((bench.prepare(&format!("ours-{run}"), Some(mirror)), None)),
        &|run| {
            let line = format!(
                "git clone -q --depth 1 git://127.0.0.1:{port}/vllm peer-{run}\n\
                 git -C peer-{run} apply ../vllm.patch\n\
                 tar -cf peer-{run}.tar --exclude=./.git -C peer-{run} ."
            );
            Ok((bench.shell(&line), None))
        },
    )?;
    timed(bench.shell(
        "mkdir a b && tar -xf ours-1.tar -C a && tar -xf peer-1.tar -C b && diff -r --no-dereference a b",
    ))
    .context("the two trees differ")?;
    let (ours, peer) = (bench.size(&["ours-1"])?, bench.size(&["peer-1"])?);
    let (all, all_peer) =
        (bench.size(&["ours-1", "ours-1.tar"])?, bench.size(&["peer-1", "peer-1.tar"])?);
    say(&format!(
        "on disk without the tar: this tool {ours} bytes, other {peer}, ratio {:.2}; with it: {all}, {all_peer}, {:.2}",
        ours as f64 / peer as f64,
        all as f64 / all_peer as f64
    ));
    Ok(())
}

/// Measures the check of a cached tree, compared with the same edits in a checkout.
fn check(bench: &Bench) -> Result<()> {
    let (mut ours, mut floor, mut peer) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..CHECKS {
        ours.push(timed(bench.ours("warm", &["patch", "check", "vllm", "--no-probes"]))?);
        floor.push(timed(bench.ours("warm", &["--version"]))?);
        peer.push(timed(bench.shell(&format!(
            "git -C served/vllm worktree add -q --detach ../../tree-{run} HEAD\n\
             git -C tree-{run} apply ../vllm.patch"
        )))?);
        timed(bench.shell(&format!("git -C served/vllm worktree remove -f ../../tree-{run}")))?;
    }
    let (ours, floor, peer) = (median(ours), median(floor), median(peer));
    say(&format!(
        "patch check of a cached vLLM: {:.1} ms (--version: {:.1} ms); checkout and git apply: {:.1} ms, {:.1} times as long",
        ours.as_secs_f64() * 1e3,
        floor.as_secs_f64() * 1e3,
        peer.as_secs_f64() * 1e3,
        peer.as_secs_f64() / ours.as_secs_f64()
    ));
    Ok(())
}
