//! Benchmarks: builds a metadata-only image with this tool and with other tools, side by side.
//! [`sources`] measures the preparation of sources, [`noop`] a build in which nothing changed, and
//! [`gpu`] `audit` and `slim`.
//!
//! Real registries (Debian's docker-registry) run on loopback: one contains a base of random
//! layers, and each run that pushes to another registry has its own. Times are medians of several
//! alternating runs, so a machine that slows down affects all tools equally; only podman's build is
//! measured once.

mod gpu;
mod noop;
mod sources;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::run::{cargo, is_installed, root, target};
use crate::{say, setup};

/// The number of runs per measurement. The project quotes the median of five.
const RUNS: usize = 5;

/// The number of layers of the base.
const LAYERS: u64 = 8;

/// The maximum time of `plan`, as a multiple of the time of `--version`.
const MOST_TIME: f64 = 2.0;
/// The maximum memory of `plan`, in bytes.
const MOST_MEMORY: u64 = 30_000_000;

/// A registry on loopback. It ends, and its files are removed, when this value is dropped.
pub(crate) struct Registry {
    child: Child,
    pub(crate) port: u16,
    store: PathBuf,
}

impl Drop for Registry {
    fn drop(&mut self) {
        // A registry that has already ended cannot be killed.
        drop(self.child.kill());
        drop(self.child.wait());
        drop(std::fs::remove_dir_all(&self.store));
    }
}

/// Runs the benchmarks. The first argument is the size of the base in GiB (default 1); `sources` or
/// `noop` runs only that benchmark. `gpu FOLDER` runs only [`gpu`], which needs a folder with GPU
/// code.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    setup::install()?;
    cargo(&["build", "--release", "--locked", "--package", "build-pipeline"])?;
    let tool = target()?.join("release/build-pipeline");
    match arguments {
        ["sources"] => return sources::run(&tool),
        ["noop"] => return noop::run(&tool),
        ["gpu", folder] => return gpu::run(&tool, Path::new(folder)),
        _ => {}
    }
    let gib: u64 =
        arguments.first().map_or(Ok(1), |text| text.parse()).context("GIB must be a number")?;
    images(&tool, gib)?;
    sources::run(&tool)?;
    noop::run(&tool)
}

fn images(tool: &Path, gib: u64) -> Result<()> {
    let work = root()?.join("target/bench");
    drop(std::fs::remove_dir_all(&work));
    std::fs::create_dir_all(&work)?;
    let here = registry(&work, "here")?;
    say(&format!("pushing a base of {gib} GiB in {LAYERS} layers"));
    let base = push_base(&work, here.port, gib * 1024)?;

    let mirror = format!("docker.io=127.0.0.1:{}", here.port);
    let set = format!("vllm-dev-locked={base}");
    let ours = |port: u16, run: usize| {
        let mut command = Command::new(tool);
        command.args(["--track", "locked-spoof", "--mirror", &mirror, "--set", &set, "--push"]);
        command.arg(format!("127.0.0.1:{port}/ours{run}/image:v1"));
        // The cache is always empty, because the first build is measured.
        command
            .env("XDG_CACHE_HOME", work.join(format!("cache-{port}-{run}")))
            .env("XDG_STATE_HOME", work.join("state"));
        command
    };
    let skopeo = |port: u16, run: usize| {
        let mut command = Command::new("skopeo");
        command.args(["copy", "--src-tls-verify=false", "--dest-tls-verify=false"]);
        command.arg(format!("docker://127.0.0.1:{}/rocm/vllm-dev:base", here.port));
        command.arg(format!("docker://127.0.0.1:{port}/skopeo{run}/image:v1"));
        command
    };
    side_by_side(
        "P1, same registry, compared with skopeo copy",
        &|run| Ok((ours(here.port, run), None)),
        &|run| Ok((skopeo(here.port, run), None)),
    )?;
    // Each run has its own registry, so that no run finds another's content.
    let elsewhere = |program: &str, run| registry(&work, &format!("{program}-{run}"));
    side_by_side(
        "P1b, other registry, compared with skopeo copy",
        &|run| elsewhere("ours", run).map(|there| (ours(there.port, run), Some(there))),
        &|run| elsewhere("skopeo", run).map(|there| (skopeo(there.port, run), Some(there))),
    )?;
    let version = || Command::new(tool);
    let plan = || {
        let mut command = version();
        command.args(["plan", "--track", "locked-spoof"]);
        command
    };
    let plan_time =
        side_by_side("P7, plan compared with --version", &|_| Ok((plan(), None)), &|_| {
            let mut command = version();
            command.arg("--version");
            Ok((command, None))
        })?;
    let memory = peak_memory(&plan())?;
    say(&format!("P7, memory of plan: {} kB", memory / 1000));
    plan_time.is_at_most(MOST_TIME)?;
    ensure!(memory <= MOST_MEMORY, "P7: plan uses {memory} bytes");
    if is_installed("podman") {
        podman(&work, here.port, &ours)?;
    }
    Ok(())
}

/// A command to measure, and the registry that it writes to, if it has one of its own.
type Prepared = Result<(Command, Option<Registry>)>;

/// The medians of two commands, in seconds.
struct Measured {
    what: String,
    ours: f64,
    peer: f64,
}

impl Measured {
    fn ratio(&self) -> f64 {
        self.ours / self.peer
    }

    /// Fails if our command takes longer than `most` times the time of the other one.
    fn is_at_most(&self, most: f64) -> Result<()> {
        let (what, ratio) = (&self.what, self.ratio());
        ensure!(ratio <= most, "{what}: the ratio is {ratio:.2}, and may be at most {most}");
        Ok(())
    }
}

/// Measures two commands alternately, and prints their medians and the ratio.
fn side_by_side(
    what: &str,
    ours: &dyn Fn(usize) -> Prepared,
    peer: &dyn Fn(usize) -> Prepared,
) -> Result<Measured> {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for run in 0..=RUNS {
        let (command, _registry) = ours(run)?;
        let one = timed(command)?;
        let (peer_command, _peer_registry) = peer(run)?;
        let other = timed(peer_command)?;
        // The first pair warms the page cache.
        if run > 0 {
            a.push(one);
            b.push(other);
        }
    }
    let measured = Measured {
        what: what.to_owned(),
        ours: median(a).as_secs_f64(),
        peer: median(b).as_secs_f64(),
    };
    say(&format!(
        "{what}: this tool {:.4} s, other {:.4} s, ratio {:.2}",
        measured.ours,
        measured.peer,
        measured.ratio()
    ));
    Ok(measured)
}

/// Returns the largest resident memory of a command, in bytes, as GNU time measures it.
pub(crate) fn peak_memory(command: &Command) -> Result<u64> {
    let mut measured = Command::new("/usr/bin/time");
    measured.args(["--format=%M", "--"]).arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        measured.current_dir(folder);
    }
    let output = measured.stdin(Stdio::null()).output().context("cannot run /usr/bin/time")?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {text}");
    let last = text.lines().last().unwrap_or_default();
    let kilobytes: u64 = last.parse().with_context(|| format!("`time` printed `{text}`"))?;
    Ok(kilobytes * 1024)
}

/// Measures the usual way: podman pulls the base, builds a two-line Containerfile, and pushes.
fn podman(work: &Path, port: u16, ours: &dyn Fn(u16, usize) -> Command) -> Result<()> {
    std::fs::write(
        work.join("Containerfile"),
        format!("FROM 127.0.0.1:{port}/rocm/vllm-dev:base\nENV HSA_OVERRIDE_GFX_VERSION=11.0.0\n"),
    )?;
    let storage = format!("--root={}", work.join("podman").display());
    let podman = |arguments: &[&str]| {
        let mut command = Command::new("podman");
        command
            .arg(&storage)
            .args(["--storage-driver=vfs", "--runtime=runc"])
            .args(arguments)
            .current_dir(work);
        command
    };
    let target = format!("127.0.0.1:{port}/podman/image:v1");
    let begun = Instant::now();
    timed(podman(&[
        "build",
        "--tls-verify=false",
        "-q",
        "-t",
        &target,
        "-f",
        "Containerfile",
        ".",
    ]))?;
    timed(podman(&["push", "-q", "--tls-verify=false", &target]))?;
    let peer = begun.elapsed();
    let own = timed(ours(port, 100))?;
    say(&format!(
        "podman pull, build and push, once: {:.1} s; this tool {:.4} s; ratio {:.0}",
        peer.as_secs_f64(),
        own.as_secs_f64(),
        peer.as_secs_f64() / own.as_secs_f64()
    ));
    Ok(())
}

fn timed(mut command: Command) -> Result<Duration> {
    let begun = Instant::now();
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {command:?}"))?;
    let time = begun.elapsed();
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(time)
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all[all.len() / 2]
}

/// Starts a registry on a free port and waits until it responds.
pub(crate) fn registry(work: &Path, name: &str) -> Result<Registry> {
    let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    let config = work.join(format!("{name}.yml"));
    let store = work.join(name);
    std::fs::write(
        &config,
        format!(
            "version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: \"127.0.0.1:{port}\"}}\n",
            store.display()
        ),
    )?;
    let child = Command::new("docker-registry")
        .arg("serve")
        .arg(&config)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let registry = Registry { child, port, store };
    for _ in 0..100 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Ok(registry);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    bail!("docker-registry does not respond on port {port}")
}

/// Pushes a base of random layers with skopeo, and returns its digest.
fn push_base(work: &Path, port: u16, mib: u64) -> Result<String> {
    let layout = work.join("base");
    let blobs = layout.join("blobs/sha256");
    std::fs::create_dir_all(&blobs)?;
    let mut random = std::fs::File::open("/dev/urandom")?;
    let mut layers = Vec::new();
    for number in 0..LAYERS {
        let name = format!("noise-{number}");
        let mut file = std::fs::File::create(work.join(&name))?;
        let mut buffer = vec![0; 1 << 20];
        for _ in 0..mib / LAYERS {
            random.read_exact(&mut buffer)?;
            file.write_all(&buffer)?;
        }
        drop(file);
        layers.push(Layer::of(&blobs, work, &name)?);
        std::fs::remove_file(work.join(&name))?;
    }
    let digest = write_layout(&layout, &layers)?;
    let mut copy = Command::new("skopeo");
    copy.args(["copy", "--preserve-digests", "--dest-tls-verify=false"])
        .arg(format!("oci:{}:base", layout.display()));
    timed({
        copy.arg(format!("docker://127.0.0.1:{port}/rocm/vllm-dev:base"));
        copy
    })?;
    std::fs::remove_dir_all(&layout)?;
    Ok(digest)
}

/// A layer among the blobs of a layout.
pub(crate) struct Layer {
    /// How the layer is stored: `tar` or `tar+gzip`.
    pub(crate) form: &'static str,
    /// The digest of the stored layer.
    pub(crate) digest: String,
    /// The digest of the tar.
    pub(crate) diff_id: String,
    /// The size of the stored layer, in bytes.
    pub(crate) size: u64,
}

impl Layer {
    /// Packs a file or folder, and adds the layer to the blobs, uncompressed.
    fn of(blobs: &Path, folder: &Path, name: &str) -> Result<Self> {
        let tar = blobs.join("layer");
        let (to, folder) = (tar.display().to_string(), folder.display().to_string());
        crate::run::output("tar", &["-cf", &to, "-C", &folder, name])?;
        let (hex, size) = (sha256(&tar)?, std::fs::metadata(&tar)?.len());
        std::fs::rename(&tar, blobs.join(&hex))?;
        let digest = format!("sha256:{hex}");
        Ok(Self { form: "tar", diff_id: digest.clone(), digest, size })
    }
}

/// Writes the rest of a layout with one image, whose layers are already among the blobs. Returns the
/// image's digest.
pub(crate) fn write_layout(layout: &Path, layers: &[Layer]) -> Result<String> {
    let blobs = layout.join("blobs/sha256");
    let diff_ids: Vec<String> =
        layers.iter().map(|layer| format!("\"{}\"", layer.diff_id)).collect();
    // podman checks that the history has an entry for each layer.
    let history = vec![r#"{"created_by":"noise"}"#; layers.len()].join(",");
    let config = format!(
        r#"{{"architecture":"amd64","os":"linux","config":{{"Env":["PATH=/usr/bin"]}},"history":[{history}],"rootfs":{{"type":"layers","diff_ids":[{}]}}}}"#,
        diff_ids.join(",")
    );
    let config_digest = blob(&blobs, &config)?;
    let layers: Vec<String> = layers
        .iter()
        .map(|Layer { form, digest, size, .. }| {
            format!(r#"{{"mediaType":"application/vnd.oci.image.layer.v1.{form}","digest":"{digest}","size":{size}}}"#)
        })
        .collect();
    let manifest = format!(
        r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:{config_digest}","size":{}}},"layers":[{}]}}"#,
        config.len(),
        layers.join(",")
    );
    let manifest_digest = blob(&blobs, &manifest)?;
    std::fs::write(layout.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)?;
    std::fs::write(
        layout.join("index.json"),
        format!(
            r#"{{"schemaVersion":2,"manifests":[{{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:{manifest_digest}","size":{},"annotations":{{"org.opencontainers.image.ref.name":"base"}}}}]}}"#,
            manifest.len()
        ),
    )?;
    Ok(format!("sha256:{manifest_digest}"))
}

fn blob(blobs: &Path, text: &str) -> Result<String> {
    let temporary = blobs.join("blob");
    std::fs::write(&temporary, text)?;
    let digest = sha256(&temporary)?;
    std::fs::rename(&temporary, blobs.join(&digest))?;
    Ok(digest)
}

fn sha256(path: &Path) -> Result<String> {
    let path = path.display().to_string();
    let line = crate::run::output("sha256sum", &[&path])?;
    Ok(line.split_whitespace().next().context("sha256sum printed nothing")?.to_owned())
}
