//! The supply chain of the program itself: advisories about its dependencies, and a release that
//! lists them.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::run::{command, output, root};
use crate::{say, setup};

/// The cargo-auditable that writes the list of dependencies into the program.
const CARGO_AUDITABLE: (&str, &str) = ("cargo-auditable", "0.7.7");
/// The cargo-cyclonedx that writes this list as an SBOM.
const CARGO_CYCLONEDX: (&str, &str) = ("cargo-cyclonedx", "0.5.9");
/// The target of releases.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Checks every dependency in the RustSec database, which is fetched each time.
pub(crate) fn advisories() -> Result<()> {
    command(&setup::cargo_deny()?, &["--locked", "check", "advisories"], &[])
}

/// Builds the program with the list of its dependencies inside, and puts it into
/// `target/release-files` with an SBOM (CycloneDX) and the SHA-256 of both.
pub(crate) fn release() -> Result<()> {
    let auditable = setup::cargo_tool(CARGO_AUDITABLE)?;
    let cyclonedx = setup::cargo_tool(CARGO_CYCLONEDX)?;
    let folder = root()?.join("target/release-files");
    if folder.exists() {
        fs::remove_dir_all(&folder).context("cannot empty `target/release-files`")?;
    }
    fs::create_dir_all(&folder).context("cannot make `target/release-files`")?;
    // Paths of this machine would make the program different on each machine.
    let remap = format!("--remap-path-prefix={}=.", root()?.display());
    let build = ["auditable", "build", "--release", "--locked", "--package", "build-pipeline"];
    command(
        &auditable,
        &[&build[..], &["--target", TARGET]].concat(),
        &[("RUSTFLAGS", remap.as_str())],
    )?;
    let program = root()?.join("target").join(TARGET).join("release/build-pipeline");
    copy(&program, &folder.join("build-pipeline"))?;
    let list = ["cyclonedx", "--format", "json", "--spec-version", "1.5", "--target", TARGET];
    let manifest = root()?.join("crates/build-pipeline/Cargo.toml").display().to_string();
    let list = [&list[..], &["--manifest-path", &manifest]].concat();
    // Without it, the SBOM contains the current time and a random number.
    let time = output("git", &["log", "-1", "--format=%ct"])?;
    command(&cyclonedx, &list, &[("SOURCE_DATE_EPOCH", time.trim())])?;
    // It writes one SBOM next to the manifest of every package of the workspace.
    for package in fs::read_dir(root()?.join("crates"))?.chain(fs::read_dir(root()?)?) {
        let package = package?;
        let Some(name) = package.file_name().to_str().map(str::to_owned) else { continue };
        let list = package.path().join(format!("{name}.cdx.json"));
        if !list.is_file() {
            continue;
        }
        if name == "build-pipeline" {
            let here = root()?.display().to_string();
            let text = fs::read_to_string(&list)?.replace(&here, "/build-pipeline");
            fs::write(folder.join("build-pipeline.cdx.json"), text)?;
        }
        fs::remove_file(&list)?;
    }
    let sums = output("sh", &["-c", "cd target/release-files && sha256sum build-pipeline*"])?;
    fs::write(folder.join("SHA256SUMS"), &sums).context("cannot write SHA256SUMS")?;
    say(&sums);
    Ok(())
}

/// Checks dependencies and workflows, and checks that two releases have the same bytes. Returns the
/// number of checks.
pub(crate) fn gate() -> Result<usize> {
    crate::dependencies()?;
    crate::workflows()?;
    let sums = root()?.join("target/release-files/SHA256SUMS");
    release()?;
    let first = fs::read_to_string(&sums)?;
    fs::remove_dir_all(root()?.join("target").join(TARGET))?;
    release()?;
    ensure!(fs::read_to_string(&sums)? == first, "two releases of the same sources differ");
    Ok(3)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy `{}`", from.display()))?;
    Ok(())
}
