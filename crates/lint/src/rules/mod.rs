//! The rules, grouped by what they check. [`crate::rules()`] contains their names and reasons.
//!
//! No version is written here: facts about versions are rows of `versions/lint.toml` and
//! `versions/compat.toml`.

mod absent;
mod access;
mod addresses;
mod apt_lists;
mod arm;
mod builds;
mod built;
mod chips;
mod choices;
mod claims;
mod commands;
mod conflicts;
mod containers;
mod contents;
mod contradictions;
mod copies;
mod dependencies;
mod development;
mod environment;
mod examples;
mod failures;
mod folder;
mod followed;
mod frameworks;
mod gone;
mod health;
mod held;
mod helpers;
mod homes;
mod images;
mod installs;
mod instructions;
mod interpreters;
mod interrupted;
mod isolated;
mod javascript;
mod layers;
mod listeners;
mod lists;
mod managed;
mod mentions;
mod misnamed;
mod modules;
mod moving;
mod names;
mod needs;
mod nodes;
mod ollama;
mod operators;
mod options;
mod origins;
mod overrides;
mod owners;
mod packages;
mod pins;
mod pipes;
mod programs;
mod projects;
mod pythons;
mod reached;
mod readers;
mod requirements;
mod rocm;
mod sandbox;
mod scripts;
mod secrets;
mod selection;
mod shells;
mod sources;
pub(crate) mod stages;
mod starts;
mod steps;
mod supervision;
mod surroundings;
mod syntax;
mod targets;
mod timeouts;
mod tracks;
mod transitive;
mod traps;
mod unlocked;
mod unread;
mod users;
mod variables;
mod words;
mod writable;

pub(crate) use commands::{cloned_folder, plain};
pub(crate) use folder::is_root;
pub(crate) use pins::check as check_pins;
pub(crate) use programs::is_conditional;
pub(crate) use steps::may_be_root;
pub(crate) use variables::passes_itself;

use crate::image::{State, Step, walk};
use crate::target::Match;
use crate::{Context, Facts, Findings, Hit, Kind, Severity};

/// Returns the path of an image, without its registry, tag and digest.
pub(crate) fn image_path(reference: &str) -> &str {
    images::parts(reference).path
}

/// Returns the last user of a Dockerfile, if it is known.
pub(crate) fn last_user(facts: &Facts<'_>) -> Option<String> {
    traps::last_user(facts).map(|(_, user)| user)
}

/// Returns what is known of the image of a Dockerfile.
pub(crate) fn last_state(facts: &Facts<'_>) -> Option<State> {
    let mut last = None;
    walk(facts, &mut |state, step| {
        if matches!(step, Step::End { stage } if *stage == facts.stages.len()) {
            last = Some(state.clone());
        }
    });
    last
}

/// Runs every rule on the facts of a file.
pub(crate) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    match facts.kind {
        Kind::Pins => return pins::run(facts, context, found),
        Kind::Python => return tracks::python(facts, context, found),
        Kind::Tracks => {
            tracks::run(facts, context, found);
            return variables::each(facts, context, found);
        }
        _ => {}
    }
    variables::run(facts, context, found);
    overrides::run(facts, context, found);
    owners::run(facts, found);
    selection::run(facts, found);
    images::run(facts, context, found);
    containers::run(facts, context, found);
    packages::run(facts, context, found);
    conflicts::run(facts, context, found);
    installs::run(facts, context, found);
    isolated::run(facts, found);
    sources::run(facts, context, found);
    rocm::run(facts, context, found);
    commands::run(facts, found);
    builds::run(facts, context, found);
    followed::run(facts, context, found);
    traps::run(facts, context, found);
    stages::run(facts, found);
    targets::flash_attention(facts, found);
    targets::unnamed(facts, found);
    contents::run(facts, found);
    instructions::run(facts, found);
    layers::run(facts, found);
    managed::run(facts, found);
    programs::run(facts, found);
    gone::run(facts, context, found);
    dependencies::run(facts, context, found);
    health::run(facts, found);
    apt_lists::run(facts, found);
    syntax::run(facts, found);
    needs::run(facts, context, found);
    users::run(facts, found);
    sandbox::run(facts, found);
    misnamed::run(facts, found);
    modules::run(facts, context, found);
    pythons::run(facts, found);
    interpreters::run(facts, found);
    origins::run(facts, found);
    copies::run(facts, found);
    shells::run(facts, context, found);
    development::run(facts, found);
    arm::run(facts, found);
    choices::run(facts, context, found);
    claims::run(facts, context, found);
    folder::run(facts, context, found);
    built::run(facts, context, found);
    reached::run(facts, context, found);
    frameworks::run(facts, found);
    javascript::run(facts, context, found);
    requirements::run(facts, context, found);
    unlocked::run(facts, context, found);
    transitive::run(facts, context, found);
    projects::run(facts, context, found);
    held::run(facts, context, found);
    environment::run(facts, context, found);
    listeners::run(facts, context, found);
    lists::run(facts, found);
    moving::run(facts, found);
    helpers::run(facts, found);
    nodes::run(facts, found);
    operators::run(facts, found);
    access::run(facts, context, found);
    chips::run(facts, found);
    names::run(facts, found);
    words::run(facts, context, found);
    options::run(facts, context, found);
    readers::run(facts, context, found);
    failures::run(facts, context, found);
    pipes::run(facts, found);
    interrupted::run(facts, found);
    surroundings::run(facts, found);
    supervision::run(facts, context, found);
    timeouts::run(facts, found);
    contradictions::run(facts, found);
    mentions::run(facts, context, found);
    secrets::run(facts, found);
    steps::run(facts, found);
    starts::run(facts, context, found);
    scripts::run(facts, context, found);
}

/// Lowers the severity of a row about a GPU if it is not certain that the file targets that GPU.
/// Returns `None` if the file targets other GPUs.
fn for_gpu<'r>(hit: Hit<'r>, sure: Match) -> Option<Hit<'r>> {
    match sure {
        Match::No => None,
        Match::Unknown => Some(hit.at_most(Severity::Information)),
        Match::Possible => Some(hit.at_most(Severity::Warning)),
        Match::Certain => Some(hit),
    }
}
