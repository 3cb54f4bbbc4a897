//! Tracks that an engine builds: a base, then stage after stage, each sealed.
//!
//! The steps are named by what they make, so that two tracks or variants that share one (a source, a
//! base, the packages of a lock, a stage) have it under the same name and key, and it is done once.

use std::collections::BTreeMap;

use names::PinName;
use names::{Digest, ImageRef};
use pins::{BuiltSettings, Pinned, Stage, Variant, VariantBase};
use plan::{Action, ImageEdit, PatchUse, Plan, Platform, Seal, Source, Step, labels};

use crate::metadata::{
    base_name, canonical_json, overridden_labels, recipe_labels, text_labels, timestamp,
};
use crate::{BuildRequest, PlanError, Planned, PlanningInput, Warning};

/// The contract of sealed layers; the bytes are the crate `seal`'s to keep.
const CONTRACT: &str = "seal/1";

/// What sealing leaves out of every image: it differs from run to run or from engine to engine (some
/// make the folders that they mount over, some do not), and nobody needs it.
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

/// Makes the plan of a track that an engine builds.
pub(crate) fn plan(request: &BuildRequest, input: &PlanningInput) -> Result<Planned, PlanError> {
    let track = request.track.name();
    let settings = input.tracks.built.get(&request.track).ok_or(PlanError::NoSettings { track })?;
    if request.spoof != crate::SpoofChoice::Auto {
        return Err(PlanError::NotASpoofTrack { track });
    }
    let (asked, of_rehearsal) = (request.variant.as_ref(), settings.rehearsal.as_ref());
    let rehearsal = request.rehearse || (asked.is_some() && asked == of_rehearsal);
    let usual = match rehearsal {
        true => of_rehearsal.ok_or(PlanError::NoRehearsal { track })?,
        false => &settings.variant,
    };
    let name = asked.unwrap_or(usual);
    let variant = settings.variants.get(name).ok_or_else(|| PlanError::UnknownVariant {
        track,
        variant: name.clone(),
        known: settings.variants.keys().cloned().collect(),
    })?;
    if rehearsal && name != usual {
        let (variant, rehearsed) = (name.clone(), usual.clone());
        return Err(PlanError::RehearsedOtherwise { track, variant, rehearsed });
    }
    // Asked for by its name, what is built anyway is no other image.
    let other = asked.filter(|name| *name != usual).cloned();
    let request = &BuildRequest { variant: other, ..request.clone() };
    let gpu = request.gpu.as_ref().unwrap_or(&input.tracks.gpu);
    if !input.gpus.gpus.contains_key(gpu) {
        let known = input.gpus.gpus.keys().map(ToString::to_string).collect();
        return Err(PlanError::UnknownGpu { gpu: gpu.to_string(), known });
    }
    let epoch = request.source_date_epoch.unwrap_or(input.pins.source_date_epoch);
    let scrub = SCRUB.map(str::to_owned).to_vec();
    let mut making = Making {
        request,
        input,
        gpu: gpu.as_str(),
        rehearsal,
        seal: Seal { contract: CONTRACT.to_owned(), scrub, epoch },
        created: timestamp(epoch)?,
        steps: Vec::new(),
        pins: BTreeMap::new(),
        patches: Vec::new(),
        labels: BTreeMap::new(),
        warnings: Vec::new(),
    };
    making.variant(settings, (name, variant))?;
    making.check_overrides()?;
    let Making { steps, pins, warnings, .. } = making;
    let plan = Plan {
        schema: plan::SCHEMA,
        track: track.to_owned(),
        name: match name == usual {
            true if rehearsal => format!("rehearsal-{track}"),
            true => track.to_owned(),
            false => format!("{track}-{name}"),
        },
        gpu: gpu.to_string(),
        rehearsal,
        source_date_epoch: epoch,
        recipe: input.recipe.clone(),
        overrides: request.spelled_overrides(),
        pins,
        steps,
    };
    Ok(Planned { plan, warnings })
}

/// A plan that is being made.
struct Making<'a> {
    request: &'a BuildRequest,
    input: &'a PlanningInput,
    gpu: &'a str,
    rehearsal: bool,
    seal: Seal,
    created: String,
    steps: Vec<Step>,
    /// The values of the pins that were used.
    pins: BTreeMap<String, String>,
    patches: Vec<PatchUse>,
    /// Labels about what is inside.
    labels: BTreeMap<String, String>,
    warnings: Vec<Warning>,
}

impl Making<'_> {
    fn variant(
        &mut self,
        settings: &BuiltSettings,
        (name, variant): (&str, &Variant),
    ) -> Result<(), PlanError> {
        let mut base = match &variant.base {
            VariantBase::Image(pin) => self.fetch_base(pin)?,
            VariantBase::Packages(lock) => self.bootstrap(lock, variant)?,
        };
        for stage in &variant.stages {
            let image = self.build(variant, stage, &base)?;
            base = self.seal(stage, (image, base));
        }
        // Labels name the commit and the plan. As a step of their own, what changes nothing but
        // them builds nothing again.
        let edit = ImageEdit {
            created_by: crate::metadata::created_by(self.request.track, self.gpu),
            env: settings.env.clone(),
            labels: self.all_labels(settings, name),
            ..self.plain_edit()
        };
        let contract = crate::metadata::CONTRACT.to_owned();
        let needs = vec![base.clone()];
        let action = Action::DeriveImage { base, contract, edit };
        self.step("label-image".to_owned(), needs, action);
        Ok(())
    }

    /// Adds a step, unless it is there. Returns its name.
    fn step(&mut self, id: String, needs: Vec<String>, action: Action) -> String {
        if !self.steps.iter().any(|step| step.id == id) {
            self.steps.push(Step { id: id.clone(), needs, action });
        }
        id
    }

    fn fetch_base(&mut self, name: &PinName) -> Result<String, PlanError> {
        let track = self.request.track.name();
        let pin = self.input.pins.images.get(name);
        let pin = pin.ok_or_else(|| PlanError::NoSuchBase { track, pin: name.to_string() })?;
        let pin = crate::metadata::with_override(pin, self.request, name);
        let image = crate::metadata::base_reference(&pin, name)?;
        if let Some(why) = &pin.discontinued {
            self.warnings.push(Warning::new("base-discontinued", format!("pin `{name}`: {why}")));
        }
        self.pins.insert(name.to_string(), image.to_string());
        self.labels.extend(base_labels(&image));
        let kind = pin.kind.map(crate::metadata::manifest_kind);
        let action = Action::FetchBase { image, kind, platform: Platform::linux_amd64() };
        Ok(self.step("fetch-base".to_owned(), Vec::new(), action))
    }

    fn bootstrap(&mut self, lock: &str, variant: &Variant) -> Result<String, PlanError> {
        let packages = self.fetch_packages(lock, variant)?;
        let mut seal = self.seal.clone();
        // No engine has its hands in it, and not every engine makes this folder for a RUN.
        for path in seal.scrub.iter_mut().filter(|path| *path == "run") {
            "run/*".clone_into(path);
        }
        let action = Action::BootstrapBase {
            packages: packages.clone(),
            set: "base".to_owned(),
            created: self.created.clone(),
            seal,
        };
        Ok(self.step("bootstrap-base".to_owned(), vec![packages], action))
    }

    fn fetch_packages(&mut self, lock: &str, variant: &Variant) -> Result<String, PlanError> {
        let path = format!("versions/locks/{lock}.toml");
        let digest = self.file(&path)?;
        self.pins.insert(lock.to_owned(), format!("{path}@{digest}"));
        let mut sets = vec!["base".to_owned()];
        sets.extend(variant.stages.iter().flat_map(|stage| stage.packages.iter().cloned()));
        sets.sort();
        sets.dedup();
        let action = Action::FetchPackages { lock: path, digest, sets };
        Ok(self.step("fetch-packages".to_owned(), Vec::new(), action))
    }

    fn fetch_wheels(&mut self, name: &str) -> Result<String, PlanError> {
        let lock = pins::python_lock_path(name);
        let digest = self.file(&lock).map_err(|_| PlanError::NoLock {
            track: self.request.track.name(),
            lock: name.to_owned(),
        })?;
        self.pins.insert(name.to_owned(), format!("{lock}@{digest}"));
        let action = Action::FetchWheels { lock, digest };
        Ok(self.step(format!("fetch-wheels-{name}"), Vec::new(), action))
    }

    /// Returns the digest of a file of the project.
    fn file(&self, path: &str) -> Result<Digest, PlanError> {
        self.input.files.get(path).cloned().ok_or_else(|| PlanError::NoSuchFile {
            track: self.request.track.name(),
            path: path.to_owned(),
        })
    }

    fn build(&mut self, variant: &Variant, stage: &Stage, base: &str) -> Result<String, PlanError> {
        let mut context = BTreeMap::new();
        let mut args = BTreeMap::from([
            ("SOURCE_DATE_EPOCH".to_owned(), self.seal.epoch.to_string()),
            ("GPU_TARGET".to_owned(), self.gpu.to_owned()),
        ]);
        args.extend(stage.args.clone());
        for (folder, pin) in &stage.sources {
            let (step, version) = self.fetch_source(pin)?;
            context.insert(folder.clone(), step);
            args.extend(version.map(|version| (variable(folder), version)));
        }
        if let VariantBase::Packages(lock) = &variant.base
            && !stage.packages.is_empty()
        {
            context.insert("packages".to_owned(), self.fetch_packages(lock, variant)?);
        }
        if let Some(lock) = &stage.python {
            context.insert("python".to_owned(), self.fetch_wheels(lock)?);
        }
        let mut needs = vec![base.to_owned()];
        needs.extend(context.values().cloned());
        let action = Action::BuildImage {
            base: base.to_owned(),
            digest: self.file(&stage.dockerfile)?,
            dockerfile: stage.dockerfile.clone(),
            args,
            context,
            network: stage.network,
        };
        Ok(self.step(format!("build-{}", stage.name), needs, action))
    }

    /// Adds the step that fetches a source. Returns its name and the version that the pin states.
    fn fetch_source(&mut self, name: &PinName) -> Result<(String, Option<String>), PlanError> {
        let track = self.request.track.name();
        let pins = &self.input.pins;
        let unresolved = |from: String| PlanError::UnresolvedSource { pin: name.to_string(), from };
        let (source, component, version) = match (pins.sources.get(name), pins.archives.get(name)) {
            (Some(pin), _) => {
                let Pinned::Resolved(commit) = &pin.commit else {
                    return Err(unresolved(pin.url.clone()));
                };
                let (url, commit) = (pin.url.clone(), commit.to_string());
                self.pins.insert(name.to_string(), format!("{url}@{commit}"));
                self.labels.extend(pin_labels(name, &[("source", &url), ("revision", &commit)]));
                (Source::Git { url, commit }, &pin.patches, pin.version.clone())
            }
            (None, Some(pin)) => {
                let Pinned::Resolved(sha256) = &pin.sha256 else {
                    return Err(unresolved(pin.project.clone()));
                };
                let (project, version) = (pin.project.clone(), pin.version.clone());
                let sha256 = sha256.to_string();
                self.pins.insert(name.to_string(), format!("{project}=={version}#sha256={sha256}"));
                self.labels.extend(pin_labels(
                    name,
                    &[("source", &format!("{project} {version}")), ("sha256", &sha256)],
                ));
                let subdirectory = pin.subdirectory.clone();
                let archive = Source::Archive { project, version, sha256, subdirectory };
                (archive, &pin.patches, Some(pin.version.clone()))
            }
            (None, None) => {
                return Err(PlanError::NoSuchBase { track, pin: name.to_string() });
            }
        };
        if let Some(version) = &version {
            self.labels.extend(pin_labels(name, &[("version", version)]));
        }
        let patches = component.as_ref().and_then(|component| self.input.patches.get(component));
        let patches = patches.cloned().unwrap_or_default();
        for patch in &patches {
            if !self.patches.contains(patch) {
                self.patches.push(patch.clone());
            }
        }
        let (pin, id) = (name.to_string(), format!("fetch-{name}"));
        let action = Action::FetchSource { pin, source, version: version.clone(), patches };
        Ok((self.step(id, Vec::new(), action), version))
    }

    fn seal(&mut self, stage: &Stage, (image, base): (String, String)) -> String {
        let needs = vec![image.clone(), base.clone()];
        let id = image.replacen("build-", "seal-", 1);
        let created_by = format!("build-pipeline {CONTRACT}: {}", stage.dockerfile);
        let edit = ImageEdit { created_by, ..self.plain_edit() };
        let action = Action::SealImage { image, base, seal: self.seal.clone(), edit };
        self.step(id, needs, action)
    }

    /// Returns an edit that says when, and takes away what would lie.
    fn plain_edit(&self) -> ImageEdit {
        ImageEdit {
            created: self.created.clone(),
            created_by: String::new(),
            env: BTreeMap::new(),
            entrypoint_prefix: Vec::new(),
            reset: labels::RESET.map(str::to_owned).to_vec(),
            labels: BTreeMap::new(),
        }
    }

    /// Returns the labels of the finished image.
    fn all_labels(&self, settings: &BuiltSettings, variant: &str) -> BTreeMap<String, String> {
        let mut all = recipe_labels(self.input.recipe.as_ref());
        all.extend(self.labels.clone());
        all.extend(text_labels(&[
            (labels::CREATED, &self.created),
            (labels::BUILD_DATE, &self.created),
            (labels::ARCHITECTURE, "x86_64"),
            (labels::TITLE, &settings.title),
            (labels::DESCRIPTION, &settings.description),
            (labels::TRACK, self.request.track.name()),
            (labels::VARIANT, variant),
            (labels::GPU, self.gpu),
            (labels::PINS_DIGEST, Digest::of(canonical_json(&self.pins).as_bytes()).as_str()),
            (labels::CONTRACT, CONTRACT),
            (labels::SCRUBBED, &self.seal.scrub.join(" ")),
            (labels::REHEARSAL, if self.rehearsal { "true" } else { "false" }),
        ]));
        if !self.patches.is_empty() {
            let text: String =
                self.patches.iter().map(|patch| format!("{}\n", patch.digest)).collect();
            all.insert(labels::PATCHES_DIGEST.to_owned(), Digest::of(text.as_bytes()).to_string());
        }
        all.extend(overridden_labels(self.request));
        all
    }

    /// Refuses overrides of pins that do not exist or were not used.
    fn check_overrides(&self) -> Result<(), PlanError> {
        let known = self.input.pins.names();
        for name in self.request.overrides.keys() {
            if !known.contains_key(name) {
                let known = known.keys().map(ToString::to_string).collect();
                return Err(PlanError::UnknownPin { pin: name.to_string(), known });
            }
            if !self.pins.contains_key(name.as_str()) {
                let images = &self.input.pins.images;
                let is_image = |name: &&String| images.keys().any(|pin| pin.as_str() == **name);
                let used = self.pins.keys().find(is_image).cloned();
                let (track, pin) = (self.request.track.name(), name.to_string());
                return Err(PlanError::UnusedPin { track, pin, used });
            }
        }
        Ok(())
    }
}

/// Returns the build argument that carries the version of what lies in a folder of the context.
fn variable(folder: &str) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("{}_VERSION", folder.chars().map(word).collect::<String>())
}

fn base_labels(image: &ImageRef) -> BTreeMap<String, String> {
    let digest = image.digest.as_ref().map(ToString::to_string).unwrap_or_default();
    text_labels(&[(labels::BASE_NAME, &base_name(image)), (labels::BASE_DIGEST, &digest)])
}

fn pin_labels(name: &PinName, facts: &[(&str, &str)]) -> BTreeMap<String, String> {
    let label = |(fact, value): &(&str, &str)| {
        (format!("{}{name}.{fact}", labels::PIN_PREFIX), (*value).to_owned())
    };
    facts.iter().map(label).collect()
}
