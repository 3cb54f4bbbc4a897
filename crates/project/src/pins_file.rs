//! The file with the pins: reads it, finds a pin by name, and lists known problems between pins.

use std::collections::BTreeMap;
use std::path::Path;

use failure::{Failure, Kind};
use names::{ImageRef, PinName};
use pins::{Compat, Pins};
use plan::Input;

use crate::folder::{read_text, unreadable};
use crate::inside;

/// The path of the file from the project's root.
pub const FILE: &str = "versions/versions.toml";

/// Reads the text of the file in the project at `root`, and the pins in it.
///
/// # Errors
/// The file cannot be read, or something in it is wrong.
pub fn read(root: &Path) -> Result<(String, Pins), Failure> {
    let text = inside::check(root, FILE).and_then(|()| read_text(&root.join(FILE)));
    let text = text.map_err(|error| unreadable(root, FILE, &error))?;
    match pins::parse_versions(FILE, &text) {
        Ok(pins) => Ok((text, pins)),
        Err(error) => Err(Failure::places(error, text)),
    }
}

/// Returns the pin with the name that was typed.
///
/// # Errors
/// There is no such pin; the hint names a similar one.
pub fn pin_name(typed: &str, pins: &Pins) -> Result<PinName, Failure> {
    let known = pins.names();
    if let Some(name) = typed.parse::<PinName>().ok().filter(|name| known.contains_key(name)) {
        return Ok(name);
    }
    let told = Failure::new(Kind::Input, format!("there is no pin `{typed}`"));
    Err(match pins.nearest_name(typed) {
        Some(near) => told.hint(format!("did you mean `{near}`?")),
        None => told.hint("`build-pipeline pins show` lists the pins"),
    })
}

/// Returns the value of a pin, and its input as plans define it. Returns `None` for an unresolved
/// pin, and for a release, which has no single input to copy.
pub fn input_of(pins: &Pins, name: &PinName) -> Option<(String, Input)> {
    if let Some(pin) = pins.images.get(name) {
        let digest = pin.digest.resolved()?.clone();
        let (repository, tag) = (pin.repository.clone(), pin.tag.clone());
        let value = digest.to_string();
        let reference = ImageRef { repository, tag, digest: Some(digest) };
        return Some((value, Input::Image { reference, manifest: None }));
    }
    if let Some(pin) = pins.sources.get(name) {
        let (url, commit) = (pin.url.clone(), pin.commit.resolved()?.clone());
        return Some((commit.to_string(), Input::Source { url, commit, version: None }));
    }
    let pin = pins.archives.get(name)?;
    let sha256 = pin.sha256.resolved()?.clone();
    let (project, version) = (pin.project.clone(), pin.version.clone());
    let value = sha256.to_string();
    Some((value, Input::Archive { project, version, sha256, subdirectory: None }))
}

/// Returns the known problems of the pin `name`, alone or with other pins of its set, one string
/// each.
pub fn couplings(compat: &Compat, pins: &Pins, name: &PinName) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(pin) = pins.sources.get(name) else { return warnings };
    let (Some(version), Some(package)) = (&pin.version, package(&pin.url)) else { return warnings };
    // Other pins of the same set have the same suffix: `vllm-legacy` goes with `pytorch-legacy`.
    let suffix = name.as_str().split_once('-').map_or("", |(_, suffix)| suffix);
    let others: BTreeMap<String, String> = pins
        .sources
        .iter()
        .filter(|(other, _)| other.as_str().split_once('-').map_or("", |(_, s)| s) == suffix)
        .filter_map(|(_, other)| Some((package_name(&other.url)?, other.version.clone()?)))
        .collect();
    for (row, bad) in compat.bad(package, version, &others) {
        warnings.push(format!(
            "{package} {version}: {}; use {} [{row}: {}, {}]",
            bad.why, bad.instead, bad.evidence.source, bad.evidence.checked
        ));
    }
    for (other, release) in &others {
        for (row, bad) in
            compat.bad(other, release, &BTreeMap::from([(package.to_owned(), version.clone())]))
        {
            if bad.with.contains_key(package) {
                warnings.push(format!(
                    "{other} {release} with {package} {version}: {}; use {} [{row}]",
                    bad.why, bad.instead
                ));
            }
        }
    }
    warnings
}

fn package_name(url: &str) -> Option<String> {
    package(url).map(str::to_owned)
}

/// Returns the package name of a repository.
pub fn package(url: &str) -> Option<&str> {
    let last = url.trim_end_matches('/').trim_end_matches(".git").rsplit('/').next()?;
    Some(if last == "pytorch" { "torch" } else { last })
}
