//! Debian packages that are unpacked for tests, but not installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::releases::releases_cache;

/// Returns a folder with the unpacked content of a package of Debian 13. The package is fetched
/// once per machine, with apt and from the machine's mirror; nothing is installed.
///
/// # Panics
/// Panics if apt cannot find the package, or cannot reach a mirror.
pub fn newer_package(name: &str) -> PathBuf {
    package("trixie", &releases_cache().join("debian-13"), name)
}

/// Returns docker's client for BuildKit, in the version of Debian sid.
///
/// # Panics
/// Panics if apt cannot find the package, or cannot reach a mirror.
pub fn buildx() -> PathBuf {
    let unpacked = package("sid", &releases_cache().join("debian-sid"), "docker-buildx");
    unpacked.join("usr/libexec/docker/cli-plugins/docker-buildx")
}

/// Returns the subfolder of `folder` for the package. The first call unpacks the package there.
fn package(suite: &str, folder: &Path, name: &str) -> PathBuf {
    let unpacked = folder.join(name);
    std::fs::create_dir_all(folder).expect("the cache can be written");
    // Tests run in parallel, and some test runners start a process for each.
    let lock = std::fs::File::create(folder.join("lock")).expect("the cache can be written");
    lock.lock().expect("files can be locked");
    if !unpacked.is_dir() {
        let fresh = tempfile::tempdir_in(folder).expect("the cache can be written");
        fetch(suite, name, fresh.path());
        let root = fresh.path().join("root");
        std::fs::rename(root, &unpacked).expect("a folder can be renamed");
    }
    unpacked
}

/// Downloads a package into `folder` and unpacks it into `root` in that folder.
fn fetch(suite: &str, name: &str, folder: &Path) {
    for part in ["lists/partial", "archives/partial"] {
        std::fs::create_dir_all(folder.join(part)).expect("a new folder can be filled");
    }
    let sources = folder.join("sources.list");
    let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let text = format!("deb [signed-by={keys}] {} {suite} main\n", mirror());
    std::fs::write(&sources, text).expect("a new folder can be filled");
    let option = |key: &str, value: &Path| format!("{key}={}", value.display());
    let options = [
        option("Dir::Etc::SourceList", &sources),
        option("Dir::Etc::SourceParts", Path::new("/dev/null")),
        option("Dir::State::Lists", &folder.join("lists")),
        option("Dir::Cache", folder),
        "APT::Sandbox::User=".to_owned(),
        // The mirror of sid may be a few days behind.
        "Acquire::Check-Valid-Until=false".to_owned(),
    ];
    for arguments in [&["update"][..], &["download", name]] {
        let mut apt = Command::new("apt-get");
        apt.arg("-qq").args(options.iter().flat_map(|setting| ["-o", setting])).args(arguments);
        let output = apt.current_dir(folder).output().expect("apt-get runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "apt-get {}: {said}", arguments.join(" "));
    }
    let entries = std::fs::read_dir(folder).expect("the folder exists").flatten();
    let archive = entries
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"));
    let archive = archive.expect("apt-get has downloaded the package");
    let unpacked =
        Command::new("dpkg-deb").arg("-x").arg(archive).arg(folder.join("root")).status();
    assert!(unpacked.is_ok_and(|status| status.success()), "dpkg-deb unpacks {name}");
}

/// Returns the Debian mirror that apt uses on this machine. Apt's package lists are not needed for
/// this.
pub(crate) fn mirror() -> String {
    let end = format!("/dists/{}/InRelease", own_suite());
    let output = Command::new("apt-get").args(["update", "--print-uris"]).output();
    let text = String::from_utf8(output.expect("apt-get runs").stdout).expect("addresses are text");
    let mut addresses = text.lines().filter_map(|line| line.split('\'').nth(1));
    let found = addresses.find_map(|address| address.strip_suffix(&end));
    found.expect("apt knows a mirror of Debian").to_owned()
}

/// Returns the code name of this machine's release.
fn own_suite() -> String {
    let release = std::fs::read_to_string("/etc/os-release").expect("the system describes itself");
    let suite = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    suite.expect("the release has a code name").to_owned()
}
