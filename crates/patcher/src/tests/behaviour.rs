//! Tests verdicts, preserved bytes, receipts, probes and sets.

use std::cell::RefCell;

use super::*;
use crate::{
    PatchSetError, PresentBy, ProbeJob, ProbeRun, Probes, Retirement, RevertError, Tool, Tree,
    Unreadable, Verdict, retirement, revert, run_tests,
};

/// Runs one patch on one file `f`, and returns its verdict and the file.
fn one(edits: &str, file: &[u8]) -> (Verdict, Vec<u8>) {
    let tree = files(&[("f", file)]);
    let outcome = run(&set(&[("p", edits)]), &tree, None, &[]);
    let file = patched(&tree, &outcome).remove(&"f".parse::<TreePath>().unwrap()).unwrap();
    (outcome.patches[0].verdict.clone(), file)
}

#[test]
fn line_endings_marks_and_final_newlines_stay() {
    for (before, after) in [
        ("x\nlist = \"a\"\ny\n", "x\nlist = \"a;gfx1151\"\ny\n"),
        ("list = \"a\"", "list = \"a;gfx1151\""),
        ("\u{feff}list = \"a\"\r\ny\r\n", "\u{feff}list = \"a;gfx1151\"\r\ny\r\n"),
        ("x\r\nlist = \"a\"\ny\r\nz", "x\r\nlist = \"a;gfx1151\"\ny\r\nz"),
        ("x\rlist\nlist = \"a\"\n\r\r\n", "x\rlist\nlist = \"a;gfx1151\"\n\r\r\n"),
    ] {
        let (verdict, file) = one(APPEND, before.as_bytes());
        assert_eq!(
            (verdict.to_string().as_str(), String::from_utf8(file).unwrap().as_str()),
            ("applied(1)", after)
        );
    }
    let (_, file) = one(APPEND, b"\xff\xfe\nlist = \"a\"\n\x80");
    assert_eq!(file, b"\xff\xfe\nlist = \"a;gfx1151\"\n\x80", "bytes that are not UTF-8 stay too");
    let list = APPEND
        .replace("^list = \"(?P<list>[^\"]*)\"$", r"^\[(?P<list>[^\]]*)\]")
        .replace("sep = \";\"", "sep = \",\"");
    let (_, file) = one(&list, b"[\r\n  a,\r\n  b,\r\n]\r\n");
    assert_eq!(file, b"[\r\n  a,\r\n  b,\r\n  gfx1151,\r\n]\r\n");
}

#[test]
fn lines_are_inserted_before_and_after() {
    let insert = |op: &str, file: &str| {
        let (verdict, file) =
            one(&INSERT.replace("\"g\"", "\"f\"").replace("insert-before", op), file.as_bytes());
        assert_eq!(verdict.to_string(), "applied(1)");
        String::from_utf8(file).unwrap()
    };
    assert_eq!(insert("insert-before", "a\nend\nb\n"), "a\nnew line\nend\nb\n");
    assert_eq!(insert("insert-before", "end"), "new line\nend");
    assert_eq!(insert("insert-before", "a\r\nend\r\n"), "a\r\nnew line\r\nend\r\n");
    assert_eq!(insert("insert-after", "a\nend\nb\n"), "a\nend\nnew line\nb\n");
    assert_eq!(insert("insert-after", "a\nend"), "a\nend\nnew line");
    assert_eq!(insert("insert-after", "a\r\nend"), "a\r\nend\r\nnew line");
}

#[test]
fn every_way_to_fail_has_its_verdict() {
    let twice = b"list = \"a\"\nlist = \"b\"\nlist = \"c\"\n";
    let (verdict, _) = one(APPEND, twice);
    assert_eq!(
        verdict.explain(),
        "the anchor matches at least 2 times in `f` (lines 1, 2), expected 1"
    );
    let (verdict, _) = one(&APPEND.replace("expect = 1", "expect = 4"), twice);
    assert_eq!(verdict.explain(), "the anchor matches 3 times in `f` (lines 1, 2, 3), expected 4");
    let (verdict, _) = one(APPEND, b"one\n  list  = \"a\"\n");
    assert_eq!(
        verdict.explain(),
        "the anchor was not found in `f`; line 2 is the most similar: `list  = \"a\"`"
    );
    let (verdict, _) = one(&APPEND.replace("\"f\"", "\"other\""), b"");
    assert_eq!(verdict.explain(), "none of its files exists");
    let (verdict, _) = one(
        &APPEND.replace("expect", "if_absent = \"skip\"\nexpect").replace("\"f\"", "\"other\""),
        b"",
    );
    assert_eq!(verdict.to_string(), "not-applicable");
    let (verdict, file) =
        one(&format!("{APPEND}[[assert]]\nfiles = [\"f\"]\nabsent = 'gfx1'\n"), b"list = \"a\"");
    assert_eq!(verdict.explain(), "`f`: `gfx1` matches on line 1, but should not match");
    assert_eq!(file, b"list = \"a\"", "nothing is changed");
    let (verdict, _) =
        one(&format!("{APPEND}[[assert]]\nfiles = [\"other\"]\nmatches = 'x'\n"), b"list = \"a\"");
    assert_eq!(verdict.explain(), "`other`: the file does not exist");
    let (verdict, _) = one(&APPEND.replace("sep", "already = 'never'\nsep"), b"list = \"a\"");
    assert_eq!(verdict.explain(), "`f`: a second run would not recognise this edit's own change");
    let (verdict, _) = one(APPEND, &vec![b'x'; crate::MAX_FILE_BYTES + 1]);
    assert_eq!(verdict.to_string(), "unreadable");
}

#[test]
fn links_are_refused() {
    struct Linked;
    impl Tree for Linked {
        fn read(&self, _: &TreePath) -> Result<Option<Vec<u8>>, Unreadable> {
            Err(Unreadable("it is a symbolic link".to_owned()))
        }
    }
    let gpu = gpu();
    let base = BTreeMap::new();
    let subject = Subject {
        gpu: &gpu,
        version: None,
        build_env: None,
        is_pristine: false,
        base: &base,
        receipts: &[],
    };
    let outcome = apply(&set(&[("p", APPEND)]), &subject, &Linked, &NoProbes);
    assert_eq!(outcome.patches[0].verdict.explain(), "`f`: it is a symbolic link");
}

#[test]
fn one_failure_keeps_everything_back() {
    let tree = files(&[("f", b"list = \"a\"\nswitch on\n"), ("g", b"end\n")]);
    let good = set(&[("a", APPEND), ("b", REPLACE), ("c", INSERT)]);
    let outcome = run(&good, &tree, None, &[]);
    assert_eq!(verdicts(&outcome), ["applied(1)", "applied(1)", "applied(1)"]);
    assert_eq!(outcome.files.len(), 2);
    let bad = set(&[("a", APPEND), ("b", &REPLACE.replace("switch", "lever")), ("c", INSERT)]);
    let outcome = run(&bad, &tree, None, &[]);
    assert_eq!(verdicts(&outcome), ["applied(1)", "anchor-missing", "applied(1)"]);
    assert!(
        !outcome.ok
            && outcome.files.is_empty()
            && outcome.diff().is_empty()
            && outcome.receipt().is_none()
    );
    // The changes of a failed patch are rolled back before the next one is judged.
    let half = format!("{REPLACE}{}", REPLACE.replace("switch", "lever"));
    let half = set(&[("a", &half), ("b", REPLACE)]);
    assert_eq!(verdicts(&run(&half, &tree, None, &[])), ["anchor-missing", "applied(1)"]);
}

#[test]
fn parts_upstream_are_told_and_made_only_where_declared() {
    let tree = files(&[("f", b"list = \"gfx1151\"\nswitch on\n")]);
    let both = format!("{APPEND}{REPLACE}");
    let outcome = run(&set(&[("p", &both)]), &tree, None, &[]);
    assert_eq!((verdicts(&outcome)[0].as_str(), outcome.ok), ("partial-upstream", false));
    let text = patch_text("p", &both)
        .replace("versions = \"*\"", "versions = \"*\"\nif_partial = \"apply\"");
    let declared = PatchSet::new(vec![parse_patch("p", &text).unwrap()]).unwrap();
    let outcome = run(&declared, &tree, None, &[]);
    assert_eq!((verdicts(&outcome)[0].as_str(), outcome.ok), ("partial-upstream", true));
    assert_eq!(outcome.patches[0].explanation, "upstream includes it at 1 of 2 places");
    assert_eq!(patched(&tree, &outcome), files(&[("f", b"list = \"gfx1151\"\nswitch off\n")]));
}

#[test]
fn versions_decide() {
    let text = patch_text("p", APPEND).replace(
        "versions = \"*\"",
        "versions = \">=0.9, <0.11.1\"\nbelow = { then = \"skip\", because = \"too old\" }\n\
         above = { then = \"expect-satisfied\", because = \"upstream\" }",
    );
    let set = PatchSet::new(vec![parse_patch("p", &text).unwrap()]).unwrap();
    let (without, with) =
        (files(&[("f", b"list = \"a\"\n")]), files(&[("f", b"list = \"gfx1151\"\n")]));
    let ask = |tree: &Files, version: &str| {
        let outcome = run(&set, tree, Some(version), &[]);
        (outcome.patches[0].explanation.clone(), outcome.ok)
    };
    let unrelated = files(&[("f", b"other\n")]);
    assert_eq!(
        ask(&unrelated, "0.8.5"),
        ("0.8.5 is below `>=0.9, <0.11.1`: too old".to_owned(), true)
    );
    assert_eq!(ask(&without, "0.10.2"), ("one place was changed".to_owned(), true));
    assert_eq!(ask(&with, "0.12.0"), ("upstream includes it".to_owned(), true));
    let missing = "`f`: this version should include it (upstream), but does not".to_owned();
    assert_eq!(ask(&without, "0.12.0"), (missing, false));
    let refusing = text.replace("expect-satisfied", "refuse");
    let set = PatchSet::new(vec![parse_patch("p", &refusing).unwrap()]).unwrap();
    let outcome = run(&set, &without, Some("0.12.0"), &[]);
    assert_eq!((verdicts(&outcome)[0].as_str(), outcome.ok), ("not-applicable", false));
}

#[test]
fn a_skipped_version_must_not_contain_what_the_patch_edits() {
    let outside =
        "versions = \">=0.9\"\nbelow = { then = \"skip\", because = \"there is no list\" }";
    let text = patch_text("p", &format!("{APPEND}guards = '''^lists?\\b'''\n"))
        .replace("versions = \"*\"", outside);
    let ask = |text: &str, content: &[u8]| {
        let set = PatchSet::new(vec![parse_patch("p", text).unwrap()]).unwrap();
        let outcome = run(&set, &files(&[("f", content)]), Some("0.8.5"), &[]);
        assert!(outcome.files.is_empty());
        (outcome.patches[0].explanation.clone(), outcome.ok)
    };
    let skipped = ("0.8.5 is below `>=0.9`: there is no list".to_owned(), true);
    let contradicted = |line: usize| {
        let told = format!(
            "`f`: line {line}: the tree has this text, but the patch expects this version not to have it ({}); is the version right?",
            skipped.0
        );
        (told, false)
    };
    assert_eq!(ask(&text, b"other\n"), skipped);
    // Text that the anchor matches, and text that only `guards` matches.
    assert_eq!(ask(&text, b"x\nlist = \"a\"\n"), contradicted(2));
    assert_eq!(ask(&text, b"x\ny\nlists = [a]\n"), contradicted(3));
    let left_alone = text.replace("\"skip\"", "\"leave-alone\"");
    assert_eq!(ask(&left_alone, b"list = \"a\"\n"), skipped);
    let other_gpu = text.replace("versions =", "gpus = \"gfx12[0-9a-f]{2}\"\nversions =");
    assert_eq!(ask(&other_gpu, b"list = \"a\"\n").0, "it is not for `gfx1151`");
}

/// Text under a preprocessor condition is reported together with that condition.
#[test]
fn text_under_a_preprocessor_condition_is_told_with_it() {
    let edits = APPEND.replace("[\"f\"]", "[\"f.cpp\"]");
    let set = set(&[("p", &edits)]);
    let ask = |text: &str| {
        let outcome = run(&set, &files(&[("f.cpp", text.as_bytes())]), None, &[]);
        let patch = &outcome.patches[0];
        (patch.explanation.clone(), patch.is_retired)
    };
    let plain = "upstream includes it".to_owned();
    assert_eq!(ask("list = \"a;\n#if X\nb\n#endif\n;gfx1151\""), (plain.clone(), true));
    let under = format!("{plain}, but only under `#if ROCM_VERSION >= 70000`");
    let text = "list = \"a;\n#if ROCM_VERSION >= 70000\n;gfx1151;\n#endif\n\"";
    assert_eq!(ask(text), (under, false));
    // It also occurs without a condition.
    assert_eq!(ask("list = \"gfx1151;\n#if X\n;gfx1151;\n#endif\n\""), (plain, true));
}

#[test]
fn counts_may_depend_on_the_version() {
    let edits = APPEND.replace("expect = 1", "expect = { \"<0.20\" = 1, \">=0.20\" = 2 }");
    let set = set(&[("p", &edits)]);
    let (once, twice) =
        (files(&[("f", b"list = \"a\"\n")]), files(&[("f", b"list = \"a\"\nlist = \"b\"\n")]));
    let ask =
        |tree: &Files, version: Option<&str>| verdicts(&run(&set, tree, version, &[])).remove(0);
    assert_eq!(ask(&once, Some("0.19")), "applied(1)");
    assert_eq!(ask(&twice, Some("0.19")), "ambiguous");
    assert_eq!(ask(&twice, Some("0.20")), "applied(2)");
    assert_eq!(ask(&once, Some("0.20")), "ambiguous");
    assert_eq!(
        (ask(&once, None), ask(&twice, None)),
        ("applied(1)".to_owned(), "applied(2)".to_owned())
    );
}

#[test]
fn receipts_tell_our_work_from_upstreams_and_take_it_back() {
    let set = set(&[("a", APPEND), ("b", REPLACE), ("c", INSERT)]);
    let tree = files(&[("f", b"\xef\xbb\xbflist = \"a\"\r\nswitch on\r\n"), ("g", b"end")]);
    let outcome = run(&set, &tree, None, &[]);
    let after = patched(&tree, &outcome);
    let receipt = outcome.receipt().unwrap();
    let json = serde_json::to_string(&receipt).unwrap();
    let receipt: Receipt = serde_json::from_str(&json).unwrap();
    assert_eq!(revert(&receipt, &after).unwrap(), tree);
    assert_eq!(revert(&receipt, &tree).unwrap(), BTreeMap::new(), "reverted earlier");

    let again = run(&set, &after, None, std::slice::from_ref(&receipt));
    assert_eq!(
        again.patches[0].verdict,
        Verdict::AlreadyPresent { by: PresentBy::Ours, condition: None }
    );
    assert!(!again.patches[0].is_retired && again.files.is_empty());
    let fresh = run(&set, &after, None, &[]);
    assert_eq!(
        fresh.patches[0].verdict,
        Verdict::AlreadyPresent { by: PresentBy::Upstream, condition: None }
    );
    assert!(fresh.patches[0].is_retired);

    let mut edited = after.clone();
    edited.values_mut().next().unwrap().push(b'x');
    assert!(matches!(revert(&receipt, &edited), Err(RevertError::Changed { .. })));
    assert_eq!(
        verdicts(&run(&set, &edited, None, std::slice::from_ref(&receipt)))[0],
        "base-dirty"
    );
    // A receipt for another version does not count: the files were upgraded, not edited.
    let old = Receipt { version: Some("1.0".to_owned()), ..receipt.clone() };
    let of = |version| {
        verdicts(&run(&set, &edited, Some(version), std::slice::from_ref(&old)))[0].clone()
    };
    assert_eq!(of("1.0"), "base-dirty");
    assert_ne!(of("1.1"), "base-dirty");
    let mut damaged = receipt.clone();
    damaged.files[0].splices[0].at += 1;
    assert!(matches!(revert(&damaged, &after), Err(RevertError::Damaged(_))));
    damaged.files[0].splices[0].at = usize::MAX;
    assert!(matches!(revert(&damaged, &after), Err(RevertError::Damaged(_))));
    assert!(matches!(revert(&receipt, &files(&[])), Err(RevertError::Missing(_))));
    assert!(matches!(
        revert(&Receipt { schema: 2, ..receipt }, &after),
        Err(RevertError::Schema(2))
    ));
    assert!(serde_json::from_str::<Receipt>(&json.replace("\"f\"", "\"../f\"")).is_err());
}

#[test]
fn receipts_know_files_as_they_were_before() {
    let set = set(&[("a", APPEND)]);
    let tree = files(&[("f", b"list = \"a\"\n")]);
    let outcome = run(&set, &tree, None, &[]);
    let after = patched(&tree, &outcome);
    let receipt = outcome.receipt().unwrap();
    let hash = |tree: &Files| crate::hash::sha256(tree.values().next().unwrap());
    let [file] = receipt.files.as_slice() else { panic!("{:?}", receipt.files) };
    assert_eq!((&file.before, &file.after), (&hash(&tree), &hash(&after)));
    // A file that has its old content again was restored, not edited, and is patched again.
    let again = run(&set, &tree, None, std::slice::from_ref(&receipt));
    assert_eq!(verdicts(&again), ["applied(1)"]);
    // The changes must restore the content whose hash the receipt contains.
    let mut damaged = receipt.clone();
    damaged.files[0].splices[0].removed = "x".to_owned();
    assert!(matches!(revert(&damaged, &after), Err(RevertError::Damaged(_))));
    let mut damaged = receipt;
    damaged.files[0].before = crate::hash::sha256(b"another file");
    assert!(matches!(revert(&damaged, &after), Err(RevertError::Damaged(_))));
}

#[test]
fn large_files_are_not_patched() {
    use crate::{MAX_FILE_BYTES, MAX_TOTAL_BYTES};
    let padded = |size: usize| {
        let mut file = b"list = \"a\"\n".to_vec();
        file.resize(size, b'x');
        file
    };
    let added = ";gfx1151".len();
    let (verdict, file) = one(APPEND, &padded(MAX_FILE_BYTES - added));
    assert_eq!((verdict.to_string().as_str(), file.len()), ("applied(1)", MAX_FILE_BYTES));
    let (verdict, _) = one(APPEND, &padded(MAX_FILE_BYTES - added + 1));
    assert_eq!(verdict.explain(), "`f`: the file would become too large");
    let (verdict, _) = one(APPEND, &padded(MAX_FILE_BYTES));
    assert_eq!(verdict.explain(), "`f`: the file would become too large");
    let (verdict, _) = one(APPEND, &padded(MAX_FILE_BYTES + 1));
    assert_eq!(verdict.explain(), "`f`: it has 4194305 bytes; the maximum is 4194304");

    // Each file is small enough, but there is one too many.
    let many = MAX_TOTAL_BYTES / MAX_FILE_BYTES;
    let run_on = |count: usize| {
        let names: Vec<String> = (0..count).map(|number| format!("f{number}")).collect();
        let tree = names.iter().map(|name| {
            let file = padded(MAX_FILE_BYTES - added);
            (name.parse().unwrap(), file)
        });
        let tree: Files = tree.collect();
        let edits: String =
            names.iter().map(|name| APPEND.replace("\"f\"", &format!("\"{name}\""))).collect();
        run(&set(&[("p", &edits)]), &tree, None, &[]).patches[0].explanation.clone()
    };
    assert_eq!(run_on(many), format!("{many} places were changed"));
    assert!(run_on(many + 1).ends_with("all files together have more than 67108864 bytes"));
}

#[test]
fn what_upstream_solved_otherwise_is_left_alone_even_if_the_anchor_matches() {
    let edits = format!("{APPEND}satisfied_by = '__GFX11__'\n");
    for (file, verdict) in [
        ("list = \"a\"\n", "applied(1)"),
        ("list = \"a\"\n__GFX11__\n", "satisfied-otherwise"),
        ("__GFX11__\n", "satisfied-otherwise"),
        ("list = \"a;gfx1151\"\n__GFX11__\n", "already-present"),
    ] {
        assert_eq!(one(&edits, file.as_bytes()).0.to_string(), verdict, "{file}");
    }
}

#[test]
fn a_known_base_must_be_there() {
    let tree = files(&[("f", b"list = \"a\"\n")]);
    let gpu = gpu();
    let hash = crate::hash::sha256(b"something else");
    let base = [("f".parse().unwrap(), hash)].into();
    let subject = Subject {
        gpu: &gpu,
        version: None,
        build_env: None,
        is_pristine: false,
        base: &base,
        receipts: &[],
    };
    assert_eq!(
        verdicts(&apply(&set(&[("p", APPEND)]), &subject, &tree, &NoProbes)),
        ["base-dirty"]
    );
}

#[test]
fn patches_that_undo_each_other_are_in_conflict() {
    let back = REPLACE.replace("with = \"off\"", "with = \"on\"");
    let outcome =
        run(&set(&[("a", REPLACE), ("b", &back)]), &files(&[("f", b"switch on\n")]), None, &[]);
    assert_eq!(verdicts(&outcome), ["conflict", "applied(1)"]);
    assert_eq!(outcome.patches[0].explanation, "with `b`: a later patch undoes its change in `f`");
    assert!(!outcome.ok);
    let outcome = run(
        &set(&[("a", &format!("{REPLACE}[relations]\nconflicts = [\"b\"]\n")), ("b", APPEND)]),
        &files(&[("f", b"switch on\nlist = \"a\"\n")]),
        None,
        &[],
    );
    assert_eq!(verdicts(&outcome), ["conflict", "conflict"]);
}

#[test]
fn the_build_must_be_one_the_patch_is_for() {
    let edits = format!("{APPEND}[relations.build_env]\nTRITON = \"TRUE\"\n");
    let tree = files(&[("f", b"list = \"a\"\n")]);
    let gpu = gpu();
    let base = BTreeMap::new();
    let ask = |env: &[(&str, &str)]| {
        let env = env.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let subject = Subject {
            gpu: &gpu,
            version: None,
            build_env: Some(&env),
            is_pristine: true,
            base: &base,
            receipts: &[],
        };
        apply(&set(&[("p", &edits)]), &subject, &tree, &NoProbes).patches[0].explanation.clone()
    };
    assert_eq!(ask(&[("TRITON", "TRUE")]), "one place was changed");
    assert_eq!(
        ask(&[]),
        "the build's `TRITON` is not set, but must be `TRUE`; otherwise the patch breaks the build"
    );
    assert_eq!(
        ask(&[("TRITON", "1")]),
        "the build's `TRITON` is `1`, but must be `TRUE`; otherwise the patch breaks the build"
    );
}

#[test]
fn a_patch_with_an_edit_that_cannot_be_prepared_changes_nothing() {
    let mut broken = patch("a", &format!("{APPEND}{REPLACE}"));
    "(".clone_into(&mut broken.edits[1].anchor);
    let set = PatchSet::new(vec![broken, patch("b", APPEND)]).unwrap();
    let tree = files(&[("f", b"list = \"gfx1100\"\nswitch on\n")]);
    let outcome = run(&set, &tree, None, &[]);
    let failed = &outcome.patches[0].verdict;
    assert!(matches!(failed, Verdict::PostConditionFailed { .. }), "{failed}");
    // The second patch finds the list without the target.
    assert!(matches!(outcome.patches[1].verdict, Verdict::Applied { .. }), "{outcome:?}");
}

#[test]
fn sets_are_ordered_and_checked() {
    let relations = |text: &str| format!("{APPEND}[relations]\n{text}\n");
    let order = |patches: &[(&str, String)]| {
        let patches = patches.iter().map(|(id, edits)| patch(id, edits)).collect();
        PatchSet::new(patches)
            .map(|set| set.patches().iter().map(|p| p.id.clone()).collect::<Vec<_>>())
    };
    let requires = |id: &str| relations(&format!("requires = [\"{id}\"]"));
    assert_eq!(
        order(&[
            ("a", requires("c")),
            ("b", relations("order = 2")),
            ("c", relations("order = 3"))
        ])
        .unwrap(),
        ["b", "c", "a"]
    );
    assert_eq!(order(&[("a", requires("b")), ("b", requires("a"))]).unwrap(), ["a", "b"]);
    assert!(matches!(order(&[("a", requires("b"))]), Err(PatchSetError::Missing { .. })));
    assert!(matches!(
        order(&[("a", APPEND.to_owned()), ("a", APPEND.to_owned())]),
        Err(PatchSetError::Duplicate(_))
    ));
    let cycle = order(&[("a", requires("b")), ("b", requires("c")), ("c", requires("a"))]);
    assert_eq!(
        cycle.unwrap_err().to_string(),
        "these patches form a dependency cycle: `a`, `b` and `c`"
    );
    // Patches that only require one in the cycle are not to blame.
    let cycle = order(&[
        ("a", requires("d")),
        ("b", requires("c")),
        ("c", requires("d")),
        ("d", requires("b")),
        ("e", requires("a")),
    ]);
    assert_eq!(
        cycle.unwrap_err().to_string(),
        "these patches form a dependency cycle: `b`, `c` and `d`"
    );
    let other =
        parse_patch("o", &patch_text("o", APPEND).replace("\"vllm\"", "\"aiter\"")).unwrap();
    assert!(matches!(
        PatchSet::new(vec![patch("a", APPEND), other]),
        Err(PatchSetError::Components { .. })
    ));
}

/// Returns the same result for every probe, and keeps the jobs.
struct Scripted(ProbeRun, RefCell<Vec<ProbeJob>>);

impl Probes for Scripted {
    fn run(&self, job: &ProbeJob) -> ProbeRun {
        self.1.borrow_mut().push(job.clone());
        self.0.clone()
    }
}

#[test]
fn probes_see_patched_files_and_decide() {
    let edits = format!(
        "{APPEND}[[probe]]\nname = \"run\"\nkind = \"cpp-macro\"\nfiles = [\"none\", \"f\"]\ndefines = [\"__{{gpu}}__\"]\nmatches = '^yes$'\n"
    );
    let tree = files(&[("f", b"#include <x>\n  # include \"y\"\nlist = \"a\"\n")]);
    let gpu = gpu();
    let base = BTreeMap::new();
    let subject = unversioned(&gpu, &base);
    let ask = |answer: ProbeRun| {
        let probes = Scripted(answer, RefCell::default());
        let outcome = apply(&set(&[("p", &edits)]), &subject, &tree, &probes);
        (outcome.patches[0].explanation.clone(), outcome.files.len(), probes.1.into_inner())
    };
    let ended = |success: bool, stdout: &str| ProbeRun::Ended {
        success,
        stdout: stdout.as_bytes().to_vec(),
        stderr: b"first\nlast\n\n".to_vec(),
    };
    let (said, changed, jobs) = ask(ended(true, "no\nyes\n"));
    assert_eq!((said.as_str(), changed), ("one place was changed", 1));
    assert_eq!(
        (jobs[0].tool, jobs[0].stdin.as_slice()),
        (Tool::Cpp, b"\n\nlist = \"a;gfx1151\"\n".as_slice())
    );
    assert!(jobs[0].arguments.contains(&"-D__gfx1151__".to_owned()) && jobs[0].files.is_empty());
    let (said, changed, _) = ask(ended(false, "yes\n"));
    assert_eq!(
        (said.as_str(), changed),
        ("probe `run`: it failed, but should succeed; last line of its error output: `last`", 0)
    );
    assert_eq!(ask(ended(true, "no\n")).0, "probe `run`: in its output, `^yes$` does not match");
    assert_eq!(ask(ProbeRun::Stopped { reason: "too slow".to_owned() }).0, "probe `run`: too slow");
    let (_, changed, _) = ask(ProbeRun::NotRun { reason: "g++ is not installed".to_owned() });
    assert_eq!(changed, 1, "a probe that cannot run is skipped and reported as skipped");
}

#[test]
fn reports_and_diffs_are_for_machines_too() {
    let outcome =
        run(&set(&[("p", APPEND)]), &files(&[("f", b"x\nlist = \"a\"")]), Some("0.10.2"), &[]);
    let diff = String::from_utf8(outcome.diff()).unwrap();
    insta::assert_snapshot!(diff, @r#"
    --- a/f
    +++ b/f
    @@ -1,2 +1,2 @@
     x
    -list = "a"
    \ No newline at end of file
    +list = "a;gfx1151"
    \ No newline at end of file
    "#);
    assert!(String::from_utf8(outcome.reverse_diff()).unwrap().contains("\n+list = \"a\"\n"));
    let json = serde_json::to_value(&outcome).unwrap();
    assert_eq!(json["schema"], "build-pipeline/patch-report/v1");
    assert_eq!(json["patches"][0]["verdict"], serde_json::json!({ "kind": "applied", "count": 1 }));
    assert_eq!(json["files"][0]["path"], "f");
    assert_eq!(
        json["files"][0].as_object().unwrap().len(),
        4,
        "contents are not part of the report"
    );
}

#[test]
fn hashes_follow_what_a_patch_does() {
    let text = patch_text("p", APPEND);
    let hash = |text: &str| parse_patch("p", text).unwrap().sha256();
    assert_eq!(
        hash(&text),
        hash(&format!("# a comment\n{}", text.replace("\"d\"", "\"another description\"")))
    );
    assert_ne!(hash(&text), hash(&text.replace("\"{gpu}\"", "\"{gpu_number}\"")));
    assert_ne!(hash(&text), hash(&text.replace("expect = 1", "expect = 2")));
}

#[test]
fn tests_in_a_patch_file_fail_when_they_should() {
    let test = |given: &str, verdict: &str, then: &str| {
        let edits = format!(
            "{APPEND}[[test]]\nname = \"t\"\nverdict = \"{verdict}\"\n[test.given]\nf = '{given}'\n[test.then]\nf = '{then}'\n"
        );
        run_tests(&patch("p", &edits)).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let none: Vec<String> = Vec::new();
    assert_eq!(test("list = \"a\"", "applied(1)", "list = \"a;gfx1151\""), none);
    assert_eq!(
        test("list = \"a\"", "applied(1)", "list = \"a\""),
        ["test `t` of patch `p`: `f` becomes:\nlist = \"a;gfx1151\""]
    );
    assert_eq!(
        test("list = \"a\"", "already-present", "x"),
        [
            "test `t` of patch `p`: the verdict is `applied(1)` (one place was changed), expected `already-present`"
        ]
    );
}

#[test]
fn retirement_is_the_first_version_after_the_last_need() {
    let version = |text: &str| text.parse::<Version>().unwrap();
    let needed = Verdict::Applied { count: 1 };
    let there = Verdict::SatisfiedOtherwise;
    let versions = [version("0.11.1"), version("0.9.0"), version("0.10.2")];
    assert_eq!(
        retirement([(&versions[0], &there), (&versions[1], &there), (&versions[2], &needed)]),
        Retirement::Since { version: version("0.11.1") }
    );
    assert_eq!(retirement([(&versions[0], &needed), (&versions[1], &there)]), Retirement::NotYet);
    assert_eq!(retirement([(&versions[0], &there)]), Retirement::Never);
}

#[test]
fn hostile_files_end_soon() {
    // Finding all matches of this takes quadratic time; counting stops one above the expected
    // count.
    let edits =
        APPEND.replace("^list = \"(?P<list>[^\"]*)\"$", ".*[^A-Z](?P<list>x)?|[A-Z](?P<list2>x)?");
    let (verdict, _) = one(&edits, &b"A".repeat(400_000));
    assert_eq!(verdict.to_string(), "ambiguous");
    let edits = APPEND.replace("^list = \"(?P<list>[^\"]*)\"$", "^(?:a?){200}a{200}(?P<list>b)$");
    let (verdict, _) = one(&edits, &b"a".repeat(400_000));
    assert_eq!(verdict.to_string(), "anchor-missing");
}
