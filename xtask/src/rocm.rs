//! Builds track `llama-rocm` for real and checks it: the code for its GPU, its libraries, its
//! version, and its list of devices.
//!
//! This takes as long as compiling llama.cpp for a GPU, so it is not part of `ci`. It needs 20 GB
//! of disk space, but no GPU. If the machine has a GPU, the list of devices is only printed.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::container::{llama_version, run_in};
use crate::layout::{Layout, blob};
use crate::run::{self, cargo, command, output};
use crate::say;

/// The track, its image in the engine, and its layout.
const TRACK: &str = "llama-rocm";
const IMAGE: &str = "localhost/build-pipeline/llama-rocm:latest";
const LAYOUT: &str = "dist/llama-rocm";

/// The parts of the image that must have code for the GPU. Their paths in the audit contain these
/// names.
const NATIVE: [&str; 3] = ["libggml-hip", "rocblas", "hipblaslt"];

/// The maximum compressed size of the image, in bytes.
const MOST_BYTES: u64 = 600_000_000;

/// A script that lists every library that llama.cpp or ROCm needs but the image lacks.
const MISSING: &str = "for file in /opt/llama.cpp/bin/* /opt/llama.cpp/lib/*.so* \
    /usr/lib/x86_64-linux-gnu/lib{amdhip64,hipblas,hipblaslt,rocblas,rocsolver}.so.*; do \
    ldd \"$file\" | sed -n \"s|.*not found.*|$file: &|p\"; done; echo checked";

/// Builds and checks the track, and rebuilds it with each engine in `engines`, a comma-separated
/// list.
pub(crate) fn run(engines: Option<&str>) -> Result<()> {
    cargo(&["build", "--release", "--locked", "--package", "build-pipeline"])?;
    let tool = run::target()?.join("release/build-pipeline").display().to_string();
    let begin = Instant::now();
    let to = format!("oci:{LAYOUT}");
    command(&tool, &["--track", TRACK, "--engine", "podman", "--output", &to, "--load"], &[])?;
    say(&format!("built in {} s", begin.elapsed().as_secs()));
    let before = unslimmed(&tool)?;
    command(&tool, &["verify", TRACK], &[])?;
    audit(&tool, LAYOUT)?;
    check_container(&tool)?;
    check_size(before)?;
    if let Some(engines) = engines {
        command(&tool, &["verify", TRACK, "--rebuild", "--engine", engines], &[])?;
    }
    say("rocm: built, slimmed, verified, audited and run");
    Ok(())
}

/// Checks that the image has code for its GPU in each part that needs it, and for no other GPU.
fn audit(tool: &str, layout: &str) -> Result<()> {
    let report = output(tool, &["audit", layout, "--format", "json"])?;
    let report: Value = serde_json::from_str(&report)?;
    ensure!(report["verdict"] == "native", "the verdict is not native: {}", report["verdict"]);
    let targets = report["targets"].as_array().context("the audit lists no targets")?;
    ensure!(targets.len() == 1, "the image has code for other GPUs: {targets:?}");
    let parts = report["parts"].as_array().context("the audit lists no parts")?;
    for name in NATIVE {
        let has = |part: &&Value| part["path"].as_str().is_some_and(|path| path.contains(name));
        let mut found = parts.iter().filter(has).peekable();
        ensure!(found.peek().is_some(), "the audit has no part `{name}`: {parts:?}");
        ensure!(
            found.all(|part| part["verdict"] == "native"),
            "a part of `{name}` has no code for the GPU: {parts:?}"
        );
    }
    Ok(())
}

/// Checks the image in containers.
fn check_container(tool: &str) -> Result<()> {
    let missing = run_in(IMAGE, &["bash", "-c", MISSING], &[], "checked")?;
    ensure!(missing.trim() == "checked", "the image lacks libraries:\n{missing}");
    run_in(IMAGE, &["llama-cli", "--version"], &[], &llama_version(tool, TRACK)?)?;
    // The image must not contain programs that only a build needs.
    let tools = "command -v clang clang++ clang-22 hipcc gcc g++ cmake ninja ld as; echo none";
    let said = run_in(IMAGE, &["sh", "-c", tools], &[], "none")?;
    ensure!(said.trim() == "none", "the image contains compilers:\n{said}");
    let list = ["llama-cli", "--list-devices"];
    if Path::new("/dev/kfd").exists() {
        let devices = ["--device=/dev/kfd", "--device=/dev/dri"];
        say(run_in(IMAGE, &list, &devices, "Available devices:")?.trim());
        return Ok(());
    }
    let listed = run_in(IMAGE, &list, &[], "no ROCm-capable device is detected")?;
    ensure!(!listed.contains("ROCm0"), "a device is listed on a machine without one:\n{listed}");
    Ok(())
}

/// Returns the compressed size of the image before the build slimmed it, from the build's record.
fn unslimmed(tool: &str) -> Result<u64> {
    let record: Value =
        serde_json::from_str(&output(tool, &["records", "--last", "--format", "json"])?)?;
    ensure!(record["plan"]["name"] == TRACK, "the last record is of {}", record["plan"]["name"]);
    let before = record["image"]["slim"]["layer_bytes_before"].as_u64();
    before.context("the record does not say what `slim` removed")
}

/// Checks the compressed size of the image, and prints it with its other sizes: unpacked, and
/// compressed before it was slimmed.
fn check_size(before: u64) -> Result<()> {
    let image = Layout::read(LAYOUT)?;
    let paths: Vec<String> =
        image.layers.iter().map(|(digest, _)| format!("{LAYOUT}/{}", blob(digest))).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let count = ["-c", "gzip --decompress --stdout \"$@\" | wc --bytes", "sh"];
    let unpacked: u64 = output("sh", &[&count[..], &paths].concat())?.trim().parse()?;
    let megabytes = |bytes: u64| bytes / 1_000_000;
    say(&format!(
        "{LAYOUT}: {}, {} MB compressed, {} MB unpacked; {} MB compressed before it was slimmed",
        image.digest,
        megabytes(image.bytes()),
        megabytes(unpacked),
        megabytes(before)
    ));
    ensure!(image.bytes() <= MOST_BYTES, "the image is larger than {} MB", megabytes(MOST_BYTES));
    Ok(())
}
