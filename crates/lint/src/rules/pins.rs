//! Rules for `versions.toml`: pins that are unresolved, discontinued, expired, duplicated, or
//! incompatible.

use std::cell::LazyCell;
use std::collections::BTreeMap;

use ::names::PinName;
use ::pins::compat::Support;
use ::pins::{Pinned, Pins, parse_versions, pin_lines};

use super::packages::mismatches;
use super::words::stale_index;
use crate::{Context, Facts, Findings, Hit};

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    match parse_versions(facts.file, facts.text) {
        Ok(pins) => check(&pins, facts.text, context, found),
        Err(error) => {
            for problem in error.problems {
                found.add_with("pins-invalid", problem.line, problem.message, problem.help);
            }
        }
    }
}

/// Checks pins that were read from `text`.
pub(crate) fn check(pins: &Pins, text: &str, context: Context<'_>, found: &mut Findings<'_>) {
    let lines = LazyCell::new(|| pin_lines(text));
    let line = |name: &PinName| lines.get(name).copied().unwrap_or(1);
    unresolved(pins, &line, found);
    images(pins, context, &line, found);
    expired(pins, context, &line, found);
    doubled(pins, &line, found);
    releases(pins, context, &line, found);
}

fn unresolved(pins: &Pins, line: &dyn Fn(&PinName) -> usize, found: &mut Findings<'_>) {
    let sources = pins.sources.iter().map(|(name, pin)| (name, pin.commit == Pinned::Unresolved));
    let archives = pins.archives.iter().map(|(name, pin)| (name, pin.sha256 == Pinned::Unresolved));
    // A followed tag is looked up in every run.
    let images = pins
        .images
        .iter()
        .map(|(name, pin)| (name, pin.digest == Pinned::Unresolved && !pin.follow));
    for (name, is_unresolved) in sources.chain(archives).chain(images) {
        if is_unresolved {
            let help = format!("`build-pipeline bump {name}` looks up the value");
            found.add_with(
                "pin-unresolved",
                line(name),
                format!("pin `{name}` is unresolved"),
                help,
            );
        }
    }
}

fn images(
    pins: &Pins,
    context: Context<'_>,
    line: &dyn Fn(&PinName) -> usize,
    found: &mut Findings<'_>,
) {
    for (name, pin) in &pins.images {
        if let Some(why) = &pin.discontinued
            && found.wants("pin-discontinued")
        {
            found.add_with(
                "pin-discontinued",
                line(name),
                format!("pin `{name}` is discontinued"),
                why,
            );
        }
        let Some((compat, rocm)) = context.compat.zip(pin.rocm.as_deref()) else { continue };
        let Some(gpu) = context.gpu.or(context.project_gpu) else { continue };
        // A release is judged on a kernel with the fixes; a release that fails there fails
        // everywhere.
        if let Some((row, Support::Unsupported)) = compat.kernel_support(gpu, rocm, true) {
            let source = &row.evidence.source;
            found.add(
                "rocm-too-old",
                line(name),
                format!("pin `{name}` has ROCm {rocm}, which does not support {gpu} ({source})"),
            );
        }
    }
}

fn expired(
    pins: &Pins,
    context: Context<'_>,
    line: &dyn Fn(&PinName) -> usize,
    found: &mut Findings<'_>,
) {
    let Some(today) = context.today else { return };
    let sources = pins.sources.iter().map(|(name, pin)| (name, &pin.facts));
    let archives = pins.archives.iter().map(|(name, pin)| (name, &pin.facts));
    let images = pins.images.iter().map(|(name, pin)| (name, &pin.facts));
    let releases = pins.releases.iter().map(|(name, pin)| (name, &pin.facts));
    for (name, facts) in sources.chain(archives).chain(images).chain(releases) {
        if let Some(day) = facts.expires.as_deref().filter(|day| *day < today) {
            found.add("pin-expired", line(name), format!("pin `{name}` expired on {day}"));
        }
    }
}

fn doubled(pins: &Pins, line: &dyn Fn(&PinName) -> usize, found: &mut Findings<'_>) {
    let mut commits: BTreeMap<(String, String), &PinName> = BTreeMap::new();
    let mut tags: BTreeMap<(String, String), (&PinName, String)> = BTreeMap::new();
    let mut note = |from: String, name, tag: Option<String>, value: Option<String>| {
        let Some(value) = value else { return };
        if let Some(tag) = tag {
            let earlier = tags.entry((from.clone(), tag.clone())).or_insert((name, value.clone()));
            if earlier.1 != value {
                found.add(
                    "pin-tag-disagrees",
                    line(name),
                    format!(
                        "`{tag}` is `{value}` here, but `{}` for pin `{}`",
                        earlier.1, earlier.0
                    ),
                );
            }
        }
        let earlier = commits.entry((from, value)).or_insert(name);
        if *earlier != name {
            found.add(
                "pin-duplicate",
                line(name),
                format!("pin `{name}` has the same value as `{earlier}`"),
            );
        }
    };
    for (name, pin) in &pins.sources {
        let url = pin.url.trim_end_matches('/').trim_end_matches(".git").to_owned();
        note(url, name, pin.git_ref.clone(), pin.commit.resolved().map(ToString::to_string));
    }
    for (name, pin) in &pins.images {
        let tag = pin.tag.as_ref().map(ToString::to_string);
        let digest = pin.digest.resolved().map(ToString::to_string);
        note(pin.repository.to_string(), name, tag, digest);
    }
}

fn releases(
    pins: &Pins,
    context: Context<'_>,
    line: &dyn Fn(&PinName) -> usize,
    found: &mut Findings<'_>,
) {
    for (name, release) in &pins.releases {
        if let Some(torch) = release.packages.get("torch") {
            for (_, message) in mismatches(torch, &release.packages, context.compat) {
                found.add("packages-do-not-match", line(name), format!("pin `{name}`: {message}"));
            }
        }
        let gpu = context.gpu.or(context.project_gpu);
        if let Some(hit) = stale_index(&release.index, 1, gpu, context) {
            found.hit(Hit { line: line(name), ..hit });
        }
        let Some(compat) = context.compat else { continue };
        for (package, version) in &release.packages {
            for (row, bad) in compat.bad(package, version, &release.packages) {
                let message = format!("`{package}` `{version}`: {} [{row}]", bad.why);
                let hit = Hit::new("known-bad-version", line(name), message);
                found.hit(hit.compat(&bad.evidence).help(format!("use {}", bad.instead)));
            }
        }
    }
}
