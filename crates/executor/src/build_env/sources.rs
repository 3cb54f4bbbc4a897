//! Fetches and patches a source, before a RUN uses it.

use ::sources::{
    Archive, ArchiveLimits, ArchiveSource, GitSource, Mode, SourceError, Submodules, Tree,
};
use names::{GpuTarget, Version};
use patcher::{
    MAX_FILE_BYTES, Outcome, PatchOutcome, PatchSet, Probes, Subject, Tree as PatchTree, TreePath,
    Unreadable, Verdict,
};
use plan::{Expectation, Input, PatchUse};

use super::{BuildEnv, Materials};
use crate::ExecuteError;

/// A fetched tree that patches read. Links are not followed, and nothing is unpacked.
#[derive(Debug)]
pub struct SourceTree(pub Tree);

impl PatchTree for SourceTree {
    fn read(&self, path: &TreePath) -> Result<Option<Vec<u8>>, Unreadable> {
        let path = path.as_str();
        let failed = |error: SourceError| Unreadable(error.to_string());
        match self.0.mode(path) {
            None if self.0.has_directory(path) => Err(Unreadable("it is a directory".to_owned())),
            None => Ok(None),
            Some(Mode::Symlink) => Err(Unreadable("it is a symbolic link".to_owned())),
            Some(Mode::File | Mode::Executable) => {
                let size = self.0.size(path).map_err(failed)?;
                if size > MAX_FILE_BYTES as u64 {
                    let detail = format!("it has {size} bytes; the maximum is {MAX_FILE_BYTES}");
                    return Err(Unreadable(detail));
                }
                self.0.read_file(path).map(Some).map_err(failed)
            }
        }
    }
}

/// The source of a step, and the patches for it.
pub(crate) struct SourceStep<'a> {
    /// The name of the input.
    pub(crate) name: &'a str,
    /// The input.
    pub(crate) input: &'a Input,
    /// The patches in the plan.
    pub(crate) patches: &'a [PatchUse],
    /// The GPU target.
    pub(crate) gpu: &'a GpuTarget,
}

impl BuildEnv {
    /// Fetches a source and patches it. Every patch must have the effect that the plan expects, and
    /// every probe that can run here must pass.
    pub(crate) async fn fetch_source(&self, step: &SourceStep<'_>) -> Result<Tree, ExecuteError> {
        let tree = self.fetch(step.input).await?;
        // Probes run programs, which block.
        tokio::task::block_in_place(|| step.patched(tree, &self.materials, &self.tools))
    }

    async fn fetch(&self, input: &Input) -> Result<Tree, ExecuteError> {
        match input {
            Input::Source { url, commit, .. } => {
                let bad = |_| ExecuteError::plan(format!("`{url}` is not a git address"));
                let source = GitSource {
                    url: url.parse().map_err(bad)?,
                    commit: commit.clone(),
                    submodules: Submodules::All,
                };
                let fetched = self.sources.fetch_git(&source).await;
                Ok(fetched.map_err(ExecuteError::source)?.tree)
            }
            Input::Archive { project, version, sha256, subdirectory } => {
                let source = ArchiveSource {
                    project: project.clone(),
                    version: version.clone(),
                    sha256: sha256.clone(),
                    url: None,
                };
                let archive = self.release(source).await;
                let archive = archive.map_err(ExecuteError::source)?;
                let limits = ArchiveLimits::default();
                tokio::task::block_in_place(|| archive.tree(&limits, subdirectory.as_deref()))
                    .map_err(ExecuteError::source)
            }
            Input::Image { .. } | Input::Lock { .. } | Input::File { .. } => {
                Err(ExecuteError::plan(format!("`{input}` is not a source")))
            }
        }
    }

    /// Fetches an archive. The index is looked up only if the cache does not have the archive.
    pub(crate) async fn release(&self, source: ArchiveSource) -> Result<Archive, SourceError> {
        let cached = self.sources.fetch_archive(&source).await;
        match cached {
            Err(error) if error.kind() == ::sources::ErrorKind::NotFound => {
                let index = tokio::task::block_in_place(|| self.index.find());
                self.sources.fetch_release(index.as_ref(), source).await
            }
            cached => cached,
        }
    }
}

impl SourceStep<'_> {
    /// Patches a fetched tree.
    pub(crate) fn patched(
        &self,
        tree: Tree,
        materials: &Materials,
        probes: &dyn Probes,
    ) -> Result<Tree, ExecuteError> {
        let Some(first) = self.patches.first() else { return Ok(tree) };
        let Some(set) = materials.patches.get(&first.component) else {
            return Err(ExecuteError::changed(&format!("patches/{}", first.component)));
        };
        let version = self.input.version().map(str::parse::<Version>).transpose();
        let version = version.map_err(|error| ExecuteError::plan(error.to_string()))?;
        let subject = Subject {
            gpu: self.gpu,
            version: version.as_ref(),
            build_env: None,
            is_pristine: true,
            base: &std::collections::BTreeMap::new(),
            receipts: &[],
        };
        let tree = SourceTree(tree);
        let outcome = patcher::apply(set, &subject, &tree, probes);
        self.check(set, &outcome)?;
        let SourceTree(mut tree) = tree;
        for file in &outcome.files {
            tree.put_file(file.path.as_str(), &*file.new).map_err(ExecuteError::source)?;
        }
        Ok(tree)
    }

    /// Compares the verdicts of the patches with the plan.
    fn check(&self, set: &PatchSet, outcome: &Outcome) -> Result<(), ExecuteError> {
        for (patch, done) in set.patches().iter().zip(&outcome.patches) {
            let planned = self.patches.iter().find(|planned| planned.id == done.id);
            if planned.is_some_and(|planned| planned.effect != patch.sha256()) {
                let path = format!("patches/{}/{}.toml", patch.component, patch.id);
                return Err(ExecuteError::changed(&path));
            }
            if !done.ok {
                return Err(ExecuteError::patch(&done.id, &done.verdict.explain()));
            }
            if !is_expected(planned.map(|planned| planned.expect), done) {
                let says = match planned.map(|planned| planned.expect) {
                    Some(Expectation::InEffect) => "takes effect",
                    Some(Expectation::Upstream) => "is already upstream",
                    None => "has no effect",
                };
                let why = format!(
                    "according to the plan, it {says} in `{}`, but its verdict is `{}`: {}",
                    self.name,
                    done.verdict,
                    done.verdict.explain()
                );
                return Err(ExecuteError::patch(&done.id, &why));
            }
        }
        let is_done =
            |planned: &&PatchUse| outcome.patches.iter().any(|done| done.id == planned.id);
        match self.patches.iter().find(|planned| !is_done(planned)) {
            Some(lost) => {
                let path = format!("patches/{}/{}.toml", lost.component, lost.id);
                Err(ExecuteError::changed(&path))
            }
            None => Ok(()),
        }
    }
}

/// Returns whether the verdict of a patch matches the plan. A patch that is not in the plan must
/// not be applicable to this source.
fn is_expected(expected: Option<Expectation>, done: &PatchOutcome) -> bool {
    let is_upstream =
        matches!(done.verdict, Verdict::AlreadyPresent { .. } | Verdict::SatisfiedOtherwise);
    let is_applied =
        matches!(done.verdict, Verdict::Applied { .. } | Verdict::PartialUpstream { .. });
    match expected {
        Some(Expectation::InEffect) => is_applied || is_upstream,
        Some(Expectation::Upstream) => is_upstream,
        None => matches!(done.verdict, Verdict::NotApplicable { .. }),
    }
}
