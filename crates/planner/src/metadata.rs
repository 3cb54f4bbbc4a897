//! What the metadata-only tracks share: fetch a base by digest, derive an image from it.

use std::collections::BTreeMap;

use names::PinName;
use names::{Digest, ImageRef};
use pins::{ImagePin, Pinned, Track, TrackSettings};
use plan::{Action, ImageEdit, Plan, Platform, Step, labels};

use crate::{BuildRequest, PlanError, Planned, PlanningInput, Warning, spoof};

/// The contract of an image that only adds metadata; the bytes are `oci::derive`'s to keep.
pub(crate) const CONTRACT: &str = "derive/1";

/// Returns the settings of a track and the image pin they stand on.
pub(crate) fn base(
    track: Track,
    input: &PlanningInput,
) -> Result<(&TrackSettings, &ImagePin), PlanError> {
    let name = track.name();
    if track.is_built() {
        return Err(PlanError::NeedsEngine { track: name });
    }
    let settings = input.tracks.tracks.get(&track).ok_or(PlanError::NoSettings { track: name })?;
    let pin = input.pins.images.get(&settings.base);
    let pin =
        pin.ok_or_else(|| PlanError::NoSuchBase { track: name, pin: settings.base.to_string() })?;
    Ok((settings, pin))
}

/// Makes the plan of a metadata-only track.
pub(crate) fn plan(request: &BuildRequest, input: &PlanningInput) -> Result<Planned, PlanError> {
    let (settings, pin) = base(request.track, input)?;
    if request.variant.is_some() {
        return Err(PlanError::NoVariants { track: request.track.name() });
    }
    check_overrides(request, input, &settings.base)?;
    let pin = with_override(pin, request, &settings.base);
    let image = base_reference(&pin, &settings.base)?;
    let target = request.gpu.as_ref().unwrap_or(&input.tracks.gpu);
    let gpu = input.gpus.gpus.get(target).ok_or_else(|| PlanError::UnknownGpu {
        gpu: target.to_string(),
        known: input.gpus.gpus.keys().map(ToString::to_string).collect(),
    })?;

    let mut warnings = Vec::new();
    if let Some(why) = &pin.discontinued {
        warnings.push(Warning::new("base-discontinued", format!("pin `{}`: {why}", settings.base)));
    }
    let override_version = match request.track.is_spoof() {
        true => spoof::decide(request, target, gpu, (&settings.base, &pin), &mut warnings)?,
        false if request.spoof == crate::SpoofChoice::Auto => None,
        false => return Err(PlanError::NotASpoofTrack { track: request.track.name() }),
    };

    let epoch = request.source_date_epoch.unwrap_or(input.pins.source_date_epoch);
    let created = timestamp(epoch)?;
    let mut env = settings.env.clone();
    if let Some(version) = override_version {
        env.insert(spoof::OVERRIDE_VARIABLE.to_owned(), version.to_string());
    }
    let pins = used_pins(&settings.base, &image);
    let overrides = request.spelled_overrides();
    let mut all_labels = recipe_labels(input.recipe.as_ref());
    all_labels.extend(text_labels(&[
        (labels::CREATED, &created),
        (labels::BUILD_DATE, &created),
        (labels::ARCHITECTURE, "x86_64"),
        (labels::TITLE, &settings.title),
        (labels::DESCRIPTION, &settings.description),
        (labels::VERSION, &version(&image)),
        (labels::BASE_NAME, &base_name(&image)),
        (labels::BASE_DIGEST, &image.digest.as_ref().map(ToString::to_string).unwrap_or_default()),
        (labels::TRACK, request.track.name()),
        (labels::GPU, target.as_str()),
        (labels::PINS_DIGEST, Digest::of(canonical_json(&pins).as_bytes()).as_str()),
        (labels::CONTRACT, CONTRACT),
        (labels::REHEARSAL, if request.rehearse { "true" } else { "false" }),
    ]));
    if request.track.is_spoof() {
        let spelled =
            override_version.map_or_else(|| "off".to_owned(), |version| version.to_string());
        all_labels.insert(labels::SPOOF.to_owned(), spelled);
    }
    if let Some(release) = &pin.rocm {
        all_labels.insert(labels::ROCM_VERSION.to_owned(), release.clone());
    }
    all_labels.extend(overridden_labels(request));

    let edit = ImageEdit {
        created_by: created_by(request.track, target.as_str()),
        created,
        env,
        entrypoint_prefix: override_version.map(|_| spoof::entrypoint_prefix()).unwrap_or_default(),
        reset: labels::RESET.map(str::to_owned).to_vec(),
        labels: all_labels,
    };
    let kind = pin.kind.map(manifest_kind);
    let plan = Plan {
        schema: plan::SCHEMA,
        track: request.track.name().to_owned(),
        name: match request.rehearse {
            true => format!("rehearsal-{}", request.track.name()),
            false => request.track.name().to_owned(),
        },
        gpu: target.to_string(),
        rehearsal: request.rehearse,
        source_date_epoch: epoch,
        recipe: input.recipe.clone(),
        overrides,
        pins,
        steps: steps(image, kind, edit),
    };
    Ok(Planned { plan, warnings })
}

/// Returns what the history of an image says of the last step.
pub(crate) fn created_by(track: Track, gpu: &str) -> String {
    format!("build-pipeline {CONTRACT}: {} for {gpu}", track.name())
}

/// Returns a kind of digest as plans spell it.
pub(crate) fn manifest_kind(kind: pins::ManifestKind) -> plan::ManifestKind {
    match kind {
        pins::ManifestKind::Index => plan::ManifestKind::Index,
        pins::ManifestKind::Manifest => plan::ManifestKind::Manifest,
    }
}

/// Returns the label that says what a request changes, where it changes something.
pub(crate) fn overridden_labels(request: &BuildRequest) -> Option<(String, String)> {
    let overrides = request.spelled_overrides();
    let spelled: Vec<_> = overrides.iter().map(|(name, value)| format!("{name}={value}")).collect();
    (!spelled.is_empty()).then(|| (labels::OVERRIDES.to_owned(), spelled.join(" ")))
}

/// Returns the two steps of a metadata-only image.
fn steps(image: ImageRef, kind: Option<plan::ManifestKind>, edit: ImageEdit) -> Vec<Step> {
    let base = "fetch-base".to_owned();
    vec![
        Step {
            id: base.clone(),
            needs: Vec::new(),
            action: Action::FetchBase { image, kind, platform: Platform::linux_amd64() },
        },
        Step {
            id: "derive-image".to_owned(),
            needs: vec![base.clone()],
            action: Action::DeriveImage { base, contract: CONTRACT.to_owned(), edit },
        },
    ]
}

/// Refuses overrides of pins that do not exist or are not used.
fn check_overrides(
    request: &BuildRequest,
    input: &PlanningInput,
    base: &PinName,
) -> Result<(), PlanError> {
    let known = input.pins.names();
    for name in request.overrides.keys() {
        if !known.contains_key(name) {
            let known = known.keys().map(ToString::to_string).collect();
            return Err(PlanError::UnknownPin { pin: name.to_string(), known });
        }
        if name != base {
            let (track, pin) = (request.track.name(), name.to_string());
            let used = Some(base.to_string());
            return Err(PlanError::UnusedPin { track, pin, used });
        }
    }
    Ok(())
}

/// Returns the pin with the digest it has in this run. What was known about another digest is forgotten.
pub(crate) fn with_override(pin: &ImagePin, request: &BuildRequest, name: &PinName) -> ImagePin {
    let Some(image) = request.overrides.get(name) else { return pin.clone() };
    if pin.digest == Pinned::Resolved(image.digest.clone()) {
        return pin.clone();
    }
    ImagePin {
        tag: image.tag.clone(),
        digest: Pinned::Resolved(image.digest.clone()),
        kind: None,
        rocm: None,
        gpus: Vec::new(),
        ..pin.clone()
    }
}

/// Returns the reference of a pin at its digest, or an error where nobody knows one.
pub(crate) fn base_reference(pin: &ImagePin, name: &PinName) -> Result<ImageRef, PlanError> {
    let reference =
        |digest| ImageRef { repository: pin.repository.clone(), tag: pin.tag.clone(), digest };
    match &pin.digest {
        Pinned::Resolved(digest) => Ok(reference(Some(digest.clone()))),
        Pinned::Unresolved => Err(PlanError::Unresolved {
            pin: name.to_string(),
            image: reference(None).to_string(),
            tag: pin.tag.as_ref().map(ToString::to_string),
        }),
    }
}

/// Returns the values of the pins that the image is made from.
fn used_pins(base: &PinName, image: &ImageRef) -> BTreeMap<String, String> {
    BTreeMap::from([(base.to_string(), image.to_string())])
}

/// Returns the labels that say which recipe made the image.
pub(crate) fn recipe_labels(recipe: Option<&plan::Recipe>) -> BTreeMap<String, String> {
    let Some(recipe) = recipe else { return BTreeMap::new() };
    let mut all = text_labels(&[
        (labels::REVISION, &recipe.commit),
        (labels::VCS_REF, &recipe.commit),
        (labels::VCS_TYPE, "git"),
    ]);
    if let Some(url) = &recipe.url {
        all.insert(labels::SOURCE.to_owned(), url.clone());
    }
    if recipe.modified {
        all.insert(labels::MODIFIED.to_owned(), "true".to_owned());
    }
    all
}

pub(crate) fn text_labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Returns the base's name without its digest, which has a label of its own.
pub(crate) fn base_name(image: &ImageRef) -> String {
    ImageRef { digest: None, ..image.clone() }.to_string()
}

/// Returns the version of what is inside: the base's tag, or its short digest where it has none.
fn version(image: &ImageRef) -> String {
    match (&image.tag, &image.digest) {
        (Some(tag), _) => tag.to_string(),
        (None, Some(digest)) => digest.short().to_owned(),
        (None, None) => String::new(),
    }
}

pub(crate) fn canonical_json(value: &BTreeMap<String, String>) -> String {
    serde_json::to_string(value).expect("a map of text is JSON")
}

/// Returns the time as RFC 3339 in UTC, to the second.
pub(crate) fn timestamp(epoch: u64) -> Result<String, PlanError> {
    let seconds = i64::try_from(epoch).map_err(|_| PlanError::Epoch(epoch))?;
    let time = jiff::Timestamp::from_second(seconds).map_err(|_| PlanError::Epoch(epoch))?;
    Ok(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}
