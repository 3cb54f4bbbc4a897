//! Installs uv from a package index, at a pinned version and by hash.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use failure::{Failure, Kind};
use project::fetch::Fetcher;

use super::uv::{CACHE, disk_failure, last_lines, of_disk};

/// The version of uv to install if there is none, with the hashes of its wheels for Linux on x86_64
/// and aarch64, glibc and musl.
const VERSION: &str = "0.13.9";
const WHEELS: [&str; 4] = [
    "2c45530751517d6c3bbc69a19473f6effe47cce047bede01ffd8af7ea7b36b25",
    "5435c5ce14a56431208ca0996416d310f1598e8c2c8ba707688985a16bb82dbe",
    "d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19",
    "ecb6028d79dc96fbeafffe5c8af62a7099487ebc05a701e76714eebcffd06375",
];

/// The features that uv must have.
const NEEDED: [&str; 2] = ["--excludes", "pylock.toml"];

/// The hint if python3 or its pip is missing.
const PIP: &str = "install pip: `apt install python3-pip` (Debian, Ubuntu), \
                   `dnf install python3-pip` (Fedora), `pacman -S python-pip` (Arch)";
/// The hint if uv cannot be installed.
const OTHER_WAY: &str = "or install uv; the tool uses the `uv` on your `PATH`";

/// Returns whether the uv at this path runs, and has all required features.
pub(super) fn can(program: &Path) -> bool {
    let help = Command::new(program)
        .args(["pip", "compile", "--help"])
        .env("UV_NO_CONFIG", "1")
        .stdin(Stdio::null())
        .output();
    let help = help.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    help.is_ok_and(|help| NEEDED.iter().all(|word| help.contains(word)))
}

/// Installs uv below `folder` with pip, which checks its hash. Returns the path of the program. An
/// installation that does not run is replaced.
pub(super) fn installed(
    folder: &Path,
    index: &str,
    network: &BTreeMap<OsString, OsString>,
    fetcher: &Fetcher,
    tell: &dyn Fn(&str),
) -> Result<PathBuf, Failure> {
    let home = folder.join(format!("uv-{VERSION}"));
    let program = home.join(PROGRAM);
    if can(&program) {
        return Ok(program);
    }
    tell(&format!("installing uv {VERSION} from the package index"));
    // pip does not say clearly why it cannot read an index.
    fetcher.releases("uv")?;
    let machine = |error: io::Error| {
        let what = format!("writing into `{}` failed", folder.display());
        Failure::caused(Kind::Machine, what, &error).hint(CACHE)
    };
    fs::create_dir_all(folder).map_err(machine)?;
    let work = tempfile::tempdir_in(folder).map_err(machine)?;
    let hashes: String = WHEELS.iter().map(|hash| format!(" --hash=sha256:{hash}")).collect();
    fs::write(work.path().join(LIST), format!("uv=={VERSION}{hashes}\n")).map_err(machine)?;
    let mut tried = pip(work.path(), index, network)?;
    if let Err(output) = &tried
        && of_disk(&String::from_utf8_lossy(&output.stderr)).is_none()
        && !lacks_pip(output)
    {
        tried = pip(work.path(), index, network)?;
    }
    let target = tried.map_err(|output| refused(folder, &output))?;
    if !can(&target.join(PROGRAM)) {
        let what = format!(
            "the uv {VERSION} that pip installed below `{}` does not run",
            folder.display()
        );
        return Err(Failure::new(Kind::Machine, what)
            .hint("check whether the folder is on a disk that is mounted with `noexec`; `XDG_CACHE_HOME`, or `cache` in config.toml, selects another cache")
            .hint(OTHER_WAY));
    }
    if !can(&program) {
        // It was damaged, or an earlier version of this tool left it incomplete.
        match fs::remove_dir_all(&home) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(machine(error)),
            Ok(()) | Err(_) => {}
        }
    }
    // Another run may have been faster; its files are the same.
    match fs::rename(&target, &home) {
        Err(error) if !can(&program) => Err(machine(error)),
        Ok(()) | Err(_) => Ok(program),
    }
}

/// The program in the folder that pip installs into.
const PROGRAM: &str = "bin/uv";
/// The file that requires uv.
const LIST: &str = "requirements.txt";

/// Lets pip install what the list in `work` requires, and returns the new folder with it, or the
/// output of pip, if pip failed.
fn pip(
    work: &Path,
    index: &str,
    network: &BTreeMap<OsString, OsString>,
) -> Result<Result<PathBuf, Output>, Failure> {
    let machine = |error: io::Error| {
        let what = format!("writing into `{}` failed", work.display());
        Failure::caused(Kind::Machine, what, &error).hint(CACHE)
    };
    // pip reports success if the folder has an incomplete installation, and leaves that unchanged.
    let target = tempfile::tempdir_in(work).map_err(machine)?.keep().join("uv");
    let mut command = Command::new("python3");
    command.args(["-m", "pip", "install", "--quiet", "--no-deps", "--no-cache-dir"]);
    // If pip retries, it waits as long as `Retry-After` says, which may be a day.
    command.args(["--retries", "0", "--require-hashes", "--only-binary", ":all:", "--target"]);
    command.arg(&target).arg("-r").arg(work.join(LIST));
    // Everything is on one disk, so that an error of the disk is one of the cache.
    command.env("PIP_INDEX_URL", index).env("TMPDIR", work).envs(network).stdin(Stdio::null());
    let output = command.output().map_err(|error| {
        Failure::caused(Kind::Machine, "running `python3 -m pip` failed", &error)
            .hint(PIP)
            .hint(OTHER_WAY)
    })?;
    Ok(if output.status.success() { Ok(target) } else { Err(output) })
}

fn lacks_pip(output: &Output) -> bool {
    String::from_utf8_lossy(&output.stderr).contains("No module named pip")
}

/// Returns the failure of pip. `folder` contains all files that it writes.
fn refused(folder: &Path, output: &Output) -> Failure {
    if let Some(why) = of_disk(&String::from_utf8_lossy(&output.stderr)) {
        return disk_failure(
            &format!("installing uv {VERSION} failed: pip"),
            folder,
            why,
            &output.stderr,
        );
    }
    let kind = if lacks_pip(output) { Kind::Machine } else { Kind::Network };
    let told = Failure::new(kind, format!("cannot install uv {VERSION}"));
    let told = Failure { log: last_lines(&output.stderr), ..told };
    if lacks_pip(output) {
        return told.hint(PIP).hint(OTHER_WAY);
    }
    told.hint("install uv some other way; the tool uses the `uv` on your `PATH`")
}
