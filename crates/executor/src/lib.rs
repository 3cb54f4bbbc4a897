//! Executes a plan and reports every step as an event.
//!
//! Start at [`Executor::execute`]. The executor makes no choices: the plan specifies what to fetch,
//! what to write and every label, and [`Settings`] lists the outputs. The module `run` starts
//! each step as soon as its dependencies are finished. The result is always an [`Execution`], even
//! after a failure or a signal, so that a record can always be written. This crate reads no
//! environment variables, and only the helper process of probes prints anything.

#![cfg_attr(
    test,
    expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")
)]

mod base;
mod build_env;
mod built;
mod cache;
mod copy;
mod damaged;
mod deliver;
mod error;
mod event;
mod inputs;
mod layers;
mod own_files;
mod place;
mod probes;
mod run;
mod shared;
mod sorted;
mod targets;

use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use engine::Engine;
use names::ImageRef;
use oci::client::RegistryClient;
use oci::{DerivedImage, Verified};
use plan::{ImageEdit, Plan, Platform};
use record::{ImageSummary, Note, OutputOutcome, StepOutcome, StepState, Traffic};

pub use base::{BaseImage, fetch_base};
pub use build_env::{
    Bake, BakeBase, BakeTarget, BuildEnv, Lookup, Materials, SourceTree, Store, bake_file,
};
pub use built::{made_image, needs_engine, result_of, step_with_network};
pub use cache::BlobCache;
pub use error::{ErrorKind, ExecuteError};
pub use event::Event;
pub use inputs::{Collected, Collector};
pub use layers::{LayerError, checked, read_layer, read_remote_layer, visit_layer};
pub use own_files::FilesMaker;
pub use place::{LayerSource, LayerTarget, Placed, Transfer};
pub use probes::{CANNOT_CONFINE, Confinement, Edited, Tools, run_helper};
pub use shared::{
    ParseStoreError, SharedStore, SharedStores, StoreCheck, compare_with_stores, store_with,
    take_from_stores,
};
pub use sorted::SortedLayer;
pub use targets::check_copy_target;

use run::{Run, Shared};

/// The environment for executing a plan.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The client that talks to registries.
    pub client: RegistryClient,
    /// The cache for small blobs between runs.
    pub cache: BlobCache,
    /// The blobs in outputs that earlier runs have hashed.
    pub verified: Verified,
    /// Layouts and archives that may contain layers of the image.
    pub nearby: Vec<PathBuf>,
    /// Where to write the image, in this order.
    pub outputs: Vec<Output>,
    /// The step after which the run ends without an image. If `None`, the run makes the image.
    pub last_step: Option<String>,
    /// The environment for tracks that an engine builds. Also set if an image is loaded into an
    /// engine.
    pub build_env: Option<Arc<BuildEnv>>,
}

/// A destination for an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// A folder with an OCI image layout.
    Layout {
        /// The folder.
        path: PathBuf,
        /// Whether to copy the layers into it.
        with_layers: bool,
    },
    /// A tar file with an OCI image layout, including layers.
    Archive {
        /// The file.
        path: PathBuf,
    },
    /// A repository on a registry.
    Registry {
        /// The repository, with the tag to set. Without a tag, the image is available only by
        /// digest.
        reference: ImageRef,
    },
    /// The engine of the run.
    Engine {
        /// The image's name in the engine, with a tag.
        reference: ImageRef,
    },
}

impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Layout { path, .. } => write!(f, "oci:{}", path.display()),
            Self::Archive { path } => write!(f, "oci-archive:{}", path.display()),
            Self::Registry { reference } => write!(f, "registry:{reference}"),
            Self::Engine { reference } => write!(f, "engine:{reference}"),
        }
    }
}

/// The result of executing a plan.
#[derive(Debug)]
pub struct Execution {
    /// The results of all steps, in the order of the plan.
    pub steps: Vec<StepOutcome>,
    /// The image, if one was made.
    pub image: Option<ImageSummary>,
    /// The results of all outputs that were started.
    pub outputs: Vec<OutputOutcome>,
    /// Warnings and notes.
    pub notes: Vec<Note>,
    /// The network traffic.
    pub traffic: Traffic,
    /// How it ended.
    pub end: End,
}

/// How an execution ended.
#[derive(Debug)]
pub enum End {
    /// Everything is done.
    Succeeded,
    /// Something failed; this is the first failure. Other plans may have failed for the same
    /// reason.
    Failed(Arc<ExecuteError>),
    /// The caller interrupted it.
    Interrupted,
    /// The caller never started it.
    NotBegun,
}

impl Execution {
    /// Returns an execution in which no step of the plan was started.
    pub fn not_begun(plan: &Plan, end: End) -> Self {
        let steps = in_order(plan, &[]);
        Self {
            steps,
            image: None,
            outputs: Vec::new(),
            notes: Vec::new(),
            traffic: Traffic::default(),
            end,
        }
    }
}

/// Returns a result for each step of a plan, in order. Steps without a known result were not
/// started.
fn in_order(plan: &Plan, known: &[StepOutcome]) -> Vec<StepOutcome> {
    let outcome = |step: &plan::Step| {
        let known = known.iter().find(|outcome| outcome.step == step.id).cloned();
        known.unwrap_or_else(|| StepOutcome {
            step: step.id.clone(),
            state: StepState::NotBegun,
            milliseconds: 0,
            store: None,
        })
    };
    plan.steps.iter().map(outcome).collect()
}

/// Receives all events, from any thread.
pub type OnEvent = Arc<dyn Fn(Event) + Send + Sync>;

/// A plan to execute.
#[derive(Clone)]
pub struct Job {
    /// The plan.
    pub plan: Arc<Plan>,
    /// The environment for executing it.
    pub settings: Settings,
    /// Receives the events of this plan.
    pub on_event: OnEvent,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("plan", &self.plan.name).finish_non_exhaustive()
    }
}

/// Executes plans. Plans that run at the same time share steps: a step that several of them need
/// runs once. If one plan fails, the others continue.
#[derive(Debug)]
pub struct Executor {
    shared: Arc<Shared>,
    build_envs: Mutex<Vec<Arc<BuildEnv>>>,
}

impl Executor {
    /// Creates an executor for a run. All its plans share `engine`, which must be set if one of
    /// them needs an engine ([`needs_engine`]): the caller finds and tests the engine before
    /// anything is fetched for the plans.
    pub fn new(engine: Option<Engine>) -> Self {
        Self { shared: Arc::new(Shared::new(engine)), build_envs: Mutex::default() }
    }

    /// Executes a plan. Stops early when `interrupt` completes.
    pub async fn execute(&self, job: Job, interrupt: impl Future<Output = ()>) -> Execution {
        if let Some(build_env) = &job.settings.build_env {
            let mut build_envs = self.build_envs.lock().unwrap_or_else(PoisonError::into_inner);
            if !build_envs.iter().any(|known| Arc::ptr_eq(known, build_env)) {
                build_envs.push(Arc::clone(build_env));
            }
        }
        let run = Arc::new(Run::new(job, Arc::clone(&self.shared)));
        let end = run.end(interrupt).await;
        run.execution(end)
    }

    /// Removes what this run left in the engine, and stops this tool's podman services. Call this
    /// only if no plan is running.
    pub async fn close(self) {
        let Some(engine) = &self.shared.engine else { return };
        for build_env in self.build_envs.into_inner().unwrap_or_else(PoisonError::into_inner) {
            build_env.close(engine).await;
        }
        engine.stop().await;
    }
}

/// Derives the image of a plan from a fetched base, without writing it anywhere.
///
/// # Errors
/// Fails if the base is not an image for the platform, or if its manifest and config do not match.
pub fn derive_image(
    plan: &Plan,
    base: &BaseImage,
    edit: &ImageEdit,
) -> Result<DerivedImage, ExecuteError> {
    oci::derive(&base.manifest, &base.config, &Platform::linux_amd64(), edit, &plan.final_labels())
        .map_err(|source| ExecuteError::derive(base, source))
}

#[cfg(test)]
mod tests;
