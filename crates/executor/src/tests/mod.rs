//! Properties that hold for every project: a build applies exactly what the plan and the labels
//! specify, and what verification expects.

mod steps;
mod stores;
pub(crate) mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use names::{Digest, PinName, Tag};
use oci::DerivedImage;
use patcher::{NoProbes, PatchSet, parse_patch};
use pins::{References, parse_gpus, parse_tracks_with, parse_versions};
use plan::{Action, Expectation, ManifestKind, Plan, Platform, labels};
use planner::{
    BuildRequest, ImageOverride, OVERRIDE_VARIABLE, PlanError, PlanningInput, SpoofChoice, StandIn,
};
use proptest::prelude::*;
use record::verify::{Documents, Verdict, compare_with_plan};
use serde_json::json;
use sources::Tree;

use crate::build_env::{Materials, SourceStep, parse_manifest};

/// The track that an engine builds from the source.
const BUILT: &str = "vulkan";
/// The track that only adds metadata, with a spoof.
const SPOOFED: &str = "spoofed";
/// GPUs, and the version that each imitates. None is known for the last one.
const GPUS: [(&str, Option<&str>); 3] =
    [("gfx1151", Some("11.0.0")), ("gfx1031", Some("10.3.0")), ("gfx1201", None)];
const VERSIONS: [&str; 4] = ["1.0", "1.5", "2.0", "3.1rc1"];

/// A patch of a small project.
#[derive(Debug, Clone)]
struct SmallPatch {
    /// The lower and upper bound of its versions, and what applies outside each.
    range: Range,
    gpus: Option<&'static str>,
    /// Whether its file may be absent.
    skips_absent: bool,
}

#[derive(Debug, Clone)]
struct Range {
    from: Option<(&'static str, &'static str)>,
    to: Option<(&'static str, &'static str)>,
}

/// The state of the tree where a patch is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The anchor is there.
    Open,
    /// The text is already there.
    Done,
    /// The file contains neither.
    Foreign,
    /// The file does not exist.
    Absent,
}

/// A project with one source, and a request.
#[derive(Debug, Clone)]
struct Case {
    patches: Vec<SmallPatch>,
    places: Vec<Place>,
    version: Option<&'static str>,
    is_archive: bool,
    request: BuildRequest,
}

/// Returns a digest: 1 gives the pinned digest, and 3 the stand-in's.
fn digest(number: u8) -> Digest {
    format!("sha256:{}", number.to_string().repeat(64)).parse().unwrap()
}

/// The stand-in for the base of track `spoofed`.
fn stand_in() -> StandIn {
    StandIn { digest: digest(3), kind: ManifestKind::Index }
}

/// Values of `--set` for the base. They may equal the pin.
fn settings() -> impl Strategy<Value = BTreeMap<PinName, ImageOverride>> {
    let tag = prop::option::of(prop::sample::select(vec!["1.0", "nightly"]));
    let set = (tag, 1..=2u8).prop_map(|(tag, number)| {
        let tag = tag.map(|tag| tag.parse::<Tag>().unwrap());
        let base = "base".parse::<PinName>().unwrap();
        (base, ImageOverride { tag, digest: digest(number) })
    });
    prop::option::of(set).prop_map(|set| set.into_iter().collect())
}

/// Requests for the track that an engine builds. Its rehearsals build a variant, and refuse
/// `--set`.
fn requests_of_built() -> impl Strategy<Value = BuildRequest> {
    let real = prop::sample::select(vec![None, Some("usual"), Some("other")]);
    let real = (real, settings()).prop_map(|(variant, overrides)| BuildRequest {
        variant: variant.map(str::to_owned),
        overrides,
        ..BuildRequest::new(BUILT.parse().unwrap())
    });
    let named = vec![(None, true), (Some("small"), true), (Some("small"), false)];
    let rehearsed = prop::sample::select(named).prop_map(|(variant, rehearse)| BuildRequest {
        variant: variant.map(str::to_owned),
        rehearse,
        ..BuildRequest::new(BUILT.parse().unwrap())
    });
    prop_oneof![3 => real, 1 => rehearsed]
}

/// Requests for the track that only adds metadata. Its rehearsals use a stand-in.
fn requests_of_spoofed() -> impl Strategy<Value = BuildRequest> {
    let version = prop::sample::select(vec!["11.0.0", "10.3.0"]);
    let spoof = prop_oneof![
        Just(SpoofChoice::Auto),
        Just(SpoofChoice::Off),
        version.prop_map(|version| SpoofChoice::Version(version.parse().unwrap())),
    ];
    (spoof, any::<bool>(), settings()).prop_map(|(spoof, rehearse, set)| BuildRequest {
        spoof,
        rehearse,
        overrides: if rehearse { BTreeMap::new() } else { set },
        stand_in: rehearse.then(stand_in),
        ..BuildRequest::new(SPOOFED.parse().unwrap())
    })
}

fn requests() -> impl Strategy<Value = BuildRequest> {
    let gpu = prop::option::of(prop::sample::select(GPUS.to_vec()));
    let epoch = prop::option::of(0..2_000_000_000u64);
    let request = prop_oneof![3 => requests_of_built(), 1 => requests_of_spoofed()];
    (request, gpu, epoch).prop_map(|(request, gpu, source_date_epoch)| {
        let gpu = gpu.map(|(gpu, _)| gpu.parse().unwrap());
        BuildRequest { gpu, source_date_epoch, ..request }
    })
}

fn range() -> impl Strategy<Value = Range> {
    let then = || prop::sample::select(vec!["skip", "leave-alone", "expect-satisfied", "refuse"]);
    let from = prop::option::weighted(0.4, (prop::sample::select(vec!["1.2", "2.0"]), then()));
    let to = prop::option::weighted(0.4, (prop::sample::select(vec!["2.0", "3.0"]), then()));
    (from, to).prop_filter_map("an empty range", |(from, to)| match (from, to) {
        (Some(("2.0", _)), Some(("2.0", _))) => None,
        (from, to) => Some(Range { from, to }),
    })
}

fn cases() -> impl Strategy<Value = Case> {
    let gpus = prop::option::weighted(
        0.5,
        prop::sample::select(vec!["gfx1151", "gfx11[0-9a-f]{2}", "gfx1[0-2].*", "gfx9.*"]),
    );
    let patch = (range(), gpus, any::<bool>()).prop_map(|(range, gpus, skips_absent)| SmallPatch {
        range,
        gpus,
        skips_absent,
    });
    // Mostly open, so that many builds succeed.
    let place = prop_oneof![
        6 => Just(Place::Open),
        3 => Just(Place::Done),
        1 => Just(Place::Foreign),
        1 => Just(Place::Absent),
    ];
    (
        prop::collection::vec((patch, place), 0..4),
        prop::option::weighted(0.8, prop::sample::select(VERSIONS.to_vec())),
        any::<bool>(),
        requests(),
    )
        .prop_map(|(patches, version, is_archive, request)| {
            let (patches, places) = patches.into_iter().unzip();
            Case { patches, places, version, is_archive, request }
        })
}

fn id(number: usize) -> String {
    format!("demo-{number}")
}

fn file(number: usize) -> String {
    format!("src/{number}.txt")
}

impl SmallPatch {
    fn text(&self, number: usize) -> String {
        let Range { from, to } = &self.range;
        let parts: Vec<String> =
            [from.map(|(bound, _)| format!(">={bound}")), to.map(|(bound, _)| format!("<{bound}"))]
                .into_iter()
                .flatten()
                .collect();
        let versions = if parts.is_empty() { "*".to_owned() } else { parts.join(", ") };
        let mut text = format!(
            "schema = 1\nid = \"{}\"\ncomponent = \"demo\"\n[provenance]\ndescription = \"d\"\n\
             author = \"a\"\norigin = \"other\"\nforwarded = \"no\"\nlast_update = 2026-11-20\n\
             [applies]\nversions = \"{versions}\"\n",
            id(number)
        );
        for (side, bound) in [("below", from), ("above", to)] {
            if let Some((_, then)) = bound {
                writeln!(text, "{side} = {{ then = \"{then}\", because = \"so it is\" }}").unwrap();
            }
        }
        if let Some(gpus) = self.gpus {
            writeln!(text, "gpus = \"{gpus}\"").unwrap();
        }
        let absent = if self.skips_absent { "skip" } else { "fail" };
        write!(
            text,
            "[[edit]]\nfiles = [\"{}\"]\nif_absent = \"{absent}\"\nop = \"list-append\"\n\
             anchor = 'LIST = \"(?P<list>[^\"]*)\"'\nexpect = 1\nitem = \"{}\"\nsep = \";\"\n",
            file(number),
            id(number)
        )
        .unwrap();
        text
    }
}

/// The text of `gpus.toml`. For the first GPU, the pinned base needs no spoof.
fn gpus() -> String {
    let mut text = "schema = 1\n".to_owned();
    for (gpu, spoof) in GPUS {
        write!(text, "[{gpu}]\nname = \"a\"\nfamily = \"b\"\n").unwrap();
        if let Some(version) = spoof {
            writeln!(text, "spoof = \"{version}\"").unwrap();
        }
        if gpu == "gfx1151" {
            writeln!(text, "native-since = \"7.2.0\"").unwrap();
        }
    }
    text
}

/// The text of `tracks.toml`.
fn tracks() -> String {
    let mut text = format!(
        "schema = 1\ngpu = \"gfx1151\"\n\
         [{SPOOFED}]\ntitle = \"t\"\ndescription = \"d\"\nbase = \"base\"\nspoof = true\n\
         [{BUILT}]\ntitle = \"t\"\ndescription = \"d\"\nvariant = \"usual\"\nrehearsal = \"small\"\n"
    );
    for variant in ["usual", "other", "small"] {
        write!(
            text,
            "[{BUILT}.variants.{variant}]\nbase = \"base\"\n[[{BUILT}.variants.{variant}.stage]]\n\
             name = \"{variant}\"\ndockerfile = \"D\"\nsources = {{ \"tree\" = \"tree\" }}\n"
        )
        .unwrap();
    }
    text
}

impl Case {
    fn set(&self) -> PatchSet {
        let parse = |(number, patch): (usize, &SmallPatch)| {
            parse_patch("demo", &patch.text(number)).unwrap_or_else(|error| panic!("{error}"))
        };
        PatchSet::new(self.patches.iter().enumerate().map(parse).collect()).unwrap()
    }

    fn input(&self) -> PlanningInput {
        let hex = "7".repeat(64);
        let pin = match (self.is_archive, self.version) {
            (true, Some(version)) => {
                format!(
                    "[archive.tree]\nproject = \"tree\"\nversion = \"{version}\"\nsha256 = \"{hex}\"\n"
                )
            }
            (_, version) => {
                let version = version.map(|version| format!("version = \"{version}\"\n"));
                format!(
                    "[source.tree]\nurl = \"https://git.example.org/tree\"\ncommit = \"{}\"\n{}",
                    "5".repeat(40),
                    version.unwrap_or_default()
                )
            }
        };
        let versions = format!(
            "schema = 1\nsource-date-epoch = 1800000000\n[image.base]\nrepository = \"registry.example.org/base\"\n\
             digest = \"{}\"\nrocm = \"7.2.0\"\n{pin}patches = \"demo\"\n",
            digest(1)
        );
        let tracks = tracks();
        let pins = parse_versions("versions.toml", &versions).unwrap_or_else(|e| panic!("{e}"));
        let gpus = parse_gpus("gpus.toml", &gpus());
        let gpus = gpus.unwrap_or_else(|e| panic!("{e}"));
        let tracks = parse_tracks_with(
            "tracks.toml",
            &tracks,
            References { pins: Some(&pins), tracks: None },
        );
        let tracks = tracks.unwrap_or_else(|e| panic!("{e}"));
        let patches = BTreeMap::from([("demo".to_owned(), self.set())]);
        let files = BTreeMap::from([("D".to_owned(), Digest::of(b"dockerfile"))]);
        PlanningInput { patches, files, ..PlanningInput::new(pins, gpus, tracks) }
    }

    fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        for (number, place) in self.places.iter().enumerate() {
            let text = match place {
                Place::Open => "LIST = \"a\"\n".to_owned(),
                Place::Done => format!("LIST = \"a;{}\"\n", id(number)),
                Place::Foreign => "nothing\n".to_owned(),
                Place::Absent => continue,
            };
            tree.put_file(&file(number), text).unwrap();
        }
        tree
    }
}

/// Applies the patches of a plan to a tree, as a build does. Returns `None` if the plan has no
/// source.
fn patched(plan: &Plan, case: &Case) -> Option<Result<Tree, String>> {
    let materials = Materials {
        patches: BTreeMap::from([("demo".to_owned(), case.set())]),
        ..Materials::default()
    };
    let fetch = plan.steps.iter().find_map(|step| match &step.action {
        Action::FetchSource { input, patches } => {
            Some(SourceStep { name: input, input: &plan.inputs[input], patches, gpu: &plan.gpu })
        }
        _ => None,
    });
    let patched = fetch?.patched(case.tree(), &materials, &NoProbes);
    Some(patched.map_err(|error| error.to_string()))
}

/// Makes the image of a plan on a base, as a build does.
fn derived(plan: &Plan) -> DerivedImage {
    // These labels describe the base, so an image must not inherit them.
    let stale = json!({ (labels::VERSION): "of the base", (labels::OVERRIDES): "gpu=gfx900" });
    let config = json!({
        "os": "linux",
        "architecture": "amd64",
        "config": { "Env": ["PATH=/bin"], "Entrypoint": ["/start"], "Labels": &stale },
        "rootfs": { "type": "layers", "diff_ids": [] },
    });
    let config = config.to_string();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": Digest::of(config.as_bytes()),
            "size": config.len(),
        },
        "layers": [],
        "annotations": stale,
    });
    let manifest = parse_manifest(manifest.to_string().as_bytes()).unwrap();
    let (edit, labels) = (plan.image_edit(), plan.final_labels());
    oci::derive(&manifest, config.as_bytes(), &Platform::linux_amd64(), edit, &labels).unwrap()
}

/// Reads the request back from the labels of an image, as `verify` does.
fn request_of(labels: &BTreeMap<String, String>) -> BuildRequest {
    let mut request = BuildRequest::new(labels[labels::TRACK].parse().unwrap());
    request.rehearse = labels[labels::REHEARSAL] == "true";
    request.variant = labels.get(labels::VARIANT).cloned();
    let overrides = labels.get(labels::OVERRIDES).cloned().unwrap_or_default();
    request.read_overrides(&overrides).unwrap();
    if request.rehearse && request.track.as_str() == SPOOFED {
        request.stand_in = Some(stand_in());
    }
    request
}

/// Checks that a plan is refused only for a reason that the case contains.
fn check_refusal(case: &Case, error: &PlanError) -> Result<(), TestCaseError> {
    let is_right = match error {
        // The patch would be harmful on this version.
        PlanError::PatchRefuses { .. } => case.request.track.as_str() == BUILT,
        PlanError::NoSpoof { gpu } => {
            let is_asked = case.request.gpu == gpu.parse().ok();
            case.request.spoof == SpoofChoice::Auto
                && is_asked
                && GPUS.contains(&(gpu.as_str(), None))
        }
        _ => false,
    };
    prop_assert!(is_right, "{error}");
    Ok(())
}

/// Checks that a build applies the patches that the plan and the labels name, or that it stops.
fn check_patches(case: &Case, plan: &Plan) -> Result<(), TestCaseError> {
    let planned: BTreeMap<String, Expectation> =
        plan.patches().into_iter().map(|patch| (patch.id.clone(), patch.expect)).collect();
    let all_labels = plan.final_labels();
    let named: Vec<&str> =
        all_labels.get(labels::PATCHES).map(|text| text.split(' ').collect()).unwrap_or_default();
    let wanted: Vec<String> = planned.keys().map(|id| format!("demo/{id}")).collect();
    prop_assert_eq!(named, wanted);

    let patched = patched(plan, case);
    prop_assert_eq!(patched.is_some(), plan.track == BUILT);
    match patched {
        None => {}
        Some(Ok(tree)) => {
            for (number, place) in case.places.iter().enumerate() {
                let text = tree.read_file(&file(number)).unwrap_or_default();
                let is_there = String::from_utf8(text).unwrap().contains(&id(number));
                let expected = planned.get(&id(number));
                prop_assert_eq!(is_there, expected.is_some() || *place == Place::Done);
                if expected == Some(&Expectation::Upstream) {
                    prop_assert_eq!(*place, Place::Done);
                }
            }
        }
        Some(Err(error)) => {
            // The error names a patch of the plan that cannot have the expected effect.
            let is_culprit = |number: &usize| error.contains(&format!("`{}`", id(*number)));
            let culprit = (0..case.patches.len()).find(is_culprit);
            let Some(number) = culprit else { return Err(TestCaseError::fail(error)) };
            let place = case.places[number];
            let is_without = matches!(place, Place::Foreign | Place::Absent);
            let is_bad = match planned.get(&id(number)) {
                Some(Expectation::InEffect) => is_without,
                Some(Expectation::Upstream) => place != Place::Done,
                // The patch skips this version, and the tree contains what it edits.
                None => error.contains("the tree has this text") && !is_without,
            };
            prop_assert!(is_bad, "{error}");
        }
    }
    Ok(())
}

/// Checks that an image has the base and the spoof that request, plan and labels specify. Returns
/// its labels.
fn check_image(
    case: &Case,
    plan: &Plan,
    image: &DerivedImage,
) -> Result<BTreeMap<String, String>, TestCaseError> {
    let config: serde_json::Value = serde_json::from_slice(&image.config).unwrap();
    let found: BTreeMap<String, String> =
        serde_json::from_value(config["config"]["Labels"].clone()).unwrap();
    prop_assert_eq!(&found, &plan.final_labels());
    let BuildRequest { rehearse, variant, overrides, .. } = &case.request;
    let is_rehearsal = *rehearse || variant.as_deref() == Some("small");
    prop_assert_eq!(&found[labels::REHEARSAL], &is_rehearsal.to_string());
    prop_assert_eq!(plan.name.starts_with("rehearsal-"), is_rehearsal);

    let set = overrides.values().next().map(|image| image.digest.clone());
    let stand_in = case.request.stand_in.as_ref().map(|image| image.digest.clone());
    let base = stand_in.or(set).unwrap_or_else(|| digest(1));
    prop_assert_eq!(&found[labels::BASE_DIGEST], &base.to_string());

    let imitated = oci::variable(&image.config, OVERRIDE_VARIABLE);
    let words = config["config"]["Entrypoint"].as_array().unwrap().len();
    prop_assert_eq!(words > 1, imitated.is_some(), "the image starts through the wrapper");
    let spelled = imitated.unwrap_or_else(|| "off".to_owned());
    let label = found.get(labels::SPOOF);
    prop_assert_eq!(label, (plan.track == SPOOFED).then_some(&spelled));
    match case.request.spoof {
        // By default, an image can only imitate the version listed for its GPU.
        SpoofChoice::Auto if spelled != "off" => {
            prop_assert!(GPUS.contains(&(plan.gpu.as_str(), Some(spelled.as_str()))));
        }
        SpoofChoice::Auto => {}
        SpoofChoice::Off => prop_assert_eq!(spelled, "off"),
        SpoofChoice::Version(version) => prop_assert_eq!(spelled, version.to_string()),
    }
    Ok(found)
}

/// What the executor applies is what the plan and the labels say, and what verification expects.
fn check_plan(case: &Case) -> Result<(), TestCaseError> {
    let input = case.input();
    let plan = match planner::plan(&case.request, &input) {
        Ok(planned) => planned.plan,
        // Nothing is fetched for such a plan.
        Err(error) => return check_refusal(case, &error),
    };
    check_patches(case, &plan)?;
    let image = derived(&plan);
    let found = check_image(case, &plan, &image)?;

    // The plan that verification of the image expects.
    let again = planner::plan(&request_of(&found), &input).unwrap().plan;
    prop_assert_eq!(again.canonical_text(), plan.canonical_text());
    let documents = Documents { manifest: &image.manifest, config: &image.config };
    for check in compare_with_plan(&again, documents, "built").unwrap() {
        let is_right = matches!(check.verdict, Verdict::Same | Verdict::Unchecked { .. });
        prop_assert!(is_right, "{check:?}");
    }
    // A comment does not change the plan. Only the effect of a patch counts.
    let mut commented = case.input();
    let texts = case.patches.iter().enumerate();
    let texts = texts.map(|(number, patch)| format!("# a comment\n{}", patch.text(number)));
    let set = texts.map(|text| parse_patch("demo", &text).unwrap()).collect();
    commented.patches.insert("demo".to_owned(), PatchSet::new(set).unwrap());
    let same = planner::plan(&case.request, &commented).unwrap().plan;
    prop_assert_eq!(same, plan);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_applied_is_what_plan_and_labels_say_and_what_verify_expects(case in cases()) {
        check_plan(&case)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "runs every night: it takes minutes"]
    fn what_is_applied_is_what_the_plan_says_in_10_000_cases(case in cases()) {
        check_plan(&case)?;
    }
}
