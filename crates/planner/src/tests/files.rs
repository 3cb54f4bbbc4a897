//! Tests the steps that add a track's own files: their place in the plan, their inputs and their
//! label.

use plan::OwnFile;

use super::*;
use crate::{OwnFilesOfTrack, needs};

/// Returns the input with tracks that have files of their own: `low` is based on an image, `tool`
/// has a stage and is based on `low`, and `top` is based on `tool`.
fn with_files() -> PlanningInput {
    let row = |name: &str| format!("files = [{{ from = \"{name}\", to = \"/opt/{name}\" }}]\n");
    let track = |name: &str, base: &str| {
        format!("[{name}]\ntitle = \"t\"\ndescription = \"d\"\n{base}\n{}", row(name))
    };
    let tracks = format!(
        "{TRACKS}\n{}{}[[tool.stage]]\nname = \"one\"\ndockerfile = \"d/Dockerfile\"\n{}",
        track("low", "track = \"ollama\""),
        track("tool", "track = \"low\""),
        track("top", "track = \"tool\""),
    );
    let mut input = input_of(VERSIONS, GPUS, &tracks);
    for (name, digit) in [("low", 'a'), ("tool", 'b'), ("top", 'c')] {
        let from = format!("./{name}");
        let file =
            OwnFile::File { from: from.clone(), mode: names::FileMode::PLAIN, uid: 0, gid: 0 };
        let own = OwnFilesOfTrack {
            files: [(format!("/opt/{name}"), file)].into(),
            digests: [(from, digest(digit))].into(),
        };
        input.own_files.insert(name.parse().unwrap(), own);
    }
    input.files.insert("d/Dockerfile".to_owned(), digest('d'));
    input
}

fn steps(plan: &Plan) -> Vec<&str> {
    plan.steps.iter().map(|step| step.id.as_str()).collect()
}

#[test]
fn own_files_are_added_where_their_track_ends() {
    let input = with_files();
    let of = |track: &str| make(&plain(track), &input).unwrap_or_else(|e| panic!("{e}")).plan;
    assert_eq!(steps(&of("low")), ["fetch-base", "add-files-low", "derive-image"]);
    let top = of("top");
    let ids = [
        "fetch-base",
        "add-files-low",
        "build-one",
        "seal-one",
        "add-files-tool",
        "add-files-top",
        "label-image",
    ];
    assert_eq!(steps(&top), ids);
    for pair in ids.windows(2) {
        let step = top.steps.iter().find(|step| step.id == pair[1]).unwrap();
        assert!(step.action.needs().contains(&pair[0]), "{pair:?}");
    }
    assert_eq!(top.inputs["./top"], Input::File { digest: digest('c') });
    let track: Vec<String> =
        needs(&plain("top"), &input).unwrap().own_files.iter().map(ToString::to_string).collect();
    assert_eq!(track, ["low", "tool", "top"]);
    assert!(needs(&plain("ollama"), &input).unwrap().own_files.is_empty());
    let mut without = with_files();
    without.own_files.clear();
    let error = make(&plain("top"), &without).unwrap_err();
    assert_eq!(error, PlanError::NoOwnFiles { track: "low".to_owned() });
}

#[test]
fn a_changed_file_changes_its_layer_and_what_is_above() {
    let before = make(&plain("top"), &with_files()).unwrap().plan;
    let mut input = with_files();
    let tool = input.own_files.get_mut("tool").unwrap();
    tool.digests.insert("./tool".to_owned(), digest('e'));
    let after = make(&plain("top"), &input).unwrap().plan;
    let (old, new) = (before.step_keys(), after.step_keys());
    for (step, is_same) in [
        ("fetch-base", true),
        ("add-files-low", true),
        ("seal-one", true),
        ("add-files-tool", false),
        ("add-files-top", false),
        ("label-image", false),
    ] {
        assert_eq!(old[step] == new[step], is_same, "{step}");
    }
    assert_ne!(label(&before, labels::FILES_DIGEST), label(&after, labels::FILES_DIGEST));
    assert_eq!(label(&before, labels::PINS_DIGEST), label(&after, labels::PINS_DIGEST));
    assert_eq!(label(&make(&plain("ollama"), &input).unwrap().plan, labels::FILES_DIGEST), None);
}
