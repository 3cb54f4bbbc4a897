//! Tries a component's patches on many versions, and lists the patches that can be retired.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use failure::{Failure, Kind};
use names::GpuTarget;
use names::{ParseVersionError, Version};
use patcher::{Outcome, PatchSet, Position, Probes, Retirement, Subject, VersionRange, retirement};
use project::fetch::{Fetcher, TreePin};
use project::{Project, patches};
use schemars::JsonSchema;
use serde::Serialize;
use sources::{ReleaseFile, Sources, Submodules};
use text::Page;

use crate::pinned::PinnedTree;
use crate::prepared::{self, RunProbes};
use crate::rooted::Rooted;
use crate::version;

/// The version of the JSON format.
const SCHEMA: u32 = 1;

/// The trees to try the patches on.
#[derive(Debug, Clone, Copy)]
pub enum Trees<'a> {
    /// All pins of the component.
    Pins,
    /// The releases on the package index whose versions are in this range.
    Releases(&'a str),
    /// Folders.
    Folders(&'a [PathBuf]),
}

/// The patches to try, and the trees.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The component.
    pub component: &'a str,
    /// The trees to try its patches on.
    pub trees: Trees<'a>,
    /// The GPU target, or `None` for the project's target.
    pub gpu: Option<&'a str>,
    /// Whether to run the patches' probes.
    pub probes: RunProbes,
}

/// The output of `patch audit --format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AuditReport {
    /// The version of this JSON format.
    pub schema: u32,
    /// The component.
    pub component: String,
    /// The GPU target.
    pub gpu: String,
    /// One row per tree, oldest version first.
    pub versions: Vec<Row>,
    /// For each patch, whether it can be retired, and from which version on.
    pub retirements: BTreeMap<String, Retirement>,
}

impl AuditReport {
    /// Returns a table of versions and patches, then the reasons for failures, then the patches
    /// that can be retired.
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        page.line(format_args!("{} for {}\n", self.component, self.gpu));
        let ids: Vec<&str> = self.retirements.keys().map(String::as_str).collect();
        let mut rows: Vec<Vec<String>> = vec![Vec::from(["version".to_owned()])];
        rows[0].extend(ids.iter().map(|id| (*id).to_owned()));
        for row in &self.versions {
            let cell = |id: &&str| {
                let patch = row.report.patches.iter().find(|patch| patch.id == **id)?;
                let mark = if patch.ok { '✓' } else { '✗' };
                let passed = patch.probes.iter().filter(|one| one.result == "passed").count();
                let probes = if passed > 0 { format!(", {passed} probed") } else { String::new() };
                Some(format!("{mark} {}{probes}", patch.verdict))
            };
            let cells = ids.iter().map(|id| cell(id).unwrap_or_default());
            rows.push([row.version.to_string()].into_iter().chain(cells).collect());
        }
        let widths: Vec<usize> = (0..=ids.len())
            .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
            .collect();
        for row in &rows {
            let cells: Vec<String> =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
            page.line(format_args!("  {}", cells.join("  ").trim_end()));
        }
        page.line(format_args!(""));
        for row in &self.versions {
            for patch in row.report.patches.iter().filter(|patch| !patch.ok) {
                page.line(format_args!("  ✗ {} {}: {}", row.version, patch.id, patch.explanation));
            }
        }
        for (id, retirement) in &self.retirements {
            let told = match retirement {
                Retirement::Since { version } => format!("can be retired as of {version}"),
                Retirement::NotYet => "is still needed by the newest version".to_owned(),
                Retirement::Never => "is not needed by any of the versions".to_owned(),
            };
            page.line(format_args!("  {id} {told}"));
        }
        page
    }

    /// Returns an error if a patch failed.
    ///
    /// # Errors
    /// A patch failed on a version.
    pub fn verdict(&self) -> Result<(), Failure> {
        let failed: usize = self
            .versions
            .iter()
            .map(|row| row.report.patches.iter().filter(|patch| !patch.ok).count())
            .sum();
        match failed {
            0 => Ok(()),
            count => Err(Failure::new(
                Kind::Patch,
                format!("failed verdicts: {count}; nothing was written"),
            )
            .hint("the report above shows the reason and the line of each failure")),
        }
    }
}

/// The results of the patches for one version.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Row {
    /// The location of the tree.
    pub root: String,
    /// The verdicts.
    pub report: Outcome,
    /// The version.
    #[serde(skip)]
    pub version: Version,
}

/// Tries the patches on one tree of the given version.
type TryOn<'a> = dyn FnMut(&dyn Rooted, Option<Version>) -> Result<(), Failure> + 'a;

/// Tries the patches of a component on many trees. Folders are relative to `here`; `sources`
/// fetches all other trees. For each skipped tree, `warn` receives the name and the message of a
/// warning.
///
/// # Errors
/// Fails if a patch file or a range is invalid, if a tree cannot be fetched or read, or if there is
/// no tree.
pub fn audit(
    here: &Path,
    project: &Project,
    asked: Asked<'_>,
    sources: impl FnOnce() -> Result<Sources, Failure>,
    warn: &dyn Fn(&str, &str),
) -> Result<AuditReport, Failure> {
    let Asked { component, trees, gpu, probes } = asked;
    let set = patches::select(patches::read(project, component)?, &[])?;
    let gpu = prepared::gpu(project, gpu)?;
    let probes = probes.runner();
    let mut versions = Vec::new();
    let mut try_on = |tree: &dyn Rooted, stated| {
        versions.push(row(tree, stated, &set, &gpu, (component, &*probes))?);
        Ok::<_, Failure>(())
    };
    match trees {
        Trees::Releases(range) => {
            releases(sources, project, component, range, &mut try_on, warn)?;
        }
        Trees::Pins => pins(sources, project, component, &mut try_on, warn)?,
        Trees::Folders(paths) => {
            for path in paths {
                let tree = prepared::open(here, path)?;
                let name = tree.path().file_name().and_then(|name| name.to_str());
                let by_name = name.and_then(|name| version::in_name(component, name));
                try_on(&tree, by_name)?;
            }
        }
    }
    versions.sort_by(|a, b| a.version.cmp(&b.version));
    let retirements = set.patches().iter().map(|patch| {
        let verdicts = versions.iter().filter_map(|row: &Row| {
            let of_patch = row.report.patches.iter().find(|one| one.id == patch.id)?;
            Some((&row.version, &of_patch.verdict))
        });
        (patch.id.clone(), retirement(verdicts))
    });
    Ok(AuditReport {
        schema: SCHEMA,
        component: component.to_owned(),
        gpu: gpu.to_string(),
        retirements: retirements.collect(),
        versions,
    })
}

/// Tries the patches on the source of each of the component's pins that is resolved and has a
/// version.
fn pins(
    sources: impl FnOnce() -> Result<Sources, Failure>,
    project: &Project,
    component: &str,
    try_on: &mut TryOn<'_>,
    warn: &dyn Fn(&str, &str),
) -> Result<(), Failure> {
    let pins = project.pins()?;
    let fetcher = Fetcher::new(sources()?)?;
    let mut tried = 0;
    for (name, pin) in TreePin::of_component(&pins, component) {
        if !pin.is_resolved() {
            warn("unresolved-pin", &format!("skipped: pin `{name}` is unresolved"));
            continue;
        }
        let tree = fetcher.tree(name, pin, Submodules::None)?;
        let tree = PinnedTree::new(tree, format!("pin {name}"));
        let stated = pin.version().and_then(|version| version.parse().ok());
        if stated.is_none() && version::detect(&tree, component).is_none() {
            warn("no-version", &format!("skipped: pin `{name}` has no version"));
            continue;
        }
        try_on(&tree, stated)?;
        tried += 1;
    }
    match tried {
        0 => Err(Failure::new(
            Kind::Input,
            format!("no resolved pin with a version uses the patches of `{component}`"),
        )
        .hint(
            "pass folders of unpacked releases, or use `--releases '*'` for all releases on the package index",
        )),
        _ => Ok(()),
    }
}

/// Tries the patches on releases from the package index. A pinned archive of the component names
/// the project on the index.
fn releases(
    sources: impl FnOnce() -> Result<Sources, Failure>,
    project: &Project,
    component: &str,
    range: &str,
    try_on: &mut TryOn<'_>,
    warn: &dyn Fn(&str, &str),
) -> Result<(), Failure> {
    let range: VersionRange = range.parse().map_err(|error: ParseVersionError| {
        Failure::from_chain(Kind::Input, &error).hint("use `--releases '>=0.9, <0.12'`")
    })?;
    let pins = project.pins()?;
    let archive = TreePin::of_component(&pins, component).into_values().find_map(|pin| match pin {
        TreePin::Archive(pin) => Some(pin),
        TreePin::Git(_) => None,
    });
    let archive = archive.ok_or_else(|| {
        Failure::new(
            Kind::Input,
            format!("no archive of `{component}` is pinned, so its project on the index is not known"),
        )
        .hint(format!("add a table `[archive.NAME]` with `patches = \"{component}\"` to `versions/versions.toml`"))
        .hint("or unpack the releases, and pass the folders")
    })?;
    let fetcher = Fetcher::new(sources()?)?;
    let mut found: Vec<(Version, ReleaseFile)> = Vec::new();
    for file in fetcher.releases(&archive.project)? {
        let version = file.source_version(&archive.project).and_then(|text| text.parse().ok());
        match version {
            Some(version) if range.position(&version) == Position::Inside => {
                found.push((version, file));
            }
            _ => {}
        }
    }
    if found.is_empty() {
        let told =
            format!("the index has no source archive of `{}` in that range", archive.project);
        return Err(Failure::new(Kind::Input, told).hint("`--releases '*'` selects all releases"));
    }
    for (version, file) in found {
        let subdirectory = archive.subdirectory.as_deref();
        match fetcher.release(&archive.project, version.as_str(), &file, subdirectory)? {
            Some(tree) => try_on(&PinnedTree::new(tree, file.name.clone()), Some(version))?,
            None => {
                warn("no-hash", &format!("skipped: the index has no hash for `{}`", file.name));
            }
        }
    }
    Ok(())
}

fn row(
    tree: &dyn Rooted,
    stated: Option<Version>,
    set: &PatchSet,
    gpu: &GpuTarget,
    (component, probes): (&str, &dyn Probes),
) -> Result<Row, Failure> {
    let shown = tree.shown();
    let detected = version::detect(tree, component);
    let is_exact = detected.as_ref().map(|found| version::check_exact(found, set.patches()));
    let version = match (detected, is_exact, stated) {
        (Some(found), Some(Ok(())), _) => found.version,
        (_, _, Some(stated)) => stated,
        (_, Some(Err(told)), None) => return Err(told),
        _ => {
            let what = format!("cannot determine the version of `{component}` in `{shown}`");
            return Err(Failure::new(Kind::Input, what)
                .hint("rename the folder to its version, for example `0.10.2`"));
        }
    };
    let base = BTreeMap::new();
    let subject = Subject {
        gpu,
        version: Some(&version).filter(|_| version::is_needed(set.patches())),
        build_env: None,
        // Audited trees are taken to be unchanged upstream releases.
        is_pristine: true,
        base: &base,
        receipts: &[],
    };
    let report = patcher::apply(set, &subject, tree, probes);
    Ok(Row { root: shown, report, version })
}
