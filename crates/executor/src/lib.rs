//! Carries out a plan and reports every step as an event.
//!
//! Start at [`Executor::execute`]. It makes no choices: what to fetch, what to write and every label stand in
//! the plan; where to put the image stands in [`Settings`]. `run` begins each step as soon as what
//! it needs is there. There always is an [`Execution`], also when a step failed or a signal came, so
//! that a record can always be written. It prints nothing and reads no environment.

mod base;
mod built;
mod cache;
mod deliver;
mod error;
mod event;
mod layers;
mod probes;
mod run;
mod sorted;
mod workshop;

use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use engine::Engine;
use names::ImageRef;
use oci::client::RegistryClient;
use oci::{DerivedImage, Verified};
use plan::{ImageEdit, Plan, Platform};
use record::{ImageSummary, Note, OutputOutcome, StepOutcome, StepState, Traffic};

pub use base::{Base, fetch_base};
pub use built::needs_engine;
pub use cache::BlobCache;
pub use error::{ErrorKind, ExecuteError};
pub use event::Event;
pub use layers::LayerError;
pub use probes::{Edited, Tools};
pub use sorted::SortedLayer;
pub use workshop::{Lookup, Materials, SourceTree, Store, Workshop};

use run::{Run, Shared};

/// Where and with what a plan is carried out.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The client that talks to registries.
    pub client: RegistryClient,
    /// Where small blobs are kept between runs.
    pub cache: BlobCache,
    /// Which blobs in outputs were hashed in earlier runs.
    pub verified: Verified,
    /// Where the image is put, in this order.
    pub outputs: Vec<Output>,
    /// What built tracks are carried out with. It is also there if an image is put into the engine.
    pub workshop: Option<Arc<Workshop>>,
}

/// A place that an image is put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// A folder in the OCI image layout.
    Layout {
        /// The folder.
        path: PathBuf,
        /// Whether the layers are copied in too.
        with_layers: bool,
    },
    /// One tar file in the OCI image layout, layers and all.
    Archive {
        /// The file.
        path: PathBuf,
    },
    /// A repository on a registry.
    Registry {
        /// The repository, with the tag that is set; without one the image is there by digest only.
        reference: ImageRef,
    },
    /// The engine of the run.
    Engine {
        /// The name that the image gets there, with a tag.
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

/// What became of a plan.
#[derive(Debug)]
pub struct Execution {
    /// What became of each step, in the order of the plan.
    pub steps: Vec<StepOutcome>,
    /// The image, where one was made.
    pub image: Option<ImageSummary>,
    /// What became of each output that was begun.
    pub outputs: Vec<OutputOutcome>,
    /// What was noticed.
    pub notes: Vec<Note>,
    /// What went over the wire.
    pub traffic: Traffic,
    /// How it ended.
    pub end: End,
}

/// How an execution ended.
#[derive(Debug)]
pub enum End {
    /// All is done.
    Succeeded,
    /// Something went wrong; the first thing that did. Other plans may have failed of it too.
    Failed(Arc<ExecuteError>),
    /// The caller's interruption came first.
    Interrupted,
    /// The caller never began it.
    NotBegun,
}

impl Execution {
    /// Returns the execution of a plan of which no step was begun.
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

/// Returns an outcome for each step of a plan, in its order: what is known, or that it was not begun.
fn in_order(plan: &Plan, known: &[StepOutcome]) -> Vec<StepOutcome> {
    let outcome = |step: &plan::Step| {
        let known = known.iter().find(|outcome| outcome.step == step.id).cloned();
        known.unwrap_or_else(|| StepOutcome {
            step: step.id.clone(),
            state: StepState::NotBegun,
            milliseconds: 0,
        })
    };
    plan.steps.iter().map(outcome).collect()
}

/// Is told of everything that happens, from any thread.
pub type OnEvent = Arc<dyn Fn(Event) + Send + Sync>;

/// A plan that is to be carried out.
#[derive(Clone)]
pub struct Job {
    /// The plan.
    pub plan: Arc<Plan>,
    /// Where and with what.
    pub settings: Settings,
    /// Is told of what happens to this plan.
    pub on_event: OnEvent,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("plan", &self.plan.name).finish_non_exhaustive()
    }
}

/// Carries out plans. Those that are under way at the same time share what they have in common: a
/// step that several of them need is carried out once. One that fails does not end the others.
#[derive(Debug)]
pub struct Executor {
    shared: Arc<Shared>,
    workshops: Mutex<Vec<Arc<Workshop>>>,
}

impl Executor {
    /// Takes the engine that all plans of the run share. It must be there if one of them needs one
    /// ([`needs_engine`]): the caller finds and tries it before anything is fetched for the plans.
    pub fn new(engine: Option<Engine>) -> Self {
        Self { shared: Arc::new(Shared::new(engine)), workshops: Mutex::default() }
    }

    /// Carries out a plan. `interrupt` ends it early when it completes.
    pub async fn execute(&self, job: Job, interrupt: impl Future<Output = ()>) -> Execution {
        if let Some(workshop) = &job.settings.workshop {
            let mut workshops = self.workshops.lock().unwrap_or_else(PoisonError::into_inner);
            if !workshops.iter().any(|known| Arc::ptr_eq(known, workshop)) {
                workshops.push(Arc::clone(workshop));
            }
        }
        let run = Arc::new(Run::new(job, Arc::clone(&self.shared)));
        let end = run.end(interrupt).await;
        run.execution(end)
    }

    /// Removes what this run left in the engine. No plan may be under way any more.
    pub async fn close(self) {
        let Some(engine) = &self.shared.engine else { return };
        for workshop in self.workshops.into_inner().unwrap_or_else(PoisonError::into_inner) {
            workshop.close(engine).await;
        }
        engine.stop().await;
    }
}

/// Makes the image of a plan over a base that was fetched, without writing it anywhere.
///
/// # Errors
/// The base is not an image for the platform, or its parts do not fit.
pub fn derive_image(
    plan: &Plan,
    base: &Base,
    edit: &ImageEdit,
) -> Result<DerivedImage, ExecuteError> {
    oci::derive(&base.manifest, &base.config, &Platform::linux_amd64(), edit, &plan.final_labels())
        .map_err(|source| ExecuteError::derive(base, source))
}

#[cfg(test)]
mod tests;
