//! Runs programs. Errors contain the command line.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::say;

/// Returns the root of the workspace.
pub(crate) fn root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here.parent().context("xtask is not in a folder")?.to_owned())
}

pub(crate) fn cargo(arguments: &[&str]) -> Result<()> {
    cargo_with(arguments, &[])
}

pub(crate) fn cargo_with(arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    command("cargo", arguments, environment)
}

/// Returns a command that runs in the root of the workspace, without the variables that cargo sets
/// to describe xtask. With them, cargo would compile ring, and everything that uses it, again.
pub(crate) fn at_root(program: &str) -> Result<Command> {
    let mut command = Command::new(program);
    command.current_dir(root()?);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    Ok(command)
}

/// Returns cargo's target folder.
pub(crate) fn target() -> Result<PathBuf> {
    let root = root()?;
    let folder = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(root.join(folder))
}

/// Returns the path of the tool's debug build, which `cargo test --workspace` builds too.
pub(crate) fn tool() -> Result<PathBuf> {
    Ok(target()?.join("debug/build-pipeline"))
}

/// Builds the tool, and returns its path.
pub(crate) fn build_tool() -> Result<PathBuf> {
    cargo(&["build", "--quiet", "--locked", "--package", "build-pipeline"])?;
    tool()
}

/// Runs a program in the root of the workspace.
pub(crate) fn command(
    program: &str,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> Result<()> {
    let line = format!("{program} {}", arguments.join(" "));
    say(&format!("+ {line}"));
    let mut command = at_root(program)?;
    command.args(arguments).envs(environment.iter().copied());
    let status = command.status().with_context(|| format!("cannot run `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(())
}

/// Runs a program in the root of the workspace and returns its output. Bytes that are not UTF-8 are
/// replaced: a language model can print anything.
pub(crate) fn output(program: &str, arguments: &[&str]) -> Result<String> {
    let line = format!("{program} {}", arguments.join(" "));
    let output = at_root(program)?.args(arguments).output();
    let output = output.with_context(|| format!("cannot run `{line}`"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("`{line}` failed: {}\n{said}{errors}", output.status);
    }
    Ok(said)
}

/// Returns whether a program is on the `PATH`.
pub(crate) fn is_installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
}
