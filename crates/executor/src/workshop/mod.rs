//! What the steps of built tracks are carried out with: an engine, sources, a store of what is done.
//!
//! `sources` fetches and patches, `packages` fetches packages and makes bases of them, `wheels` those of Python locks, `build` has
//! the engine run a Dockerfile and takes the new layers out of it, `seal` makes them canonical,
//! `store` keeps finished images by the key of their step, `sink` is the registry in this process
//! that engines push to and pull from, `load` puts a finished image into the engine.

mod build;
mod load;
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
use engine::{Docker, Engine as _, Podman, RunId};
use futures_util::future::BoxFuture;
use names::Digest;
use patcher::PatchSet;
use tokio::sync::{Mutex, OnceCell};

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

/// The engine that builds.
#[derive(Debug)]
pub enum AnyEngine {
    /// podman.
    Podman(Box<Podman>),
    /// docker.
    Docker(Box<Docker>),
}

/// Runs a call on whichever engine it is.
macro_rules! on_engine {
    ($engine:expr, $name:ident => $call:expr) => {
        match $engine {
            $crate::workshop::AnyEngine::Podman($name) => $call,
            $crate::workshop::AnyEngine::Docker($name) => $call,
        }
    };
}
pub(crate) use on_engine;

/// Why an engine cannot be had.
pub type NoEngine = Box<dyn std::error::Error + Send + Sync>;

/// Finds what takes time to find, when it is first needed: a run of what is finished needs none.
pub trait Find: fmt::Debug + Send + Sync {
    /// Returns the engine that runs Dockerfiles.
    fn engine(&self) -> BoxFuture<'_, Result<AnyEngine, NoEngine>>;

    /// Returns the Python package index that archives are looked up on, where one is known.
    fn index(&self) -> Option<SourceUrl>;

    /// Returns where Debian packages are fetched.
    ///
    /// # Errors
    /// No mirror is known.
    fn mirrors(&self) -> Result<debian::Mirrors, debian::MirrorError>;
}

/// What the steps of built tracks are carried out with.
#[derive(Debug)]
pub struct Workshop {
    /// Finds the engine.
    pub find: Box<dyn Find>,
    /// The engine, once it was needed.
    pub engine: OnceCell<AnyEngine>,
    /// The name of this run, which all that it makes in the engine carries.
    pub run: RunId,
    /// Fetches sources and packages.
    pub sources: Sources,
    /// The programs that bases are made with.
    pub programs: debian::Programs,
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
    /// Returns the engine, looking for it where that was not done.
    async fn engine(&self) -> Result<&AnyEngine, ExecuteError> {
        self.engine.get_or_try_init(|| self.find.engine()).await.map_err(ExecuteError::no_engine)
    }

    /// Ends what was begun in the engine. After a failure or an interruption, what is left of this
    /// run there is removed, and nothing else.
    pub(crate) async fn close(&self, is_good: bool) {
        let Some(engine) = self.engine.get() else { return };
        if !is_good {
            let cleaned = on_engine!(engine, engine => engine.clean(&self.run).await);
            if let Err(error) = cleaned {
                tracing::warn!(%error, "what is left of a build could not be removed");
            }
        }
        let names = std::mem::take(&mut *self.names.lock().await);
        for name in names {
            let removed = on_engine!(engine, engine => engine.remove_image(&name).await);
            if let Err(error) = removed {
                tracing::warn!(%error, name, "an image of a build is left in the engine");
            }
        }
        if let AnyEngine::Podman(podman) = engine {
            podman.stop().await;
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
    fn file(&self, path: &str, digest: &Digest) -> Result<&str, ExecuteError> {
        let text = self.files.get(path).filter(|text| Digest::of(text.as_bytes()) == *digest);
        text.map(|text| &**text).ok_or_else(|| ExecuteError::changed(path))
    }
}
