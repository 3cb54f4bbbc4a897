//! Carries out a plan and reports every step as an event.
//!
//! Start at [`execute`]. It makes no choices: what to fetch, what to write and every label stand in
//! the plan; where to put the image stands in [`Settings`]. It always returns an [`Execution`], also
//! when a step failed or a signal came, so that a record can always be written. It prints nothing
//! and reads no environment.

mod base;
mod built;
mod cache;
mod deliver;
mod error;
mod event;
mod layers;
mod probes;
mod workshop;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use image_ref::{Digest, ImageRef};
use oci::DerivedImage;
use oci::client::RegistryClient;
use plan::{Action, ImageEdit, Plan, Platform, Step};
use record::{ImageSummary, Note, OutputOutcome, StepOutcome, StepState, Traffic};
use sources::Tree;
use tokio::sync::OnceCell;

pub use base::{Base, fetch_base};
pub use cache::BlobCache;
pub use error::{ErrorKind, ExecuteError};
pub use event::Event;
pub use layers::{list_layer, list_remote_layer};
pub use probes::{Edited, Tools};
pub use workshop::{AnyEngine, Find, NoEngine, SourceTree, Store, Workshop};

use workshop::{Captured, Made, Packages, Sink, Wheels};

/// Where and with what a plan is carried out.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The client that talks to registries.
    pub client: RegistryClient,
    /// Where small blobs are kept between runs.
    pub cache: BlobCache,
    /// Where the image is put, in this order.
    pub outputs: Vec<Output>,
    /// What built tracks are carried out with, and what has the engine that images are put into.
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
    /// podman or docker, whichever the workshop finds.
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
    /// Something went wrong; the first thing that did.
    Failed(ExecuteError),
    /// The caller's interruption came first.
    Interrupted,
    /// The caller never began it.
    NotBegun,
}

impl Execution {
    /// Returns the execution of a plan of which no step was begun.
    pub fn not_begun(plan: &Plan, end: End) -> Self {
        let steps = with_those_not_begun(plan, Vec::new());
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

/// Adds the steps of a plan that have no outcome yet.
fn with_those_not_begun(plan: &Plan, mut steps: Vec<StepOutcome>) -> Vec<StepOutcome> {
    for step in &plan.steps {
        if !steps.iter().any(|outcome| outcome.step == step.id) {
            steps.push(StepOutcome {
                step: step.id.clone(),
                state: StepState::NotBegun,
                milliseconds: 0,
            });
        }
    }
    steps
}

/// Is told of everything that happens, from any thread.
pub type OnEvent = Arc<dyn Fn(Event) + Send + Sync>;

/// What is known so far; shared, because an interruption drops the work and keeps this.
///
/// A step or output stands in it as failed from its begin on, so that one that is dropped is not
/// taken for one that was not begun.
#[derive(Default)]
struct Progress {
    steps: Vec<StepOutcome>,
    image: Option<ImageSummary>,
    outputs: Vec<OutputOutcome>,
    notes: Vec<Note>,
}

/// Carries out a plan. `interrupt` ends it early when it completes.
pub async fn execute(
    plan: &Plan,
    settings: &Settings,
    interrupt: impl Future<Output = ()>,
    on_event: OnEvent,
) -> Execution {
    let progress = Mutex::new(Progress::default());
    let (keys, sink) = (plan.step_keys(), OnceCell::new());
    let run = Run { plan, keys, sink, settings, progress: &progress, on_event };
    let end = tokio::select! {
        done = run.all() => match done {
            Ok(()) => End::Succeeded,
            Err(error) => End::Failed(error),
        },
        () = interrupt => End::Interrupted,
    };
    if let Some(workshop) = &settings.workshop {
        workshop.close(matches!(end, End::Succeeded)).await;
    }
    let progress = progress.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Progress { steps, image, outputs, notes } = progress;
    let steps = with_those_not_begun(plan, steps);
    let counters = settings.client.counters();
    let traffic = Traffic {
        requests: counters.requests,
        bytes_received: counters.bytes_received,
        bytes_sent: counters.bytes_sent,
    };
    Execution { steps, image, outputs, notes, traffic, end }
}

/// One execution under way.
struct Run<'a> {
    plan: &'a Plan,
    keys: BTreeMap<&'a str, Digest>,
    sink: OnceCell<Sink>,
    settings: &'a Settings,
    progress: &'a Mutex<Progress>,
    on_event: OnEvent,
}

/// What a step gives to those that need it.
enum Product {
    Base(Box<Base>),
    Image(Box<(Base, DerivedImage)>),
    Source(Tree),
    Packages(Packages),
    Wheels(Wheels),
    Built(Captured),
    Made(Box<Made>),
}

impl Run<'_> {
    async fn all(&self) -> Result<(), ExecuteError> {
        (self.on_event)(Event::PlanBegun {
            name: self.plan.name.clone(),
            plan_digest: self.plan.digest(),
            steps: self.plan.steps.len(),
        });
        // What a target tag points to now is asked for while the base is fetched.
        let found = deliver::ask_for_targets(self.settings);
        let mut products = self.finished();
        let wanted = self.wanted(&products);
        for step in self.plan.steps.iter().filter(|step| wanted.contains(step.id.as_str())) {
            let product = self.step(step, &products).await?;
            products.insert(&step.id, product);
        }
        let last = self.plan.steps.last().and_then(|step| products.remove(step.id.as_str()));
        let (base, image) = match last {
            Some(Product::Image(made)) => *made,
            _ => {
                return Err(ExecuteError::plan("its last step labels no image".to_owned()));
            }
        };
        deliver::deliver(self, &base, &image, found).await
    }

    /// Carries out one step and notes what became of it.
    async fn step(
        &self,
        step: &Step,
        products: &BTreeMap<&str, Product>,
    ) -> Result<Product, ExecuteError> {
        let begun = Instant::now();
        let outcome =
            |state, milliseconds| StepOutcome { step: step.id.clone(), state, milliseconds };
        // This is how it stands if it never comes to its end.
        self.note_progress(|progress| progress.steps.push(outcome(StepState::Interrupted, 0)));
        (self.on_event)(Event::StepBegun { step: step.id.clone(), what: describe(&step.action) });
        let result = match &step.action {
            Action::FetchBase { image, kind, platform } => {
                fetch_base(&self.settings.client, &self.settings.cache, image, *kind, platform)
                    .await
                    .map(|base| {
                        let state =
                            if base.was_cached { StepState::Cached } else { StepState::Done };
                        (Product::Base(Box::new(base)), state)
                    })
            }
            Action::DeriveImage { base, edit, .. } => {
                let base = match products.get(base.as_str()) {
                    Some(Product::Base(base)) => Ok(Base::clone(base)),
                    Some(Product::Made(made)) => self.offered(made).await,
                    _ => Err(ExecuteError::plan(format!(
                        "step `{}` needs `{base}`, which makes no image",
                        step.id
                    ))),
                };
                base.and_then(|base| {
                    let image = self.derive(&base, edit)?;
                    Ok((Product::Image(Box::new((base, image))), StepState::Done))
                })
            }
            action => self.in_workshop(step, action, products).await,
        };
        let state = result.as_ref().map_or(StepState::Failed, |(_, state)| *state);
        let milliseconds = event::milliseconds(begun.elapsed());
        (self.on_event)(Event::StepEnded { step: step.id.clone(), state, milliseconds });
        self.note_progress(|progress| {
            progress.steps.pop();
            progress.steps.push(outcome(state, milliseconds));
        });
        result.map(|(product, _)| product)
    }

    fn derive(&self, base: &Base, edit: &ImageEdit) -> Result<DerivedImage, ExecuteError> {
        let image = derive_image(self.plan, base, edit)?;
        self.note_native_support(base, edit);
        self.note_progress(|progress| {
            progress.image = Some(ImageSummary {
                manifest_digest: image.manifest_digest.clone(),
                config_digest: image.config_digest.clone(),
                base_index: base.index.clone(),
                base_manifest: base.manifest_digest.clone(),
                layers: image.layers.len(),
                layer_bytes: base.manifest.layer_bytes(),
                reset: image.reset.clone(),
            });
        });
        Ok(image)
    }

    /// Says so where a base that is being spoofed has native code for the GPU.
    fn note_native_support(&self, base: &Base, edit: &ImageEdit) {
        let is_spoof = !edit.entrypoint_prefix.is_empty();
        if is_spoof && oci::native_gpus(&base.config).contains(&self.plan.gpu) {
            let message = format!(
                "the base was built for {gpu} (its PYTORCH_ROCM_ARCH names it), so the spoof is no longer needed; build with `--spoof off`, or start a container with `-e BUILD_PIPELINE_SPOOF=off`",
                gpu = self.plan.gpu
            );
            self.note("spoof-not-needed", message);
        }
    }

    fn note(&self, rule: &str, message: String) {
        (self.on_event)(Event::Note { rule: rule.to_owned(), message: message.clone() });
        self.note_progress(|progress| progress.notes.push(Note { rule: rule.to_owned(), message }));
    }

    fn note_progress(&self, change: impl FnOnce(&mut Progress)) {
        // A panic while the lock is held leaves whole entries only.
        change(&mut self.progress.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
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

/// Says what an action does, for people.
fn describe(action: &Action) -> String {
    match action {
        Action::FetchBase { image, .. } => format!("fetch manifest and config of {image}"),
        Action::DeriveImage { .. } => "write config and manifest".to_owned(),
        Action::FetchSource { pin, .. } => format!("fetch and patch {pin}"),
        Action::FetchPackages { lock, .. } => format!("fetch the packages of {lock}"),
        Action::FetchWheels { lock, .. } => format!("fetch the wheels of {lock}"),
        Action::BootstrapBase { .. } => "make the base of packages".to_owned(),
        Action::BuildImage { dockerfile, .. } => format!("build {dockerfile}"),
        Action::SealImage { .. } => "seal the layers".to_owned(),
    }
}
