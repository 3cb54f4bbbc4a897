//! Checks the relations between tracks: bases that are tracks, letters, and names of images.
//!
//! Most of these checks need only the table of a track, so they also apply to a track with another
//! problem.

use std::collections::{BTreeMap, BTreeSet};

use super::{Base, Build, Track, is_built, letter};
use crate::problem::{Report, Reported, Wrong, list, nearest, wrong};
use crate::reader::{Entry, Table};
use names::TrackName;

/// The settings of a track that its relations depend on.
struct Outline<'t> {
    /// The tracks that at least one of its variants is based on.
    bases: Vec<&'t str>,
    /// The track that it is based on by default.
    parent: Option<&'t str>,
    letter: Option<char>,
    is_built: bool,
}

impl<'t> Outline<'t> {
    fn of_track(track: &'t Track) -> Self {
        let all: Vec<&Base> = match &track.build {
            Build::Derive { base, .. } => vec![base],
            Build::Stages(all) => all.variants.values().map(|variant| &variant.base).collect(),
        };
        let base = |base: &&'t Base| match base {
            Base::Track(name) => Some(name.as_str()),
            Base::Image(_) | Base::Packages(_) => None,
        };
        Self {
            bases: all.iter().filter_map(base).collect(),
            parent: track.parent().map(TrackName::as_str),
            letter: track.letter,
            is_built: track.variants().is_some(),
        }
    }

    fn of_table(table: &Table<'t>) -> Self {
        let text = |of: &Table<'t>, key| of.get(key).and_then(|entry| entry.text());
        let own = text(table, "track");
        let variants = table.get("variants").and_then(|entry| entry.as_table());
        let variants = variants.iter().flat_map(Table::entries);
        let of_variants: BTreeMap<&str, &str> = variants
            .filter_map(|entry| Some((entry.key, text(&entry.as_table()?, "track")?)))
            .collect();
        let default = text(table, "variant").and_then(|name| of_variants.get(name).copied());
        Self {
            bases: own.into_iter().chain(of_variants.into_values()).collect(),
            parent: own.or(default),
            letter: text(table, "letter").and_then(|text| letter(text).ok()),
            is_built: is_built(table),
        }
    }
}

/// Checks the relations of the tracks in `entries`. `tracks` are the valid ones among them, and the
/// tracks that exist in addition.
pub(super) fn check<'t>(
    report: &mut Report<'_>,
    entries: &[Entry<'t>],
    tracks: &BTreeMap<TrackName, Track>,
) -> Result<(), Reported> {
    let of_track = |(name, track)| (TrackName::as_str(name), Outline::of_track(track));
    let mut outlines: BTreeMap<&str, Outline<'_>> = tracks.iter().map(of_track).collect();
    for entry in entries {
        let table = entry.as_table().filter(|_| entry.key.parse::<TrackName>().is_ok());
        outlines.extend(table.map(|table| (entry.key, Outline::of_table(&table))));
    }
    let mut names = image_names(tracks.iter());
    names.sort_unstable();
    let twice: BTreeSet<&str> =
        names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0].as_str()).collect();
    // The members of each cycle that was reported.
    let mut cycles = BTreeSet::new();
    let mut outcome = Ok(());
    for entry in entries {
        let mut problems = Vec::new();
        let track = tracks.get_key_value(entry.key);
        if outlines.contains_key(entry.key) {
            let is_spoof = track.is_some_and(|(_, track)| track.spoof() == Some(true));
            check_bases(entry.key, is_spoof, &outlines, &mut cycles, &mut problems);
            problems.extend(check_letter(entry.key, &outlines));
        }
        let own = image_names(track.into_iter());
        problems.extend(own.iter().find(|own| twice.contains(own.as_str())).map(|same| {
            wrong(
                format!("two tracks or variants would write the image `{same}`"),
                "rename one of them",
            )
        }));
        for wrong in problems {
            outcome = Err(report.add(&entry.key_span, wrong));
        }
    }
    outcome
}

/// Checks the tracks that a track is based on. A cycle is reported once, for its first member, and
/// not for the tracks that are based on it.
fn check_bases<'t>(
    name: &'t str,
    is_spoof: bool,
    all: &BTreeMap<&'t str, Outline<'t>>,
    cycles: &mut BTreeSet<Vec<&'t str>>,
    problems: &mut Vec<Wrong>,
) {
    let bases = all.get(name).into_iter().flat_map(|outline| &outline.bases);
    let bases: BTreeSet<&str> = bases.copied().collect();
    for parent in bases {
        if !all.contains_key(parent) {
            problems.extend(missing(name, parent, all));
            continue;
        }
        let chain = chain(parent, all);
        if let Some(end) = chain.iter().position(|known| *known == name) {
            let between = &chain[..end];
            let mut members = chain[..=end].to_vec();
            members.sort_unstable();
            if cycles.insert(members) {
                let through = if between.is_empty() {
                    String::new()
                } else {
                    format!(", through {}", list(between.iter().copied()))
                };
                problems.push(wrong(
                    format!("track `{name}` is based on itself{through}"),
                    "base one of them on an image pin or on locked packages",
                ));
            }
        } else if is_spoof && chain.iter().any(|known| all[known].is_built) {
            problems.push(wrong(
                format!("track `{name}` has `spoof`, but an engine builds its base `{parent}`"),
                "remove `spoof`: an image that is built for the GPU needs no override",
            ));
        }
    }
}

/// Returns the problem with a base that is not a track. A text that cannot be the name of a track
/// was reported when it was read.
fn missing(name: &str, parent: &str, all: &BTreeMap<&str, Outline<'_>>) -> Option<Wrong> {
    parent.parse::<TrackName>().ok()?;
    let known = || all.keys().copied().filter(|one| *one != name);
    let help = match nearest(parent, known()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the other tracks are {}", list(known())),
    };
    Some(wrong(format!("track `{name}` is based on `{parent}`, which is not a track"), help))
}

/// Returns the tracks that a track is based on, starting with the track itself. Ends at the first
/// track that does not exist or that is in the chain already.
fn chain<'t>(name: &'t str, all: &BTreeMap<&'t str, Outline<'t>>) -> Vec<&'t str> {
    let mut chain: Vec<&str> = Vec::new();
    let mut next = Some(name);
    while let Some(current) = next.filter(|next| !chain.contains(next)) {
        let Some(outline) = all.get(current) else { break };
        chain.push(current);
        next = outline.parent;
    }
    chain
}

fn check_letter(name: &str, all: &BTreeMap<&str, Outline<'_>>) -> Option<Wrong> {
    let letter = all.get(name)?.letter?;
    let (other, _) =
        all.iter().find(|(other, its)| its.letter == Some(letter) && **other != name)?;
    Some(wrong(
        format!("tracks `{name}` and `{other}` have the same letter"),
        "change or remove one of them",
    ))
}

/// Returns the names of all images that the tracks and their variants write.
fn image_names<'a>(all: impl Iterator<Item = (&'a TrackName, &'a Track)>) -> Vec<String> {
    let mut names = Vec::new();
    for (name, track) in all {
        names.push(name.to_string());
        names.extend(track.derived_variants().map(|variant| format!("{name}-{variant}")));
        let Some(variants) = track.variants() else { continue };
        let is_usual = |variant: &String| {
            *variant == variants.variant || Some(variant) == variants.rehearsal.as_ref()
        };
        let others = variants.variants.keys().filter(|variant| !is_usual(variant));
        names.extend(others.map(|variant| format!("{name}-{variant}")));
    }
    names
}
