//! Tests which GPU code is kept, and how a plan records it.

use std::collections::BTreeSet;

use names::GpuTarget;

use super::*;
use crate::SlimChoice;

const SLIM: &str = r#"
[two]
title = "Two"
description = "Slimmed for two GPUs."
base = "vendor"
slim = ["gfx1151", "gfx1150"]

[upper]
title = "Upper"
description = "On a slimmed track."
track = "two"

[chosen]
title = "Chosen"
description = "With a variant."
base = "vendor"
[chosen.variants.slim]
slim = ["gfx1151"]

[tool]
title = "Tool"
description = "Built, slimmed and checked."
base = "vendor"
gpu-code = true
slim = ["gfx1151"]
[[tool.stage]]
name = "tool"
dockerfile = "dockerfiles/tool.Dockerfile"
"#;

fn input() -> PlanningInput {
    let mut input = input_of(VERSIONS, GPUS, &format!("{TRACKS}{SLIM}"));
    input.files.insert("dockerfiles/tool.Dockerfile".to_owned(), digest('d'));
    input
}

fn plan_of(request: &BuildRequest) -> Plan {
    make(request, &input()).unwrap_or_else(|error| panic!("{request:?}: {error}")).plan
}

fn choice(gpus: &[&str]) -> SlimChoice {
    SlimChoice::For(gpus.iter().map(|gpu| gpu.parse().unwrap()).collect())
}

/// Returns the GPUs whose code must be kept, the GPUs whose code is kept if present, and the change
/// that the plan records.
fn kept(request: &BuildRequest) -> (String, String, Option<String>) {
    let plan = plan_of(request);
    let spell =
        |gpus: &[GpuTarget]| gpus.iter().map(GpuTarget::as_str).collect::<Vec<_>>().join(" ");
    let step = plan.steps.iter().find_map(|step| match &step.action {
        Action::SlimImage { gpus, if_present, .. } => Some((spell(gpus), spell(if_present))),
        _ => None,
    });
    assert_eq!(step.is_some(), crate::is_slimmed(request, &input()), "{request:?}");
    let (gpus, if_present) = step.unwrap_or_default();
    (gpus, if_present, plan.overrides.get("slim").cloned())
}

#[test]
fn the_gpu_of_the_image_and_the_one_that_it_imitates_keep_their_code() {
    let slim = |track: &str, gpus: &[&str]| BuildRequest { slim: choice(gpus), ..plain(track) };
    let gpu = |gpu: &str, request: BuildRequest| BuildRequest {
        gpu: Some(gpu.parse().unwrap()),
        ..request
    };
    let variant = BuildRequest { variant: Some("slim".to_owned()), ..plain("chosen") };
    let off = |track: &str| BuildRequest { slim: SlimChoice::Off, ..plain(track) };
    for (request, gpus, if_present, noted) in [
        (plain("official"), "", "", None),
        (off("official"), "", "", None),
        (slim("official", &[]), "gfx1151", "", Some("gfx1151")),
        (slim("official", &["gfx1100"]), "gfx1100 gfx1151", "", Some("gfx1100,gfx1151")),
        (gpu("gfx1031", slim("official", &[])), "gfx1031", "", Some("gfx1031")),
        // The list comes from the track, or from the track below it.
        (plain("two"), "gfx1150 gfx1151", "", None),
        (plain("upper"), "gfx1150 gfx1151", "", None),
        (off("two"), "", "", Some("off")),
        (slim("two", &["gfx1150"]), "gfx1150 gfx1151", "", None),
        (slim("two", &[]), "gfx1151", "", Some("gfx1151")),
        (gpu("gfx1150", plain("two")), "gfx1150 gfx1151", "", None),
        // Another GPU replaces the list.
        (gpu("gfx1100", plain("two")), "gfx1100", "", None),
        (variant.clone(), "gfx1151", "", None),
        (plain("chosen"), "", "", None),
        // The spoof can be switched off, so code for the image's own GPU is kept too.
        (slim("locked-spoof", &[]), "gfx1100", "gfx1151", Some("gfx1100,gfx1151")),
        (plain("tool"), "gfx1151", "", None),
    ] {
        let wanted = (gpus.to_owned(), if_present.to_owned(), noted.map(str::to_owned));
        assert_eq!(kept(&request), wanted, "{request:?}");
        // The labels of the image lead to the same plan.
        let plan = plan_of(&request);
        let mut read = BuildRequest {
            variant: request.variant.clone(),
            ..BuildRequest::new(request.track.clone())
        };
        read.read_overrides(&label(&plan, labels::OVERRIDES).unwrap_or_default()).unwrap();
        assert_eq!(plan_of(&read), plan, "{request:?}");
        let targets = if if_present.is_empty() { gpus } else { "" };
        assert_eq!(label(&plan, labels::GPU_TARGETS).unwrap_or_default(), targets, "{request:?}");
    }
    assert_eq!(plan_of(&variant).name, "chosen-slim");
    let rehearsed = BuildRequest { rehearse: true, ..variant };
    assert_eq!(plan_of(&rehearsed).name, "rehearsal-chosen-slim");
}

#[test]
fn a_built_image_is_slimmed_after_its_stages_and_before_the_check() {
    let plan = plan_of(&plain("tool"));
    let steps: Vec<&str> = plan.steps.iter().map(|step| &*step.id).collect();
    assert_eq!(
        steps,
        ["fetch-base", "build-tool", "seal-tool", "slim-image", "audit-image", "label-image"]
    );
    let whole = plan_of(&BuildRequest { slim: SlimChoice::Off, ..plain("tool") });
    let (keys, other) = (plan.step_keys(), whole.step_keys());
    // The stages are the same, so they are not built again.
    assert_eq!(keys["seal-tool"], other["seal-tool"]);
    assert_ne!(keys["audit-image"], other["audit-image"]);
    insta::assert_snapshot!(plan.canonical_text());
}

#[test]
fn what_cannot_be_slimmed_is_refused() {
    let error = |request: &BuildRequest, input: &PlanningInput| {
        make(request, input).unwrap_err().to_string()
    };
    let asked = BuildRequest { slim: choice(&["gfx942"]), ..plain("official") };
    let unknown = "`slim` names GPU `gfx942`, which `versions/gpus.toml` does not contain";
    assert_eq!(error(&asked, &input()), unknown);
    let mut listed = input();
    let track = listed.tracks.tracks.get_mut("two").unwrap();
    let Build::Derive { slim, .. } = &mut track.build else { panic!("it has no stages") };
    slim.push("gfx942".parse().unwrap());
    assert_eq!(error(&plain("two"), &listed), unknown);
    let variant = BuildRequest { variant: Some("fat".to_owned()), ..plain("chosen") };
    assert_eq!(error(&variant, &input()), "track `chosen` has no variant `fat`");
}

#[test]
fn a_change_of_slim_that_the_steps_contradict_is_no_plan() {
    let plan = plan_of(&BuildRequest { slim: choice(&[]), ..plain("official") });
    for (value, is_plan) in [("gfx1151", true), ("off", false), ("gfx1150", false), ("", false)] {
        let mut draft = plan.clone().into_draft();
        draft.overrides.insert("slim".to_owned(), value.to_owned());
        for step in &mut draft.steps {
            if let Action::DeriveImage { edit, .. } = &mut step.action {
                edit.labels.insert(labels::OVERRIDES.to_owned(), format!("slim={value}"));
            }
        }
        assert_eq!(draft.finish().is_ok(), is_plan, "{value}");
    }
}

#[test]
fn changes_of_slim_that_no_plan_notes_are_refused() {
    let mut request = plain("official");
    for text in ["slim=", "slim=gfx1151,", "slim=x", "slim=gfx1151;gfx1100"] {
        assert!(request.read_overrides(text).is_err(), "{text}");
    }
    assert_eq!(request.slim, SlimChoice::OfTrack);
    request.read_overrides("slim=gfx1151,gfx1100").unwrap();
    let both = ["gfx1100", "gfx1151"].map(|gpu| gpu.parse().unwrap());
    assert_eq!(request.slim, SlimChoice::For(BTreeSet::from(both)));
}
