//! Checks an image, field by field, against the image that a plan and its base define.
//!
//! Digests alone would give a yes or no. People want to know *what* differs, so manifests and
//! configs are compared part by part, and parts that cannot be compared are reported as unchecked.

use std::collections::BTreeSet;

use names::Digest;
use plan::labels;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The documents of an image.
#[derive(Debug, Clone, Copy)]
pub struct Documents<'a> {
    /// The manifest's bytes.
    pub manifest: &'a [u8],
    /// The config's bytes.
    pub config: &'a [u8],
}

/// The result of comparing one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FieldCheck {
    /// The field, for example `label architecture`.
    pub field: String,
    /// The result.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// The result of comparing a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// The value is correct.
    Same,
    /// The value differs.
    Differs {
        /// The required value.
        expected: String,
        /// The actual value.
        found: String,
    },
    /// The value is required, but missing.
    Missing {
        /// The required value.
        expected: String,
    },
    /// The value is present, but must not be.
    Unexpected {
        /// The actual value.
        found: String,
    },
    /// The value could not be compared.
    Unchecked {
        /// The reason.
        why: String,
    },
}

/// The verdict of a verification over all fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The image is exactly the one that the plan and the pins define.
    Proven,
    /// The image differs, although its labels claim the current plan.
    Differs,
    /// The image's labels claim pins, a base or a `source-date-epoch` that differ from the current
    /// ones.
    OtherPins,
    /// The image's labels claim the current pins, but another plan: the project or this program
    /// has changed since.
    OtherPlan,
    /// Nothing differs, but an engine built the image. A plan cannot predict its layers; only a
    /// rebuild proves them.
    AsPlanned,
    /// Nothing differs, but not everything could be compared.
    Incomplete,
}

/// Compares an image with the required one. The digests of both are already verified.
///
/// # Errors
/// Fails if a document is not JSON.
pub fn compare(
    expected: Documents<'_>,
    found: Documents<'_>,
) -> Result<Vec<FieldCheck>, serde_json::Error> {
    let parse = serde_json::from_slice::<Value>;
    let (manifest, config) = (
        (parse(expected.manifest)?, parse(found.manifest)?),
        (parse(expected.config)?, parse(found.config)?),
    );
    let mut checks = vec![
        check(
            "manifest digest",
            Some(text(&Digest::of(expected.manifest))),
            Some(text(&Digest::of(found.manifest))),
        ),
        check(
            "config digest",
            Some(text(&Digest::of(expected.config))),
            Some(text(&Digest::of(found.config))),
        ),
    ];
    objects("label", [&config.0, &config.1].map(|c| c.pointer("/config/Labels")), &mut checks);
    environment([&config.0, &config.1], &mut checks);
    let inner = [&config.0, &config.1]
        .map(|c| c.pointer("/config").map(|inner| without(inner, &["Labels", "Env"])));
    objects("config", inner.each_ref().map(Option::as_ref), &mut checks);
    let outer = [&config.0, &config.1].map(|c| without(c, &["config"]));
    objects("image", outer.each_ref().map(Some), &mut checks);
    objects("annotation", [&manifest.0, &manifest.1].map(|m| m.get("annotations")), &mut checks);
    let rest = [&manifest.0, &manifest.1].map(|m| without(m, &["annotations", "config"]));
    objects("manifest", rest.each_ref().map(Some), &mut checks);
    // The config's digest and size follow from its bytes, which were compared above.
    let pointer = [&manifest.0, &manifest.1]
        .map(|m| m.get("config").map(|descriptor| without(descriptor, &["digest", "size"])));
    objects("manifest config", pointer.each_ref().map(Option::as_ref), &mut checks);
    Ok(checks)
}

/// Compares only what the plan determines, if the base is not available: labels, annotations, the
/// platform, the time, and the settings of the track.
///
/// # Errors
/// Fails if a document is not JSON.
pub fn compare_with_plan(
    plan: &plan::Plan,
    found: Documents<'_>,
    why: &str,
) -> Result<Vec<FieldCheck>, serde_json::Error> {
    let config: Value = serde_json::from_slice(found.config)?;
    let manifest: Value = serde_json::from_slice(found.manifest)?;
    let mut checks = Vec::new();
    let expected: Value =
        plan.final_labels().into_iter().map(|(key, value)| (key, Value::from(value))).collect();
    let edit = plan.image_edit();
    // The other labels may come from the base.
    let is_ours = |key: &String| expected.get(key).is_some() || edit.resets(key);
    for (what, place) in
        [("label", config.pointer("/config/Labels")), ("annotation", manifest.get("annotations"))]
    {
        let entries = place.and_then(Value::as_object).into_iter().flatten();
        let ours = entries.filter(|(key, _)| is_ours(key));
        let ours = ours.map(|(key, value)| (key.clone(), value.clone())).collect();
        objects(what, [Some(&expected), Some(&ours)], &mut checks);
    }
    let variables = env_of(&config);
    for (name, value) in &edit.env {
        let field = format!("variable {name}");
        checks.push(check(&field, Some(value.clone()), values_of(&variables, name)));
    }
    let platform = plan::Platform::linux_amd64();
    for (key, wanted) in [("architecture", platform.architecture), ("os", platform.os)] {
        let there = config.get(key).map(text_of);
        checks.push(check(&format!("image {key}"), Some(wanted), there));
    }
    let created = config.get("created").map(text_of);
    checks.push(check("image created", Some(edit.created.clone()), created));
    for (what, key, wanted) in [
        ("arguments", "Cmd", edit.cmd.clone().map(Value::from)),
        ("user", "User", edit.user.clone().map(Value::from)),
        ("working directory", "WorkingDir", edit.working_dir.clone().map(Value::from)),
    ] {
        if wanted.is_some() {
            let value = config.get("config").and_then(|inner| inner.get(key));
            checks.push(compared(what, wanted.as_ref(), value));
        }
    }
    let words = config.pointer("/config/Entrypoint").and_then(Value::as_array);
    let own = edit.entrypoint_prefix.iter().chain(edit.entrypoint.iter().flatten());
    let wanted: Value = own.cloned().collect();
    // The base's own entrypoint follows, unless the plan has another one.
    let count = match edit.entrypoint {
        Some(_) => usize::MAX,
        None => edit.entrypoint_prefix.len(),
    };
    let begins: Value = words.into_iter().flatten().take(count).cloned().collect();
    checks.push(compared("start of the entrypoint", Some(&wanted), Some(&begins)));
    for field in
        ["manifest digest", "config digest", "layers", "everything inherited from the base"]
    {
        checks.push(FieldCheck {
            field: field.to_owned(),
            verdict: Verdict::Unchecked { why: why.to_owned() },
        });
    }
    Ok(checks)
}

/// Returns the combined verdict of the checks.
pub fn outcome(checks: &[FieldCheck]) -> Outcome {
    let is_bad =
        |check: &&FieldCheck| !matches!(check.verdict, Verdict::Same | Verdict::Unchecked { .. });
    // `bump` raises `source-date-epoch`, which all tracks use, so the time is like a pin.
    let pins = [labels::PINS_DIGEST, labels::BASE_DIGEST, labels::CREATED];
    let plan = [labels::PLAN_DIGEST, labels::FILES_DIGEST];
    let claims_other = |key: &str| {
        let field = format!("label {key}");
        let is_claim = |check: &FieldCheck| matches!(check.verdict, Verdict::Differs { .. });
        checks.iter().any(|check| check.field == field && is_claim(check))
    };
    if pins.into_iter().any(claims_other) {
        Outcome::OtherPins
    } else if plan.into_iter().any(claims_other) && labels_match_annotations(checks) {
        Outcome::OtherPlan
    } else if checks.iter().any(|check| is_bad(&check)) {
        Outcome::Differs
    } else if checks.iter().any(|check| matches!(check.verdict, Verdict::Unchecked { .. })) {
        Outcome::Incomplete
    } else {
        Outcome::Proven
    }
}

/// Returns whether each label of this tool differs in the same way as the annotation of the same
/// name. If not, somebody changed one of them after the build.
fn labels_match_annotations(checks: &[FieldCheck]) -> bool {
    checks.iter().all(|check| {
        let key = check.field.strip_prefix("annotation ");
        let Some(label) = key.map(|key| format!("label {key}")) else { return true };
        let mut labels = checks.iter().filter(|other| other.field == label);
        labels.all(|other| other.verdict == check.verdict)
    })
}

/// Compares two objects key by key.
fn objects(what: &str, [expected, found]: [Option<&Value>; 2], checks: &mut Vec<FieldCheck>) {
    let keys = |value: Option<&Value>| -> BTreeSet<String> {
        value
            .and_then(Value::as_object)
            .map(|all| all.keys().cloned().collect())
            .unwrap_or_default()
    };
    for key in keys(expected).union(&keys(found)) {
        let get = |value: Option<&Value>| value.and_then(|all| all.get(key)).cloned();
        let (expected, found) = (get(expected), get(found));
        checks.push(compared(&format!("{what} {key}"), expected.as_ref(), found.as_ref()));
    }
}

fn environment([expected, found]: [&Value; 2], checks: &mut Vec<FieldCheck>) {
    let (expected, found) = (env_of(expected), env_of(found));
    let names: BTreeSet<&String> = expected.iter().chain(&found).map(|(name, _)| name).collect();
    for name in names {
        let (expected, found) = (values_of(&expected, name), values_of(&found, name));
        checks.push(check(&format!("variable {name}"), expected, found));
    }
}

/// Returns the value of a variable; if it is set twice, all its values.
fn values_of(all: &[(String, String)], name: &str) -> Option<String> {
    let values: Vec<&str> =
        all.iter().filter(|(n, _)| n == name).map(|(_, value)| value.as_str()).collect();
    (!values.is_empty()).then(|| values.join(" and "))
}

fn env_of(config: &Value) -> Vec<(String, String)> {
    let entries = config.pointer("/config/Env").and_then(Value::as_array).into_iter().flatten();
    let pairs =
        entries.filter_map(Value::as_str).map(|entry| entry.split_once('=').unwrap_or((entry, "")));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Compares two values. Values of different types that look alike are shown as JSON.
fn compared(field: &str, expected: Option<&Value>, found: Option<&Value>) -> FieldCheck {
    match (expected, found) {
        (Some(expected), Some(found))
            if expected != found && text_of(expected) == text_of(found) =>
        {
            check(field, Some(expected.to_string()), Some(found.to_string()))
        }
        (expected, found) => check(field, expected.map(text_of), found.map(text_of)),
    }
}

fn check(field: &str, expected: Option<String>, found: Option<String>) -> FieldCheck {
    let verdict = match (expected, found) {
        (Some(expected), Some(found)) if expected == found => Verdict::Same,
        (Some(expected), Some(found)) => Verdict::Differs { expected, found },
        (Some(expected), None) => Verdict::Missing { expected },
        (None, Some(found)) => Verdict::Unexpected { found },
        (None, None) => Verdict::Same,
    };
    FieldCheck { field: field.to_owned(), verdict }
}

fn without(value: &Value, keys: &[&str]) -> Value {
    let mut value = value.clone();
    if let Some(object) = value.as_object_mut() {
        object.retain(|key, _| !keys.contains(&key.as_str()));
    }
    value
}

fn text(digest: &Digest) -> String {
    digest.to_string()
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
