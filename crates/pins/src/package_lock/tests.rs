//! Tests that a written lock parses to the same lock, and that closures follow `on`.

use proptest::prelude::*;

use super::*;

fn package(name: &str, version: &str) -> LockedPackage {
    let plain = version.split_once(':').map_or(version, |(_, rest)| rest);
    LockedPackage {
        name: name.to_owned(),
        version: version.to_owned(),
        architecture: "amd64".to_owned(),
        file: format!("pool/main/{}/{name}/{name}_{plain}_amd64.deb", &name[..1]),
        size: 1000,
        sha256: "ab".repeat(32).parse().unwrap(),
    }
}

fn set(on: &[&str], wanted: &[&str], packages: Vec<LockedPackage>) -> PackageSet {
    PackageSet {
        on: on.iter().map(|name| name.parse().unwrap()).collect(),
        wanted: wanted.iter().map(|&name| name.to_owned()).collect(),
        packages,
    }
}

fn lock() -> PackageLock {
    let base = set(
        &[],
        &["?essential", "apt"],
        vec![package("apt", "3.0.3"), package("bash", "5.2.37-2+b5")],
    );
    let build =
        set(&["base"], &["g++"], vec![package("g++", "4:14.2.0-1"), package("gcc", "4:14.2.0-1")]);
    let runtime = set(&["base"], &["libgomp1"], vec![package("libgomp1", "14.2.0-19")]);
    let sets = [("base", base), ("vulkan-build", build), ("vulkan-runtime", runtime)];
    PackageLock {
        suite: "trixie".to_owned(),
        architecture: "amd64".to_owned(),
        checked: "2026-11-21".to_owned(),
        from: FromSuites::new(),
        indexes: BTreeMap::new(),
        sets: sets.into_iter().map(|(name, set)| (name.parse().unwrap(), set)).collect(),
    }
}

#[test]
fn the_text_has_one_package_a_line_and_everything_sorted() {
    let mut lock = lock();
    for set in lock.sets.values_mut() {
        set.packages.reverse();
    }
    insta::assert_snapshot!(lock.to_toml());
}

#[test]
fn what_is_written_is_read_again() {
    assert_eq!(parse_package_lock("a.toml", &lock().to_toml()).unwrap(), lock());
}

/// A lock that takes packages from two suites.
fn mixed() -> PackageLock {
    let index = |date: &str, end: Option<&str>| SuiteIndex {
        date: date.to_owned(),
        valid_until: end.map(str::to_owned),
        sha256: "cd".repeat(32).parse().unwrap(),
    };
    let names = ["libapt-pkg7.0", "src:apt"].map(str::to_owned);
    PackageLock {
        from: [("experimental".to_owned(), names.into())].into(),
        indexes: [
            ("trixie".to_owned(), index("2026-11-20T10:00:00Z", None)),
            (
                "experimental".to_owned(),
                index("2026-10-30T08:08:01Z", Some("2026-11-06T08:08:01Z")),
            ),
        ]
        .into(),
        ..lock()
    }
}

#[test]
fn suites_and_indexes_are_written_and_read_again() {
    let text = mixed().to_toml();
    assert!(text.contains("\n[from]\nexperimental = [\"libapt-pkg7.0\", \"src:apt\"]\n"), "{text}");
    let index = "\n[index.experimental]\ndate = \"2026-10-30T08:08:01Z\"\n\
        valid-until = \"2026-11-06T08:08:01Z\"\nsha256 = \"cdcd";
    assert!(text.contains(index), "{text}");
    assert_eq!(parse_package_lock("a.toml", &text).unwrap(), mixed());
    assert_eq!(parse_wanted_packages("a.toml", &text).unwrap().from, mixed().from);
    assert_eq!(mixed().valid_until(), Some("2026-11-06T08:08:01Z"));
    assert_eq!(mixed().days(), ["2026-11-20", "2026-10-30"]);
    // Without indexes, the files were there on the day of the lookup.
    assert_eq!((lock().valid_until(), lock().days()), (None, vec!["2026-11-21"]));
}

#[test]
fn wrong_suites_and_indexes_are_told_with_their_line_and_the_right_form() {
    let text = mixed().to_toml();
    for (old, new, wanted) in [
        ("experimental = [", "trixie = [", "`trixie` is the suite of the lock itself"),
        ("experimental = [", "Exp = [", "`Exp` is not a Debian suite"),
        ("[\"libapt-pkg7.0\", \"src:apt\"]", "[]", "no package comes from `experimental`"),
        ("\"src:apt\"", "\"src:\"", "is not the name of a Debian package"),
        ("2026-10-30T08:08:01Z", "2026-10-30", "a timestamp looks like `2026-11-20T08:08:01Z`"),
        ("2026-10-30T08:08:01Z", "2026-13-30T08:08:01Z", "is not a timestamp"),
        ("cdcd", "XYcd", "is not a SHA-256"),
    ] {
        let error = parse_package_lock("a.toml", &text.replacen(old, new, 1)).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(wanted) && error.contains("a.toml:"), "{new}: {error}");
    }
}

#[test]
fn a_closure_is_the_set_and_all_below_it() {
    let lock = lock();
    let names = |set: &str| {
        lock.closure(set).map(|all| all.iter().map(|p| p.name.as_str()).collect::<Vec<_>>())
    };
    assert_eq!(names("base").unwrap(), ["apt", "bash"]);
    assert_eq!(names("vulkan-build").unwrap(), ["apt", "bash", "g++", "gcc"]);
    assert_eq!(names("vulkan"), None);
}

#[test]
fn a_file_that_two_sets_share_is_there_once() {
    let mut lock = lock();
    let shared = package("libexpat1", "2.7.1-2");
    for name in ["vulkan-build", "vulkan-runtime"] {
        lock.sets.get_mut(&name.parse::<PinName>().unwrap()).unwrap().packages.push(shared.clone());
    }
    let sets: Vec<PinName> =
        ["vulkan-build", "vulkan-runtime"].iter().map(|name| name.parse().unwrap()).collect();
    let names: Vec<&str> = lock.packages(&sets).iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["g++", "gcc", "libexpat1", "libgomp1"]);
}

#[test]
fn a_security_update_is_known_by_its_path() {
    let mut update = package("apt", "3.0.3");
    assert!(!update.is_security_update());
    update.file = "pool/updates/main/a/apt/apt_3.0.3_amd64.deb".to_owned();
    assert!(update.is_security_update());
    assert_eq!(update.file_name(), "apt_3.0.3_amd64.deb");
}

#[test]
fn the_digest_of_a_set_covers_what_is_installed_and_nothing_else() {
    let digest = |change: &dyn Fn(&mut PackageLock), set: &str| {
        let mut lock = lock();
        change(&mut lock);
        lock.digest_of(set)
    };
    let same = |_: &mut PackageLock| {};
    let of = |lock: &mut PackageLock, name: &str| {
        lock.sets.get_mut(&name.parse::<PinName>().unwrap()).unwrap().packages.remove(0)
    };
    let one = digest(&same, "vulkan-build").unwrap();
    assert_ne!(digest(&same, "base").unwrap(), one);
    assert_eq!(digest(&same, "gone"), None);
    // Another set, a path, a size and the date of the lookup do not matter.
    let elsewhere = |lock: &mut PackageLock| {
        of(lock, "vulkan-runtime");
        lock.checked = "2026-11-22".to_owned();
        for set in lock.sets.values_mut() {
            for package in &mut set.packages {
                package.file = "pool/updates/x.deb".to_owned();
                package.size += 1;
            }
        }
    };
    assert_eq!(digest(&elsewhere, "vulkan-build").as_ref(), Some(&one));
    let below = |lock: &mut PackageLock| drop(of(lock, "base"));
    assert_ne!(digest(&below, "vulkan-build").as_ref(), Some(&one), "a set below it");
    let suite = |lock: &mut PackageLock| lock.suite = "sid".to_owned();
    assert_ne!(digest(&suite, "vulkan-build").as_ref(), Some(&one));
    let architecture = |lock: &mut PackageLock| lock.architecture = "arm64".to_owned();
    assert_ne!(digest(&architecture, "vulkan-build").as_ref(), Some(&one));
    for change in [
        |package: &mut LockedPackage| package.version = "1".to_owned(),
        |package: &mut LockedPackage| package.architecture = "all".to_owned(),
        |package: &mut LockedPackage| package.sha256 = "cd".repeat(32).parse().unwrap(),
        |package: &mut LockedPackage| package.name = "x".to_owned(),
    ] {
        let changed = |lock: &mut PackageLock| {
            let base = lock.sets.get_mut(&"base".parse::<PinName>().unwrap()).unwrap();
            change(&mut base.packages[0]);
        };
        assert_ne!(digest(&changed, "vulkan-build").as_ref(), Some(&one));
    }
}

#[test]
fn values_of_a_package_have_limits() {
    let text = lock().to_toml();
    let told = |old: &str, new: &str| {
        let changed = text.replacen(old, new, 1);
        assert_ne!(changed, text, "{old}");
        match parse_package_lock("a.toml", &changed) {
            Ok(_) => None,
            Err(error) => Some(error.problems[0].message.clone()),
        }
    };
    let most = 8_u64 << 30;
    assert_eq!(
        (told("size = 1000", "size = 1"), told("size = 1000", &format!("size = {most}"))),
        (None, None)
    );
    assert_eq!(told("size = 1000", "size = 0").as_deref(), Some("`size` is out of range: `0`"));
    let more = format!("size = {}", most + 1);
    assert_eq!(told("size = 1000", &more), Some(format!("`size` is out of range: `{}`", most + 1)));
    assert_eq!(
        told("apt_3.0.3_amd64.deb", "apt_3.0.4_amd64.deb").as_deref(),
        Some("`apt_3.0.4_amd64.deb` is not the file of `the package apt`")
    );
    // The epoch is not part of the name of a file.
    assert!(told("g++_14.2.0-1", "g++_4:14.2.0-1").is_some());
    assert_eq!(
        told("architecture = \"amd64\", file", "architecture = \"arm64\", file").as_deref(),
        Some("`arm64` is not `amd64` (the architecture of the lock) or `all`")
    );
}

#[test]
fn a_timestamp_is_a_day_and_a_time_in_utc() {
    let text = mixed().to_toml();
    let reads = |moment: &str| {
        parse_package_lock("a.toml", &text.replace("2026-10-30T08:08:01Z", moment)).is_ok()
    };
    assert!(reads("2026-10-30T23:59:59Z") && reads("2024-02-29T00:00:00Z"));
    for bad in [
        "2026-10-30T08:08:01",
        "2026-10-30 08:08:01Z",
        "2026-10-30T08:08:01z",
        "2026-10-30T8:08:01Z",
        "2026-10-30T08:08:01ZZ",
        "2026-02-29T08:08:01Z",
        "2026-10-30T08-08-01Z",
        "2026-10-30T08:08:aaZ",
    ] {
        assert!(!reads(bad), "{bad}");
    }
}

#[test]
fn what_a_person_edits_is_read_even_if_the_packages_are_not_there_yet() {
    let edited = lock().to_toml().replace("wanted = [\"g++\"]", "wanted = [\"clang\", \"g++\"]");
    let error = parse_package_lock("a.toml", &edited).unwrap_err();
    assert!(error.problems[0].message.contains("`clang`"), "{error}");
    let wanted = parse_wanted_packages("a.toml", &edited).unwrap();
    assert_eq!((wanted.suite.as_str(), wanted.architecture.as_str()), ("trixie", "amd64"));
    let (on, names) = &wanted.sets[&"vulkan-build".parse::<PinName>().unwrap()];
    assert_eq!(on.iter().map(PinName::as_str).collect::<Vec<_>>(), ["base"]);
    assert_eq!(names.iter().map(String::as_str).collect::<Vec<_>>(), ["clang", "g++"]);
    assert_eq!(wanted.sets.len(), 3);
}

#[test]
fn what_was_found_stays_known_when_a_person_edits_the_requirements() {
    let text = mixed().to_toml();
    let wanted = parse_wanted_packages("a.toml", &text).unwrap();
    assert_eq!(wanted.indexes, mixed().indexes);
    let all: Vec<LockedPackage> =
        mixed().packages(mixed().sets.keys()).into_iter().cloned().collect();
    let mut found = wanted.found;
    found.sort();
    assert_eq!(found, all);
    let added = format!("{text}\n[set.new]\nwanted = [\"clang\"]\n");
    let wanted = parse_wanted_packages("a.toml", &added).unwrap();
    assert_eq!((wanted.found.len(), &wanted.indexes), (all.len(), &mixed().indexes));
    // A package that cannot be read is looked up again, but a damaged index protects nothing.
    let damaged = text.replacen("size = ", "size = -", 1);
    let wanted = parse_wanted_packages("a.toml", &damaged).unwrap();
    assert_eq!(wanted.found.len(), all.len() - 1);
    let index = mixed().indexes.into_values().next().unwrap();
    let error = parse_wanted_packages("a.toml", &text.replace(&index.date, "today")).unwrap_err();
    assert!(error.to_string().contains("delete the table `[index.SUITE]`"), "{error}");
}

proptest! {
    #[test]
    fn any_lock_is_read_as_it_was_written(
        names in prop::collection::btree_set("[a-z0-9][a-z0-9+.-]{1,20}", 1..20),
        version in "([0-9]{1,2}:)?[0-9][A-Za-z0-9.+~-]{0,20}",
        size in 1_u64..8 << 30,
    ) {
        let mut lock = lock();
        let packages: Vec<LockedPackage> =
            names.iter().map(|name| LockedPackage { size, ..package(name, &version) }).collect();
        let base = lock.sets.get_mut(&"base".parse::<PinName>().unwrap()).unwrap();
        *base = PackageSet { wanted: names, packages, ..base.clone() };
        lock.sets.retain(|name, _| name.as_str() == "base");
        prop_assert_eq!(parse_package_lock("a.toml", &lock.to_toml()).unwrap(), lock);
    }
}
