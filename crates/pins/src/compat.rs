//! `versions/compat.toml`: which versions work together, as data with sources and dates.
//!
//! Start at [`Compat`] and its queries: [`Compat::kernel_support`], [`Compat::fixed_kernel`],
//! [`Compat::coupling`], [`Compat::bad`], [`Compat::moved_index`]. The caller chooses the machine
//! or the pins, and decides how severe a result is.

use std::collections::BTreeMap;
use std::fmt;

use crate::ParseError;
use crate::checks::{self, line};
use crate::forms;
use crate::known::Known;
use crate::problem::{Report, Reported, Wrong, list, nearest, quote, wrong};
use crate::reader::{Entry, Table, collect, document};
use crate::releases::{Releases, is_kernel_at_least};
use crate::rows::removed;
use names::{GpuTarget, PinName};

/// The content of `compat.toml`; each row has a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compat {
    /// Kernels that contain the driver fix for a GPU.
    pub kernels: BTreeMap<String, KernelRow>,
    /// Support of ROCm releases on kernels with and without the fix.
    pub rocm: BTreeMap<String, RocmRow>,
    /// Firmware that is known to be bad or good.
    pub firmware: BTreeMap<String, FirmwareRow>,
    /// Packages whose releases must match.
    pub couplings: BTreeMap<String, CouplingRow>,
    /// Releases that are known to fail.
    pub bad: BTreeMap<String, BadRow>,
    /// Package indexes that moved or no longer get new packages.
    pub indexes: BTreeMap<String, IndexRow>,
}

/// The source of a row, and when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// The documents, for people.
    pub source: String,
    /// The date on which they were read, `YYYY-MM-DD`.
    pub checked: String,
    /// How the fact is known, if the row records it.
    pub known: Option<Known>,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.known {
            Some(known) => write!(f, "{} ({known})", self.source),
            None => f.write_str(&self.source),
        }
    }
}

/// Kernels that contain the driver fix for some GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelRow {
    /// The GPU targets of this row.
    pub gpus: Vec<GpuTarget>,
    /// The first release with the fix, as the distribution's package spells it; `None` means all
    /// releases.
    pub since: Option<String>,
    /// The distribution of the kernel, `ID-VERSION_ID` of os-release; `None` means any.
    pub distribution: Option<String>,
    /// The text after the last dash of the kernel's release; `None` means any.
    pub flavour: Option<String>,
    /// The status of older kernels of this distribution and flavour, whatever the ROCm release;
    /// `None` if [`Compat::rocm`] decides.
    pub older: Option<Support>,
    /// The source.
    pub evidence: Evidence,
}

/// The status of a ROCm release on a kernel, in the terms of AMD's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Support {
    /// It works, and AMD confirms it.
    Supported,
    /// It starts, but fails under load.
    Unstable,
    /// It does not work.
    Unsupported,
}

/// Support of some ROCm releases on kernels with and without the fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RocmRow {
    /// The GPU targets of this row.
    pub gpus: Vec<GpuTarget>,
    /// The releases.
    pub releases: Vec<Releases>,
    /// The vendor of the builds, for example `amd`.
    pub builds: String,
    /// The status on a kernel that [`Compat::kernels`] lists.
    pub fixed_kernel: Support,
    /// The status on any other kernel.
    pub other_kernel: Support,
    /// The source.
    pub evidence: Evidence,
}

/// Firmware that is known to be bad, and its replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirmwareRow {
    /// The GPU targets of this row.
    pub gpus: Vec<GpuTarget>,
    /// Bad releases of linux-firmware, by date.
    pub bad: Vec<Releases>,
    /// Good releases of linux-firmware, by date.
    pub good: Vec<Releases>,
    /// Bad versions of the MES scheduler's firmware.
    pub bad_mes: Vec<u32>,
    /// What goes wrong with the bad versions.
    pub why: String,
    /// The source.
    pub evidence: Evidence,
}

/// Packages that must match some releases of another package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CouplingRow {
    /// The package that the others must match.
    pub package: String,
    /// Its releases.
    pub releases: Vec<Releases>,
    /// The matching packages and their releases.
    pub with: BTreeMap<String, Releases>,
    /// The source.
    pub evidence: Evidence,
}

/// Releases of a package that are known to fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRow {
    /// The package, for example `vllm` or `rocm`.
    pub package: String,
    /// Its releases.
    pub releases: Vec<Releases>,
    /// The releases fail only together with these releases of other packages; if empty, they always
    /// fail.
    pub with: BTreeMap<String, Releases>,
    /// What goes wrong.
    pub why: String,
    /// What to use instead.
    pub instead: String,
    /// The source.
    pub evidence: Evidence,
}

/// A package index that moved or no longer gets new packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexRow {
    /// The prefix of its URLs.
    pub url: String,
    /// What has happened to it, for example `has moved`.
    pub why: String,
    /// What to use instead.
    pub instead: String,
    /// The source.
    pub evidence: Evidence,
}

/// A kernel to look up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel<'a> {
    /// The output of `uname -r`, for example `6.17.0-19-generic`.
    pub release: &'a str,
    /// The build number, from the `#…` of `uname -v`, for example `19~24.04.2`.
    pub build: Option<&'a str>,
    /// `ID-VERSION_ID` of os-release, for example `ubuntu-24.04`.
    pub distribution: Option<&'a str>,
}

impl Compat {
    /// Returns the row about ROCm release `rocm` on `gpu`, and the status on a kernel with or
    /// without the fix. Returns `None` if no row covers that release.
    pub fn kernel_support(
        &self,
        gpu: &GpuTarget,
        rocm: &str,
        is_fixed: bool,
    ) -> Option<(&RocmRow, Support)> {
        let row = self
            .rocm
            .values()
            .find(|row| row.gpus.contains(gpu) && row.releases.iter().any(|r| r.contains(rocm)))?;
        Some((row, if is_fixed { row.fixed_kernel } else { row.other_kernel }))
    }

    /// Returns whether `rocm` is newer than every release in the rows about `gpu`.
    pub fn is_newer_than_table(&self, gpu: &GpuTarget, rocm: &str) -> bool {
        let rows = self.rocm.values().filter(|row| row.gpus.contains(gpu));
        rows.flat_map(|row| &row.releases).all(|releases| releases.end_before(rocm))
    }

    /// Returns the row that lists `kernel` as containing the driver fix for `gpu`.
    pub fn fixed_kernel(&self, gpu: &GpuTarget, kernel: &Kernel<'_>) -> Option<&KernelRow> {
        self.kernels.values().find(|row| row.gpus.contains(gpu) && row.matches(kernel))
    }

    /// Returns the row that rules out `kernel` for `gpu` with every ROCm release: a kernel of the
    /// row's distribution and flavour that is older than the fix.
    pub fn refused_kernel(
        &self,
        gpu: &GpuTarget,
        kernel: &Kernel<'_>,
    ) -> Option<(&KernelRow, Support)> {
        let refuses = |row: &KernelRow| {
            row.older.filter(|_| {
                row.gpus.contains(gpu) && row.is_flavour_of(kernel) && !row.matches(kernel)
            })
        };
        self.kernels.values().find_map(|row| Some((row, refuses(row)?)))
    }

    /// Returns the row with the packages that must match a release of `package`.
    pub fn coupling(&self, package: &str, release: &str) -> Option<&CouplingRow> {
        self.couplings
            .values()
            .find(|row| row.package == package && row.releases.iter().any(|r| r.contains(release)))
    }

    /// Returns the rows that list a release of `package` as failing. `others` are the other
    /// packages, with their releases.
    pub fn bad<'a>(
        &'a self,
        package: &'a str,
        release: &'a str,
        others: &'a BTreeMap<String, String>,
    ) -> impl Iterator<Item = (&'a str, &'a BadRow)> {
        self.bad.iter().filter_map(move |(name, row)| {
            let is_listed = row.package == package
                && row.releases.iter().any(|releases| releases.contains(release))
                && row.with.iter().all(|(other, releases)| {
                    others.get(other).is_some_and(|present| releases.contains(present))
                });
            is_listed.then_some((name.as_str(), row))
        })
    }

    /// Returns the row about the moved or frozen index to which `url` belongs.
    pub fn moved_index(&self, url: &str) -> Option<&IndexRow> {
        self.indexes.values().find(|row| url.starts_with(&row.url))
    }
}

impl KernelRow {
    /// Returns whether the kernel has this row's distribution and flavour. Ubuntu's mainline builds
    /// (`6.17.13-061713-generic`) contain none of the distribution's fixes.
    fn is_flavour_of(&self, kernel: &Kernel<'_>) -> bool {
        let flavour = kernel.release.rsplit_once('-').map(|(_, flavour)| flavour);
        let is_unchanged = kernel.release.split('-').nth(1).is_some_and(|abi| abi.starts_with('0'));
        self.distribution
            .as_deref()
            .is_none_or(|wanted| kernel.distribution == Some(wanted) && !is_unchanged)
            && self.flavour.as_deref().is_none_or(|wanted| flavour == Some(wanted))
    }

    fn matches(&self, kernel: &Kernel<'_>) -> bool {
        let numbered = match kernel.build.filter(|_| self.distribution.is_some()) {
            // Ubuntu's package of `6.17.0-19-generic`, build `19~24.04.2`, is `6.17.0-19.19~24.04.2`.
            Some(build) => {
                let abi = kernel.release.rsplit_once('-').map_or(kernel.release, |(abi, _)| abi);
                format!("{abi}.{build}")
            }
            None => kernel.release.to_owned(),
        };
        self.is_flavour_of(kernel)
            && self.since.as_deref().is_none_or(|since| is_kernel_at_least(&numbered, since))
    }
}

impl Support {
    /// Returns the term in AMD's table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Supported => "supported",
            Self::Unstable => "unstable",
            Self::Unsupported => "unsupported",
        }
    }
}

/// Parses the text of `compat.toml`. `file` is its name in messages.
///
/// # Errors
/// Returns all problems in the file, each with its position, the value and the correct form.
pub fn parse_compat(file: &str, text: &str) -> Result<Compat, ParseError> {
    parse_compat_over(file, text, Compat::default())
}

/// Parses the text of `compat.toml` like [`parse_compat`], and adds its rows to those of `lower`. A
/// row replaces the row with the same name, and `remove` drops rows of `lower`.
///
/// # Errors
/// Returns all problems in the file, each with its position, the value and the correct form.
pub fn parse_compat_over(file: &str, text: &str, lower: Compat) -> Result<Compat, ParseError> {
    let mut report = Report::new(file, text);
    let compat = document(&mut report).and_then(|entries| {
        let root = Table::root(&mut report, &entries)?;
        root.check_form(&mut report, forms::COMPAT.keys);
        let removed = removed(&mut report, &root, &lower.names());
        let kernels = rows(&mut report, &root, "kernel", read_kernel);
        let rocm = rows(&mut report, &root, "rocm", read_rocm);
        let firmware = rows(&mut report, &root, "firmware", read_firmware);
        let couplings = rows(&mut report, &root, "coupling", read_coupling);
        let bad = rows(&mut report, &root, "bad", read_bad);
        let indexes = rows(&mut report, &root, "index", read_index);
        let own = Compat {
            kernels: kernels?,
            rocm: rocm?,
            firmware: firmware?,
            couplings: couplings?,
            bad: bad?,
            indexes: indexes?,
        };
        Ok(own.over(lower, &removed?))
    });
    report.finish(compat)
}

impl Compat {
    /// Returns the names of all rows, as `TABLE.NAME`.
    fn names(&self) -> Vec<String> {
        fn of<T>(table: &str, rows: &BTreeMap<String, T>) -> Vec<String> {
            rows.keys().map(|name| format!("{table}.{name}")).collect()
        }
        [
            of("kernel", &self.kernels),
            of("rocm", &self.rocm),
            of("firmware", &self.firmware),
            of("coupling", &self.couplings),
            of("bad", &self.bad),
            of("index", &self.indexes),
        ]
        .concat()
    }

    /// Returns the rows of `self` and `lower`. A row of `self` replaces the row of `lower` with the
    /// same name.
    fn over(self, lower: Self, removed: &[String]) -> Self {
        fn put<T>(
            table: &str,
            own: BTreeMap<String, T>,
            mut lower: BTreeMap<String, T>,
            removed: &[String],
        ) -> BTreeMap<String, T> {
            lower.retain(|name, _| !removed.contains(&format!("{table}.{name}")));
            lower.extend(own);
            lower
        }
        Self {
            kernels: put("kernel", self.kernels, lower.kernels, removed),
            rocm: put("rocm", self.rocm, lower.rocm, removed),
            firmware: put("firmware", self.firmware, lower.firmware, removed),
            couplings: put("coupling", self.couplings, lower.couplings, removed),
            bad: put("bad", self.bad, lower.bad, removed),
            indexes: put("index", self.indexes, lower.indexes, removed),
        }
    }
}

/// Reads all tables `[kind.name]`.
fn rows<T>(
    report: &mut Report<'_>,
    root: &Table<'_>,
    kind: &str,
    read: impl Fn(&mut Report<'_>, &Table<'_>) -> Result<T, Reported>,
) -> Result<BTreeMap<String, T>, Reported> {
    let Some(section) = root.get(kind) else { return Ok(BTreeMap::new()) };
    let section_place = quote(&format!("[{kind}.name]"));
    let section = section.table(report, &section_place)?;
    collect(report, section.entries(), |report, entry| {
        let name = row_name(entry.key).map_err(|wrong| report.add(&entry.key_span, wrong));
        let place = quote(&format!("[{kind}.{}]", entry.key));
        let table = entry.table(report, &place)?;
        let row = read(report, &table);
        Ok((name?, row?))
    })
}

/// Accepts the name of a row.
fn row_name(text: &str) -> Result<String, Wrong> {
    match text.parse::<PinName>() {
        Ok(name) => Ok(name.to_string()),
        Err(_) => Err(wrong(
            format!("{} is not the name of a row", quote(text)),
            "a name has lower-case letters, digits and single dashes, starts with a letter, and does not end with a dash",
        )),
    }
}

fn read_evidence(report: &mut Report<'_>, table: &Table<'_>) -> Result<Evidence, Reported> {
    let source = table.required(report, "evidence", "evidence = \"ROCm/TheRock#2991\"", line(500));
    let known = table.optional(report, "known", Known::parse);
    let checked = match table.date(report, "checked")? {
        Some(day) => Ok(day),
        None => Err(table.add_missing(report, "checked", "checked = 2026-11-20")),
    };
    Ok(Evidence { source: source?, checked: checked?, known: known? })
}

/// Reads an array with at least one item.
fn some<T>(
    report: &mut Report<'_>,
    table: &Table<'_>,
    key: &str,
    example: &str,
    check: impl Fn(&str) -> Result<T, Wrong>,
) -> Result<Vec<T>, Reported> {
    let all = table.texts(report, key, example, check)?;
    if all.is_empty() {
        Err(table.add_missing(report, key, &format!("{key} = [\"{example}\"]")))
    } else {
        Ok(all)
    }
}

fn gpus(report: &mut Report<'_>, table: &Table<'_>) -> Result<Vec<GpuTarget>, Reported> {
    some(report, table, "gpus", "gfx1151", checks::gpu_target)
}

pub(crate) fn releases(text: &str) -> Result<Releases, Wrong> {
    text.parse().map_err(|_| {
        wrong(
            format!("{} is not a range of releases", quote(text)),
            "write `7.2.1 to 7.2.4`, `7.1`, `20260110 or newer` or `0.20 or older`",
        )
    })
}

fn support(text: &str) -> Result<Support, Wrong> {
    let all = [Support::Supported, Support::Unstable, Support::Unsupported];
    all.into_iter().find(|one| one.name() == text).ok_or_else(|| {
        let names = list(all.map(Support::name));
        let help = match nearest(text, all.map(Support::name)) {
            Some(near) => format!("did you mean `{near}`? It must be one of {names}"),
            None => format!("write one of {names}"),
        };
        wrong(format!("{} is not a support status", quote(text)), help)
    })
}

fn package(text: &str) -> Result<String, Wrong> {
    checks::package_name(text)
}

fn mes_version(text: &str) -> Result<u32, Wrong> {
    let digits = text.strip_prefix("0x").and_then(|digits| u32::from_str_radix(digits, 16).ok());
    digits.ok_or_else(|| {
        wrong(
            format!("{} is not a version of the MES firmware", quote(text)),
            "write it as the driver prints it, for example `0x83`",
        )
    })
}

/// Reads the packages and releases of `with`.
fn with(
    report: &mut Report<'_>,
    table: &Table<'_>,
) -> Result<BTreeMap<String, Releases>, Reported> {
    let Some(packages) = table.get("with") else { return Ok(BTreeMap::new()) };
    let packages = packages.table(report, "`with = { torchvision = \"0.26\" }`")?;
    collect(report, packages.entries(), |report, entry: &Entry<'_>| {
        let name = package(entry.key).map_err(|wrong| report.add(&entry.key_span, wrong));
        let releases = entry.checked_text(report, releases);
        Ok((name?, releases?))
    })
}

fn read_kernel(report: &mut Report<'_>, table: &Table<'_>) -> Result<KernelRow, Reported> {
    table.check_form(report, forms::KERNEL.keys);
    let gpus = gpus(report, table);
    let since = table.optional(report, "since", |text| match text.as_bytes().first() {
        Some(b'0'..=b'9') => line(100)(text),
        _ => Err(wrong(
            format!("{} is not a kernel release", quote(text)),
            "a kernel release starts with a digit, for example `6.18.4`",
        )),
    });
    let distribution = table.optional(report, "distribution", line(100));
    let flavour = table.optional(report, "flavour", line(100));
    let older = table.optional(report, "older", support);
    let evidence = read_evidence(report, table);
    let (since, distribution) = (since?, distribution?);
    if since.is_none() && distribution.is_none() {
        return Err(table.add_missing(report, "since", "since = \"6.18.4\""));
    }
    Ok(KernelRow {
        gpus: gpus?,
        since,
        distribution,
        flavour: flavour?,
        older: older?,
        evidence: evidence?,
    })
}

fn read_rocm(report: &mut Report<'_>, table: &Table<'_>) -> Result<RocmRow, Reported> {
    table.check_form(report, forms::ROCM.keys);
    let gpus = gpus(report, table);
    let releases = some(report, table, "releases", "7.2.1 to 7.2.4", releases);
    let builds = table.required(report, "builds", "builds = \"amd\"", line(40));
    let fixed = table.required(report, "fixed-kernel", "fixed-kernel = \"supported\"", support);
    let other = table.required(report, "other-kernel", "other-kernel = \"unstable\"", support);
    let evidence = read_evidence(report, table);
    Ok(RocmRow {
        gpus: gpus?,
        releases: releases?,
        builds: builds?,
        fixed_kernel: fixed?,
        other_kernel: other?,
        evidence: evidence?,
    })
}

fn read_firmware(report: &mut Report<'_>, table: &Table<'_>) -> Result<FirmwareRow, Reported> {
    table.check_form(report, forms::FIRMWARE.keys);
    let gpus = gpus(report, table);
    let bad = table.texts(report, "bad", "20251125", releases);
    let good = some(report, table, "good", "20260110 or newer", releases);
    let bad_mes = table.texts(report, "bad-mes", "0x83", mes_version);
    if matches!((&bad, &bad_mes), (Ok(bad), Ok(mes)) if bad.is_empty() && mes.is_empty()) {
        table.add_missing(report, "bad", "bad = [\"20251125\"]");
    }
    let why = table.required(report, "why", "why = \"it faults on memory\"", line(500));
    let evidence = read_evidence(report, table);
    Ok(FirmwareRow {
        gpus: gpus?,
        bad: bad?,
        good: good?,
        bad_mes: bad_mes?,
        why: why?,
        evidence: evidence?,
    })
}

fn read_coupling(report: &mut Report<'_>, table: &Table<'_>) -> Result<CouplingRow, Reported> {
    table.check_form(report, forms::COUPLING.keys);
    let name = table.required(report, "package", "package = \"torch\"", package);
    let releases = some(report, table, "releases", "2.11", releases);
    let with = with(report, table);
    if with.as_ref().is_ok_and(BTreeMap::is_empty) {
        table.add_missing(report, "with", "with = { torchvision = \"0.26\" }");
    }
    let evidence = read_evidence(report, table);
    Ok(CouplingRow { package: name?, releases: releases?, with: with?, evidence: evidence? })
}

fn read_bad(report: &mut Report<'_>, table: &Table<'_>) -> Result<BadRow, Reported> {
    table.check_form(report, forms::BAD.keys);
    let name = table.required(report, "package", "package = \"rocm\"", package);
    let releases = some(report, table, "releases", "7.14.0a20260609", releases);
    let with = with(report, table);
    let why = table.required(report, "why", "why = \"it does not start\"", line(500));
    let instead = table.required(report, "instead", "instead = \"7.14.0\"", line(200));
    let evidence = read_evidence(report, table);
    Ok(BadRow {
        package: name?,
        releases: releases?,
        with: with?,
        why: why?,
        instead: instead?,
        evidence: evidence?,
    })
}

fn read_index(report: &mut Report<'_>, table: &Table<'_>) -> Result<IndexRow, Reported> {
    table.check_form(report, forms::INDEX.keys);
    let example = "url = \"https://rocm.nightlies.amd.com/v2/\"";
    let url = table.required(report, "url", example, checks::https_url);
    let why = table.optional(report, "why", line(200));
    let instead = table.required(
        report,
        "instead",
        "instead = \"https://repo.amd.com/rocm/whl-multi-arch/\"",
        line(300),
    );
    let evidence = read_evidence(report, table);
    let why = why?.unwrap_or_else(|| "has moved".to_owned());
    Ok(IndexRow { url: url?, why, instead: instead?, evidence: evidence? })
}
