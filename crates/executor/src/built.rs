//! The steps of tracks that an engine builds: decides which steps must run and whether they need an
//! engine, and passes them to the build environment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::RUN_LABEL;
use names::{Digest, GfxVersion, GpuTarget};
use plan::{Action, Input, OwnFiles, Plan, Seal, SlimContract, Step};
use record::{SlimSummary, StepState};
use seal::EntryPath;
use sources::Tree;
use tokio::task::block_in_place;

use crate::build_env::{
    BuildEnv, Builder, Instructions, Origin, Packages, RawBuild, SlimStep, SourceStep, Store,
    StoredImage,
};
use crate::place::Transfer;
use crate::run::{Product, Products, Run};
use crate::shared::{Finished, Turn, Wanted};
use crate::{BaseImage, Event, ExecuteError, OnEvent, Output, Settings};

/// The product of a step, and the step's state.
type Outcome = Result<(Product, StepState), ExecuteError>;

/// Returns whether a run of a plan needs an engine: to load an image into it, or to build a step
/// that is not cached and that bake does not build.
pub fn needs_engine(plan: &Plan, settings: &Settings) -> bool {
    let is_loaded = settings.outputs.iter().any(|one| matches!(one, Output::Engine { .. }));
    let is_build = |step: &&Step| {
        matches!(step.action, Action::BuildImage { .. } | Action::BootstrapBase { .. })
    };
    let has_bake = settings.build_env.as_ref().is_some_and(|build_env| build_env.bake.is_some());
    is_loaded
        || (!has_bake
            && plan.steps.iter().any(|step| is_build(&step))
            && wanted(plan, &finished(plan, &keys(plan), settings), settings).iter().any(is_build))
}

/// Returns the first step that a run of a plan builds with access to the network.
pub fn step_with_network<'a>(plan: &'a Plan, settings: &Settings) -> Option<&'a Step> {
    let finished = finished(plan, &keys(plan), settings);
    let has_network =
        |step: &&Step| matches!(step.action, Action::BuildImage { network: true, .. });
    wanted(plan, &finished, settings).into_iter().find(has_network)
}

/// Returns the key of each step, by the step's name.
pub(crate) fn keys(plan: &Plan) -> BTreeMap<String, Digest> {
    plan.step_keys().into_iter().map(|(step, key)| (step.to_owned(), key)).collect()
}

/// Returns whether a step makes an image that is kept for other runs.
pub(crate) fn has_image(action: &Action) -> bool {
    matches!(
        action,
        Action::SealImage { .. }
            | Action::SlimImage { .. }
            | Action::AuditImage { .. }
            | Action::BootstrapBase { .. }
    )
}

/// Returns the digest of the image that a finished step with this key made.
pub fn result_of(key: &Digest, settings: &Settings) -> Option<Digest> {
    let made = settings.build_env.as_ref()?.finished(key)?;
    Some(Digest::of(&made.manifest_bytes))
}

/// Returns the images of the steps that an earlier run finished.
fn finished(plan: &Plan, keys: &BTreeMap<String, Digest>, settings: &Settings) -> Products {
    let Some(build_env) = &settings.build_env else { return Products::new() };
    let made = plan.steps.iter().filter_map(|step| {
        let key = keys.get(&step.id).filter(|_| has_image(&step.action))?;
        Some((step.id.clone(), Product::Stored(Arc::new(build_env.finished(key)?))))
    });
    made.collect()
}

/// Returns the steps that must run, in order: the last step and the steps that it depends on,
/// except finished steps and those that only finished steps depend on.
fn wanted<'a>(plan: &'a Plan, finished: &Products, settings: &Settings) -> Vec<&'a Step> {
    let steps: BTreeMap<&str, &Step> = plan.steps.iter().map(|step| (&*step.id, step)).collect();
    let last = match &settings.last_step {
        Some(last) => steps.get(last.as_str()).copied(),
        None => plan.steps.last(),
    };
    let mut wanted = BTreeSet::new();
    let mut open: Vec<&str> = last.map(|step| &*step.id).into_iter().collect();
    while let Some(id) = open.pop() {
        if finished.contains_key(id) || !wanted.insert(id) {
            continue;
        }
        open.extend(steps.get(id).into_iter().flat_map(|step| step.action.needs()));
    }
    plan.steps.iter().filter(|step| wanted.contains(&*step.id)).collect()
}

impl Run {
    /// Returns the images of the steps that an earlier run finished.
    pub(crate) fn finished(&self) -> Products {
        finished(&self.plan, &self.keys, &self.settings)
    }

    /// Returns the steps that must run, in order. Records the others as finished.
    pub(crate) fn wanted(&self, finished: &Products) -> Vec<&Step> {
        let steps = wanted(&self.plan, finished, &self.settings);
        let open: BTreeSet<&str> = steps.iter().map(|step| &*step.id).collect();
        for step in wanted(&self.plan, &Products::new(), &self.settings) {
            if !open.contains(&*step.id) {
                let origin = finished.get(&step.id).and_then(origin_of);
                self.end_step(&step.id, StepState::Cached, 0, origin);
            }
        }
        steps
    }

    /// Runs a step in the build environment.
    pub(crate) async fn run_build_step(
        &self,
        step: &Step,
        action: &Action,
        products: &Products,
    ) -> Outcome {
        let Some(build_env) = &self.settings.build_env else {
            return Err(ExecuteError::plan(format!("step `{}` needs an engine", step.id)));
        };
        let missing = |need: &str| cannot_use(step, need);
        let product = match action {
            Action::FetchSource { .. }
            | Action::FetchPackages { .. }
            | Action::FetchWheels { .. }
            | Action::AuditWheels { .. } => {
                self.run_fetch(build_env, step, action, products).await?
            }
            Action::BootstrapBase { packages, set, created, seal, contract: _ } => {
                let Some(Product::Packages(found)) = products.get(packages.as_str()) else {
                    return Err(missing(packages));
                };
                match self.bootstrap(build_env, step, found, set, seal, created).await? {
                    Some(made) => {
                        let made = self.finish(build_env, step, made).await?;
                        self.remove_baked(build_env, &step.id)?;
                        Product::Stored(Arc::new(made))
                    }
                    None => return Ok((Product::Waiting, StepState::NotBegun)),
                }
            }
            Action::BuildImage { base, dockerfile, args, context, files, network } => {
                let base = base_of(products.get(base.as_str())).ok_or_else(|| missing(base))?;
                let epoch = self.plan.source_date_epoch;
                let (tree, _folders) = self.context(build_env, context, files, products).await?;
                let text = build_env.materials.file(dockerfile, self.digest_of(step)?)?;
                let instructions = Instructions {
                    step: &step.id,
                    name: self.name_of(&step.id)?,
                    path: dockerfile,
                    dockerfile: text,
                    base: Some(&base),
                    args,
                    network: *network,
                    epoch,
                    is_fresh: self.builds_again(build_env, step),
                };
                match self.build(build_env, &instructions, tree).await? {
                    Some(raw) => Product::Built(Arc::new(raw)),
                    None => return Ok((Product::Waiting, StepState::NotBegun)),
                }
            }
            Action::SealImage { image, base, seal, edit } => {
                let built = match products.get(image.as_str()) {
                    Some(Product::Built(built)) => built,
                    // Another run has built and sealed it.
                    Some(Product::Stored(made)) => {
                        return Ok((Product::Stored(Arc::clone(made)), StepState::Cached));
                    }
                    _ => return Err(missing(image)),
                };
                let base = base_of(products.get(base.as_str())).ok_or_else(|| missing(base))?;
                let Settings { client, cache, .. } = &self.settings;
                let sealed = build_env.seal_image(built, &base, seal, edit, client, cache);
                let (made, sealed) = sealed.await?;
                let report = &sealed.report;
                self.note_broken_links(&step.id, &report.broken_links);
                (self.on_event)(Event::LayerSealed {
                    step: step.id.clone(),
                    entries: sealed.layer.as_ref().map_or(0, |layer| layer.listing.entries.len()),
                    unchanged: report.unchanged,
                    scrubbed: report.scrubbed.values().map(Vec::len).sum(),
                    stale_bytecode: report.bytecode.stale.len(),
                });
                let made = self.finish(build_env, step, made).await?;
                self.remove_baked(build_env, image)?;
                Product::Stored(Arc::new(made))
            }
            Action::SlimImage { image, contract: SlimContract::Slim1, gpus, if_present } => {
                let image = base_of(products.get(image.as_str())).ok_or_else(|| missing(image))?;
                let made = self.slim(build_env, step, &image, gpus, if_present).await?;
                self.publish(build_env, step, &made).await?;
                Product::Stored(Arc::new(made))
            }
            Action::AuditImage { image, gpu } => {
                let image = base_of(products.get(image.as_str())).ok_or_else(|| missing(image))?;
                let report = build_env
                    .audit(&image, gpu, &self.settings.client, &self.settings.cache)
                    .await?;
                self.note("gpu-code", report);
                Product::Stored(Arc::new(self.finish(build_env, step, image).await?))
            }
            Action::AddFiles { base, .. } => self
                .with_files(build_env, step, products.get(base.as_str()))?
                .ok_or_else(|| missing(base))?,
            Action::FetchBase { .. } | Action::DeriveImage { .. } => {
                return Err(ExecuteError::plan(format!(
                    "step `{}` does not need an engine",
                    step.id
                )));
            }
        };
        Ok((product, StepState::Done))
    }

    /// Fetches a source, packages or wheels, or checks fetched wheels.
    async fn run_fetch(
        &self,
        build_env: &BuildEnv,
        step: &Step,
        action: &Action,
        products: &Products,
    ) -> Result<Product, ExecuteError> {
        Ok(match action {
            Action::FetchSource { input, patches } => {
                let source = SourceStep {
                    name: input,
                    input: self.input_of(step)?,
                    patches,
                    gpu: &self.plan.gpu,
                };
                Product::Source(build_env.fetch_source(&source).await?)
            }
            Action::FetchPackages { input, sets } => {
                let digest = self.digest_of(step)?;
                Product::Packages(Arc::new(build_env.fetch_packages(input, digest, sets).await?))
            }
            Action::FetchWheels { input } => {
                let digest = self.digest_of(step)?;
                Product::Wheels(Arc::new(build_env.fetch_wheels(input, digest).await?))
            }
            Action::AuditWheels { wheels, gpu } => {
                let Some(Product::Wheels(found)) = products.get(wheels.as_str()) else {
                    return Err(cannot_use(step, wheels));
                };
                let report = block_in_place(|| build_env.audit_wheels(found, gpu))?;
                self.note("gpu-code-of-wheels", report);
                Product::Wheels(Arc::clone(found))
            }
            _ => return Err(ExecuteError::plan(format!("step `{}` fetches nothing", step.id))),
        })
    }

    /// Adds the project's own files to an image. Returns `None` if the product is not an image.
    fn with_files(
        &self,
        build_env: &BuildEnv,
        step: &Step,
        base: Option<&Product>,
    ) -> Result<Option<Product>, ExecuteError> {
        let maker = build_env.files_maker();
        Ok(match base {
            Some(Product::Base(base)) => {
                let made = block_in_place(|| maker.on_base(&self.plan, step, base))?;
                Some(Product::Base(Arc::new(made)))
            }
            Some(Product::Stored(base)) => {
                let made = block_in_place(|| maker.on_stored(&self.plan, step, base))?;
                Some(Product::Stored(Arc::new(made)))
            }
            _ => None,
        })
    }

    /// Makes a base image from packages. Returns `None` if bake must build it first.
    async fn bootstrap(
        &self,
        build_env: &BuildEnv,
        step: &Step,
        packages: &Packages,
        set: &str,
        seal: &Seal,
        created: &str,
    ) -> Result<Option<StoredImage>, ExecuteError> {
        let (tree, _folder) = build_env.bootstrap_context(packages, set, seal.epoch)?;
        let mut text = debian::DOCKERFILE.to_owned();
        if build_env.bake.is_none() {
            // Each intermediate image that the engine keeps needs the label of this run.
            let run = build_env.run.as_str();
            let label = format!("FROM scratch\nLABEL {RUN_LABEL}={run}\n");
            text = text.replacen("FROM scratch\n", &label, 1);
        }
        let instructions = Instructions {
            step: &step.id,
            name: self.name_of(&step.id)?,
            path: "Dockerfile",
            dockerfile: &text,
            base: None,
            args: &BTreeMap::new(),
            network: false,
            epoch: seal.epoch,
            is_fresh: self.builds_again(build_env, step),
        };
        let raw = self.build(build_env, &instructions, tree).await?;
        raw.map(|raw| build_env.base_image(&raw, packages, seal, created)).transpose()
    }

    /// Removes code for other GPUs from an image.
    async fn slim(
        &self,
        build_env: &BuildEnv,
        step: &Step,
        image: &StoredImage,
        gpus: &[GpuTarget],
        if_present: &[GpuTarget],
    ) -> Result<StoredImage, ExecuteError> {
        let remote = image.remote.as_ref().map(ToString::to_string);
        let name = remote.unwrap_or_else(|| self.plan.name.clone());
        let step = SlimStep {
            step: &step.id,
            key: self.key_of(&step.id)?,
            image,
            name: &name,
            gpus,
            if_present,
            forced: self.forced(image),
            nearby: &self.settings.nearby,
            client: &self.settings.client,
            copies: &self.copies,
            on_event: &self.on_event,
        };
        build_env.slim(&step).await
    }

    /// Builds a context. Returns `None` if bake must build it first.
    async fn build(
        &self,
        build_env: &BuildEnv,
        instructions: &Instructions<'_>,
        context: Tree,
    ) -> Result<Option<RawBuild>, ExecuteError> {
        let sink = self.sink().await?;
        let builder = match &build_env.bake {
            Some(bake) => Builder::Bake(bake),
            None => Builder::Engine(self.engine(&format!("step `{}`", instructions.step))?),
        };
        let (client, cache) = (&self.settings.client, &self.settings.cache);
        let base = instructions.base.map(|base| base.manifest.layer_bytes()).unwrap_or_default();
        let transfer = base_transfer(instructions.step, base, &self.on_event);
        let transfer = Some(&transfer);
        let origin = Origin { store: &build_env.store, client, cache, transfer };
        build_env.build_image(builder, instructions, context, sink, origin, &self.on_event).await
    }

    /// Warns about hard links that depend on the engine's storage driver.
    fn note_broken_links(&self, step: &str, paths: &[EntryPath]) {
        let Some(first) = paths.first() else { return };
        let more = match paths.len() - 1 {
            0 => String::new(),
            count => format!(" (and {count} more)"),
        };
        let message = format!(
            "step `{step}`: a RUN changed `/{first}`{more}, which has hard links from an earlier RUN; some engines change the other names too, so the image depends on the engine: create the hard links and change the file in the same RUN"
        );
        self.note("hard-links-broken", message);
    }

    /// Checks that every engine makes the same images from the Dockerfiles of steps.
    pub(crate) fn check_dockerfiles(&self, steps: &[&Step]) -> Result<(), ExecuteError> {
        for step in steps {
            if let (Action::BuildImage { dockerfile, .. }, Some(build_env)) =
                (&step.action, &self.settings.build_env)
            {
                build_env.materials.check_dockerfile(dockerfile, self.digest_of(step)?)?;
            }
        }
        Ok(())
    }

    /// Returns the name of a step's images in the in-process registry. Plans that run at the same
    /// time may have different steps with the same name.
    fn name_of(&self, step: &str) -> Result<String, ExecuteError> {
        Ok(format!("{step}-{}", &self.key_of(step)?.hex()[..12]))
    }

    /// Returns the input that a step reads. Every valid plan has it.
    pub(crate) fn input_of(&self, step: &Step) -> Result<&Input, ExecuteError> {
        let input = self.plan.input_of(step);
        input.ok_or_else(|| ExecuteError::plan(format!("step `{}` has no input", step.id)))
    }

    /// Returns the digest of the lock or file that a step reads.
    fn digest_of(&self, step: &Step) -> Result<&Digest, ExecuteError> {
        match self.input_of(step)? {
            Input::Lock { digest } | Input::File { digest } => Ok(digest),
            _ => Err(ExecuteError::plan(format!("step `{}` does not read a file", step.id))),
        }
    }

    /// Returns the GPU version that an image makes ROCm assume, unless the last step sets a
    /// different one.
    fn forced(&self, image: &StoredImage) -> Option<GfxVersion> {
        let edit = self.plan.image_edit();
        let is_set_later = edit.env.contains_key(pins::OVERRIDE);
        oci::variable(&image.config, pins::OVERRIDE).filter(|_| !is_set_later)?.parse().ok()
    }

    /// Returns what was removed from the image, if the plan slims it.
    pub(crate) fn slimmed(&self) -> Option<SlimSummary> {
        let build_env = self.settings.build_env.as_ref()?;
        build_env.store.slimmed(self.key_of(&self.plan.slim_step()?.id).ok()?)
    }

    fn key_of(&self, step: &str) -> Result<&Digest, ExecuteError> {
        let key = self.keys.get(step);
        key.ok_or_else(|| ExecuteError::plan(format!("step `{step}` has no key")))
    }

    /// Keeps the image of a step that was carried out here, and pushes it to the shared stores.
    async fn finish(
        &self,
        build_env: &BuildEnv,
        step: &Step,
        made: StoredImage,
    ) -> Result<StoredImage, ExecuteError> {
        let made = StoredImage { origin: None, ..made };
        build_env.store.finish(self.key_of(&step.id)?, &made)?;
        self.publish(build_env, step, &made).await?;
        Ok(made)
    }

    /// Removes what bake has built for a step, because its result has been stored.
    fn remove_baked(&self, build_env: &BuildEnv, step: &str) -> Result<(), ExecuteError> {
        if let Some(bake) = &build_env.bake {
            bake.remove(&self.name_of(step)?);
        }
        Ok(())
    }

    /// Pushes the steps that earlier runs finished here to the shared stores that lack them.
    pub(crate) async fn publish_finished(&self, finished: &Products) -> Result<(), ExecuteError> {
        let Some(build_env) = &self.settings.build_env else { return Ok(()) };
        for step in &self.plan.steps {
            match finished.get(&step.id) {
                Some(Product::Stored(made)) if made.origin.is_none() => {
                    self.publish(build_env, step, made).await?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn publish(
        &self,
        build_env: &BuildEnv,
        step: &Step,
        made: &StoredImage,
    ) -> Result<(), ExecuteError> {
        let key = self.key_of(&step.id)?;
        let wanted = Wanted { step: &step.id, key, remote: self.remotes.get(&step.id) };
        let content = self.plan.key_text(step, |need| self.keys.get(need));
        let finished = Finished { wanted, made, content: &content };
        let note = |rule: &str, message| self.note(rule, message);
        build_env.shared.publish(finished, &build_env.store, &note).await?;
        let claim = self.claims().remove(key);
        if let Some(claim) = claim {
            claim.release().await;
        }
        Ok(())
    }

    /// Claims the image that a step is about to make. Returns the image if another run has made it
    /// in the meantime.
    pub(crate) async fn claim(&self, step: &Step) -> Option<StoredImage> {
        let build_env = self.settings.build_env.as_ref()?;
        let result = self.result_step(step)?;
        let key = self.keys.get(&result.id).filter(|key| !build_env.runs_again(key))?;
        let wanted = Wanted { step: &result.id, key, remote: self.remotes.get(&result.id) };
        let note = |rule: &str, message| self.note(rule, message);
        match build_env.shared.claim(wanted, &build_env.store, &note).await {
            Turn::Finished(made) => Some(*made),
            Turn::Build(claim) => {
                self.claims().extend(claim.map(|claim| (key.clone(), claim)));
                None
            }
        }
    }

    /// Returns the step whose image is kept for other runs: for a build, the step that seals it.
    /// `None` if the given step makes no image that can be claimed.
    fn result_step<'a>(&'a self, step: &'a Step) -> Option<&'a Step> {
        let is_seal = |one: &&Step| matches!(&one.action, Action::SealImage { image, .. } if *image == step.id);
        match &step.action {
            Action::BuildImage { .. } => self.plan.steps.iter().find(is_seal),
            Action::BootstrapBase { .. } | Action::SlimImage { .. } => Some(step),
            _ => None,
        }
    }

    /// Returns whether a build must not use the engine's caches.
    fn builds_again(&self, build_env: &BuildEnv, step: &Step) -> bool {
        let key = self.result_step(step).and_then(|step| self.keys.get(&step.id));
        key.map_or(build_env.is_fresh, |key| build_env.runs_again(key))
    }

    /// Merges the trees of steps and the project's own files into one build context.
    async fn context(
        &self,
        build_env: &BuildEnv,
        folders: &BTreeMap<String, String>,
        files: &OwnFiles,
        products: &Products,
    ) -> Result<(Tree, Vec<tempfile::TempDir>), ExecuteError> {
        let mut whole = Tree::new();
        let mut kept = Vec::new();
        if !files.is_empty() {
            let work = build_env.folder("files-")?;
            let maker = build_env.files_maker();
            block_in_place(|| maker.lay_out(&self.plan, files, work.path()))?;
            whole = Tree::from_folder(work.path()).map_err(ExecuteError::source)?;
            kept.push(work);
        }
        for (folder, step) in folders {
            let tree = match products.get(step.as_str()) {
                Some(Product::Source(tree)) => tree.clone(),
                Some(Product::Packages(packages)) => {
                    let epoch = self.plan.source_date_epoch;
                    let (tree, work) = build_env.context_of(packages, epoch)?;
                    kept.push(work);
                    tree
                }
                Some(Product::Wheels(wheels)) => {
                    let (tree, work) = block_in_place(|| build_env.context_of_wheels(wheels))?;
                    kept.push(work);
                    tree
                }
                _ => return Err(ExecuteError::plan(format!("`{step}` does not make a tree"))),
            };
            whole.mount(folder, tree).map_err(ExecuteError::source)?;
        }
        Ok((whole, kept))
    }

    /// Returns the image of a step as a base for the last step. Its layers are in the store, except
    /// those that the registry of its own base has.
    pub(crate) async fn as_base(&self, made: &StoredImage) -> Result<BaseImage, ExecuteError> {
        let Some(build_env) = &self.settings.build_env else {
            return Err(ExecuteError::plan("an image was made without an engine".to_owned()));
        };
        let (client, cache) = (&self.settings.client, &self.settings.cache);
        let origin = Origin { store: &build_env.store, client, cache, transfer: None };
        let image = match &made.remote {
            Some(remote) => remote.clone(),
            None => self.sink().await?.offer(&self.plan.name, made, origin)?,
        };
        Ok(BaseImage {
            image,
            index: None,
            manifest_digest: Digest::of(&made.manifest_bytes),
            manifest: made.manifest.clone(),
            config: made.config.clone(),
            own_layers: Vec::new(),
            was_cached: true,
        })
    }
}

/// Returns the last image that a plan builds or slims, and the index of its step, if an earlier run
/// made it on this machine.
pub fn made_image(plan: &Plan, store: &Store) -> Option<(usize, BaseImage)> {
    let makes =
        |step: &Step| matches!(step.action, Action::SealImage { .. } | Action::SlimImage { .. });
    let at = plan.steps.iter().rposition(makes)?;
    let key = plan.step_keys().remove(&*plan.steps[at].id)?;
    let made = store.finished(&key).filter(|made| made.origin.is_none())?;
    let image = made.remote.clone().or_else(|| "localhost/finished-step".parse().ok())?;
    let image = BaseImage {
        image,
        index: None,
        manifest_digest: Digest::of(&made.manifest_bytes),
        manifest: made.manifest,
        config: made.config,
        own_layers: Vec::new(),
        was_cached: true,
    };
    Some((at, image))
}

/// Counts the layers of a base that an engine requests for a step. Announces them when the first
/// bytes arrive, because the engine may have all of them.
fn base_transfer(step: &str, layer_bytes: u64, on_event: &OnEvent) -> Transfer {
    let (name, on_event) = (step.to_owned(), Arc::clone(on_event));
    let is_first = AtomicBool::new(true);
    let tell = move |event| {
        if is_first.swap(false, Ordering::Relaxed) {
            on_event(Event::LayersWanted { step: name.clone(), layer_bytes });
        }
        on_event(event);
    };
    Transfer::new(step.to_owned(), Arc::new(tell))
}

/// Returns the shared store that a product came from.
pub(crate) fn origin_of(product: &Product) -> Option<String> {
    match product {
        Product::Stored(made) => made.origin.clone(),
        _ => None,
    }
}

/// Returns the product of a step as a base for another step.
fn base_of(product: Option<&Product>) -> Option<StoredImage> {
    match product? {
        Product::Stored(made) => Some(StoredImage::clone(made)),
        Product::Base(base) => Some(StoredImage::of_base(base)),
        _ => None,
    }
}

fn cannot_use(step: &Step, need: &str) -> ExecuteError {
    ExecuteError::plan(format!("step `{}` cannot use the result of `{need}`", step.id))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::tests::support::layer;

    #[test]
    fn the_layers_of_a_base_are_announced_with_their_first_bytes() {
        let told = Arc::<Mutex<Vec<String>>>::default();
        let kept = Arc::clone(&told);
        let on_event: OnEvent = Arc::new(move |event| {
            kept.lock().unwrap().push(match event {
                Event::LayersWanted { step, layer_bytes } => format!("{step} wants {layer_bytes}"),
                Event::LayerProgress { done, .. } => format!("has {done}"),
                other => panic!("{other:?}"),
            });
        });
        let transfer = base_transfer("build", 7, &on_event);
        assert!(told.lock().unwrap().is_empty());
        transfer.has(&layer("a", 3));
        transfer.has(&layer("b", 4));
        assert_eq!(*told.lock().unwrap(), ["build wants 7", "has 3", "has 4"]);
    }
}
