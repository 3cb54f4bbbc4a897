//! What the steps of built tracks are carried out with: sources, programs, a store of what is done.
//! The engine comes from the executor, which has it before the first step.
//!
//! `sources` fetches and patches, `packages` fetches packages and makes bases of them, `wheels` those of Python locks, `build` has
//! the engine run a Dockerfile and takes the new layers out of it, `seal` makes them canonical,
//! `store` keeps finished images by the key of their step, `sink` is the registry in this process
//! that engines push to and pull from, `load` puts a finished image into the engine.

mod build;
mod load;
mod offered;
mod packages;
mod seal;
mod sink;
mod sources;
mod store;
mod wheels;

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use ::sources::{SourceUrl, Sources};
use engine::{Engine, RunId};
use names::Digest;
use patcher::PatchSet;
use tokio::sync::Mutex;

pub(crate) use build::{Captured, Instructions};
pub(crate) use packages::Packages;
pub(crate) use sink::Sink;
pub(crate) use sources::SourceStep;
pub use sources::SourceTree;
pub(crate) use store::Made;
pub use store::Store;
pub(crate) use wheels::Wheels;

use crate::ExecuteError;
use crate::probes::Tools;

/// A value that takes time to find, and is looked up where it is needed: a run in which every step is
/// finished needs none.
pub struct Lookup<T>(Box<dyn Fn() -> T + Send + Sync>);

impl<T> Lookup<T> {
    /// Takes the function that finds the value.
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

/// What the steps of built tracks are carried out with.
#[derive(Debug)]
pub struct Workshop {
    /// The Python package index that archives are looked up on, if one is known.
    pub index: Lookup<Option<SourceUrl>>,
    /// The mirrors that Debian packages are fetched from.
    pub mirrors: Lookup<debian::Mirrors>,
    /// The name of this run, which all that it makes in the engine carries.
    pub run: RunId,
    /// Fetches sources and packages.
    pub sources: Sources,
    /// The programs that the probes of patches run.
    pub tools: Tools,
    /// The texts of the project that plans name by their digests.
    pub materials: Arc<Materials>,
    /// Where finished images are kept.
    pub store: Store,
    /// How many threads compress layers. No byte depends on it.
    pub threads: NonZeroUsize,
    /// Whether every step is carried out, also those that are finished.
    pub is_fresh: bool,
    /// Whether what there was before a RUN that failed is left in the engine.
    pub keeps_failed: bool,
    /// Names that were given to images in the engine for the time of this run.
    pub names: Mutex<Vec<String>>,
}

impl Workshop {
    /// Removes what is left of this run in the engine, and nothing else.
    pub(crate) async fn close(&self, engine: &Engine) {
        let names = std::mem::take(&mut *self.names.lock().await);
        // Nothing is built in an engine before a name is noted.
        if !names.is_empty()
            && let Err(error) = engine.clean(&self.run).await
        {
            tracing::warn!(%error, "what is left of a build could not be removed");
        }
        for name in names {
            if let Err(error) = engine.remove_image(&name).await {
                tracing::warn!(%error, name, "an image of a build is left in the engine");
            }
        }
    }
}

/// The texts and patches that plans name by their digests. They were read when the plans were made,
/// so a build uses what the plan was made from, whatever happens to the files meanwhile.
#[derive(Debug, Default)]
pub struct Materials {
    /// Dockerfiles and locks, by their path from the root of the project.
    pub files: BTreeMap<String, Arc<str>>,
    /// The patches of each component.
    pub patches: BTreeMap<String, PatchSet>,
}

impl Materials {
    /// Returns the text of a file.
    ///
    /// # Errors
    /// It is not there, or is not what the plan was made from: a defect of the caller.
    pub(crate) fn file(&self, path: &str, digest: &Digest) -> Result<&str, ExecuteError> {
        let text = self.files.get(path).filter(|text| Digest::of(text.as_bytes()) == *digest);
        text.map(|text| &**text).ok_or_else(|| ExecuteError::changed(path))
    }

    /// Checks that every engine makes the same image of a Dockerfile.
    pub(crate) fn check_dockerfile(&self, path: &str, digest: &Digest) -> Result<(), ExecuteError> {
        let checked = engine::check_dockerfile(self.file(path, digest)?);
        checked.map_err(|error| ExecuteError::dockerfile(path, &error))
    }
}
