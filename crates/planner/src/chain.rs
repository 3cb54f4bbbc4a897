//! The track of a request together with the tracks that it is based on.
//!
//! A track that is based on another track contains everything that the other track builds and sets.
//! So its plan has the steps of both, and one last step that sets the metadata of both.

use names::{GpuTarget, TrackName};
use pins::{Base, Build, ImageSettings, Track, Variant};

use crate::{BuildRequest, PlanError, PlanningInput};

/// The track of a request, with everything that it takes from the tracks below it.
pub(crate) struct Chain<'a> {
    /// The name of the track.
    pub(crate) name: &'a TrackName,
    /// The track itself.
    pub(crate) track: &'a Track,
    /// The base of the lowest track: an image or packages.
    pub(crate) base: &'a Base,
    /// What each track adds to the base, the lowest first.
    pub(crate) parts: Vec<Part<'a>>,
    /// The name of the track's own variant, if it has variants.
    pub(crate) variant: Option<&'a str>,
    /// Whether the variant is the default.
    pub(crate) is_usual: bool,
    /// Whether the image is a rehearsal.
    pub(crate) is_rehearsal: bool,
    /// Whether the image sets `HSA_OVERRIDE_GFX_VERSION`.
    pub(crate) is_spoof: bool,
    /// The GPU targets whose code is kept in the image, from the highest track that has `slim`.
    /// Empty if no track has it.
    pub(crate) slim: &'a [GpuTarget],
    /// The settings of all tracks, merged. A setting of a higher track replaces that of a lower
    /// track.
    pub(crate) image: ImageSettings,
}

/// The part of an image that one track of a chain adds to the image of the track below it.
pub(crate) struct Part<'a> {
    /// The name of the track.
    pub(crate) track: &'a TrackName,
    /// The variant that an engine builds, if it builds one.
    pub(crate) variant: Option<&'a Variant>,
    /// Whether the track adds project files.
    pub(crate) has_files: bool,
}

impl<'a> Chain<'a> {
    /// Finds the track of a request and the tracks below it.
    ///
    /// # Errors
    /// Fails if a track or variant does not exist, or cannot be rehearsed as requested.
    pub(crate) fn find(
        request: &BuildRequest,
        input: &'a PlanningInput,
    ) -> Result<Self, PlanError> {
        let (name, track) = find(&request.track, input)?;
        let own = Link::find(name, track, request.variant.as_ref(), request.rehearse)?;
        let mut chain = Self {
            name,
            track,
            base: own.base,
            parts: vec![own.part(name, track)],
            variant: own.name,
            is_usual: own.is_usual,
            is_rehearsal: own.is_rehearsal,
            is_spoof: input.tracks.is_spoof(name),
            slim: own.slim,
            image: track.image.clone(),
        };
        // `parse_tracks_with` refuses cycles; the limit is for tracks that were not parsed.
        for _ in 0..=input.tracks.tracks.len() {
            let Base::Track(parent) = chain.base else { return Ok(chain) };
            let (parent, below) = find(parent, input)?;
            let link = Link::find(parent, below, None, chain.is_rehearsal)?;
            chain.base = link.base;
            if chain.slim.is_empty() {
                chain.slim = link.slim;
            }
            chain.parts.insert(0, link.part(parent, below));
            chain.image = chain.image.over(&below.image);
        }
        Err(PlanError::NoSettings { track: name.to_string() })
    }

    /// Returns whether the track of a request can be rehearsed.
    pub(crate) fn has_rehearsal(request: &BuildRequest, input: &PlanningInput) -> bool {
        let request = BuildRequest { variant: None, rehearse: true, ..request.clone() };
        Chain::find(&request, input).is_ok()
    }

    /// Returns whether an engine builds a part of the image.
    pub(crate) fn needs_engine(&self) -> bool {
        self.variants().next().is_some() || matches!(self.base, Base::Packages(_))
    }

    /// Returns the variants that an engine builds, the lowest first.
    pub(crate) fn variants(&self) -> impl Iterator<Item = &'a Variant> {
        self.parts.iter().filter_map(|part| part.variant)
    }

    /// Returns the name of the image. Images of a track that can be built at the same time have
    /// different names.
    pub(crate) fn image_name(&self, gpu: Option<&GpuTarget>) -> String {
        let variant = self.variant.filter(|_| !self.is_usual);
        let name = plan::image_name(self.name.as_str(), variant, gpu.map(GpuTarget::as_str));
        if self.is_rehearsal { format!("rehearsal-{name}") } else { name }
    }
}

fn find<'a>(
    name: &TrackName,
    input: &'a PlanningInput,
) -> Result<(&'a TrackName, &'a Track), PlanError> {
    let found = input.tracks.tracks.get_key_value(name);
    found.ok_or_else(|| PlanError::NoSettings { track: name.to_string() })
}

/// The settings that one track contributes to a chain.
struct Link<'a> {
    base: &'a Base,
    variant: Option<&'a Variant>,
    name: Option<&'a str>,
    is_usual: bool,
    is_rehearsal: bool,
    slim: &'a [GpuTarget],
}

impl<'a> Link<'a> {
    fn part(&self, name: &'a TrackName, track: &Track) -> Part<'a> {
        Part { track: name, variant: self.variant, has_files: !track.files.is_empty() }
    }

    fn find(
        name: &TrackName,
        track: &'a Track,
        asked: Option<&String>,
        rehearse: bool,
    ) -> Result<Self, PlanError> {
        let track_name = || name.to_string();
        let variants = match &track.build {
            Build::Derive { variants, .. } if asked.is_some() && variants.is_empty() => {
                return Err(PlanError::NoVariants { track: track_name() });
            }
            Build::Derive { base, slim, variants, .. } => {
                let chosen = asked.map(|wanted| {
                    variants.get_key_value(wanted).ok_or_else(|| PlanError::UnknownVariant {
                        track: track_name(),
                        variant: wanted.clone(),
                        known: variants.keys().cloned().collect(),
                    })
                });
                let chosen = chosen.transpose()?;
                return Ok(Self {
                    base,
                    variant: None,
                    name: chosen.map(|(variant, _)| variant.as_str()),
                    is_usual: chosen.is_none(),
                    is_rehearsal: rehearse,
                    slim: chosen.map_or(slim, |(_, slim)| slim),
                });
            }
            Build::Stages(variants) => variants,
        };
        let of_rehearsal = variants.rehearsal.as_ref();
        let is_rehearsal = rehearse || (asked.is_some() && asked == of_rehearsal);
        let usual = if is_rehearsal {
            of_rehearsal.ok_or_else(|| PlanError::NoRehearsal { track: track_name() })?
        } else {
            &variants.variant
        };
        let wanted = asked.unwrap_or(usual);
        let Some((chosen, variant)) = variants.variants.get_key_value(wanted) else {
            return Err(PlanError::UnknownVariant {
                track: track_name(),
                variant: wanted.clone(),
                known: variants.variants.keys().cloned().collect(),
            });
        };
        if is_rehearsal && chosen != usual {
            return Err(PlanError::RehearsedOtherwise {
                track: track_name(),
                variant: chosen.clone(),
                rehearsed: usual.clone(),
            });
        }
        let (base, is_usual, slim) = (&variant.base, chosen == usual, &variant.slim);
        Ok(Self { base, variant: Some(variant), name: Some(chosen), is_usual, is_rehearsal, slim })
    }
}
