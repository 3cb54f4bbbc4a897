//! Tests of SBOMs.

use std::collections::{BTreeMap, BTreeSet};

use names::Digest;
use plan::{Action, Draft, Input, labels};
use serde_json::{Value, json};

use super::{begun, full, plan};
use crate::{BuildRecord, OutputOutcome, OutputState, SbomError, Status};

const PACKAGES: &str = r#"schema = 1
suite = "trixie"
architecture = "amd64"
checked = 2026-11-21

[set.base]
wanted = ["base-files"]
packages = [
  { name = "base-files", version = "13.8+deb13u7", architecture = "amd64", file = "pool/main/b/base-files/base-files_13.8+deb13u7_amd64.deb", size = 1, sha256 = "1111111111111111111111111111111111111111111111111111111111111111" },
]

[set.build]
on = ["base"]
wanted = ["libattr1"]
packages = [
  { name = "libattr1", version = "1:2.5.2-3+b1", architecture = "amd64", file = "pool/updates/main/a/attr/libattr1_2.5.2-3+b1_amd64.deb", size = 1, sha256 = "2222222222222222222222222222222222222222222222222222222222222222" },
]

[set.other]
wanted = ["unused"]
packages = [
  { name = "unused", version = "1", architecture = "all", file = "pool/main/u/unused/unused_1_all.deb", size = 1, sha256 = "3333333333333333333333333333333333333333333333333333333333333333" },
]
"#;

const WHEELS: &str = r#"lock-version = "1.0"

[[packages]]
name = "aiohttp"
version = "3.14.5"
wheels = [
  { path = "wheels/aiohttp-3.14.5-cp313.whl", hashes = { sha256 = "4444444444444444444444444444444444444444444444444444444444444444" } },
  { path = "wheels/aiohttp-3.14.5-py3.whl", hashes = { sha256 = "5555555555555555555555555555555555555555555555555555555555555555" } },
]

[[packages]]
name = "Typing_Extensions"
version = "4.0+local"
wheels = [
  { path = "wheels/typing_extensions-4.0+local.whl", hashes = { sha256 = "6666666666666666666666666666666666666666666666666666666666666666" } },
]

[tool.build-pipeline]
schema = 1
python = "3.13"
platform = "x86_64-manylinux_2_40"
"#;

/// Returns a record of a build that used every kind of input except a base.
fn built() -> BuildRecord {
    let hex = |digit: char| digit.to_string().repeat(64);
    let commit = "3".repeat(40);
    let inputs = json!({
        "debian.toml": { "kind": "lock", "digest": Digest::of(PACKAGES.as_bytes()) },
        "pylock.toml": { "kind": "lock", "digest": Digest::of(WHEELS.as_bytes()) },
        "Dockerfile": { "kind": "file", "digest": format!("sha256:{}", hex('7')) },
        "context.txt": { "kind": "file", "digest": format!("sha256:{}", hex('8')) },
        "own.txt": { "kind": "file", "digest": format!("sha256:{}", hex('9')) },
        "llama": { "kind": "source", "url": "https://github.com/x/Llama.git", "commit": commit, "version": "1.0" },
        "flash": { "kind": "archive", "project": "flash_attn", "version": "2.8", "sha256": hex('a'), "subdirectory": "csrc" },
    });
    let seal = json!({ "contract": "seal/1", "scrub": [], "epoch": 1 });
    let created = "2027-01-15T08:00:00Z";
    let patch = json!({ "component": "llama.cpp", "id": "macro", "effect": hex('b'), "expect": "in-effect" });
    let file =
        |from: &str| json!({ "kind": "file", "from": from, "mode": "0644", "uid": 0, "gid": 0 });
    let Action::DeriveImage { edit, .. } = &plan().into_draft().steps[1].action.clone() else {
        panic!("the last step labels the image");
    };
    let mut edit = edit.clone();
    edit.labels.clear();
    let edit = json!(edit);
    let sets = json!({ "base": Digest::of(b""), "build": Digest::of(b"") });
    let steps = json!([
        { "id": "packages", "action": { "do": "fetch-packages", "input": "debian.toml", "sets": sets } },
        { "id": "base", "action": { "do": "bootstrap-base", "contract": "bootstrap/1", "packages": "packages", "set": "base", "created": created, "seal": seal } },
        { "id": "llama", "action": { "do": "fetch-source", "input": "llama", "patches": [patch] } },
        { "id": "flash", "action": { "do": "fetch-source", "input": "flash", "patches": [] } },
        { "id": "wheels", "action": { "do": "fetch-wheels", "input": "pylock.toml" } },
        { "id": "build", "action": { "do": "build-image", "base": "base", "dockerfile": "Dockerfile", "args": {}, "network": false,
            "context": { "packages": "packages", "python": "wheels", "llama": "llama", "flash": "flash" },
            "files": { "context.txt": file("context.txt") } } },
        { "id": "seal", "action": { "do": "seal-image", "image": "build", "base": "base", "seal": seal, "edit": edit } },
        { "id": "files", "action": { "do": "add-files", "base": "seal", "contract": "files/1", "epoch": 1, "created": created, "created_by": "a test",
            "files": { "/opt/own.txt": file("own.txt"), "/opt/again.txt": file("own.txt") } } },
        { "id": "label", "action": { "do": "derive-image", "base": "files", "contract": "derive/1", "edit": edit } },
    ]);
    let draft = Draft {
        inputs: serde_json::from_value(inputs).unwrap(),
        steps: serde_json::from_value(steps).unwrap(),
        ..plan().into_draft()
    };
    with_plan(draft)
}

/// Returns the record of a successful run of a plan, with the labels that the plan needs.
fn with_plan(mut draft: Draft) -> BuildRecord {
    let derived = draft.derived_labels();
    if let Some(Action::DeriveImage { edit, .. }) =
        draft.steps.last_mut().map(|one| &mut one.action)
    {
        edit.labels.retain(|key, _| !derived.contains_key(key.as_str()));
        let present = |(key, value): (&str, Option<String>)| Some((key.to_owned(), value?));
        edit.labels.extend(derived.into_iter().filter_map(present));
        edit.labels.insert(labels::CREATED.to_owned(), edit.created.clone());
    }
    let plan = draft.finish().unwrap();
    BuildRecord { status: Status::Succeeded, plan_digest: plan.digest(), plan, ..full() }
}

fn lock_text(_: &str, digest: &Digest) -> Option<String> {
    [PACKAGES, WHEELS]
        .into_iter()
        .find(|text| Digest::of(text.as_bytes()) == *digest)
        .map(str::to_owned)
}

fn sbom(record: &BuildRecord) -> Value {
    serde_json::to_value(record.sbom(lock_text).unwrap()).unwrap()
}

fn components(sbom: &Value) -> BTreeMap<&str, &Value> {
    let all = sbom["components"].as_array().unwrap();
    all.iter().map(|one| (one["bom-ref"].as_str().unwrap(), one)).collect()
}

/// Returns the values of a property of a component.
fn property<'a>(component: &'a Value, name: &str) -> Vec<&'a str> {
    let all = component["properties"].as_array().into_iter().flatten();
    all.filter(|one| one["name"] == name).map(|one| one["value"].as_str().unwrap()).collect()
}

fn with_base() -> BuildRecord {
    BuildRecord { status: Status::Succeeded, ..full() }
}

#[test]
fn every_kind_of_input_is_in_the_sbom() {
    let schema = serde_json::to_value(schemars::schema_for!(Input)).unwrap();
    let known = schema["oneOf"].as_array().unwrap();
    let known: BTreeSet<&str> =
        known.iter().map(|one| one["properties"]["kind"]["const"].as_str().unwrap()).collect();
    let mut tested = BTreeSet::new();
    for record in [built(), with_base()] {
        let sbom = sbom(&record);
        let components = components(&sbom);
        for (name, input) in &record.plan.inputs {
            let kind = serde_json::to_value(input).unwrap()["kind"].as_str().unwrap().to_owned();
            let of_input =
                |one: &&Value| property(one, "build-pipeline:input").contains(&name.as_str());
            let is_listed =
                components.contains_key(name.as_str()) || components.values().any(of_input);
            assert!(is_listed, "{name}: {sbom:#}");
            tested.insert(kind);
        }
        for one in components.values() {
            assert_eq!(property(one, "build-pipeline:in-image").len(), 1, "{one:#}");
        }
        let listed: BTreeSet<&str> = components.into_keys().collect();
        let depends = sbom["dependencies"][0]["dependsOn"].as_array().unwrap();
        assert_eq!(
            depends.iter().map(|one| one.as_str().unwrap()).collect::<BTreeSet<_>>(),
            listed
        );
    }
    assert_eq!(tested.iter().map(String::as_str).collect::<BTreeSet<_>>(), known);
}

#[test]
fn each_component_has_its_package_url_hash_and_place() {
    let sbom = sbom(&built());
    let all = components(&sbom);
    let commit = "3".repeat(40);
    let distro = "arch=amd64&distro=debian-13";
    let attr = format!("pkg:deb/debian/libattr1@1:2.5.2-3%2Bb1?{distro}&upstream=attr");
    let base_files = format!("pkg:deb/debian/base-files@13.8%2Bdeb13u7?{distro}");
    for (bom_ref, kind, purl, hash, in_image) in [
        (attr.as_str(), "library", attr.as_str(), "2", "unknown"),
        (&base_files, "library", &base_files, "1", "yes"),
        ("debian-13", "operating-system", "", "", "yes"),
        ("pkg:pypi/aiohttp@3.14.5", "library", "pkg:pypi/aiohttp@3.14.5", "", "unknown"),
        (
            "pkg:pypi/typing-extensions@4.0%2Blocal",
            "library",
            "pkg:pypi/typing-extensions@4.0%2Blocal",
            "6",
            "unknown",
        ),
        ("Dockerfile", "file", "", "7", "no"),
        ("context.txt", "file", "", "8", "unknown"),
        ("own.txt", "file", "", "9", "yes"),
        ("llama", "library", &format!("pkg:github/x/llama@{commit}"), "", "unknown"),
        ("flash", "library", "pkg:pypi/flash-attn@2.8", "a", "unknown"),
    ] {
        let one = all.get(bom_ref).unwrap_or_else(|| panic!("{bom_ref}: {sbom:#}"));
        assert_eq!(one["type"], kind, "{bom_ref}");
        assert_eq!(one["purl"].as_str().unwrap_or_default(), purl, "{bom_ref}");
        let found = one["hashes"][0]["content"].as_str().unwrap_or_default();
        assert_eq!(found, hash.repeat(64), "{bom_ref}");
        assert_eq!(property(one, "build-pipeline:in-image"), [in_image], "{bom_ref}");
        assert_eq!(one["scope"] == "excluded", in_image == "no", "{bom_ref}");
    }
    assert_eq!(all.len(), 10, "the packages of other sets are not listed: {sbom:#}");
    let security = "https://deb.debian.org/debian-security/pool/updates/main/a/attr/libattr1_2.5.2-3+b1_amd64.deb";
    assert_eq!(all[attr.as_str()]["externalReferences"][0]["url"], security);
    assert_eq!(property(all[attr.as_str()], "aquasecurity:trivy:SrcName"), ["attr"]);
    assert_eq!(property(all["pkg:pypi/aiohttp@3.14.5"], "build-pipeline:file").len(), 2);
    let patch = &all["llama"]["pedigree"]["patches"];
    let wanted =
        json!([{ "type": "unofficial", "diff": { "url": "patches/llama.cpp/macro.toml" } }]);
    assert_eq!(*patch, wanted);
    let places = json!([{ "location": "/opt/again.txt" }, { "location": "/opt/own.txt" }]);
    assert_eq!(all["own.txt"]["evidence"]["occurrences"], places);
}

/// Returns how complete the parts of a component are.
fn listed(sbom: &Value, bom_ref: &Value) -> Vec<String> {
    let all = sbom["compositions"].as_array().unwrap();
    let has = |one: &&Value| one["assemblies"].as_array().unwrap().contains(bom_ref);
    all.iter().filter(has).map(|one| one["aggregate"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_is_not_listed_is_called_incomplete() {
    let on_base = sbom(&with_base());
    assert_eq!(listed(&on_base, &json!("base")), ["incomplete"], "{on_base:#}");
    assert_eq!(listed(&on_base, &on_base["metadata"]["component"]["bom-ref"]), ["complete"]);

    let locked = sbom(&built());
    let image = &locked["metadata"]["component"]["bom-ref"];
    assert_eq!(listed(&locked, image), ["complete"]);
    assert_eq!(listed(&locked, &json!("llama")), ["unknown"]);

    // Nothing lists the packages that a Dockerfile downloads.
    let mut draft = built().plan.into_draft();
    for step in &mut draft.steps {
        if let Action::BuildImage { network, .. } = &mut step.action {
            *network = true;
        }
    }
    let open = sbom(&with_plan(draft));
    assert_eq!(listed(&open, &open["metadata"]["component"]["bom-ref"]), ["incomplete"]);
}

#[test]
fn builds_of_the_same_image_have_the_same_sbom() {
    let record = built();
    let text =
        |record: &BuildRecord| serde_json::to_string(&record.sbom(lock_text).unwrap()).unwrap();
    let other = BuildRecord {
        id: "another run".to_owned(),
        began: "2027-01-01T00:00:00Z".to_owned(),
        ended: None,
        engine: None,
        steps: Vec::new(),
        ..record.clone()
    };
    assert_eq!(text(&record), text(&other));
    let document = sbom(&record);
    assert_eq!(document["metadata"]["timestamp"], "2027-01-15T08:00:00Z");
    let serial = document["serialNumber"].as_str().unwrap();
    assert_eq!(serial.len(), "urn:uuid:".len() + 36, "{serial}");
    let mut image = record.image.clone().unwrap();
    image.manifest_digest = Digest::of(b"another image");
    let changed = sbom(&BuildRecord { image: Some(image), ..record });
    assert_ne!(changed["serialNumber"], serial);
}

#[test]
fn the_image_is_named_as_its_registry_or_track() {
    let mut record = built();
    record.outputs.clear();
    let digest = record.image.as_ref().unwrap().manifest_digest.clone();
    let subject = |record: &BuildRecord| sbom(record)["metadata"]["component"].clone();
    let on_disk = subject(&record);
    assert_eq!(on_disk["purl"], format!("pkg:oci/rehearsal-locked-spoof@{digest}"));
    assert_eq!(on_disk["hashes"][0]["content"], digest.hex());
    record.outputs.push(OutputOutcome {
        output: "registry:registry.example.org/ai/x:1".to_owned(),
        state: OutputState::Written,
        layers_copied: 0,
        layer_bytes_copied: 0,
        layers_mounted: 0,
    });
    let pushed = subject(&record);
    assert_eq!(pushed["name"], "registry.example.org/ai/x:1");
    let place = "repository_url=registry.example.org/ai/x&tag=1";
    assert_eq!(pushed["purl"], format!("pkg:oci/x@{digest}?{place}"));
}

#[test]
fn without_an_image_or_a_lock_there_is_no_sbom() {
    for record in [
        begun("2026-11-20T19:00:00Z"),
        full(),
        BuildRecord { image: None, ..with_base() },
        BuildRecord { status: Status::Failed, ..with_base() },
    ] {
        let error = record.sbom(lock_text).unwrap_err();
        assert!(matches!(error, SbomError::NoImage(_)), "{error:?}");
    }
    let error = built().sbom(|_, _| None).unwrap_err();
    assert!(error.to_string().contains("`debian.toml` is not the file"), "{error}");
    let error = built().sbom(|_, _| Some("?".to_owned())).unwrap_err();
    assert_eq!(error.to_string(), "cannot read the lock `debian.toml`");
}

#[test]
fn a_package_in_two_locks_is_one_component() {
    let other = WHEELS
        .replace("4.0+local.whl", "4.0+local-2.whl")
        .replace(&"6".repeat(64), &"7".repeat(64));
    let other = other.replace("3.14.5", "3.14.6");
    let digest = Digest::of(other.as_bytes());
    let mut draft = built().plan.into_draft();
    let lock = serde_json::from_value(json!({ "kind": "lock", "digest": digest })).unwrap();
    draft.inputs.insert("pylock.other.toml".to_owned(), lock);
    let wheels = draft.steps.iter().position(|step| step.id == "wheels").unwrap();
    let mut step = draft.steps[wheels].clone();
    step.id = "more".to_owned();
    step.action = Action::FetchWheels { input: "pylock.other.toml".to_owned() };
    draft.steps.insert(wheels, step);
    for step in &mut draft.steps {
        if let Action::BuildImage { context, .. } = &mut step.action {
            context.insert("more".to_owned(), "more".to_owned());
        }
    }
    let text = |path: &str, of: &Digest| {
        if *of == digest { Some(other.clone()) } else { lock_text(path, of) }
    };
    let document = serde_json::to_value(with_plan(draft).sbom(text).unwrap()).unwrap();
    let all = components(&document);
    let both = all["pkg:pypi/typing-extensions@4.0%2Blocal"];
    assert_eq!(property(both, "build-pipeline:input"), ["pylock.other.toml", "pylock.toml"]);
    assert_eq!(property(both, "build-pipeline:file").len(), 2);
    assert_eq!(property(both, "build-pipeline:in-image"), ["unknown"]);
    assert_eq!(both.get("hashes"), None, "{both:#}");
    assert!(
        all.contains_key("pkg:pypi/aiohttp@3.14.5") && all.contains_key("pkg:pypi/aiohttp@3.14.6")
    );
    assert_eq!(all.len(), document["components"].as_array().unwrap().len());
}
