//! Rules for `tracks.toml` and `python.toml`: invalid files, pins that do not exist, missing files.
//! The variables of tracks are checked like those of any image.

use ::pins::{Base, References, parse_python, parse_python_with, parse_tracks_with};

use crate::{Context, Facts, Findings};

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let (file, text) = (facts.file, facts.text);
    let known = References { pins: context.pins, tracks: context.tracks };
    let tracks = match parse_tracks_with(file, text, known) {
        Ok(tracks) => tracks,
        Err(error) => return invalid(error, found),
    };
    let Some(exists) = context.exists else { return };
    let all = tracks.tracks.values().filter_map(|track| track.variants());
    for variant in all.flat_map(|variants| variants.variants.values()) {
        // A Python lock that has not been made yet is like an unresolved pin; planning reports it.
        let mut files: Vec<(&str, String)> = variant
            .stages
            .iter()
            .map(|stage| (&*stage.dockerfile, stage.dockerfile.clone()))
            .collect();
        if let Base::Packages(name) = &variant.base {
            files.push((name, format!("versions/locks/{name}.toml")));
        }
        for (word, path) in
            files.into_iter().filter(|(_, path)| exists.exists(file, path) == Some(false))
        {
            let quoted = format!("\"{word}\"");
            let line = facts.lines().find(|(_, line)| line.contains(&quoted)).map_or(1, |(n, _)| n);
            found.add(
                "missing-file",
                line,
                format!("a track needs `{path}`, which does not exist"),
            );
        }
    }
}

/// Checks `python.toml`.
pub(super) fn python(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let sets = match context.pins {
        Some(pins) => parse_python_with(facts.file, facts.text, pins),
        None => parse_python(facts.file, facts.text),
    };
    if let Err(error) = sets {
        invalid(error, found);
    }
}

fn invalid(error: ::pins::ParseError, found: &mut Findings<'_>) {
    for problem in error.problems {
        found.add_with("pins-invalid", problem.line, problem.message, problem.help);
    }
}
