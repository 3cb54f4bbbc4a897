//! Compares an image with the plan and the pins, field by field and layer by layer.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use executor::{
    BaseImage, BlobCache, ErrorKind, ExecuteError, FilesMaker, Materials, SharedStores, Store,
    StoreCheck, compare_with_stores, derive_image, fetch_base, made_image,
};
use failure::{Failure, Kind};
use names::{Digest, Platform};
use oci::client::RegistryClient;
use oci::media::Descriptor;
use plan::{Action, Input, Plan, Revision, Step, labels};
use planner::BuildRequest;
use project::image::Image;
use project::prepare::Unconfirmed;
use project::request::{PendingRequest, RevisionChoice};
use record::verify::{
    Documents, FieldCheck, Outcome, Verdict, compare, compare_with_plan, outcome,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use text::sanitise::sanitise;
use text::{Page, Tone, counted};

use crate::comparison::Comparison;

/// The end of the names of fields that are in `index.json`.
const IN_INDEX: &str = " in index.json";

/// The maximum number of files outside of an image that are named.
const MOST_UNUSED: usize = 10;

/// The version of the JSON format of a verification.
const SCHEMA: u32 = 1;

/// The output of `verify --format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Verification {
    /// The version of this JSON format.
    schema: u32,
    /// The image that was verified.
    image: String,
    /// The record of the build that wrote it. Absent unless a track was named and a record contains
    /// the location of its image.
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<String>,
    /// The digest of its manifest.
    manifest_digest: Digest,
    /// The digest of the current plan, which the image was compared with.
    plan_digest: Digest,
    /// The result.
    outcome: Outcome,
    /// All fields that were compared.
    checks: Vec<FieldCheck>,
    /// The number of layers whose content is present and matches the digest in the manifest.
    layers_checked: usize,
    /// The number of layers that the manifest references, but whose content is stored elsewhere and
    /// was not checked.
    layers_elsewhere: usize,
    /// The files in the layout or archive that nothing refers to. They are not part of the image.
    unused_files: Vec<String>,
    /// Whether the image was compared with the steps that this machine has finished: the built or
    /// slimmed layers, and the settings that come with them.
    made_here: bool,
    /// The result of each rebuild, one per engine.
    rebuilds: Vec<Comparison>,
}

impl Verification {
    /// Compares an image with the plan's result on its base, or without the base if it cannot be
    /// fetched.
    ///
    /// # Errors
    /// The manifest or config of the image is not JSON, or bytes do not match their digest.
    pub async fn new(found: &Image, plan: &Plan, source: &Source<'_>) -> Result<Self, Failure> {
        let documents = found.documents();
        let not_json = |error: serde_json::Error| not_json(found, &error);
        let made = source.made(plan);
        let made_here = made.is_some();
        let without_base = |why: &str| -> Result<_, Failure> {
            let mut checks = compare_with_plan(plan, documents, why).map_err(not_json)?;
            let (of_layers, own) = source.own_layers(plan, found)?;
            checks.extend(of_layers);
            Ok((checks, own))
        };
        let (mut checks, own) = match source.base(plan, made).await {
            None if plan.is_built() => {
                let why = "the plan does not say what a build makes; `--rebuild` builds the image again and compares it";
                let (mut checks, own) = without_base(why)?;
                checks.extend(source.base_layers(plan, found).await?);
                (checks, own)
            }
            None => without_base("`--rebuild` slims the base again and compares the layers")?,
            Some(Ok(base)) => {
                let expected = derive_image(plan, &base, plan.image_edit())
                    .map_err(|error| Failure::from(&error))?;
                let expected = Documents { manifest: &expected.manifest, config: &expected.config };
                let own = base.own_layers.iter().map(|layer| layer.digest.clone()).collect();
                let mut checks = compare(expected, documents).map_err(not_json)?;
                if plan.is_built() {
                    checks.extend(source.own_layers(plan, found)?.0);
                }
                (checks, own)
            }
            Some(Err(error)) => {
                let told = Failure::from(&error);
                if told.kind == Kind::Integrity || error.kind() == ErrorKind::Changed {
                    return Err(told);
                }
                without_base(&told.lines().join(": "))?
            }
        };
        let lost = lost_layers(plan, found, &own);
        let lack = |digest: &Digest| FieldCheck {
            field: format!("blob of layer {}", digest.short()),
            verdict: Verdict::Missing { expected: digest.to_string() },
        };
        checks.extend(lost.iter().map(lack));
        checks.extend(of_index(found, plan));
        let is_kept = |layer: &&Descriptor| !lost.contains(&layer.digest);
        let kept = found.layers.iter().filter(is_kept).count();
        Ok(Self {
            schema: SCHEMA,
            image: found.name.clone(),
            record: found.record.clone(),
            manifest_digest: found.manifest_digest.clone(),
            plan_digest: plan.digest(),
            outcome: match outcome(&checks) {
                Outcome::Incomplete if plan.needs_all_layers() => Outcome::AsPlanned,
                // The same machine can make the same mistake twice.
                Outcome::Proven if plan.is_built() => Outcome::AsPlanned,
                outcome => outcome,
            },
            checks,
            layers_checked: found.layers_checked(),
            layers_elsewhere: kept - found.layers_checked(),
            unused_files: found.layout().map(|layout| layout.unused.clone()).unwrap_or_default(),
            made_here,
            rebuilds: Vec::new(),
        })
    }

    /// Returns whether a rebuild could give the same image. An image that was built from other pins
    /// is not rebuilt with the current ones.
    pub fn can_be_same(&self) -> bool {
        !matches!(self.outcome, Outcome::Differs | Outcome::OtherPins | Outcome::OtherPlan)
    }

    /// Compares the image with a rebuilt one. Returns whether they are the same.
    ///
    /// # Errors
    /// A manifest or config is not JSON, or a layer cannot be read.
    pub async fn add_rebuild(
        &mut self,
        found: &Image,
        rebuilt: &Image,
        client: &RegistryClient,
    ) -> Result<bool, Failure> {
        let of_index = std::mem::take(&mut self.checks).into_iter();
        let of_index = of_index.filter(|check| check.field.ends_with(IN_INDEX));
        let compared = compare(rebuilt.documents(), found.documents());
        self.checks = compared.map_err(|error| not_json(found, &error))?;
        self.checks.extend(of_index);
        self.outcome = outcome(&self.checks);
        let comparison = Comparison::of(found, rebuilt, client).await?;
        let is_same = comparison.is_same;
        self.rebuilds.push(comparison);
        Ok(is_same)
    }

    /// Returns what to do if the image is out of date.
    pub fn change_hint(&self, plan: &Plan) -> Option<String> {
        let options = project::outputs::options(plan).unwrap_or_default();
        matches!(self.outcome, Outcome::OtherPins | Outcome::OtherPlan).then(|| {
            let rehearse = if plan.rehearsal { " --rehearse" } else { "" };
            format!(
                "`build-pipeline explain {0}{options}` lists what has changed since the last build, and `build-pipeline --track {0}{options}{rehearse}` builds the image again",
                plan.track
            )
        })
    }

    /// Returns what to do if an engine built the image and a rebuild differs. `name` is the image's
    /// name on the command line.
    pub fn rebuild_hints(&self, found: &Image, name: &str, plan: &Plan) -> Vec<String> {
        let Some(rebuild) = self.rebuilds.iter().find(|one| !one.is_same) else {
            return Vec::new();
        };
        if !plan.is_built() {
            return Vec::new();
        }
        let files = dockerfiles_of_layers(found);
        let places: Vec<String> = rebuild
            .layers()
            .map(|layer| match files.get(layer - 1).and_then(Option::as_ref) {
                Some(file) => format!("layer {layer} (`{}`)", sanitise(file)),
                None => format!("layer {layer}"),
            })
            .collect();
        let options = project::outputs::options(plan).unwrap_or_default();
        let mut hints = Vec::new();
        if !places.is_empty() {
            hints.push(format!(
                "the likely cause is a RUN whose result is not reproducible, in {}: it writes the date, a random name or number, or something from the network that changed; the files above show which",
                places.join(" and ")
            ));
        }
        hints.push(format!(
            "after a change, `build-pipeline --track {}{options} --fresh --output oci:again` runs all steps again, and `build-pipeline diff {name} again` compares the images",
            plan.track
        ));
        hints
    }

    /// Returns the verification as text: every difference, and the number of correct fields.
    pub fn page(&self, plan: &Plan) -> Page {
        let mut out = Page::default();
        out.line(format_args!("{}  {}", self.image, self.manifest_digest));
        if let Some(record) = &self.record {
            out.line(format_args!("  written by the last build with this name, record {record}"));
        }
        for (name, value) in &plan.overrides {
            out.line(format_args!(
                "  built with {name} = {value} instead of the value in the data files"
            ));
        }
        let same = self.checks.iter().filter(|check| check.verdict == Verdict::Same).count();
        for FieldCheck { field, verdict } in &self.checks {
            if self.repeats_a_label(field, verdict) {
                continue;
            }
            match verdict {
                Verdict::Same => {}
                Verdict::Differs { expected, found } => out.line(format_args!(
                    "  ✗ {field}\n      must be {expected}\n      is      {found}"
                )),
                Verdict::Missing { expected } => {
                    out.line(format_args!("  ✗ {field} is missing\n      must be {expected}"));
                }
                Verdict::Unexpected { found } => {
                    out.line(format_args!("  ✗ {field} must not exist\n      is      {found}"));
                }
                Verdict::Unchecked { why } => {
                    out.line(format_args!("  ? {field}: not compared, {why}"));
                }
            }
        }
        out.line(format_args!(
            "  ✓ {same} of {} fields match plan {}",
            self.checks.len(),
            plan.digest().short()
        ));
        let (here, elsewhere) = (self.layers_checked, self.layers_elsewhere);
        if here > 0 {
            let layers = counted(here, "layer");
            out.line(format_args!("  ✓ {layers} checked against the digests in the manifest"));
        }
        if elsewhere > 0 {
            let layers = counted(elsewhere, "layer");
            let (are, their) = if elsewhere == 1 { ("is", "its") } else { ("are", "their") };
            let place = if plan.rehearsal { "the stand-in base" } else { "a registry" };
            out.line(format_args!(
            "  - {layers} {are} only referenced by digest; {their} content is in {place} and was not checked"
        ));
        }
        if !self.unused_files.is_empty() {
            let (files, more) =
                self.unused_files.split_at(self.unused_files.len().min(MOST_UNUSED));
            let count = counted(self.unused_files.len(), "file");
            let names: Vec<String> = files.iter().map(|name| format!("`{name}`")).collect();
            let dots = if more.is_empty() { "" } else { ", …" };
            let verb = if self.unused_files.len() == 1 { "is" } else { "are" };
            out.line(format_args!(
                "  - {count} next to the image {verb} not part of it: {}{dots}",
                names.join(", ")
            ));
        }
        if self.made_here && self.rebuilds.is_empty() {
            out.line(format_args!(
                "  ✓ the layers were compared with those that this machine made; `--rebuild` makes them again"
            ));
        }
        for rebuild in &self.rebuilds {
            rebuild.show(&mut out);
        }
        let (word, tone, why) = self.conclusion();
        out.verdict(word, tone);
        out.line(format_args!(": {why}"));
        out
    }

    /// Returns whether a label has the same name as an annotation, and differs in the same way.
    fn repeats_a_label(&self, field: &str, verdict: &Verdict) -> bool {
        let label = field.strip_prefix("annotation ").map(|key| format!("label {key}"));
        label.is_some_and(|label| {
            self.checks.iter().any(|check| check.field == label && check.verdict == *verdict)
        })
    }

    /// Returns the outcome in a word, its tone, and the reason.
    fn conclusion(&self) -> (&'static str, Tone, &'static str) {
        match self.outcome {
            Outcome::Proven if !self.rebuilds.is_empty() => {
                ("proven", Tone::Good, "a rebuild from scratch gave the same image")
            }
            Outcome::Proven => {
                ("proven", Tone::Good, "the image is exactly what the plan and the pins define")
            }
            Outcome::Differs => {
                ("differs", Tone::Bad, "the image is not what the plan and the pins define")
            }
            Outcome::OtherPins => (
                "out of date",
                Tone::Bad,
                "according to its labels, the image was not built from the current pins",
            ),
            Outcome::OtherPlan => (
                "out of date",
                Tone::Bad,
                "according to its labels, the image was built from another plan: the project or this program has changed since, unless the labels are wrong",
            ),
            Outcome::AsPlanned if self.made_here => (
                "as planned",
                Tone::Good,
                "nothing differs from the plan, the pins and what this machine made",
            ),
            Outcome::AsPlanned => (
                "as planned",
                Tone::Good,
                "nothing differs from the plan and the pins; only `--rebuild` checks the layers and settings that a build defines",
            ),
            Outcome::Incomplete => (
                "incomplete",
                Tone::Doubtful,
                "nothing differs, but not everything could be compared",
            ),
        }
    }

    /// Returns an error unless the image is as planned.
    ///
    /// # Errors
    /// The image differs from its plan, was not built from the current pins, or could not be
    /// compared completely.
    pub fn verdict(&self) -> Result<(), Failure> {
        match self.outcome {
            Outcome::Proven | Outcome::AsPlanned => Ok(()),
            Outcome::Differs => Err(Failure::told(Kind::Differs)),
            Outcome::OtherPins | Outcome::OtherPlan => Err(Failure::told(Kind::OutOfDate)),
            Outcome::Incomplete => Err(Failure::told(Kind::Network)),
        }
    }

    /// Compares the layers with the results in shared stores. `note` gets the name and the message
    /// of a warning about each store that cannot be used.
    pub async fn compare_with(
        &mut self,
        shared: &SharedStores,
        plan: &Plan,
        layers: &[Descriptor],
        note: &(dyn Fn(&str, String) + Sync),
    ) {
        for check in compare_with_stores(plan, layers, shared, note).await {
            let StoreCheck { step, store, difference } = check;
            let verdict = match difference {
                None => Verdict::Same,
                Some((expected, found)) => {
                    let shown = |digest: Option<Digest>| {
                        digest.map_or("no layer".to_owned(), |digest| digest.to_string())
                    };
                    self.outcome = Outcome::Differs;
                    Verdict::Differs { expected: shown(expected), found: shown(found) }
                }
            };
            let field = format!("layers of step {step} in {store}");
            self.checks.push(FieldCheck { field, verdict });
        }
    }

    /// Marks labels as not compared if their values came from the image itself. This does not
    /// change the outcome.
    pub fn mark(&mut self, unconfirmed: &[Unconfirmed]) {
        for Unconfirmed { label, why } in unconfirmed {
            let fields = [format!("label {label}"), format!("annotation {label}")];
            let same = |check: &&mut FieldCheck| {
                check.verdict == Verdict::Same && fields.contains(&check.field)
            };
            for check in self.checks.iter_mut().filter(same) {
                check.verdict = Verdict::Unchecked { why: why.clone() };
            }
        }
    }
}

/// Compares the entry of `index.json`, by which programs choose an image: its platform with the one
/// of all images of this tool, and its name with the one under which the build wrote it. Only a
/// record tells that name; a copy may have another one.
fn of_index(image: &Image, plan: &Plan) -> Vec<FieldCheck> {
    let Some(layout) = image.layout() else { return Vec::new() };
    let check = |name: &str, expected: String, actual: Option<String>| {
        let verdict = match actual {
            Some(found) if found == expected => Verdict::Same,
            Some(found) => Verdict::Differs { expected, found },
            None => Verdict::Missing { expected },
        };
        FieldCheck { field: format!("{name}{IN_INDEX}"), verdict }
    };
    let platform = layout.platform.as_ref().map(|platform| {
        check("platform", Platform::linux_amd64().to_string(), Some(platform.to_string()))
    });
    let name = image.record.as_ref().map(|_| {
        let name = "annotation org.opencontainers.image.ref.name";
        check(name, plan.name.clone(), layout.name.clone())
    });
    platform.into_iter().chain(name).collect()
}

/// Returns the Dockerfile of each layer, lowest first, as the history names it. The base's layers
/// have none.
fn dockerfiles_of_layers(image: &Image) -> Vec<Option<String>> {
    let config: Value = serde_json::from_slice(image.documents().config).unwrap_or_default();
    let history = config.get("history").and_then(Value::as_array).into_iter().flatten();
    let is_layer = |entry: &&Value| entry.get("empty_layer") != Some(&Value::Bool(true));
    let file = |entry: &Value| {
        let text = entry.get("created_by")?.as_str()?.strip_prefix("build-pipeline ")?;
        Some(text.split_once(": ")?.1.to_owned())
    };
    let files: Vec<_> = history.filter(is_layer).map(file).collect();
    // Some bases have no history, or not of all layers.
    let missing = image.layers.len().saturating_sub(files.len());
    [vec![None; missing], files].concat()
}

/// Reads the build request from an image's labels. If the labels are wrong, the comparison reports
/// it.
///
/// # Errors
/// This tool did not build the image, the command `slim` wrote it, or its labels are invalid.
pub fn request_of(found: &Image) -> Result<PendingRequest, Failure> {
    let config: Value = serde_json::from_slice(&found.config).unwrap_or_default();
    let label = |key: &str| {
        config.pointer("/config/Labels").and_then(|all| all.get(key)).and_then(Value::as_str)
    };
    if let Some(base) = label(labels::SLIM_BASE) {
        let image = &found.name;
        let what = format!("`{image}` has no plan: `slim` wrote it, from the image `{base}`");
        return Err(Failure::new(Kind::Differs, what).hint(format!(
            "`build-pipeline verify {image} --slimmed-from IMAGE` slims that image again and compares every byte"
        )));
    }
    let Some(track) = label(labels::TRACK).and_then(|name| name.parse().ok()) else {
        return Err(Failure::new(
            Kind::Differs,
            format!(
                "`{}` has no label `{}`: build-pipeline did not build it",
                found.name,
                labels::TRACK
            ),
        )
        .hint("pass an image that `build-pipeline --track …` built"));
    };
    let mut request = BuildRequest::new(track);
    request.rehearse = label(labels::REHEARSAL) == Some("true");
    request.variant = label(labels::VARIANT).map(str::to_owned);
    let overrides = label(labels::OVERRIDES).unwrap_or_default();
    request.read_overrides(overrides).map_err(|error| {
        Failure::caused(
            Kind::Differs,
            format!("another tool changed label `{}` of `{}`", labels::OVERRIDES, found.name),
            &error,
        )
        .hint("build the image again")
    })?;
    if request.rehearse && !request.overrides.is_empty() {
        let what = format!("`{}` is a rehearsal, but its labels override pins", found.name);
        return Err(Failure::new(Kind::Differs, what).hint("build the image again"));
    }
    let of_image = Some(found.name.clone());
    let mut pending = PendingRequest { of_image, ..PendingRequest::new(request) };
    if let Some(commit) = label(labels::REVISION) {
        let commit = commit.parse().map_err(|error| {
            let what = format!(
                "label `{}` of `{}` does not contain a commit",
                labels::REVISION,
                found.name
            );
            Failure::caused(Kind::Differs, what, &error).hint("build the image again")
        })?;
        let url = label(labels::SOURCE).map(str::to_owned);
        pending.revision = RevisionChoice::OfImage(Revision { url, commit });
    }
    Ok(pending)
}

/// Where the parts of the expected image come from.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The client that fetches the base.
    pub client: &'a RegistryClient,
    /// The cache of manifests and configs.
    pub cache: &'a BlobCache,
    /// The project's own files.
    pub materials: &'a Materials,
    /// The finished steps of this machine.
    pub store: &'a Store,
}

impl Source<'_> {
    /// Returns the maker of layers with the project's own files.
    fn files_maker(&self) -> FilesMaker<'_> {
        let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        FilesMaker { materials: self.materials, store: self.store, threads }
    }

    /// Returns the image that this machine built or slimmed for a plan, with the project's own files
    /// on top. Returns `None` if this machine has not made it.
    fn made(&self, plan: &Plan) -> Option<Result<BaseImage, ExecuteError>> {
        let (at, made) = made_image(plan, self.store)?;
        let mut own = plan.steps[at..].iter().filter(|step| adds_files(step));
        Some(own.try_fold(made, |below, step| self.files_maker().on_base(plan, step, &below)))
    }

    /// Returns the base of a plan with the project's own files, or `made` if this machine has made
    /// the image. Otherwise returns `None` if the image is built or slimmed.
    async fn base(
        &self,
        plan: &Plan,
        made: Option<Result<BaseImage, ExecuteError>>,
    ) -> Option<Result<BaseImage, ExecuteError>> {
        if made.is_some() || plan.needs_all_layers() {
            return made;
        }
        let base = self.fetched(plan).await?;
        let mut own = plan.steps.iter().filter(|step| adds_files(step));
        Some(base.and_then(|base| {
            own.try_fold(base, |below, step| self.files_maker().on_base(plan, step, &below))
        }))
    }

    /// Fetches the documents of the base that a plan pins. Returns `None` if it pins none.
    async fn fetched(&self, plan: &Plan) -> Option<Result<BaseImage, ExecuteError>> {
        for step in &plan.steps {
            if let (
                Action::FetchBase { platform, .. },
                Some(Input::Image { reference, manifest }),
            ) = (&step.action, plan.input_of(step))
            {
                let kind = *manifest;
                return Some(fetch_base(self.client, self.cache, reference, kind, platform).await);
            }
        }
        None
    }

    /// Checks that a built image begins with the layers of the base that the plan pins. There is
    /// nothing to check if the base is not from a registry, or if its layers are slimmed.
    async fn base_layers(&self, plan: &Plan, found: &Image) -> Result<Vec<FieldCheck>, Failure> {
        if plan.slim_step().is_some() {
            return Ok(Vec::new());
        }
        let field = "layers of the base".to_owned();
        let verdict = match self.fetched(plan).await {
            None => return Ok(Vec::new()),
            Some(Err(error)) => {
                let told = Failure::from(&error);
                if told.kind == Kind::Integrity || error.kind() == ErrorKind::Changed {
                    return Err(told);
                }
                Verdict::Unchecked { why: told.lines().join(": ") }
            }
            Some(Ok(base)) => {
                let digests = |layers: &[Descriptor]| -> Vec<String> {
                    layers.iter().map(|layer| layer.digest.to_string()).collect()
                };
                let expected = digests(&base.manifest.layers);
                let first: Vec<Descriptor> =
                    found.layers.iter().take(expected.len()).cloned().collect();
                let (expected, first) = (expected.join(", "), digests(&first).join(", "));
                let is_same = expected == first;
                if is_same { Verdict::Same } else { Verdict::Differs { expected, found: first } }
            }
        };
        Ok(vec![FieldCheck { field, verdict }])
    }

    /// Checks that an image contains the layers with the project's own files, whatever its other
    /// layers are. Also returns the digests of these layers.
    fn own_layers(
        &self,
        plan: &Plan,
        found: &Image,
    ) -> Result<(Vec<FieldCheck>, Vec<Digest>), Failure> {
        // Slimming may change the layers of earlier steps, so only later steps are checked.
        let slimmed = plan.steps.iter().position(|step| Some(step) == plan.slim_step());
        let steps = plan.steps.iter().skip(slimmed.unwrap_or(0));
        let steps = steps.filter(|step| adds_files(step));
        let check = |step: &Step| {
            let made = self.files_maker().layer(plan, step);
            let expected = made.map_err(|error| Failure::from(&error))?.digest;
            let is_there = found.layers.iter().any(|layer| layer.digest == expected);
            let missing = Verdict::Missing { expected: expected.to_string() };
            let verdict = if is_there { Verdict::Same } else { missing };
            Ok((FieldCheck { field: format!("layer of step {}", step.id), verdict }, expected))
        };
        steps.map(check).collect::<Result<_, _>>()
    }
}

/// Returns whether a step adds the project's own files.
fn adds_files(step: &Step) -> bool {
    matches!(step.action, Action::AddFiles { .. })
}

/// Returns the layers that a layout or archive must contain but lacks. A layout may leave unchanged
/// layers of the base in the base's registry: not those in `own`, and none if the plan changes the
/// base.
fn lost_layers(plan: &Plan, found: &Image, own: &[Digest]) -> BTreeSet<Digest> {
    let is_whole = plan.needs_all_layers() || found.is_archive();
    let absent = found.absent_layers().iter();
    absent.filter(|digest| is_whole || own.contains(digest)).cloned().collect()
}

/// Returns the error for an image whose documents are not JSON.
fn not_json(found: &Image, error: &serde_json::Error) -> Failure {
    let what = format!("the manifest or config of `{}` is not JSON", found.name);
    Failure::caused(Kind::Differs, what, error)
}
