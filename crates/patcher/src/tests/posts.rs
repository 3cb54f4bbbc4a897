//! What is checked on the result of all patches: undone changes, post-conditions, probes.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::*;
use crate::{Probe, ProbeJob, ProbeRun, Probes, Tool, judge_probe, probe_job};

/// Answers the probes in order, and keeps their names.
struct Answers(RefCell<Vec<ProbeRun>>, RefCell<Vec<String>>);

impl Probes for Answers {
    fn run(&self, job: &ProbeJob) -> ProbeRun {
        self.1.borrow_mut().push(format!("{}/{}", job.patch, job.probe));
        self.0.borrow_mut().remove(0)
    }
}

fn ended(success: bool) -> ProbeRun {
    ProbeRun::Ended { success, stdout: Vec::new(), stderr: Vec::new() }
}

fn run_probes(set: &PatchSet, tree: &Files, answers: Vec<ProbeRun>) -> (Outcome, Vec<String>) {
    let gpu = gpu();
    let base = BTreeMap::new();
    let subject = unversioned(&gpu, &base);
    let probes = Answers(RefCell::new(answers), RefCell::default());
    let outcome = apply(set, &subject, tree, &probes);
    (outcome, probes.1.into_inner())
}

fn compile(name: &str, file: &str) -> String {
    format!("[[probe]]\nname = \"{name}\"\nkind = \"python-compile\"\nfiles = [\"{file}\"]\n")
}

/// Parses a patch with these lines, and returns its first probe.
fn probe(lines: &str) -> Probe {
    patch("p", &format!("{APPEND}[[probe]]\nname = \"run\"\n{lines}")).probes.remove(0)
}

fn job(probe: &Probe, settled: &[&str], tree: &Files) -> Result<ProbeJob, String> {
    let settled: Vec<TreePath> = settled.iter().map(|path| path.parse().unwrap()).collect();
    let settled: BTreeSet<&TreePath> = settled.iter().collect();
    probe_job("p", probe, &gpu(), &settled, |path| tree.get(path).cloned())
}

#[test]
fn post_conditions_see_the_result_of_all_patches() {
    let assert = "[[assert]]\nfiles = [\"f\"]\nmatches = '^switch off$'\n";
    let tree = files(&[("f", b"list = \"a\"\nswitch on\n")]);
    let told = |patches: &[(&str, &str)]| {
        run(&set(patches), &tree, None, &[]).patches[0].explanation.clone()
    };
    let first = format!("{APPEND}{assert}");
    assert_eq!(told(&[("a", &first)]), "`f`: `^switch off$` does not match");
    assert_eq!(told(&[("a", &first), ("b", REPLACE)]), "one place was changed");
}

#[test]
fn counts_in_post_conditions_are_exact() {
    let tree = files(&[("f", b"x\r\nx\r\nx\r\nlist = \"a\"\r\n")]);
    for (condition, told) in [
        ("matches = '^x$'\ncount = 3", "one place was changed"),
        ("matches = '^x$'\ncount = 2", "`f`: `^x$` matches at least 3 times, expected 2"),
        ("matches = '^x$'\ncount = 1", "`f`: `^x$` matches at least 2 times, expected 1"),
        ("matches = '^x$'\ncount = 4", "`f`: `^x$` matches 3 times, expected 4"),
        ("matches = '^y$'\ncount = 1", "`f`: `^y$` matches 0 times, expected 1"),
        ("matches = '^x$'", "one place was changed"),
        ("absent = '^y$'", "one place was changed"),
        ("absent = '{gpu}'", "`f`: `gfx1151` matches on line 4, but should not match"),
        ("matches = 'a;{gpu_stem}'", "`f`: `a;115` does not match"),
    ] {
        let edits = format!("{APPEND}[[assert]]\nfiles = [\"f\"]\n{condition}\n");
        let outcome = run(&set(&[("p", &edits)]), &tree, None, &[]);
        assert_eq!(outcome.patches[0].explanation, told, "{condition}");
        assert_eq!(outcome.files.is_empty(), !outcome.ok);
    }
}

#[test]
fn a_post_condition_is_about_the_file_that_was_edited() {
    let edit = APPEND
        .replace("[\"f\"]", "[\"f\", \"g\"]\nsatisfied_by = '^solved$'\nif_absent = \"skip\"");
    let told = |assert: &str, tree: &[(&str, &[u8])]| {
        let edits = format!("{edit}[[assert]]\n{assert}\nmatches = '^good$'\n");
        run(&set(&[("p", &edits)]), &files(tree), None, &[]).patches[0].explanation.clone()
    };
    let (edited, good): (&[u8], &[u8]) = (b"list = \"a\"\n", b"good\n");
    let both = "files = [\"f\", \"g\"]";
    // `f` exists, but `g` is the file that was edited.
    assert_eq!(told(both, &[("f", good), ("g", edited)]), "`g`: `^good$` does not match");
    assert_eq!(
        told(both, &[("f", b"bad\n"), ("g", b"list = \"a\"\ngood\n")]),
        "one place was changed"
    );
    // What upstream solved in another way was not edited, and neither was a missing file.
    assert_eq!(told(both, &[("f", b"solved\n")]), "upstream solved this in another way");
    assert_eq!(told(both, &[]), "the tree has no f or g");
    // A file that no edit names must exist, under one of its names, and meet the condition.
    let foreign = "files = [\"h\", \"i\"]";
    assert_eq!(told(foreign, &[("f", edited)]), "`h`: the file does not exist");
    assert_eq!(told(foreign, &[("f", edited), ("i", good)]), "one place was changed");
    assert_eq!(told(foreign, &[("f", edited), ("i", b"bad")]), "`i`: `^good$` does not match");
    // If an edit names one of the files, the assert applies only to an edited file.
    let mixed = "files = [\"h\", \"g\"]";
    assert_eq!(told(mixed, &[("f", edited), ("h", b"bad")]), "one place was changed");
}

#[test]
fn every_post_condition_is_checked_and_the_first_that_fails_is_told() {
    let assert = |text: &str| format!("[[assert]]\nfiles = [\"f\"]\nmatches = '{text}'\n");
    let edits = format!("{APPEND}{}{}{}", assert("list"), assert("y"), assert("z"));
    let outcome = run(&set(&[("p", &edits)]), &files(&[("f", b"list = \"a\"\n")]), None, &[]);
    assert_eq!(outcome.patches[0].explanation, "`f`: `y` does not match");
    // A patch that failed keeps its own reason.
    let outcome = run(&set(&[("p", &edits)]), &files(&[("f", b"l\n")]), None, &[]);
    assert_eq!(verdicts(&outcome), ["anchor-missing"]);
}

#[test]
fn a_change_that_a_later_patch_repeats_is_not_undone() {
    let more = APPEND.replace("{gpu}", "x");
    let tree = files(&[("f", b"list = \"a\"\n")]);
    let outcome = run(&set(&[("a", APPEND), ("b", &more), ("c", APPEND)]), &tree, None, &[]);
    assert!(outcome.ok, "{:?}", outcome.patches);
    // Undoing also counts if the text was there before the first patch.
    let there = files(&[("f", b"switch off\n")]);
    let back = REPLACE.replace("with = \"off\"", "with = \"on\"");
    let outcome = run(&set(&[("a", REPLACE), ("b", &back)]), &there, None, &[]);
    assert_eq!(outcome.patches[0].explanation, "with `b`: a later patch undoes its change in `f`");
    // A patch that undoes its own change has no other patch to name.
    let on = files(&[("f", b"switch on\n")]);
    let outcome = run(&set(&[("a", &format!("{REPLACE}{back}"))]), &on, None, &[]);
    assert_eq!(outcome.patches[0].explanation, "a later patch undoes its change in `f`");
    assert!(outcome.files.is_empty());
}

#[test]
fn probes_run_in_order_and_the_first_that_fails_ends_the_patch() {
    let probes = ["one", "two", "three"].map(|name| compile(name, "f")).concat();
    let set = set(&[("a", &format!("{APPEND}{probes}")), ("b", &compile_only("last"))]);
    let tree = files(&[("f", b"list = \"a\"\nswitch on\n")]);
    let skipped = || ProbeRun::NotRun { reason: "no python3".to_owned() };
    let (outcome, ran) =
        run_probes(&set, &tree, vec![ended(true), skipped(), ended(true), ended(true)]);
    assert_eq!(ran, ["a/one", "a/two", "a/three", "b/last"]);
    assert!(outcome.ok);
    let results: Vec<_> = outcome.patches[0]
        .probes
        .iter()
        .map(|probe| (probe.name.as_str(), probe.result, probe.reason.as_deref()))
        .collect();
    assert_eq!(
        results,
        [
            ("one", "passed", None),
            ("two", "skipped", Some("no python3")),
            ("three", "passed", None)
        ]
    );
    // The second fails: the third does not run, but the next patch is judged too.
    let stopped = ProbeRun::Stopped { reason: "too slow".to_owned() };
    let (outcome, ran) = run_probes(&set, &tree, vec![ended(true), stopped, ended(true)]);
    assert_eq!(ran, ["a/one", "a/two", "b/last"]);
    assert_eq!(verdicts(&outcome), ["probe-failed", "applied(1)"]);
    assert_eq!(outcome.patches[0].probes[1].result, "failed");
    assert_eq!(outcome.patches[0].probes[1].reason.as_deref(), Some("too slow"));
    assert!(outcome.files.is_empty() && outcome.receipt().is_none());
}

fn compile_only(name: &str) -> String {
    format!("{REPLACE}{}", compile(name, "f"))
}

#[test]
fn no_probe_runs_after_a_failure_or_for_a_patch_that_does_not_apply() {
    let failing = REPLACE.replace("switch", "lever");
    let tree = files(&[("f", b"list = \"a\"\n")]);
    let probed = format!("{APPEND}{}", compile("one", "f"));
    let (outcome, ran) = run_probes(&set(&[("a", &probed), ("b", &failing)]), &tree, Vec::new());
    assert!(!outcome.ok && ran.is_empty(), "{ran:?}");
    let optional = probed.replace("[\"f\"]\nanchor", "[\"none\"]\nif_absent = \"skip\"\nanchor");
    let (outcome, ran) = run_probes(&set(&[("a", &optional)]), &tree, Vec::new());
    assert!(outcome.ok && ran.is_empty(), "{ran:?}");
    assert_eq!(verdicts(&outcome), ["not-applicable"]);
    // A probe without any of its files is skipped, and says so.
    let lost = format!("{APPEND}{}", compile("one", "gone"));
    let (outcome, ran) = run_probes(&set(&[("a", &lost)]), &tree, Vec::new());
    let result = &outcome.patches[0].probes[0];
    assert_eq!(
        (result.result, result.reason.as_deref()),
        ("skipped", Some("the tree contains none of its files"))
    );
    assert!(outcome.ok && ran.is_empty());
}

#[test]
fn a_probe_of_one_file_takes_the_one_that_was_edited() {
    let call = "kind = \"python-call\"\nfiles = [\"a.py\", \"b.py\", \"c.py\"]\n\
                functions = [\"f\", \"g\"]\ncall = \"print(f('{gpu}'))\"\nprelude = \"N = {gpu_number}\"\n";
    let probe = probe(call);
    let tree = files(&[("b.py", b"B"), ("c.py", b"C")]);
    let python = |settled: &[&str], tree: &Files| job(&probe, settled, tree).unwrap();
    let made = python(&["c.py"], &tree);
    assert_eq!((made.patch.as_str(), made.probe.as_str(), made.tool), ("p", "run", Tool::Python));
    assert_eq!(made.arguments, ["-I", "-B", "-", "c.py", "f", "g"]);
    let text = |name: &str| String::from_utf8(made.files[name].clone()).unwrap();
    assert_eq!(text("build-pipeline-prelude.py"), "N = 1151");
    assert_eq!(text("build-pipeline-call.py"), "print(f('gfx1151'))");
    assert_eq!((text("b.py"), text("c.py")), ("B".to_owned(), "C".to_owned()));
    assert_eq!(made.files.len(), 4);
    assert!(made.stdin.starts_with(b"import ast, builtins, sys\n"));
    // Otherwise it takes the first that exists.
    assert_eq!(python(&[], &tree).arguments[3], "b.py");
    assert_eq!(python(&["a.py"], &tree).arguments[3], "b.py", "`a.py` does not exist");
    assert_eq!(
        job(&probe, &["a.py"], &files(&[])),
        Err("the tree contains none of its files".to_owned())
    );
}

#[test]
fn each_kind_of_probe_has_its_job() {
    let compile = probe("kind = \"python-compile\"\nfiles = [\"b.py\", \"none\", \"a.py\"]\n");
    let tree = files(&[("a.py", b"A"), ("b.py", b"B"), ("c.py", b"C")]);
    let made = job(&compile, &[], &tree).unwrap();
    assert_eq!((made.tool, made.files.len()), (Tool::Python, 2));
    assert_eq!(made.arguments, ["-I", "-B", "-", "a.py", "b.py"]);
    assert!(made.stdin.starts_with(b"import ast, builtins, sys\n"));

    let script =
        probe("kind = \"cmake-script\"\nfiles = [\"a.py\"]\nscript = \"message({gpu})\"\n");
    let made = job(&script, &[], &tree).unwrap();
    assert_eq!(made.tool, Tool::Cmake);
    assert_eq!(made.arguments, ["-P", "build-pipeline-probe.cmake"]);
    assert_eq!(made.files["build-pipeline-probe.cmake"], b"message(gfx1151)");
    assert_eq!(made.files.len(), 2, "no commands are selected");
    assert!(made.stdin.is_empty());

    let defines = "kind = \"cpp-macro\"\nfiles = [\"a.py\"]\ndefines = [\"__{gpu}__\", \"N=2\"]\n";
    let made = job(&probe(defines), &[], &tree).unwrap();
    let arguments = ["-E", "-P", "-dD", "-w", "-undef", "-x", "c++", "-D__gfx1151__", "-DN=2", "-"];
    assert_eq!((made.tool, made.arguments), (Tool::Cpp, arguments.map(str::to_owned).to_vec()));
    assert_eq!((made.stdin.as_slice(), made.files.len()), (b"A".as_slice(), 0));
}

#[test]
fn includes_are_removed_and_lines_keep_their_numbers() {
    let source: &[u8] =
        b"#include <a>\n \t#  include \"b\"\r\nint include;\n#define include\n#include_next <c>";
    let defines = "kind = \"cpp-macro\"\nfiles = [\"f\"]\ndefines = [\"N\"]\n";
    let made = job(&probe(defines), &[], &files(&[("f", source)])).unwrap();
    assert_eq!(made.stdin, b"\n\nint include;\n#define include\n\n");
}

#[test]
fn a_cmake_probe_gets_the_commands_that_it_selects() {
    let lines = "kind = \"cmake-script\"\nfiles = [\"a.cmake\", \"known.cmake\"]\nscript = \"x()\"\n\
                 commands = '^set\\(L_{gpu_number} '\n";
    let probe = probe(lines);
    let commands = |tree: &[(&str, &[u8])]| {
        let made = job(&probe, &[], &files(tree))?;
        Ok(String::from_utf8(made.files["build-pipeline-commands.cmake"].clone()).unwrap())
    };
    let first: &[u8] = b"set(L_1151 a)\nset(M b)\ninclude(known.cmake)\n";
    assert_eq!(commands(&[("a.cmake", first)]), Ok("set(L_1151 a)\n".to_owned()));
    // The probe has this file itself, so it is not examined; another included file is.
    let other: &[u8] = b"set(L_1151 z)\n";
    let tree = [("a.cmake", first), ("known.cmake", other)];
    assert_eq!(commands(&tree), Ok("set(L_1151 a)\n".to_owned()));
    let odd: &[u8] = b"set(L_1151 a)\n\ninclude(odd.cmake)\ninclude(../x)\n";
    let refused: Result<String, String> =
        Err("a.cmake, line 3: the file `odd.cmake` may change `L_1151`".to_owned());
    assert_eq!(commands(&[("a.cmake", odd), ("odd.cmake", other)]), refused);
    assert_eq!(commands(&[("a.cmake", odd)]), Ok("set(L_1151 a)\n".to_owned()));
}

#[test]
fn a_probe_is_judged_by_its_exit_and_its_output() {
    let lines = "kind = \"python-compile\"\nfiles = [\"f\"]\nmatches = '^{gpu}$'\ncount = 2\nabsent = 'y'\n";
    let wanted = probe(lines);
    let unwanted = probe(&format!("{lines}outcome = \"failure\"\n"));
    let judge = |probe: &Probe, success: bool, stdout: &str, stderr: &[u8]| {
        judge_probe(probe, &gpu(), success, stdout.as_bytes(), stderr)
    };
    let good = "gfx1151\ngfx1151\n";
    assert_eq!(judge(&wanted, true, good, b"a warning\n"), Ok(()));
    assert_eq!(judge(&unwanted, false, good, b""), Ok(()));
    for (probe, success, stdout, stderr, told) in [
        (&wanted, false, good, "", "it failed, but should succeed"),
        (&wanted, false, good, " \n\t\n", "it failed, but should succeed"),
        (
            &wanted,
            false,
            good,
            "one\n  two \u{1b}[0m \n \n",
            "it failed, but should succeed; last line of its error output: `two \\u001b[0m`",
        ),
        (
            &unwanted,
            true,
            good,
            "odd",
            "it succeeded, but should fail; last line of its error output: `odd`",
        ),
        (&wanted, true, "gfx1151\n", "", "in its output, `^gfx1151$` matches 1 times, expected 2"),
        (
            &wanted,
            true,
            "gfx1151\ngfx1151\ny\n",
            "",
            "in its output, `y` matches on line 3, but should not match",
        ),
    ] {
        assert_eq!(judge(probe, success, stdout, stderr.as_bytes()), Err(told.to_owned()));
    }
    // Only the last 2,000 bytes are read, even if they begin inside a character.
    let long = format!("{}{}!", "x".repeat(4000), "\u{e4}".repeat(1000));
    let told = judge(&wanted, false, good, long.as_bytes()).unwrap_err();
    assert!(told.contains("`\u{fffd}\u{e4}\u{e4}"), "{told}");
}
