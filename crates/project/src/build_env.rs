//! The environment of builds in an engine: the store of finished steps, and where to fetch from.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use engine::RunId;
use executor::{BlobCache, BuildEnv, Lookup, Materials, SharedStores, Store, Tools};
use failure::{Failure, Kind};
use sources::Sources;

use crate::{environment, fetch};

/// How steps are executed.
#[derive(Debug)]
pub struct BuildOptions {
    /// Whether finished steps run again.
    pub is_fresh: bool,
    /// Whether the state before a failed RUN is kept in the engine.
    pub keeps_failed: bool,
    /// The folder of finished steps.
    pub store: PathBuf,
    /// The stores of finished steps that several machines share.
    pub shared: SharedStores,
    /// Places that keep Debian packages after the mirrors have deleted them.
    pub old_packages: Vec<debian::OldPackages>,
}

/// Returns the cache of manifests and configs, or none if there is no cache folder.
pub fn blob_cache() -> BlobCache {
    environment::cache_folder()
        .map_or_else(BlobCache::none, |folder| BlobCache::new(folder.join("blobs")))
}

/// Returns a name for this run: the process ID, from which `clean` sees whether the run is alive,
/// and a random number. Runs in several containers or on several machines may share an engine and
/// have the same process ID, and a run must not remove what belongs to another run.
///
/// # Errors
/// The name is not valid, which would be a bug.
pub fn new_run() -> Result<RunId, Failure> {
    let random = RandomState::new().build_hasher().finish();
    let name = format!("run-{}-{random:016x}", std::process::id());
    RunId::parse(&name)
        .ok_or_else(|| Failure::new(Kind::Bug, "the generated run name is not valid"))
}

/// Returns the environment of a run, which fetches with `sources`. Fetches nothing yet.
///
/// # Errors
/// No name can be generated for the run.
pub fn open(
    sources: Sources,
    materials: Arc<Materials>,
    options: BuildOptions,
) -> Result<BuildEnv, Failure> {
    let BuildOptions { is_fresh, keeps_failed, store, shared, old_packages } = options;
    let run = new_run()?;
    let path = environment::program_path();
    Ok(BuildEnv {
        index: Lookup::new(|| fetch::python_index().parse().ok()),
        mirrors: Lookup::new(move || debian::Mirrors {
            old: old_packages.clone(),
            ..debian::Mirrors::of_machine(&environment::apt_folder())
        }),
        run,
        sources,
        tools: Tools::new(&path),
        materials,
        store: Store::new(store),
        shared,
        threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        is_fresh,
        keeps_failed,
        bake: None,
        names: tokio::sync::Mutex::default(),
    })
}
