//! What each verdict says, whether it stops a run, and when a patch can be retired.

use names::Sha256;

use super::*;
use crate::{NearestLine, PresentBy, Retirement, Verdict, retirement};

fn path(text: &str) -> TreePath {
    text.parse().unwrap()
}

fn hash(text: &str) -> Sha256 {
    crate::hash::sha256(text.as_bytes())
}

/// One verdict of each kind, with its name and whether it stops the run.
fn all() -> Vec<(Verdict, &'static str, bool)> {
    let because = "it is not for `gfx900`".to_owned();
    let reason = "r".to_owned();
    let file = path("f");
    vec![
        (Verdict::Applied { count: 1 }, "applied", false),
        (present(PresentBy::Unknown, None), "already-present", false),
        (Verdict::SatisfiedOtherwise, "satisfied-otherwise", false),
        (Verdict::NotApplicable { because }, "not-applicable", false),
        (Verdict::PartialUpstream { missing: 2, present: 1 }, "partial-upstream", false),
        (Verdict::AnchorMissing { files: Vec::new(), nearest: None }, "anchor-missing", true),
        (ambiguous(3, &[1]), "ambiguous", true),
        (
            Verdict::PostConditionFailed { file: file.clone(), reason: reason.clone() },
            "post-condition-failed",
            true,
        ),
        (
            Verdict::ProbeFailed { probe: "run".to_owned(), reason: reason.clone() },
            "probe-failed",
            true,
        ),
        (Verdict::Conflict { with: None, reason: reason.clone() }, "conflict", true),
        (
            Verdict::BaseDirty { file: file.clone(), expected: hash("a"), found: hash("b") },
            "base-dirty",
            true,
        ),
        (Verdict::Unreadable { file, reason }, "unreadable", true),
    ]
}

fn present(by: PresentBy, condition: Option<&str>) -> Verdict {
    Verdict::AlreadyPresent { by, condition: condition.map(str::to_owned) }
}

fn ambiguous(found: usize, expected: &[usize]) -> Verdict {
    let lines = (1..=found).map(|number| number * 10).collect();
    Verdict::Ambiguous { file: path("f"), found, expected: expected.to_vec(), lines }
}

#[test]
fn every_verdict_has_one_name_in_reports_and_in_patch_tests() {
    let names: Vec<&str> = all().iter().map(|(_, name, _)| *name).collect();
    assert_eq!(names, Verdict::NAMES);
    for (verdict, name, is_failure) in all() {
        assert_eq!(verdict.name(), name);
        assert_eq!(serde_json::to_value(&verdict).unwrap()["kind"], name);
        assert_eq!(verdict.is_failure(), is_failure, "{name}");
        let printed = if name == "applied" { "applied(1)" } else { name };
        assert_eq!(verdict.to_string(), printed);
    }
    assert_eq!(Verdict::Applied { count: 12 }.to_string(), "applied(12)");
}

#[test]
fn a_report_omits_a_condition_that_does_not_exist() {
    let json = |verdict: &Verdict| serde_json::to_value(verdict).unwrap();
    assert_eq!(
        json(&present(PresentBy::Ours, None)),
        serde_json::json!({ "kind": "already-present", "by": "ours" })
    );
    assert_eq!(
        json(&present(PresentBy::Upstream, Some("#if X"))),
        serde_json::json!({ "kind": "already-present", "by": "upstream", "condition": "#if X" })
    );
    assert_eq!(json(&present(PresentBy::Unknown, None))["by"], "unknown");
}

#[test]
fn verdicts_say_what_happened_and_where() {
    let missing = |files: &[&str], nearest: Option<(usize, &str)>| Verdict::AnchorMissing {
        files: files.iter().map(|file| path(file)).collect(),
        nearest: nearest.map(|(line, text)| NearestLine { line, text: text.to_owned() }),
    };
    let conflict = |with: Option<&str>| Verdict::Conflict {
        with: with.map(str::to_owned),
        reason: "select one".to_owned(),
    };
    for (verdict, text) in [
        (Verdict::Applied { count: 1 }, "one place was changed"),
        (Verdict::Applied { count: 2 }, "2 places were changed"),
        (present(PresentBy::Upstream, None), "upstream includes it"),
        (present(PresentBy::Ours, None), "it was applied earlier"),
        (present(PresentBy::Unknown, None), "the text is already there"),
        (
            present(PresentBy::Unknown, Some("#if X")),
            "the text is already there, but only under `#if X`",
        ),
        (Verdict::SatisfiedOtherwise, "upstream solved this in another way"),
        (
            Verdict::PartialUpstream { missing: 2, present: 1 },
            "upstream includes it at 1 of 3 places",
        ),
        (missing(&[], Some((1, "x"))), "none of its files exists"),
        (missing(&["a"], None), "the anchor was not found in `a`"),
        (
            missing(&["a", "b"], Some((7, "x y"))),
            "the anchor was not found in `a` and `b`; line 7 is the most similar: `x y`",
        ),
        (
            Verdict::ProbeFailed { probe: "run".to_owned(), reason: "too slow".to_owned() },
            "probe `run`: too slow",
        ),
        (conflict(Some("b")), "with `b`: select one"),
        (conflict(None), "select one"),
    ] {
        assert_eq!(verdict.explain(), text);
    }
    let dirty = Verdict::BaseDirty { file: path("f"), expected: hash("a"), found: hash("b") };
    assert_eq!(
        dirty.explain(),
        format!("someone changed `f`: its hash is {}, expected {}", hash("b"), hash("a"))
    );
}

/// Counting stops one above the largest expected count, so only a larger number is a lower bound.
#[test]
fn a_count_is_a_lower_bound_only_above_every_expected_count() {
    let text = |found, expected: &[usize]| ambiguous(found, expected).explain();
    assert_eq!(
        text(2, &[1]),
        "the anchor matches at least 2 times in `f` (lines 10, 20), expected 1"
    );
    assert_eq!(text(2, &[3]), "the anchor matches 2 times in `f` (lines 10, 20), expected 3");
    assert_eq!(text(2, &[1, 4]), "the anchor matches 2 times in `f` (lines 10, 20), expected 1, 4");
    assert_eq!(
        text(3, &[1, 2]),
        "the anchor matches at least 3 times in `f` (lines 10, 20, 30), expected 1, 2"
    );
}

#[test]
fn a_patch_is_needed_as_long_as_a_version_changes_fails_or_depends_on_the_build() {
    let old: Version = "1.0".parse().unwrap();
    let new: Version = "1.1".parse().unwrap();
    let ask = |verdict: &Verdict| {
        let there = present(PresentBy::Upstream, None);
        retirement([(&old, verdict), (&new, &there)])
    };
    for (verdict, name, is_failure) in all() {
        let is_needed = is_failure || matches!(name, "applied" | "partial-upstream");
        let expected =
            if is_needed { Retirement::Since { version: new.clone() } } else { Retirement::Never };
        assert_eq!(ask(&verdict), expected, "{name}");
    }
    // The text under a condition is missing from a build that does not meet it.
    let conditional = present(PresentBy::Upstream, Some("#if ROCM_VERSION >= 70000"));
    assert_eq!(ask(&conditional), Retirement::Since { version: new.clone() });
    assert_eq!(retirement([(&old, &conditional)]), Retirement::NotYet);
    assert_eq!(retirement([]), Retirement::Never);
    let json = serde_json::to_value(Retirement::Since { version: new }).unwrap();
    assert_eq!(json, serde_json::json!({ "kind": "since", "version": "1.1" }));
    assert_eq!(serde_json::to_value(Retirement::NotYet).unwrap()["kind"], "not-yet");
}

#[test]
fn a_version_that_needs_the_patch_again_moves_the_retirement() {
    let versions: Vec<Version> =
        ["1.10", "1.2", "1.1", "1.3"].map(|text| text.parse().unwrap()).to_vec();
    let needed = Verdict::Applied { count: 1 };
    let there = Verdict::SatisfiedOtherwise;
    let since = |needs: &[&str]| {
        let verdict = |version: &Version| {
            if needs.contains(&version.to_string().as_str()) { &needed } else { &there }
        };
        retirement(versions.iter().map(|version| (version, verdict(version))))
    };
    let at = |text: &str| Retirement::Since { version: text.parse().unwrap() };
    assert_eq!(since(&["1.1"]), at("1.2"));
    assert_eq!(since(&["1.2"]), at("1.3"));
    // Upstream lost the change in 1.3. Versions are compared as numbers: 1.10 is the newest.
    assert_eq!(since(&["1.1", "1.3"]), at("1.10"));
    assert_eq!(since(&["1.10"]), Retirement::NotYet);
}
