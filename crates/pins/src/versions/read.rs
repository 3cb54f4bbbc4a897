//! Parses `versions.toml` into [`Pins`].
//!
//! Start at [`parse_versions`]. All values of a pin are read before the first failure is returned,
//! so that one run shows all mistakes.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{ArchivePin, Facts, ImagePin, ManifestKind, PinKind, Pins, Release, SourcePin};
use crate::built::read_args;
use crate::checks;
use crate::checks::line;
use crate::hashes::{self, Lookup};
use crate::problem::{ParseError, Report, Reported, Wrong, nearest, quote, wrong};
use crate::reader::{Table, collect, document};
use names::PinName;
use toml::de::{DeTable, DeValue};

/// The earliest `source-date-epoch`, 2020-01-01: no pin of this project is older.
const EARLIEST_EPOCH: i128 = 1_577_836_800;

/// The latest `source-date-epoch`, in 2106. A larger number is probably in milliseconds.
const LATEST_EPOCH: i128 = 1 << 32;

/// The keys that every kind of pin has.
const FACT_KEYS: [&str; 4] = ["checked", "expires", "evidence", "hold"];

/// Parses the text of `versions.toml`. `file` is its name in messages.
///
/// # Errors
/// Returns all problems in the file, each with its position, the value and the correct form.
pub fn parse_versions(file: &str, text: &str) -> Result<Pins, ParseError> {
    let mut report = Report::new(file, text);
    let pins = document(&mut report).and_then(|entries| {
        let root = Table::root(&mut report, &entries)?;
        read_pins(&mut report, &root)
    });
    report.finish(pins)
}

/// Returns whether the built-in data files are defaults for the project of a `versions.toml`,
/// even if something else in the file is wrong.
pub fn has_built_in(text: &str) -> bool {
    let (table, _) = DeTable::parse_recoverable(text);
    let setting = table.get_ref().get("built-in").map(|value| value.get_ref());
    !matches!(setting, Some(DeValue::Boolean(false)))
}

fn read_pins(report: &mut Report<'_>, root: &Table<'_>) -> Result<Pins, Reported> {
    let [archive, image, release, source] = PinKind::ALL.map(PinKind::table);
    let known = ["schema", "built-in", "source-date-epoch", source, archive, image, release];
    root.check_keys(report, &known);
    check_names_are_unique(report, root);
    let source_date_epoch = read_epoch(report, root);
    let has_built_in = match root.get("built-in") {
        None => Ok(true),
        Some(_) => root.flag(report, "built-in"),
    };
    let sources = read_kind(report, root, PinKind::Source, read_source);
    let archives = read_kind(report, root, PinKind::Archive, read_archive);
    let images = read_kind(report, root, PinKind::Image, read_image);
    let releases = read_kind(report, root, PinKind::Release, read_release);
    Ok(Pins {
        source_date_epoch: source_date_epoch?,
        has_built_in: has_built_in?,
        sources: sources?,
        archives: archives?,
        images: images?,
        releases: releases?,
    })
}

fn read_epoch(report: &mut Report<'_>, root: &Table<'_>) -> Result<u64, Reported> {
    const KEY: &str = "source-date-epoch";
    const EXAMPLE: &str = "source-date-epoch = 1795132800";
    let Some(entry) = root.get(KEY) else {
        return Err(root.add_missing(report, KEY, EXAMPLE));
    };
    let Some(number) = entry.integer() else {
        let help = match (entry.text(), entry.day()) {
            (Some(text), _) if text.bytes().all(|b| b.is_ascii_digit()) => {
                format!("write it without quotes: `{KEY} = {text}`")
            }
            (_, Some(day)) => format!("`date -u -d {day} +%s` prints the seconds"),
            _ => format!("write seconds, for example `{EXAMPLE}`"),
        };
        return Err(entry.add_type(report, "a number of seconds since 1970 (UTC)", &help));
    };
    if (EARLIEST_EPOCH..=LATEST_EPOCH).contains(&number)
        && let Ok(seconds) = u64::try_from(number)
    {
        return Ok(seconds);
    }
    let help = match number {
        20_000_101..=99_991_231 => {
            let (year, month, day) = (number / 10_000, number / 100 % 100, number % 100);
            format!(
                "it looks like a date; `date -u -d {year}-{month:02}-{day:02} +%s` prints the seconds"
            )
        }
        _ if (EARLIEST_EPOCH..=LATEST_EPOCH).contains(&(number / 1000)) => {
            format!("it looks like milliseconds; write `{KEY} = {}`", number / 1000)
        }
        _ => format!(
            "it is the time of the newest pin change in seconds since 1970, from {EARLIEST_EPOCH} (2020) to {LATEST_EPOCH} (2106); `date -u +%s` prints the current time"
        ),
    };
    let message = format!("`{KEY}` is out of range: {}", entry.source(report));
    Err(report.add(&entry.span, wrong(message, help)))
}

/// Reports each pin whose name is already used by another kind.
fn check_names_are_unique(report: &mut Report<'_>, root: &Table<'_>) {
    let mut pins: Vec<(Range<usize>, &str, PinKind)> = Vec::new();
    for kind in PinKind::ALL {
        let section = root.get(kind.table()).and_then(|entry| entry.as_table());
        let entries = section.into_iter().flat_map(|section| section.entries());
        pins.extend(entries.map(|entry| (entry.key_span, entry.key, kind)));
    }
    pins.sort_by_key(|(span, ..)| span.start);
    let mut first: BTreeMap<&str, (Range<usize>, PinKind)> = BTreeMap::new();
    for (span, name, kind) in pins {
        if let Some((earlier, earlier_kind)) = first.get(name) {
            let line = report.line(earlier.start);
            let message = format!(
                "{} is already the name of a pin, `[{}.{name}]` on line {line}",
                quote(name),
                earlier_kind.table(),
            );
            let help = format!(
                "pins of all kinds share one set of names; rename one, for example to `{name}-{}`",
                kind.table()
            );
            report.add(&span, wrong(message, help));
        } else {
            first.insert(name, (span, kind));
        }
    }
}

/// Reads all pins of one kind. `read` also receives the name of the pin, as messages show it.
fn read_kind<T>(
    report: &mut Report<'_>,
    root: &Table<'_>,
    kind: PinKind,
    read: impl Fn(&mut Report<'_>, &Table<'_>, &str) -> Result<T, Reported>,
) -> Result<BTreeMap<PinName, T>, Reported> {
    let Some(section) = root.get(kind.table()) else { return Ok(BTreeMap::new()) };
    let section_place = format!("`[{}.NAME]`", kind.table());
    let section = section.table(report, &section_place)?;
    collect(report, section.entries(), |report, entry| {
        let name = checks::pin_name(entry.key).map_err(|wrong| report.add(&entry.key_span, wrong));
        let place = quote(&format!("[{}.{}]", kind.table(), entry.key));
        let pin = entry
            .table(report, &place)
            .and_then(|table| read(report, &table, name.as_ref().map_or("NAME", PinName::as_str)));
        Ok((name?, pin?))
    })
}

fn read_source(
    report: &mut Report<'_>,
    table: &Table<'_>,
    name: &str,
) -> Result<SourcePin, Reported> {
    check_keys(report, table, &["url", "ref", "version", "commit", "patches", "args"]);
    let url = table.required(
        report,
        "url",
        "url = \"https://github.com/vllm-project/vllm\"",
        checks::repository_url,
    );
    let git_ref = table.optional(report, "ref", checks::git_ref);
    let version = table.optional(report, "version", checks::version);
    let lookup = Lookup {
        pin: name,
        from: url.as_deref().unwrap_or("URL"),
        under: git_ref.as_ref().ok().and_then(Option::as_deref),
    };
    let commit = table
        .required(report, "commit", "commit = \"unresolved\"", |text| hashes::commit(text, lookup));
    let patches = table.optional(report, "patches", checks::component);
    let args = read_args(report, table);
    let facts = read_facts(report, table);
    if let (Ok(Some(git_ref)), Ok(Some(version))) = (&git_ref, &version)
        && !checks::agrees(git_ref, version)
        && let Some(entry) = table.get("version")
    {
        let message = format!("version `{version}` and ref `{git_ref}` are not the same release");
        let from = url.as_deref().unwrap_or("URL");
        let help = format!(
            "correct one of them, and check that `commit` belongs to it: `git ls-remote {from} {git_ref} '{git_ref}^{{}}'` prints it"
        );
        report.add(&entry.span, wrong(message, help));
    }
    Ok(SourcePin {
        url: url?,
        git_ref: git_ref?,
        version: version?,
        commit: commit?,
        patches: patches?,
        args: args?,
        facts: facts?,
    })
}

fn read_archive(
    report: &mut Report<'_>,
    table: &Table<'_>,
    name: &str,
) -> Result<ArchivePin, Reported> {
    check_keys(report, table, &["project", "version", "sha256", "subdirectory", "patches", "args"]);
    let project = table.required(report, "project", "project = \"vllm\"", checks::package_name);
    let version = table.required(report, "version", "version = \"0.10.2\"", checks::exact_version);
    let lookup = Lookup {
        pin: name,
        from: project.as_deref().unwrap_or("the project"),
        under: version.as_deref().ok(),
    };
    let sha256 = table
        .required(report, "sha256", "sha256 = \"unresolved\"", |text| hashes::sha256(text, lookup));
    let subdirectory = table.optional(report, "subdirectory", checks::subdirectory);
    let patches = table.optional(report, "patches", checks::component);
    let args = read_args(report, table);
    let facts = read_facts(report, table);
    Ok(ArchivePin {
        project: project?,
        version: version?,
        sha256: sha256?,
        subdirectory: subdirectory?,
        patches: patches?,
        args: args?,
        facts: facts?,
    })
}

fn read_image(
    report: &mut Report<'_>,
    table: &Table<'_>,
    name: &str,
) -> Result<ImagePin, Reported> {
    let known = ["repository", "tag", "digest", "kind", "follow", "rocm", "gpus", "discontinued"];
    check_keys(report, table, &known);
    let repository = table.required(
        report,
        "repository",
        "repository = \"docker.io/rocm/vllm-dev\"",
        checks::repository,
    );
    let tag = table.optional(report, "tag", checks::tag);
    let from = repository.as_ref().map_or("IMAGE".to_owned(), ToString::to_string);
    let under = tag.as_ref().ok().and_then(Option::as_ref).map(|tag| tag.as_str());
    let lookup = Lookup { pin: name, from: &from, under };
    let digest = table
        .required(report, "digest", "digest = \"unresolved\"", |text| hashes::digest(text, lookup));
    let kind = table.optional(report, "kind", manifest_kind);
    let follow = table.flag(report, "follow");
    let rocm = table.optional(report, "rocm", checks::rocm_release);
    let gpus = table.texts(report, "gpus", "gfx1151", checks::gpu_target);
    let discontinued = table.optional(report, "discontinued", line(300));
    let facts = read_facts(report, table);
    if let (Ok(_), Ok(None), Ok(digest), Ok(follow)) = (&repository, &tag, &digest, follow) {
        check_can_be_found(report, table, digest.resolved().is_some(), follow);
    }
    Ok(ImagePin {
        repository: repository?,
        tag: tag?,
        digest: digest?,
        kind: kind?,
        follow: follow?,
        rocm: rocm?,
        gpus: gpus?,
        discontinued: discontinued?,
        facts: facts?,
    })
}

/// Reports an image that lacks the tag by which it must be looked up.
fn check_can_be_found(report: &mut Report<'_>, table: &Table<'_>, is_resolved: bool, follow: bool) {
    if let Some(entry) = table.get("follow")
        && follow
    {
        let message = format!("{} has `follow = true`, but no tag to follow", table.place());
        let help = "add the tag, for example `tag = \"nightly\"`, or remove `follow`";
        report.add(&entry.span, wrong(message, help));
    } else if let Some(entry) = table.get("digest")
        && !is_resolved
    {
        let message = format!("{} has no tag, and its digest is `unresolved`", table.place());
        let help = "add the tag to look up, for example `tag = \"v0.19.0\"`";
        report.add(&entry.span, wrong(message, help));
    }
}

fn manifest_kind(text: &str) -> Result<ManifestKind, Wrong> {
    match text {
        "index" => Ok(ManifestKind::Index),
        "manifest" => Ok(ManifestKind::Manifest),
        _ => {
            let near = nearest(text, ["index", "manifest"]);
            let help = match (near, text) {
                (Some(near), _) => format!("did you mean `{near}`?"),
                (None, "list") => "write `index`, the OCI name of a manifest list".to_owned(),
                (None, _) => "write `index` if the digest identifies a list of platforms, `manifest` if it identifies one platform, or remove the line".to_owned(),
            };
            Err(wrong(format!("{} is not a kind of digest", quote(text)), help))
        }
    }
}

fn read_release(
    report: &mut Report<'_>,
    table: &Table<'_>,
    _name: &str,
) -> Result<Release, Reported> {
    check_keys(report, table, &["index", "packages"]);
    let index = table.required(
        report,
        "index",
        "index = \"https://repo.amd.com/rocm/whl-multi-arch/\"",
        checks::https_url,
    );
    let packages = read_packages(report, table);
    let facts = read_facts(report, table);
    Ok(Release { index: index?, packages: packages?, facts: facts? })
}

fn read_packages(
    report: &mut Report<'_>,
    table: &Table<'_>,
) -> Result<BTreeMap<String, String>, Reported> {
    const EXAMPLE: &str = "packages.torch = \"2.11.0+rocm7.14.0\"";
    let Some(entry) = table.get("packages") else {
        return Err(table.add_missing(report, "packages", EXAMPLE));
    };
    let place = format!("`packages` of {}", table.place());
    let Some(packages) = entry.as_table() else {
        return Err(entry.add_type(
            report,
            "a table of names and versions",
            &format!("write `{EXAMPLE}`"),
        ));
    };
    if packages.entries().next().is_none() {
        let message = format!("{place} is empty");
        return Err(
            report.add(&entry.span, wrong(message, format!("add a line such as `{EXAMPLE}`")))
        );
    }
    let mut first: BTreeMap<String, &str> = BTreeMap::new();
    collect(report, packages.entries(), |report, package| {
        let name = checks::package_name(package.key).and_then(|name| {
            // An index treats these spellings as one project (Python packaging, "Names and
            // normalization").
            let plain = name.to_ascii_lowercase().replace(['_', '.'], "-");
            match first.insert(plain, package.key) {
                None => Ok(name),
                Some(other) => Err(wrong(
                    format!("{} is the same package as `{other}`", quote(package.key)),
                    "case, `-`, `_` and `.` do not distinguish packages; remove one of the two",
                )),
            }
        });
        let name = name.map_err(|wrong| report.add(&package.key_span, wrong));
        let version = package.checked_text(report, checks::exact_version);
        Ok((name?, version?))
    })
}

/// Reports keys that this kind of pin does not support.
fn check_keys(report: &mut Report<'_>, table: &Table<'_>, of_kind: &[&str]) {
    let known: Vec<&str> = of_kind.iter().chain(&FACT_KEYS).copied().collect();
    table.check_keys(report, &known);
}

fn read_facts(report: &mut Report<'_>, table: &Table<'_>) -> Result<Facts, Reported> {
    let checked = table.date(report, "checked");
    let expires = table.date(report, "expires");
    let evidence = table.optional(report, "evidence", line(500));
    let hold = table.optional(report, "hold", line(300));
    if let (Ok(Some(checked)), Ok(Some(expires))) = (&checked, &expires)
        && expires < checked
        && let Some(entry) = table.get("expires")
    {
        let message = format!("`expires` is `{expires}`, before `checked`, which is `{checked}`");
        let help = "correct one of the two dates; if the input had already disappeared when it was checked, remove the pin or mark it unresolved";
        report.add(&entry.span, wrong(message, help));
    }
    Ok(Facts { checked: checked?, expires: expires?, evidence: evidence?, hold: hold? })
}
