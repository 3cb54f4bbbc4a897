//! JSON output matches the published schemas.

use std::collections::BTreeSet;

use serde_json::Value;

use testkit::{RandomImage, shared_registry};

use crate::dsl::{Project, workspace};
use crate::patch::{head, list_edit};
use crate::pins::as_json;
use crate::{slim, smoke};

pub(crate) fn check(project: &Project, document: &str, instances: &[Value]) {
    let schema: Value =
        serde_json::from_str(&project.run(&format!("schema {document}")).expect(0).stdout).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(!instances.is_empty());
    for instance in instances {
        let errors: Vec<String> = validator
            .iter_errors(instance)
            .map(|error| format!("{error} at {}", error.instance_path()))
            .collect();
        assert_eq!(errors, Vec::<String>::new(), "{document}");
    }
    assert!(
        !validator.is_valid(&serde_json::json!({ "schema": "x" })),
        "{document}: the schema refuses wrong documents"
    );
}

#[test]
fn documents_keep_to_their_schemas() {
    let project = Project::new();
    let plan = project.run("plan --track locked-spoof --format json").expect(0).stdout;
    let plan: Value = serde_json::from_str(&plan).unwrap();
    assert_eq!(plan["schema"], 2);
    check(&project, "plan", &[plan]);

    let built = project.run("--track ollama --rehearse --progress json").expect(0).stderr;
    let unreachable = "--track locked-spoof --mirror docker.io=127.0.0.1:1 --progress json";
    let failed = project.run(unreachable).expect(5).stderr;
    let lines = built.lines().chain(failed.lines()).filter(|line| line.starts_with('{'));
    let events: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.iter().any(|event| event["event"] == "error"), "{failed}");
    check(&project, "event", &events);
    check(&project, "record", &project.records());

    let origin = project.run("pins show ollama --origin --format json").expect(0).stdout;
    check(&project, "pins-origin", &[serde_json::from_str(&origin).unwrap()]);

    let verified = project.run("verify dist/rehearsal-ollama --format json").expect(0).stdout;
    check(&project, "verify", &[serde_json::from_str(&verified).unwrap()]);

    let linted = project.run("lint --format json").expect(0).stdout;
    check(&project, "lint", &[serde_json::from_str(&linted).unwrap()]);
    let asked = "outdated ollama --format json --mirror docker.io=127.0.0.1:1";
    let asked = project.run(asked).expect(5).stdout;
    check(&project, "outdated", &[serde_json::from_str(&asked).unwrap()]);
}

/// Every command that prints JSON, in an order in which each finds what it needs: the command, its
/// arguments and its schema. The exit code does not matter.
const PRINTS_JSON: [(&str, &str, &str); 41] = [
    ("build", "ollama --rehearse --with-layers", "build"),
    ("build", "ollama,official --rehearse --with-layers", "build"),
    ("build", "ollama --rehearse --dry-run", "plan"),
    ("plan", "ollama --rehearse", "plan"),
    ("plan", "ollama official --rehearse", "plan"),
    ("verify", "rehearsal-ollama", "verify"),
    ("verify", "slimmed --slimmed-from code", "diff"),
    ("diff", "dist/rehearsal-ollama dist/rehearsal-official", "diff"),
    ("audit", "dist/rehearsal-ollama", "audit"),
    ("audit", "code", "audit"),
    ("slim", "code --output oci:slimmed-2 --gpu gfx1151", "slim"),
    ("status", "", "status"),
    ("push", "dist/rehearsal-ollama HOST/printed/json:1", "push"),
    ("tag", "HOST/printed/json:1 2", "push"),
    ("records", "", "records"),
    ("records", "--last", "record"),
    ("records", "--limit 1", "records"),
    ("explain", "ollama --rehearse", "explain"),
    ("step list", "ollama --rehearse", "steps"),
    ("step list", "vulkan", "steps"),
    ("clean", "--engine none", "clean"),
    ("clean", "--engine none --dry-run", "clean"),
    ("doctor", "", "doctor"),
    ("env", "--gpu gfx1151", "env"),
    ("diagnose", "log.txt", "diagnose"),
    ("patch check", "demo --root tree", "patch"),
    ("patch diff", "demo --root tree", "patch"),
    ("patch apply", "demo --root tree", "patch"),
    ("patch revert", "demo --root tree", "patch-revert"),
    ("patch audit", "demo 1.0", "patch-audit"),
    ("patch lint-sed", "Dockerfile --root tree", "patch-lint-sed"),
    ("bump", "ollama --dry-run --mirror docker.io/ollama/ollama=HOST/printed/json", "bump"),
    ("outdated", "ollama --mirror docker.io=127.0.0.1:1", "outdated"),
    ("lock", "--check", "lock"),
    ("pins show", "", "pins"),
    ("pins show", "ollama", "pin"),
    ("pins show", "vllm", "pin"),
    ("pins show", "ollama --origin", "pins-origin"),
    ("pins export", "", "pins"),
    ("lint", "Dockerfile", "lint"),
    ("smoke", "", "smoke"),
];

/// Returns the commands whose help offers `--format json`.
fn commands_with_json(project: &Project, command: &str, found: &mut BTreeSet<String>) {
    let help = project.run(&format!("{command} --help")).expect(0).stdout;
    let options = help.lines().skip_while(|line| !line.trim_start().starts_with("--format <"));
    let mut format = options.skip(1).take_while(|line| !line.trim_start().starts_with("--"));
    // Without a command, the program builds.
    if !command.is_empty() && format.any(|line| line.contains("json")) {
        found.insert(command.to_owned());
    }
    let Some((_, list)) = help.split_once("\nCommands:\n") else { return };
    for line in list.lines().take_while(|line| !line.is_empty()) {
        let name = line.split_whitespace().next().filter(|_| line.starts_with("  "));
        let Some(name) = name.filter(|name| *name != "help" && !line.starts_with("   ")) else {
            continue;
        };
        commands_with_json(project, format!("{command} {name}").trim(), found);
    }
}

#[test]
fn all_json_that_commands_print_keeps_to_a_schema() {
    let project = Project::new();
    let mut wanted = BTreeSet::new();
    commands_with_json(&project, "", &mut wanted);
    let listed: BTreeSet<String> =
        PRINTS_JSON.iter().map(|(name, ..)| (*name).to_owned()).collect();
    assert_eq!(listed, wanted, "commands with `--format json`");

    slim::image(&project, "code", &serde_json::json!({}));
    project.run("slim code --output oci:slimmed --gpu gfx1151").expect(0);
    let patch =
        format!("{}[applies]\nversions = \"*\"\n\n{}", head("demo-list"), list_edit("a.txt"));
    project.write("patches/demo/demo-list.toml", &patch);
    for tree in ["tree", "1.0"] {
        project.write(&format!("{tree}/a.txt"), "list = \"gfx1100\"\n");
    }
    project.write("log.txt", "HSA_STATUS_ERROR_OUT_OF_RESOURCES\n");
    project.write("Dockerfile", "FROM debian:13\nRUN sed -i 's/a/b/' a.txt\n");
    RandomImage::new(9901).push(shared_registry().host(), "printed/json", "rocm");
    for (command, arguments, document) in PRINTS_JSON {
        let printed = match command {
            "smoke" => smoke::report(),
            _ => {
                let arguments = arguments.replace("HOST", shared_registry().host());
                let ran = project.run(&format!("{command} {arguments} --format json"));
                serde_json::from_str(&ran.stdout)
                    .unwrap_or_else(|error| panic!("{command} {arguments}: {error}: {ran:?}"))
            }
        };
        check(&project, document, &[printed]);
    }
}

/// The schemas of data files, with the project's own files of that format.
const FILES: [(&str, &[&str]); 11] = [
    ("versions", &["versions/versions.toml"]),
    ("tracks", &["versions/tracks.toml"]),
    ("gpus", &["versions/gpus.toml"]),
    ("run", &["versions/run.toml"]),
    ("python", &["versions/python.toml"]),
    ("package-lock", &["versions/locks/debian.toml", "versions/locks/rehearsal.toml"]),
    ("compat", &["versions/compat.toml"]),
    ("failures", &["versions/failures.toml"]),
    ("lint-rules", &["versions/lint.toml"]),
    (
        "patch-file",
        &[
            "patches/aiter/aiter-arch-lists.toml",
            "patches/llama.cpp/llama.cpp-rdna3-macro.toml",
            "patches/ollama/ollama-presets.toml",
            "patches/vllm/vllm-arch-list.toml",
            "patches/vllm/vllm-paged-attention.toml",
        ],
    ),
    ("config", &[]),
];

/// `cargo xtask schema` regenerates the schemas in this repository.
#[test]
fn every_schema_in_the_repository_is_current() {
    let project = Project::new();
    let help = project.run("schema --help").expect(0).stdout;
    // Skip the values of options, which follow in the help.
    let help = help.split("Options:").next().unwrap();
    let names = help.lines().filter_map(|line| line.trim().strip_prefix("- ")?.split(':').next());
    let names: Vec<&str> = names.collect();
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        let printed = project.run(&format!("schema {name}")).expect(0).stdout;
        let written = workspace().join(format!("schemas/{name}.schema.json"));
        let written = std::fs::read_to_string(written).unwrap_or_default();
        assert!(printed == written, "schemas/{name}.schema.json is out of date");
    }
}

#[test]
fn schemas_of_data_files_take_ours_and_refuse_unknown_keys() {
    let project = Project::new();
    for (name, files) in FILES {
        let schema = project.run(&format!("schema {name}")).expect(0).stdout;
        let schema: Value = serde_json::from_str(&schema).unwrap();
        let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
        for file in files {
            let text = std::fs::read_to_string(workspace().join(file)).unwrap();
            let value = as_json(toml::from_str(&text).unwrap());
            let errors: Vec<String> = validator
                .iter_errors(&value)
                .map(|error| format!("{error} at {}", error.instance_path()))
                .collect();
            assert_eq!(errors, Vec::<String>::new(), "{file}");
        }
        let unknown = serde_json::json!({ "schema": 1, "no-such-key": 1 });
        assert!(!validator.is_valid(&unknown), "{name}");
        check_examples(name, &schema);
    }
}

/// TUTORIAL.md shows a config.toml with all keys: the schema and the reader accept it, and it has
/// every key that the schema describes.
#[test]
fn the_config_in_the_tutorial_has_every_key_and_is_valid() {
    let tutorial = std::fs::read_to_string(workspace().join("TUTORIAL.md")).unwrap();
    let (_, text) = tutorial.split_once("This file has all of them:\n\n```toml\n").unwrap();
    let (text, _) = text.split_once("```").unwrap();
    let project = Project::new();
    let schema = project.run("schema config").expect(0).stdout;
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
    let read = |text: &str| {
        project.write("home/.config/build-pipeline/config.toml", text);
        project.run("pins show").code == 0
    };
    let accepts = |text: &str| validator.is_valid(&as_json(toml::from_str(text).unwrap()));
    assert!(accepts(text) && read(text), "{text}");
    let value = as_json(toml::from_str(text).unwrap());
    let keys = |value: &Value| -> BTreeSet<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(keys(&value), keys(&schema["properties"]));
    assert_eq!(keys(&value["proxy"]), keys(&schema["properties"]["proxy"]["properties"]));
    for (from, to) in [
        ("schema = 1", "schema = \"1\""),
        ("engine = \"podman\"", "engine = \"lxc\""),
        ("mirror-only = true", "mirror-only = \"yes\""),
        ("store = [", "stores = ["),
        ("output = \"oci:/srv/images/{track}\"", "output = [\"oci:/srv\"]"),
        ("no-proxy = [\"git.example.org\", \"10.0.0.0/8\"]", "no-proxy = \"git.example.org\""),
        ("\"docker.io\" = \"registry.example.org\"", "\"docker.io\" = 1"),
        ("http = \"http://proxy.example.org:3128\"", "ftp = \"http://proxy.example.org:3128\""),
    ] {
        let wrong = text.replacen(from, to, 1);
        assert_ne!(wrong, text, "{from}");
        assert!(!accepts(&wrong), "the schema accepts {to}");
        assert!(!read(&wrong), "the reader accepts {to}");
    }
}

/// Checks that each example has the kind of value that the schema describes.
fn check_examples(file: &str, schema: &Value) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (key, property) in properties.into_iter().flatten() {
        let example = property.get("x-example").and_then(Value::as_str);
        if let Some(example) = example {
            let value = as_json(toml::from_str(example).expect(example));
            let validator = jsonschema::validator_for(property).unwrap();
            assert!(validator.is_valid(&value[key]), "{file}: {example}");
        }
        check_examples(file, property);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner @ Value::Object(_)) = schema.get(key) {
            check_examples(file, inner);
        }
    }
}

/// A reader accepts exactly the keys that the schema lists.
#[test]
fn readers_name_the_keys_of_their_schemas() {
    let (tracks, versions) = ("versions/tracks.toml", "versions/versions.toml");
    let (plan, by_name) = ("plan ollama --rehearse", "/additionalProperties");
    for (name, file, table, head, line) in [
        ("tracks", tracks, by_name, "[ollama]", plan),
        ("gpus", "versions/gpus.toml", by_name, "[gfx1151]", plan),
        ("run", "versions/run.toml", by_name, "[ollama]", "run ollama --print shell"),
        ("python", "versions/python.toml", by_name, "[vllm]", "lock --check"),
        (
            "config",
            "home/.config/build-pipeline/config.toml",
            "/properties/proxy",
            "[proxy]",
            "pins show",
        ),
        ("versions", versions, "/$defs/Image", "[image.ollama]", plan),
        ("versions", versions, "/$defs/Source", "[source.vllm]", plan),
        ("versions", versions, "/$defs/Archive", "[archive.llama-cpp-python]", plan),
    ] {
        let project = Project::new();
        let schema = project.run(&format!("schema {name}")).expect(0).stdout;
        let schema: Value = serde_json::from_str(&schema).unwrap();
        let keys = schema.pointer(table).unwrap()["properties"].as_object().unwrap();
        if name == "config" {
            project.write(file, "schema = 1\n[proxy]\n");
        }
        project.edit(file, &format!("{head}\n"), &format!("{head}\nzzzzzz = 1\n"));
        let said = project.run(line).expect(2).says("remove it; the keys are").stderr;
        let listed = said.split("the keys are").nth(1).unwrap().lines().next().unwrap();
        let listed: BTreeSet<&str> = listed.split('`').skip(1).step_by(2).collect();
        let described: BTreeSet<&str> = keys.keys().map(String::as_str).collect();
        // Some keys are only for tracks that an engine builds.
        let own: BTreeSet<&str> = if name == "tracks" {
            ["gpu-code", "packages", "rehearsal", "stage", "variant"].into()
        } else {
            BTreeSet::new()
        };
        assert_eq!(listed, &described - &own, "{name}");
    }
}
