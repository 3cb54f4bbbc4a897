//! A running plan: decides when each step runs, and passes the products of steps to the steps that
//! need them.
//!
//! A step starts as soon as its dependencies are finished. If a step fails, running steps are
//! completed, and only steps that seal their images still start, so that the next run can use them.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::Engine;
use names::{Digest, GpuTarget, ImageRef};
use oci::DerivedImage;
use plan::{Action, ImageEdit, Input, Plan, Platform, Step};
use record::{ImageSummary, Note, OutputOutcome, StepOutcome, StepState, Traffic};
use sources::Tree;
use tokio::sync::{OnceCell, Semaphore};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use crate::build_env::{Packages, RawBuild, Sink, StoredImage, Wheels};
use crate::built::{keys, origin_of};
use crate::shared::{Claim, remotes};
use crate::{
    BaseImage, End, Event, ExecuteError, Execution, Job, OnEvent, Settings, deliver, derive_image,
    event, fetch_base, in_order, targets,
};

/// How many images are built at the same time. With two, one can compile on all cores while the
/// other installs packages on a single core. More would only compete for memory: a build decides at
/// its start, from the free memory, how many compilers it runs.
const IMAGES_AT_ONCE: usize = 2;

/// How long a run waits at its end for stores that do not answer.
const RELEASE: Duration = Duration::from_secs(5);

/// State that the plans of a run share.
pub(crate) struct Shared {
    /// The products of steps, by key.
    cells: Mutex<BTreeMap<Digest, StepCell>>,
    images: Semaphore,
    sink: OnceCell<Sink>,
    /// The engine, if a plan needs one.
    pub(crate) engine: Option<Engine>,
}

/// The product of a step that several plans may need. The plan that runs the step holds the lock.
/// The cell stays empty if that plan is interrupted.
type StepCell = Arc<tokio::sync::Mutex<Option<Outcome>>>;

/// The product of a step, or the reason for its failure.
type Outcome = Result<Product, Arc<ExecuteError>>;

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(engine: Option<Engine>) -> Self {
        let images = Semaphore::new(IMAGES_AT_ONCE);
        Self { cells: Mutex::default(), images, sink: OnceCell::new(), engine }
    }
}

/// A running plan.
pub(crate) struct Run {
    pub(crate) plan: Arc<Plan>,
    pub(crate) keys: BTreeMap<String, Digest>,
    /// The image whose repository has the layers of a step's base, by the step's name.
    pub(crate) remotes: BTreeMap<String, ImageRef>,
    pub(crate) settings: Settings,
    pub(crate) on_event: OnEvent,
    /// The tasks that copy layers into files.
    pub(crate) copies: TaskTracker,
    shared: Arc<Shared>,
    /// The claims of the steps that this plan is carrying out, by key.
    claims: Mutex<BTreeMap<Digest, Claim>>,
    progress: Mutex<Progress>,
}

/// The results that are known so far. If the run is interrupted, the unfinished work is dropped,
/// but these results are kept.
///
/// A step or output is recorded as interrupted from its start, so that a dropped one is not
/// reported as never started.
#[derive(Default)]
pub(crate) struct Progress {
    pub(crate) steps: Vec<StepOutcome>,
    pub(crate) outputs: Vec<OutputOutcome>,
    image: Option<ImageSummary>,
    notes: Vec<Note>,
    /// The first failure. Other steps may still be running.
    failure: Option<Arc<ExecuteError>>,
}

/// The product that a step passes to the steps that need it.
#[derive(Clone)]
pub(crate) enum Product {
    Base(Arc<BaseImage>),
    Image(Arc<(BaseImage, DerivedImage)>),
    Source(Tree),
    Packages(Arc<Packages>),
    Wheels(Arc<Wheels>),
    Built(Arc<RawBuild>),
    Stored(Arc<StoredImage>),
    /// Bake must build an image first.
    Waiting,
}

/// The products that a step needs, by the names of the steps that made them.
pub(crate) type Products = BTreeMap<String, Product>;

impl Run {
    pub(crate) fn new(job: Job, shared: Arc<Shared>) -> Self {
        let Job { plan, mut settings, on_event } = job;
        // Every step reads layers from the outputs of earlier runs, if they are there.
        settings.client = settings.client.beside(settings.nearby.clone());
        let (keys, remotes) = (keys(&plan), remotes(&plan));
        let copies = TaskTracker::new();
        let (claims, progress) = (Mutex::default(), Mutex::default());
        Self { plan, keys, remotes, settings, on_event, copies, shared, claims, progress }
    }

    /// Runs the plan until it ends or `interrupt` completes.
    pub(crate) async fn end(self: &Arc<Self>, interrupt: impl Future<Output = ()>) -> End {
        let mut running = JoinSet::new();
        let end = tokio::select! {
            done = self.all(&mut running) => match done {
                Ok(()) => End::Succeeded,
                Err(error) => End::Failed(error),
            },
            () = interrupt => match self.progress().failure.take() {
                Some(error) => End::Failed(error),
                None => End::Interrupted,
            },
        };
        // Waits until the aborted steps have ended, so that nothing continues in the engine, the
        // store or an output.
        running.shutdown().await;
        self.copies.close();
        self.copies.wait().await;
        // A read that is interrupted says nothing about a file.
        if !matches!(end, End::Interrupted) {
            self.note_damaged_files();
        }
        self.release_claims().await;
        end
    }

    /// Adds a note for each damaged file of the cache and the outputs. Their content was fetched or
    /// made again.
    fn note_damaged_files(&self) {
        let Settings { client, cache, build_env, .. } = &self.settings;
        let mut files = cache.damaged.take();
        files.extend(client.damaged_files());
        files.extend(build_env.iter().flat_map(|build_env| build_env.store.damaged.take()));
        for file in files {
            let message = format!(
                "`{}` was damaged, and was not used; if you did not change the file, check the disk",
                file.display()
            );
            self.note("damaged-file", message);
        }
    }

    /// Tells other runs not to wait for steps that failed or were interrupted.
    async fn release_claims(&self) {
        let claims = std::mem::take(&mut *self.claims());
        let release = async {
            for claim in claims.into_values() {
                claim.release().await;
            }
        };
        // If this times out, other runs notice a little later that the claims have lapsed.
        drop(tokio::time::timeout(RELEASE, release).await);
    }

    pub(crate) fn claims(&self) -> MutexGuard<'_, BTreeMap<Digest, Claim>> {
        lock(&self.claims)
    }

    /// Returns what is currently known about the plan.
    pub(crate) fn execution(&self, end: End) -> Execution {
        let Progress { steps, image, outputs, notes, .. } = std::mem::take(&mut *self.progress());
        let counters = self.settings.client.counters();
        let traffic = Traffic {
            requests: counters.requests,
            bytes_received: counters.bytes_received,
            bytes_sent: counters.bytes_sent,
        };
        Execution { steps: in_order(&self.plan, &steps), image, outputs, notes, traffic, end }
    }

    async fn all(
        self: &Arc<Self>,
        running: &mut JoinSet<FinishedStep>,
    ) -> Result<(), Arc<ExecuteError>> {
        (self.on_event)(Event::PlanBegun {
            plan_digest: self.plan.digest(),
            steps: self.plan.steps.len(),
        });
        let makes_image = self.settings.last_step.is_none();
        if makes_image {
            targets::check_outputs(self).map_err(Arc::new)?;
        }
        // Asks the registries which digest each output's tag has while the base is fetched.
        let mut found = deliver::ask_for_targets(&self.settings);
        let mut products = self.finished();
        self.publish_finished(&products).await.map_err(Arc::new)?;
        let mut open = self.wanted(&products);
        self.check_dockerfiles(&open)?;
        let is_long = self.plan.makes_layers();
        loop {
            let has_failed = self.progress().failure.is_some();
            let is_ready = |step: &mut &Step| {
                let is_wanted = !has_failed || matches!(step.action, Action::SealImage { .. });
                is_wanted && step.action.needs().iter().all(|need| products.contains_key(*need))
            };
            for step in open.extract_if(.., is_ready) {
                let needed = step.action.needs();
                let needs = products.iter().filter(|(id, _)| needed.contains(&id.as_str()));
                let needs = needs.map(|(id, product)| (id.clone(), product.clone())).collect();
                running.spawn(Arc::clone(self).step(step.clone(), needs));
            }
            let ended = tokio::select! {
                biased;
                ended = running.join_next() => ended,
                // Not in plans without steps that make layers: there, the fetch of the base may
                // fail at the same time, and either error could be reported.
                error = targets::refused(self, &mut found), if makes_image && is_long => {
                    return Err(Arc::new(error));
                }
            };
            match ended {
                None => break,
                Some(Ok((step, Ok(product)))) => drop(products.insert(step, product)),
                // Already recorded.
                Some(Ok((_, Err(_)))) => {}
                Some(Err(error)) => {
                    let bug = ExecuteError::plan(format!("a step stopped unexpectedly: {error}"));
                    self.progress().failure.get_or_insert(Arc::new(bug));
                }
            }
        }
        if let Some(failure) = self.progress().failure.take() {
            return Err(failure);
        }
        if !makes_image {
            self.remove_kept_layers(&products);
            return Ok(());
        }
        let last = self.plan.steps.last().and_then(|step| products.get(&step.id));
        let Some(Product::Image(made)) = last else {
            let bug = ExecuteError::plan("the plan's last step does not label an image".to_owned());
            return Err(Arc::new(bug));
        };
        deliver::deliver(self, &made.0, &made.1, found).await.map_err(Arc::new)?;
        self.remove_kept_layers(&products);
        // An interrupted run may have kept layers of a base that this run did not need to fetch.
        self.settings.cache.remove_parts(&made.1.layers);
        Ok(())
    }

    /// Removes the layers of bases that were kept for this plan.
    fn remove_kept_layers(&self, products: &Products) {
        for product in products.values() {
            if let Product::Base(base) = product {
                self.settings.cache.remove_parts(&base.manifest.layers);
            }
        }
    }

    /// Runs a step, or returns the result if another plan has already run it.
    async fn step(self: Arc<Self>, step: Step, needs: Products) -> FinishedStep {
        let key = self.keys.get(&step.id).cloned().filter(|_| is_shared(&step.action));
        let Some(key) = key else {
            let result = self.carry_out(&step, &needs).await;
            return (step.id, result);
        };
        let cell = Arc::clone(lock(&self.shared.cells).entry(key).or_default());
        let mut cell = cell.lock().await;
        let result = match &*cell {
            Some(Ok(product)) => {
                self.end_step(&step.id, StepState::Cached, 0, origin_of(product));
                Ok(product.clone())
            }
            Some(Err(error)) => {
                self.progress().failure.get_or_insert(Arc::clone(error));
                self.end_step(&step.id, StepState::Failed, 0, None);
                Err(Arc::clone(error))
            }
            None => {
                let result = self.carry_out(&step, &needs).await;
                *cell = Some(result.clone());
                result
            }
        };
        (step.id, result)
    }

    /// Runs one step and records its result.
    async fn carry_out(&self, step: &Step, needs: &Products) -> Outcome {
        if needs.values().any(|product| matches!(product, Product::Waiting)) {
            return Ok(Product::Waiting);
        }
        // Claims the step before taking a turn, because the run's other steps may need the turn
        // while this step waits.
        if let Some(made) = self.claim(step).await {
            self.end_step(&step.id, StepState::Cached, 0, made.origin.clone());
            return Ok(Product::Stored(Arc::new(made)));
        }
        let _turn = if makes_image(&step.action) {
            // The semaphore is never closed.
            self.shared.images.acquire().await.ok()
        } else {
            None
        };
        let begun = Instant::now();
        // This state remains if the step is never completed.
        self.note_step(&step.id, StepState::Interrupted, 0, None);
        (self.on_event)(Event::StepBegun {
            step: step.id.clone(),
            what: describe(&self.plan, step),
        });
        let result = match &step.action {
            Action::FetchBase { platform, .. } => self.fetch_base(step, platform).await,
            Action::DeriveImage { base, edit, .. } => {
                let base = match needs.get(base.as_str()) {
                    Some(Product::Base(base)) => Ok(BaseImage::clone(base)),
                    Some(Product::Stored(made)) => self.as_base(made).await,
                    _ => Err(ExecuteError::plan(format!(
                        "step `{}` needs `{base}`, which does not make an image",
                        step.id
                    ))),
                };
                base.and_then(|base| {
                    let image = self.derive(&base, edit)?;
                    Ok((Product::Image(Arc::new((base, image))), StepState::Done))
                })
            }
            action => self.run_build_step(step, action, needs).await,
        };
        let result = result.map_err(Arc::new);
        if let Err(error) = &result {
            self.progress().failure.get_or_insert(Arc::clone(error));
        }
        let state = result.as_ref().map_or(StepState::Failed, |(_, state)| *state);
        let origin = result.as_ref().ok().and_then(|(product, _)| origin_of(product));
        self.end_step(&step.id, state, event::milliseconds(begun.elapsed()), origin);
        result.map(|(product, _)| product)
    }

    async fn fetch_base(
        &self,
        step: &Step,
        platform: &Platform,
    ) -> Result<(Product, StepState), ExecuteError> {
        let Input::Image { reference, manifest } = self.input_of(step)? else {
            return Err(ExecuteError::plan(format!("step `{}` does not read an image", step.id)));
        };
        let (client, cache) = (&self.settings.client, &self.settings.cache);
        let base = fetch_base(client, cache, reference, *manifest, platform).await?;
        let state = if base.was_cached { StepState::Cached } else { StepState::Done };
        Ok((Product::Base(Arc::new(base)), state))
    }

    /// Records and reports the result of a step. `store` is the shared store that it came from.
    pub(crate) fn end_step(
        &self,
        step: &str,
        state: StepState,
        milliseconds: u64,
        store: Option<String>,
    ) {
        self.note_step(step, state, milliseconds, store.clone());
        let step = step.to_owned();
        (self.on_event)(Event::StepEnded { step, state, milliseconds, store });
    }

    fn note_step(&self, step: &str, state: StepState, milliseconds: u64, store: Option<String>) {
        let mut progress = self.progress();
        progress.steps.retain(|outcome| outcome.step != step);
        progress.steps.push(StepOutcome { step: step.to_owned(), state, milliseconds, store });
    }

    /// Returns the engine. `wants` describes what needs it, for the error message.
    pub(crate) fn engine(&self, wants: &str) -> Result<&Engine, ExecuteError> {
        self.shared.engine.as_ref().ok_or_else(|| ExecuteError::no_engine(wants))
    }

    /// Returns the registry that engines push to and pull from.
    pub(crate) async fn sink(&self) -> Result<&Sink, ExecuteError> {
        let Some(build_env) = &self.settings.build_env else {
            return Err(ExecuteError::plan("an image was made without an engine".to_owned()));
        };
        self.shared.sink.get_or_try_init(|| Sink::start(&build_env.store)).await
    }

    fn derive(&self, base: &BaseImage, edit: &ImageEdit) -> Result<DerivedImage, ExecuteError> {
        let image = derive_image(&self.plan, base, edit)?;
        self.note_native_support(base, edit);
        self.progress().image = Some(ImageSummary {
            manifest_digest: image.manifest_digest.clone(),
            config_digest: image.config_digest.clone(),
            base_index: base.index.clone(),
            base_manifest: base.manifest_digest.clone(),
            layers: image.layers.len(),
            layer_bytes: base.manifest.layer_bytes()
                - base.own_layers.iter().map(|layer| layer.size).sum::<u64>(),
            reset: image.reset.clone(),
            slim: self.slimmed(),
        });
        Ok(image)
    }

    /// Adds a note if a spoofed base already has native code for the GPU.
    fn note_native_support(&self, base: &BaseImage, edit: &ImageEdit) {
        let is_spoof = !edit.entrypoint_prefix.is_empty();
        if is_spoof && oci::native_gpus(&base.config).contains(&self.plan.gpu.to_string()) {
            let message = format!(
                "the base was built for {gpu} (its PYTORCH_ROCM_ARCH contains it), so the spoof is no longer needed; build with `--spoof off`, or start a container with `-e BUILD_PIPELINE_SPOOF=off`",
                gpu = self.plan.gpu
            );
            self.note("spoof-not-needed", message);
        }
    }

    pub(crate) fn note(&self, rule: &str, message: String) {
        (self.on_event)(Event::Note { rule: rule.to_owned(), message: message.clone() });
        self.progress().notes.push(Note { rule: rule.to_owned(), message });
    }

    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        lock(&self.progress)
    }
}

/// The name of a step, and its result.
type FinishedStep = (String, Outcome);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while the lock is held leaves only complete entries.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether the key of a step alone determines its product. Labels also depend on the plan.
fn is_shared(action: &Action) -> bool {
    !matches!(action, Action::DeriveImage { .. })
}

/// Returns whether a step makes an image. Such a step uses all available processors and memory.
fn makes_image(action: &Action) -> bool {
    match action {
        Action::BootstrapBase { .. }
        | Action::BuildImage { .. }
        | Action::SealImage { .. }
        | Action::SlimImage { .. }
        | Action::AuditImage { .. } => true,
        Action::FetchBase { .. }
        | Action::DeriveImage { .. }
        | Action::FetchSource { .. }
        | Action::FetchPackages { .. }
        | Action::FetchWheels { .. }
        | Action::AuditWheels { .. }
        | Action::AddFiles { .. } => false,
    }
}

/// Describes a step for users.
fn describe(plan: &Plan, step: &Step) -> String {
    match &step.action {
        Action::FetchBase { input, .. } => {
            let image = plan.input_of(step).map_or_else(|| input.clone(), ToString::to_string);
            format!("fetch manifest and config of {image}")
        }
        Action::DeriveImage { .. } => "write config and manifest".to_owned(),
        Action::FetchSource { input, .. } => format!("fetch and patch {input}"),
        Action::FetchPackages { input, .. } => format!("fetch the packages of {input}"),
        Action::FetchWheels { input } => format!("fetch the wheels of {input}"),
        Action::BootstrapBase { .. } => "make the base image from packages".to_owned(),
        Action::BuildImage { dockerfile, .. } => format!("build {dockerfile}"),
        Action::SealImage { .. } => "seal the layers".to_owned(),
        Action::SlimImage { gpus, if_present, .. } => {
            let kept: Vec<&str> = gpus.iter().chain(if_present).map(GpuTarget::as_str).collect();
            format!("remove code for GPUs other than {}", kept.join(", "))
        }
        Action::AddFiles { .. } => "add the project's own files".to_owned(),
        Action::AuditImage { gpu, .. } => format!("check that there is code for {gpu}"),
        Action::AuditWheels { gpu, .. } => format!("check that the wheels are for {gpu}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::support::{built_plan, settings};

    #[test]
    fn each_step_is_described_and_only_labels_are_made_for_each_plan() {
        let plan = built_plan(false);
        let base =
            format!("fetch manifest and config of registry.invalid/base@{}", Digest::of(b"base"));
        let wanted = [
            (base.as_str(), true, false),
            ("build Dockerfile", true, true),
            ("seal the layers", true, true),
            ("write config and manifest", false, false),
        ];
        let found = plan.steps.iter().map(|step| {
            (describe(&plan, step), is_shared(&step.action), makes_image(&step.action))
        });
        let found: Vec<_> = found.collect();
        let found: Vec<_> = found.iter().map(|(text, a, b)| (text.as_str(), *a, *b)).collect();
        assert_eq!(found, wanted);
        let [gpu, other] = ["gfx1151", "gfx1100"].map(|gpu| gpu.parse::<GpuTarget>().unwrap());
        let slim = Action::SlimImage {
            image: "seal".to_owned(),
            contract: plan::SlimContract::Slim1,
            gpus: vec![gpu.clone()],
            if_present: vec![other],
        };
        let audit = Action::AuditImage { image: "seal".to_owned(), gpu: gpu.clone() };
        let wheels = Action::AuditWheels { wheels: "wheels".to_owned(), gpu };
        for (action, text, is_image) in [
            (slim, "remove code for GPUs other than gfx1151, gfx1100", true),
            (audit, "check that there is code for gfx1151", true),
            (wheels, "check that the wheels are for gfx1151", false),
        ] {
            let step = Step { id: "one".to_owned(), action };
            assert_eq!(describe(&plan, &step), text);
            assert_eq!((makes_image(&step.action), is_shared(&step.action)), (is_image, true));
        }
    }

    #[test]
    fn each_step_has_its_last_state_in_the_order_of_the_plan() {
        let events = Arc::<Mutex<Vec<Event>>>::default();
        let kept = Arc::clone(&events);
        let on_event: OnEvent = Arc::new(move |event| lock(&kept).push(event));
        let job = Job { plan: Arc::new(built_plan(false)), settings: settings(None), on_event };
        let run = Run::new(job, Arc::new(Shared::new(None)));
        run.note_step("seal", StepState::Interrupted, 0, None);
        run.note_step("build", StepState::Interrupted, 0, None);
        run.end_step("build", StepState::Done, 5, Some("dir:/steps".to_owned()));
        run.note("rule", "message".to_owned());
        let error = run.engine("step `build`").err().unwrap();
        assert_eq!(error.to_string(), "step `build` needs an engine, but this run has none");
        let execution = run.execution(End::Succeeded);
        let states: Vec<_> = execution.steps.iter().map(|step| (&*step.step, step.state)).collect();
        assert_eq!(
            states,
            [
                ("fetch-base", StepState::NotBegun),
                ("build", StepState::Done),
                ("seal", StepState::Interrupted),
                ("label", StepState::NotBegun),
            ]
        );
        let build = &execution.steps[1];
        assert_eq!((build.milliseconds, build.store.as_deref()), (5, Some("dir:/steps")));
        assert_eq!(
            execution.notes,
            [Note { rule: "rule".to_owned(), message: "message".to_owned() }]
        );
        let events = lock(&events);
        assert!(matches!(&events[..], [Event::StepEnded { .. }, Event::Note { .. }]), "{events:?}");
    }
}
