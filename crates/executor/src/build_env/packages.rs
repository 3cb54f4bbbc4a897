//! Fetches the Debian packages of a lock, and makes a base image from them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;

use ::sources::Tree;
use debian::FetchedPackage;
use names::Digest;
use pins::{PackageLock, parse_package_lock};
use plan::{ImageEdit, Seal};
use tempfile::TempDir;

use super::BuildEnv;
use super::build::RawBuild;
use super::store::StoredImage;
use crate::ExecuteError;
use crate::layers::PIECE;

/// The packages of a lock.
#[derive(Debug)]
pub(crate) struct Packages {
    lock: PackageLock,
    fetched: Vec<FetchedPackage>,
}

impl Packages {
    /// Returns the package files.
    pub(crate) fn files(&self) -> &[FetchedPackage] {
        &self.fetched
    }
}

impl BuildEnv {
    /// Fetches the packages in the given sets of a lock, each by its hash.
    pub(crate) async fn fetch_packages(
        &self,
        path: &str,
        digest: &Digest,
        sets: &BTreeMap<String, Digest>,
    ) -> Result<Packages, ExecuteError> {
        let text = self.materials.file(path, digest)?;
        let lock = parse_package_lock(path, text).map_err(|_| ExecuteError::changed(path))?;
        let mut wanted = BTreeMap::new();
        for (set, planned) in sets {
            if lock.digest_of(set).is_none_or(|found| found != *planned) {
                return Err(ExecuteError::changed(path));
            }
            let closure = lock
                .closure(set)
                .ok_or_else(|| ExecuteError::plan(format!("`{path}` has no set `{set}`")))?;
            wanted.extend(closure.into_iter().map(|package| (package.file.clone(), package)));
        }
        let wanted: Vec<_> = wanted.into_values().collect();
        let (mirrors, days) = (self.mirrors.find(), lock.days());
        let fetched = debian::fetch(&self.sources, &wanted, &mirrors, &days).await;
        let fetched = fetched.map_err(ExecuteError::packages)?;
        Ok(Packages { lock, fetched })
    }

    /// Returns the build context for a base, and the folder that contains its files. The folder
    /// must outlive the tree.
    pub(crate) fn bootstrap_context(
        &self,
        packages: &Packages,
        set: &str,
        epoch: u64,
    ) -> Result<(Tree, TempDir), ExecuteError> {
        let bad = || ExecuteError::plan(format!("the lock has no set `{set}`"));
        let closure = packages.lock.closure(set).ok_or_else(bad)?;
        let fetched: Vec<&FetchedPackage> =
            packages.fetched.iter().filter(|one| closure.contains(&&one.package)).collect();
        let folder = self.folder("base-")?;
        let path = folder.path().join("root.tar");
        tokio::task::block_in_place(|| {
            let failed =
                |error| ExecuteError::disk(format!("writing `{}` failed", path.display()), error);
            let out = BufWriter::with_capacity(PIECE, File::create(&path).map_err(failed)?);
            debian::write_root(&fetched, epoch, out).map_err(ExecuteError::bootstrap)
        })?;
        let tree = Tree::from_folder(folder.path()).map_err(ExecuteError::source)?;
        Ok((tree, folder))
    }

    /// Makes a base image with a single layer from the engine's result.
    pub(crate) fn base_image(
        &self,
        raw: &RawBuild,
        packages: &Packages,
        seal: &Seal,
        created: &str,
    ) -> Result<StoredImage, ExecuteError> {
        let edit = ImageEdit {
            created: created.to_owned(),
            created_by: format!("build-pipeline {}: Debian {}", seal.contract, packages.lock.suite),
            ..ImageEdit::default()
        };
        tokio::task::block_in_place(|| self.image_of_layers(raw, seal, &edit))
    }

    /// Returns a package source with all fetched packages, for a build context, and the folder that
    /// contains it. The folder must outlive the tree.
    pub(crate) fn context_of(
        &self,
        packages: &Packages,
        epoch: u64,
    ) -> Result<(Tree, TempDir), ExecuteError> {
        let work = self.folder("packages-")?;
        let Packages { lock, fetched } = packages;
        let folder = work.path().join("packages");
        let source = tokio::task::block_in_place(|| {
            debian::write_local_source(fetched, &lock.suite, epoch, &folder)
        });
        let tree = source.map_err(ExecuteError::local_source)?.tree();
        Ok((tree.map_err(ExecuteError::source)?, work))
    }

    /// Creates a folder for temporary files.
    pub(crate) fn folder(&self, prefix: &str) -> Result<TempDir, ExecuteError> {
        let work = self.store.work()?;
        tempfile::Builder::new().prefix(prefix).tempdir_in(&work).map_err(|error| {
            ExecuteError::disk(format!("writing into `{}` failed", work.display()), error)
        })
    }
}
