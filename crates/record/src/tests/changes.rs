//! Tests the comparison of two plans.

use super::*;
use crate::{InputChange, Standing, step_changes};

#[test]
fn a_changed_input_is_named_and_reaches_the_steps_that_depend_on_it() {
    let before = plan();
    let all_same = step_changes(&before, &before);
    assert!(all_same.iter().all(|change| change.standing == Standing::Same), "{all_same:?}");

    let mut after = before.clone().into_draft();
    if let Some(Input::Image { manifest, .. }) = after.inputs.get_mut("base") {
        *manifest = Some(ManifestKind::Manifest);
    }
    if let Action::DeriveImage { edit, .. } = &mut after.steps[1].action {
        edit.reset.pop();
        edit.env.insert("A".to_owned(), "1".to_owned());
    }
    let after = after.finish().unwrap();
    let changes = step_changes(&before, &after);
    let standing = |n: usize| changes[n].standing;
    assert_eq!((standing(0), standing(1)), (Standing::Changed, Standing::Changed));
    let one = |input: &str, before: Option<&str>, after: Option<&str>| InputChange {
        input: input.to_owned(),
        before: before.map(str::to_owned),
        after: after.map(str::to_owned),
    };
    assert_eq!(changes[0].inputs, [one("value.manifest", Some("index"), Some("manifest"))]);
    let last = labels::RESET.last().copied().unwrap();
    assert_eq!(
        changes[1].inputs,
        [one("edit.env.A", None, Some("1")), one(&format!("edit.reset.{last}"), Some(last), None)]
    );
    assert_eq!(changes[1].because, ["fetch-base"]);
}

#[test]
fn a_step_that_depends_on_a_changed_one_has_no_change_of_its_own() {
    let before = plan();
    let mut after = before.clone().into_draft();
    if let Some(Input::Image { manifest, .. }) = after.inputs.get_mut("base") {
        *manifest = None;
    }
    let last = Step { id: "more".to_owned(), ..after.steps[1].clone() };
    let after = after.finish().unwrap();
    let changes = step_changes(&before, &after);
    let standing: Vec<Standing> = changes.iter().map(|change| change.standing).collect();
    assert_eq!(standing, [Standing::Changed, Standing::Behind]);
    assert_eq!(changes[1].because, ["fetch-base"]);
    assert!(changes[1].inputs.is_empty());

    let mut renamed = before.clone().into_draft();
    renamed.steps[1] = last;
    let changes = step_changes(&before, &renamed.finish().unwrap());
    let standing: Vec<Standing> = changes.iter().map(|change| change.standing).collect();
    assert_eq!(standing, [Standing::Same, Standing::New]);
    assert!(changes[1].inputs.is_empty());
}
