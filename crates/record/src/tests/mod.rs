//! Tests of the record's file and of the verification of images.

mod changes;
mod fuzz;
mod provenance;
mod sbom;
mod verify;

use std::collections::BTreeMap;

use names::{Builder, Digest, EngineKind};
use plan::{
    Action, DeriveContract, Draft, ImageEdit, Input, ManifestKind, Plan, Platform, Step, labels,
};

use crate::{
    BuildRecord, EngineUse, ImageSummary, Note, OutputOutcome, OutputState, PassedOver, Run,
    Status, StepOutcome, StepState, Traffic,
};

const BASE: &str = "registry.example.org/base@sha256:1111111111111111111111111111111111111111111111111111111111111111";

/// Returns a plan in the form that the planner makes.
fn plan() -> Plan {
    let all = [
        (labels::ARCHITECTURE, "x86_64"),
        (labels::BASE_DIGEST, &BASE[26..]),
        (labels::CREATED, "2027-01-15T08:00:00Z"),
        (labels::TRACK, "locked-spoof"),
    ];
    let edit = ImageEdit {
        created: "2027-01-15T08:00:00Z".to_owned(),
        created_by: "a test".to_owned(),
        env: BTreeMap::from([("HSA_OVERRIDE_GFX_VERSION".to_owned(), "11.0.0".to_owned())]),
        entrypoint_prefix: ["/bin/sh", "-c", "script", "name"].map(str::to_owned).to_vec(),
        reset: labels::RESET.map(str::to_owned).to_vec(),
        labels: all.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        ..ImageEdit::default()
    };
    let fetch = Action::FetchBase { input: "base".to_owned(), platform: Platform::linux_amd64() };
    let base = "fetch-base".to_owned();
    let derive =
        Action::DeriveImage { base: base.clone(), contract: DeriveContract::Derive1, edit };
    let image =
        Input::Image { reference: BASE.parse().unwrap(), manifest: Some(ManifestKind::Index) };
    let mut draft = Draft {
        schema: plan::SCHEMA,
        track: "locked-spoof".to_owned(),
        name: "rehearsal-locked-spoof".to_owned(),
        gpu: "gfx1151".parse().unwrap(),
        rehearsal: true,
        source_date_epoch: 1_800_000_000,
        revision: None,
        overrides: BTreeMap::new(),
        inputs: BTreeMap::from([("base".to_owned(), image)]),
        steps: vec![
            Step { id: base, action: fetch },
            Step { id: "derive-image".to_owned(), action: derive },
        ],
    };
    let pins = draft.derived_labels().remove(labels::PINS_DIGEST).flatten();
    if let Action::DeriveImage { edit, .. } = &mut draft.steps[1].action {
        edit.labels.extend(pins.map(|digest| (labels::PINS_DIGEST.to_owned(), digest)));
    }
    draft.finish().unwrap()
}

fn begun(began: &str) -> BuildRecord {
    let run = Run {
        tool_version: "0.0.0".to_owned(),
        command: vec!["build-pipeline".to_owned(), "--track".to_owned(), "locked-spoof".to_owned()],
        process: 4711,
        place: Some(crate::Place {
            project: "/srv/images".to_owned(),
            folder: "/srv/images/dist".to_owned(),
        }),
        began: began.to_owned(),
        warnings: vec!["rule: message".to_owned()],
        recipe: crate::Recipe {
            files: BTreeMap::from([("versions/versions.toml".to_owned(), Digest::of(b"pins"))]),
            url: Some("https://git.example.org/p".to_owned()),
            commit: Some("3".repeat(40).parse().unwrap()),
            unknown: None,
            modified: vec!["versions/versions.toml".to_owned()],
        },
    };
    BuildRecord::begin(plan(), run)
}

/// Returns a record with a value in every field.
fn full() -> BuildRecord {
    let mut record = begun("2026-11-20T19:00:00Z");
    record.ended = Some("2026-11-20T19:00:01Z".to_owned());
    record.status = Status::Interrupted;
    record.error = vec!["outer".to_owned(), "inner \u{1b}[31m\n".to_owned()];
    record.engine = Some(EngineUse {
        kind: EngineKind::Docker,
        version: "20.10.24".to_owned(),
        builder: Builder::BuildKit,
        runtime: "runc".to_owned(),
        address: "unix:///run/docker.sock".to_owned(),
        origin: "DOCKER_HOST".to_owned(),
        passed_over: vec![PassedOver {
            origin: "the podman program".to_owned(),
            reason: "no runtime works".to_owned(),
        }],
    });
    for state in [
        StepState::Done,
        StepState::Cached,
        StepState::Failed,
        StepState::Interrupted,
        StepState::NotBegun,
    ] {
        let step = format!("{state:?}");
        record.steps.push(StepOutcome { step, state, milliseconds: u64::MAX, store: None });
    }
    record.image = Some(ImageSummary {
        manifest_digest: Digest::of(b"manifest"),
        config_digest: Digest::of(b"config"),
        base_index: Some(Digest::of(b"index")),
        base_manifest: Digest::of(b"base"),
        layers: 3,
        layer_bytes: 9,
        reset: vec!["maintainer".to_owned()],
        slim: None,
    });
    for state in
        [OutputState::Written, OutputState::UpToDate, OutputState::Failed, OutputState::Interrupted]
    {
        record.outputs.push(OutputOutcome {
            output: "oci:dist/x".to_owned(),
            state,
            layers_copied: 1,
            layer_bytes_copied: 2,
            layers_mounted: 3,
        });
    }
    record.notes.push(Note { rule: "rule".to_owned(), message: "message".to_owned() });
    record.traffic = Traffic { requests: 1, bytes_received: 2, bytes_sent: 3 };
    record
}

#[test]
fn a_record_is_read_back_from_its_file() {
    for record in [begun("2026-11-20T19:00:00Z"), full()] {
        let text = record.to_text();
        assert!(text.ends_with("}\n"));
        let read = BuildRecord::parse(&text).unwrap();
        assert_eq!(read, record);
        assert_eq!(read.to_text(), text);
        // The plan in it must match the digest next to it.
        assert_eq!(read.plan.digest(), read.plan_digest);
    }
}

/// Records of earlier releases do not name an engine.
#[test]
fn a_record_without_an_engine_is_read() {
    let mut json: serde_json::Value = serde_json::from_str(&full().to_text()).unwrap();
    let engine = json.as_object_mut().unwrap().remove("engine").unwrap();
    assert_eq!((&engine["kind"], &engine["builder"]), (&"docker".into(), &"buildkit".into()));
    let read = BuildRecord::parse(&json.to_string()).unwrap();
    assert_eq!(read, BuildRecord { engine: None, ..full() });
}

#[test]
fn a_record_begins_as_running_and_empty() {
    let record = begun("2026-11-20T19:00:00Z");
    assert_eq!(record.status, Status::Running);
    assert_eq!((record.ended.as_ref(), record.image.as_ref()), (None, None));
    assert!(record.steps.is_empty() && record.outputs.is_empty() && record.error.is_empty());
    let text = record.to_text();
    assert!(!text.contains("\"ended\"") && !text.contains("\"image\": null"), "{text}");
}

#[test]
fn parse_refuses_what_is_no_record() {
    let text = full().to_text();
    let changed = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    };
    let not_one = "the text is not a build record";
    let newer = "the record has schema 3, but this build-pipeline reads only up to 2; update build-pipeline";
    for (text, wanted) in [
        (String::new(), not_one),
        ("{}".to_owned(), not_one),
        (text[..text.len() / 2].to_owned(), not_one),
        (changed("\"status\": \"interrupted\"", "\"status\": \"gone\""), not_one),
        (changed("\"schema\": 2", "\"schema\": 3"), newer),
        // A newer schema is recognised before anything else is read.
        (r#"{"schema":3,"everything":"else"}"#.to_owned(), newer),
        // A newer plan in a current record is refused.
        (changed("\"gpu\"", "\"cpu\""), not_one),
    ] {
        assert_eq!(BuildRecord::parse(&text).unwrap_err().to_string(), wanted, "{text}");
    }
}

#[test]
fn the_id_is_a_file_name_that_sorts_by_time() {
    for (began, wanted) in [
        ("2026-11-20T19:00:00Z", "20261120T190000Z-rehearsal-locked-spoof-4711"),
        ("2026-11-20T19:00:00.5Z", "20261120T190000.5Z-rehearsal-locked-spoof-4711"),
    ] {
        let id = begun(began).id;
        assert_eq!(id, wanted);
        assert!(id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b)), "{id}");
        assert!(!id.starts_with(['-', '.']) && id.len() < 200);
    }
    assert!(begun("2026-11-20T19:00:00Z").id < begun("2026-11-20T19:00:01Z").id);
}
