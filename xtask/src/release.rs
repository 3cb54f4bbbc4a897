//! The files of a release: static binaries with their dependencies listed inside, packages for
//! Debian and Fedora, an SBOM, and checksums. The same commit gives the same bytes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::run::{self, command, output, root};
use crate::{say, setup};

/// Embeds the list of dependencies in the program.
const CARGO_AUDITABLE: (&str, &str) = ("cargo-auditable", "0.7.7");
/// Writes this list as an SBOM.
const CARGO_CYCLONEDX: (&str, &str) = ("cargo-cyclonedx", "0.5.9");
/// Writes the package for Debian.
const CARGO_DEB: (&str, &str) = ("cargo-deb", "3.8.0");
/// Writes the package for Fedora.
const CARGO_GENERATE_RPM: (&str, &str) = ("cargo-generate-rpm", "0.21.1");

/// The targets, and the names of their architectures in file names.
const TARGETS: [(&str, &str); 2] =
    [("x86_64-unknown-linux-musl", "x86_64"), ("aarch64-unknown-linux-musl", "aarch64")];

/// Writes the files of a release into `target/release-files`. With `twice`, builds everything again
/// from scratch and checks that the bytes are the same.
pub(crate) fn run(twice: bool) -> Result<()> {
    build()?;
    if twice {
        let sums = folder()?.join("SHA256SUMS");
        let first = fs::read_to_string(&sums)?;
        for (target, _) in TARGETS {
            fs::remove_dir_all(run::target()?.join(target))?;
        }
        build()?;
        ensure!(fs::read_to_string(&sums)? == first, "two releases of the same sources differ");
    }
    Ok(())
}

fn folder() -> Result<PathBuf> {
    Ok(root()?.join("target/release-files"))
}

fn build() -> Result<()> {
    let folder = folder()?;
    if folder.exists() {
        fs::remove_dir_all(&folder).context("cannot empty `target/release-files`")?;
    }
    fs::create_dir_all(&folder).context("cannot create `target/release-files`")?;
    // Files in packages and the SBOM get the time of the commit.
    let time = output("git", &["log", "-1", "--format=%ct"])?.trim().to_owned();
    let mut has_documents = false;
    for (target, processor) in TARGETS {
        let program = program(target)?;
        // The documents are the same for all targets; the program for this machine writes them.
        if !has_documents && target.starts_with(std::env::consts::ARCH) {
            documents(&program)?;
            has_documents = true;
        }
        fs::copy(&program, folder.join(format!("build-pipeline-{processor}")))
            .with_context(|| format!("cannot copy `{}`", program.display()))?;
    }
    ensure!(has_documents, "no target runs on this machine");
    for (target, processor) in TARGETS {
        packages(target, processor, &folder, &time)?;
    }
    sbom(&folder, &time)?;
    let sums = output("sh", &["-c", "cd target/release-files && sha256sum build-pipeline*"])?;
    fs::write(folder.join("SHA256SUMS"), &sums).context("cannot write SHA256SUMS")?;
    say(&sums);
    Ok(())
}

/// Builds the static binary for a target, and returns its path. zig compiles the code that is not
/// Rust, and links the program, so no other compiler for the target is needed.
fn program(target: &str) -> Result<PathBuf> {
    let auditable = setup::cargo_tool(CARGO_AUDITABLE)?;
    let zig = setup::zig()?;
    command("rustup", &["target", "add", target], &[])?;
    let root = root()?;
    let cargo_home = std::env::var("CARGO_HOME")
        .or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")))
        .context("neither CARGO_HOME nor HOME is set")?;
    // Paths of this machine would make the program different on each machine.
    let remap =
        format!("--remap-path-prefix={}=. --remap-path-prefix={cargo_home}=/cargo", root.display());
    let prefixes =
        format!("-ffile-prefix-map={}=. -ffile-prefix-map={cargo_home}=/cargo", root.display());
    let path = format!("{zig}/bin:{}", std::env::var("PATH").unwrap_or_default());
    let words = ["auditable", "zigbuild", "--release", "--locked", "--package", "build-pipeline"];
    command(
        &auditable,
        &[&words[..], &["--target", target]].concat(),
        &[
            ("RUSTFLAGS", remap.as_str()),
            ("CFLAGS", &prefixes),
            ("BUILD_PIPELINE_VERSION", &version()?),
            ("PATH", &path),
            ("PYTHONPATH", &zig),
        ],
    )?;
    Ok(run::target()?.join(target).join("release/build-pipeline"))
}

/// Returns the text that `--version` prints: the version, the commit and its date.
fn version() -> Result<String> {
    let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec()?;
    let package = metadata.packages.iter().find(|package| package.name == "build-pipeline");
    let number = package.context("there is no package `build-pipeline`")?.version.to_string();
    let commit = output("git", &["log", "-1", "--format=%h %cs", "--abbrev=12"])?;
    let is_dirty = !output("git", &["status", "--porcelain"])?.trim().is_empty();
    let changed = if is_dirty { ", changed" } else { "" };
    Ok(format!("{number} ({}{changed})", commit.trim()))
}

/// Writes the manual pages and completions that packages contain.
fn documents(program: &Path) -> Result<()> {
    let folder = root()?.join("target/release-documents");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let program = program.display().to_string();
    // The program runs outside a project, so that the files contain only built-in tracks and pins.
    let run = |words: &[&str]| output(&program, &[&["-C", "/"], words].concat());
    run(&["man", &folder.join("man").display().to_string()])?;
    for (shell, file) in
        [("bash", "build-pipeline"), ("zsh", "_build-pipeline"), ("fish", "build-pipeline.fish")]
    {
        fs::write(folder.join(file), run(&["completions", shell])?)?;
    }
    Ok(())
}

/// Writes the packages of a target.
fn packages(target: &str, processor: &str, folder: &Path, time: &str) -> Result<()> {
    let file = |kind: &str| folder.join(format!("build-pipeline-{processor}.{kind}"));
    let deb_file = file("deb").display().to_string();
    let deb = ["deb", "--no-build", "--no-strip", "--package", "build-pipeline"];
    let deb = [&deb[..], &["--target", target, "--output", &deb_file]].concat();
    command(&setup::cargo_tool(CARGO_DEB)?, &deb, &[("SOURCE_DATE_EPOCH", time)])?;
    let rpm_file = file("rpm").display().to_string();
    let rpm = ["generate-rpm", "--package", "crates/build-pipeline", "--source-date", time];
    let rpm = [&rpm[..], &["--target", target, "--output", &rpm_file]].concat();
    command(&setup::cargo_tool(CARGO_GENERATE_RPM)?, &rpm, &[])
}

/// Writes the SBOM.
fn sbom(folder: &Path, time: &str) -> Result<()> {
    let cyclonedx = setup::cargo_tool(CARGO_CYCLONEDX)?;
    let (target, _) = TARGETS[0];
    let list = ["cyclonedx", "--format", "json", "--spec-version", "1.5", "--target", target];
    let manifest = root()?.join("crates/build-pipeline/Cargo.toml").display().to_string();
    let list = [&list[..], &["--manifest-path", &manifest]].concat();
    // Without `SOURCE_DATE_EPOCH`, the SBOM contains the current time and a random number.
    command(&cyclonedx, &list, &[("SOURCE_DATE_EPOCH", time)])?;
    // cargo-cyclonedx writes an SBOM next to the manifest of every package in the workspace.
    for package in fs::read_dir(root()?.join("crates"))?.chain(fs::read_dir(root()?)?) {
        let package = package?;
        let Some(name) = package.file_name().to_str().map(str::to_owned) else { continue };
        let sbom = package.path().join(format!("{name}.cdx.json"));
        if !sbom.is_file() {
            continue;
        }
        if name == "build-pipeline" {
            let here = root()?.display().to_string();
            let text = fs::read_to_string(&sbom)?.replace(&here, "/build-pipeline");
            fs::write(folder.join("build-pipeline.cdx.json"), text)?;
        }
        fs::remove_file(&sbom)?;
    }
    Ok(())
}
