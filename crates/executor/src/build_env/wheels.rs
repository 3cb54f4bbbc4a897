//! Fetches the wheels of a Python lock, and arranges them for a build context.
//!
//! The folder contains `wheels/*.whl`, the lock as `pylock.toml`, and `requirements.lock` for pip:
//! `pip install --no-index --find-links wheels --require-hashes --no-deps -r requirements.lock`.

use std::io;
use std::path::Path;

use ::sources::{Archive, ArchiveSource, ErrorKind, SourceError, SourceUrl, Tree};
use futures_util::{StreamExt as _, TryStreamExt as _};
use names::Digest;
use pins::PythonLock;
use tempfile::TempDir;

use super::BuildEnv;
use crate::ExecuteError;

/// How many wheels are downloaded at the same time.
const AT_ONCE: usize = 8;

/// The wheels of a lock.
#[derive(Debug)]
pub(crate) struct Wheels {
    lock: PythonLock,
    text: String,
    /// The files, each with its name.
    files: Vec<(String, Archive)>,
}

impl Wheels {
    /// Returns the wheels, each with its name.
    pub(crate) fn files(&self) -> &[(String, Archive)] {
        &self.files
    }
}

impl BuildEnv {
    /// Fetches the wheels of a lock, each by its hash.
    pub(crate) async fn fetch_wheels(
        &self,
        path: &str,
        digest: &Digest,
    ) -> Result<Wheels, ExecuteError> {
        let text = self.materials.file(path, digest)?.to_owned();
        let lock = PythonLock::parse(&text, None).map_err(|_| ExecuteError::changed(path))?;
        let wheels = lock.projects.iter().flat_map(|(name, project)| {
            project.wheels.iter().map(move |wheel| {
                let source = ArchiveSource {
                    project: name.clone(),
                    version: project.version.clone(),
                    sha256: wheel.sha256.clone(),
                    url: None,
                };
                (wheel.file.clone(), source)
            })
        });
        let wheels: Vec<_> = wheels.collect();
        let index = lock.index.as_deref().map(str::parse).transpose();
        let index: Option<SourceUrl> = index.map_err(|_| ExecuteError::changed(path))?;
        let fetch = |(file, source)| {
            let index = index.as_ref();
            async move { Ok((file, self.wheel(index, source).await.map_err(ExecuteError::source)?)) }
        };
        let files = futures_util::stream::iter(wheels.into_iter().map(fetch));
        let files = files.buffered(AT_ONCE).try_collect().await?;
        Ok(Wheels { lock, text, files })
    }

    /// Fetches a wheel from the index that the lock names, or from the default index if that one
    /// does not have the wheel.
    async fn wheel(
        &self,
        index: Option<&SourceUrl>,
        source: ArchiveSource,
    ) -> Result<Archive, SourceError> {
        if index.is_some() {
            match self.sources.fetch_release(index, source.clone()).await {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                fetched => return fetched,
            }
        }
        self.release(source).await
    }

    /// Returns the folder of a build context that contains the wheels, and the folder on disk. The
    /// latter must outlive the tree.
    pub(crate) fn context_of_wheels(
        &self,
        wheels: &Wheels,
    ) -> Result<(Tree, TempDir), ExecuteError> {
        let work = self.folder("wheels-")?;
        let failed = |error: io::Error| {
            ExecuteError::disk(format!("writing into `{}` failed", work.path().display()), error)
        };
        lay_out(wheels, work.path()).map_err(failed)?;
        let tree = Tree::from_folder(work.path()).map_err(ExecuteError::source)?;
        Ok((tree, work))
    }
}

fn lay_out(wheels: &Wheels, folder: &Path) -> io::Result<()> {
    std::fs::create_dir(folder.join("wheels"))?;
    for (name, archive) in &wheels.files {
        std::fs::copy(archive.path(), folder.join("wheels").join(name))?;
    }
    std::fs::write(folder.join("pylock.toml"), &wheels.text)?;
    std::fs::write(folder.join("requirements.lock"), wheels.lock.to_requirements())
}
