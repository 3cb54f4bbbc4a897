//! A bootstrap on several machines, as root and as an ordinary user: the bytes are the same, and
//! apt and dpkg of the machine have the same files before and after it.
//!
//! Each bootstrap runs in a guest of testkit, so a defect cannot reach this machine. The test runs
//! its own program there, on a folder that both share.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Instant;

use debian::{Bootstrap, FetchedPackage, bootstrap};
use pins::{LockedPackage, parse_package_lock};
use tempfile::TempDir;
use testkit::{AS_ORDINARY_USER, Guest, ORDINARY_USER, own_package};
use tokio::sync::OnceCell;

use crate::support::{
    EPOCH, SUITE, architecture, contents, local_source, lock, mode, programs, write,
};

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
    println!("{}", String::from_utf8_lossy(&printed));
    // Also if the bootstrap failed: it must not have changed anything.
    assert_eq!(differences(path), Vec::<String>::new(), "the bootstrap changed the machine");
    assert!(output.status.success(), "the bootstrap failed: {}", output.status);
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

/// Returns the paths of the entries that are not the same in the two bootstraps.
fn differing(one: &TempDir, other: &TempDir) -> Vec<String> {
    let [one, other] = [one, other].map(|folder| {
        let entries = contents(&folder.path().join("work/root.tar")).into_iter();
        let entries = entries.map(|(path, (header, text))| (path, (*header.as_bytes(), text)));
        entries.collect::<BTreeMap<_, _>>()
    });
    let paths: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let differ = paths.into_iter().filter(|&path| one.get(path) != other.get(path));
    differ.cloned().collect()
}

fn is_same(one: &TempDir, other: &TempDir) -> bool {
    let [one, other] =
        [one, other].map(|folder| std::fs::read(folder.path().join("work/root.tar")));
    one.unwrap() == other.unwrap()
}

#[tokio::test]
async fn a_bootstrap_as_root_changes_nothing_of_the_machine() {
    reference().await;
}

#[tokio::test]
async fn a_bootstrap_without_root_changes_nothing_of_the_machine_and_gives_the_same_bytes() {
    let folder = bootstrapped_in(&Guest::this_machine(), &AS_ORDINARY_USER).await;
    let reference = reference().await;
    assert_eq!(differing(reference, &folder), Vec::<String>::new());
    assert!(is_same(reference, &folder));
}

#[tokio::test]
async fn debian_13_gives_the_same_bytes() {
    let folder = bootstrapped_in(&Guest::debian("trixie"), &[]).await;
    let reference = reference().await;
    assert_eq!(differing(reference, &folder), Vec::<String>::new());
    assert!(is_same(reference, &folder));
}
