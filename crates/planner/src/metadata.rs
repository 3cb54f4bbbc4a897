//! Plans for tracks that need no engine: fetch a base by digest, slim it, add project files, and
//! set the metadata.

use std::collections::BTreeMap;

use names::{ImageRef, PinName, TrackName};
use pins::{Base, ImagePin, Pinned};
use plan::{Action, DeriveContract, Draft, ImageEdit, Input, Inputs, Platform, Step, labels};

use crate::chain::Chain;
use crate::{BuildRequest, PlanError, Planned, PlanningInput, UsedPins, Warning, spoof};

/// The contract of the step that sets the metadata.
pub(crate) const CONTRACT: DeriveContract = DeriveContract::Derive1;

/// Creates the plan of a track that needs no engine.
pub(crate) fn plan(
    request: &BuildRequest,
    input: &PlanningInput,
    chain: &Chain<'_>,
) -> Result<Planned, PlanError> {
    let track = || chain.name.to_string();
    let Base::Image(name) = chain.base else {
        return Err(PlanError::NoSettings { track: track() });
    };
    let pin = input.pins.images.get(name);
    let pin = pin.ok_or_else(|| PlanError::NoSuchBase { track: track(), pin: name.to_string() })?;
    let pin = with_override(pin, request, name);
    let image = base_reference(&pin, name, request, input)?;
    let target = request.gpu.as_ref().unwrap_or(&input.tracks.gpu);
    let gpu = input.gpus.gpus.get(target).ok_or_else(|| PlanError::UnknownGpu {
        gpu: target.to_string(),
        known: input.gpus.gpus.keys().map(ToString::to_string).collect(),
    })?;

    let mut warnings = Vec::new();
    if let Some(why) = &pin.discontinued {
        warnings.push(Warning::new("base-discontinued", format!("pin `{name}`: {why}")));
    }
    let override_version = if chain.is_spoof {
        spoof::decide(request, target, gpu, name, &pin, &mut warnings)?
    } else if request.spoof == crate::SpoofChoice::Auto {
        None
    } else {
        return Err(PlanError::NotASpoofTrack { track: track() });
    };

    let epoch = request.source_date_epoch.unwrap_or(input.pins.source_date_epoch);
    let created = timestamp(epoch)?;
    let mut env = chain.image.env.clone();
    if let Some(version) = override_version {
        env.insert(spoof::OVERRIDE_VARIABLE.to_owned(), version.to_string());
    }
    let base = name.to_string();
    let kind = pin.kind;
    let inputs =
        Inputs::from([(base.clone(), Input::Image { reference: image.clone(), manifest: kind })]);
    check_overrides(request, input, &inputs)?;
    let mut draft = Draft {
        schema: plan::SCHEMA,
        track: track(),
        name: chain.image_name(request.gpu.as_ref()),
        gpu: target.clone(),
        rehearsal: request.rehearse,
        source_date_epoch: epoch,
        revision: request.revision.clone(),
        overrides: request.spelled_overrides(),
        inputs,
        steps: Vec::new(),
    };
    let base = fetch_base(&mut draft, base);
    let imitated = override_version.and_then(|version| version.target());
    // The project's own files are not slimmed, so they are added after slimming.
    let base = crate::slim::add(&mut draft, base, chain, request, input, imitated)?;
    let base = chain
        .parts
        .iter()
        .try_fold(base, |base, part| crate::files::add(&mut draft, input, part, base))?;
    let mut all_labels = chain.image.labels.clone();
    all_labels.extend(derived_labels(&draft));
    all_labels.extend(text_labels(&[
        (labels::CREATED, &created),
        (labels::BUILD_DATE, &created),
        (labels::ARCHITECTURE, "x86_64"),
        (labels::TITLE, &chain.track.title),
        (labels::DESCRIPTION, &chain.track.description),
        (labels::VERSION, &version(&image)),
        (labels::BASE_NAME, &base_name(&image)),
        (labels::BASE_DIGEST, &image.digest.as_ref().map(ToString::to_string).unwrap_or_default()),
        (labels::CONTRACT, &CONTRACT.to_string()),
    ]));
    if let Some(variant) = chain.variant {
        all_labels.insert(labels::VARIANT.to_owned(), variant.to_owned());
    }
    if chain.is_spoof {
        let spelled =
            override_version.map_or_else(|| "off".to_owned(), |version| version.to_string());
        all_labels.insert(labels::SPOOF.to_owned(), spelled);
    }
    if let Some(release) = &pin.rocm {
        all_labels.insert(labels::ROCM_VERSION.to_owned(), release.clone());
    }

    let edit = ImageEdit {
        entrypoint: chain.image.entrypoint.clone(),
        cmd: chain.image.cmd.clone(),
        user: chain.image.user.clone(),
        working_dir: chain.image.workdir.clone(),
        created_by: created_by(chain.name, target.as_str()),
        created,
        env,
        entrypoint_prefix: override_version.map(|_| spoof::entrypoint_prefix()).unwrap_or_default(),
        reset: labels::RESET.map(str::to_owned).to_vec(),
        labels: all_labels,
    };
    let action = Action::DeriveImage { base, contract: CONTRACT, edit };
    draft.steps.push(Step { id: "derive-image".to_owned(), action });
    finished(draft, chain.name, warnings)
}

/// Checks a draft.
pub(crate) fn finished(
    draft: Draft,
    track: &TrackName,
    warnings: Vec<Warning>,
) -> Result<Planned, PlanError> {
    let plan =
        draft.finish().map_err(|source| PlanError::Invalid { track: track.to_string(), source })?;
    Ok(Planned { plan, warnings })
}

/// Returns the labels that follow from the rest of a plan.
pub(crate) fn derived_labels(draft: &Draft) -> BTreeMap<String, String> {
    let derived = draft.derived_labels().into_iter();
    derived.filter_map(|(label, value)| Some((label.to_owned(), value?))).collect()
}

/// Returns the text in the image's history for the last step.
pub(crate) fn created_by(track: &TrackName, gpu: &str) -> String {
    format!("build-pipeline {CONTRACT}: {track} for {gpu}")
}

/// Adds the step that fetches the base. Returns its name.
fn fetch_base(draft: &mut Draft, input: String) -> String {
    let id = "fetch-base".to_owned();
    let action = Action::FetchBase { input, platform: Platform::linux_amd64() };
    draft.steps.push(Step { id: id.clone(), action });
    id
}

/// Refuses overrides of pins that do not exist or are not image inputs of the plan.
pub(crate) fn check_overrides(
    request: &BuildRequest,
    input: &PlanningInput,
    inputs: &Inputs,
) -> Result<(), PlanError> {
    let known = input.pins.names();
    for name in request.overrides.keys() {
        if !known.contains_key(name) {
            let known = known.keys().map(ToString::to_string).collect();
            return Err(PlanError::UnknownPin { pin: name.to_string(), known });
        }
        if !matches!(inputs.get(name.as_str()), Some(Input::Image { .. })) {
            let mut used = UsedPins::default();
            for (other, pinned) in inputs.iter().filter(|(_, pinned)| pinned.is_pinned()) {
                let list = match pinned {
                    Input::Image { .. } => &mut used.images,
                    _ => &mut used.others,
                };
                list.push(other.clone());
            }
            let (track, pin) = (request.track.to_string(), name.to_string());
            return Err(PlanError::UnusedPin { track, pin, used });
        }
    }
    Ok(())
}

/// Returns the pin with its digest for this run. Facts that describe a different digest are
/// removed.
pub(crate) fn with_override(pin: &ImagePin, request: &BuildRequest, name: &PinName) -> ImagePin {
    if let Some(stand_in) = &request.stand_in {
        let digest = Pinned::Resolved(stand_in.digest.clone());
        return ImagePin { digest, kind: Some(stand_in.kind), ..pin.clone() };
    }
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

/// Returns the reference of a pin with its digest, or an error if the digest is unknown.
pub(crate) fn base_reference(
    pin: &ImagePin,
    name: &PinName,
    request: &BuildRequest,
    input: &PlanningInput,
) -> Result<ImageRef, PlanError> {
    let reference =
        |digest| ImageRef { repository: pin.repository.clone(), tag: pin.tag.clone(), digest };
    match &pin.digest {
        Pinned::Resolved(digest) => Ok(reference(Some(digest.clone()))),
        Pinned::Unresolved => Err(PlanError::Unresolved {
            pin: name.to_string(),
            image: reference(None).to_string(),
            tag: pin.tag.as_ref().map(ToString::to_string),
            has_rehearsal: Chain::has_rehearsal(request, input),
        }),
    }
}

pub(crate) fn text_labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Returns the base's name without its digest, which has its own label.
pub(crate) fn base_name(image: &ImageRef) -> String {
    ImageRef { digest: None, ..image.clone() }.to_string()
}

/// Returns the version of the content: the base's tag, or its short digest if it has none.
fn version(image: &ImageRef) -> String {
    match (&image.tag, &image.digest) {
        (Some(tag), _) => tag.to_string(),
        (None, Some(digest)) => digest.short().to_owned(),
        (None, None) => String::new(),
    }
}

/// Returns the time as RFC 3339 in UTC, to the second.
pub(crate) fn timestamp(epoch: u64) -> Result<String, PlanError> {
    let seconds = i64::try_from(epoch).map_err(|_| PlanError::Epoch(epoch))?;
    let time = jiff::Timestamp::from_second(seconds).map_err(|_| PlanError::Epoch(epoch))?;
    Ok(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}
