//! `cargo xtask rocm packages`: checks `audit` and `slim` on real ROCm packages.
//!
//! Other tests use small fixtures. This chore uses Debian's packages instead, from sid
//! and experimental: about 9 GB of files, most of them code for GPUs. Each promise is asserted: the
//! list of code objects equals that of LLVM, `slim` removes at least 85 % of the compressed bytes
//! with little memory, the slimmed libraries open, the same holds for the tracks that
//! use vendors' images, and `bench gpu` stays within its limits.
//!
//! It needs root on Debian, 25 GB of disk space, and no GPU. Only the root file system stays in
//! `target/rocm-packages`, for the next run.

mod image;
mod root;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::bench::{self, registry};
use crate::layout::Layout;
use crate::run::{at_root, cargo, command, output, root as workspace, target};
use crate::{say, setup};
use image::Image;

/// The chore's files, relative to the root of the workspace.
const WORK: &str = "target/rocm-packages";

/// The packages of ROCm 7.2 with code for [`GPU`]: rocBLAS and hipBLASLt.
const NEW: [&str; 2] = ["librocblas5", "libhipblaslt1"];
/// The packages of ROCm 6 with code for many GPUs, and llama.cpp's HIP backend.
const OLD: [&str; 3] = ["librocblas4", "librocsparse1", "libggml0-backend-hip"];

/// The GPU whose code is kept in the image of [`NEW`].
const GPU: &str = "gfx1151";
/// The GPU whose code is kept in the image of all packages: [`OLD`] has no code for [`GPU`] in
/// rocBLAS.
const OTHER_GPU: &str = "gfx1100";

/// The minimum number of code objects that must match those that LLVM lists, in all libraries.
const LEAST_ENTRIES: usize = 3828;
/// The library that contains no kernels: hipBLASLt's kernels are in separate files.
const WITHOUT_ENTRIES: &str = "libhipblaslt.so";
/// The library that mentions [`GPU`] but has no code for it.
const MENTIONS: &str = "/librocblas.so.4";

/// The maximum fraction of the compressed bytes that `slim` leaves.
const MOST_LEFT: f64 = 0.15;
/// The maximum memory of `slim`, in bytes.
const MOST_MEMORY: u64 = 400_000_000;
/// The maximum memory for the larger image, as a multiple of that for the smaller one.
const MOST_GROWTH: f64 = 1.25;

/// The tracks with a variant `slim`, with the pins and repositories of their bases.
const TRACKS: [(&str, &str, &str); 2] = [
    ("official", "vllm-openai-rocm", "docker.io/vllm/vllm-openai-rocm"),
    ("trainer", "rocm-pytorch", "docker.io/rocm/pytorch"),
];

/// The programs that cargo has built.
struct Programs {
    /// `build-pipeline`.
    tool: String,
    /// The example `seal` of the crate `seal`.
    seal: String,
    /// The example `entries` of the crate `gpu-code`.
    entries: String,
}

/// Runs all checks. `bench gpu` is the last one, because its results depend on the machine's load.
pub(crate) fn run() -> Result<()> {
    setup::install()?;
    let programs = Programs::build()?;
    let all = [&NEW[..], &OLD].concat();
    root::make(&all)?;
    clean()?;
    compare(&programs, &all)?;
    mention(&programs)?;
    let small = Image::of(&programs, "new", &NEW)?;
    let large = Image::of(&programs, "all", &all)?;
    let memory = slim(&programs, &small, GPU)?;
    let larger_memory = slim(&programs, &large, OTHER_GPU)?;
    #[expect(clippy::cast_precision_loss, reason = "a ratio of sizes")]
    let growth = larger_memory as f64 / memory as f64;
    ensure!(growth <= MOST_GROWTH, "slim uses {growth:.2} times the memory for the larger image");
    tracks(&programs, &small)?;
    let tree = workspace()?.join(image::tree("bench", &NEW)?);
    bench::run(&["gpu", &tree.display().to_string()])?;
    clean()?;
    say("rocm packages: compared, audited, slimmed, opened, built and measured");
    Ok(())
}

/// Removes the chore's files except the root, which the next run uses again.
fn clean() -> Result<()> {
    for entry in std::fs::read_dir(workspace()?.join(WORK))? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with(root::ROOT) {
            std::fs::remove_dir_all(path)?;
        }
    }
    Ok(())
}

impl Programs {
    fn build() -> Result<Self> {
        let release = ["build", "--release", "--locked", "--package"];
        cargo(&[&release[..], &["build-pipeline"]].concat())?;
        cargo(&[&release[..], &["seal", "--example", "seal"]].concat())?;
        cargo(&[&release[..], &["gpu-code", "--example", "entries"]].concat())?;
        let place = target()?.join("release");
        let path = |name: &str| place.join(name).display().to_string();
        Ok(Self {
            tool: path("build-pipeline"),
            seal: path("examples/seal"),
            entries: path("examples/entries"),
        })
    }

    /// Runs the tool and returns the JSON that it prints, and whether it succeeded.
    fn json(&self, words: &[&str]) -> Result<(Value, bool)> {
        let said = at_root(&self.tool)?.args(words).args(["--format", "json"]).output()?;
        let value = serde_json::from_slice(&said.stdout).with_context(|| {
            let error = String::from_utf8_lossy(&said.stderr);
            format!("`build-pipeline {}` printed no JSON: {error}", words.join(" "))
        })?;
        Ok((value, said.status.success()))
    }
}

/// Checks that the list of code objects of each library is the same as LLVM's.
fn compare(programs: &Programs, packages: &[&str]) -> Result<()> {
    let readobj = root::readobj()?;
    let script = "crates/gpu-code/tests/compare.sh";
    let libraries = root::libraries(packages)?;
    let libraries: Vec<String> =
        libraries.iter().map(|path| format!("{}{path}", root::ROOT)).collect();
    let mut words = vec![script, &programs.entries, &readobj];
    words.extend(libraries.iter().map(String::as_str));
    let said = output("bash", &words)?;
    say(said.trim_end());
    for line in said.lines() {
        let is_empty = line.ends_with(": 0 entries are equal");
        ensure!(!is_empty || line.starts_with(WITHOUT_ENTRIES), "LLVM finds no code: {line}");
    }
    let total = said.lines().last().and_then(|line| line.split(' ').next()?.parse().ok());
    let total: usize = total.context("compare.sh printed no total")?;
    ensure!(total >= LEAST_ENTRIES, "only {total} entries were compared");
    Ok(())
}

/// Checks that a library which only mentions the GPU counts as one without code for it. Only a
/// spoof can use its other code.
fn mention(programs: &Programs) -> Result<()> {
    let libraries = root::libraries(&OLD)?;
    let library = libraries.iter().find(|path| path.contains(MENTIONS));
    let library = format!("{}{}", root::ROOT, library.context("the old rocBLAS has no library")?);
    command("grep", &["--quiet", "--text", "--fixed-strings", GPU, &library], &[])
        .with_context(|| format!("`{library}` does not mention {GPU}"))?;
    let (report, can_run) = programs.json(&["audit", &library, "--gpu", GPU])?;
    ensure!(!can_run, "audit accepts `{library}`");
    let verdict = report["verdict"].as_str().unwrap_or_default();
    ensure!(["none", "spoof"].contains(&verdict), "the verdict of `{library}` is {verdict}");
    let targets = report["targets"].as_array().context("the audit lists no targets")?;
    let has_code = targets.iter().any(|one| one["target"] == GPU);
    ensure!(!has_code && !targets.is_empty(), "the audit finds code for {GPU}: {targets:?}");
    say(&format!("{library}: mentions {GPU}, has code for {} others: {verdict}", targets.len()));
    Ok(())
}

/// Slims an image, and checks its size and libraries, and the memory that `slim` used. Returns the
/// memory.
fn slim(programs: &Programs, image: &Image, gpu: &str) -> Result<u64> {
    let slimmed = image.slim(programs, gpu)?;
    let left = is_small(&image.layout, &slimmed.layout)?;
    let opened = image::open(&slimmed.layout, &image.packages)?;
    let megabytes = slimmed.memory / 1_000_000;
    say(&format!("{left}; {megabytes} MB of memory; {opened} libraries open"));
    ensure!(slimmed.memory <= MOST_MEMORY, "slim uses {megabytes} MB of memory");
    let (report, can_run) = programs.json(&["audit", &slimmed.layout, "--gpu", gpu])?;
    is_only_for(&report, gpu)?;
    ensure!(can_run, "audit refuses `{}`", slimmed.layout);
    Ok(slimmed.memory)
}

/// Checks that the layers of an image are much smaller than those of another one. Returns the
/// figures, for people.
fn is_small(before: &str, after: &str) -> Result<String> {
    let (old, new) = (Layout::read(before)?.bytes(), Layout::read(after)?.bytes());
    #[expect(clippy::cast_precision_loss, reason = "a ratio of sizes")]
    let left = new as f64 / old as f64;
    let figures = format!(
        "{after}: {} MB of layers before, {} MB after, {:.1} % less",
        old / 1_000_000,
        new / 1_000_000,
        (1.0 - left) * 100.0
    );
    ensure!(left <= MOST_LEFT, "slim leaves too much: {figures}");
    Ok(figures)
}

/// Checks that an audited image has code for this GPU and no other.
fn is_only_for(report: &Value, gpu: &str) -> Result<()> {
    ensure!(report["verdict"] == "native", "the verdict is not native: {}", report["verdict"]);
    let targets = report["targets"].as_array().context("the audit lists no targets")?;
    let is_only = targets.len() == 1 && targets[0]["target"] == gpu;
    ensure!(is_only, "there is code for GPUs other than {gpu}: {targets:?}");
    Ok(())
}

/// Builds the slim variants of the tracks that use vendors' images, on a base with the real
/// libraries. Verifies and audits the results, and checks their sizes.
fn tracks(programs: &Programs, base: &Image) -> Result<()> {
    let work = workspace()?.join(WORK);
    let registry = registry(&work, "registry")?;
    let place = format!("127.0.0.1:{}/base", registry.port);
    let from = format!("oci:{}:base", base.layout);
    let copy = ["copy", "--quiet", "--preserve-digests", "--dest-tls-verify=false"];
    command("skopeo", &[&copy[..], &[&from, &format!("docker://{place}:base")]].concat(), &[])?;
    // The user's own cache and records stay as they are.
    let [cache, state] = ["cache", "state"].map(|name| work.join(name).display().to_string());
    let environment = [("XDG_CACHE_HOME", cache.as_str()), ("XDG_STATE_HOME", &state)];
    for (track, pin, repository) in TRACKS {
        let layout = format!("{WORK}/{track}");
        let mirror = format!("{repository}={place}");
        let (set, to) = (format!("{pin}={}", base.digest), format!("oci:{layout}"));
        let build = ["--track", track, "--variant", "slim", "--set", &set, "--output", &to];
        let mirrored = ["--mirror", &mirror, "--mirror-only"];
        command(&programs.tool, &[&build[..], &mirrored].concat(), &environment)?;
        let mut verify = at_root(&programs.tool)?;
        verify.args(["verify", &layout]).args(mirrored).envs(environment);
        let verified = verify.output().context("cannot run `verify`")?;
        let said = String::from_utf8_lossy(&verified.stdout);
        ensure!(verified.status.success() && said.contains("proven: "), "not proven: {said}");
        let (report, can_run) = programs.json(&["audit", &layout, "--gpu", GPU])?;
        ensure!(can_run, "audit refuses `{layout}`");
        is_only_for(&report, GPU)?;
        say(&format!("{}; proven", is_small(&base.layout, &layout)?));
    }
    Ok(())
}
