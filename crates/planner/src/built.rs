//! Plans for tracks that an engine builds: a base, then one stage after another, each sealed.
//!
//! Steps are named after their results. If two tracks or variants share a step (a source, a base,
//! the packages of a lock, a stage), it has the same name and key in both, and runs only once.

use std::collections::{BTreeMap, BTreeSet};

use names::{Digest, ImageRef, PinName, TrackName};
use pins::{Base, Pinned, Stage, TrackFile, Variant};
use plan::{
    Action, BootstrapContract, Draft, ImageEdit, Input, Inputs, Platform, Seal, SealContract, Step,
    labels,
};

use crate::chain::Chain;
use crate::files;
use crate::metadata::{
    base_name, check_overrides, derived_labels, finished, text_labels, timestamp,
};
use crate::patches::Target;
use crate::{BuildRequest, PlanError, Planned, PlanningInput, Warning};

/// The contract of sealed layers.
const CONTRACT: SealContract = SealContract::Seal1;

/// The paths that sealing leaves out of every image: they differ between runs or engines (only some
/// engines create the folders that they mount over) and are not needed.
const SCRUB: [&str; 23] = [
    "dev",
    "etc/hostname",
    "etc/hosts",
    "etc/machine-id",
    "etc/resolv.conf",
    "proc",
    "root/.cache/*",
    "run",
    "sys",
    "tmp/*",
    "var/cache/apt/*.bin",
    "var/cache/apt/archives/*.deb",
    "var/cache/apt/archives/lock",
    "var/cache/dnf/*",
    "var/cache/ldconfig/aux-cache",
    "var/cache/libdnf5/*",
    "var/lib/apt/lists/*",
    "var/lib/dnf/history.sqlite*",
    "var/log/alternatives.log",
    "var/log/apt/*",
    "var/log/dnf*",
    "var/log/dpkg.log",
    "var/tmp/*",
];

/// The files that a plan is made from, in addition to the data files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// The components whose patches are needed: folders of `patches/`.
    pub components: BTreeSet<String>,
    /// Dockerfiles and locks, by their path from the root of the project.
    pub files: BTreeSet<String>,
    /// The Dockerfiles among these files.
    pub dockerfiles: BTreeSet<String>,
    /// The package locks among these files.
    pub package_locks: BTreeSet<String>,
    /// The tracks whose own files are needed.
    pub own_files: BTreeSet<TrackName>,
    /// The project's files that are needed in build contexts, by path.
    pub context_files: BTreeMap<String, TrackFile>,
}

/// Returns the files that the plan of a request is made from. No other file affects the plan.
///
/// # Errors
/// Fails if a track or variant does not exist, or cannot be rehearsed as requested.
pub fn needs(request: &BuildRequest, input: &PlanningInput) -> Result<Needs, PlanError> {
    let mut needs = Needs::default();
    let chain = Chain::find(request, input)?;
    if let Base::Packages(lock) = chain.base {
        needs.files.insert(package_lock_path(lock));
        needs.package_locks.insert(package_lock_path(lock));
    }
    let with_files = chain.parts.iter().filter(|part| part.has_files);
    needs.own_files.extend(with_files.map(|part| part.track.clone()));
    for stage in chain.variants().flat_map(|variant| &variant.stages) {
        needs.files.insert(stage.dockerfile.clone());
        needs.dockerfiles.insert(stage.dockerfile.clone());
        needs.files.extend(stage.python.as_deref().map(pins::python_lock_path));
        let files = stage.files.iter().map(|file| (file.from.clone(), file.clone()));
        needs.context_files.extend(files);
        for pin in stage.sources.values() {
            let source = input.pins.sources.get(pin).and_then(|pin| pin.patches.clone());
            let archive = input.pins.archives.get(pin).and_then(|pin| pin.patches.clone());
            needs.components.extend(source.or(archive));
        }
    }
    Ok(needs)
}

fn package_lock_path(lock: &str) -> String {
    format!("versions/locks/{lock}.toml")
}

/// Creates the plan of a track that an engine builds.
pub(crate) fn plan(
    request: &BuildRequest,
    input: &PlanningInput,
    chain: &Chain<'_>,
) -> Result<Planned, PlanError> {
    let track = || chain.name.to_string();
    if request.spoof != crate::SpoofChoice::Auto {
        return Err(PlanError::NotASpoofTrack { track: track() });
    }
    // Naming the default variant explicitly does not make a different image.
    let variant = request.variant.clone().filter(|_| !chain.is_usual);
    let request = &BuildRequest { variant, ..request.clone() };
    let gpu = request.gpu.as_ref().unwrap_or(&input.tracks.gpu);
    if !input.gpus.gpus.contains_key(gpu) {
        let known = input.gpus.gpus.keys().map(ToString::to_string).collect();
        return Err(PlanError::UnknownGpu { gpu: gpu.to_string(), known });
    }
    let epoch = request.source_date_epoch.unwrap_or(input.pins.source_date_epoch);
    let scrub = SCRUB.map(str::to_owned).to_vec();
    let draft = Draft {
        schema: plan::SCHEMA,
        track: track(),
        name: chain.image_name(request.gpu.as_ref()),
        gpu: gpu.clone(),
        rehearsal: chain.is_rehearsal,
        source_date_epoch: epoch,
        revision: request.revision.clone(),
        overrides: request.spelled_overrides(),
        inputs: Inputs::new(),
        steps: Vec::new(),
    };
    let mut builder = PlanBuilder {
        request,
        input,
        seal: Seal { contract: CONTRACT, scrub, epoch },
        created: timestamp(epoch)?,
        draft,
        names: BTreeSet::new(),
        labels: BTreeMap::new(),
        warnings: Vec::new(),
    };
    builder.stages(chain)?;
    finished(builder.draft, chain.name, builder.warnings)
}

/// A plan under construction.
struct PlanBuilder<'a> {
    request: &'a BuildRequest,
    input: &'a PlanningInput,
    seal: Seal,
    created: String,
    /// The inputs and steps so far.
    draft: Draft,
    /// The names of these steps.
    names: BTreeSet<String>,
    /// The labels that describe the content.
    labels: BTreeMap<String, String>,
    warnings: Vec<Warning>,
}

impl PlanBuilder<'_> {
    fn stages(&mut self, chain: &Chain<'_>) -> Result<(), PlanError> {
        let mut base = match chain.base {
            Base::Image(pin) => self.fetch_base(pin)?,
            Base::Packages(lock) => self.bootstrap(lock)?,
            Base::Track(_) => return Err(PlanError::NoSettings { track: chain.name.to_string() }),
        };
        let mut names = BTreeSet::new();
        for stage in chain.variants().flat_map(|variant| &variant.stages) {
            if !names.insert(&stage.name) {
                return Err(PlanError::SameStage {
                    track: chain.name.to_string(),
                    stage: stage.name.clone(),
                });
            }
        }
        for part in &chain.parts {
            for stage in part.variant.iter().flat_map(|variant| &variant.stages) {
                let Some(variant) = part.variant else { continue };
                let image = self.build(variant, stage, &base)?;
                base = self.seal(stage, image, base);
            }
            base = files::add(&mut self.draft, self.input, part, base)?;
        }
        base = crate::slim::add(&mut self.draft, base, chain, self.request, self.input, None)?;
        if chain.variants().any(|variant| variant.has_gpu_code) {
            let action = Action::AuditImage { image: base, gpu: self.draft.gpu.clone() };
            base = self.step("audit-image".to_owned(), action);
        }
        check_overrides(self.request, self.input, &self.draft.inputs)?;
        // These labels name the plan. Because they are a step of their own, changes that affect
        // only labels never trigger a rebuild.
        let edit = ImageEdit {
            created_by: crate::metadata::created_by(chain.name, self.draft.gpu.as_str()),
            env: chain.image.env.clone(),
            entrypoint: chain.image.entrypoint.clone(),
            cmd: chain.image.cmd.clone(),
            user: chain.image.user.clone(),
            working_dir: chain.image.workdir.clone(),
            labels: self.all_labels(chain),
            ..self.plain_edit()
        };
        let action = Action::DeriveImage { base, contract: crate::metadata::CONTRACT, edit };
        self.step("label-image".to_owned(), action);
        Ok(())
    }

    /// Adds a step, unless it exists. Returns its name.
    fn step(&mut self, id: String, action: Action) -> String {
        if self.names.insert(id.clone()) {
            self.draft.steps.push(Step { id: id.clone(), action });
        }
        id
    }

    /// Adds an input. Returns its name.
    fn add_input(&mut self, name: String, input: Input) -> String {
        self.draft.inputs.insert(name.clone(), input);
        name
    }

    fn fetch_base(&mut self, name: &PinName) -> Result<String, PlanError> {
        let track = self.request.track.to_string();
        let pin = self.input.pins.images.get(name);
        let pin = pin.ok_or_else(|| PlanError::NoSuchBase { track, pin: name.to_string() })?;
        let pin = crate::metadata::with_override(pin, self.request, name);
        let image = crate::metadata::base_reference(&pin, name, self.request, self.input)?;
        if let Some(why) = &pin.discontinued {
            self.warnings.push(Warning::new("base-discontinued", format!("pin `{name}`: {why}")));
        }
        self.labels.extend(base_labels(&image));
        let manifest = pin.kind;
        let input = self.add_input(name.to_string(), Input::Image { reference: image, manifest });
        let action = Action::FetchBase { input, platform: Platform::linux_amd64() };
        Ok(self.step("fetch-base".to_owned(), action))
    }

    fn bootstrap(&mut self, lock: &str) -> Result<String, PlanError> {
        let base = "base".to_owned();
        let packages = self.fetch_packages("fetch-base-packages", lock, [&base])?;
        let mut seal = self.seal.clone();
        // A package contains the folder `run`, so only the content that the engine adds to it is
        // left out.
        for path in seal.scrub.iter_mut().filter(|path| *path == "run") {
            "run/*".clone_into(path);
        }
        let action = Action::BootstrapBase {
            contract: BootstrapContract::Bootstrap1,
            packages,
            set: base,
            created: self.created.clone(),
            seal,
        };
        Ok(self.step("bootstrap-base".to_owned(), action))
    }

    /// Adds the step that fetches sets of a lock.
    fn fetch_packages<'a>(
        &mut self,
        step: &str,
        lock: &str,
        sets: impl IntoIterator<Item = &'a String>,
    ) -> Result<String, PlanError> {
        let path = package_lock_path(lock);
        let digest = self.file(&path)?;
        let digest_of = |set: &String| {
            let found = self.input.sets.get(&path).and_then(|known| known.get(set));
            let of_set = found.cloned().ok_or_else(|| PlanError::NoSuchSet {
                track: self.request.track.to_string(),
                lock: path.clone(),
                set: set.clone(),
            })?;
            Ok((set.clone(), of_set))
        };
        let sets = sets.into_iter().map(digest_of).collect::<Result<_, PlanError>>()?;
        let input = self.add_input(path, Input::Lock { digest });
        Ok(self.step(step.to_owned(), Action::FetchPackages { input, sets }))
    }

    fn fetch_wheels(&mut self, name: &str) -> Result<String, PlanError> {
        let lock = pins::python_lock_path(name);
        let digest = self.file(&lock).map_err(|_| PlanError::NoLock {
            track: self.request.track.to_string(),
            lock: name.to_owned(),
            has_rehearsal: Chain::has_rehearsal(self.request, self.input),
        })?;
        let input = self.add_input(lock, Input::Lock { digest });
        Ok(self.step(format!("fetch-wheels-{name}"), Action::FetchWheels { input }))
    }

    /// Returns the digest of a project file.
    fn file(&self, path: &str) -> Result<Digest, PlanError> {
        self.input.files.get(path).cloned().ok_or_else(|| PlanError::NoSuchFile {
            track: self.request.track.to_string(),
            path: path.to_owned(),
        })
    }

    fn build(&mut self, variant: &Variant, stage: &Stage, base: &str) -> Result<String, PlanError> {
        let mut context = BTreeMap::new();
        let mut args = BTreeMap::from([
            ("SOURCE_DATE_EPOCH".to_owned(), self.seal.epoch.to_string()),
            ("GPU_TARGET".to_owned(), self.draft.gpu.to_string()),
        ]);
        for (folder, pin) in &stage.sources {
            let (step, version) = self.fetch_source(pin)?;
            context.insert(folder.clone(), step);
            args.extend(version.map(|version| (variable(folder), version)));
            let source = self.input.pins.sources.get(pin).map(|pin| &pin.args);
            let archive = self.input.pins.archives.get(pin).map(|pin| &pin.args);
            args.extend(source.or(archive).cloned().unwrap_or_default());
        }
        args.extend(stage.args.clone());
        if let Base::Packages(lock) = &variant.base
            && !stage.packages.is_empty()
        {
            let base_set = "base".to_owned();
            let sets = variant.stages.iter().flat_map(|one| &one.packages).chain([&base_set]);
            let step = self.fetch_packages("fetch-packages", lock, sets)?;
            context.insert("packages".to_owned(), step);
        }
        if let Some(lock) = &stage.python {
            let mut wheels = self.fetch_wheels(lock)?;
            if variant.has_gpu_code {
                let action = Action::AuditWheels { wheels, gpu: self.draft.gpu.clone() };
                wheels = self.step(format!("audit-wheels-{lock}"), action);
            }
            context.insert("python".to_owned(), wheels);
        }
        let file = Input::File { digest: self.file(&stage.dockerfile)? };
        let dockerfile = self.add_input(stage.dockerfile.clone(), file);
        let files = files::in_context(&mut self.draft, self.input, stage)?;
        let (base, network) = (base.to_owned(), stage.network);
        let action = Action::BuildImage { base, dockerfile, args, context, files, network };
        Ok(self.step(format!("build-{}", stage.name), action))
    }

    /// Adds the step that fetches a source. Returns its name and the version in the pin.
    fn fetch_source(&mut self, name: &PinName) -> Result<(String, Option<String>), PlanError> {
        let track = self.request.track.to_string();
        let pins = &self.input.pins;
        let unresolved = |from: String| PlanError::UnresolvedSource { pin: name.to_string(), from };
        let (source, component) = match (pins.sources.get(name), pins.archives.get(name)) {
            (Some(pin), _) => {
                let Pinned::Resolved(commit) = &pin.commit else {
                    return Err(unresolved(pin.url.clone()));
                };
                let (url, commit, version) = (pin.url.clone(), commit.clone(), pin.version.clone());
                (Input::Source { url, commit, version }, &pin.patches)
            }
            (None, Some(pin)) => {
                let Pinned::Resolved(sha256) = &pin.sha256 else {
                    return Err(unresolved(pin.project.clone()));
                };
                let archive = Input::Archive {
                    project: pin.project.clone(),
                    version: pin.version.clone(),
                    sha256: sha256.clone(),
                    subdirectory: pin.subdirectory.clone(),
                };
                (archive, &pin.patches)
            }
            (None, None) => {
                return Err(PlanError::NoSuchSource { track, pin: name.to_string() });
            }
        };
        self.labels.extend(source_labels(name, &source));
        let version = source.version().map(str::to_owned);
        let patches = match component {
            None => Vec::new(),
            Some(component) => {
                let set = self.input.patches.get(component).ok_or_else(|| {
                    PlanError::NoPatches { pin: name.to_string(), component: component.clone() }
                })?;
                Target { pin: name, gpu: &self.draft.gpu, version: version.as_deref() }
                    .choose(set)?
            }
        };
        let input = self.add_input(name.to_string(), source);
        let step = self.step(format!("fetch-{name}"), Action::FetchSource { input, patches });
        Ok((step, version))
    }

    fn seal(&mut self, stage: &Stage, image: String, base: String) -> String {
        let id = image.replacen("build-", "seal-", 1);
        let created_by = format!("build-pipeline {CONTRACT}: {}", stage.dockerfile);
        let edit = ImageEdit { created_by, ..self.plain_edit() };
        self.step(id, Action::SealImage { image, base, seal: self.seal.clone(), edit })
    }

    /// Returns an edit that sets the time and drops labels that would be wrong.
    fn plain_edit(&self) -> ImageEdit {
        ImageEdit {
            created: self.created.clone(),
            reset: labels::RESET.map(str::to_owned).to_vec(),
            ..ImageEdit::default()
        }
    }

    /// Returns the labels of the finished image.
    fn all_labels(&self, chain: &Chain<'_>) -> BTreeMap<String, String> {
        let mut all = chain.image.labels.clone();
        all.extend(derived_labels(&self.draft));
        all.extend(self.labels.clone());
        all.extend(chain.variant.map(|name| (labels::VARIANT.to_owned(), name.to_owned())));
        all.extend(text_labels(&[
            (labels::CREATED, &self.created),
            (labels::BUILD_DATE, &self.created),
            (labels::ARCHITECTURE, "x86_64"),
            (labels::TITLE, &chain.track.title),
            (labels::DESCRIPTION, &chain.track.description),
            (labels::CONTRACT, &CONTRACT.to_string()),
            (labels::SCRUBBED, &self.seal.scrub.join(" ")),
        ]));
        all
    }
}

/// Returns the build argument for the version of the source in a folder of the context.
fn variable(folder: &str) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("{}_VERSION", folder.chars().map(word).collect::<String>())
}

fn base_labels(image: &ImageRef) -> BTreeMap<String, String> {
    let digest = image.digest.as_ref().map(ToString::to_string).unwrap_or_default();
    text_labels(&[(labels::BASE_NAME, &base_name(image)), (labels::BASE_DIGEST, &digest)])
}

/// Returns the labels that name the sources in the image.
fn source_labels(name: &PinName, source: &Input) -> BTreeMap<String, String> {
    let mut facts: Vec<(&str, String)> = match source {
        Input::Source { url, commit, .. } => {
            vec![("source", url.clone()), ("revision", commit.to_string())]
        }
        Input::Archive { project, version, sha256, .. } => {
            vec![("source", format!("{project} {version}")), ("sha256", sha256.to_string())]
        }
        Input::Image { .. } | Input::Lock { .. } | Input::File { .. } => Vec::new(),
    };
    facts.extend(source.version().map(|version| ("version", version.to_owned())));
    let label = |(fact, value)| (format!("{}{name}.{fact}", labels::PIN_PREFIX), value);
    facts.into_iter().map(label).collect()
}
