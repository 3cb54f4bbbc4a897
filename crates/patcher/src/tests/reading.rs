//! What a patch file is read as, and the limits of its parts.

use super::*;
use crate::{
    Condition, IfAbsent, IfPartial, MAX_PATTERN_BYTES, Op, PatchPlace, ProbeKind, Then,
    parse_patch_at,
};

/// A patch with every key.
const WHOLE: &str = r#"schema = 1
id = "vllm-a.1"
component = "vllm"

[provenance]
description = "what"
author = "who"
origin = "backport, https://example.org/1"
bug = "https://example.org/2"
forwarded = "no"
applied_upstream = "0.11.1"
last_update = 2026-11-20
limits = "only one GPU"

[applies]
versions = ">=0.9, <0.11"
below = { then = "leave-alone", because = "old" }
above = { then = "refuse", because = "new" }
gpus = "gfx11.*"
rocm = ">=7.2"
if_partial = "apply"

[[edit]]
files = ["a", "b"]
if_absent = "skip"
anchor = '''^list = (?P<list>.+)$'''
expect = { ">=0.10, <0.11" = 2, ">=0.9, <0.10" = 1 }
op = "list-prepend"
item = "{gpu}"
sep = "; "
already = 'done'
satisfied_by = 'solved'
guards = 'about'

[[assert]]
files = ["c"]
matches = 'x'
count = 3

[[probe]]
name = "call"
kind = "python-call"
files = ["a"]
functions = ["f", "_g2"]
prelude = "import re"
call = "f()"
outcome = "failure"
matches = 'm'
absent = 'n'

[relations]
requires = ["b"]
conflicts = ["c"]
order = -2
build_env = { X = "1", Y = "" }

[[test]]
name = "t"
version = "0.9.1"
gpu = "gfx90a"
verdict = "applied(1)"
given = { a = "1", "d/e" = "" }
then = { a = "2" }
"#;

fn whole() -> Patch {
    parse_patch("p", WHOLE).unwrap_or_else(|error| panic!("{error}"))
}

fn problems(text: &str) -> Vec<String> {
    match parse_patch("p.toml", text) {
        Ok(_) => Vec::new(),
        Err(error) => error.problems.iter().map(|problem| problem.message.clone()).collect(),
    }
}

#[test]
fn the_head_of_a_patch_is_read_key_by_key() {
    let patch = whole();
    assert_eq!((patch.id.as_str(), patch.component.as_str()), ("vllm-a.1", "vllm"));
    let from = &patch.provenance;
    assert_eq!(
        (&*from.description, &*from.author, &*from.origin, &*from.forwarded, &*from.last_update),
        ("what", "who", "backport, https://example.org/1", "no", "2026-11-20")
    );
    assert_eq!(from.bug.as_deref(), Some("https://example.org/2"));
    assert_eq!(from.applied_upstream.as_deref(), Some("0.11.1"));
    assert_eq!(from.limits.as_deref(), Some("only one GPU"));
    let applies = &patch.applies;
    assert_eq!(applies.versions.to_string(), ">=0.9, <0.11");
    let (below, above) = (applies.below.as_ref().unwrap(), applies.above.as_ref().unwrap());
    assert_eq!((below.then, below.because.as_str()), (Then::LeaveAlone, "old"));
    assert_eq!((above.then, above.because.as_str()), (Then::Refuse, "new"));
    assert_eq!(applies.gpus.as_deref(), Some("gfx11.*"));
    assert_eq!(applies.rocm.as_ref().unwrap().to_string(), ">=7.2");
    assert_eq!(applies.if_partial, IfPartial::Apply);
    let relations = &patch.relations;
    assert_eq!(
        (&*relations.requires, &*relations.conflicts),
        (&["b".to_owned()][..], &["c".to_owned()][..])
    );
    assert_eq!(relations.order, -2);
    let pairs: Vec<(&str, &str)> =
        relations.build_env.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(pairs, [("X", "1"), ("Y", "")]);
}

#[test]
fn the_parts_of_a_patch_are_read_key_by_key() {
    let patch = whole();
    let edit = &patch.edits[0];
    let names: Vec<&str> = edit.files.iter().map(TreePath::as_str).collect();
    assert_eq!((names.as_slice(), edit.if_absent), (&["a", "b"][..], IfAbsent::Skip));
    assert_eq!(edit.anchor, "^list = (?P<list>.+)$");
    let Op::ListPrepend(item) = &edit.op else { panic!("{:?}", edit.op) };
    assert_eq!((item.item.as_str(), item.sep.as_str()), ("{gpu}", "; "));
    assert_eq!(edit.already.as_deref(), Some("done"));
    assert_eq!(edit.satisfied_by.as_deref(), Some("solved"));
    assert_eq!(edit.guards.as_deref(), Some("about"));
    let counts = |version: Option<&str>| {
        let version: Option<Version> = version.map(|version| version.parse().unwrap());
        edit.expect.counts(version.as_ref()).into_iter().collect::<Vec<_>>()
    };
    assert_eq!(counts(Some("0.9.5")), [1]);
    assert_eq!(counts(Some("0.10")), [2]);
    assert_eq!((counts(None), counts(Some("0.11"))), (vec![1, 2], vec![1, 2]));

    let matches = |pattern: &str, count| Condition::Matches { pattern: pattern.to_owned(), count };
    assert_eq!(patch.asserts[0].condition, matches("x", Some(3)));
    assert_eq!(patch.asserts[0].files[0].as_str(), "c");
    let probe = &patch.probes[0];
    assert_eq!((probe.name.as_str(), probe.success), ("call", false));
    let absent = Condition::Absent { pattern: "n".to_owned() };
    assert_eq!(probe.conditions, [matches("m", None), absent]);
    let ProbeKind::PythonCall { functions, prelude, call } = &probe.kind else {
        panic!("{:?}", probe.kind)
    };
    assert_eq!(functions.join(" "), "f _g2");
    assert_eq!((prelude.as_str(), call.as_str()), ("import re", "f()"));

    let test = &patch.tests[0];
    assert_eq!((test.name.as_str(), test.verdict.as_str()), ("t", "applied(1)"));
    assert_eq!(test.version.as_ref().unwrap().to_string(), "0.9.1");
    assert_eq!(test.gpu.as_str(), "gfx90a");
    let texts = |files: &BTreeMap<TreePath, String>| {
        files.iter().map(|(path, text)| format!("{path}={text}")).collect::<Vec<_>>()
    };
    assert_eq!(
        (texts(&test.given).join(" "), texts(&test.then).join(" ")),
        ("a=1 d/e=".to_owned(), "a=2".to_owned())
    );
}

#[test]
fn keys_that_are_left_out_have_their_documented_defaults() {
    let extra = "[[probe]]\nname = \"c\"\nfiles = [\"f\"]\nkind = \"python-call\"\nfunctions = []\ncall = \"1\"\n\
                 [[test]]\nname = \"t\"\nverdict = \"already-present\"\n";
    let patch = patch("p", &format!("{APPEND}{extra}"));
    let from = &patch.provenance;
    assert_eq!((&from.bug, &from.applied_upstream, &from.limits), (&None, &None, &None));
    let applies = &patch.applies;
    assert!(applies.below.is_none() && applies.above.is_none());
    assert!(applies.gpus.is_none() && applies.rocm.is_none());
    assert_eq!(applies.if_partial, IfPartial::Refuse);
    let edit = &patch.edits[0];
    assert_eq!(edit.if_absent, IfAbsent::Fail);
    assert!(edit.already.is_none() && edit.satisfied_by.is_none() && edit.guards.is_none());
    assert_eq!(patch.relations, crate::Relations::default());
    let probe = &patch.probes[0];
    assert!(probe.success && probe.conditions.is_empty());
    assert!(matches!(&probe.kind, ProbeKind::PythonCall { prelude, .. } if prelude.is_empty()));
    let test = &patch.tests[0];
    assert_eq!((test.gpu.as_str(), &test.version), ("gfx1151", &None));
    assert!(test.given.is_empty() && test.then.is_empty());
}

#[test]
fn the_words_of_a_choice_have_their_meaning() {
    let then = |word: &str| {
        let outside =
            format!("versions = \">=1\"\nbelow = {{ then = \"{word}\", because = \"x\" }}");
        let text = patch_text("p", APPEND).replace("versions = \"*\"", &outside);
        parse_patch("p", &text).unwrap().applies.below.unwrap().then
    };
    assert_eq!(then("skip"), Then::Skip);
    assert_eq!(then("leave-alone"), Then::LeaveAlone);
    assert_eq!(then("expect-satisfied"), Then::ExpectSatisfied);
    assert_eq!(then("refuse"), Then::Refuse);
    let op = |edits: &str| patch("p", edits).edits.remove(0).op;
    assert!(matches!(op(APPEND), Op::ListAppend(_)));
    assert!(matches!(op(&APPEND.replace("append", "prepend")), Op::ListPrepend(_)));
    assert!(matches!(op(INSERT), Op::InsertBefore(_)));
    assert!(matches!(op(&INSERT.replace("before", "after")), Op::InsertAfter(_)));
    assert!(matches!(op(REPLACE), Op::ReplaceCapture(_)));
    let success = |word: &str| {
        let probe = format!(
            "[[probe]]\nname = \"x\"\nfiles = [\"f\"]\nkind = \"python-compile\"\noutcome = \"{word}\"\n"
        );
        patch("p", &format!("{APPEND}{probe}")).probes[0].success
    };
    assert!(success("success") && !success("failure"));
    for origin in ["upstream", "backport", "vendor, x", "other"] {
        let text = patch_text("p", APPEND).replace("\"other\"", &format!("\"{origin}\""));
        assert_eq!(parse_patch("p", &text).unwrap().provenance.origin, origin);
    }
    assert_eq!(
        problems(&patch_text("p", APPEND).replace("\"other\"", "\"others, x\"")),
        ["`others, x` is not an origin"]
    );
}

#[test]
fn a_name_has_at_most_64_plain_characters() {
    let id = |id: &str| problems(&patch_text(id, APPEND));
    let most = "a".repeat(64);
    for good in ["a", "a-b.c-1", "z9", &most] {
        assert_eq!(id(good), Vec::<String>::new(), "{good}");
    }
    for bad in ["1a", "-a", ".a", "a_b", "aB", "a b", "\u{e4}", "a/b", &format!("{most}a")] {
        assert_eq!(id(bad), [format!("`{bad}` is not a patch id")], "{bad}");
    }
    let component = patch_text("p", APPEND).replace("\"vllm\"", "\"Vllm\"");
    assert_eq!(problems(&component), ["`Vllm` is not a component"]);
    let relation = format!("{APPEND}[relations]\nrequires = [\"ok\", \"No\"]\n");
    assert_eq!(problems(&patch_text("p", &relation)), ["`No` is not a patch id"]);
}

#[test]
fn counts_are_from_1_to_64() {
    let expect = |count: i64| {
        problems(&patch_text("p", &APPEND.replace("expect = 1", &format!("expect = {count}"))))
    };
    let assert = |count: i64| {
        let lines = format!("[[assert]]\nfiles = [\"f\"]\nmatches = 'x'\ncount = {count}\n");
        problems(&patch_text("p", &format!("{APPEND}{lines}")))
    };
    for good in [1, 64] {
        assert_eq!((expect(good), assert(good)), (Vec::new(), Vec::new()));
    }
    for bad in [-1, 0, 65] {
        let told = format!("`expect` contains `{bad}`, but a count must be from 1 to 64");
        assert_eq!(expect(bad), [told]);
        assert_eq!(assert(bad), [format!("`count` is `{bad}`, but must be from 1 to 64")]);
    }
    // Each count of a table is checked.
    let table = APPEND.replace("expect = 1", "expect = { \"<1\" = 64, \">=1\" = 65 }");
    assert_eq!(
        problems(&patch_text("p", &table)),
        ["`expect` contains `65`, but a count must be from 1 to 64"]
    );
}

#[test]
fn a_patch_has_at_most_64_parts_of_each_kind() {
    let test = "[[test]]\nname = \"t\"\nverdict = \"conflict\"\n";
    let assert = "[[assert]]\nfiles = [\"f\"]\nabsent = 'x'\n";
    let probe = |number: usize| {
        format!("[[probe]]\nname = \"{number}\"\nfiles = [\"f\"]\nkind = \"python-compile\"\n")
    };
    let many = |count: usize| {
        [
            (APPEND.repeat(count), "edit"),
            (format!("{APPEND}{}", assert.repeat(count)), "assert"),
            (format!("{APPEND}{}", (0..count).map(probe).collect::<String>()), "probe"),
            (format!("{APPEND}{}", test.repeat(count)), "test"),
        ]
    };
    for (edits, _) in many(64) {
        assert_eq!(problems(&patch_text("p", &edits)), Vec::<String>::new());
    }
    for (edits, kind) in many(65) {
        let told = format!("there are `65` tables `[[{kind}]]`");
        assert_eq!(problems(&patch_text("p", &edits)), [told]);
    }
}

#[test]
fn patterns_and_inserted_texts_have_a_largest_size() {
    let pattern = |length: usize| {
        problems(&patch_text("p", &format!("{APPEND}guards = '{}'\n", "a".repeat(length))))
    };
    assert_eq!(pattern(MAX_PATTERN_BYTES), Vec::<String>::new());
    let told = pattern(MAX_PATTERN_BYTES + 1);
    assert!(told[0].ends_with("the pattern has 4097 bytes; the maximum is 4096"), "{told:?}");
    let item =
        |length: usize| problems(&patch_text("p", &APPEND.replace("{gpu}", &"a".repeat(length))));
    let text = |length: usize| {
        let text = format!("new line\\n{}", "a".repeat(length - "new line\n".len()));
        problems(&patch_text("p", &INSERT.replace("new line\"", &format!("{text}\""))))
    };
    let value = |length: usize| {
        let with = format!("with = \"{}\"", "a".repeat(length));
        problems(&patch_text("p", &REPLACE.replace("with = \"off\"", &with)))
    };
    let most = 64 * 1024;
    assert_eq!((item(most), text(most), value(most)), (Vec::new(), Vec::new(), Vec::new()));
    let told = [format!("the edit inserts `{}` bytes", most + 1)];
    assert_eq!(item(most + 1), told);
    assert_eq!(text(most + 1), told);
    assert_eq!(value(most + 1), told);
}

#[test]
fn arguments_of_probes_are_words_and_nothing_else() {
    let problems = |key: &str, value: &str| {
        let (kind, rest) = match key {
            "defines" => ("cpp-macro", String::new()),
            _ => ("python-call", "call = \"f()\"\n".to_owned()),
        };
        let probe = format!(
            "[[probe]]\nname = \"x\"\nfiles = [\"f\"]\nkind = \"{kind}\"\n{key} = [\"{value}\"]\n{rest}"
        );
        problems(&patch_text("p", &format!("{APPEND}{probe}")))
    };
    for good in ["N", "_N1", "N=", "N=1_a", "__{gpu}__", "G={gpu_number}"] {
        assert_eq!(problems("defines", good), Vec::<String>::new(), "{good}");
    }
    for bad in ["", "=1", "1N", "N=a b", "N=-o", "-N", "N=1=2", "N(x)=1", "N='1'", "N=\u{e4}"] {
        assert_eq!(problems("defines", bad), [format!("`{bad}` is not a macro")]);
    }
    for good in ["f", "_f2", "F"] {
        assert_eq!(problems("functions", good), Vec::<String>::new(), "{good}");
    }
    for bad in ["", "2f", "f()", "a.b", "f g", "-c", "\u{e4}"] {
        let told = format!("`{bad}` is not the name of a function");
        assert_eq!(problems("functions", bad), [told]);
    }
}

#[test]
fn a_patch_must_be_where_its_names_say() {
    let read = |component: &str, id: &str| {
        let place = PatchPlace { component, id };
        match parse_patch_at("p.toml", &patch_text("p", APPEND), place) {
            Ok(patch) => {
                assert_eq!(patch.id, "p");
                Vec::new()
            }
            Err(error) => {
                let told =
                    |problem: &pins::Problem| format!("{}: {}", problem.message, problem.help);
                error.problems.iter().map(told).collect()
            }
        }
    };
    let id = "the id is `p`, but the file is called `q.toml`: rename the file to `p.toml`, or change the id";
    let component = "the component is `vllm`, but the folder is called `aiter`: move the file to `patches/vllm/`, or change the component";
    assert_eq!(read("vllm", "p"), Vec::<String>::new());
    assert_eq!(read("vllm", "q"), [id]);
    assert_eq!(read("aiter", "p"), [component]);
    assert_eq!(read("aiter", "q"), [id, component]);
}

#[test]
fn every_problem_of_a_patch_is_reported_at_its_line() {
    let text = patch_text("P", APPEND)
        .replace("author = \"a\"\n", "")
        .replace("expect = 1", "expect = 0")
        .replace("item = \"{gpu}\"\n", "item = \"a;b\"\n")
        .replace("op = ", "already = '('\nop = ");
    let text = format!("{text}[relations]\nrequires = [\"q\", \"q\"]\nconflicts = [\"q\"]\n");
    let error = parse_patch("p.toml", &text).unwrap_err();
    let places: Vec<(usize, &str)> =
        error.problems.iter().map(|problem| (problem.line, problem.message.as_str())).collect();
    let starts = [
        (2, "`P` is not a patch id"),
        (5, "`author` is missing"),
        (17, "`expect` contains `0`"),
        (18, "`already` `(` is not a usable pattern"),
        (23, "`q` is listed twice in `requires`"),
    ];
    assert_eq!(places.len(), starts.len(), "{places:?}");
    for (found, (line, start)) in places.iter().zip(starts) {
        assert!(
            found.0 == line && found.1.starts_with(start),
            "{found:?}, expected {line} {start}"
        );
    }
}

#[test]
fn a_set_takes_required_patches_first_then_the_order_then_the_name() {
    let order = |patches: &[(&str, &str)]| {
        let patches = patches
            .iter()
            .map(|(id, relations)| patch(id, &format!("{APPEND}[relations]\n{relations}\n")));
        let set = PatchSet::new(patches.collect()).map_err(|error| error.to_string())?;
        let ids: Vec<String> = set.patches().iter().map(|patch| patch.id.clone()).collect();
        Ok::<_, String>(ids.join(" "))
    };
    let ok = |ids: &str| Ok(ids.to_owned());
    assert_eq!(order(&[("b", ""), ("a", "order = 1"), ("c", "order = -1")]), ok("c b a"));
    // A chain of `requires` takes precedence over `order`.
    let chain =
        [("a", "requires = [\"b\"]\norder = -9"), ("b", "requires = [\"c\"]"), ("c", "order = 9")];
    assert_eq!(order(&chain), ok("c b a"));
    // Two patches that require each other are sorted by `order`.
    let pair = [("a", "requires = [\"b\"]\norder = 2"), ("b", "requires = [\"a\"]\norder = 1")];
    assert_eq!(order(&pair), ok("b a"));
    let refused = |patches: &[(&str, &str)], told: &str| {
        assert_eq!(order(patches), Err(told.to_owned()));
    };
    refused(&[("a", ""), ("a", "order = 1")], "two patches are called `a`");
    refused(
        &[("a", "requires = [\"z\"]")],
        "`a` requires `z`, which is not selected; without it, `a` breaks the source",
    );
    let mut other = patch("c", APPEND);
    other.component = "aiter".to_owned();
    let error = PatchSet::new(vec![patch("a", APPEND), patch("b", APPEND), other]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`b` is for `vllm` and `c` for `aiter`; a set is for one component"
    );
}

#[test]
fn an_operation_has_its_own_keys_and_no_others() {
    let keys = [("item", "{gpu}"), ("sep", ";"), ("text", "new line"), ("with", "off")];
    for (op, own) in [
        ("list-append", &["item", "sep"][..]),
        ("list-prepend", &["item", "sep"]),
        ("insert-before", &["text"]),
        ("insert-after", &["text"]),
        ("replace-capture", &["with"]),
    ] {
        let told = |has: &dyn Fn(&str) -> bool| {
            let lines = keys.iter().filter(|(key, _)| has(key));
            let lines: String =
                lines.map(|(key, value)| format!("{key} = \"{value}\"\n")).collect();
            problems(&patch_text(
                "p",
                &format!(
                    "[[edit]]\nfiles = [\"f\"]\nanchor = '(?P<list>a)(?P<value>b)'\nexpect = 1\n\
                     op = \"{op}\"\nalready = 'new'\n{lines}"
                ),
            ))
        };
        assert_eq!(told(&|key| own.contains(&key)), Vec::<String>::new(), "{op}");
        for (key, _) in keys {
            if own.contains(&key) {
                let without = told(&|other| own.contains(&other) && other != key);
                assert_eq!(without, [format!("`{key}` is missing from `[[edit]]`")], "{op}");
            } else {
                let with = told(&|other| own.contains(&other) || other == key);
                assert_eq!(with, [format!("`{key}` has no meaning for `{op}`")]);
            }
        }
    }
}

#[test]
fn a_kind_of_probe_has_its_own_keys_and_no_others() {
    let keys = [
        ("script", "\"x()\""),
        ("commands", "'x'"),
        ("defines", "[\"N\"]"),
        ("functions", "[\"f\"]"),
        ("prelude", "\"x\""),
        ("call", "\"f()\""),
    ];
    for (kind, needed, possible) in [
        ("cmake-script", &["script"][..], &["commands"][..]),
        ("cpp-macro", &["defines"], &[]),
        ("python-compile", &[], &[]),
        ("python-call", &["functions", "call"], &["prelude"]),
    ] {
        let told = |has: &dyn Fn(&str) -> bool| {
            let lines = keys.iter().filter(|(key, _)| has(key));
            let lines: String = lines.map(|(key, value)| format!("{key} = {value}\n")).collect();
            problems(&patch_text(
                "p",
                &format!(
                    "{APPEND}[[probe]]\nname = \"x\"\nfiles = [\"f\"]\nkind = \"{kind}\"\n{lines}"
                ),
            ))
        };
        assert_eq!(told(&|key| needed.contains(&key)), Vec::<String>::new(), "{kind}");
        for (key, _) in keys {
            if needed.contains(&key) {
                let without = told(&|other| needed.contains(&other) && other != key);
                assert_eq!(without, [format!("`{key}` is missing from `[[probe]]`")], "{kind}");
                continue;
            }
            let with = told(&|other| needed.contains(&other) || other == key);
            if possible.contains(&key) {
                assert_eq!(with, Vec::<String>::new(), "{kind} {key}");
            } else {
                assert_eq!(with, [format!("`{key}` has no meaning for `{kind}`")]);
            }
        }
    }
}
