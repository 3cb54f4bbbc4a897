//! The environment for the steps of tracks that an engine builds: sources, programs, and a store of
//! finished steps. The engine comes from the executor, which gets it before the first step.
//!
//! `sources` fetches and patches sources. `packages` fetches Debian packages and makes base images
//! from them. `wheels` fetches the wheels of Python locks. `build` builds a Dockerfile in the
//! engine and extracts the new layers; `bake` leaves that to `docker buildx bake`. `seal` makes
//! them canonical. `slim` removes code for other GPUs, and `audit` looks for code for the image's
//! GPU. `store` keeps finished images by the key of their step. `sink` is the in-process registry
//! that engines push to and pull from. `load` loads a finished image into the engine.

mod audit;
mod bake;
mod bake_file;
mod build;
mod load;
mod offered;
mod packages;
mod seal;
mod sink;
mod slim;
mod sources;
mod store;
mod wheels;

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use ::sources::{SourceUrl, Sources};
use engine::{Engine, RunId};
use names::Digest;
use patcher::PatchSet;
use tokio::sync::Mutex;

pub use bake::{Bake, BakeBase, BakeTarget};
pub use bake_file::bake_file;
pub(crate) use build::{Builder, Instructions, RawBuild};
pub(crate) use packages::Packages;
pub(crate) use sink::{Origin, Sink};
pub(crate) use slim::SlimStep;
pub(crate) use sources::SourceStep;
pub use sources::SourceTree;
pub use store::Store;
pub(crate) use store::{StoredImage, parse as parse_manifest};
pub(crate) use wheels::Wheels;

use crate::probes::Tools;
use crate::{ExecuteError, SharedStores};

/// A value that is slow to find and looked up only when needed. If every step is finished, a run
/// does not need it.
pub struct Lookup<T>(Box<dyn Fn() -> T + Send + Sync>);

impl<T> Lookup<T> {
    /// Creates a lookup that calls `find` for the value.
    pub fn new(find: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Self(Box::new(find))
    }

    pub(crate) fn find(&self) -> T {
        (self.0)()
    }
}

impl<T> fmt::Debug for Lookup<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup").finish_non_exhaustive()
    }
}

/// The environment for the steps of tracks that an engine builds.
#[derive(Debug)]
pub struct BuildEnv {
    /// The Python package index for release archives, if one is known.
    pub index: Lookup<Option<SourceUrl>>,
    /// The mirrors for Debian packages.
    pub mirrors: Lookup<debian::Mirrors>,
    /// The name of this run, for the label of the images that it makes in the engine.
    pub run: RunId,
    /// Fetches sources and packages.
    pub sources: Sources,
    /// The programs for the probes of patches.
    pub tools: Tools,
    /// The project files that plans refer to by digest.
    pub materials: Arc<Materials>,
    /// Where finished images are kept.
    pub store: Store,
    /// Where several machines keep finished images.
    pub shared: SharedStores,
    /// The number of threads that compress layers. The result does not depend on it.
    pub threads: NonZeroUsize,
    /// Whether every step runs, even if it is finished.
    pub is_fresh: bool,
    /// Whether the state before a failed RUN is kept in the engine.
    pub keeps_failed: bool,
    /// The folder for `docker buildx bake`, if bake builds instead of the engine.
    pub bake: Option<Arc<Bake>>,
    /// The temporary names of images in the engine, used only during this run.
    pub names: Mutex<Vec<String>>,
}

impl BuildEnv {
    /// Returns whether a step runs even if it is finished.
    pub(crate) fn runs_again(&self, key: &Digest) -> bool {
        self.is_fresh || self.shared.is_sampled(key)
    }

    /// Returns the image of a step that an earlier run finished, unless the step runs again. An
    /// image from a shared store counts only if this run may read from that store.
    pub(crate) fn finished(&self, key: &Digest) -> Option<StoredImage> {
        let made = self.store.finished(key).filter(|_| !self.runs_again(key))?;
        let is_allowed = made.origin.as_ref().is_none_or(|origin| self.shared.may_read(origin));
        is_allowed.then_some(made)
    }

    /// Removes what this run left in the engine, and nothing else.
    pub(crate) async fn close(&self, engine: &Engine) {
        let names = std::mem::take(&mut *self.names.lock().await);
        // If no name is recorded, nothing was built in the engine.
        if !names.is_empty()
            && let Err(error) = engine.clean(&self.run).await
        {
            tracing::warn!(%error, "cannot remove the leftovers of a build");
        }
        for name in names {
            if let Err(error) = engine.remove_image(&name).await {
                tracing::warn!(%error, name, "cannot remove an image of a build from the engine");
            }
        }
    }
}

/// The project files and patches that plans refer to by digest. They were read when the plans were
/// made, so a build uses exactly the files that its plan was made from, even if they change in the
/// meantime. The tracks' own files are an exception, because they may be large.
#[derive(Debug, Default)]
pub struct Materials {
    /// Dockerfiles and locks, by their path relative to the project root.
    pub files: BTreeMap<String, Arc<str>>,
    /// The paths of the tracks' own files on disk, by the name of their input. They are read when
    /// the layer is made, and compared with the plan.
    pub own_files: BTreeMap<String, PathBuf>,
    /// The patches of each component.
    pub patches: BTreeMap<String, PatchSet>,
}

impl Materials {
    /// Returns the text of a file.
    ///
    /// # Errors
    /// Fails if the file is missing or differs from the file that the plan was made from. Both are
    /// bugs in the caller.
    pub(crate) fn file(&self, path: &str, digest: &Digest) -> Result<&str, ExecuteError> {
        let text = self.files.get(path).filter(|text| Digest::of(text.as_bytes()) == *digest);
        text.map(|text| &**text).ok_or_else(|| ExecuteError::changed(path))
    }

    /// Checks that every engine makes the same image from a Dockerfile.
    pub(crate) fn check_dockerfile(&self, path: &str, digest: &Digest) -> Result<(), ExecuteError> {
        let checked = engine::check_dockerfile(self.file(path, digest)?);
        checked.map_err(|error| ExecuteError::dockerfile(path, &error))
    }
}
