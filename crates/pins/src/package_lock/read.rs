//! Parses a package lock, and checks the relations between its parts.

use std::collections::{BTreeMap, BTreeSet};

use super::{FromSuites, LockedPackage, PackageLock, PackageSet, SuiteIndex, WantedPackages};
use crate::checks;
use crate::forms;
use crate::problem::{ParseError, Report, Reported, Wrong, list, nearest, quote, wrong};
use crate::reader::{Entry, Table, collect, document};
use names::{PinName, Sha256};

/// The hint for values that are not written by hand.
const LOCK_AGAIN: &str = "run `build-pipeline lock` to write the file again";

/// The hint for values of an index. `lock` must not ignore a damaged index: it refuses an older one.
const INDEX_AGAIN: &str =
    "delete the table `[index.SUITE]`, and run `build-pipeline lock` to write it again";

/// An example of a package table.
const EXAMPLE: &str = "{ name = \"apt\", version = \"3.0.3\", architecture = \"amd64\", file = \"pool/main/a/apt/apt_3.0.3_amd64.deb\", size = 1452192, sha256 = \"…\" }";

/// Parses the text of a package lock. `file` is its name in messages.
///
/// # Errors
/// Returns all problems in the file, each with its position, the value and the correct form.
pub fn parse_package_lock(file: &str, text: &str) -> Result<PackageLock, ParseError> {
    let mut report = Report::new(file, text);
    let lock = document(&mut report).and_then(|entries| {
        let root = Table::root(&mut report, &entries)?;
        read_lock(&mut report, &root)
    });
    report.finish(lock)
}

/// Parses a package lock for the next lookup. A person edits the requirements in it, so the locked
/// packages may still lack a wanted package, and a package that cannot be read is left out: the
/// lookup writes it again.
///
/// # Errors
/// Returns all problems in the file, each with its position, the value and the correct form.
pub fn parse_wanted_packages(file: &str, text: &str) -> Result<WantedPackages, ParseError> {
    let mut report = Report::new(file, text);
    let wanted = document(&mut report).and_then(|entries| {
        let root = Table::root(&mut report, &entries)?;
        root.check_form(&mut report, forms::PACKAGE_LOCK.keys);
        let (suite, architecture) = read_release(&mut report, &root);
        let (from, indexes) = (read_from(&mut report, &root), read_indexes(&mut report, &root));
        let section = read_section(&mut report, &root)?;
        let own = architecture.as_deref().unwrap_or("amd64");
        let mut ignored = Report::new(file, text);
        let items = section.entries().filter_map(|set| set.as_table()?.get("packages")?.items());
        let found = items.flatten();
        let found = found.filter_map(|item| read_package(&mut ignored, &item, own).ok()).collect();
        let sets = collect(&mut report, section.entries(), |report, entry| {
            let name =
                checks::pin_name(entry.key).map_err(|wrong| report.add(&entry.key_span, wrong));
            let place = quote(&format!("[set.{}]", entry.key));
            let set = entry.table(report, &place).and_then(|table| read_wanted(report, &table));
            Ok((name?, set?))
        });
        let (suite, architecture) = (suite?, architecture?);
        let (from, indexes, sets) = (from?, indexes?, sets?);
        Ok(WantedPackages { suite, architecture, from, sets, indexes, found })
    });
    report.finish(wanted)
}

fn read_release(
    report: &mut Report<'_>,
    root: &Table<'_>,
) -> (Result<String, Reported>, Result<String, Reported>) {
    let suite = root.required(report, "suite", "suite = \"trixie\"", word("a Debian release"));
    let architecture = root.required(
        report,
        "architecture",
        "architecture = \"amd64\"",
        word("a Debian architecture"),
    );
    (suite, architecture)
}

/// Reads the packages that come from other suites.
fn read_from(report: &mut Report<'_>, root: &Table<'_>) -> Result<FromSuites, Reported> {
    let Some(from) = root.get("from") else { return Ok(FromSuites::new()) };
    let table = from.table(report, "`[from]`")?;
    let own = root.get("suite").and_then(|entry| entry.text().map(str::to_owned));
    collect(report, table.entries(), |report, entry| {
        let suite = word("a Debian suite")(entry.key);
        let suite = suite.map_err(|wrong| report.add(&entry.key_span, wrong))?;
        if Some(&suite) == own.as_ref() {
            let message = format!("`{suite}` is the suite of the lock itself");
            let help =
                "specify another suite, or remove the line: packages come from `suite` anyway";
            return Err(report.add(&entry.key_span, wrong(message, help)));
        }
        let packages = table.texts(report, entry.key, "src:rocblas", from_package)?;
        if packages.is_empty() {
            let message = format!("no package comes from `{suite}`");
            return Err(
                report.add(&entry.span, wrong(message, "list a package, or remove the line"))
            );
        }
        Ok((suite, packages.into_iter().collect()))
    })
}

/// Accepts the name of a package, or `src:NAME`.
fn from_package(text: &str) -> Result<String, Wrong> {
    package_name(text.strip_prefix("src:").unwrap_or(text)).map(|_| text.to_owned())
}

/// Reads the indexes in which the packages were found.
fn read_indexes(
    report: &mut Report<'_>,
    root: &Table<'_>,
) -> Result<BTreeMap<String, SuiteIndex>, Reported> {
    let Some(section) = root.get("index") else { return Ok(BTreeMap::new()) };
    let section = section.table(report, "`[index.SUITE]`")?;
    collect(report, section.entries(), |report, entry| {
        let suite = word("a Debian suite")(entry.key);
        let suite = suite.map_err(|wrong| report.add(&entry.key_span, wrong));
        let place = quote(&format!("[index.{}]", entry.key));
        let table = entry.table(report, &place)?;
        table.check_form(report, forms::SUITE_INDEX.keys);
        let date = table.required(report, "date", "date = \"2026-11-20T08:08:01Z\"", moment);
        let valid_until = table.optional(report, "valid-until", moment);
        let sha256 =
            table.required(report, "sha256", "sha256 = \"…\"", |text| sha256(text, INDEX_AGAIN));
        Ok((suite?, SuiteIndex { date: date?, valid_until: valid_until?, sha256: sha256? }))
    })
}

/// Accepts a timestamp in the form `2026-11-20T08:08:01Z`.
fn moment(text: &str) -> Result<String, Wrong> {
    let is_time = |rest: &str| {
        let shape = "T00:00:00Z";
        rest.len() == shape.len()
            && rest.bytes().zip(shape.bytes()).all(|(have, want)| match want {
                b'0' => have.is_ascii_digit(),
                _ => have == want,
            })
    };
    let is_valid = text
        .split_at_checked(10)
        .is_some_and(|(day, rest)| checks::date(day).is_ok() && is_time(rest));
    if is_valid {
        Ok(text.to_owned())
    } else {
        Err(wrong(
            format!("{} is not a timestamp", quote(text)),
            format!("a timestamp looks like `2026-11-20T08:08:01Z`; {INDEX_AGAIN}"),
        ))
    }
}

fn read_section<'t>(report: &mut Report<'_>, root: &Table<'t>) -> Result<Table<'t>, Reported> {
    match root.get("set") {
        Some(entry) => entry.table(report, "`[set.NAME]`"),
        None => Err(root.add_missing(report, "set", "[set.base]")),
    }
}

fn read_lock(report: &mut Report<'_>, root: &Table<'_>) -> Result<PackageLock, Reported> {
    root.check_form(report, forms::PACKAGE_LOCK.keys);
    let (suite, architecture) = read_release(report, root);
    let checked = match root.date(report, "checked") {
        Ok(Some(day)) => Ok(day),
        Ok(None) => Err(root.add_missing(report, "checked", "checked = 2026-11-20")),
        Err(reported) => Err(reported),
    };
    let (from, indexes) = (read_from(report, root), read_indexes(report, root));
    let section = read_section(report, root)?;
    let own = architecture.as_deref().unwrap_or("amd64");
    let sets = collect(report, section.entries(), |report, entry| {
        let name = checks::pin_name(entry.key).map_err(|wrong| report.add(&entry.key_span, wrong));
        let place = quote(&format!("[set.{}]", entry.key));
        let set = entry.table(report, &place).and_then(|table| read_set(report, &table, own));
        Ok((name?, set?))
    })?;
    check_sets(report, &section, &sets)?;
    let (suite, architecture, checked) = (suite?, architecture?, checked?);
    Ok(PackageLock { suite, architecture, checked, from: from?, indexes: indexes?, sets })
}

fn read_set(
    report: &mut Report<'_>,
    table: &Table<'_>,
    architecture: &str,
) -> Result<PackageSet, Reported> {
    let wanted = read_wanted(report, table);
    let packages = read_packages(report, table, architecture);
    let (on, wanted) = wanted?;
    Ok(PackageSet { on, wanted, packages: packages? })
}

fn read_wanted(
    report: &mut Report<'_>,
    table: &Table<'_>,
) -> Result<(BTreeSet<PinName>, BTreeSet<String>), Reported> {
    table.check_form(report, forms::PACKAGE_SET.keys);
    let on = table.texts(report, "on", "base", checks::pin_name);
    let wanted = table.texts(report, "wanted", "apt", wanted);
    if let Ok(names) = &wanted
        && names.is_empty()
    {
        let _reported = table.add_missing(report, "wanted", "wanted = [\"apt\"]");
    }
    Ok((on?.into_iter().collect(), wanted?.into_iter().collect()))
}

fn read_packages(
    report: &mut Report<'_>,
    table: &Table<'_>,
    architecture: &str,
) -> Result<Vec<LockedPackage>, Reported> {
    let Some(entry) = table.get("packages") else {
        return Err(table.add_missing(report, "packages", "packages = []"));
    };
    let Some(items) = entry.items() else {
        return Err(entry.add_type(report, "an array", &format!("write `packages = [{EXAMPLE}]`")));
    };
    let mut packages = Vec::new();
    let mut failed = None;
    for item in items {
        if let Some(reported) = report.is_full() {
            return Err(reported);
        }
        match read_package(report, &item, architecture) {
            Ok(package) => packages.push(package),
            Err(reported) => failed = Some(reported),
        }
    }
    packages.sort();
    failed.map_or(Ok(packages), Err)
}

fn read_package(
    report: &mut Report<'_>,
    item: &Entry<'_>,
    own: &str,
) -> Result<LockedPackage, Reported> {
    let shown = item.as_table().and_then(|table| table.get("name")).and_then(|name| name.text());
    let place = quote(&format!("the package {}", shown.unwrap_or("NAME")));
    if item.as_table().is_none() {
        return Err(item.add_type(report, "a table", &format!("write `{EXAMPLE}`")));
    }
    let table = item.table(report, &place)?;
    table.check_form(report, forms::LOCKED_PACKAGE.keys);
    let name = table.required(report, "name", "name = \"apt\"", package_name);
    let version = table.required(report, "version", "version = \"3.0.3\"", version);
    let architecture = table.required(report, "architecture", "architecture = \"all\"", |text| {
        if text == own || text == "all" {
            Ok(text.to_owned())
        } else {
            Err(wrong(
                format!("{} is not `{own}` (the architecture of the lock) or `all`", quote(text)),
                LOCK_AGAIN,
            ))
        }
    });
    let file =
        table.required(report, "file", "file = \"pool/main/a/apt/apt_3.0.3_amd64.deb\"", pool_path);
    let size = read_size(report, &table);
    let sha256 =
        table.required(report, "sha256", "sha256 = \"…\"", |text| sha256(text, LOCK_AGAIN));
    let package = LockedPackage {
        name: name?,
        version: version?,
        architecture: architecture?,
        file: file?,
        size: size?,
        sha256: sha256?,
    };
    // dak names pool files in this way; the epoch is not part of the name (Debian policy, 5.6.12).
    let plain = package.version.split_once(':').map_or(package.version.as_str(), |(_, rest)| rest);
    let expected = format!("{}_{plain}_{}.deb", package.name, package.architecture);
    if package.file_name() != expected
        && let Some(entry) = table.get("file")
    {
        let message = format!("{} is not the file of {place}", quote(package.file_name()));
        let help = format!("its name should be `{expected}`; {LOCK_AGAIN}");
        return Err(report.add(&entry.span, wrong(message, help)));
    }
    Ok(package)
}

fn read_size(report: &mut Report<'_>, table: &Table<'_>) -> Result<u64, Reported> {
    /// Larger than any package of Debian: 8 GiB.
    const MOST: i128 = 8 << 30;
    let Some(entry) = table.get("size") else {
        return Err(table.add_missing(report, "size", "size = 1452192"));
    };
    match entry.integer() {
        Some(size) if (1..=MOST).contains(&size) => Ok(u64::try_from(size).unwrap_or_default()),
        Some(_) => {
            let message = format!("`size` is out of range: {}", entry.source(report));
            let help = format!("it is a number of bytes, at most {MOST}; {LOCK_AGAIN}");
            Err(report.add(&entry.span, wrong(message, help)))
        }
        None => Err(entry.add_type(report, "a number of bytes", "write it without quotes")),
    }
}

/// Checks that sets depend on existing sets without a cycle, that no package occurs twice, and that
/// all wanted packages are present.
fn check_sets(
    report: &mut Report<'_>,
    section: &Table<'_>,
    sets: &BTreeMap<PinName, PackageSet>,
) -> Result<(), Reported> {
    let mut failed = None;
    // The sets in the cycles that were reported.
    let mut in_cycle: BTreeSet<&PinName> = BTreeSet::new();
    for (name, set) in sets {
        let Some(entry) = section.get(name.as_str()) else { continue };
        let span = entry.key_span.clone();
        let place = format!("`[set.{name}]`");
        for below in set.on.iter().filter(|below| !sets.contains_key(*below)) {
            let near = nearest(below.as_str(), sets.keys().map(PinName::as_str));
            let help = near.map_or_else(
                || format!("add `[set.{below}]`, or remove it from `on`"),
                |near| format!("did you mean `{near}`?"),
            );
            let message = format!("{place} depends on `{below}`, which is not a set in this file");
            failed = Some(report.add(&span, wrong(message, help)));
        }
        let below = sets_below(sets, name);
        if below.contains(name) {
            // Each cycle is reported once.
            if in_cycle.contains(name) {
                continue;
            }
            let members = below.into_iter().filter(|one| sets_below(sets, one).contains(name));
            let members: BTreeSet<&PinName> = members.collect();
            let others = members.iter().filter(|one| **one != name).map(|one| one.as_str());
            let through = list(others);
            let message = match through.as_str() {
                "" => format!("{place} depends on itself"),
                through => format!("{place} depends on itself, through {through}"),
            };
            in_cycle.extend(members);
            failed = Some(report.add(&span, wrong(message, "remove one `on` from the cycle")));
            continue;
        }
        let mut seen: BTreeMap<&str, &PinName> = BTreeMap::new();
        let all = below.into_iter().chain([name]);
        for (set_name, package) in all.flat_map(|of| sets[of].packages.iter().map(move |p| (of, p)))
        {
            if let Some(first) = seen.insert(&package.name, set_name) {
                let message = format!("`{}` is in {place} and in `[set.{first}]`", package.name);
                let message = if first == name {
                    format!("`{}` is in {place} twice", package.name)
                } else {
                    message
                };
                failed = Some(report.add(&span, wrong(message, LOCK_AGAIN)));
            }
        }
        for missing in set.wanted.iter().filter(|wanted| !wanted.starts_with('?')) {
            if !seen.contains_key(missing.as_str()) {
                let message = format!("{place} wants `{missing}`, which is not among its packages");
                failed = Some(report.add(&span, wrong(message, LOCK_AGAIN)));
            }
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Returns the sets that `name` depends on, directly or indirectly; `name` itself is one of them if
/// it depends on itself.
fn sets_below<'a>(
    sets: &'a BTreeMap<PinName, PackageSet>,
    name: &'a PinName,
) -> BTreeSet<&'a PinName> {
    let on = |of: &PinName| sets.get(of).into_iter().flat_map(|set| &set.on);
    let mut open: Vec<&PinName> = on(name).collect();
    let mut below = BTreeSet::new();
    while let Some(next) = open.pop() {
        if sets.contains_key(next) && below.insert(next) {
            open.extend(on(next));
        }
    }
    below
}

/// Accepts the code name of a release, or the name of an architecture.
fn word(what: &'static str) -> impl Fn(&str) -> Result<String, Wrong> {
    move |text| {
        let is_valid = text.len() <= 40
            && text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if is_valid {
            Ok(text.to_owned())
        } else {
            Err(wrong(
                format!("{} is not {what}", quote(text)),
                "write lower-case letters, digits and dashes, for example `trixie` or `amd64`",
            ))
        }
    }
}

/// Accepts an item of `wanted`: a package, or all packages that are marked essential.
fn wanted(text: &str) -> Result<String, Wrong> {
    match text {
        "?essential" => Ok(text.to_owned()),
        _ => package_name(text),
    }
}

fn sha256(text: &str, again: &str) -> Result<Sha256, Wrong> {
    text.parse::<Sha256>().map_err(|_| {
        wrong(
            format!("{} is not a SHA-256", quote(text)),
            format!("a SHA-256 has 64 lower-case hexadecimal digits; {again}"),
        )
    })
}

/// Accepts the name of a package (Debian policy, 5.6.7).
fn package_name(text: &str) -> Result<String, Wrong> {
    let is_valid = (2..=100).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-.".contains(&b));
    if is_valid {
        Ok(text.to_owned())
    } else {
        Err(wrong(
            format!("{} is not the name of a Debian package", quote(text)),
            "a name has lower-case letters, digits, `+`, `-` and `.`, and starts with a letter or digit",
        ))
    }
}

/// Accepts a version (Debian policy, 5.6.12).
fn version(text: &str) -> Result<String, Wrong> {
    let (epoch, rest) = text.split_once(':').unwrap_or(("0", text));
    let is_valid = text.len() <= 100
        && !epoch.is_empty()
        && epoch.bytes().all(|b| b.is_ascii_digit())
        && rest.starts_with(|c: char| c.is_ascii_alphanumeric())
        && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b".+-~".contains(&b));
    if is_valid {
        Ok(text.to_owned())
    } else {
        Err(wrong(
            format!("{} is not a version of a Debian package", quote(text)),
            format!("a version is, for example, `3.0.3` or `1:2.41-12+deb13u4`; {LOCK_AGAIN}"),
        ))
    }
}

/// Accepts the path of a package file in an archive.
fn pool_path(text: &str) -> Result<String, Wrong> {
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.~_".contains(&b))
    };
    let is_valid = text.len() <= 300
        && text.starts_with("pool/")
        && text.ends_with(".deb")
        && text.split('/').all(is_part);
    if is_valid {
        Ok(text.to_owned())
    } else {
        Err(wrong(
            format!("{} is not the path of a package file", quote(text)),
            format!("such a path starts with `pool/` and ends in `.deb`; {LOCK_AGAIN}"),
        ))
    }
}
