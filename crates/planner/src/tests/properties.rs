//! Tests properties that hold for all inputs: plans depend only on values, and labels contain clean
//! text.

use names::Digest;
use proptest::prelude::*;

use super::*;
use crate::SlimChoice;

/// Returns the first lines of a data file, and its tables.
fn tables(text: &str) -> (String, Vec<String>) {
    let mut parts = text.split_inclusive('\n').fold(vec![String::new()], |mut parts, line| {
        if line.starts_with('[') {
            parts.push(String::new());
        }
        parts.last_mut().unwrap().push_str(line);
        parts
    });
    let head = parts.remove(0);
    (head, parts)
}

/// Returns texts with the same values: tables in a different order, comments, empty lines, CRLF.
fn same_values(text: &'static str) -> impl Strategy<Value = String> {
    let (head, parts) = tables(text);
    let noise = prop::collection::vec("(# [ -~]{0,20})?", parts.len() + 1);
    (Just(parts).prop_shuffle(), noise, any::<bool>()).prop_map(move |(parts, noise, crlf)| {
        let mut text = head.clone();
        for (part, noise) in parts.iter().zip(&noise) {
            text.extend([noise, "\n", part]);
        }
        text.extend(["\n", noise.last().unwrap()]);
        if crlf { text.replace('\n', "\r\n") } else { text }
    })
}

fn requests() -> impl Strategy<Value = BuildRequest> {
    let spoof = prop_oneof![
        Just(SpoofChoice::Auto),
        Just(SpoofChoice::Off),
        (0..64u8, any::<u8>(), any::<u8>()).prop_map(|(major, minor, stepping)| {
            SpoofChoice::Version(format!("{major}.{minor}.{stepping}").parse().unwrap())
        }),
    ];
    let gpu = prop::sample::select(vec!["gfx1151", "gfx1031", "gfx1150", "gfx1100"]);
    let track = prop::sample::select(METADATA_ONLY.to_vec());
    let tag = prop::option::of("[A-Za-z0-9_][A-Za-z0-9._-]{0,20}");
    let image = prop::option::of((tag, "[0-9a-f]{64}"));
    let time = prop::option::of(0..253_402_207_200u64);
    (track, prop::option::of(gpu), spoof, image, time, any::<bool>()).prop_map(
        |(track, gpu, spoof, image, source_date_epoch, rehearse)| {
            let (name, _) = crate::base_pin(&plain(track), &input())
                .map(|(n, p)| (n.clone(), p.clone()))
                .unwrap();
            let overrides = image.into_iter().map(|(tag, hex)| {
                let tag = tag.map(|tag| tag.parse().unwrap());
                let digest = format!("sha256:{hex}").parse().unwrap();
                (name.clone(), ImageOverride { tag, digest })
            });
            let overrides = overrides.collect();
            let gpu = gpu.map(|gpu| gpu.parse().unwrap());
            BuildRequest {
                track: track.parse().unwrap(),
                variant: None,
                gpu,
                spoof,
                slim: SlimChoice::OfTrack,
                overrides,
                source_date_epoch,
                rehearse,
                stand_in: None,
                revision: None,
            }
        },
    )
}

proptest! {
    #[test]
    fn equal_values_give_byte_equal_plans(
        versions in same_values(VERSIONS),
        gpus in same_values(GPUS),
        tracks in same_values(TRACKS),
        request in requests(),
    ) {
        let shuffled = make(&request, &input_of(&versions, &gpus, &tracks));
        let plain = make(&request, &input());
        prop_assert_eq!(&shuffled, &plain);
        if let (Ok(shuffled), Ok(plain)) = (shuffled, plain) {
            prop_assert_eq!(shuffled.plan.canonical_text(), plain.plan.canonical_text());
        }
    }

    #[test]
    fn a_plan_is_read_back_from_its_text_and_known_by_its_sha256(request in requests()) {
        let Ok(planned) = make(&request, &input()) else { return Ok(()) };
        let text = planned.plan.canonical_text();
        let read = Plan::parse(&text).unwrap();
        prop_assert_eq!(&read, &planned.plan);
        prop_assert_eq!(read.canonical_text(), text.clone());
        prop_assert_eq!(planned.plan.digest(), Digest::of(text.as_bytes()));
        let label = label(&planned.plan, labels::PLAN_DIGEST);
        prop_assert_eq!(label, Some(Digest::of(text.as_bytes()).to_string()));
    }

    #[test]
    fn the_label_of_overrides_says_the_request_again(request in requests()) {
        let Ok(planned) = make(&request, &input()) else { return Ok(()) };
        let mut read = BuildRequest { rehearse: request.rehearse, ..BuildRequest::new(request.track.clone()) };
        let label = label(&planned.plan, labels::OVERRIDES).unwrap_or_default();
        read.read_overrides(&label).unwrap();
        prop_assert_eq!(make(&read, &input()), Ok(planned));
        prop_assert_eq!(read, request);
    }

    #[test]
    fn no_label_has_a_control_character(
        request in requests(),
        title in any::<String>(),
        description in "\\PC{0,30}[\u{0}-\u{1f}\u{7f}-\u{9f}]?\\PC{0,30}",
    ) {
        // The parser refuses bad values in a data file; accepted ones must be clean.
        let quoted = |text: &str| serde_json::to_string(text).unwrap();
        let tracks = TRACKS
            .replace("\"Locked\"", &quoted(&title))
            .replace("\"A pinned image.\"", &quoted(&description));
        let pins = parse_versions("versions.toml", VERSIONS).unwrap();
        let Ok(tracks) = parse_tracks_with("tracks.toml", &tracks, References { pins: Some(&pins), tracks: None }) else { return Ok(()) };
        let input = PlanningInput { tracks, ..input() };
        let Ok(planned) = make(&request, &input) else { return Ok(()) };
        for (key, value) in labels_of(&planned.plan) {
            prop_assert!(!key.contains(char::is_control), "{key:?}");
            prop_assert!(!value.contains(char::is_control), "{key}: {value:?}");
        }
    }

    #[test]
    fn the_override_is_one_the_runtime_accepts(request in requests()) {
        let Ok(planned) = make(&request, &input()) else { return Ok(()) };
        let Some(value) = env(&planned.plan, crate::OVERRIDE_VARIABLE) else { return Ok(()) };
        let numbers: Vec<u8> = value.split('.').map(|part| part.parse().unwrap()).collect();
        prop_assert_eq!(numbers.len(), 3);
        prop_assert!(numbers[0] <= 63);
    }
}
