//! The pins as text for people, as a JSON document, and as variables for shells.

use std::collections::BTreeMap;

use names::{GpuTarget, PinName, Tag};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use text::Page;

use crate::{Facts, ManifestKind, Pinned, Pins};

/// All pins, as `pins show --format json` and `pins export --format json` print them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ShownPins<'a> {
    /// The version of this JSON format.
    pub schema: u32,
    /// The time that all images use, in seconds since 1970.
    pub source_date_epoch: u64,
    /// The pins, by name.
    pub pins: BTreeMap<String, ShownPin<'a>>,
}

/// The values of a pin, as `pins show PIN --format json` prints them. An unresolved or absent value
/// is null.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ShownPin<'a> {
    /// The values that depend on the kind of the pin.
    #[serde(flatten)]
    pub values: PinValues<'a>,
    /// The date on which the pin was last checked.
    pub checked: Option<&'a str>,
    /// The date after which the pin is expected to be gone.
    pub expires: Option<&'a str>,
    /// Where the value was read.
    pub evidence: Option<&'a str>,
    /// Why the pin must stay at its value.
    pub hold: Option<&'a str>,
}

/// The values of a pin that depend on its kind.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum PinValues<'a> {
    /// A commit of a git repository.
    Source {
        /// The repository.
        url: &'a str,
        /// The tag or branch.
        r#ref: Option<&'a str>,
        /// The version.
        version: Option<&'a str>,
        /// The commit.
        commit: Option<String>,
        /// The component whose patches apply.
        patches: Option<&'a str>,
        /// Build arguments that describe this tree.
        args: &'a BTreeMap<String, String>,
    },
    /// A release archive.
    Archive {
        /// The project on the index.
        project: &'a str,
        /// The version.
        version: &'a str,
        /// The hash of the archive.
        sha256: Option<String>,
        /// The folder in the archive to use.
        subdirectory: Option<&'a str>,
        /// The component whose patches apply.
        patches: Option<&'a str>,
        /// Build arguments that describe this tree.
        args: &'a BTreeMap<String, String>,
    },
    /// A container image.
    Image {
        /// The repository.
        repository: String,
        /// The tag.
        tag: Option<&'a str>,
        /// The digest.
        digest: Option<String>,
        /// What the digest belongs to: `index` or `manifest`.
        digest_of: Option<&'static str>,
        /// Whether the tag is followed.
        follow: bool,
        /// The ROCm release inside.
        rocm: Option<&'a str>,
        /// The GPU targets for which the image has code.
        gpus: Vec<&'a str>,
        /// Why the vendor no longer builds the image.
        discontinued: Option<&'a str>,
    },
    /// A set of packages.
    Release {
        /// The index.
        index: &'a str,
        /// The versions, by package.
        packages: &'a BTreeMap<String, String>,
    },
}

/// Returns the values of each pin in the file.
fn shown(pins: &Pins) -> BTreeMap<PinName, ShownPin<'_>> {
    let mut all = BTreeMap::new();
    for (name, pin) in &pins.sources {
        let values = PinValues::Source {
            url: &pin.url,
            r#ref: pin.git_ref.as_deref(),
            version: pin.version.as_deref(),
            commit: resolved(&pin.commit),
            patches: pin.patches.as_deref(),
            args: &pin.args,
        };
        all.insert(name.clone(), ShownPin::new(values, &pin.facts));
    }
    for (name, pin) in &pins.archives {
        let values = PinValues::Archive {
            project: &pin.project,
            version: &pin.version,
            sha256: resolved(&pin.sha256),
            subdirectory: pin.subdirectory.as_deref(),
            patches: pin.patches.as_deref(),
            args: &pin.args,
        };
        all.insert(name.clone(), ShownPin::new(values, &pin.facts));
    }
    for (name, pin) in &pins.images {
        let values = PinValues::Image {
            repository: pin.repository.to_string(),
            tag: pin.tag.as_ref().map(Tag::as_str),
            digest: resolved(&pin.digest),
            digest_of: pin.kind.map(ManifestKind::name),
            follow: pin.follow,
            rocm: pin.rocm.as_deref(),
            gpus: pin.gpus.iter().map(GpuTarget::as_str).collect(),
            discontinued: pin.discontinued.as_deref(),
        };
        all.insert(name.clone(), ShownPin::new(values, &pin.facts));
    }
    for (name, pin) in &pins.releases {
        let values = PinValues::Release { index: &pin.index, packages: &pin.packages };
        all.insert(name.clone(), ShownPin::new(values, &pin.facts));
    }
    all
}

impl<'a> ShownPin<'a> {
    fn new(values: PinValues<'a>, facts: &'a Facts) -> Self {
        Self {
            values,
            checked: facts.checked.as_deref(),
            expires: facts.expires.as_deref(),
            evidence: facts.evidence.as_deref(),
            hold: facts.hold.as_deref(),
        }
    }
}

/// Returns the values of each pin in the file, by key; an unresolved value is null.
pub fn values(pins: &Pins) -> BTreeMap<PinName, Value> {
    let all = shown(pins).into_iter();
    // Every value is a text, a list of texts or a map of texts, so it can be written as JSON.
    all.map(|(name, pin)| (name, serde_json::to_value(pin).unwrap_or_default())).collect()
}

/// Returns a value as text, unless it is unresolved.
fn resolved<T: ToString>(value: &Pinned<T>) -> Option<String> {
    value.resolved().map(ToString::to_string)
}

/// Returns all pins as a JSON document.
pub fn document(pins: &Pins) -> ShownPins<'_> {
    let all = shown(pins).into_iter().map(|(name, pin)| (name.to_string(), pin)).collect();
    ShownPins { schema: 1, source_date_epoch: pins.source_date_epoch, pins: all }
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
