//! `pins show` and `pins export`, and the schema of `versions.toml`.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use crate::dsl::{Project, workspace};

#[test]
fn pins_are_shown() {
    let project = Project::new();
    let all = project.run("pins show").expect(0);
    let line = |name: &str| {
        let line = all.stdout.lines().find(|line| line.split_whitespace().nth(1) == Some(name));
        line.unwrap().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(line("vllm-legacy"), ["source", "vllm-legacy", "v0.10.2", "01efc7ef7813"]);
    assert_eq!(line("ollama"), ["image", "ollama", "rocm", "unresolved"]);
    assert_eq!(line("vllm-dev-nightly"), ["image", "vllm-dev-nightly", "nightly", "followed"]);
    let one = project.run("pins show vllm-legacy").expect(0);
    one.prints("commit        01efc7ef781391e744ed08c3292817a773d654e6\n")
        .prints("evidence      vllm-gaudi PR 356");
    let json: Value =
        serde_json::from_str(&project.run("pins show ollama --format json").expect(0).stdout)
            .unwrap();
    assert_eq!(
        (&json["kind"], &json["digest"], &json["tag"]),
        (&"image".into(), &Value::Null, &"rocm".into())
    );
    project.run("pins show vlm").expect(2).says("did you mean `vllm`?");
}

#[test]
fn a_shell_reads_what_is_exported() {
    let project = Project::new();
    let text = project.run("pins export").expect(0).stdout;
    project.write("versions.env", &text);
    // Source it in a shell that stops at any error, and print it again.
    let script = "set -eu; . ./versions.env; set | grep -E '^[A-Z0-9_]+='";
    let output = Command::new("sh")
        .args(["-c", script])
        .current_dir(project.path(""))
        .env_clear()
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let read = String::from_utf8(output.stdout).unwrap();
    let read: BTreeMap<&str, &str> = read
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(n, v)| (n, v.trim_matches('\'')))
        .collect();
    let mut written = BTreeMap::new();
    for (name, value) in
        text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split_once('=').unwrap())
    {
        assert_eq!(written.insert(name, value), None, "{name} is listed twice");
        assert_eq!(read.get(name), Some(&value), "{name}");
    }
    assert_eq!(written["VLLM_LEGACY_COMMIT"], "01efc7ef781391e744ed08c3292817a773d654e6");
    assert_eq!(
        written["ROCM_PYTORCH_IMAGE"],
        "docker.io/rocm/pytorch@sha256:7fe531fa185af260352fe7fbb3fa64ad749abe72adf0600a648c4692801b125a"
    );
    assert_eq!(written["ROCM_WHEELS_TORCH"], "2.11.0+rocm7.14.0");
    assert!(
        text.contains("# OLLAMA_IMAGE is unresolved; `build-pipeline bump ollama` looks it up\n")
    );
    // `lint` only notes that a repository is discontinued, as it does for the pins themselves.
    let found = project.run("lint versions.env").expect(0).prints("0 errors, 0 warnings, ");
    let notes = found.stdout.lines().filter(|line| line.starts_with("versions.env:"));
    assert!(notes.into_iter().all(|line| line.ends_with("[vllm-dev-discontinued]")));
    let json: Value =
        serde_json::from_str(&project.run("pins export --format json").expect(0).stdout).unwrap();
    assert_eq!(json["pins"]["vllm-legacy"]["commit"], written["VLLM_LEGACY_COMMIT"]);
    assert_eq!(json["source_date_epoch"], 1_795_305_600);
}

/// Returns TOML as an editor passes it to a JSON schema validator: dates are strings.
pub(crate) fn as_json(value: toml::Value) -> Value {
    match value {
        toml::Value::Table(table) => {
            table.into_iter().map(|(key, value)| (key, as_json(value))).collect()
        }
        toml::Value::Array(items) => items.into_iter().map(as_json).collect(),
        toml::Value::Datetime(date) => Value::String(date.to_string()),
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => number.into(),
        toml::Value::Boolean(flag) => flag.into(),
    }
}

#[test]
fn the_schema_of_versions_toml_takes_ours_and_refuses_mistakes() {
    let text = Project::new().read("versions/versions.toml");
    let schema_file = text.lines().next().unwrap().strip_prefix("#:schema ../").unwrap();
    let schema = std::fs::read_to_string(workspace().join(schema_file)).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
    let check = |text: &str| validator.is_valid(&as_json(toml::from_str(text).unwrap()));
    assert!(check(&text));
    for (from, to) in [
        ("\nref = \"v0.27.1\"", "\nreff = \"v0.27.1\""),
        ("commit = \"6e44", "commit = \"6E44"),
        ("digest = \"sha256:", "digest = \"sha512:"),
        ("checked = 2026-11-20", "checked = \"yesterday\""),
        ("schema = 1", "schema = 2"),
        ("https://github.com/ROCm/aiter", "git@github.com:ROCm/aiter"),
        ("follow = true", "follow = \"yes\""),
        ("project = \"vllm\"", "projekt = \"vllm\""),
        ("[source.vllm]", "[sources.vllm]"),
    ] {
        let wrong = text.replacen(from, to, 1);
        assert_ne!(wrong, text, "{from}");
        assert!(!check(&wrong), "the schema accepts {to}");
        assert!(pins_refuses(&wrong), "the parser accepts {to}");
    }
}

fn pins_refuses(text: &str) -> bool {
    let project = Project::new();
    project.write("versions/versions.toml", text);
    project.run("pins show").code == 2
}
