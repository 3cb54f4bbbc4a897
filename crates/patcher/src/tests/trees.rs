//! How the verdicts of several edits become one, and what hashes and receipts say about a tree.

use names::Sha256;

use super::*;
use crate::{FileReceipt, IfPartial, MAX_FILE_BYTES, PresentBy, Tree, Unreadable, Verdict};

fn hash(bytes: &[u8]) -> Sha256 {
    crate::hash::sha256(bytes)
}

fn path(text: &str) -> TreePath {
    text.parse().unwrap()
}

/// Replaces `on` with `off` in `h`, which may be absent.
const OPTIONAL: &str = "[[edit]]\nfiles = [\"h\", \"old/h\"]\nif_absent = \"skip\"\n\
     anchor = '''^switch (?P<value>on|off)$'''\nexpect = 1\nop = \"replace-capture\"\nwith = \"off\"\n\
     satisfied_by = '''^no switch$'''\n";

/// What is known about a tree.
#[derive(Default)]
struct Known {
    is_pristine: bool,
    base: BTreeMap<TreePath, Sha256>,
    receipts: Vec<Receipt>,
    version: Option<Version>,
}

fn run_on(set: &PatchSet, tree: &dyn Tree, known: &Known) -> Outcome {
    let gpu = gpu();
    let subject = Subject {
        gpu: &gpu,
        version: known.version.as_ref(),
        build_env: None,
        is_pristine: known.is_pristine,
        base: &known.base,
        receipts: &known.receipts,
    };
    apply(set, &subject, tree, &NoProbes)
}

fn receipt(version: Option<&str>, before: &[u8], after: &[u8]) -> Receipt {
    Receipt {
        schema: Receipt::SCHEMA,
        component: "vllm".to_owned(),
        version: version.map(str::to_owned),
        gpu: "gfx1151".to_owned(),
        patches: Vec::new(),
        files: vec![FileReceipt {
            path: path("f"),
            before: hash(before),
            after: hash(after),
            splices: Vec::new(),
        }],
    }
}

#[test]
fn the_verdict_of_a_patch_counts_the_places_of_all_edits() {
    let edits = format!("{APPEND}{REPLACE}{OPTIONAL}");
    let (needed, done) = ("list = \"a\"\nswitch on\n", "list = \"gfx1151\"\nswitch off\n");
    let partial = |missing, present| Verdict::PartialUpstream { missing, present };
    let upstream = Verdict::AlreadyPresent { by: PresentBy::Upstream, condition: None };
    for (f, h, verdict) in [
        (needed, None, Verdict::Applied { count: 2 }),
        (needed, Some("switch on\n"), Verdict::Applied { count: 3 }),
        (needed, Some("switch off\n"), partial(2, 1)),
        (needed, Some("no switch\n"), partial(2, 1)),
        (done, None, upstream.clone()),
        (done, Some("switch off\n"), upstream),
        (done, Some("switch on\n"), partial(1, 2)),
        (done, Some("no switch\n"), Verdict::SatisfiedOtherwise),
        ("list = \"gfx1151\"\nswitch on\n", None, partial(1, 1)),
    ] {
        let mut tree = files(&[("f", f.as_bytes())]);
        tree.extend(h.map(|h| (path("h"), h.as_bytes().to_vec())));
        let outcome = run(&set(&[("p", &edits)]), &tree, None, &[]);
        assert_eq!(outcome.patches[0].verdict, verdict, "{f:?} {h:?}");
        let is_partial = matches!(verdict, Verdict::PartialUpstream { .. });
        assert_eq!(outcome.ok, !is_partial);
        let is_retired = outcome.patches[0].is_retired;
        let is_there =
            matches!(verdict, Verdict::AlreadyPresent { .. } | Verdict::SatisfiedOtherwise);
        assert_eq!(is_retired, is_there, "{f:?} {h:?}");
    }
}

#[test]
fn an_edit_whose_files_may_be_absent_names_them() {
    let outcome = run(&set(&[("p", OPTIONAL)]), &files(&[]), None, &[]);
    assert_eq!(outcome.patches[0].explanation, "the tree has no h or old/h");
    assert!(outcome.ok && outcome.receipt().is_none());
    // Only absence is skipped: a file without the anchor is a failure.
    let outcome = run(&set(&[("p", OPTIONAL)]), &files(&[("old/h", b"nothing\n")]), None, &[]);
    assert_eq!(outcome.patches[0].explanation, "the anchor was not found in `old/h`");
    assert_eq!(outcome.patches[0].edits[0].file, Some(path("old/h")));
}

#[test]
fn the_first_file_that_fits_is_edited_and_only_that_one() {
    let edits = APPEND.replace("[\"f\"]", "[\"new\", \"old\", \"older\"]");
    let set = set(&[("p", &edits)]);
    let ask = |tree: &[(&str, &[u8])]| {
        let outcome = run(&set, &files(tree), None, &[]);
        let file = outcome.patches[0].edits[0].file.as_ref().map(ToString::to_string);
        let changed: Vec<String> = outcome.files.iter().map(|file| file.path.to_string()).collect();
        (verdicts(&outcome).remove(0), file.unwrap_or_default(), changed)
    };
    let one: &[u8] = b"list = \"a\"\n";
    let two: &[u8] = b"list = \"a\"\nlist = \"b\"\n";
    let none: &[u8] = b"other\n";
    let applied = |file: &str| ("applied(1)".to_owned(), file.to_owned(), vec![file.to_owned()]);
    let failed = |name: &str, file: &str| (name.to_owned(), file.to_owned(), Vec::new());
    assert_eq!(ask(&[("new", one), ("old", one)]), applied("new"));
    assert_eq!(ask(&[("old", one), ("older", one)]), applied("old"));
    assert_eq!(ask(&[("new", none), ("older", one)]), applied("older"));
    // A file with too many places does not hide a later one that matches.
    assert_eq!(ask(&[("new", two), ("old", one)]), applied("old"));
    // Otherwise the first of them is reported, before a missing anchor.
    assert_eq!(ask(&[("new", none), ("old", two), ("older", two)]), failed("ambiguous", "old"));
    assert_eq!(ask(&[("old", none), ("older", none)]), failed("anchor-missing", "old"));
    assert_eq!(ask(&[]), failed("anchor-missing", ""));
}

#[test]
fn a_file_that_cannot_be_read_stops_the_edit_before_later_files() {
    struct Odd;
    impl Tree for Odd {
        fn read(&self, path: &TreePath) -> Result<Option<Vec<u8>>, Unreadable> {
            match path.as_str() {
                "odd" => Err(Unreadable("it is a directory".to_owned())),
                _ => Ok(Some(b"list = \"a\"\n".to_vec())),
            }
        }
    }
    let ask = |files: &str| {
        let edits = APPEND.replace("[\"f\"]", files);
        let outcome = run_on(&set(&[("p", &edits)]), &Odd, &Known::default());
        (outcome.patches[0].explanation.clone(), outcome.ok)
    };
    assert_eq!(ask("[\"odd\", \"f\"]"), ("`odd`: it is a directory".to_owned(), false));
    assert_eq!(ask("[\"f\", \"odd\"]"), ("one place was changed".to_owned(), true));
}

#[test]
fn the_size_limits_are_inclusive() {
    let large = |size: usize| {
        let mut file = b"list = \"gfx1151\"\n".to_vec();
        file.resize(size, b'x');
        file
    };
    let many = crate::MAX_TOTAL_BYTES / MAX_FILE_BYTES;
    let ask = |extra: usize| {
        let names: Vec<String> = (0..=many).map(|number| format!("f{number:02}")).collect();
        let mut tree = Files::new();
        for name in &names[..many] {
            tree.insert(path(name), large(MAX_FILE_BYTES));
        }
        tree.insert(path(&names[many]), vec![b'\n'; extra]);
        let edit = |name: &String| APPEND.replace("\"f\"", &format!("\"{name}\""));
        let edits: String = names[..many].iter().map(edit).collect();
        let last = format!("{}if_absent = \"skip\"\nsatisfied_by = '^$'\n", edit(&names[many]));
        run(&set(&[("p", &format!("{edits}{last}"))]), &tree, None, &[]).patches[0].clone()
    };
    // All files together have exactly the largest total size.
    assert_eq!(ask(0).explanation, "upstream solved this in another way");
    assert_eq!(ask(1).explanation, "`f16`: all files together have more than 67108864 bytes");
}

#[test]
fn text_that_is_there_comes_from_upstream_from_us_or_from_someone_unknown() {
    let there: &[u8] = b"list = \"gfx1151\"\n";
    let set = set(&[("p", APPEND)]);
    let by = |known: &Known| {
        let outcome = run_on(&set, &files(&[("f", there)]), known);
        match &outcome.patches[0].verdict {
            Verdict::AlreadyPresent { by, .. } => *by,
            other => panic!("{other}"),
        }
    };
    let base: BTreeMap<TreePath, Sha256> = [(path("f"), hash(there))].into();
    let ours = receipt(None, b"list = \"\"\n", there);
    assert_eq!(by(&Known::default()), PresentBy::Unknown);
    assert_eq!(by(&Known { is_pristine: true, ..Known::default() }), PresentBy::Upstream);
    assert_eq!(by(&Known { base: base.clone(), ..Known::default() }), PresentBy::Upstream);
    // The base does not list the file, and the tree is not known to be pristine.
    let other = receipt(None, there, b"another change");
    let known = Known { receipts: vec![other.clone()], ..Known::default() };
    assert_eq!(by(&known), PresentBy::Unknown);
    // Our own work is never mistaken for upstream's.
    let known = Known { is_pristine: true, base, receipts: vec![ours.clone()], ..Known::default() };
    assert_eq!(by(&known), PresentBy::Ours);
    let known = Known { receipts: vec![ours, other], ..Known::default() };
    assert_eq!(by(&known), PresentBy::Ours, "any receipt is enough");
}

#[test]
fn work_of_an_interrupted_run_is_not_counted_as_upstreams() {
    let set = set(&[("p", &format!("{APPEND}{INSERT}"))]);
    let before: &[u8] = b"list = \"a\"\n";
    let tree = files(&[("f", before), ("g", b"end\n")]);
    let outcome = run(&set, &tree, None, &[]);
    let receipts = vec![outcome.receipt().unwrap()];
    let mut half = patched(&tree, &outcome);
    half.insert(path("g"), b"end\n".to_vec());
    // `f` was written, `g` was not.
    let known = Known { receipts: receipts.clone(), ..Known::default() };
    let again = run_on(&set, &half, &known);
    assert_eq!(again.patches[0].verdict, Verdict::Applied { count: 1 });
    assert_eq!(again.files.len(), 1);
    // Nothing is missing, and a part of the change comes from upstream.
    let mut half = patched(&tree, &outcome);
    half.insert(path("g"), b"new line\nend\n".to_vec());
    let mut receipts = receipts;
    receipts[0].files.retain(|file| file.path == path("f"));
    let known = Known { receipts, is_pristine: true, ..Known::default() };
    let again = run_on(&set, &half, &known);
    assert_eq!(
        again.patches[0].verdict,
        Verdict::AlreadyPresent { by: PresentBy::Upstream, condition: None }
    );
    // The verdict is the same if a file that may be absent is absent.
    let set = super::set(&[("p", &format!("{OPTIONAL}{APPEND}"))]);
    let again = run_on(&set, &half, &known);
    assert_eq!(
        again.patches[0].verdict,
        Verdict::AlreadyPresent { by: PresentBy::Ours, condition: None }
    );
}

#[test]
fn a_file_must_have_a_hash_that_the_base_or_the_newest_receipt_names() {
    let file: &[u8] = b"list = \"a\"\n";
    let set = set(&[("p", APPEND)]);
    let ask = |base: Option<&[u8]>, receipts: Vec<Receipt>, version: Option<&str>| {
        let known = Known {
            base: base.map(|base| (path("f"), hash(base))).into_iter().collect(),
            receipts,
            version: version.map(|version| version.parse().unwrap()),
            ..Known::default()
        };
        match run_on(&set, &files(&[("f", file)]), &known).patches[0].verdict.clone() {
            Verdict::BaseDirty { expected, found, .. } => {
                assert_eq!(found, hash(file));
                Some(expected)
            }
            Verdict::Applied { count: 1 } => None,
            other => panic!("{other}"),
        }
    };
    let (old, new): (&[u8], &[u8]) = (b"old", b"new");
    assert_eq!(ask(None, Vec::new(), None), None);
    assert_eq!(ask(Some(file), Vec::new(), None), None);
    assert_eq!(ask(Some(old), Vec::new(), None), Some(hash(old)));
    assert_eq!(ask(None, vec![receipt(None, file, new)], None), None);
    assert_eq!(ask(None, vec![receipt(None, old, file)], None), None);
    assert_eq!(ask(None, vec![receipt(None, old, new)], None), Some(hash(new)));
    // The base still counts: a package manager may have restored the file.
    assert_eq!(ask(Some(file), vec![receipt(None, old, new)], None), None);
    assert_eq!(ask(Some(b"base"), vec![receipt(None, old, new)], None), Some(hash(new)));
    // Only the newest receipt of this version counts.
    let receipts = |last: Option<&str>| vec![receipt(None, b"x", file), receipt(last, old, new)];
    assert_eq!(ask(None, receipts(None), Some("1.0")), Some(hash(new)));
    assert_eq!(ask(None, receipts(Some("1.0")), Some("1.0")), Some(hash(new)));
    assert_eq!(ask(None, receipts(Some("1.1")), Some("1.0")), None);
    assert_eq!(ask(None, receipts(Some("1.1")), None), Some(hash(new)));
    // A receipt without this file says nothing about it.
    let mut silent = receipt(None, old, new);
    silent.files.clear();
    assert_eq!(ask(None, vec![receipt(None, old, new), silent], None), Some(hash(new)));
}

#[test]
fn a_failed_patch_leaves_no_trace_in_the_files_of_the_next() {
    // `a` changes `f` twice and `g` once, then fails. `b` must see neither change.
    let failing = format!("{APPEND}{INSERT}{}", REPLACE.replace("switch", "lever"));
    let tree = files(&[("f", b"list = \"a\"\nswitch on\n"), ("g", b"end\n")]);
    let outcome = run(&set(&[("a", &failing), ("b", APPEND), ("c", INSERT)]), &tree, None, &[]);
    assert_eq!(verdicts(&outcome), ["anchor-missing", "applied(1)", "applied(1)"]);
    // The edits before the failure are still reported.
    let edits: Vec<String> =
        outcome.patches[0].edits.iter().map(|edit| edit.verdict.to_string()).collect();
    assert_eq!(edits, ["applied(1)", "applied(1)", "anchor-missing"]);
    // A later patch that succeeded is kept when the one after it is rolled back.
    let outcome = run(&set(&[("a", APPEND), ("b", &failing), ("c", APPEND)]), &tree, None, &[]);
    let names: Vec<String> = verdicts(&outcome);
    assert_eq!(names, ["applied(1)", "anchor-missing", "already-present"]);
}

#[test]
fn changes_name_the_patches_that_made_them_once_and_in_order() {
    let second = APPEND.replace("{gpu}", "x");
    let twice = format!("{APPEND}{REPLACE}");
    let set = set(&[("a", &twice), ("b", &second), ("c", REPLACE)]);
    let tree = files(&[("f", b"list = \"a\"\nswitch on\n")]);
    let outcome = run(&set, &tree, None, &[]);
    assert_eq!(verdicts(&outcome), ["applied(2)", "applied(1)", "already-present"]);
    assert_eq!(outcome.files[0].patches, ["a", "b"]);
    assert_eq!(outcome.files[0].new, b"list = \"a;gfx1151;x\"\nswitch off\n");
    let receipt = outcome.receipt().unwrap();
    let ids: Vec<&str> = receipt.patches.iter().map(|patch| patch.id.as_str()).collect();
    assert_eq!(ids, ["a", "b"], "a patch that changed nothing has no receipt");
    assert_eq!(receipt.patches[0].sha256, set.patches()[0].sha256());
    assert_eq!(receipt.files[0].splices.len(), 3);
    let expected = (Receipt::SCHEMA, "vllm", None, "gfx1151");
    let found = (receipt.schema, &*receipt.component, receipt.version, &*receipt.gpu);
    assert_eq!(found, expected);
}

#[test]
fn limits_are_told_only_when_something_was_changed() {
    let told = |file: &str, if_partial: IfPartial| {
        let mut patch = patch("p", &format!("{APPEND}{REPLACE}"));
        patch.provenance.limits = Some("only one GPU".to_owned());
        patch.applies.if_partial = if_partial;
        let set = PatchSet::new(vec![patch]).unwrap();
        run(&set, &files(&[("f", file.as_bytes())]), None, &[]).patches[0].limits.clone()
    };
    let limits = Some("only one GPU".to_owned());
    assert_eq!(told("list = \"a\"\nswitch on\n", IfPartial::Refuse), limits);
    assert_eq!(told("list = \"a\"\nswitch off\n", IfPartial::Apply), limits);
    assert_eq!(told("list = \"gfx1151\"\nswitch off\n", IfPartial::Apply), None);
    assert_eq!(told("other\n", IfPartial::Apply), None);
}
