//! Tests of the planner. They have their own data files, so that a bump does not change a snapshot.

mod built;
mod files;
mod properties;
mod slim;
mod warnings;

use std::collections::BTreeMap;

use names::PinName;
use names::{Digest, Tag};
use pins::{Base, Build, References, parse_gpus, parse_tracks_with, parse_versions};
use plan::{Action, Input, ManifestKind, Plan, Revision, labels};

use crate::{
    BuildRequest, ImageOverride, PlanError, Planned, PlanningInput, SpoofChoice, plan as make,
};

const VERSIONS: &str = include_str!("fixture/versions.toml");
const GPUS: &str = include_str!("fixture/gpus.toml");
const TRACKS: &str = include_str!("fixture/tracks.toml");

/// The tracks that only add metadata.
const METADATA_ONLY: [&str; 4] = ["official", "nightly-spoof", "locked-spoof", "ollama"];

fn input_of(versions: &str, gpus: &str, tracks: &str) -> PlanningInput {
    let pins = parse_versions("versions.toml", versions).unwrap_or_else(|e| panic!("{e}"));
    let gpus = parse_gpus("gpus.toml", gpus).unwrap_or_else(|e| panic!("{e}"));
    let tracks =
        parse_tracks_with("tracks.toml", tracks, References { pins: Some(&pins), tracks: None })
            .unwrap_or_else(|e| panic!("{e}"));
    PlanningInput::new(pins, gpus, tracks)
}

fn input() -> PlanningInput {
    input_of(VERSIONS, GPUS, TRACKS)
}

fn plain(track: &str) -> BuildRequest {
    BuildRequest::new(track.parse().unwrap())
}

fn planned(request: &BuildRequest) -> Planned {
    make(request, &input()).unwrap_or_else(|error| panic!("{request:?}: {error}"))
}

/// Replaces the base of a track that only adds metadata.
fn set_base(input: &mut PlanningInput, track: &str, new: Base) {
    let Build::Derive { base, .. } = &mut input.tracks.tracks.get_mut(track).unwrap().build else {
        panic!("`{track}` has stages");
    };
    *base = new;
}

fn digest(digit: char) -> Digest {
    format!("sha256:{}", digit.to_string().repeat(64)).parse().unwrap()
}

fn pin(name: &str) -> PinName {
    name.parse().unwrap()
}

/// Returns a request with a different digest for one pin.
fn overridden(track: &str, name: &str, tag: Option<&str>, digit: char) -> BuildRequest {
    let tag = tag.map(|tag| tag.parse::<Tag>().unwrap());
    let image = ImageOverride { tag, digest: digest(digit) };
    BuildRequest { overrides: BTreeMap::from([(pin(name), image)]), ..plain(track) }
}

fn with_spoof(track: &str, version: &str) -> BuildRequest {
    let spoof = SpoofChoice::Version(version.parse().unwrap());
    BuildRequest { spoof, ..plain(track) }
}

fn for_gpu(track: &str, gpu: &str) -> BuildRequest {
    BuildRequest { gpu: Some(gpu.parse().unwrap()), ..plain(track) }
}

fn labels_of(plan: &Plan) -> BTreeMap<String, String> {
    plan.final_labels()
}

fn label(plan: &Plan, key: &str) -> Option<String> {
    labels_of(plan).remove(key)
}

fn env(plan: &Plan, name: &str) -> Option<String> {
    plan.image_edit().env.get(name).cloned()
}

#[test]
fn the_plan_of_each_metadata_only_track() {
    for track in METADATA_ONLY {
        let plan = planned(&plain(track)).plan;
        insta::assert_snapshot!(format!("plan_{track}"), plan.canonical_text());
    }
}

#[test]
fn a_rehearsed_plan_differs_in_its_name_and_its_mark_alone() {
    for track in METADATA_ONLY {
        let real = planned(&plain(track)).plan;
        let rehearsed = planned(&BuildRequest { rehearse: true, ..plain(track) }).plan;
        assert_eq!(rehearsed.name, format!("rehearsal-{track}"));
        assert_eq!(label(&rehearsed, labels::REHEARSAL).as_deref(), Some("true"));
        assert_eq!(label(&real, labels::REHEARSAL).as_deref(), Some("false"));
        let mut draft = rehearsed.into_draft();
        draft.name.clone_from(&real.name);
        draft.rehearsal = false;
        for step in &mut draft.steps {
            if let Action::DeriveImage { edit, .. } = &mut step.action {
                edit.labels.insert(labels::REHEARSAL.to_owned(), "false".to_owned());
            }
        }
        assert_eq!(draft.finish().unwrap(), real);
    }
}

#[test]
fn every_error_says_what_cannot_be_planned() {
    let without_tracks = || {
        let mut input = input();
        input.tracks.tracks.clear();
        input
    };
    let with_base = |name: &str| {
        let mut input = input();
        set_base(&mut input, "official", Base::Image(pin(name)));
        input
    };
    let at = |epoch| BuildRequest { source_date_epoch: Some(epoch), ..plain("official") };
    let off = |track| BuildRequest { spoof: SpoofChoice::Off, ..plain(track) };
    let cases: Vec<(BuildRequest, PlanningInput, PlanError)> = vec![
        (plain("source"), input(), PlanError::NoSettings { track: "source".to_owned() }),
        (plain("ollama"), without_tracks(), PlanError::NoSettings { track: "ollama".to_owned() }),
        (
            plain("official"),
            with_base("tree"),
            PlanError::NoSuchBase { track: "official".to_owned(), pin: "tree".to_owned() },
        ),
        (
            plain("official"),
            with_base("unknown"),
            PlanError::Unresolved {
                pin: "unknown".to_owned(),
                image: "registry.example.org/vendor/unknown:v9".to_owned(),
                tag: Some("v9".to_owned()),
                has_rehearsal: true,
            },
        ),
        (
            overridden("official", "vendr", None, 'a'),
            input(),
            PlanError::UnknownPin {
                pin: "vendr".to_owned(),
                known: ["chat", "nightly", "old", "tree", "unknown", "vendor"]
                    .map(str::to_owned)
                    .to_vec(),
            },
        ),
        (
            overridden("official", "chat", None, 'a'),
            input(),
            PlanError::UnusedPin {
                track: "official".to_owned(),
                pin: "chat".to_owned(),
                used: crate::UsedPins { images: vec!["vendor".to_owned()], others: Vec::new() },
            },
        ),
        (
            for_gpu("official", "gfx942"),
            input(),
            PlanError::UnknownGpu {
                gpu: "gfx942".to_owned(),
                known: ["gfx1031", "gfx1100", "gfx1150", "gfx1151"].map(str::to_owned).to_vec(),
            },
        ),
        (
            for_gpu("locked-spoof", "gfx1150"),
            input(),
            PlanError::NoSpoof { gpu: "gfx1150".to_owned() },
        ),
        (
            with_spoof("official", "11.0.0"),
            input(),
            PlanError::NotASpoofTrack { track: "official".to_owned() },
        ),
        (off("ollama"), input(), PlanError::NotASpoofTrack { track: "ollama".to_owned() }),
        (at(253_402_300_800), input(), PlanError::Epoch(253_402_300_800)),
        (at(u64::MAX), input(), PlanError::Epoch(u64::MAX)),
    ];
    let mut messages = String::new();
    for (request, input, wanted) in cases {
        let error = make(&request, &input).unwrap_err();
        assert_eq!(error, wanted);
        messages.push_str(&error.to_string());
        messages.push('\n');
    }
    insta::assert_snapshot!(messages);
}

#[test]
fn base_pin_is_the_one_the_settings_name() {
    let input = input();
    for (track, wanted) in METADATA_ONLY.into_iter().zip(["vendor", "nightly", "old", "chat"]) {
        let (name, found) = crate::base_pin(&plain(track), &input).unwrap();
        assert_eq!((name.as_str(), Some(found)), (wanted, input.pins.images.get(name)));
    }
    assert_eq!(crate::base_pin(&plain("source"), &input), None);
}

#[test]
fn facts_of_another_digest_are_forgotten() {
    let same = planned(&overridden("official", "vendor", None, '1')).plan;
    let other = planned(&overridden("official", "vendor", None, 'a')).plan;
    let resolved = planned(&overridden("official", "vendor", Some("v2"), 'a')).plan;
    // The release and the kind are known only for the pinned digest.
    for (plan, rocm, has_kind) in
        [(&same, Some("7.2.1"), true), (&other, None, false), (&resolved, None, false)]
    {
        assert_eq!(label(plan, labels::ROCM_VERSION).as_deref(), rocm);
        let Some(Input::Image { manifest, .. }) = plan.inputs.get("vendor") else { unreachable!() };
        assert_eq!(manifest.is_some(), has_kind);
    }
    let repository = "registry.example.org/vendor/inference";
    for (plan, name, version, hex) in [
        (&same, format!("{repository}:v1.2.3"), "v1.2.3", '1'),
        // The old tag might not point to the new digest.
        (&other, repository.to_owned(), "sha256:aaaaaaaaaaaa", 'a'),
        (&resolved, format!("{repository}:v2"), "v2", 'a'),
    ] {
        assert_eq!(label(plan, labels::BASE_NAME), Some(name));
        assert_eq!(label(plan, labels::VERSION).as_deref(), Some(version));
        assert_eq!(label(plan, labels::BASE_DIGEST), Some(digest(hex).to_string()));
    }
    let pinned = planned(&plain("official")).plan;
    assert_eq!(label(&same, labels::PINS_DIGEST), label(&pinned, labels::PINS_DIGEST));
    assert_ne!(label(&other, labels::PINS_DIGEST), label(&pinned, labels::PINS_DIGEST));
}

#[test]
fn an_override_resolves_what_nobody_has_pinned() {
    let mut input = input();
    set_base(&mut input, "official", Base::Image(pin("unknown")));
    let plan = make(&overridden("official", "unknown", Some("v9"), 'b'), &input).unwrap().plan;
    let wanted = format!("registry.example.org/vendor/unknown:v9@{}", digest('b'));
    assert_eq!(plan.inputs["unknown"].to_string(), wanted);
}

#[test]
fn every_override_is_in_the_plan_and_the_label() {
    let a = digest('a');
    let everything = BuildRequest {
        gpu: Some("gfx1031".parse().unwrap()),
        spoof: SpoofChoice::Version("10.3.0".parse().unwrap()),
        source_date_epoch: Some(0),
        ..overridden("locked-spoof", "old", Some("t"), 'a')
    };
    let off = BuildRequest { spoof: SpoofChoice::Off, ..plain("locked-spoof") };
    let cases: Vec<(BuildRequest, Vec<(&str, String)>)> = vec![
        (plain("locked-spoof"), vec![]),
        (overridden("locked-spoof", "old", None, 'a'), vec![("old", a.to_string())]),
        (for_gpu("locked-spoof", "gfx1031"), vec![("gpu", "gfx1031".to_owned())]),
        // The label lists a change even if it equals the default, because the run requested it.
        (for_gpu("locked-spoof", "gfx1151"), vec![("gpu", "gfx1151".to_owned())]),
        (off, vec![("spoof", "off".to_owned())]),
        (with_spoof("locked-spoof", "9.0.0"), vec![("spoof", "9.0.0".to_owned())]),
        (
            everything,
            vec![
                ("gpu", "gfx1031".to_owned()),
                ("old", format!("t@{a}")),
                ("source-date-epoch", "0".to_owned()),
                ("spoof", "10.3.0".to_owned()),
            ],
        ),
    ];
    for (request, wanted) in cases {
        let plan = planned(&request).plan;
        let spelled: Vec<_> =
            wanted.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let spelled = (!spelled.is_empty()).then(|| spelled.join(" "));
        assert_eq!(label(&plan, labels::OVERRIDES), spelled, "{request:?}");
        let wanted: BTreeMap<_, _> =
            wanted.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        assert_eq!(plan.overrides, wanted, "{request:?}");
    }
}

#[test]
fn an_override_that_no_plan_spells_is_refused_by_name() {
    let digest = digest('a');
    for spelled in [
        "old".to_owned(),
        "=".to_owned(),
        "old=latest".to_owned(),
        "gpu=gfx".to_owned(),
        "spoof=gfx1100".to_owned(),
        "spoof=".to_owned(),
        "source-date-epoch=-1".to_owned(),
        format!("Old={digest}"),
        format!("old=@{digest}"),
        format!("old=.tag@{digest}"),
    ] {
        let mut request = plain("locked-spoof");
        let error = request.read_overrides(&format!("gpu=gfx1151 {spelled}")).unwrap_err();
        assert!(error.to_string().contains(&format!("`{spelled}`")), "{error}");
    }
}

#[test]
fn the_time_is_the_one_that_was_given() {
    for (epoch, wanted) in [
        (None, "2027-01-15T08:00:00Z"),
        (Some(0), "1970-01-01T00:00:00Z"),
        (Some(951_782_400), "2000-02-29T00:00:00Z"),
        (Some(253_402_207_199), "9999-12-30T21:59:59Z"),
    ] {
        let request = BuildRequest { source_date_epoch: epoch, ..plain("official") };
        let plan = planned(&request).plan;
        assert_eq!(plan.source_date_epoch, epoch.unwrap_or(1_800_000_000));
        assert_eq!(plan.image_edit().created, wanted);
        for key in [labels::CREATED, labels::BUILD_DATE] {
            assert_eq!(label(&plan, key).as_deref(), Some(wanted));
        }
    }
}

#[test]
fn a_commit_is_in_the_labels_only_where_the_request_asks_for_it() {
    let commit: names::CommitId = "6".repeat(40).parse().unwrap();
    let revision =
        |url: Option<&str>| Some(Revision { url: url.map(str::to_owned), commit: commit.clone() });
    let url = "https://git.example.org/recipe";
    for (revision, source, is_named) in
        [(None, None, false), (revision(None), None, true), (revision(Some(url)), Some(url), true)]
    {
        let request = BuildRequest { revision, ..plain("official") };
        let plan = planned(&request).plan;
        let named = is_named.then(|| commit.to_string());
        assert_eq!(label(&plan, labels::SOURCE).as_deref(), source);
        assert_eq!(label(&plan, labels::REVISION), named);
        assert_eq!(label(&plan, labels::VCS_REF), named);
        assert_eq!(label(&plan, labels::VCS_TYPE).is_some(), is_named);
    }
}

#[test]
fn a_stand_in_takes_the_place_of_the_base() {
    let mut input = input();
    set_base(&mut input, "official", Base::Image(pin("unknown")));
    let stand_in = crate::StandIn { digest: digest('c'), kind: ManifestKind::Manifest };
    let request = BuildRequest { rehearse: true, stand_in: Some(stand_in), ..plain("official") };
    let plan = make(&request, &input).unwrap().plan;
    let wanted = format!("registry.example.org/vendor/unknown:v9@{}", digest('c'));
    let Input::Image { reference, manifest } = &plan.inputs["unknown"] else { unreachable!() };
    assert_eq!((reference.to_string(), *manifest), (wanted, Some(ManifestKind::Manifest)));
}

#[test]
fn the_projects_own_files_plan_as_far_as_their_pins_are_resolved() {
    let input = input_of(
        include_str!("../../../../versions/versions.toml"),
        include_str!("../../../../versions/gpus.toml"),
        include_str!("../../../../versions/tracks.toml"),
    );
    for track in METADATA_ONLY {
        let (name, found) = crate::base_pin(&plain(track), &input).unwrap();
        match (&found.digest, make(&plain(track), &input)) {
            (pins::Pinned::Resolved(pinned), Ok(planned)) => {
                let base = label(&planned.plan, labels::BASE_DIGEST);
                assert_eq!(base, Some(pinned.to_string()));
            }
            (pins::Pinned::Unresolved, Err(PlanError::Unresolved { pin, .. })) => {
                assert_eq!(pin, name.as_str());
            }
            (digest, result) => panic!("{track:?}: {digest:?} gave {result:?}"),
        }
    }
}
