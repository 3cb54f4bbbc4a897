//! Tests every warning rule, triggered and not triggered, and the resulting settings of the image.

use super::*;
use crate::{OVERRIDE_VARIABLE, WRAPPER_SCRIPT};

/// Returns the fixture with changed facts about the base of `locked-spoof`.
fn with_base(change: impl FnOnce(&mut pins::ImagePin)) -> PlanningInput {
    let mut input = input();
    change(input.pins.images.get_mut(&pin("old")).unwrap());
    input
}

fn with_rocm(release: Option<&str>) -> PlanningInput {
    with_base(|base| base.rocm = release.map(str::to_owned))
}

/// Checks which rules are triggered, and which override the image sets.
fn check(request: &BuildRequest, input: &PlanningInput, rules: &[&str], sets: Option<&str>) {
    let Planned { plan, warnings } = make(request, input).unwrap();
    let found: Vec<_> = warnings.iter().map(|warning| warning.rule).collect();
    assert_eq!(found, rules, "{request:?}: {warnings:?}");
    assert_eq!(env(&plan, OVERRIDE_VARIABLE).as_deref(), sets, "{request:?}");
    let spoof = plan.image_edit().labels.get(labels::SPOOF).cloned();
    let spelled =
        request.track.as_str().ends_with("-spoof").then(|| sets.unwrap_or("off").to_owned());
    assert_eq!(spoof, spelled, "{request:?}");
    let words = &plan.image_edit().entrypoint_prefix;
    assert_eq!(words.iter().any(|word| word == WRAPPER_SCRIPT), sets.is_some(), "{request:?}");
}

#[test]
fn every_rule_is_tripped_by_its_case_and_by_no_other() {
    let locked = || plain("locked-spoof");
    let going_on = |input: PlanningInput| {
        let mut input = input;
        input.pins.images.get_mut(&pin("old")).unwrap().discontinued = None;
        input
    };
    let native_by_list = going_on(with_base(|base| {
        base.rocm = None;
        base.gpus = vec!["gfx1151".parse().unwrap()];
    }));
    let for_another = going_on(with_base(|base| base.gpus = vec!["gfx1100".parse().unwrap()]));
    let off = BuildRequest { spoof: SpoofChoice::Off, ..locked() };
    let (unsupported, not_needed) = ("spoof-unsupported", "spoof-not-needed");

    // base-discontinued: the fixture's base is discontinued; otherwise there is no warning.
    check(&locked(), &input(), &["base-discontinued", unsupported], Some("11.0.0"));
    check(&locked(), &going_on(input()), &[unsupported], Some("11.0.0"));
    check(&plain("official"), &input(), &[], None);
    check(&plain("nightly-spoof"), &input(), &[unsupported], Some("11.0.0"));

    // spoof-not-needed because of the list of GPUs: the spoof is left out.
    check(&locked(), &native_by_list, &[not_needed], None);
    check(&locked(), &for_another, &[unsupported], Some("11.0.0"));
    // The same, because of the ROCm release in the base.
    for (release, native) in [
        (Some("7.2.1"), true),
        (Some("7.2.2"), true),
        (Some("7.10.0"), true),
        (Some("8.0"), true),
        (Some("7.2.0"), false),
        (Some("7.2"), false),
        (Some("6.4.1"), false),
        (None, false),
    ] {
        let input = going_on(with_rocm(release));
        let (rule, sets) = if native { (not_needed, None) } else { (unsupported, Some("11.0.0")) };
        check(&locked(), &input, &[rule], sets);
    }
    // An explicitly requested spoof is always set.
    check(&with_spoof("locked-spoof", "11.0.0"), &native_by_list, &[not_needed], Some("11.0.0"));
    check(
        &with_spoof("locked-spoof", "11.0.0"),
        &going_on(input()),
        &[unsupported],
        Some("11.0.0"),
    );
    // With `off` there is no override and no warning.
    check(&off, &native_by_list, &[], None);
    check(&off, &going_on(input()), &[], None);

    // spoof-is-identity: the GPU's own version, natively supported or not.
    let identity = with_spoof("locked-spoof", "11.5.1");
    check(&identity, &going_on(input()), &["spoof-is-identity"], Some("11.5.1"));
    check(&identity, &native_by_list, &["spoof-is-identity"], Some("11.5.1"));
    let other = with_spoof("locked-spoof", "11.5.0");
    check(&other, &going_on(input()), &[unsupported], Some("11.5.0"));

    // No release is known to support this GPU natively.
    check(
        &for_gpu("locked-spoof", "gfx1031"),
        &going_on(with_rocm(Some("99.0"))),
        &[unsupported],
        Some("10.3.0"),
    );
}

#[test]
fn a_release_with_and_without_its_last_zeros_is_the_same() {
    let mut input = with_rocm(Some("7.2"));
    input.gpus.gpus.get_mut("gfx1151").unwrap().native_since = Some("7.2.0".to_owned());
    let rules = ["base-discontinued", "spoof-not-needed"];
    check(&plain("locked-spoof"), &input, &rules, None);
}

#[test]
fn a_base_at_another_digest_is_not_known_to_be_native() {
    let mut input = with_base(|base| base.gpus = vec!["gfx1151".parse().unwrap()]);
    input.pins.images.get_mut(&pin("old")).unwrap().rocm = Some("7.2.1".to_owned());
    let other = overridden("locked-spoof", "old", None, 'a');
    check(&other, &input, &["base-discontinued", "spoof-unsupported"], Some("11.0.0"));
    let same = overridden("locked-spoof", "old", None, '2');
    check(&same, &input, &["base-discontinued", "spoof-not-needed"], None);
}

#[test]
fn the_words_of_the_warnings() {
    let mut text = String::new();
    let mut say = |request: &BuildRequest, input: &PlanningInput| {
        for crate::Warning { rule, message } in make(request, input).unwrap().warnings {
            text.extend([rule, ": ", &message, "\n"]);
        }
    };
    let locked = plain("locked-spoof");
    say(&locked, &input());
    say(&plain("nightly-spoof"), &input());
    say(&locked, &with_base(|base| base.gpus = vec!["gfx1151".parse().unwrap()]));
    say(&locked, &with_rocm(Some("7.2.2")));
    say(&with_spoof("locked-spoof", "11.0.0"), &with_rocm(Some("7.2.2")));
    say(&with_spoof("locked-spoof", "11.5.1"), &input());
    say(&for_gpu("locked-spoof", "gfx1031"), &input());
    insta::assert_snapshot!(text);
}

#[test]
fn warnings_change_no_byte_of_a_plan() {
    let mut quiet = input();
    quiet.pins.images.get_mut(&pin("old")).unwrap().discontinued = None;
    let request = plain("locked-spoof");
    assert_eq!(make(&request, &quiet).unwrap().plan, planned(&request).plan);
}
