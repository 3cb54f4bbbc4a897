//! The pins as text for people, as a JSON document, and as variables for shells.

use std::collections::BTreeMap;

use names::{GpuTarget, PinName, Tag};
use serde_json::{Value, json};
use text::Page;

use crate::{ManifestKind, Pinned, Pins};

/// Returns the values of each pin in the file, by key; an unresolved value is null.
pub fn values(pins: &Pins) -> BTreeMap<PinName, Value> {
    let mut all = BTreeMap::new();
    let names = pins.names();
    let kind = |name: &PinName| names.get(name).map(|kind| kind.table());
    for (name, pin) in &pins.sources {
        let commit = resolved(&pin.commit);
        all.insert(
            name.clone(),
            json!({
                "kind": kind(name), "url": pin.url, "ref": pin.git_ref, "version": pin.version,
                "commit": commit, "patches": pin.patches, "args": pin.args, "checked": pin.facts.checked,
                "expires": pin.facts.expires, "evidence": pin.facts.evidence,
                "hold": pin.facts.hold,
            }),
        );
    }
    for (name, pin) in &pins.archives {
        all.insert(name.clone(), json!({
            "kind": kind(name), "project": pin.project, "version": pin.version,
            "sha256": resolved(&pin.sha256), "subdirectory": pin.subdirectory, "patches": pin.patches,
            "args": pin.args, "checked": pin.facts.checked, "expires": pin.facts.expires, "evidence": pin.facts.evidence,
                "hold": pin.facts.hold,
        }));
    }
    for (name, pin) in &pins.images {
        let gpus: Vec<&str> = pin.gpus.iter().map(GpuTarget::as_str).collect();
        all.insert(name.clone(), json!({
            "kind": kind(name), "repository": pin.repository.to_string(),
            "tag": pin.tag.as_ref().map(ToString::to_string), "digest": resolved(&pin.digest),
            "digest_of": pin.kind.map(ManifestKind::name), "follow": pin.follow, "rocm": pin.rocm,
            "gpus": gpus, "discontinued": pin.discontinued, "checked": pin.facts.checked,
            "expires": pin.facts.expires, "evidence": pin.facts.evidence,
                "hold": pin.facts.hold,
        }));
    }
    for (name, pin) in &pins.releases {
        all.insert(name.clone(), json!({
            "kind": kind(name), "index": pin.index, "packages": pin.packages,
            "checked": pin.facts.checked, "expires": pin.facts.expires, "evidence": pin.facts.evidence,
                "hold": pin.facts.hold,
        }));
    }
    all
}

/// Returns a value as text, unless it is unresolved.
fn resolved<T: ToString>(value: &Pinned<T>) -> Option<String> {
    value.resolved().map(ToString::to_string)
}

/// Returns all pins as a JSON document.
pub fn document(pins: &Pins) -> Value {
    let values: BTreeMap<String, Value> =
        values(pins).into_iter().map(|(name, value)| (name.to_string(), value)).collect();
    json!({ "schema": 1, "source_date_epoch": pins.source_date_epoch, "pins": values })
}

/// Returns one line for each pin.
pub fn overview(pins: &Pins) -> Page {
    let mut page = Page::default();
    let all = values(pins);
    let width = all.keys().map(|name| name.as_str().len()).max().unwrap_or(0);
    for (name, value) in &all {
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        let under =
            text("ref").or(text("tag")).or(text("version")).or(text("index")).unwrap_or("–");
        let bound = text("commit").or(text("digest")).or(text("sha256"));
        let bound = match (bound, text("kind")) {
            (Some(bound), _) => {
                bound.chars().take(if bound.contains(':') { 19 } else { 12 }).collect()
            }
            (None, Some("release")) => String::new(),
            (None, _) if value.get("follow") == Some(&Value::Bool(true)) => "followed".to_owned(),
            (None, _) => "unresolved".to_owned(),
        };
        page.line(format_args!(
            "{:8} {name:width$}  {under}  {bound}",
            text("kind").unwrap_or_default()
        ));
    }
    page
}

/// Returns the values of one pin, one line each.
pub fn one(pin: &Value) -> Page {
    let mut page = Page::default();
    for (key, value) in pin.as_object().into_iter().flatten() {
        match value {
            Value::Null if matches!(key.as_str(), "commit" | "digest" | "sha256") => {
                page.line(format_args!("{key:13} unresolved"));
            }
            Value::Null | Value::Bool(false) => {}
            Value::String(text) => page.line(format_args!("{key:13} {text}")),
            Value::Object(all) => {
                for (name, version) in all {
                    let version = version.as_str().unwrap_or_default();
                    page.line(format_args!("{key:13} {name} {version}"));
                }
            }
            Value::Array(all) if all.is_empty() => {}
            Value::Array(all) => {
                let all: Vec<&str> = all.iter().filter_map(Value::as_str).collect();
                page.line(format_args!("{key:13} {}", all.join(", ")));
            }
            Value::Bool(true) | Value::Number(_) => page.line(format_args!("{key:13} {value}")),
        }
    }
    page
}

/// Returns the values as a file that shells and engines can read. No value needs quotes: the parser
/// of `versions.toml` allows no spaces, quotes or dollar signs in them.
pub fn environment(pins: &Pins) -> Page {
    let mut page = Page::default();
    page.line(format_args!(
        "# Written by `build-pipeline pins export`; change versions/versions.toml instead."
    ));
    page.line(format_args!("SOURCE_DATE_EPOCH={}", pins.source_date_epoch));
    let variable = |name: &str| name.to_ascii_uppercase().replace(['-', '.'], "_");
    for (name, pin) in &pins.sources {
        let upper = variable(name.as_str());
        page.line(format_args!("{upper}_URL={}", pin.url));
        option(&mut page, &format!("{upper}_REF"), pin.git_ref.as_deref());
        option(&mut page, &format!("{upper}_VERSION"), pin.version.as_deref());
        bound(&mut page, &format!("{upper}_COMMIT"), resolved(&pin.commit), name);
    }
    for (name, pin) in &pins.archives {
        let upper = variable(name.as_str());
        page.line(format_args!("{upper}_PROJECT={}", pin.project));
        page.line(format_args!("{upper}_VERSION={}", pin.version));
        bound(&mut page, &format!("{upper}_SHA256"), resolved(&pin.sha256), name);
    }
    for (name, pin) in &pins.images {
        let upper = variable(name.as_str());
        option(&mut page, &format!("{upper}_TAG"), pin.tag.as_ref().map(Tag::to_string).as_deref());
        let image = pin.digest.resolved().map(|digest| pin.repository.at(digest).to_string());
        bound(&mut page, &format!("{upper}_IMAGE"), image, name);
    }
    for (name, pin) in &pins.releases {
        let upper = variable(name.as_str());
        page.line(format_args!("{upper}_INDEX={}", pin.index));
        for (package, version) in &pin.packages {
            page.line(format_args!("{upper}_{}={version}", variable(package)));
        }
    }
    page
}

/// Adds a variable, if it has a value.
fn option(page: &mut Page, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        page.line(format_args!("{name}={value}"));
    }
}

/// Adds a variable of a pin, or a comment if the pin is unresolved.
fn bound(page: &mut Page, name: &str, value: Option<String>, pin: &PinName) {
    match value {
        Some(value) => page.line(format_args!("{name}={value}")),
        None => page
            .line(format_args!("# {name} is unresolved; `build-pipeline bump {pin}` looks it up")),
    }
}
