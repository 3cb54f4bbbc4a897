//! Builds track `vulkan` for real and runs it: prints its version, lists its devices, and generates
//! tokens on Vulkan.
//!
//! This takes as long as compiling llama.cpp, so it is not part of `ci`. On a machine without a
//! GPU, it uses Mesa's software device. This is a valid test, because it still checks that all
//! layers run on Vulkan, and not on the CPU, whose output would look the same.

use std::path::Path;

use anyhow::{Result, bail, ensure};

use crate::container::{llama_version, run_in};
use crate::run::{self, cargo, command, root};
use crate::say;

/// The name of the image in the engine.
const IMAGE: &str = "localhost/build-pipeline/vulkan:latest";

/// Makes ggml use a software device, which it skips by default.
const DEVICE: &str = "--env=GGML_VK_VISIBLE_DEVICES=0";

/// Builds and runs the track, and rebuilds it with each engine in `engines`, a comma-separated
/// list.
pub(crate) fn run(engines: Option<&str>) -> Result<()> {
    cargo(&["build", "--release", "--locked", "--package", "build-pipeline"])?;
    let tool = run::target()?.join("release/build-pipeline").display().to_string();
    command(
        &tool,
        &["--track", "vulkan", "--engine", "podman", "--output", "oci:dist/vulkan", "--load"],
        &[],
    )?;
    command(&tool, &["verify", "vulkan"], &[])?;
    let model = model()?;
    run_in(IMAGE, &["llama-cli", "--version"], &[], &llama_version(&tool, "vulkan")?)?;
    let devices = run_in(IMAGE, &["llama-cli", "--list-devices"], &[DEVICE], "Vulkan0: ")?;
    for line in devices.lines().filter(|line| line.contains("Vulkan")) {
        say(line.trim());
    }
    let mount = format!("--volume={}:/model.gguf:ro", model.display());
    let words = ["-m", "/model.gguf", "-p", "hello", "-n", "16", "--seed", "1", "--temp", "0"];
    let words = [&["llama-completion"], &words[..], &["-no-cnv", "-ngl", "99", "-v"]].concat();
    let log = run_in(IMAGE, &words, &[&mount, DEVICE], "Vulkan0")?;
    // The model has two layers and an output layer.
    let offloaded = log.lines().find(|line| line.contains("offloaded 3/3 layers to GPU"));
    ensure!(offloaded.is_some(), "the layers were not offloaded to the Vulkan device:\n{log}");
    let speed = log.lines().find(|line| line.contains("eval time") && line.contains("16 "));
    let speed = speed.or_else(|| log.lines().find(|line| line.contains("eval time")));
    match speed {
        Some(line) => say(line.trim()),
        None => bail!("no token was generated:\n{log}"),
    }
    if let Some(engines) = engines {
        command(&tool, &["verify", "vulkan", "--rebuild", "--engine", engines], &[])?;
    }
    say("vulkan: built, verified and run");
    Ok(())
}

/// Writes the tiny model into `target/`.
fn model() -> Result<std::path::PathBuf> {
    let folder = root()?.join("target/vulkan");
    let source = Path::new("crates/executor/tests/vulkan");
    let (packages, model) = (folder.join("packages"), folder.join("tiny.gguf"));
    let place = packages.display().to_string();
    let requirements = source.join("requirements.txt").display().to_string();
    let install = ["-m", "pip", "install", "--quiet", "--upgrade", "--target", &place];
    let locked = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "-r", &requirements];
    command("python3", &[install.as_slice(), &locked].concat(), &[])?;
    let program = source.join("tiny_model.py").display().to_string();
    let path = model.display().to_string();
    command("python3", &[&program, &path], &[("PYTHONPATH", &place)])?;
    Ok(model)
}
