//! Checks before a new value is written: the pin's patches on the new source, and known
//! incompatibilities between versions.

use std::collections::BTreeMap;

use failure::{Failure, Kind};
use names::Version;
use names::{CommitId, PinName};
use patcher::{NoProbes, PatchSet, Subject, Tree as _};
use patching::pinned::PinnedTree;
use pins::Pins;
use project::pins_file::package;
use project::{Project, patches};
use schemars::JsonSchema;
use serde::Serialize;
use sources::{ArchiveLimits, ArchiveSource, GitSource, Sources, Submodules, Tree};

use super::resolve::{Found, Origin};
use super::torch::{self, TorchNeed};

/// The result of one patch.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PatchVerdict {
    /// The patch.
    pub id: String,
    /// Whether the verdict is a success.
    pub ok: bool,
    /// The verdict's name: `applied`, `already-present` and so on.
    pub verdict: String,
    /// The explanation of the verdict.
    pub explanation: String,
}

/// The results of a pin's patches.
#[derive(Debug, Default)]
pub(crate) struct PatchCheck {
    pub(crate) verdicts: Vec<PatchVerdict>,
    /// The reason why the patches could not be checked, if any.
    pub(crate) unknown: Option<String>,
    /// The PyTorch requirement in a source of vLLM.
    pub(crate) torch: Option<TorchNeed>,
}

impl PatchCheck {
    pub(crate) fn broken(&self) -> impl Iterator<Item = &PatchVerdict> {
        self.verdicts.iter().filter(|one| !one.ok)
    }
}

/// Tries all patches of the pin on the new source. If a bare commit was given, fetches it even if
/// there are no patches, because otherwise nothing shows that the commit exists.
pub(crate) async fn try_patches(
    project: &Project,
    pins: &Pins,
    name: &PinName,
    found: &Found,
    sources: &Sources,
) -> Result<PatchCheck, Failure> {
    let component = match (pins.sources.get(name), pins.archives.get(name)) {
        (Some(pin), _) => pin.patches.as_deref(),
        (None, Some(pin)) => pin.patches.as_deref(),
        (None, None) => None,
    };
    let is_bare = matches!(&found.value, pins::NewValue::Source { git_ref: None, .. });
    // Only source pins count: archives are only for trying patches, and builds use sources.
    let is_vllm = pins.sources.get(name).is_some_and(|pin| package(&pin.url) == Some("vllm"));
    if component.is_none() && !is_bare && !is_vllm {
        return Ok(PatchCheck::default());
    }
    let Some(tree) = fetch(pins, name, found, sources).await? else {
        return Ok(PatchCheck::default());
    };
    let tree = PinnedTree::new(tree, found.name.clone());
    let torch = is_vllm.then(|| torch::read(&tree)).flatten();
    let Some(component) = component else {
        return Ok(PatchCheck { torch, ..PatchCheck::default() });
    };
    let set = patches::select(patches::read(project, component)?, &[])?;
    let mut files =
        set.patches().iter().flat_map(|patch| &patch.edits).flat_map(|edit| &edit.files);
    if files.all(|path| matches!(tree.read(path), Ok(None))) {
        let unknown =
            format!("the source contains none of the files that the patches of `{component}` edit");
        return Ok(PatchCheck { unknown: Some(unknown), torch, ..PatchCheck::default() });
    }
    let gpu = project.default_gpu()?;
    let verdicts = verdicts(&set, &tree, version(found).as_ref(), &gpu);
    Ok(PatchCheck { verdicts, unknown: None, torch })
}

fn version(found: &Found) -> Option<Version> {
    match &found.value {
        pins::NewValue::Source { version, .. } => version.as_deref()?.parse().ok(),
        pins::NewValue::Archive { version, .. } => version.parse().ok(),
        pins::NewValue::Image { .. } => None,
    }
}

fn verdicts(
    set: &PatchSet,
    tree: &PinnedTree,
    version: Option<&Version>,
    gpu: &names::GpuTarget,
) -> Vec<PatchVerdict> {
    let subject = Subject {
        gpu,
        version,
        build_env: None,
        is_pristine: true,
        base: &BTreeMap::new(),
        receipts: &[],
    };
    let outcome = patcher::apply(set, &subject, tree, &NoProbes);
    let verdict = |one: patcher::PatchOutcome| PatchVerdict {
        id: one.id,
        ok: one.ok,
        verdict: one.verdict.name().to_owned(),
        explanation: one.explanation,
    };
    outcome.patches.into_iter().map(verdict).collect()
}

async fn fetch(
    pins: &Pins,
    name: &PinName,
    found: &Found,
    sources: &Sources,
) -> Result<Option<Tree>, Failure> {
    let failed = |error| Failure::from(error).hint("nothing was changed");
    match (&found.origin, &found.value) {
        (Origin::Git { url, commit }, _) => {
            Ok(Some(git_tree(sources, url, commit).await.map_err(failed)?))
        }
        (Origin::Archive { url }, pins::NewValue::Archive { version, sha256 }) => {
            let pin = pins.archives.get(name);
            let source = ArchiveSource {
                project: pin.map_or_else(String::new, |pin| pin.project.clone()),
                version: version.clone(),
                sha256: sha256.clone(),
                url: Some(url.clone()),
            };
            let archive = sources.fetch_archive(&source).await.map_err(failed)?;
            let folder = pin.and_then(|pin| pin.subdirectory.as_deref());
            Ok(Some(archive.tree(&ArchiveLimits::default(), folder).map_err(failed)?))
        }
        (Origin::Archive { .. } | Origin::None, _) => Ok(None),
    }
}

async fn git_tree(
    sources: &Sources,
    url: &sources::SourceUrl,
    commit: &CommitId,
) -> Result<Tree, sources::SourceError> {
    let source =
        GitSource { url: url.clone(), commit: commit.clone(), submodules: Submodules::None };
    Ok(sources.fetch_git(&source).await?.tree)
}

/// Refuses a source to which patches do not apply.
pub(crate) fn refuse_broken(check: &PatchCheck, pin: &PinName, name: &str) -> Result<(), Failure> {
    let broken: Vec<&PatchVerdict> = check.broken().collect();
    if broken.is_empty() {
        return Ok(());
    }
    let many = match broken.len() {
        1 => "a patch does".to_owned(),
        count => format!("{count} patches do"),
    };
    let mut told = Failure::new(Kind::Patch, format!("{many} not apply to `{pin}` at `{name}`"));
    told.causes = broken.iter().map(|one| format!("`{}`: {}", one.id, one.explanation)).collect();
    Err(told
        .hint("nothing was written; fix the patches under `patches/`, or use `versions` to limit the releases that they apply to")
        .hint("`--accept-broken-patches` writes the pin anyway; a build that needs it stops at the patch"))
}
