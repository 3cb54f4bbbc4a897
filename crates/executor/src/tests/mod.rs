//! Properties of every project: the applied patches match the plan, the labels, and what
//! verification expects.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use names::Digest;
use patcher::{NoProbes, PatchSet, parse_patch};
use pins::{References, parse_gpus, parse_tracks_with, parse_versions};
use plan::{Action, Expectation, Plan, labels};
use planner::{BuildRequest, PlanError, PlanningInput};
use proptest::prelude::*;
use record::verify::{Documents, Verdict, compare_with_plan};
use serde_json::json;
use sources::Tree;

use crate::build_env::{Materials, SourceStep};

const GPUS: [&str; 3] = ["gfx1151", "gfx1031", "gfx1201"];
const VERSIONS: [&str; 4] = ["1.0", "1.5", "2.0", "3.1rc1"];

/// A patch of a small project.
#[derive(Debug, Clone)]
struct SmallPatch {
    /// The lower and upper bound of its versions, and what applies outside of each.
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
    gpu: Option<&'static str>,
    epoch: Option<u64>,
    is_archive: bool,
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
        prop::option::of(prop::sample::select(GPUS.to_vec())),
        prop::option::of(0..2_000_000_000u64),
        any::<bool>(),
    )
        .prop_map(|(patches, version, gpu, epoch, is_archive)| {
            let (patches, places) = patches.into_iter().unzip();
            Case { patches, places, version, gpu, epoch, is_archive }
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
             digest = \"sha256:{}\"\n{pin}patches = \"demo\"\n",
            "1".repeat(64)
        );
        let gpus: String =
            GPUS.iter().map(|gpu| format!("[{gpu}]\nname = \"a\"\nfamily = \"b\"\n")).collect();
        let tracks = "schema = 1\ngpu = \"gfx1151\"\n[vulkan]\ntitle = \"t\"\ndescription = \"d\"\n\
                      variant = \"v\"\n[vulkan.variants.v]\nbase = \"base\"\n\
                      [[vulkan.variants.v.stage]]\nname = \"s\"\ndockerfile = \"D\"\n\
                      sources = { \"tree\" = \"tree\" }\n";
        let pins = parse_versions("versions.toml", &versions).unwrap_or_else(|e| panic!("{e}"));
        let gpus = parse_gpus("gpus.toml", &format!("schema = 1\n{gpus}"));
        let gpus = gpus.unwrap_or_else(|e| panic!("{e}"));
        let tracks =
            parse_tracks_with("tracks.toml", tracks, References { pins: &pins, tracks: None });
        let tracks = tracks.unwrap_or_else(|e| panic!("{e}"));
        let patches = BTreeMap::from([("demo".to_owned(), self.set())]);
        let files = BTreeMap::from([("D".to_owned(), Digest::of(b"dockerfile"))]);
        PlanningInput { patches, files, ..PlanningInput::new(pins, gpus, tracks) }
    }

    fn request(&self) -> BuildRequest {
        let gpu = self.gpu.map(|gpu| gpu.parse().unwrap());
        BuildRequest {
            gpu,
            source_date_epoch: self.epoch,
            ..BuildRequest::new("vulkan".parse().unwrap())
        }
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

/// Applies the patches of a plan to a tree, as a build does.
fn patched(plan: &Plan, case: &Case) -> Result<Tree, String> {
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
    let patched = fetch.unwrap().patched(case.tree(), &materials, &NoProbes);
    patched.map_err(|error| error.to_string())
}

/// Reads the request back from the labels of an image, as `verify` does.
fn request_of(labels: &BTreeMap<String, String>) -> BuildRequest {
    let mut request = BuildRequest::new(labels[labels::TRACK].parse().unwrap());
    request.variant = labels.get(labels::VARIANT).cloned();
    let overrides = labels.get(labels::OVERRIDES).cloned().unwrap_or_default();
    request.read_overrides(&overrides).unwrap();
    request
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_applied_is_what_plan_and_labels_say_and_what_verify_expects(case in cases()) {
        let input = case.input();
        let plan = match planner::plan(&case.request(), &input) {
            Ok(planned) => planned.plan,
            // If a patch would be harmful on this version, the plan is refused before anything is
            // fetched.
            Err(error) => {
                prop_assert!(matches!(error, PlanError::PatchRefuses { .. }), "{error}");
                return Ok(());
            }
        };
        let planned: BTreeMap<String, Expectation> =
            plan.patches().into_iter().map(|patch| (patch.id.clone(), patch.expect)).collect();

        // What the labels contain.
        let all_labels = plan.final_labels();
        let named: Vec<&str> =
            all_labels.get(labels::PATCHES).map(|text| text.split(' ').collect()).unwrap_or_default();
        let wanted: Vec<String> = planned.keys().map(|id| format!("demo/{id}")).collect();
        prop_assert_eq!(named, wanted);

        // What is applied.
        match patched(&plan, &case) {
            Ok(tree) => {
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
            Err(error) => {
                // The error names a patch of the plan that cannot have the expected effect.
                let culprit = (0..case.patches.len()).find(|number| error.contains(&format!("`{}`", id(*number))));
                let Some(number) = culprit else { return Err(TestCaseError::fail(error)) };
                let is_bad = match planned.get(&id(number)) {
                    Some(Expectation::InEffect) => matches!(case.places[number], Place::Foreign | Place::Absent),
                    Some(Expectation::Upstream) => case.places[number] != Place::Done,
                    // The patch skips this version, and the tree contains what it edits.
                    None => {
                        error.contains("this text is here")
                            && !matches!(case.places[number], Place::Foreign | Place::Absent)
                    }
                };
                prop_assert!(is_bad, "{error}");
            }
        }

        // What verification of the image expects.
        let config = json!({
            "created": plan.image_edit().created,
            "config": { "Labels": all_labels, "Env": ["PATH=/bin"] },
        });
        let manifest = json!({ "annotations": all_labels });
        let again = planner::plan(&request_of(&all_labels), &input).unwrap().plan;
        prop_assert_eq!(again.canonical_text(), plan.canonical_text());
        let (config, manifest) = (config.to_string(), manifest.to_string());
        let documents = Documents { manifest: manifest.as_bytes(), config: config.as_bytes() };
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
        let same = planner::plan(&case.request(), &commented).unwrap().plan;
        prop_assert_eq!(same, plan);
    }
}
