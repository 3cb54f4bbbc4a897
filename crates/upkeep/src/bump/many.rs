//! The pins that `bump` changes in one run.

use std::collections::BTreeSet;

use failure::Failure;
use names::PinName;
use pins::{PinKind, Pinned, Pins};
use project::Project;

/// Returns the unresolved pins, except those that follow a tag, each with its recorded tag, branch
/// or version, or with `latest` if none is recorded.
pub fn unresolved(pins: &Pins) -> Vec<(PinName, String)> {
    let latest = || "latest".to_owned();
    let sources = pins.sources.iter().filter(|(_, pin)| pin.commit == Pinned::Unresolved);
    let sources = sources.map(|(name, pin)| (name, pin.git_ref.clone().unwrap_or_else(latest)));
    let archives = pins.archives.iter().filter(|(_, pin)| pin.sha256 == Pinned::Unresolved);
    let archives = archives.map(|(name, pin)| (name, pin.version.clone()));
    // If a pin follows its tag, each build looks up the digest.
    let images =
        pins.images.iter().filter(|(_, pin)| pin.digest == Pinned::Unresolved && !pin.follow);
    let images =
        images.map(|(name, pin)| (name, pin.tag.as_ref().map_or_else(latest, ToString::to_string)));
    let all = sources.chain(archives).chain(images);
    all.map(|(name, value)| (name.clone(), value)).collect()
}

/// Returns the unresolved pins among [`pins_of`] the project, each with its recorded tag, branch or
/// version. `own` are the pins in the project's file.
///
/// # Errors
/// A data file is wrong.
pub fn wanted_unresolved(project: &Project, own: &Pins) -> Result<Vec<(PinName, String)>, Failure> {
    let wanted = pins_of(project, own)?;
    let all = unresolved(&project.pins()?);
    Ok(all.into_iter().filter(|(name, _)| wanted.contains(name)).collect())
}

/// Returns all pins that can be bumped, each with the value `latest`.
pub fn newest(pins: &Pins) -> Vec<(PinName, String)> {
    let can_be_bumped = |(_, kind): &(&PinName, PinKind)| *kind != PinKind::Release;
    let names = pins.names().into_iter().filter(can_be_bumped);
    names.map(|(name, _)| (name.clone(), "latest".to_owned())).collect()
}

/// Returns the pins in the project's file, which are `own`, and those that its own tracks use.
///
/// # Errors
/// A data file is wrong.
pub fn pins_of(project: &Project, own: &Pins) -> Result<BTreeSet<PinName>, Failure> {
    let (all, tracks) = (project.tracks()?, project.own_tracks()?);
    let chains = tracks.iter().flat_map(|name| all.chain(name));
    let used = chains.flat_map(|(_, track)| track.pins());
    Ok(used.chain(own.names().into_keys()).cloned().collect())
}
