//! A bootstrap on several machines, as root and as an ordinary user: the result is the same, and apt
//! and dpkg of the machine have the same files before and after it.
//!
//! Each bootstrap runs in a guest of testkit, so a defect cannot reach this machine. The test runs
//! its own program there, on a folder that both share.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Instant;

use debian::{Bootstrap, FetchedPackage, bootstrap};
use pins::{LockedPackage, parse_package_lock};
use sha2::Digest as _;
use tempfile::TempDir;
use testkit::{AS_ORDINARY_USER, Guest, ORDINARY_USER, own_package};
use tokio::sync::OnceCell;

use crate::support::{EPOCH, SUITE, architecture, local_source, lock, mode, programs, write};

/// The variable that names the shared folder. It is set in guests only.
const FOLDER: &str = "BUILD_PIPELINE_TEST_FOLDER";

/// Runs a command in a guest and lists the files of apt and dpkg before and after it. `$1` is the
/// shared folder, `$2` the unpacked package uidmap. Lists and cache of this machine may be empty, so
/// each gets a file.
const COMPARE: &str = r#"set -eu
folder=$1 uidmap=$2; shift 2
state() {
  find /var/lib/apt /var/cache/apt /var/lib/dpkg -printf '%p %y %m %U:%G %s %T@ %l\n' | sort
  find /var/lib/apt /var/cache/apt /var/lib/dpkg -type f -exec sha256sum {} + | sort
}
[ -e /usr/bin/newuidmap ] || cp -p "$uidmap"/usr/bin/new?idmap /usr/bin/
mkdir -p /var/lib/apt/lists /var/cache/apt/archives
echo 'Package: kept' > /var/lib/apt/lists/example_dists_kept_Packages
echo kept > /var/cache/apt/archives/kept_1_all.deb
state > "$folder/before"
status=0; "$@" || status=$?
state > "$folder/after"
exit $status
"#;

/// Makes a shared folder with the lock, its packages, and this program.
async fn shared_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    local_source(&["base"], &path.join("packages")).await;
    std::fs::write(path.join("lock.toml"), lock().await.to_toml()).unwrap();
    std::fs::copy(std::env::current_exe().unwrap(), path.join("test")).unwrap();
    std::fs::create_dir(path.join("work")).unwrap();
    folder
}

/// Bootstraps in `guest` and checks that its apt and dpkg have the files that they had before.
/// `starter` runs the bootstrap; empty: root does. Returns the folder with `work/root.tar`.
async fn bootstrapped_in(guest: &Guest, starter: &[&str]) -> TempDir {
    let folder = shared_folder().await;
    let path = folder.path();
    if !starter.is_empty() {
        let user = Some(ORDINARY_USER);
        chown(path.join("work"), user, user).unwrap();
    }
    let uidmap = own_package("uidmap");
    let mut command = guest.command(&[path, &uidmap], "sh");
    command.args(["-c", COMPARE, "sh"]).args([path, &uidmap]).args(starter);
    command.arg(path.join("test")).args(["--exact", "machines::in_a_guest", "--nocapture"]);
    command.env(FOLDER, path);
    let ended = tokio::task::spawn_blocking(move || command.output());
    let output = ended.await.unwrap().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    // Also if the bootstrap failed: it must not have changed anything.
    assert_eq!(
        differences(path),
        Vec::<String>::new(),
        "the bootstrap changed the machine: {printed}"
    );
    assert!(output.status.success(), "the bootstrap failed: {}: {printed}", output.status);
    folder
}

/// Returns the lines of the lists `before` and `after` that are only in one of them.
fn differences(folder: &Path) -> Vec<String> {
    let [before, after] = ["before", "after"].map(|name| {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        text.lines().map(str::to_owned).collect::<BTreeSet<_>>()
    });
    assert!(before.iter().any(|line| line.contains("kept_Packages")), "{before:?}");
    before.symmetric_difference(&after).cloned().collect()
}

/// Bootstraps if this process is in a guest; what [`bootstrapped_in`] starts.
#[tokio::test]
async fn in_a_guest() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let text = std::fs::read_to_string(folder.join("lock.toml")).unwrap();
    let lock = parse_package_lock("lock.toml", &text).unwrap();
    let packages = lock.closure("base").unwrap();
    let fetched = |package: &&LockedPackage| {
        let path = folder.join("packages").join(package.file_name());
        FetchedPackage { package: (*package).clone(), path, received: 0 }
    };
    let fetched: Vec<_> = packages.iter().map(fetched).collect();
    let work = folder.join("work");
    let source = write(&fetched, &work.join("packages")).await;
    let (suite, architecture) = (SUITE, architecture());
    let (packages, source, mode) = (&packages[..], &source, mode());
    let request =
        Bootstrap { suite, architecture, packages, source, epoch: EPOCH, mode, work: &work };
    let started = Instant::now();
    let root = bootstrap(&programs(), &request, &work.join("root.tar")).await;
    let root = root.unwrap_or_else(|error| panic!("{error:?}"));
    println!("{mode:?}: {} bytes, {:?}, {}", root.size, started.elapsed(), root.sha256);
}

/// The folder of a bootstrap as root in a copy of this machine.
async fn reference() -> &'static TempDir {
    static MADE: OnceCell<TempDir> = OnceCell::const_new();
    MADE.get_or_init(|| async { bootstrapped_in(&Guest::this_machine(), &[]).await }).await
}

/// Returns what each entry of `work/root.tar` is, without the time of directories: a sealed layer
/// gives them its own.
fn entries(folder: &TempDir) -> BTreeMap<PathBuf, String> {
    let file = File::open(folder.path().join("work/root.tar")).unwrap();
    let mut archive = tar::Archive::new(BufReader::new(file));
    let mut entries = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let extensions = entry.pax_extensions().unwrap().into_iter().flatten();
        let extensions = extensions.map(|extension| extension.unwrap());
        let attributes: Vec<_> = extensions
            .filter(|extension| extension.key_bytes().starts_with(b"SCHILY.xattr."))
            .map(|extension| (extension.key_bytes().to_vec(), extension.value_bytes().to_vec()))
            .collect();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        let (header, hash) = (entry.header(), sha2::Sha256::digest(&bytes));
        let kind = header.entry_type();
        let time = if kind.is_dir() { 0 } else { header.mtime().unwrap() };
        let (mode, link) = (header.mode().unwrap(), entry.link_name().unwrap());
        let owner = (header.uid().unwrap(), header.gid().unwrap());
        let text = format!("{kind:?} {mode:o} {owner:?} {time} {link:?} {attributes:?} {hash:x?}");
        entries.insert(entry.path().unwrap().into_owned(), text);
    }
    entries
}

/// Returns the entries that only one of two root file systems has, or that are not the same.
fn different_entries(one: &TempDir, other: &TempDir) -> Vec<PathBuf> {
    let [one, other] = [one, other].map(entries);
    let paths: BTreeSet<&PathBuf> = one.keys().chain(other.keys()).collect();
    let different = paths.into_iter().filter(|&path| one.get(path) != other.get(path));
    different.cloned().collect()
}

#[tokio::test]
async fn a_bootstrap_as_root_changes_nothing_of_the_machine() {
    reference().await;
}

#[tokio::test]
async fn a_bootstrap_without_root_changes_nothing_of_the_machine_and_gives_the_same_bytes() {
    let folder = bootstrapped_in(&Guest::this_machine(), &AS_ORDINARY_USER).await;
    let tar = |folder: &TempDir| std::fs::read(folder.path().join("work/root.tar")).unwrap();
    assert!(tar(reference().await) == tar(&folder), "root makes another tar");
}

#[tokio::test]
async fn debian_13_gives_the_same_entries() {
    let folder = bootstrapped_in(&Guest::debian("trixie"), &[]).await;
    assert_eq!(different_entries(reference().await, &folder), Vec::<PathBuf>::new());
}
