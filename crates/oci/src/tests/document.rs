//! Documents that parsers interpret differently are refused, and no others.
//!
//! The oracle is a small parser that behaves like Go's `encoding/json`: it ignores the case of
//! keys, the last of duplicate keys wins, maps are merged, and `null` leaves a string unchanged.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::support::Base;
use crate::media::Document;
use crate::read_config;

/// The values that Go programs read from a config.
#[derive(Debug, Default, PartialEq, Eq)]
struct View {
    os: String,
    architecture: String,
    user: String,
    env: Option<Vec<String>>,
    command: Option<Vec<String>>,
    labels: Option<BTreeMap<String, String>>,
    diff_ids: Option<Vec<String>>,
}

/// JSON as written: all keys, in order.
#[derive(Debug, Clone)]
enum Written {
    Other(Value),
    Object(Vec<(String, Self)>),
}

impl Written {
    fn of(value: &Value) -> Self {
        match value {
            Value::Object(all) => Self::Object(
                all.iter().map(|(key, value)| (key.clone(), Self::of(value))).collect(),
            ),
            other => Self::Other(other.clone()),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Other(value) => value.to_string(),
            Self::Object(entries) => {
                let entries =
                    entries.iter().map(|(key, value)| format!("{}:{}", json!(key), value.text()));
                format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
            }
        }
    }

    fn at(&mut self, path: &[&str]) -> &mut Vec<(String, Self)> {
        let Self::Object(entries) = self else { panic!("no object at {path:?}") };
        match path.split_first() {
            None => entries,
            Some((key, rest)) => {
                entries.iter_mut().find(|(name, _)| name == key).unwrap().1.at(rest)
            }
        }
    }

    /// Returns the values of a field of a Go struct, in order.
    fn fields(&self, name: &str) -> Vec<&Self> {
        let Self::Object(entries) = self else { return Vec::new() };
        entries.iter().filter(|(key, _)| is_field(key, name)).map(|(_, value)| value).collect()
    }
}

/// Returns whether Go matches a key to the field with this name (`unicode.SimpleFold`).
fn is_field(key: &str, name: &str) -> bool {
    let is_one = |(one, other): (char, char)| {
        one.eq_ignore_ascii_case(&other)
            || (one == 'ſ' && matches!(other, 's' | 'S'))
            || (one == '\u{212a}' && matches!(other, 'k' | 'K'))
    };
    key.chars().count() == name.chars().count() && key.chars().zip(name.chars()).all(is_one)
}

fn go_text(values: &[&Written]) -> Option<String> {
    let mut text = String::new();
    for value in values {
        match value {
            Written::Other(Value::Null) => {}
            Written::Other(Value::String(found)) => text.clone_from(found),
            _ => return None,
        }
    }
    Some(text)
}

fn go_texts(values: &[&Written]) -> Option<Option<Vec<String>>> {
    let mut texts = None;
    for value in values {
        texts = match value {
            Written::Other(Value::Null) => None,
            Written::Other(Value::Array(items)) => {
                let text = |item: &Value| match item {
                    Value::Null => Some(String::new()),
                    item => item.as_str().map(str::to_owned),
                };
                Some(items.iter().map(text).collect::<Option<_>>()?)
            }
            _ => return None,
        };
    }
    Some(texts)
}

fn go_map(values: &[&Written]) -> Option<Option<BTreeMap<String, String>>> {
    let mut map: Option<BTreeMap<String, String>> = None;
    for value in values {
        match value {
            Written::Other(Value::Null) => map = None,
            Written::Object(entries) => {
                let map = map.get_or_insert_default();
                for (key, value) in entries {
                    map.insert(key.clone(), go_text(&[value])?);
                }
            }
            Written::Other(_) => return None,
        }
    }
    Some(map)
}

/// Returns what Go programs read in a config, or `None` if they refuse it.
fn go_view(config: &Written) -> Option<View> {
    let structs = |name: &str| -> Option<Vec<&Written>> {
        let values = config.fields(name);
        let is_struct =
            |value: &&Written| matches!(value, Written::Object(_) | Written::Other(Value::Null));
        values.iter().all(is_struct).then_some(values)
    };
    let (inner, rootfs) = (structs("config")?, structs("rootfs")?);
    let within = |name: &str| inner.iter().flat_map(|one| one.fields(name)).collect::<Vec<_>>();
    let diff_ids: Vec<_> = rootfs.iter().flat_map(|one| one.fields("diff_ids")).collect();
    Some(View {
        os: go_text(&config.fields("os"))?,
        architecture: go_text(&config.fields("architecture"))?,
        user: go_text(&within("User"))?,
        env: go_texts(&within("Env"))?,
        command: go_texts(&within("Cmd"))?,
        labels: go_map(&within("Labels"))?,
        diff_ids: go_texts(&diff_ids)?,
    })
}

/// Returns what this tool reads in a config.
fn our_view(config: &Map<String, Value>) -> View {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let texts = |value: Option<&Value>| {
        let items = value?.as_array()?;
        Some(items.iter().map(|item| item.as_str().unwrap().to_owned()).collect::<Vec<_>>())
    };
    let (inner, rootfs) = (config.get("config"), config.get("rootfs"));
    let within = |name: &str| inner.and_then(|inner| inner.get(name));
    let labels = within("Labels").and_then(Value::as_object).map(|all| {
        all.iter().map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned())).collect()
    });
    View {
        os: text(config.get("os")),
        architecture: text(config.get("architecture")),
        user: text(within("User")),
        env: texts(within("Env")),
        command: texts(within("Cmd")),
        labels,
        diff_ids: texts(rootfs.and_then(|rootfs| rootfs.get("diff_ids"))),
    }
}

/// Spells a key differently: in a different case, or with the Kelvin sign, the long s, or letters
/// that only look alike.
fn respelled(key: &str, choices: &[u8]) -> String {
    let letter = |(at, letter): (usize, char)| match choices.get(at).copied().unwrap_or(0) % 8 {
        1 if letter.is_ascii_lowercase() => letter.to_ascii_uppercase(),
        1 => letter.to_ascii_lowercase(),
        2 if matches!(letter, 's' | 'S') => 'ſ',
        2 if matches!(letter, 'k' | 'K') => '\u{212a}',
        3 if letter == 'i' => 'ı',
        3 if letter == 'o' => 'о',
        _ => letter,
    };
    key.chars().enumerate().map(letter).collect()
}

fn values() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!(5)),
        Just(json!(true)),
        Just(json!("text")),
        Just(json!(["one", "two"])),
        Just(json!(["one", null])),
        Just(json!([5])),
        Just(json!({})),
        Just(json!({ "key": "value" })),
        Just(json!({ "key": null })),
        Just(json!({ "key": 5 })),
        Just(json!({ "Env": ["INNER=1"], "User": "inner" })),
    ]
}

const PLACES: [&[&str]; 5] =
    [&[], &["config"], &["config", "Labels"], &["rootfs"], &["container_config"]];
const KEYS: [&str; 12] = [
    "config",
    "os",
    "architecture",
    "rootfs",
    "User",
    "Env",
    "Cmd",
    "Labels",
    "diff_ids",
    "unknown",
    "Hostname",
    "skopeo",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn what_is_accepted_says_the_same_to_go(
        changes in proptest::collection::vec(
            (0..PLACES.len(), 0..KEYS.len(), proptest::collection::vec(any::<u8>(), 12), values(), any::<u8>(), any::<bool>()),
            1..3,
        ),
    ) {
        let mut config = Written::of(&Base::docker().config);
        for (place, key, spelling, value, at, replaces) in changes {
            let entries = config.at(PLACES[place]);
            let key = respelled(KEYS[key], &spelling);
            if replaces {
                entries.retain(|(name, _)| *name != key);
            }
            let at = usize::from(at) % (entries.len() + 1);
            entries.insert(at, (key, Written::of(&value)));
            // A position that was replaced cannot be changed again.
            if PLACES.iter().any(|path| !path.is_empty() && !has(&config, path)) {
                break;
            }
        }
        let text = config.text();
        if let Ok(read) = read_config(text.as_bytes()) {
            let go = go_view(&config);
            prop_assert_eq!(go.as_ref(), Some(&our_view(&read)), "{}", text);
            // Nothing is lost or rewritten.
            prop_assert_eq!(Value::Object(read).to_string(), text);
        }
    }
}

fn has(config: &Written, path: &[&str]) -> bool {
    let Some((key, rest)) = path.split_first() else {
        return matches!(config, Written::Object(_));
    };
    let Written::Object(entries) = config else { return false };
    entries.iter().find(|(name, _)| name == key).is_some_and(|(_, value)| has(value, rest))
}

/// Returns why a config is refused.
fn refused(text: &[u8]) -> String {
    let error = read_config(text).expect_err(&String::from_utf8_lossy(text));
    match std::error::Error::source(&error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

#[test]
fn a_config_that_readers_disagree_on_is_refused_with_the_path_of_the_key() {
    for (text, wanted) in [
        (r#"{"Config":{}}"#, "key `Config` differs from `config` only in case"),
        (r#"{"config":{"labels":{}}}"#, "key `config.labels` differs from `Labels` only in case"),
        (
            r#"{"config":{"Env":[],"env":["A=1"]}}"#,
            "key `config.env` differs from `Env` only in case",
        ),
        (r#"{"config":{"Entrypoint":[],"ENTRYPOINT":[]}}"#, "`config.ENTRYPOINT`"),
        ("{\"rootf\u{17f}\":{}}", "differs from `rootfs` only in case"),
        ("{\"config\":{\"Healthchec\u{212a}\":{}}}", "differs from `Healthcheck` only in case"),
        (r#"{"a":1,"A":2}"#, "key `A` differs from `a` only in case"),
        (r#"{"os":"linux","os":"linux"}"#, "key `os` occurs twice"),
        (r#"{"config":{"Labels":{"a":"1","a":"2"}}}"#, "key `config.Labels.a` occurs twice"),
        (r#"{"unknown":[{"deep":{"b":1,"b":1}}]}"#, "key `unknown[0].deep.b` occurs twice"),
        (r#"{"config":{"Labels":{"a":5}}}"#, "key `config.Labels.a` is a number, not a string"),
        (r#"{"config":{"Labels":{"a":null}}}"#, "key `config.Labels.a` is null, not a string"),
        (r#"{"config":{"Env":"x"}}"#, "key `config.Env` is a string, not an array"),
        (r#"{"config":{"Env":[null]}}"#, "key `config.Env[0]` is null, not a string"),
        (r#"{"config":{"Cmd":"x"}}"#, "key `config.Cmd` is a string, not an array"),
        (r#"{"config":{"User":0}}"#, "key `config.User` is a number, not a string"),
        (r#"{"config":{"ExposedPorts":["80"]}}"#, "`config.ExposedPorts` is an array"),
        (r#"{"config":{"Volumes":{"/v":1}}}"#, "key `config.Volumes./v` is a number"),
        (r#"{"config":{"StopTimeout":1.5}}"#, "is another kind of number, not a 64-bit integer"),
        (r#"{"config":{"StopTimeout":9223372036854775808}}"#, "not a 64-bit integer"),
        (r#"{"history":[{"empty_layer":"true"}]}"#, "key `history[0].empty_layer` is a string"),
        (r#"{"history":[null]}"#, "key `history[0]` is null, not an object"),
        (r#"{"created":"yesterday"}"#, "key `created` is a string in another format, not a time"),
        (r#"{"created":"2025-01-01T00:00:00"}"#, "not a time"),
        (r#"{"created":"2025-02-29T00:00:00Z"}"#, "not a time"),
        (r#"{"created":"2100-02-29T00:00:00Z"}"#, "not a time"),
        (r#"{"created":"2025-04-31T00:00:00Z"}"#, "not a time"),
        (r#"{"created":"2025-12-32T00:00:00Z"}"#, "not a time"),
        (r#"{"unknown":12345678901234567890123}"#, "key `unknown` is a number with more digits"),
        (r#"{"unknown":0.12345678901234567}"#, "more digits"),
        (r#"{"unknown":1.234567890123456}"#, "more digits"),
        (r#"{"unknown":-1.234567890123456}"#, "more digits"),
        (r#"{"unknown":1e999}"#, "number out of range"),
        (r#"{"os":"linux"} {}"#, "trailing characters"),
        ("\u{feff}{}", "it is not JSON"),
        (r#"{"os":"\ud800"}"#, "it is not JSON"),
        ("null", "`(the document)` is null, not an object"),
        ("", "EOF"),
    ] {
        let told = refused(text.as_bytes());
        assert!(told.contains(wanted), "{text}: {told}");
    }
    assert!(refused(b"{\"os\":\"\xff\"}").contains("it is not JSON"));
    let deep = format!("{{\"x\":{}{}}}", "[".repeat(200), "]".repeat(200));
    assert!(refused(deep.as_bytes()).contains("recursion limit"));
    let long = format!("{{\"{0}\":1,\"{0}\":1}}", "k".repeat(5000));
    assert!(refused(long.as_bytes()).len() < 300);
}

/// Returns every position in a document that parsers know, as a pointer and in the form used in
/// messages.
fn places(value: &Value, pointer: &str, path: &str, all: &mut Vec<(String, String)>) {
    if !path.is_empty() {
        all.push((pointer.to_owned(), path.to_owned()));
    }
    match value {
        Value::Object(entries) => {
            // No parser reads BuildKit's additional keys.
            for (key, value) in entries.iter().filter(|(key, _)| *key != "moby.buildkit.x") {
                let dot = if path.is_empty() { "" } else { "." };
                places(value, &format!("{pointer}/{key}"), &format!("{path}{dot}{key}"), all);
            }
        }
        Value::Array(items) => {
            for (number, value) in items.iter().enumerate() {
                places(value, &format!("{pointer}/{number}"), &format!("{path}[{number}]"), all);
            }
        }
        _ => {}
    }
}

#[test]
fn every_value_of_another_kind_is_refused_with_its_path() {
    let kind = |value: &Value| match value {
        Value::String(_) => 0,
        Value::Bool(_) => 1,
        Value::Array(_) => 2,
        Value::Object(_) => 3,
        Value::Number(_) => 4,
        Value::Null => 5,
    };
    // No field accepts a fraction.
    let others = [json!("text"), json!(true), json!([]), json!({}), json!(1.5)];
    let mut tried = 0;
    let [docker, oci] = [Base::docker(), Base::oci()];
    for (document, is_config) in
        [(docker.config, true), (oci.config, true), (docker.manifest, false), (oci.manifest, false)]
    {
        let mut all = Vec::new();
        places(&document, "", "", &mut all);
        for (pointer, path) in all {
            let old = document.pointer(&pointer).unwrap();
            for other in &others {
                if kind(other) == kind(old) && !other.is_f64() || old.is_null() {
                    continue;
                }
                let mut changed = document.clone();
                *changed.pointer_mut(&pointer).unwrap() = other.clone();
                let text = changed.to_string();
                let told = if is_config {
                    refused(text.as_bytes())
                } else {
                    let error = Document::parse(text.as_bytes(), None).expect_err(&text);
                    std::error::Error::source(&error).expect("a cause").to_string()
                };
                assert!(told.contains(&format!("key `{path}` is ")), "{path}: {other}: {told}");
                tried += 1;
            }
        }
    }
    testkit::gate_passed(8, tried);
}

#[test]
fn every_key_that_is_there_twice_or_in_capitals_is_refused_with_its_path() {
    let mut tried = 0;
    let [docker, oci] = [Base::docker(), Base::oci()];
    for document in [docker.config, oci.config, docker.manifest, oci.manifest] {
        let mut all = Vec::new();
        places(&document, "", "", &mut all);
        for (pointer, path) in all {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            let Some(Value::Object(entries)) = document.pointer(parent) else { continue };
            let is_free = parent.to_lowercase().ends_with("labels") || parent.ends_with("ations");
            let parents: Vec<&str> = parent.split('/').skip(1).collect();
            if parents.iter().any(|part| part.parse::<usize>().is_ok()) {
                continue;
            }
            for again in [key.to_owned(), key.to_uppercase()] {
                // Labels and annotations that differ only in case are distinct.
                if is_free && again != key {
                    continue;
                }
                let mut written = Written::of(&document);
                written.at(&parents).push((again.clone(), Written::of(&entries[key])));
                let told = refused(written.text().as_bytes());
                let place = path.strip_suffix(key).unwrap();
                assert!(told.contains(&format!("key `{place}{again}`")), "{path}: {told}");
                tried += 1;
            }
        }
    }
    testkit::gate_passed(8, tried);
}

#[test]
fn what_every_reader_agrees_on_is_kept_as_it_is() {
    for text in [
        r#"{}"#,
        r#"{"config":null,"history":null,"os":null}"#,
        r#"{"config":{"Labels":{"a":"1","A":"2"},"Cmd":null,"Volumes":{"/v":{},"/V":{}}}}"#,
        r#"{"unknown":{"a":1,"A":2},"x":[null,1.5,-7,18446744073709551615,0.1,1e-7]}"#,
        r#"{"unknown":[1.23456789012345,-1.23456789012345]}"#,
        "{\"Os.V\":{},\"o\u{455}\":1,\"\u{131}d\":2}",
        r#"{"created":"0001-01-01T00:00:00Z","history":[{"created":"2025-02-28T23:59:59.123456789+05:30"}]}"#,
        r#"{"created":"2024-02-29T00:00:00Z","history":[{"created":"2000-02-29T00:00:00Z"}]}"#,
        r#"{"config":{"Healthcheck":{"Test":["NONE"],"Interval":30000000000},"StopTimeout":-1}}"#,
    ] {
        let read = read_config(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(Value::Object(read).to_string(), text);
    }
}

#[test]
fn a_manifest_or_index_that_readers_disagree_on_is_refused() {
    let base = Base::oci().manifest;
    assert!(Document::parse(base.to_string().as_bytes(), None).is_ok());
    let layers = base["layers"].to_string();
    let text = base.to_string();
    let with = |more: &str| format!("{},{more}}}", text.strip_suffix('}').unwrap());
    for (text, wanted) in [
        (with(&format!(r#""Layers":{layers}"#)), "key `Layers` differs from `layers` only in case"),
        (with(&format!(r#""layers":{layers}"#)), "key `layers` occurs twice"),
        (with(r#""Manifests":[]"#), "key `Manifests` differs from `manifests` only in case"),
        (with(r#""MediaType":"x""#), "differs from `mediaType` only in case"),
        (text.replace(r#""config":{"#, r#""config":{"Digest":"x","#), "key `config.Digest`"),
        (
            text.replace(r#""size":"#, r#""size":1.0,"x":"#),
            "`config.size` is another kind of number",
        ),
        (text.replace(r#"kept":"yes""#, r#"kept":5"#), "key `annotations.com.example.kept` is"),
        (text.replace(r#"{"z":"1","#, r#"{"z":1,"#), "`layers[1].annotations.z` is a number"),
    ] {
        let error = Document::parse(text.as_bytes(), None).expect_err(&text);
        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        assert!(cause.contains(wanted), "{text}: {error}: {cause}");
    }
    let index = r#"{"schemaVersion":2,"manifests":[{"mediaType":"m","digest":"d","size":1,"platform":{"OS":"linux"}}]}"#;
    let error = Document::parse(index.as_bytes(), None).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        cause.contains("key `manifests[0].platform.OS` differs from `os` only in case"),
        "{cause}"
    );
}
