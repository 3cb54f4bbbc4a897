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

/// Returns the unresolved pins in the project's file and those that its tracks use, each with its
/// recorded tag, branch or version. `own` are the pins in the project's file.
///
/// # Errors
/// A data file is wrong.
pub fn wanted_unresolved(project: &Project, own: &Pins) -> Result<Vec<(PinName, String)>, Failure> {
    let used = used(project)?;
    let is_wanted = |name: &PinName| own.names().contains_key(name) || used.contains(name);
    Ok(unresolved(&project.pins()?).into_iter().filter(|(name, _)| is_wanted(name)).collect())
}

/// Returns all pins that can be bumped, each with the value `latest`.
pub fn newest(pins: &Pins) -> Vec<(PinName, String)> {
    let can_be_bumped = |(_, kind): &(&PinName, PinKind)| *kind != PinKind::Release;
    let names = pins.names().into_iter().filter(can_be_bumped);
    names.map(|(name, _)| (name.clone(), "latest".to_owned())).collect()
}

/// Returns the pins that the project's own tracks use.
fn used(project: &Project) -> Result<BTreeSet<PinName>, Failure> {
    let (all, own) = (project.tracks()?, project.own_tracks()?);
    let chains = own.iter().flat_map(|name| all.chain(name));
    Ok(chains.flat_map(|(_, track)| track.pins()).cloned().collect())
}
