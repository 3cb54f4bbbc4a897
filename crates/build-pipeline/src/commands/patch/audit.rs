//! `patch audit`: tries a component's patches on many versions, and lists those that can be
//! retired.

use std::collections::BTreeMap;
use std::path::Path;

use executor::Tools;
use failure::{Failure, Kind};
use names::GpuTarget;
use names::{ParseVersionError, Version};
use patcher::{
    NoProbes, Outcome, PatchSet, Position, Probes, Retirement, Subject, VersionRange, retirement,
};
use patching::pinned::PinnedTree;
use patching::{Rooted, version};
use project::Project;
use project::environment;
use project::fetch::{Fetcher, TreePin};
use project::patches;
use schemars::JsonSchema;
use serde::Serialize;
use sources::{ReleaseFile, Submodules};

use crate::cli::Audit;
use crate::cli::{Format, Global};
use crate::commands::patch::report::SCHEMA;
use crate::commands::patch::subject;
use crate::global;
use crate::output::{self, Page};

/// The output of `patch audit --format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AuditReport {
    /// The version of this JSON format.
    schema: u32,
    /// The component.
    component: String,
    /// The GPU target.
    gpu: String,
    /// One row per version, oldest first; trees without a version come last.
    versions: Vec<Row>,
    /// The version from which on each patch is no longer needed.
    retirements: BTreeMap<String, Retirement>,
}

/// The results of the patches for one version.
#[derive(Debug, Serialize, JsonSchema)]
struct Row {
    /// The location of the tree.
    root: String,
    /// The verdicts.
    report: Outcome,
    #[serde(skip)]
    version: Version,
}

/// Tries the patches on one tree of the given version.
type TryOn<'a> = dyn FnMut(&dyn Rooted, Option<Version>) -> Result<(), Failure> + 'a;

/// Tries the patches of a component on many trees.
pub(crate) fn run(
    global: &Global,
    here: &Path,
    project: &Project,
    args: &Audit,
) -> Result<(), Failure> {
    let set = patches::select(patches::read(project, &args.component)?, &[])?;
    let gpu = subject::gpu(project, args.gpu.as_deref())?;
    let tools = Tools::new(&environment::program_path());
    let probes: &dyn Probes = if args.no_probes { &NoProbes } else { &tools };
    let mut versions = Vec::new();
    let mut try_on = |tree: &dyn Rooted, stated| {
        versions.push(row((tree, stated), &set, &gpu, (&args.component, probes))?);
        Ok::<_, Failure>(())
    };
    match &args.releases {
        Some(range) => releases(global, project, (&args.component, range), &mut try_on)?,
        None if args.trees.is_empty() => pins(global, project, &args.component, &mut try_on)?,
        None => {
            for path in &args.trees {
                let tree = subject::open(here, path)?;
                let by_name = tree.path().file_name().and_then(|name| name.to_str());
                try_on(&tree, by_name.and_then(|name| name.parse().ok()))?;
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
    let report = AuditReport {
        schema: SCHEMA,
        component: args.component.clone(),
        gpu: gpu.to_string(),
        retirements: retirements.collect(),
        versions,
    };
    match args.format {
        Format::Json => output::json(&report)?,
        Format::Text => output::sanitised_result(&text(&report))?,
    }
    verdict(&report)
}

/// Tries the patches on the sources of all pins of the component that are resolved and have a
/// version.
fn pins(
    global: &Global,
    project: &Project,
    component: &str,
    try_on: &mut TryOn<'_>,
) -> Result<(), Failure> {
    let pins = project.pins()?;
    let fetcher = Fetcher::new(global::sources(global)?)?;
    let mut tried = 0;
    for (name, pin) in TreePin::of_component(&pins, component) {
        if !pin.is_resolved() {
            output::warn("unresolved-pin", &format!("skipped: pin `{name}` is unresolved"));
            continue;
        }
        let tree = fetcher.tree(name, pin, Submodules::None)?;
        let tree = PinnedTree::new(tree, format!("pin {name}"));
        let stated = pin.version().and_then(|version| version.parse().ok());
        if stated.is_none() && version::detect(&tree, component).is_none() {
            output::warn("no-version", &format!("skipped: pin `{name}` has no version"));
            continue;
        }
        try_on(&tree, stated)?;
        tried += 1;
    }
    match tried {
        0 => Err(Failure::new(
            Kind::Input,
            format!("no resolved pin uses the patches of `{component}`"),
        )
        .hint(
            "name folders of unpacked releases, or use `--releases '*'` for those on the Python index",
        )),
        _ => Ok(()),
    }
}

/// Tries the patches on the releases of the pins' project on the Python index.
fn releases(
    global: &Global,
    project: &Project,
    (component, range): (&str, &str),
    try_on: &mut TryOn<'_>,
) -> Result<(), Failure> {
    let range: VersionRange = range.parse().map_err(|error: ParseVersionError| {
        Failure::from_chain(Kind::Input, &error).hint("write `--releases '>=0.9, <0.12'`")
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
    })?;
    let fetcher = Fetcher::new(global::sources(global)?)?;
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
        return Err(Failure::new(Kind::Input, told).hint("`--releases '*'` selects all"));
    }
    for (version, file) in found {
        let wanted = (version.as_str(), &file);
        let subdirectory = archive.subdirectory.as_deref();
        match fetcher.release(&archive.project, wanted, subdirectory)? {
            Some(tree) => try_on(&PinnedTree::new(tree, file.name.clone()), Some(version))?,
            None => {
                output::warn(
                    "no-hash",
                    &format!("skipped: the index has no hash of {}", file.name),
                );
            }
        }
    }
    Ok(())
}

fn row(
    (tree, stated): (&dyn Rooted, Option<Version>),
    set: &PatchSet,
    gpu: &GpuTarget,
    (component, probes): (&str, &dyn Probes),
) -> Result<Row, Failure> {
    let shown = tree.shown();
    let detected = version::detect(tree, component).map(|found| found.version);
    let version = detected.or(stated).ok_or_else(|| {
        Failure::new(
            Kind::Input,
            format!("cannot determine the version of `{component}` in `{shown}`"),
        )
        .hint("rename the folder to its version, for example `0.10.2`")
    })?;
    let base = BTreeMap::new();
    let subject = Subject {
        gpu,
        version: Some(&version).filter(|_| version::is_needed(set.patches())),
        build_env: None,
        // Audited trees are releases.
        is_pristine: true,
        base: &base,
        receipts: &[],
    };
    let report = patcher::apply(set, &subject, tree, probes);
    Ok(Row { root: shown, report, version })
}

/// Returns a table of versions and patches, then the reasons for failures, then the patches that
/// can be retired.
fn text(report: &AuditReport) -> String {
    let mut page = Page::default();
    page.line(format_args!("{} for {}\n", report.component, report.gpu));
    let ids: Vec<&str> = report.retirements.keys().map(String::as_str).collect();
    let mut rows: Vec<Vec<String>> = vec![Vec::from(["version".to_owned()])];
    rows[0].extend(ids.iter().map(|id| (*id).to_owned()));
    for row in &report.versions {
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
    for row in &report.versions {
        for patch in row.report.patches.iter().filter(|patch| !patch.ok) {
            page.line(format_args!("  ✗ {} {}: {}", row.version, patch.id, patch.explanation));
        }
    }
    for (id, retirement) in &report.retirements {
        let told = match retirement {
            Retirement::Since { version } => format!("can be retired from {version} on"),
            Retirement::NotYet => "is still needed by the newest version".to_owned(),
            Retirement::Never => "is needed by none of the versions".to_owned(),
        };
        page.line(format_args!("  {id} {told}"));
    }
    page.into_text()
}

fn verdict(report: &AuditReport) -> Result<(), Failure> {
    let failed: usize = report
        .versions
        .iter()
        .map(|row| row.report.patches.iter().filter(|patch| !patch.ok).count())
        .sum();
    match failed {
        0 => Ok(()),
        count => Err(Failure::new(
            Kind::Patch,
            format!("{count} verdicts are failures; nothing was written"),
        )
        .hint("the report above shows the reason and the line of each")),
    }
}
