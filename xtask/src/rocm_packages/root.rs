//! A root file system of Debian sid with ROCm packages, some of them from experimental.
//!
//! The packages need a newer C library than Debian 12 has, so programs that open the libraries run
//! in this root. The machine's own packages and package lists are not changed.

use anyhow::{Context as _, Result};

use super::WORK;
use crate::run::{command, output, root};
use crate::say;

/// The root, relative to the root of the workspace.
pub(super) const ROOT: &str = "target/rocm-packages/root";

/// The packages with programs that the checks run in the root: llvm-readobj and Python.
const PROGRAMS: [&str; 2] = ["llvm-22", "python3"];

/// Makes apt take ROCm 7.2 from experimental. The libraries of ROCm 6 that need other versions of
/// these packages have other package names, so both are in the root.
const PREFERENCES: &str = "Package: src:hipblaslt src:rocblas src:rocm-hipamd src:rocm-llvm \
    src:rocr-runtime src:roctracer\nPin: release a=experimental\nPin-Priority: 900\n";

/// The keys of Debian's archive.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Makes the root with these packages, unless an earlier run has made it, and prints their
/// versions.
pub(super) fn make(packages: &[&str]) -> Result<()> {
    let folder = root()?.join(WORK);
    let complete = folder.join("made-of");
    let wanted = [&PROGRAMS, packages].concat().join(",");
    let made_of = format!("{wanted}\n{PREFERENCES}");
    if std::fs::read_to_string(&complete).unwrap_or_default() != made_of {
        drop(std::fs::remove_dir_all(&folder));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("preferences"), PREFERENCES)?;
        bootstrap(&wanted)?;
        std::fs::write(&complete, made_of)?;
    }
    let own = format!("--root={ROOT}");
    let words = [own.as_str(), "--show", "--showformat=${Package} ${Version}\\n"];
    say(output("dpkg-query", &[&words, packages].concat())?.trim_end());
    Ok(())
}

/// Makes the root with mmdebstrap, from the mirror that apt uses on this machine.
fn bootstrap(wanted: &str) -> Result<()> {
    let mirror = mirror()?;
    let source = |suite: &str| format!("deb [signed-by={KEYS}] {mirror} {suite} main");
    let (include, hook) = (
        format!("--include={wanted}"),
        format!("--setup-hook=cp {WORK}/preferences \"$1/etc/apt/preferences.d/rocm\""),
    );
    let words = [
        // A separate mount namespace: the mounts of mmdebstrap disappear when it ends.
        &["--mount", "--propagation=private", "--", "mmdebstrap"][..],
        &["--mode=root", "--variant=essential", "--quiet", &include, &hook],
        // The mirror may be a snapshot of an earlier date.
        &["--aptopt=Acquire::Check-Valid-Until \"false\"", "sid", ROOT],
        &[&source("sid"), &source("experimental")],
    ];
    command("unshare", &words.concat(), &[])
}

/// Returns the Debian mirror that apt uses on this machine. This reads only apt's configuration.
fn mirror() -> Result<String> {
    let release = std::fs::read_to_string("/etc/os-release")?;
    let suite = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let end = format!("/dists/{}/InRelease", suite.context("this release has no code name")?);
    let indexes = output("apt-get", &["update", "--print-uris"])?;
    let mut addresses = indexes.lines().filter_map(|line| line.split('\'').nth(1));
    let found = addresses.find_map(|address| address.strip_suffix(&end));
    Ok(found.context("apt on this machine has no mirror of Debian")?.to_owned())
}

/// Returns the files of packages in the root, with their absolute paths in it. Folders are left
/// out.
pub(super) fn files(packages: &[&str]) -> Result<Vec<String>> {
    let own = format!("--root={ROOT}");
    let list = output("dpkg-query", &[&[&own, "--listfiles"], packages].concat())?;
    let place = root()?.join(ROOT);
    let is_file = |path: &&str| {
        let found = std::fs::symlink_metadata(place.join(path.trim_start_matches('/')));
        found.is_ok_and(|found| !found.is_dir())
    };
    Ok(list.lines().filter(is_file).map(str::to_owned).collect())
}

/// Returns the libraries of packages in the root, with their absolute paths in it. Links are left
/// out.
pub(super) fn libraries(packages: &[&str]) -> Result<Vec<String>> {
    let place = root()?.join(ROOT);
    let is_library = |path: &String| {
        let name = path.rsplit('/').next().unwrap_or_default();
        // `Kernels.so-000-gfx1151.hsaco` is not a library.
        let is_named = name.ends_with(".so") || name.contains(".so.");
        is_named && !place.join(path.trim_start_matches('/')).is_symlink()
    };
    Ok(files(packages)?.into_iter().filter(is_library).collect())
}

/// Writes a program with which compare.sh runs the root's llvm-readobj on a file of the root.
/// Returns its path.
pub(super) fn readobj() -> Result<String> {
    let path = format!("{WORK}/readobj");
    let script =
        format!("#!/bin/sh\nexec chroot {ROOT} llvm-readobj-22 \"$1\" \"${{2#{ROOT}}}\"\n");
    std::fs::write(root()?.join(&path), script)?;
    command("chmod", &["+x", &path], &[])?;
    Ok(path)
}
