//! Measures a build in which nothing changed, for contexts of several sizes. The same build with
//! podman and docker, with every step cached, is measured for comparison.
//!
//! This tool identifies its context by the commit from which it was fetched; the other tools read
//! the context each time.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::sources::{Daemon, UPSTREAM};
use super::{RUNS, median, push_base, registry, timed};
use crate::run::{output, root};
use crate::say;

/// The sizes of the contexts, in MB.
const SIZES: [usize; 3] = [1, 100, 1000];

/// The size of a file of the context, in bytes.
const FILE: usize = 40_000;

/// The Dockerfile. It has no RUN, so the OCI runtime does not matter.
const DOCKERFILE: &str = "ARG BASE\nFROM ${BASE}\nCOPY tree/ /tree/\n";

/// A docker daemon for this benchmark only. It ends when this value is dropped.
struct Dockerd {
    child: Child,
    socket: String,
}

impl Drop for Dockerd {
    fn drop(&mut self) {
        // On SIGTERM, dockerd also stops its containerd.
        let pid = self.child.id().to_string();
        drop(Command::new("kill").arg(pid).status());
        drop(self.child.wait());
    }
}

impl Dockerd {
    fn start(work: &Path) -> Result<Self> {
        let path = |name: &str| work.join(name).display().to_string();
        let socket = format!("unix://{}", path("docker.sock"));
        let child = Command::new("dockerd")
            .args(["--data-root", &path("docker"), "--exec-root", &path("exec")])
            .args(["--pidfile", &path("docker.pid"), "--host", &socket])
            .args(["--iptables=false", "--ip-masq=false", "--bridge=none"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start dockerd")?;
        let daemon = Self { child, socket };
        for _ in 0..600 {
            if output("docker", &["--host", &daemon.socket, "version"]).is_ok() {
                return Ok(daemon);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        bail!("dockerd does not respond")
    }
}

/// Runs the measurement with the compiled tool.
pub(super) fn run(tool: &Path) -> Result<()> {
    let work = root()?.join("target/bench-noop");
    drop(std::fs::remove_dir_all(&work));
    std::fs::create_dir_all(&work)?;
    let registry = registry(&work, "registry")?;
    let host = format!("127.0.0.1:{}", registry.port);
    let base = push_base(&work, registry.port, 8)?;
    let dockerd = Dockerd::start(&work)?;
    let floor = (0..RUNS).map(|_| {
        let mut command = Command::new(tool);
        command.arg("--version");
        timed(command)
    });
    let floor = median(floor.collect::<Result<Vec<_>>>()?);
    say(&format!("--version: {:.1} ms", floor.as_secs_f64() * 1e3));
    for size in SIZES {
        let folder = work.join(size.to_string());
        let tree = folder.join("served/tree");
        write_tree(&tree, size)?;
        let commit = commit(&tree)?;
        write_project(&folder.join("project"), &base, &commit)?;
        write_context(&folder)?;
        let name = format!("{host}/rocm/vllm-dev@{base}");
        let ours = || {
            let mut command = Command::new(tool);
            command
                .arg("-C")
                .arg(folder.join("project"))
                .args(["--track", "vulkan", "--engine", "podman"])
                .args(["--mirror", &format!("registry.example.org={host}")])
                .env("XDG_CACHE_HOME", folder.join("cache"))
                .env("XDG_STATE_HOME", folder.join("state"))
                .env("XDG_CONFIG_HOME", folder.join("config"));
            command
        };
        let podman = || {
            let mut command = Command::new("podman");
            command
                .arg(format!("--root={}", folder.join("podman").display()))
                .arg(format!("--runroot={}", folder.join("run").display()))
                .args(["build", "-q", "--layers", "--tls-verify=false", "--build-arg"])
                .arg(format!("BASE={name}"))
                .arg(folder.join("context"));
            command
        };
        let docker = |buildkit: &str| {
            let mut command = Command::new("docker");
            command
                .args(["--host", &dockerd.socket, "build", "-q", "--build-arg"])
                .arg(format!("BASE={name}"))
                .arg(folder.join("context"))
                .env("DOCKER_BUILDKIT", buildkit);
            command
        };
        // The first run builds everything.
        let daemon = Daemon::start(&folder.join("served"))?;
        let mut first = ours();
        first.args(["--mirror", &daemon.mirror()]);
        timed(first)?;
        // docker's client builds with BuildKit only through buildx.
        let has_buildx = output("docker", &["buildx", "version"]).is_ok();
        let each = || {
            let buildkit = has_buildx.then(|| docker("1"));
            [ours(), podman(), docker("0"), walk(&folder)].into_iter().chain(buildkit)
        };
        for command in each().skip(1) {
            timed(command)?;
        }
        // From here on, no server can be contacted.
        drop(daemon);
        let mut measured: [Vec<Duration>; 5] = Default::default();
        for run in 0..=RUNS {
            for (times, command) in measured.iter_mut().zip(each()) {
                let time = timed(command)?;
                if run > 0 {
                    times.push(time);
                }
            }
        }
        let mut line = format!("P2, {size} MB of context:");
        let labels = [
            "ours",
            "podman build",
            "docker build, classic",
            "listing all files of the context",
            "docker build, BuildKit",
        ];
        for (label, times) in labels.iter().zip(measured).filter(|(_, times)| !times.is_empty()) {
            write!(line, " {label} {:.3} s;", median(times).as_secs_f64())?;
        }
        say(line.trim_end_matches(';'));
        drop(std::fs::remove_dir_all(&folder));
    }
    drop(dockerd);
    drop(std::fs::remove_dir_all(&work));
    Ok(())
}

/// Returns a command that does the minimum work to find out whether a context changed.
fn walk(folder: &Path) -> Command {
    let mut command = Command::new("find");
    command.arg(folder.join("context")).args(["-newer", "/proc/version", "-size", "+1G"]);
    command
}

/// Writes files with random content.
fn write_tree(tree: &Path, megabytes: usize) -> Result<()> {
    use std::io::Read as _;
    let mut random = std::fs::File::open("/dev/urandom")?;
    let mut bytes = vec![0; FILE];
    for number in 0..megabytes * 1_000_000 / FILE {
        let folder = tree.join(format!("{}", number / 500));
        std::fs::create_dir_all(&folder)?;
        random.read_exact(&mut bytes)?;
        std::fs::write(folder.join(number.to_string()), &bytes)?;
    }
    Ok(())
}

fn commit(tree: &Path) -> Result<String> {
    let tree = tree.display().to_string();
    let git = |words: &[&str]| output("git", &[&["-C", &tree], words].concat());
    git(&["init", "-q"])?;
    git(&["config", "uploadpack.allowAnySHA1InWant", "true"])?;
    git(&["config", "core.compression", "0"])?;
    git(&["add", "-A"])?;
    let who = ["-c", "user.name=A", "-c", "user.email=a@example.org"];
    git(&[&who[..], &["commit", "-qm", "it"]].concat())?;
    Ok(git(&["rev-parse", "HEAD"])?.trim().to_owned())
}

fn write_project(project: &Path, base: &str, commit: &str) -> Result<()> {
    let data = root()?;
    std::fs::create_dir_all(project.join("versions"))?;
    std::fs::create_dir_all(project.join("patches"))?;
    std::fs::copy(data.join("versions/gpus.toml"), project.join("versions/gpus.toml"))?;
    std::fs::copy(data.join("versions/compat.toml"), project.join("versions/compat.toml"))?;
    std::fs::write(project.join("Dockerfile"), DOCKERFILE)?;
    std::fs::write(
        project.join("versions/versions.toml"),
        format!(
            "schema = 1\nsource-date-epoch = 1795132800\n\n\
             [image.base]\nrepository = \"registry.example.org/rocm/vllm-dev\"\ndigest = \"{base}\"\n\n\
             [source.tree]\nurl = \"{UPSTREAM}/tree\"\ncommit = \"{commit}\"\n"
        ),
    )?;
    std::fs::write(
        project.join("versions/tracks.toml"),
        "schema = 1\ngpu = \"gfx1151\"\n\n[vulkan]\ntitle = \"It\"\ndescription = \"It.\"\n\
         variant = \"it\"\n\n[vulkan.variants.it]\nbase = \"base\"\n\n\
         [[vulkan.variants.it.stage]]\nname = \"it\"\ndockerfile = \"Dockerfile\"\n\
         sources = { tree = \"tree\" }\n",
    )?;
    Ok(())
}

/// Writes a build context with the same Dockerfile and files, for the other tools.
fn write_context(folder: &Path) -> Result<()> {
    let context = folder.join("context");
    std::fs::create_dir_all(&context)?;
    std::fs::write(context.join("Dockerfile"), DOCKERFILE)?;
    let (from, to) = (folder.join("served/tree"), context.join("tree"));
    output("cp", &["-r", &from.display().to_string(), &to.display().to_string()])?;
    std::fs::remove_dir_all(to.join(".git"))?;
    Ok(())
}
