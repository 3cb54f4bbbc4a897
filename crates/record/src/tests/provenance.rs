//! Tests of SLSA provenance.

use plan::Input;
use serde_json::{Value, json};

use super::{begun, full};
use crate::{BuildRecord, OutputState, Status};

fn succeeded() -> BuildRecord {
    let mut record = BuildRecord { status: Status::Succeeded, ..full() };
    for (output, to) in record.outputs.iter_mut().zip([
        "oci:dist/x",
        "registry:registry.example.org/ai/x:1",
        "registry:registry.example.org/ai/failed:1",
        "engine",
    ]) {
        to.clone_into(&mut output.output);
    }
    record
}

fn statement(record: &BuildRecord) -> Value {
    serde_json::to_value(record.provenance().unwrap()).unwrap()
}

#[test]
fn a_record_becomes_an_in_toto_statement() {
    let record = succeeded();
    let hex = "1".repeat(64);
    let commit = "3".repeat(40);
    let image = record.image.as_ref().unwrap();
    let base = format!("pkg:oci/base@sha256:{hex}?repository_url=registry.example.org/base");
    let file = &record.recipe.files["versions/versions.toml"];
    let wanted = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{
            "name": "registry.example.org/ai/x:1",
            "digest": { "sha256": image.manifest_digest.hex() },
        }],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "https://build-pipeline.github.io/slsa/track/v1",
                "externalParameters": {
                    "track": "locked-spoof",
                    "gpu": "gfx1151",
                    "rehearsal": true,
                    "overrides": {},
                },
                "internalParameters": {
                    "planDigest": record.plan_digest,
                    "sourceDateEpoch": 1_800_000_000,
                },
                "resolvedDependencies": [
                    { "name": "base", "uri": base, "digest": { "sha256": hex } },
                    { "name": "versions/versions.toml", "digest": { "sha256": file.hex() } },
                ],
            },
            "runDetails": {
                "builder": {
                    "id": "https://build-pipeline.github.io/slsa/builder/v1",
                    "version": { "build-pipeline": "0.0.0", "docker": "20.10.24" },
                },
                "metadata": {
                    "invocationId": record.id,
                    "startedOn": "2026-11-20T19:00:00Z",
                    "finishedOn": "2026-11-20T19:00:01Z",
                },
            },
        },
    });
    assert_eq!(statement(&record), wanted);

    // The commit is a dependency only if the files are those of the commit.
    let mut clean = record;
    clean.recipe.modified.clear();
    let project = json!({
        "name": "project",
        "uri": format!("git+https://git.example.org/p@{commit}"),
        "digest": { "gitCommit": commit },
    });
    let dependencies = &statement(&clean)["predicate"]["buildDefinition"]["resolvedDependencies"];
    assert_eq!(dependencies.as_array().unwrap().last(), Some(&project));

    // An image that is on no registry has the name of its track.
    clean.outputs.retain(|one| !one.output.starts_with("registry:"));
    assert_eq!(statement(&clean)["subject"][0]["name"], "rehearsal-locked-spoof");
}

#[test]
fn each_kind_of_input_has_its_address_and_digest() {
    let sha256 = "2".repeat(64);
    let commit = "3".repeat(40);
    let mut draft = full().plan.into_draft();
    for (name, input) in [
        (
            "source",
            json!({ "kind": "source", "url": "https://git.example.org/a", "commit": commit }),
        ),
        (
            "archive",
            json!({ "kind": "archive", "project": "vllm", "version": "0.10.3", "sha256": sha256 }),
        ),
        ("file", json!({ "kind": "file", "digest": format!("sha256:{sha256}") })),
        ("lock", json!({ "kind": "lock", "digest": format!("sha256:{sha256}") })),
    ] {
        let input: Input = serde_json::from_value(input).unwrap();
        draft.inputs.insert(name.to_owned(), input);
    }
    let read = |name: &str| super::super::provenance::Resource::input(name, &draft.inputs[name]);
    let read = |name: &str| serde_json::to_value(read(name)).unwrap();
    let git = json!({ "gitCommit": commit });
    let plain = json!({ "sha256": sha256 });
    for (name, uri, digest) in [
        ("source", json!(format!("git+https://git.example.org/a@{commit}")), &git),
        ("archive", json!("pkg:pypi/vllm@0.10.3"), &plain),
        ("file", Value::Null, &plain),
        ("lock", Value::Null, &plain),
    ] {
        assert_eq!((&read(name)["uri"], &read(name)["digest"]), (&uri, digest), "{name}");
    }
}

#[test]
fn only_a_run_that_succeeded_with_an_image_has_provenance() {
    for record in [
        begun("2026-11-20T19:00:00Z"),
        full(),
        BuildRecord { image: None, ..succeeded() },
        BuildRecord { status: Status::Failed, ..succeeded() },
    ] {
        assert_eq!(record.provenance(), None, "{record:?}");
    }
    let mut unfinished = succeeded();
    unfinished.outputs.iter_mut().for_each(|one| one.state = OutputState::Interrupted);
    assert_eq!(statement(&unfinished)["subject"][0]["name"], "rehearsal-locked-spoof");
}
