//! What edits do to bytes: lists, values, inserted lines, and text that they would break.

use super::*;
use crate::{Verdict, run_tests};

/// Runs one edit on `f`. Returns the explanation and the new text.
fn edit(edits: &str, file: &[u8]) -> (String, String) {
    let tree = files(&[("f", file)]);
    let outcome = run(&set(&[("p", edits)]), &tree, None, &[]);
    let file = patched(&tree, &outcome).remove(&"f".parse::<TreePath>().unwrap()).unwrap();
    (outcome.patches[0].explanation.clone(), String::from_utf8_lossy(&file).into_owned())
}

fn told(edits: &str, file: &[u8]) -> String {
    edit(edits, file).0
}

fn changed(edits: &str, file: &str) -> String {
    let (told, after) = edit(edits, file.as_bytes());
    assert!(told.ends_with("changed"), "{told}");
    after
}

fn insert(op: &str, anchor: &str, text: &str, already: &str) -> String {
    format!(
        "[[edit]]\nfiles = [\"f\"]\nanchor = '''{anchor}'''\nexpect = 1\nop = \"{op}\"\n\
         text = \"{text}\"\nalready = '''{already}'''\n"
    )
}

#[test]
fn text_that_an_edit_would_break_is_left_alone() {
    let wide = REPLACE.replace("(?P<value>on|off)", r"(?P<value>[a-z\n]*)");
    let optional = APPEND.replace("\"(?P<list>[^\"]*)\"", "(?:\"(?P<list>[^\"]*)\"|none)");
    let prepend = APPEND.replace("append", "prepend");
    for (edits, file, expected) in [
        (
            wide.as_str(),
            b"x\nswitch o\nn\n".as_slice(),
            "`f`: line 2: the value spans more than one line",
        ),
        (&optional, b"list = none\n", "`f`: line 1: the anchor matches without its group"),
        (APPEND, b"\n\nlist = \"\xff\"\n", "`f`: line 3: the text in the group is not UTF-8"),
        (
            APPEND,
            b"list = \"a # b\"\n",
            "`f`: line 1: the list ends in a comment or a preprocessor line, so nothing can be appended safely; use `list-prepend`",
        ),
        (
            &prepend,
            b"list = \"/* a */ b\"\n",
            "`f`: line 1: the list begins with a comment or a preprocessor line",
        ),
    ] {
        let (told, after) = edit(edits, file);
        assert_eq!(told, expected);
        assert_eq!(after, String::from_utf8_lossy(file), "nothing is changed");
    }
}

#[test]
fn a_place_that_would_break_is_found_behind_places_that_would_not() {
    let edits = APPEND.replace("expect = 1", "expect = 2");
    let told = told(&edits, b"list = \"a # b\"\nlist = \"a\"\n");
    assert!(told.starts_with("`f`: line 1: the list ends in a comment"), "{told}");
}

#[test]
fn values_are_replaced_only_where_they_differ() {
    assert_eq!(changed(REPLACE, "a\r\nswitch on\r\nb"), "a\r\nswitch off\r\nb");
    assert_eq!(told(REPLACE, b"switch off\n"), "upstream includes it");
    let already = format!("{REPLACE}already = '^o'\n");
    assert_eq!(told(&already, b"switch on\n"), "upstream includes it");
    // `already` is applied to the value, not to the file.
    let already = format!("{REPLACE}already = 'off|also'\n");
    assert_eq!(changed(&already, "also\nswitch on\n"), "also\nswitch off\n");
    // The new value may have several lines, and gets the line endings of the file.
    let lines = REPLACE.replace("with = \"off\"", "with = \"off\\nswitch off\"");
    assert_eq!(
        told(&lines, b"switch on\r\n"),
        "`f`: a second run would not recognise this edit's own change"
    );
    let lines = format!("{lines}already = '^off'\n")
        .replace("expect = 1", "expect = { \"<1\" = 1, \">=1\" = 2 }");
    assert_eq!(changed(&lines, "switch on\r\n"), "switch off\r\nswitch off\r\n");
    let gpu = REPLACE.replace("on|off", "on|gfx[0-9]+").replace("\"off\"", "\"{gpu}\"");
    assert_eq!(changed(&gpu, "switch on"), "switch gfx1151");
}

#[test]
fn several_places_are_changed_from_last_to_first() {
    let edits = APPEND.replace("expect = 1", "expect = 3");
    let file = "list = \"a\"\r\nlist = \"gfx1151\"\nlist = \"\"\n";
    let text = patch_text("p", &edits)
        .replace("versions = \"*\"", "versions = \"*\"\nif_partial = \"apply\"");
    let set = PatchSet::new(vec![parse_patch("p", &text).unwrap()]).unwrap();
    let tree = files(&[("f", file.as_bytes())]);
    let outcome = run(&set, &tree, None, &[]);
    assert_eq!(outcome.patches[0].verdict, Verdict::PartialUpstream { missing: 2, present: 1 });
    let expected = "list = \"a;gfx1151\"\r\nlist = \"gfx1151\"\nlist = \"gfx1151\"\n";
    assert_eq!(patched(&tree, &outcome), files(&[("f", expected.as_bytes())]));
    let receipt = outcome.receipt().unwrap();
    assert!(receipt.files[0].splices[0].at > receipt.files[0].splices[1].at);
    assert_eq!(crate::revert(&receipt, &patched(&tree, &outcome)).unwrap(), tree);
}

#[test]
fn lists_get_one_item_where_the_operation_says() {
    let prepend = APPEND.replace("append", "prepend");
    assert_eq!(changed(&prepend, "list = \"a;b\""), "list = \"gfx1151;a;b\"");
    assert_eq!(changed(APPEND, "list = \"a;b\""), "list = \"a;b;gfx1151\"");
    assert_eq!(changed(APPEND, "list = \"gfx11510\""), "list = \"gfx11510;gfx1151\"");
    // With `already`, another spelling of the item is enough.
    let already = format!("{APPEND}already = 'gfx11(51|\\b)'\n");
    assert_eq!(told(&already, b"list = \"gfx11\""), "upstream includes it");
    assert_eq!(changed(&already, "gfx11\nlist = \"gfx12\""), "gfx11\nlist = \"gfx12;gfx1151\"");
}

#[test]
fn lines_are_inserted_at_line_ends_wherever_the_anchor_matches() {
    let before =
        |anchor: &str, file: &str| changed(&insert("insert-before", anchor, "new", "^new$"), file);
    let after =
        |anchor: &str, file: &str| changed(&insert("insert-after", anchor, "new", "^new$"), file);
    // The anchor is in the middle of a line.
    assert_eq!(before("en", "a\nthe end\nb"), "a\nnew\nthe end\nb");
    assert_eq!(after("en", "a\nthe end\nb"), "a\nthe end\nnew\nb");
    // The anchor spans lines: before the first, after the last.
    assert_eq!(before("a\\nb", "x\na\nb\ny\n"), "x\nnew\na\nb\ny\n");
    assert_eq!(after("a\\nb", "x\na\nb\ny\n"), "x\na\nb\nnew\ny\n");
    // An anchor that ends with a newline ends on the line before it.
    assert_eq!(after("b\\n", "a\nb\ny\n"), "a\nb\nnew\ny\n");
    assert_eq!(after("b\\n", "a\nb\n"), "a\nb\nnew\n");
    assert_eq!(before("\\nb", "a\nb\n"), "new\na\nb\n");
    // A text with a final newline has no empty line after it.
    let edits = insert("insert-after", "^end$", "{gpu}\\nnew\\n", "^new$");
    assert_eq!(changed(&edits, "end\r\nb"), "end\r\ngfx1151\r\nnew\r\nb");
    assert_eq!(changed(&edits, "end"), "end\ngfx1151\nnew");
}

#[test]
fn an_insertion_that_is_done_is_found_even_without_its_anchor() {
    let edits = insert("insert-before", "^end$", "new", "^new$");
    assert_eq!(told(&edits, b"new\nthe anchor is gone\n"), "upstream includes it");
    assert_eq!(told(&edits, b"new\nend\nend\n"), "upstream includes it");
    assert_eq!(
        told(&edits, b"a\nend\nend\n"),
        "the anchor matches at least 2 times in `f` (lines 2, 3), expected 1"
    );
    // For a list, the anchor is needed to find the list.
    let list = format!("{APPEND}already = 'gfx1151'\n");
    assert_eq!(told(&list, b"gfx1151\n"), "the anchor was not found in `f`");
}

#[test]
fn items_under_conditions_are_found_with_and_without_already() {
    let ask = |edits: &str, name: &str, text: &str| {
        let edits = edits.replace("[\"f\"]", &format!("[\"{name}\"]"));
        let outcome = run(&set(&[("p", &edits)]), &files(&[(name, text.as_bytes())]), None, &[]);
        match &outcome.patches[0].verdict {
            Verdict::AlreadyPresent { condition, .. } => condition.clone(),
            other => panic!("{other}: {}", outcome.patches[0].explanation),
        }
    };
    let already = format!("{APPEND}already = '{{gpu_number}}'\n");
    let twice = APPEND.replace("expect = 1", "expect = 2");
    let x = "list = \"a\n#if X\n;gfx1151;\n#endif\n\"\n";
    let y = x.replace("#if X", "#ifdef Y");
    let plain = "list = \"gfx1151\"\n";
    let condition = |text: &str| Some(text.to_owned());
    assert_eq!(ask(APPEND, "f.hpp", x), condition("#if X"));
    assert_eq!(ask(&already, "f.hpp", x), condition("#if X"));
    assert_eq!(ask(APPEND, "f.py", x), None, "no C preprocessor reads it");
    assert_eq!(ask(&APPEND.replace("append", "prepend"), "f.cu", x), condition("#if X"));
    // There is a condition only if every list has the item under one; the last one is reported.
    assert_eq!(ask(&twice, "f.h", &format!("{x}{y}")), condition("#ifdef Y"));
    assert_eq!(ask(&twice, "f.h", &format!("{x}{plain}")), None);
    assert_eq!(ask(&twice, "f.h", &format!("{plain}{x}")), None);
    let value = insert("insert-before", "^end$", "new", "^new$");
    assert_eq!(ask(&value, "f.h", "#if X\nnew\n#endif\nend\n"), None, "it is no list");
}

#[test]
fn tests_of_a_patch_report_files_and_second_runs() {
    let run = |edits: &str, test: &str| {
        let test = format!("{edits}[[test]]\nname = \"t\"\nverdict = \"applied(1)\"\n{test}");
        let patch = patch("p", &test);
        run_tests(&patch).iter().map(|failure| failure.reason.clone()).collect::<Vec<_>>()
    };
    let given = "given = { f = 'list = \"a\"', g = 'same' }\n";
    let good = "then = { f = 'list = \"a;gfx1151\"' }\n";
    assert_eq!(run(APPEND, &format!("{given}{good}")), Vec::<String>::new());
    // A file without an expected text must not change.
    assert_eq!(run(APPEND, given), ["`f` becomes:\nlist = \"a;gfx1151\""]);
    // A file that does not change must not be expected to.
    let other = good.replace("}", ", g = 'other' }");
    assert_eq!(run(APPEND, &format!("{given}{other}")), ["`g` becomes:\nsame"]);
    let lost = good.replace("}", ", h = 'x' }");
    assert_eq!(run(APPEND, &format!("{given}{lost}")), ["`h` is in `then`, but not in `given`"]);
    // The GPU target and the version are those of the test.
    let gpu = format!("gpu = \"gfx1150\"\nversion = \"0.1\"\n{given}{good}");
    let counted = APPEND.replace("expect = 1", "expect = { \"<1\" = 1, \">=1\" = 2 }");
    assert_eq!(run(&counted, &gpu), ["`f` becomes:\nlist = \"a;gfx1150\""]);
    assert_eq!(
        run(&counted, &gpu.replace("0.1", "1.0")),
        [
            "the verdict is `ambiguous` (the anchor matches 1 times in `f` (lines 1), expected 2), expected `applied(1)`"
        ]
    );
}

/// Every test of a patch is run, and a failure names the patch and the test.
#[test]
fn every_failing_test_of_a_patch_is_reported() {
    let test = |name: &str, verdict: &str| {
        format!(
            "[[test]]\nname = \"{name}\"\nverdict = \"{verdict}\"\ngiven.f = 'list = \"gfx1151\"'\n"
        )
    };
    let tests =
        [test("one", "conflict"), test("two", "already-present"), test("three", "applied(1)")];
    let failures = run_tests(&patch("p", &format!("{APPEND}{}", tests.concat())));
    let names: Vec<(&str, &str)> =
        failures.iter().map(|failure| (failure.patch.as_str(), failure.test.as_str())).collect();
    assert_eq!(names, [("p", "one"), ("p", "three")]);
}
