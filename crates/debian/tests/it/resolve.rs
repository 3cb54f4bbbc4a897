//! Packages are looked up in signed indexes, by an apt that does not touch the machine's own.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use debian::ResolveError;
use pins::parse_package_lock;

use crate::support::{KEYRING, architecture, lock, name, resolve, wanted};

fn names(lock: &pins::PackageLock, set: &str) -> Vec<String> {
    lock.sets[&name(set)].packages.iter().map(|package| package.name.clone()).collect()
}

#[tokio::test]
async fn a_set_has_all_that_it_needs_and_nothing_from_the_sets_it_depends_on() {
    let lock = lock().await;
    let (base, tools) = (names(lock, "base"), names(lock, "tools"));
    for essential in ["apt", "base-files", "bash", "dpkg", "libc6", "libc-bin", "tar", "util-linux"]
    {
        assert!(base.iter().any(|name| name == essential), "{essential}: {base:?}");
    }
    assert!(!base.iter().any(|name| name == "linux-base" || name == "systemd"), "{base:?}");
    // hello needs only libc6, which is in the base; jq adds its libraries.
    assert_eq!(tools, ["hello", "jq", "libjq1", "libonig5"]);
    assert_eq!(lock.closure("tools").unwrap().len(), base.len() + tools.len());
}

#[tokio::test]
async fn the_lock_is_one_that_the_parser_takes() {
    let lock = lock().await;
    let again = parse_package_lock("lock.toml", &lock.to_toml());
    assert_eq!(again.unwrap_or_else(|error| panic!("{error}")), *lock);
    assert_eq!((lock.suite.as_str(), lock.architecture.as_str()), ("trixie", architecture()));
}

#[tokio::test]
async fn the_machines_apt_is_left_alone() {
    let changed = |path: &str| -> SystemTime {
        std::fs::metadata(path).and_then(|found| found.modified()).unwrap()
    };
    let paths = ["/var/lib/apt/lists", "/var/lib/dpkg/status", "/var/cache/apt", "/etc/apt"];
    let before = paths.map(changed);
    let sets = BTreeMap::from([(name("one"), wanted(&[], &["hello"]))]);
    let lock = resolve(&sets, Path::new(KEYRING), "trixie").await.unwrap();
    // On an empty machine, hello needs libc6, whatever is installed on this machine.
    assert!(names(&lock, "one").contains(&"libc6".to_owned()));
    assert_eq!(before, paths.map(changed));
}

#[tokio::test]
async fn indexes_that_another_key_signed_are_refused() {
    let sets = BTreeMap::from([(name("one"), wanted(&[], &["hello"]))]);
    // The keys of retired releases.
    let keyring = Path::new("/usr/share/keyrings/debian-archive-removed-keys.gpg");
    let error = resolve(&sets, keyring, "trixie").await.unwrap_err();
    assert!(matches!(error, ResolveError::Update { .. }), "{error}");
    let output = error.last_lines().join("\n");
    assert!(
        output.contains("not signed")
            || output.contains("NO_PUBKEY")
            || output.contains("verification"),
        "{output}"
    );
}

#[tokio::test]
async fn a_package_that_does_not_exist_is_named() {
    let sets = BTreeMap::from([(name("one"), wanted(&[], &["no-such-package"]))]);
    let error = resolve(&sets, Path::new(KEYRING), "trixie").await.unwrap_err();
    assert_eq!(error.to_string(), "apt cannot choose the packages of set `one` of `trixie`");
    assert!(error.last_lines().join("\n").contains("no-such-package"), "{error:?}");
}

#[tokio::test]
async fn a_release_that_does_not_exist_is_an_error_of_the_index() {
    let sets = BTreeMap::from([(name("one"), wanted(&[], &["hello"]))]);
    let error = resolve(&sets, Path::new(KEYRING), "no-such-release").await.unwrap_err();
    assert!(matches!(error, ResolveError::Update { .. }), "{error}");
}
