//! Which patches of a set apply to a version and a GPU target, and which exclude each other.

use super::*;
use crate::{Selection, Verdict};

const BOUNDED: &str = "versions = \">=0.9, <0.11.1\"\n\
     below = { then = \"BELOW\", because = \"too old\" }\n\
     above = { then = \"ABOVE\", because = \"too new\" }";

/// Returns the patch `p` for versions from 0.9 to 0.11.1, with these rules outside.
fn bounded(below: &str, above: &str) -> Patch {
    let range = BOUNDED.replace("BELOW", below).replace("ABOVE", above);
    let text = patch_text("p", APPEND).replace("versions = \"*\"", &range);
    parse_patch("p", &text).unwrap_or_else(|error| panic!("{error}"))
}

fn related(id: &str, lines: &str) -> Patch {
    patch(id, &format!("{APPEND}{lines}"))
}

fn only_for(id: &str, gpus: &str, lines: &str) -> Patch {
    let text = patch_text(id, &format!("{APPEND}{lines}"))
        .replace("versions = \"*\"", &format!("versions = \"*\"\ngpus = '{gpus}'"));
    parse_patch(id, &text).unwrap_or_else(|error| panic!("{error}"))
}

fn select(patches: Vec<Patch>, gpu: &str, version: Option<&str>) -> Vec<Selection> {
    let version: Option<Version> = version.map(|version| version.parse().unwrap());
    let set = PatchSet::new(patches).unwrap();
    let selected = set.select(&gpu.parse().unwrap(), version.as_ref());
    let ids: Vec<&str> = selected.iter().map(|one| one.patch.id.as_str()).collect();
    let order: Vec<&str> = set.patches().iter().map(|patch| patch.id.as_str()).collect();
    assert_eq!(ids, order, "there is one selection for each patch, in order");
    selected.iter().map(|one| one.selection.clone()).collect()
}

#[test]
fn the_rule_of_each_side_decides_outside_the_range() {
    let upstream = |because: &str| Selection::ExpectUpstream { because: because.to_owned() };
    let not = |because: &str| Selection::NotApplicable { because: because.to_owned() };
    let refuse = |because: &str| Selection::Refuse { because: because.to_owned() };
    let below = "0.8.9 is below `>=0.9, <0.11.1`: too old";
    let above = "0.11.1 is above `>=0.9, <0.11.1`: too new";
    for (rules, version, expected) in [
        (("skip", "refuse"), Some("0.8.9"), not(below)),
        (("skip", "refuse"), Some("0.11.1"), refuse(above)),
        (("refuse", "skip"), Some("0.8.9"), refuse(below)),
        (("refuse", "skip"), Some("0.11.1"), not(above)),
        (("leave-alone", "expect-satisfied"), Some("0.8.9"), not(below)),
        (("leave-alone", "expect-satisfied"), Some("0.11.1"), upstream("too new")),
        (("expect-satisfied", "leave-alone"), Some("0.8.9"), upstream("too old")),
        (("expect-satisfied", "leave-alone"), Some("0.11.1"), not(above)),
        (("refuse", "refuse"), Some("0.9"), Selection::Apply),
        (("refuse", "refuse"), Some("0.11.1rc1"), Selection::Apply),
        (("refuse", "refuse"), None, Selection::Apply),
    ] {
        let selected = select(vec![bounded(rules.0, rules.1)], "gfx1151", version);
        assert_eq!(selected, [expected], "{rules:?} {version:?}");
    }
}

#[test]
fn a_pattern_for_targets_matches_the_whole_name() {
    let applies = |gpus: &str, gpu: &str| {
        select(vec![only_for("p", gpus, "")], gpu, None) == [Selection::Apply]
    };
    for (gpus, gpu, expected) in [
        ("gfx1151", "gfx1151", true),
        ("gfx115", "gfx1151", false),
        ("151", "gfx1151", false),
        ("gfx115[01]", "gfx1150", true),
        ("gfx115[01]", "gfx1152", false),
        // The alternatives form one group: `^a|b$` would match more.
        ("gfx11|gfx1151", "gfx1151", true),
        ("gfx1151|51", "gfx1251", false),
        ("gfx115|gfx90a", "gfx1151", false),
        ("{gpu}", "gfx1151", true),
        ("gfx{gpu_stem}0", "gfx1150", true),
        ("gfx{gpu_stem}0", "gfx1151", false),
    ] {
        assert_eq!(applies(gpus, gpu), expected, "{gpus} {gpu}");
    }
    let told = select(vec![only_for("p", "gfx90a", "")], "gfx1151", Some("0.9"));
    let because = "it is not for `gfx1151`".to_owned();
    assert_eq!(told, [Selection::NotApplicable { because }]);
}

#[test]
fn patches_conflict_in_both_directions_and_only_if_both_apply() {
    let named = "[relations]\nconflicts = [\"b\"]\n";
    let with = |id: &str| Selection::Conflict { with: id.to_owned() };
    let set = || vec![related("a", named), related("b", ""), related("c", "")];
    assert_eq!(select(set(), "gfx1151", None), [with("b"), with("a"), Selection::Apply]);
    // `b` is for another target, so `a` has no conflict; `b` keeps its own reason.
    let set = vec![related("a", named), only_for("b", "gfx90a", "")];
    let because = "it is not for `gfx1151`".to_owned();
    assert_eq!(
        select(set, "gfx1151", None),
        [Selection::Apply, Selection::NotApplicable { because }]
    );
    // A patch that upstream must include is used too.
    let mut rival = bounded("refuse", "expect-satisfied");
    rival.relations.conflicts = vec!["a".to_owned()];
    let set = || vec![related("a", ""), rival.clone()];
    assert_eq!(select(set(), "gfx1151", Some("0.12")), [with("p"), with("a")]);
    // A patch that breaks the version is not used.
    let because = "0.8 is below `>=0.9, <0.11.1`: too old".to_owned();
    assert_eq!(
        select(set(), "gfx1151", Some("0.8")),
        [Selection::Apply, Selection::Refuse { because }]
    );
}

#[test]
fn a_run_follows_the_selection() {
    let tree = files(&[("f", b"list = \"a\"\n")]);
    let named = "[relations]\nconflicts = [\"b\"]\n";
    let set = PatchSet::new(vec![related("a", named), related("b", "")]).unwrap();
    let outcome = run(&set, &tree, None, &[]);
    assert_eq!(outcome.patches[0].explanation, "with `b`: the two patches conflict; select one");
    assert_eq!(outcome.patches[1].explanation, "with `a`: the two patches conflict; select one");
    assert!(!outcome.ok && outcome.files.is_empty());
    assert!(outcome.patches.iter().all(|patch| patch.edits.is_empty()), "no file was examined");

    let refused = PatchSet::new(vec![bounded("refuse", "skip")]).unwrap();
    let outcome = run(&refused, &tree, Some("0.8"), &[]);
    let because = "0.8 is below `>=0.9, <0.11.1`: too old".to_owned();
    assert_eq!(outcome.patches[0].verdict, Verdict::NotApplicable { because });
    assert!(!outcome.ok && !outcome.patches[0].ok);
}

#[test]
fn upstream_must_have_every_place_in_a_version_that_should_include_the_change() {
    let ask = |file: &[u8]| {
        let mut patch = bounded("refuse", "expect-satisfied");
        patch.applies.if_partial = crate::IfPartial::Apply;
        patch.edits.push(super::patch("q", REPLACE).edits.remove(0));
        let set = PatchSet::new(vec![patch]).unwrap();
        let outcome = run(&set, &files(&[("f", file)]), Some("0.12"), &[]);
        assert!(outcome.files.is_empty());
        (outcome.patches[0].explanation.clone(), outcome.ok)
    };
    let lacks = "`f`: this version should include it (too new), but does not".to_owned();
    assert_eq!(ask(b"list = \"gfx1151\"\nswitch off\n"), ("upstream includes it".to_owned(), true));
    // Not even a patch with `if_partial = "apply"` may be applied.
    assert_eq!(ask(b"list = \"gfx1151\"\nswitch on\n"), (lacks.clone(), false));
    assert_eq!(ask(b"list = \"a\"\nswitch off\n"), (lacks.clone(), false));
    assert_eq!(ask(b"list = \"a\"\nswitch on\n"), (lacks, false));
    // A failure keeps its own reason.
    let (told, ok) = ask(b"list = \"a\"\n");
    assert!(told.starts_with("the anchor was not found in `f`") && !ok, "{told}");
}

#[test]
fn a_newer_version_that_is_skipped_must_not_contain_the_text() {
    let ask = |rules: (&str, &str), version: &str, file: &[u8]| {
        let set = PatchSet::new(vec![bounded(rules.0, rules.1)]).unwrap();
        let outcome = run(&set, &files(&[("f", file)]), Some(version), &[]);
        (verdicts(&outcome).remove(0), outcome.ok)
    };
    let fine = ("not-applicable".to_owned(), true);
    let contradicted = ("post-condition-failed".to_owned(), false);
    let list = b"list = \"gfx1151\"\n";
    // Even text that already has the change contradicts the rule.
    assert_eq!(ask(("refuse", "skip"), "0.12", list), contradicted);
    assert_eq!(ask(("skip", "refuse"), "0.8", list), contradicted);
    assert_eq!(ask(("refuse", "skip"), "0.12", b"other\n"), fine);
    assert_eq!(ask(("refuse", "leave-alone"), "0.12", list), fine);
    assert_eq!(ask(("leave-alone", "refuse"), "0.8", list), fine);
}

/// The first line that any of an edit's patterns matches is reported.
#[test]
fn the_first_line_that_contradicts_a_skip_is_reported() {
    let patterns = "satisfied_by = '^solved$'\nguards = '^about$'\n";
    let text = patch_text("p", &format!("{APPEND}{patterns}"))
        .replace("[\"f\"]", "[\"gone\", \"f\"]")
        .replace(
            "versions = \"*\"",
            "versions = \">=0.9\"\nbelow = { then = \"skip\", because = \"none\" }",
        );
    let set = PatchSet::new(vec![parse_patch("p", &text).unwrap()]).unwrap();
    for (file, line) in [
        ("x\nlist = \"a\"\nsolved\nabout\n", Some(2)),
        ("x\nabout\nlist = \"a\"\n", Some(2)),
        ("x\ny\nsolved\nabout\n", Some(3)),
        ("solving\nabout it\n", None),
    ] {
        let outcome = run(&set, &files(&[("f", file.as_bytes())]), Some("0.8"), &[]);
        let told = &outcome.patches[0].explanation;
        match line {
            Some(line) => assert!(told.starts_with(&format!("`f`: line {line}: ")), "{told}"),
            None => assert_eq!(told, "0.8 is below `>=0.9`: none"),
        }
        assert_eq!(outcome.ok, line.is_none());
    }
}

#[test]
fn in_a_folder_between_two_releases_the_tree_decides() {
    let range = "versions = \">=0.9\"\nbelow = { then = \"skip\", because = \"old\" }";
    let text = patch_text("p", APPEND).replace("versions = \"*\"", range);
    let set = PatchSet::new(vec![parse_patch("p", &text).unwrap()]).unwrap();
    let verdict = |version: &str, is_pristine, content: &[u8]| {
        let (gpu, base) = (gpu(), BTreeMap::new());
        let version = version.parse().unwrap();
        let subject = Subject {
            gpu: &gpu,
            version: Some(&version),
            build_env: None,
            is_pristine,
            base: &base,
            receipts: &[],
        };
        apply(&set, &subject, &files(&[("f", content)]), &NoProbes).patches[0].verdict.to_string()
    };
    let list = b"list = \"gfx1100\"\n";
    assert_eq!(verdict("0.8.6.dev7", false, list), "applied(1)");
    assert_eq!(verdict("0.8.6.dev7", false, b"none"), "not-applicable");
    // The version of a release or a pin is exact.
    assert_eq!(verdict("0.8.5", false, list), "post-condition-failed");
    assert_eq!(verdict("0.8.6.dev7", true, list), "post-condition-failed");
}
