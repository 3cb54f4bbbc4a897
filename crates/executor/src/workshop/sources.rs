//! Fetching a source and patching it, before any RUN.

use ::sources::{
    Archive, ArchiveLimits, ArchiveSource, GitSource, Mode, SourceError, Submodules, Tree,
};
use names::GpuTarget;
use names::Version;
use patcher::{
    MAX_FILE_BYTES, PatchSet, Subject, Tree as PatchTree, TreePath, Unreadable, parse_patch,
};
use plan::{PatchUse, Plan, Source};

use super::Workshop;
use crate::ExecuteError;

/// A fetched tree, as patches read it: links are not followed, nothing is unpacked.
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
                    let detail = format!("it has {size} bytes, more than {MAX_FILE_BYTES}");
                    return Err(Unreadable(detail));
                }
                self.0.read_file(path).map(Some).map_err(failed)
            }
        }
    }
}

impl Workshop {
    /// Fetches a source and patches it; every patch must fit, and every probe pass that can be run.
    pub(crate) async fn fetch_source(
        &self,
        plan: &Plan,
        (source, version): (&Source, Option<&str>),
        patches: &[PatchUse],
    ) -> Result<Tree, ExecuteError> {
        let tree = self.fetch(source).await?;
        if patches.is_empty() {
            return Ok(tree);
        }
        let set = self.patches(patches)?;
        let bad = |what: &str| ExecuteError::plan(format!("the plan has no valid {what}"));
        let gpu: GpuTarget = plan.gpu.parse().map_err(|_| bad("GPU target"))?;
        let version = version.map(str::parse::<Version>).transpose();
        let version = version.map_err(|_| bad("version"))?;
        let subject = Subject {
            gpu: &gpu,
            version: version.as_ref(),
            build_env: None,
            is_pristine: true,
            base: &std::collections::BTreeMap::new(),
            receipts: &[],
        };
        let tree = SourceTree(tree);
        // Probes run programs.
        let outcome =
            tokio::task::block_in_place(|| patcher::apply(&set, &subject, &tree, &self.tools));
        if let Some(failed) = outcome.patches.iter().find(|patch| !patch.ok) {
            return Err(ExecuteError::patch(&failed.id, &failed.verdict.explain()));
        }
        let SourceTree(mut tree) = tree;
        for file in &outcome.files {
            tree.put_file(file.path.as_str(), &*file.new).map_err(ExecuteError::source)?;
        }
        Ok(tree)
    }

    async fn fetch(&self, source: &Source) -> Result<Tree, ExecuteError> {
        let bad = |what: &str| ExecuteError::plan(format!("the plan has no valid {what}"));
        match source {
            Source::Git { url, commit } => {
                let source = GitSource {
                    url: url.parse().map_err(|_| bad("url"))?,
                    commit: commit.parse().map_err(|_| bad("commit"))?,
                    submodules: Submodules::All,
                };
                let fetched = self.sources.fetch_git(&source).await;
                Ok(fetched.map_err(ExecuteError::source)?.tree)
            }
            Source::Archive { project, version, sha256, subdirectory } => {
                let source = ArchiveSource {
                    project: project.clone(),
                    version: version.clone(),
                    sha256: sha256.parse().map_err(|_| bad("SHA-256"))?,
                    url: None,
                };
                let archive = self.release(source).await;
                let archive = archive.map_err(ExecuteError::source)?;
                let limits = ArchiveLimits::default();
                tokio::task::block_in_place(|| archive.tree(&limits, subdirectory.as_deref()))
                    .map_err(ExecuteError::source)
            }
        }
    }

    /// Fetches an archive. The index is looked for only where the cache does not have it.
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

    /// Reads the patches of a plan, each checked against its digest.
    fn patches(&self, uses: &[PatchUse]) -> Result<PatchSet, ExecuteError> {
        let mut patches = Vec::new();
        for PatchUse { component, id, digest } in uses {
            let name = format!("patches/{component}/{id}.toml");
            let text = self.project_file(&name, digest)?;
            patches.push(parse_patch(&name, &text).map_err(|_| ExecuteError::changed(&name))?);
        }
        PatchSet::new(patches).map_err(|error| ExecuteError::plan(error.to_string()))
    }
}
