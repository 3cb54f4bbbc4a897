//! `versions/compat.toml`: what runs with what, as data with sources and dates.
//!
//! Start at [`Compat`] and the questions it answers: [`Compat::kernel_support`],
//! [`Compat::fixed_kernel`], [`Compat::coupling`], [`Compat::bad`], [`Compat::moved_index`]. Which
//! machine or which pins are asked about, and how bad an answer is, is for the caller to say.

use std::collections::BTreeMap;

use crate::ParseError;
use crate::checks::{self, line};
use crate::problem::{Report, Reported, Wrong, list, nearest, quote, wrong};
use crate::reader::{Entry, Table, collect, document};
use crate::releases::{Releases, is_kernel_at_least};
use names::{GpuTarget, PinName};

/// The content of `compat.toml`, each row by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compat {
    /// Kernels in which the driver's faults with a GPU are mended.
    pub kernels: BTreeMap<String, KernelRow>,
    /// How ROCm releases do on mended and other kernels.
    pub rocm: BTreeMap<String, RocmRow>,
    /// Firmware that is known to be bad or good.
    pub firmware: BTreeMap<String, FirmwareRow>,
    /// Packages that belong together.
    pub couplings: BTreeMap<String, CouplingRow>,
    /// Releases that are known to fail.
    pub bad: BTreeMap<String, BadRow>,
    /// Wheel indexes that moved.
    pub indexes: BTreeMap<String, IndexRow>,
}

/// Where a row was read, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// The documents, for readers.
    pub source: String,
    /// The day they were read, `YYYY-MM-DD`.
    pub checked: String,
}

/// Kernels in which the driver's faults with some GPUs are mended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelRow {
    /// The GPU targets it speaks of.
    pub gpus: Vec<GpuTarget>,
    /// The first such release, as the distribution's package spells it; none means all.
    pub since: Option<String>,
    /// The distribution whose kernel it is, `ID-VERSION_ID` of os-release; none means any.
    pub distribution: Option<String>,
    /// What stands behind the last dash of the kernel's release; none means anything.
    pub flavour: Option<String>,
    /// Where it was read.
    pub evidence: Evidence,
}

/// What a ROCm release is on a kernel, in the words of AMD's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Support {
    /// It works, and AMD says so.
    Supported,
    /// It starts, and fails under load.
    Unstable,
    /// It does not work.
    Unsupported,
}

/// How some ROCm releases do on mended and other kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RocmRow {
    /// The GPU targets it speaks of.
    pub gpus: Vec<GpuTarget>,
    /// The releases.
    pub releases: Vec<Releases>,
    /// Whose builds it speaks of, for example `amd`.
    pub builds: String,
    /// On a kernel that one of [`Compat::kernels`] names.
    pub fixed_kernel: Support,
    /// On any other kernel.
    pub other_kernel: Support,
    /// Where it was read.
    pub evidence: Evidence,
}

/// Firmware that is known to be bad, and what to use instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirmwareRow {
    /// The GPU targets it speaks of.
    pub gpus: Vec<GpuTarget>,
    /// Releases of linux-firmware that are bad, by date.
    pub bad: Vec<Releases>,
    /// Releases of linux-firmware that are good, by date.
    pub good: Vec<Releases>,
    /// Versions of the MES scheduler's firmware that are bad.
    pub bad_mes: Vec<u32>,
    /// What happens with the bad ones.
    pub why: String,
    /// Where it was read.
    pub evidence: Evidence,
}

/// Packages that belong to some releases of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CouplingRow {
    /// The package that leads.
    pub package: String,
    /// Its releases.
    pub releases: Vec<Releases>,
    /// What belongs to it: package and releases.
    pub with: BTreeMap<String, Releases>,
    /// Where it was read.
    pub evidence: Evidence,
}

/// Releases of a package that are known to fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRow {
    /// The package, for example `vllm` or `rocm`.
    pub package: String,
    /// Its releases.
    pub releases: Vec<Releases>,
    /// They fail only with these releases of other packages; none means always.
    pub with: BTreeMap<String, Releases>,
    /// What happens.
    pub why: String,
    /// What to use instead.
    pub instead: String,
    /// Where it was read.
    pub evidence: Evidence,
}

/// A wheel index that moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexRow {
    /// What its urls begin with.
    pub url: String,
    /// Where it is now.
    pub instead: String,
    /// Where it was read.
    pub evidence: Evidence,
}

/// A kernel to ask about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel<'a> {
    /// What `uname -r` prints, for example `6.17.0-19-generic`.
    pub release: &'a str,
    /// The number of the build, from the `#…` of `uname -v`, for example `19~24.04.2`.
    pub build: Option<&'a str>,
    /// `ID-VERSION_ID` of os-release, for example `ubuntu-24.04`.
    pub distribution: Option<&'a str>,
}

impl Compat {
    /// Returns the row that says how `rocm`, as AMD builds it, does with `gpu`, and its word for a
    /// kernel that is mended or not; nothing where no source speaks of that release.
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

    /// Returns the row by which the driver's faults with `gpu` are mended in `kernel`.
    pub fn fixed_kernel(&self, gpu: &GpuTarget, kernel: &Kernel<'_>) -> Option<&KernelRow> {
        self.kernels.values().find(|row| row.gpus.contains(gpu) && row.matches(kernel))
    }

    /// Returns the row of what belongs to a release of `package`.
    pub fn coupling(&self, package: &str, release: &str) -> Option<&CouplingRow> {
        self.couplings
            .values()
            .find(|row| row.package == package && row.releases.iter().any(|r| r.contains(release)))
    }

    /// Returns the rows by which a release of `package` fails in the company of `others`, which are
    /// packages with their releases.
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
                    others.get(other).is_some_and(|release| releases.contains(release))
                });
            is_listed.then_some((name.as_str(), row))
        })
    }

    /// Returns the row by which the wheel index at `url` moved.
    pub fn moved_index(&self, url: &str) -> Option<&IndexRow> {
        self.indexes.values().find(|row| url.starts_with(&row.url))
    }
}

impl KernelRow {
    fn matches(&self, kernel: &Kernel<'_>) -> bool {
        let flavour = kernel.release.rsplit_once('-').map(|(_, flavour)| flavour);
        let numbered = match kernel.build.filter(|_| self.distribution.is_some()) {
            // Ubuntu's package of `6.17.0-19-generic`, build `19~24.04.2`, is `6.17.0-19.19~24.04.2`.
            Some(build) => {
                let abi = kernel.release.rsplit_once('-').map_or(kernel.release, |(abi, _)| abi);
                format!("{abi}.{build}")
            }
            None => kernel.release.to_owned(),
        };
        self.distribution.as_deref().is_none_or(|wanted| kernel.distribution == Some(wanted))
            && self.flavour.as_deref().is_none_or(|wanted| flavour == Some(wanted))
            && self.since.as_deref().is_none_or(|since| is_kernel_at_least(&numbered, since))
    }
}

impl Support {
    /// Returns the word of AMD's table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Supported => "supported",
            Self::Unstable => "unstable",
            Self::Unsupported => "unsupported",
        }
    }
}

/// The tables of the file.
const TABLES: [&str; 7] = ["schema", "kernel", "rocm", "firmware", "coupling", "bad", "index"];

/// Reads the text of `compat.toml`. `file` is how messages name it.
///
/// # Errors
/// Every problem of the file at once, each with its place, the value and what would be right.
pub fn parse_compat(file: &str, text: &str) -> Result<Compat, ParseError> {
    let mut report = Report::new(file, text);
    let compat = document(&mut report).and_then(|entries| {
        let root = Table::root(&mut report, &entries)?;
        root.check_keys(&mut report, &TABLES);
        let kernels = rows(&mut report, &root, "kernel", read_kernel);
        let rocm = rows(&mut report, &root, "rocm", read_rocm);
        let firmware = rows(&mut report, &root, "firmware", read_firmware);
        let couplings = rows(&mut report, &root, "coupling", read_coupling);
        let bad = rows(&mut report, &root, "bad", read_bad);
        let indexes = rows(&mut report, &root, "index", read_index);
        Ok(Compat {
            kernels: kernels?,
            rocm: rocm?,
            firmware: firmware?,
            couplings: couplings?,
            bad: bad?,
            indexes: indexes?,
        })
    });
    report.finish(compat)
}

/// Reads all tables `[kind.name]`.
fn rows<T>(
    report: &mut Report<'_>,
    root: &Table<'_>,
    kind: &str,
    read: impl Fn(&mut Report<'_>, &Table<'_>) -> Result<T, Reported>,
) -> Result<BTreeMap<String, T>, Reported> {
    let Some(entry) = root.get(kind) else { return Ok(BTreeMap::new()) };
    let place = quote(&format!("[{kind}.name]"));
    let all = entry.table(report, &place)?;
    collect(report, all.entries(), |report, entry| {
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
            "a name is lower-case letters, digits and single dashes, and starts with a letter",
        )),
    }
}

fn read_evidence(report: &mut Report<'_>, table: &Table<'_>) -> Result<Evidence, Reported> {
    let source = table.required(report, "evidence", "evidence = \"ROCm/TheRock#2991\"", line(500));
    let checked = match table.date(report, "checked")? {
        Some(day) => Ok(day),
        None => Err(table.add_missing(report, "checked", "checked = 2026-11-20")),
    };
    Ok(Evidence { source: source?, checked: checked? })
}

/// Reads an array that has at least one item.
fn some<T>(
    report: &mut Report<'_>,
    table: &Table<'_>,
    key: &str,
    example: &str,
    check: impl Fn(&str) -> Result<T, Wrong>,
) -> Result<Vec<T>, Reported> {
    let all = table.texts(report, key, example, check)?;
    match all.is_empty() {
        true => Err(table.add_missing(report, key, &format!("{key} = [\"{example}\"]"))),
        false => Ok(all),
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
            Some(near) => format!("did you mean `{near}`? It is one of {names}"),
            None => format!("write one of {names}"),
        };
        wrong(format!("{} is not a word of AMD's table", quote(text)), help)
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
            "write it as the driver does, for example `0x83`",
        )
    })
}

/// Reads packages with their releases behind `with`.
fn with(
    report: &mut Report<'_>,
    table: &Table<'_>,
) -> Result<BTreeMap<String, Releases>, Reported> {
    let Some(entry) = table.get("with") else { return Ok(BTreeMap::new()) };
    let packages = entry.table(report, "`with = { torchvision = \"0.26\" }`")?;
    collect(report, packages.entries(), |report, entry: &Entry<'_>| {
        let name = package(entry.key).map_err(|wrong| report.add(&entry.key_span, wrong));
        let releases = entry.checked_text(report, releases);
        Ok((name?, releases?))
    })
}

fn read_kernel(report: &mut Report<'_>, table: &Table<'_>) -> Result<KernelRow, Reported> {
    table.check_keys(report, &["gpus", "since", "distribution", "flavour", "checked", "evidence"]);
    let gpus = gpus(report, table);
    let since = table.optional(report, "since", |text| match text.as_bytes().first() {
        Some(b'0'..=b'9') => line(100)(text),
        _ => Err(wrong(
            format!("{} is not a release of a kernel", quote(text)),
            "it starts with a digit, for example `6.18.4`",
        )),
    });
    let distribution = table.optional(report, "distribution", line(100));
    let flavour = table.optional(report, "flavour", line(100));
    let evidence = read_evidence(report, table);
    let (since, distribution) = (since?, distribution?);
    if since.is_none() && distribution.is_none() {
        return Err(table.add_missing(report, "since", "since = \"6.18.4\""));
    }
    Ok(KernelRow { gpus: gpus?, since, distribution, flavour: flavour?, evidence: evidence? })
}

fn read_rocm(report: &mut Report<'_>, table: &Table<'_>) -> Result<RocmRow, Reported> {
    table.check_keys(
        report,
        &["gpus", "releases", "builds", "fixed-kernel", "other-kernel", "checked", "evidence"],
    );
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
    table.check_keys(report, &["gpus", "bad", "good", "bad-mes", "why", "checked", "evidence"]);
    let gpus = gpus(report, table);
    let bad = some(report, table, "bad", "20251125", releases);
    let good = some(report, table, "good", "20260110 or newer", releases);
    let bad_mes = table.texts(report, "bad-mes", "0x83", mes_version);
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
    table.check_keys(report, &["package", "releases", "with", "checked", "evidence"]);
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
    table.check_keys(
        report,
        &["package", "releases", "with", "why", "instead", "checked", "evidence"],
    );
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
    table.check_keys(report, &["url", "instead", "checked", "evidence"]);
    let example = "url = \"https://rocm.nightlies.amd.com/v2/\"";
    let url = table.required(report, "url", example, checks::https_url);
    let example = "instead = \"https://repo.amd.com/rocm/whl-multi-arch/\"";
    let instead = table.required(report, "instead", example, checks::https_url);
    let evidence = read_evidence(report, table);
    Ok(IndexRow { url: url?, instead: instead?, evidence: evidence? })
}
