//! Shared by the tests: a lock of a small system, its files, and a package source made from them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use debian::{FetchedPackage, LocalSource, Mirrors, Programs, Resolve, ResolveError, WantedSet};
use names::PinName;
use pins::PackageLock;
use sources::{Settings, Sources};
use tokio::sync::OnceCell;

pub(crate) const EPOCH: u64 = 1_795_132_800;
pub(crate) const SUITE: &str = "trixie";
pub(crate) const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

pub(crate) fn programs() -> Programs {
    let variables = ["http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE"];
    let variable = |name: &str| Some((OsString::from(name), std::env::var_os(name)?));
    let variables = variables.iter().filter_map(|name| variable(name)).collect();
    Programs { path: std::env::var_os("PATH").unwrap(), variables }
}

/// The mirrors that this machine's apt uses.
pub(crate) fn mirrors() -> Mirrors {
    Mirrors::of_machine(Path::new("/etc/apt"))
}

/// The architecture of this machine.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Returns the folder that is kept between test runs, so that files are downloaded only once.
fn kept() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("debian")
}

pub(crate) fn sources() -> Sources {
    Sources::new(Settings::new(kept().join("sources")))
}

/// Returns sources without network access, which have only cached files.
pub(crate) fn offline() -> Sources {
    Sources::new(Settings { is_offline: true, ..Settings::new(kept().join("sources")) })
}

pub(crate) fn name(text: &str) -> PinName {
    text.parse().unwrap()
}

pub(crate) fn wanted(on: &[&str], wanted: &[&str]) -> WantedSet {
    let texts = |all: &[&str]| all.iter().map(|&text| text.to_owned()).collect::<BTreeSet<_>>();
    WantedSet { on: on.iter().map(|on| name(on)).collect(), wanted: texts(wanted) }
}

/// Looks up `sets` in trixie.
pub(crate) async fn resolve(
    sets: &BTreeMap<PinName, WantedSet>,
    keyring: &Path,
    suite: &str,
) -> Result<PackageLock, ResolveError> {
    let work = tempfile::tempdir().unwrap();
    let request = Resolve {
        suite,
        architecture: architecture(),
        checked: "2026-11-21",
        from: &BTreeMap::new(),
        known: &BTreeMap::new(),
        sets,
        mirrors: &mirrors(),
        keyring,
        with_updates: false,
        // The machine's mirror may be a snapshot of an earlier day.
        is_snapshot: true,
        work: work.path(),
    };
    let lock = debian::resolve(&programs(), &request).await;
    assert_eq!(std::fs::read_dir(work.path()).unwrap().count(), 0, "apt's folder is still there");
    lock
}

/// Returns a lock of the smallest system with apt, and of two packages based on it.
pub(crate) async fn lock() -> &'static PackageLock {
    static LOCK: OnceCell<PackageLock> = OnceCell::const_new();
    let look_up = || async {
        let sets = [
            (name("base"), wanted(&[], &["?essential", "apt"])),
            (name("tools"), wanted(&["base"], &["hello", "jq"])),
        ];
        resolve(&sets.into(), Path::new(KEYRING), SUITE).await.unwrap()
    };
    LOCK.get_or_init(look_up).await
}

/// Returns the files in the given sets of the lock.
pub(crate) async fn fetched(sets: &[&str]) -> Vec<FetchedPackage> {
    let names: Vec<PinName> = sets.iter().map(|set| name(set)).collect();
    let packages = lock().await.packages(&names);
    debian::fetch(&sources(), &packages, &mirrors(), &[]).await.unwrap()
}

/// Returns a package source of some sets, in `folder`.
pub(crate) async fn local_source(sets: &[&str], folder: &Path) -> LocalSource {
    debian::write_local_source(&fetched(sets).await, SUITE, EPOCH, folder).unwrap()
}
