//! Tests verification: each part of an image is changed once, and exactly that part must be
//! reported.

use serde_json::{Value, json};

use super::*;
use crate::verify::{Documents, FieldCheck, Outcome, Verdict, compare, compare_with_plan, outcome};

/// The parsed documents of an image.
#[derive(Clone)]
struct Image {
    manifest: Value,
    config: Value,
}

impl Image {
    /// Returns the image that `derive/1` makes from [`plan`].
    fn derived() -> Self {
        let labels: Value =
            plan().final_labels().into_iter().map(|(k, v)| (k, Value::from(v))).collect();
        let mut with_kept = labels.clone();
        with_kept["com.example.kept"] = json!("kept");
        let layer = |digit: &str| {
            json!({
                "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip",
                "digest": format!("sha256:{}", digit.repeat(64)),
                "size": 10,
                "annotations": {"a": "b"},
            })
        };
        Self {
            config: json!({
                "architecture": "amd64",
                "os": "linux",
                "created": "2027-01-15T08:00:00Z",
                "config": {
                    "User": "1000",
                    "Env": ["PATH=/bin", "HSA_OVERRIDE_GFX_VERSION=11.0.0", "EMPTY="],
                    "Entrypoint": ["/bin/sh", "-c", "script", "name", "/entry"],
                    "Cmd": ["serve"],
                    "WorkingDir": "/",
                    "ExposedPorts": {"80/tcp": {}},
                    "Healthcheck": {"Interval": 5},
                    "Labels": with_kept,
                },
                "rootfs": {"type": "layers", "diff_ids": ["sha256:a", "sha256:b"]},
                "history": [{"created_by": "base"}, {"created_by": "a test", "empty_layer": true}],
            }),
            manifest: json!({
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": {
                    "mediaType": "application/vnd.oci.image.config.v1+json",
                    "digest": "",
                    "size": 0,
                },
                "layers": [layer("1"), layer("2")],
                "annotations": labels,
            }),
        }
    }

    /// Returns the bytes of both documents; the manifest names the config.
    fn bytes(&self) -> (Vec<u8>, Vec<u8>) {
        let config = self.config.to_string().into_bytes();
        let mut manifest = self.manifest.clone();
        if manifest.get("config").is_some() {
            manifest["config"]["digest"] = json!(Digest::of(&config));
            manifest["config"]["size"] = json!(config.len());
        }
        (manifest.to_string().into_bytes(), config)
    }
}

fn compared(expected: &Image, found: &Image) -> Vec<FieldCheck> {
    let (expected, found) = (expected.bytes(), found.bytes());
    let documents = |(manifest, config)| Documents { manifest, config };
    let expected = documents((&expected.0, &expected.1));
    compare(expected, documents((&found.0, &found.1))).unwrap()
}

fn against_plan(found: &Image) -> Vec<FieldCheck> {
    let (manifest, config) = found.bytes();
    let found = Documents { manifest: &manifest, config: &config };
    compare_with_plan(&plan(), found, "the base is not available").unwrap()
}

/// Returns the wrong fields except the two digests, each with its verdict.
fn bad(checks: &[FieldCheck]) -> Vec<(&str, &Verdict)> {
    let is_bad = |verdict: &Verdict| !matches!(verdict, Verdict::Same | Verdict::Unchecked { .. });
    let checks = checks.iter().filter(|check| is_bad(&check.verdict));
    let checks = checks.map(|check| (check.field.as_str(), &check.verdict));
    checks.filter(|(field, _)| !matches!(*field, "manifest digest" | "config digest")).collect()
}

fn verdict_of<'a>(checks: &'a [FieldCheck], field: &str) -> &'a Verdict {
    let mut fitting = checks.iter().filter(|check| check.field == field);
    let found = fitting.next().unwrap_or_else(|| panic!("no check of {field}"));
    assert!(fitting.next().is_none(), "{field} is checked twice");
    &found.verdict
}

fn kind(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Same => "same",
        Verdict::Differs { .. } => "differs",
        Verdict::Missing { .. } => "missing",
        Verdict::Unexpected { .. } => "unexpected",
        Verdict::Unchecked { .. } => "unchecked",
    }
}

/// Sets, or removes, the value at a JSON pointer.
fn put(document: &mut Value, pointer: &str, value: Option<Value>) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = document.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer}"));
    match (parent, value) {
        (Value::Object(all), Some(value)) => drop(all.insert(key.to_owned(), value)),
        (Value::Object(all), None) => drop(all.shift_remove(key).unwrap()),
        (Value::Array(all), Some(value)) if key == "-" => all.push(value),
        (Value::Array(all), Some(value)) => all[key.parse::<usize>().unwrap()] = value,
        (Value::Array(all), None) => drop(all.remove(key.parse().unwrap())),
        (other, _) => panic!("{pointer} is in {other}"),
    }
}

#[test]
fn an_equal_image_is_proven() {
    let image = Image::derived();
    let checks = compared(&image, &image);
    assert_eq!(bad(&checks), []);
    assert_eq!(outcome(&checks), Outcome::Proven);
    // Every label, annotation and variable, and every other key, has its own line.
    for field in [
        "manifest digest",
        "config digest",
        "label architecture",
        "label com.example.kept",
        "annotation architecture",
        "variable PATH",
        "variable EMPTY",
        "config User",
        "config Healthcheck",
        "image rootfs",
        "image history",
        "manifest layers",
        "manifest config mediaType",
    ] {
        assert_eq!(verdict_of(&checks, field), &Verdict::Same);
    }
}

#[test]
fn a_change_of_the_config_is_named_exactly() {
    let some = |value: Value| Some(value);
    let mut cases: Vec<(&str, Option<Value>, &str, &str)> = vec![
        ("/architecture", some(json!("arm64")), "image architecture", "differs"),
        ("/os", some(json!("windows")), "image os", "differs"),
        ("/variant", some(json!("v3")), "image variant", "unexpected"),
        ("/created", some(json!("2027-01-15T08:00:01Z")), "image created", "differs"),
        ("/created", None, "image created", "missing"),
        ("/author", some(json!("me")), "image author", "unexpected"),
        ("/rootfs/type", some(json!("other")), "image rootfs", "differs"),
        ("/rootfs/diff_ids/0", some(json!("sha256:c")), "image rootfs", "differs"),
        ("/rootfs/diff_ids/1", some(json!("sha256:c")), "image rootfs", "differs"),
        ("/rootfs/diff_ids/1", None, "image rootfs", "differs"),
        ("/rootfs/diff_ids/-", some(json!("sha256:c")), "image rootfs", "differs"),
        ("/history/0/created_by", some(json!("x")), "image history", "differs"),
        ("/history/1", None, "image history", "differs"),
        ("/history/-", some(json!({})), "image history", "differs"),
        ("/history", None, "image history", "missing"),
        ("/config/User", some(json!("0")), "config User", "differs"),
        ("/config/User", some(json!(1000)), "config User", "differs"),
        ("/config/User", None, "config User", "missing"),
        ("/config/Entrypoint/0", some(json!("/bin/bash")), "config Entrypoint", "differs"),
        ("/config/Entrypoint/2", some(json!("other")), "config Entrypoint", "differs"),
        ("/config/Entrypoint", some(Value::Null), "config Entrypoint", "differs"),
        ("/config/Entrypoint", None, "config Entrypoint", "missing"),
        ("/config/Cmd/0", some(json!("sh")), "config Cmd", "differs"),
        ("/config/Cmd", None, "config Cmd", "missing"),
        ("/config/WorkingDir", some(json!("/root")), "config WorkingDir", "differs"),
        ("/config/ExposedPorts/22~1tcp", some(json!({})), "config ExposedPorts", "differs"),
        ("/config/Healthcheck/Interval", some(json!(6)), "config Healthcheck", "differs"),
        ("/config/StopSignal", some(json!("9")), "config StopSignal", "unexpected"),
        ("/config/Volumes", some(Value::Null), "config Volumes", "unexpected"),
        ("/config/Env/0", some(json!("PATH=/tmp")), "variable PATH", "differs"),
        ("/config/Env/1", None, "variable HSA_OVERRIDE_GFX_VERSION", "missing"),
        ("/config/Env/2", some(json!("EMPTY=x")), "variable EMPTY", "differs"),
        ("/config/Env/-", some(json!("LD_PRELOAD=x")), "variable LD_PRELOAD", "unexpected"),
        // A second value of a variable may be the one that counts.
        (
            "/config/Env/-",
            some(json!("HSA_OVERRIDE_GFX_VERSION=9.0.0")),
            "variable HSA_OVERRIDE_GFX_VERSION",
            "differs",
        ),
        ("/config/Labels/new", some(json!("x")), "label new", "unexpected"),
        ("/config/Labels/com.example.kept", some(json!("x")), "label com.example.kept", "differs"),
        ("/config/Labels/com.example.kept", some(json!(1)), "label com.example.kept", "differs"),
    ];
    let labels = plan().final_labels();
    let fields: Vec<_> = labels
        .keys()
        .map(|key| (format!("/config/Labels/{key}"), format!("label {key}")))
        .collect();
    for (pointer, field) in &fields {
        cases.push((pointer, some(json!("x")), field, "differs"));
        cases.push((pointer, None, field, "missing"));
    }
    assert!(cases.len() > 40);
    let expected = Image::derived();
    let tried = cases.len();
    for (pointer, value, field, wanted) in cases {
        let mut found = expected.clone();
        put(&mut found.config, pointer, value.clone());
        let checks = compared(&expected, &found);
        let named: Vec<_> = bad(&checks).iter().map(|(field, how)| (*field, kind(how))).collect();
        assert_eq!(named, [(field, wanted)], "{pointer} = {value:?}");
        assert_eq!(kind(verdict_of(&checks, "config digest")), "differs", "{pointer}");
        assert_eq!(kind(verdict_of(&checks, "manifest digest")), "differs", "{pointer}");
        let is_pin = [labels::PINS_DIGEST, labels::BASE_DIGEST, labels::CREATED]
            .iter()
            .any(|key| field == format!("label {key}"));
        let claims_other = is_pin && wanted == "differs";
        let wanted = if claims_other { Outcome::OtherPins } else { Outcome::Differs };
        assert_eq!(outcome(&checks), wanted, "{pointer} = {value:?}");
    }
    testkit::gate_passed(22, tried);
}

#[test]
fn another_plan_is_claimed_by_a_label_and_its_annotation() {
    let expected = Image::derived();
    let key = labels::PLAN_DIGEST;
    let claim = |label: &str, annotation: &str| {
        let mut found = expected.clone();
        put(&mut found.config, &format!("/config/Labels/{key}"), Some(json!(label)));
        put(&mut found.manifest, &format!("/annotations/{key}"), Some(json!(annotation)));
        outcome(&compared(&expected, &found))
    };
    assert_eq!(claim("sha256:other", "sha256:other"), Outcome::OtherPlan);
    assert_eq!(claim("sha256:other", "sha256:third"), Outcome::Differs, "somebody changed one");
}

#[test]
fn a_change_of_the_manifest_is_named_exactly() {
    let some = |value: Value| Some(value);
    let cases: Vec<(&str, Option<Value>, &str, &str)> = vec![
        ("/schemaVersion", some(json!(3)), "manifest schemaVersion", "differs"),
        ("/schemaVersion", some(json!("2")), "manifest schemaVersion", "differs"),
        ("/mediaType", some(json!("other")), "manifest mediaType", "differs"),
        ("/mediaType", None, "manifest mediaType", "missing"),
        ("/artifactType", some(json!("x")), "manifest artifactType", "unexpected"),
        ("/subject", some(json!({})), "manifest subject", "unexpected"),
        ("/config/mediaType", some(json!("x")), "manifest config mediaType", "differs"),
        ("/config/annotations", some(json!({})), "manifest config annotations", "unexpected"),
        ("/layers/0/digest", some(json!("sha256:3")), "manifest layers", "differs"),
        ("/layers/1/digest", some(json!("sha256:3")), "manifest layers", "differs"),
        ("/layers/1/size", some(json!(11)), "manifest layers", "differs"),
        ("/layers/0/mediaType", some(json!("x")), "manifest layers", "differs"),
        ("/layers/0/annotations/a", some(json!("c")), "manifest layers", "differs"),
        ("/layers/0/urls", some(json!(["https://x"])), "manifest layers", "differs"),
        ("/layers/1", None, "manifest layers", "differs"),
        ("/layers/-", some(json!({})), "manifest layers", "differs"),
        ("/layers", None, "manifest layers", "missing"),
        ("/annotations/architecture", some(json!("x")), "annotation architecture", "differs"),
        ("/annotations/architecture", None, "annotation architecture", "missing"),
        ("/annotations/new", some(json!("x")), "annotation new", "unexpected"),
    ];
    let (expected, tried) = (Image::derived(), cases.len());
    for (pointer, value, field, wanted) in cases {
        let mut found = expected.clone();
        put(&mut found.manifest, pointer, value.clone());
        let checks = compared(&expected, &found);
        let named: Vec<_> = bad(&checks).iter().map(|(field, how)| (*field, kind(how))).collect();
        assert_eq!(named, [(field, wanted)], "{pointer} = {value:?}");
        assert_eq!(verdict_of(&checks, "config digest"), &Verdict::Same, "{pointer}");
        assert_eq!(outcome(&checks), Outcome::Differs, "{pointer} = {value:?}");
    }
    testkit::gate_passed(22, tried);
}

#[test]
fn what_only_the_digests_can_tell_is_still_no_proof() {
    let expected = Image::derived();
    let (manifest, config) = expected.bytes();
    let mut order = expected.clone();
    let env = order.config.pointer_mut("/config/Env").unwrap().as_array_mut().unwrap();
    env.reverse();
    let spaced = serde_json::to_vec_pretty(&expected.config).unwrap();
    for found in [order.bytes().1, spaced] {
        let checks = compare(
            Documents { manifest: &manifest, config: &config },
            Documents { manifest: &manifest, config: &found },
        );
        let checks = checks.unwrap();
        assert_eq!(bad(&checks), []);
        assert_eq!(outcome(&checks), Outcome::Differs);
    }
}

#[test]
fn an_image_that_is_nothing_like_it_differs() {
    let expected = Image::derived();
    for (manifest, config) in [
        (json!({}), json!({})),
        (json!([]), json!(null)),
        (json!({"annotations": []}), json!({"config": {"Labels": [], "Env": {}}})),
        (json!({"config": 1, "layers": 1}), json!({"config": "x"})),
    ] {
        let (manifest, config) = (manifest.to_string(), config.to_string());
        let found = Documents { manifest: manifest.as_bytes(), config: config.as_bytes() };
        let (expected_manifest, expected_config) = expected.bytes();
        let expected = Documents { manifest: &expected_manifest, config: &expected_config };
        let checks = compare(expected, found).unwrap();
        assert_eq!(kind(verdict_of(&checks, "label architecture")), "missing");
        // Without labels, the image does not claim any pins, so `OtherPins` does not apply.
        assert_eq!(outcome(&checks), Outcome::Differs);
        let checks = compare_with_plan(&plan(), found, "why").unwrap();
        assert_eq!(outcome(&checks), Outcome::Differs);
    }
    let (manifest, config) = expected.bytes();
    let good = Documents { manifest: &manifest, config: &config };
    for broken in [
        Documents { manifest: b"<html>", config: &config },
        Documents { manifest: &manifest, config: b"" },
    ] {
        assert!(compare(good, broken).is_err() && compare(broken, good).is_err());
        assert!(compare_with_plan(&plan(), broken, "why").is_err());
    }
}

#[test]
fn without_the_base_nothing_is_proven_and_what_the_plan_says_is_compared() {
    let checks = against_plan(&Image::derived());
    assert_eq!(bad(&checks), []);
    assert_eq!(outcome(&checks), Outcome::Incomplete);
    let unchecked: Vec<_> = checks.iter().filter(|c| kind(&c.verdict) == "unchecked").collect();
    assert_eq!(unchecked.len(), 4);
    for check in unchecked {
        assert_eq!(
            check.verdict,
            Verdict::Unchecked { why: "the base is not available".to_owned() }
        );
    }
}

#[test]
fn without_the_base_a_change_of_what_the_plan_says_is_named_exactly() {
    let pins = format!("/config/Labels/{}", labels::PINS_DIGEST);
    let time = format!("/config/Labels/{}", labels::CREATED);
    let time_label = format!("label {}", labels::CREATED);
    let plan = format!("/config/Labels/{}", labels::PLAN_DIGEST);
    let plan_label = format!("label {}", labels::PLAN_DIGEST);
    let overrides = format!("/config/Labels/{}", labels::OVERRIDES);
    let (pins_label, overrides_label) =
        (format!("label {}", labels::PINS_DIGEST), format!("label {}", labels::OVERRIDES));
    let variable = "variable HSA_OVERRIDE_GFX_VERSION";
    let begin = "start of the entrypoint";
    let (differs, incomplete) = (Outcome::Differs, Outcome::Incomplete);
    let cases: Vec<(&str, Option<Value>, Vec<&str>, Outcome)> = vec![
        (&pins, Some(json!("sha256:other")), vec![&pins_label], Outcome::OtherPins),
        (&pins, None, vec![&pins_label], differs),
        (&time, Some(json!("2000-01-01T00:00:00Z")), vec![&time_label], Outcome::OtherPins),
        (&plan, Some(json!("sha256:other")), vec![&plan_label], differs),
        (&plan, None, vec![&plan_label], differs),
        ("/config/Labels/architecture", Some(json!("arm")), vec!["label architecture"], differs),
        // A key that is always dropped cannot come from the base.
        (&overrides, Some(json!("base=x")), vec![&overrides_label], differs),
        ("/config/Labels/vendor", Some(json!("AMD")), vec!["label vendor"], differs),
        // Other keys can.
        ("/config/Labels/com.example.x", Some(json!("x")), vec![], incomplete),
        ("/config/Env/1", None, vec![variable], differs),
        ("/config/Env/-", Some(json!("HSA_OVERRIDE_GFX_VERSION=9.0.0")), vec![variable], differs),
        ("/config/Env/-", Some(json!("OTHER=1")), vec![], incomplete),
        ("/created", Some(json!("2000-01-01T00:00:00Z")), vec!["image created"], differs),
        ("/config/Entrypoint/2", Some(json!("other")), vec![begin], differs),
        ("/config/Entrypoint", None, vec![begin], differs),
        ("/config/Entrypoint/-", Some(json!("more")), vec![], incomplete),
        ("/config/Cmd", None, vec![], incomplete),
    ];
    for (pointer, value, fields, wanted) in cases {
        let mut found = Image::derived();
        put(&mut found.config, pointer, value);
        let checks = against_plan(&found);
        let named: Vec<_> = bad(&checks).iter().map(|(field, _)| *field).collect();
        assert_eq!(named, fields, "{pointer}");
        assert_eq!(outcome(&checks), wanted, "{pointer}");
    }
    let mut found = Image::derived();
    put(&mut found.manifest, "/annotations/architecture", Some(json!("arm")));
    let checks = against_plan(&found);
    assert_eq!(bad(&checks)[0].0, "annotation architecture");
}

#[test]
fn the_json_of_a_check() {
    let checks = [
        Verdict::Same,
        Verdict::Differs { expected: "a".to_owned(), found: "b".to_owned() },
        Verdict::Missing { expected: "a".to_owned() },
        Verdict::Unexpected { found: "b".to_owned() },
        Verdict::Unchecked { why: "c".to_owned() },
    ]
    .map(|verdict| FieldCheck { field: "label x".to_owned(), verdict });
    let lines: Vec<_> = checks.iter().map(|c| serde_json::to_string(c).unwrap()).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    {"field":"label x","verdict":"same"}
    {"field":"label x","verdict":"differs","expected":"a","found":"b"}
    {"field":"label x","verdict":"missing","expected":"a"}
    {"field":"label x","verdict":"unexpected","found":"b"}
    {"field":"label x","verdict":"unchecked","why":"c"}
    "#);
    for (line, check) in lines.iter().zip(checks) {
        assert_eq!(serde_json::from_str::<FieldCheck>(line).unwrap(), check);
    }
}
