//! `cargo xtask bench gpu FOLDER`: `audit` and `slim` on a folder with GPU code, for example the
//! unpacked packages of rocBLAS and hipBLASLt.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::{Layer, Measured, peak_memory, side_by_side, write_layout};
use crate::run::{cargo, root, target};
use crate::say;

/// The minimum speed of `audit`, in bytes per second.
const LEAST_SPEED: f64 = 1e9;
/// The maximum time of `slim`, as a multiple of the time of sealing.
const MOST_TIME: f64 = 1.3;
/// The GPU whose code is kept.
const GPU: &str = "gfx1151";

pub(super) fn run(tool: &Path, folder: &Path) -> Result<()> {
    cargo(&["build", "--release", "--locked", "--package", "seal", "--example", "seal"])?;
    let sealer = target()?.join("release/examples/seal");
    let work = root()?.join("target/bench-gpu");
    drop(std::fs::remove_dir_all(&work));
    let (layout, slimmed) = (work.join("image"), work.join("slim.tar"));
    let blobs = layout.join("blobs/sha256");
    std::fs::create_dir_all(&blobs)?;
    let layer = Layer::of(&blobs, folder, ".")?;
    let tar = blobs.join(layer.digest.trim_start_matches("sha256:"));
    let size = layer.size;
    write_layout(&layout, &[layer])?;

    let command = |program: &Path, arguments: &[&dyn AsRef<OsStr>]| {
        let mut command = Command::new(program);
        command.args(arguments);
        command
    };
    let audit = || command(tool, &[&"audit", &folder]);
    let hash = || command(Path::new("sha256sum"), &[&tar]);
    let seal = || command(&sealer, &[&tar]);
    let archive = format!("oci-archive:{}", slimmed.display());
    let slim = || command(tool, &[&"slim", &layout, &"--gpu", &GPU, &"--output", &archive]);

    let auditing = compared("P11, audit compared with sha256sum", &audit, &hash)?;
    let slimming = compared("P12, slim compared with sealing", &slim, &seal)?;
    #[expect(clippy::cast_precision_loss, reason = "a rate for display")]
    let speed = size as f64 / auditing.ours;
    let memory = peak_memory(&slim())?;
    let left = std::fs::metadata(&slimmed).context("slim wrote nothing")?.len();
    say(&format!("P11, audit of {} MB: {:.2} GB/s", size / 1_000_000, speed / 1e9));
    say(&format!("P12, slim: {} MB of memory, {} MB left", memory / 1_000_000, left / 1_000_000));
    slimming.is_at_most(MOST_TIME)?;
    ensure!(speed >= LEAST_SPEED, "P11: audit reads {:.2} GB/s", speed / 1e9);
    std::fs::remove_dir_all(&work)?;
    Ok(())
}

/// Measures two commands alternately.
fn compared(
    what: &str,
    ours: &dyn Fn() -> Command,
    peer: &dyn Fn() -> Command,
) -> Result<Measured> {
    side_by_side(what, &|_| Ok((ours(), None)), &|_| Ok((peer(), None)))
}
