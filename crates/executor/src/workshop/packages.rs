//! Fetching the Debian packages of a lock, and making a base image of them.

use std::collections::BTreeMap;
use std::fs::File;

use ::sources::Tree;
use debian::{Bootstrap, FetchedPackage, LocalSource, Mode};
use names::Digest;
use pins::{PackageLock, parse_package_lock};
use plan::{ImageEdit, Seal};
use tempfile::TempDir;

use super::Workshop;
use super::store::Made;
use crate::ExecuteError;

/// The packages of a lock.
#[derive(Debug)]
pub(crate) struct Packages {
    lock: PackageLock,
    /// The sets that were fetched.
    sets: Vec<String>,
    fetched: Vec<FetchedPackage>,
}

impl Workshop {
    /// Fetches the packages of some sets of a lock, each by its hash.
    pub(crate) async fn fetch_packages(
        &self,
        (path, digest): (&str, &Digest),
        sets: &[String],
    ) -> Result<Packages, ExecuteError> {
        let text = self.materials.file(path, digest)?;
        let lock = parse_package_lock(path, text).map_err(|_| ExecuteError::changed(path))?;
        let mut wanted = BTreeMap::new();
        for set in sets {
            let closure = lock
                .closure(set)
                .ok_or_else(|| ExecuteError::plan(format!("`{path}` has no set `{set}`")))?;
            wanted.extend(closure.into_iter().map(|package| (package.file.clone(), package)));
        }
        let wanted: Vec<_> = wanted.into_values().collect();
        let mirrors = self.mirrors.find().map_err(ExecuteError::mirrors)?;
        let fetched = debian::fetch(&self.sources, &wanted, &mirrors).await;
        let fetched = fetched.map_err(ExecuteError::packages)?;
        Ok(Packages { lock, sets: sets.to_vec(), fetched })
    }

    /// Makes a base image of the packages of a set.
    pub(crate) async fn bootstrap(
        &self,
        packages: &Packages,
        set: &str,
        (seal, created): (&Seal, &str),
    ) -> Result<Made, ExecuteError> {
        let work = self.folder("base-")?;
        let (source, _) = self.local_source(packages, &work, seal.epoch).await?;
        let bad = || ExecuteError::plan(format!("the lock has no set `{set}`"));
        let closure = packages.lock.closure(set).ok_or_else(bad)?;
        let is_root = rustix::process::geteuid().is_root();
        let request = Bootstrap {
            suite: &packages.lock.suite,
            architecture: &packages.lock.architecture,
            packages: &closure,
            source: &source,
            epoch: seal.epoch,
            mode: if is_root { Mode::Root } else { Mode::Unshare },
            work: work.path(),
        };
        let tar = work.path().join("base.tar");
        let made = debian::bootstrap(&self.programs, &request, &tar).await;
        let made = made.map_err(ExecuteError::bootstrap)?;
        let file = File::open(&made.path).map_err(|error| {
            ExecuteError::disk(format!("opening `{}` failed", made.path.display()), error)
        })?;
        let edit = ImageEdit {
            created: created.to_owned(),
            created_by: format!("build-pipeline {}: Debian {}", seal.contract, packages.lock.suite),
            env: BTreeMap::new(),
            entrypoint_prefix: Vec::new(),
            reset: Vec::new(),
            labels: BTreeMap::new(),
        };
        tokio::task::block_in_place(|| self.image_of_tar(file, seal, &edit))
    }

    /// Returns the packages that go into a build context, all but those of the base, and the folder
    /// that they lie in, which must outlive the tree.
    pub(crate) async fn context_of(
        &self,
        packages: &Packages,
        epoch: u64,
    ) -> Result<(Tree, TempDir), ExecuteError> {
        let work = self.folder("packages-")?;
        let (_, tree) = self.local_source(packages, &work, epoch).await?;
        Ok((tree, work))
    }

    async fn local_source(
        &self,
        packages: &Packages,
        work: &TempDir,
        epoch: u64,
    ) -> Result<(LocalSource, Tree), ExecuteError> {
        let folder = work.path().join("packages");
        let Packages { lock, fetched, .. } = packages;
        let (programs, suite) = (&self.programs, &lock.suite);
        let source = debian::write_local_source(programs, fetched, suite, epoch, &folder).await;
        let source = source.map_err(ExecuteError::local_source)?;
        let tree = source.tree().map_err(ExecuteError::source)?;
        tracing::debug!(sets = ?packages.sets, "a package source was written");
        Ok((source, tree))
    }

    /// Makes a folder for what is under way.
    pub(crate) fn folder(&self, prefix: &str) -> Result<TempDir, ExecuteError> {
        let work = self.store.work()?;
        tempfile::Builder::new().prefix(prefix).tempdir_in(&work).map_err(|error| {
            ExecuteError::disk(format!("writing into `{}` failed", work.display()), error)
        })
    }
}
