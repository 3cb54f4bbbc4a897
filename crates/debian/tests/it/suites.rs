//! Locks that take packages from two suites, and indexes that are expired or older than the lock.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use debian::{Mirrors, Resolve, ResolveError, WantedSet};
use names::PinName;
use pins::{FromSuites, PackageLock, SuiteIndex};

use crate::archive::{Archive, Suite};
use crate::support::{architecture, name, programs, wanted};

const DATE: &str = "Fri, 30 Oct 2026 08:08:01 UTC";

/// The packages of the two suites: `tool` and `lib` are built from one source, and only the newer
/// suite has `extra`.
const OLD: [(&str, &str, &str); 3] = [
    ("lib", "1", "Source: stack\n"),
    ("other", "1", ""),
    ("tool", "1", "Source: stack (1.0)\nDepends: lib, other\n"),
];
const NEW: [(&str, &str, &str); 4] = [
    ("extra", "2", ""),
    ("lib", "2", "Source: stack\n"),
    ("other", "2", ""),
    ("tool", "2", "Source: stack (2.0)\nDepends: lib (>= 2), other\n"),
];

/// A request to an archive: the packages from other suites, the indexes in the lock, and whether
/// expired indexes are accepted.
#[derive(Default)]
struct Asked {
    from: FromSuites,
    known: BTreeMap<String, SuiteIndex>,
    is_snapshot: bool,
}

impl Asked {
    fn from(packages: &[&str]) -> Self {
        let packages: BTreeSet<String> = packages.iter().map(|&name| name.to_owned()).collect();
        Self { from: [("newer".to_owned(), packages)].into(), ..Self::default() }
    }

    async fn look_up(
        &self,
        archive: &Archive,
        names: &[&str],
    ) -> Result<PackageLock, ResolveError> {
        let sets: BTreeMap<PinName, WantedSet> = [(name("one"), wanted(&[], names))].into();
        let work = tempfile::tempdir().unwrap();
        let keyring: PathBuf = archive.keyring();
        let mirrors =
            Mirrors { archive: vec![archive.url().parse().unwrap()], ..Mirrors::default() };
        let request = Resolve {
            suite: "older",
            architecture: architecture(),
            checked: "2026-11-24",
            from: &self.from,
            known: &self.known,
            sets: &sets,
            mirrors: &mirrors,
            keyring: &keyring,
            with_updates: false,
            is_snapshot: self.is_snapshot,
            work: work.path(),
        };
        debian::resolve(&programs(), &request).await
    }
}

/// Returns `NAME VERSION` of all packages of a lock.
fn all(lock: &PackageLock) -> Vec<String> {
    let packages = &lock.sets[&name("one")].packages;
    packages.iter().map(|one| format!("{} {}", one.name, one.version)).collect()
}

fn archive() -> Archive {
    let archive = Archive::new();
    let suite = |name, packages| Suite { name, date: DATE, valid_until: None, packages };
    archive.write(&suite("older", &OLD));
    archive.write(&suite("newer", &NEW));
    archive
}

#[tokio::test]
async fn named_packages_come_from_the_other_suite_and_nothing_else_does() {
    let archive = archive();
    let without = Asked::default().look_up(&archive, &["tool"]).await.unwrap();
    assert_eq!(all(&without), ["lib 1", "other 1", "tool 1"]);
    assert_eq!(without.indexes.keys().collect::<Vec<_>>(), ["older"]);
    let source = Asked::from(&["src:stack"]).look_up(&archive, &["tool"]).await.unwrap();
    assert_eq!(all(&source), ["lib 2", "other 1", "tool 2"]);
    assert_eq!(source.indexes.keys().collect::<Vec<_>>(), ["newer", "older"]);
    let again = pins::parse_package_lock("lock.toml", &source.to_toml());
    assert_eq!(again.unwrap_or_else(|error| panic!("{error}")), source);
    // A package that exists only in the other suite is found without being named.
    let lib = Asked::from(&["lib"]).look_up(&archive, &["lib", "extra", "other"]).await.unwrap();
    assert_eq!(all(&lib), ["extra 2", "lib 2", "other 1"]);
}

#[tokio::test]
async fn a_dependency_that_would_need_the_other_suite_is_an_error_that_names_it() {
    let error = Asked::from(&["tool"]).look_up(&archive(), &["tool"]).await.unwrap_err();
    assert!(matches!(error, ResolveError::Choose { .. }), "{error}");
    let output = error.last_lines().join("\n");
    assert!(output.contains("tool : Depends: lib (>= 2)"), "{output}");
}

#[tokio::test]
async fn a_name_that_no_set_needs_is_refused() {
    let archive = archive();
    for name in ["src:stakc", "extra"] {
        let error = Asked::from(&["lib", name]).look_up(&archive, &["tool"]).await.unwrap_err();
        let wanted =
            format!("`{name}` should come from `newer`, but no set needs a package of that name");
        assert_eq!(error.to_string(), wanted);
    }
}

#[tokio::test]
async fn an_expired_index_is_accepted_only_on_request_and_never_if_it_is_older_than_the_lock() {
    let archive = archive();
    let until = Some("Fri, 06 Nov 2020 08:08:01 UTC");
    let date = "Fri, 30 Oct 2020 08:08:01 UTC";
    archive.write(&Suite { name: "older", date, valid_until: until, packages: &OLD });
    let error = Asked::default().look_up(&archive, &["tool"]).await.unwrap_err();
    assert!(matches!(error, ResolveError::Update { .. }), "{error}");
    assert!(error.last_lines().join("\n").contains("expired"), "{error:?}");

    let mut asked = Asked { is_snapshot: true, ..Asked::default() };
    let lock = asked.look_up(&archive, &["tool"]).await.unwrap();
    let index = &lock.indexes["older"];
    assert_eq!(index.date, "2020-10-30T08:08:01Z");
    assert_eq!(index.valid_until.as_deref(), Some("2020-11-06T08:08:01Z"));
    assert_eq!(
        (lock.valid_until(), lock.days()),
        (index.valid_until.as_deref(), vec!["2020-10-30"])
    );

    asked.known = lock.indexes.clone();
    asked.look_up(&archive, &["tool"]).await.unwrap();
    let earlier = "Thu, 29 Oct 2020 08:08:01 UTC";
    archive.write(&Suite { name: "older", date: earlier, valid_until: until, packages: &OLD });
    let error = asked.look_up(&archive, &["tool"]).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the mirror's index of `older` is from 2020-10-29T08:08:01Z, but the lock has a newer one from 2020-10-30T08:08:01Z"
    );
}
