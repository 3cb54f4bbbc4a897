//! Turns the user's input into build requests, and resolves the tags in them.

use std::collections::BTreeSet;
use std::path::Path;

use failure::{Failure, Kind, missing_image, registry_hints, registry_kind};
use names::{Digest, GpuTarget, ImageRef, PinName, Tag, TrackName};
use oci::client::RegistryClient;
use pins::{Pinned, Tracks};
use planner::{BuildRequest, ImageOverride, PlanError, PlanningInput, SlimChoice, SpoofChoice};

use crate::kinds::explained;
use crate::{environment, registry};

/// The images to build, as the user wrote them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// The tracks, by name or letter.
    pub tracks: Vec<String>,
    /// The variant of the tracks.
    pub variant: Option<String>,
    /// Other values for pins, each `PIN=VALUE`.
    pub set: Vec<String>,
    /// The GPU targets; an image is built for each. If empty, the project's own GPU.
    pub gpus: Vec<String>,
    /// The GPU version that ROCm should see: x.y.z, `off` or `auto`.
    pub spoof: Option<String>,
    /// The GPUs whose code is kept: a list, `off`, or an empty string for the image's GPU.
    pub slim: Option<String>,
    /// Whether to build on stand-ins.
    pub rehearse: bool,
    /// Whether the labels name the commit that last changed the input files.
    pub label_revision: bool,
}

/// A request, and what to look up before it can be planned.
#[derive(Debug)]
pub struct PendingRequest {
    /// The request itself, without the digests of `tags`.
    pub request: BuildRequest,
    /// The tags to resolve at a registry.
    pub tags: Vec<TagOfPin>,
    /// The commit that the labels name.
    pub revision: RevisionChoice,
    /// The image whose labels the request was read from, if any.
    pub of_image: Option<String>,
}

/// The tag of a pin in this run.
#[derive(Debug, Clone)]
pub struct TagOfPin {
    /// The pin.
    pub pin: PinName,
    /// The tag.
    pub tag: Tag,
}

/// The commit that the labels name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RevisionChoice {
    /// None: the image depends only on the content of the files.
    Absent,
    /// The commit that last changed a file of the plan.
    OfFiles,
    /// The commit that an image names. It is kept unless the project's history contradicts it.
    OfImage(plan::Revision),
}

impl PendingRequest {
    /// Returns the request of a track without options.
    pub fn new(request: BuildRequest) -> Self {
        Self { request, tags: Vec::new(), revision: RevisionChoice::Absent, of_image: None }
    }
}

/// Returns the error for `--set` in a rehearsal that `option` requests.
fn set_in_rehearsal(option: &str) -> Failure {
    Failure::new(
        Kind::Input,
        "`--set` changes an image pin, but a rehearsal uses no image pins: it builds on stand-ins",
    )
    .hint(format!("leave out `--set` or `{option}`"))
}

/// Reads the request of every track of a subject. Makes no requests to registries yet.
///
/// # Errors
/// A track, pin, value, GPU or spoof in the subject is wrong, or `SOURCE_DATE_EPOCH` is invalid.
pub fn read(subject: &Subject, input: &PlanningInput) -> Result<Vec<PendingRequest>, Failure> {
    let tracks = subject.tracks.iter().map(|name| track(name, &input.tracks));
    let tracks = tracks.collect::<Result<Vec<_>, _>>()?;
    if subject.rehearse && !subject.set.is_empty() {
        return Err(set_in_rehearsal("--rehearse"));
    }
    let set = subject.set.iter().map(|text| setting(text, input)).collect::<Result<Vec<_>, _>>()?;
    if let Some((pin, _)) = set
        .iter()
        .enumerate()
        .find_map(|(number, (pin, _))| set[..number].iter().find(|(other, _)| other == pin))
    {
        return Err(Failure::new(Kind::Input, format!("`--set {pin}=…` is given twice"))
            .hint("a pin can have only one value in a run"));
    }
    let gpus = gpus(subject, &input.tracks.gpu)?;
    let takes_spoof = tracks.iter().all(|track| input.tracks.is_spoof(track));
    let spoof = spoof(subject.spoof.as_deref(), takes_spoof)?;
    let slim = slim(subject.slim.as_deref())?;
    let source_date_epoch = environment::source_date_epoch()?;
    let mut requests: Vec<BuildRequest> = Vec::new();
    let of_all_gpus = |track: TrackName| gpus.iter().map(move |gpu| (track.clone(), gpu.clone()));
    for (track, gpu) in tracks.into_iter().flat_map(of_all_gpus) {
        check_name(&track, gpu.as_ref(), input)?;
        let mut request =
            BuildRequest { gpu, spoof, source_date_epoch, ..BuildRequest::new(track) };
        request.rehearse = subject.rehearse;
        request.slim.clone_from(&slim);
        request.variant.clone_from(&subject.variant);
        if !set.is_empty() && planner::is_rehearsal(&request, input) {
            return Err(set_in_rehearsal("--variant"));
        }
        if !requests.contains(&request) {
            requests.push(request);
        }
    }
    // If a pin is the base of one of the tracks, `--set` applies to that track. If no track uses
    // it, the planner refuses it.
    let is_based_on = |request: &BuildRequest, pin: &PinName| {
        planner::base_pin(request, input).is_some_and(|(base, _)| base == pin)
    };
    let is_for = |request: &BuildRequest, pin| {
        is_based_on(request, pin) || !requests.iter().any(|other| is_based_on(other, pin))
    };
    let mut all = Vec::new();
    for planned in &requests {
        let (mut request, mut tags) = (planned.clone(), Vec::new());
        for (pin, value) in set.iter().filter(|(pin, _)| is_for(planned, pin)) {
            match value {
                Value::Digest(digest) => {
                    let replacement = ImageOverride { tag: None, digest: digest.clone() };
                    request.overrides.insert(pin.clone(), replacement);
                }
                Value::Tag(tag) => tags.push(TagOfPin { pin: pin.clone(), tag: tag.clone() }),
            }
        }
        tags.extend(followed_tag(&request, &tags, input));
        let revision =
            if subject.label_revision { RevisionChoice::OfFiles } else { RevisionChoice::Absent };
        all.push(PendingRequest { request, tags, revision, of_image: None });
    }
    Ok(all)
}

/// Returns the tag that the track's base follows, if nothing else sets its digest.
pub fn followed_tag(
    request: &BuildRequest,
    set: &[TagOfPin],
    input: &PlanningInput,
) -> Option<TagOfPin> {
    let (name, pin) = planner::base_pin(request, input)?;
    let is_settled = request.rehearse
        || request.overrides.contains_key(name)
        || set.iter().any(|set| set.pin == *name)
        || (!pin.follow && pin.digest != Pinned::Unresolved);
    let tag = pin.tag.as_ref().filter(|_| pin.follow && !is_settled);
    tag.map(|tag| TagOfPin { pin: name.clone(), tag: tag.clone() })
}

/// Asks registries for the current digests of a request's tags, and adds them as overrides.
///
/// # Errors
/// A registry cannot be reached, or the tag does not exist.
pub async fn resolve(
    pending: &mut PendingRequest,
    input: &PlanningInput,
    client: &RegistryClient,
) -> Result<(), Failure> {
    for TagOfPin { pin: name, tag } in std::mem::take(&mut pending.tags) {
        let Some(pin) = input.pins.images.get(&name) else { continue };
        let reference: ImageRef = pin.repository.tagged(&tag);
        let found = client.manifest_digest(&reference).await.map_err(|error| {
            let told = Failure::caused(
                registry_kind(error.kind()),
                format!("cannot resolve tag `{reference}`"),
                &error,
            );
            registry_hints(told, &error)
                .hint(format!("`--set {name}=sha256:…` uses a digest that you know"))
        })?;
        let Some(digest) = found else {
            let told = Failure::new(Kind::Network, format!("tag `{reference}` does not exist"));
            let why = pin.discontinued.as_ref().map(|why| format!("pin `{name}`: {why}"));
            let told = missing_image(told, pin.repository.registry());
            return Err(why.into_iter().fold(told, Failure::hint));
        };
        let checked = registry::check_base(client, &pin.repository.at(&digest)).await;
        checked.map_err(|told| {
            told.within(&format!("cannot use `{reference}` for pin `{name}`"))
                .hint(format!("`--set {name}=TAG` uses another tag"))
        })?;
        pending.request.overrides.insert(name, ImageOverride { tag: Some(tag), digest });
    }
    Ok(())
}

/// Returns the track with that name or letter.
///
/// # Errors
/// There is no such track.
pub fn track(text: &str, tracks: &Tracks) -> Result<TrackName, Failure> {
    tracks.find(text).cloned().ok_or_else(|| {
        let names: Vec<&str> =
            tracks.in_order().into_iter().map(|(name, _)| name.as_str()).collect();
        let told = Failure::new(Kind::Input, format!("there is no track `{text}`")).did_you_mean(
            text,
            names.iter().copied(),
            format!("the tracks are {}", names.join(", ")),
        );
        explained(told, Path::new(text), text)
    })
}

enum Value {
    Digest(Digest),
    Tag(Tag),
}

/// Reads `PIN=VALUE`.
fn setting(text: &str, input: &PlanningInput) -> Result<(PinName, Value), Failure> {
    let bad = |what: String| Failure::new(Kind::Input, what);
    let form = "use `--set PIN=sha256:…` with a digest, or `--set PIN=TAG` to resolve a tag now";
    let (name, value) =
        text.split_once('=').ok_or_else(|| bad(format!("`--set {text}` has no `=`")).hint(form))?;
    let known = input.pins.names();
    let unknown = || {
        let known = known.keys().map(ToString::to_string).collect();
        Failure::from(PlanError::UnknownPin { pin: name.to_owned(), known })
            .within(&format!("cannot use `--set {text}`"))
    };
    let pin: PinName = name.parse().map_err(|_| unknown())?;
    match known.get(&pin) {
        None => return Err(unknown()),
        Some(pins::PinKind::Image) => {}
        Some(_) => {
            return Err(bad(format!(
                "pin `{pin}` is not an image, and `--set` changes only images"
            ))
            .hint(format!(
                "`build-pipeline bump {pin} VALUE` changes it in versions/versions.toml"
            )));
        }
    }
    if value.contains(':') {
        let digest = value.parse().map_err(|e| {
            Failure::caused(
                Kind::Input,
                format!("`--set {text}` does not contain a valid digest"),
                &e,
            )
            .hint(form)
        })?;
        return Ok((pin, Value::Digest(digest)));
    }
    let tag = value.parse().map_err(|e| {
        Failure::caused(Kind::Input, format!("`--set {text}` does not contain a valid tag"), &e)
            .hint(form)
    })?;
    Ok((pin, Value::Tag(tag)))
}

/// Returns the GPUs of a subject. `None` means the project's own GPU, so that the image is the same
/// whether or not the user names that GPU.
fn gpus(subject: &Subject, own: &GpuTarget) -> Result<Vec<Option<GpuTarget>>, Failure> {
    if subject.gpus.is_empty() {
        return Ok(vec![None]);
    }
    if subject.gpus.iter().any(String::is_empty) {
        return Err(Failure::new(Kind::Input, "`--gpu` has an empty entry")
            .hint("use `--gpu gfx1151`, or several targets: `--gpu gfx1151,gfx1201`"));
    }
    let gpus = subject.gpus.iter().map(|text| failure::gpu_target(text));
    gpus.map(|gpu| Ok(Some(gpu?).filter(|gpu| gpu != own))).collect()
}

/// Checks that the image of a track for another GPU does not have the name of another track.
fn check_name(
    track: &TrackName,
    gpu: Option<&GpuTarget>,
    input: &PlanningInput,
) -> Result<(), Failure> {
    let Some(gpu) = gpu else { return Ok(()) };
    let name = plan::image_name(track.as_str(), None, Some(gpu.as_str()));
    if input.tracks.tracks.keys().all(|other| other.as_str() != name) {
        return Ok(());
    }
    let what = format!("the image of `{track}` for {gpu} would have the name of track `{name}`");
    Err(Failure::new(Kind::Input, what).hint("give that track another name"))
}

fn slim(text: Option<&str>) -> Result<SlimChoice, Failure> {
    match text {
        None => Ok(SlimChoice::OfTrack),
        Some("off") => Ok(SlimChoice::Off),
        Some("") => Ok(SlimChoice::For(BTreeSet::new())),
        Some(gpus) => gpus.split(',').map(failure::gpu_target).collect::<Result<_, _>>().map(SlimChoice::For).map_err(|told| {
            told.hint("use `--slim` to keep the code for the image's GPU, `--slim=gfx1100,gfx1151` to keep more, `--slim=off` to keep all")
        }),
    }
}

/// Parses the value of `--spoof`. `is_possible` says whether all tracks can have a spoof.
fn spoof(text: Option<&str>, is_possible: bool) -> Result<SpoofChoice, Failure> {
    match text {
        None | Some("auto") => Ok(SpoofChoice::Auto),
        Some("off") => Ok(SpoofChoice::Off),
        Some(text) => {
            text.parse().map(SpoofChoice::Version).map_err(|e: names::ParseGfxVersionError| {
                let hint = match &e {
                    _ if !is_possible => {
                        "leave out `--spoof`: it is for tracks that have `spoof = true` in versions/tracks.toml; `--gpu GFX` builds for another GPU".to_owned()
                    }
                    names::ParseGfxVersionError::TargetName { version, .. } => {
                        format!("use `--spoof {version}`")
                    }
                    names::ParseGfxVersionError::Form(_) => {
                        "use `--spoof x.y.z`, `--spoof off` or `--spoof auto`".to_owned()
                    }
                };
                Failure::caused(Kind::Input, format!("cannot use `--spoof {text}`"), &e).hint(hint)
            })
        }
    }
}
