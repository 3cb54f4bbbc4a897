//! Malformed patch files: each is refused with the position, the value and the correct form.

use std::fmt::Write as _;

use super::*;

fn anchored(line: &str) -> String {
    let base = patch_text("p", APPEND);
    let lines =
        base.lines().map(|old| if old.starts_with("anchor = ") { line.trim_end() } else { old });
    lines.filter(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect()
}

type Cases = Vec<(&'static str, String)>;

fn head_cases(base: &str) -> Cases {
    vec![
        ("not TOML", "schema = = 1".to_owned()),
        ("an unclosed text", base.replace("(?P<list>[^\"]*)\"$'''", "")),
        ("nothing", "".to_owned()),
        ("no schema", base.replace("schema = 1\n", "")),
        ("a newer schema", base.replace("schema = 1", "schema = 2")),
        ("an old schema", base.replace("schema = 1", "schema = 0")),
        ("a schema in quotes", base.replace("schema = 1", r#"schema = "1""#)),
        ("an unknown key", base.replace("component", "licence = \"MIT\"\ncomponent")),
        ("a misspelt key", base.replace("component =", "componnent =")),
        ("no id", base.replace("id = \"p\"\n", "")),
        ("an empty id", base.replace(r#"id = "p""#, r#"id = """#)),
        ("an id with capitals", base.replace(r#"id = "p""#, r#"id = "P q""#)),
        (
            "an id with terminal control characters",
            base.replace(r#"id = "p""#, r#"id = "p\u001b[31m""#),
        ),
        ("a number as component", base.replace(r#"component = "vllm""#, "component = 7")),
        ("no provenance", base.replace("[provenance]", "[history]")),
        ("an invalid origin", base.replace(r#"origin = "other""#, r#"origin = "found it""#)),
        ("no author", base.replace("author = \"a\"\n", "")),
        (
            "a date in quotes",
            base.replace("last_update = 2026-11-20", r#"last_update = "2026-11-20""#),
        ),
        (
            "a time as date",
            base.replace("last_update = 2026-11-20", "last_update = 2026-11-20T10:00:00Z"),
        ),
        ("no date", base.replace("last_update = 2026-11-20\n", "")),
        ("no versions", base.replace("versions = \"*\"\n", "")),
        ("a range without operator", base.replace(r#"versions = "*""#, r#"versions = "0.9.0""#)),
        ("a range without a version", base.replace(r#"versions = "*""#, r#"versions = ">=main""#)),
        ("an empty range", base.replace(r#"versions = "*""#, r#"versions = ">2, <1""#)),
        ("a bound twice", base.replace(r#"versions = "*""#, r#"versions = ">=1, >2""#)),
        (
            "a bound without a rule",
            base.replace(r#"versions = "*""#, r#"versions = ">=0.9.0, <0.11.1""#),
        ),
        (
            "a rule without a bound",
            base.replace(
                r#"versions = "*""#,
                "versions = \"*\"\nabove = { then = \"skip\", because = \"x\" }",
            ),
        ),
        (
            "an unknown consequence",
            base.replace(
                r#"versions = "*""#,
                "versions = \"<2\"\nabove = { then = \"ignore\", because = \"x\" }",
            ),
        ),
        (
            "no reason",
            base.replace(r#"versions = "*""#, "versions = \"<2\"\nabove = { then = \"skip\" }"),
        ),
        (
            "a bad pattern for targets",
            base.replace(r#"versions = "*""#, "versions = \"*\"\ngpus = \"gfx(\""),
        ),
        (
            "an unknown policy",
            base.replace(r#"versions = "*""#, "versions = \"*\"\nif_partial = \"aply\""),
        ),
    ]
}

fn place_cases(base: &str) -> Cases {
    vec![
        ("no edit", base.split("[[edit]]").next().unwrap().to_owned()),
        ("a table as edit", base.replace("[[edit]]", "[edit]")),
        ("no files", base.replace("files = [\"f\"]\n", "")),
        ("an empty list of files", base.replace(r#"files = ["f"]"#, "files = []")),
        ("a text as files", base.replace(r#"files = ["f"]"#, r#"files = "f""#)),
        ("a number among the files", base.replace(r#"files = ["f"]"#, r#"files = ["f", 1]"#)),
        ("a file twice", base.replace(r#"files = ["f"]"#, r#"files = ["f", "f"]"#)),
        ("a file above the tree", base.replace(r#"files = ["f"]"#, r#"files = ["../f"]"#)),
        ("an absolute file", base.replace(r#"files = ["f"]"#, r#"files = ["/etc/passwd"]"#)),
        (
            "a file of git",
            base.replace(r#"files = ["f"]"#, r#"files = [".git/hooks/post-checkout"]"#),
        ),
        ("a backslash in a file", base.replace(r#"files = ["f"]"#, r#"files = ['a\f']"#)),
        ("no anchor", anchored("")),
        ("a look-ahead", base.replace(r#"'''^list = ""#, r#"'''^(?=x)list = ""#)),
        ("an open group", base.replace(r#"'''^list = ""#, r#"'''^(list = ""#)),
        ("a huge repetition", base.replace(r#"'''^list = ""#, r#"'''^(?:a{999}){999}list = ""#)),
        (
            "an endless pattern",
            base.replace(r#"'''^list = ""#, &format!("'''^{}list = \"", "x".repeat(5000))),
        ),
        ("an anchor without its group", base.replace("(?P<list>", "(?P<lst>")),
        ("an anchor that matches the empty text", anchored("anchor = '(?P<list>x*)'")),
        ("an unknown placeholder", base.replace(r#"item = "{gpu}""#, r#"item = "{gpu_name}""#)),
        (
            "an unknown placeholder in a pattern",
            base.replace(r#"'''^list = ""#, r#"'''^{gpus}list = ""#),
        ),
    ]
}

fn op_cases(base: &str) -> Cases {
    vec![
        ("no count", base.replace("expect = 1\n", "")),
        ("an expected count of zero", base.replace("expect = 1", "expect = 0")),
        ("a negative count", base.replace("expect = 1", "expect = -3")),
        ("a count of thousands", base.replace("expect = 1", "expect = 65")),
        ("a count in quotes", base.replace("expect = 1", r#"expect = "1""#)),
        ("a fraction as count", base.replace("expect = 1", "expect = 1.5")),
        (
            "counts with a gap",
            base.replace("expect = 1", r#"expect = { "<0.20" = 1, ">0.20" = 2 }"#),
        ),
        (
            "counts that overlap",
            base.replace("expect = 1", r#"expect = { "<=0.20" = 1, ">=0.20" = 2 }"#),
        ),
        ("counts that end", base.replace("expect = 1", r#"expect = { "<0.20" = 1 }"#)),
        ("no counts", base.replace("expect = 1", "expect = {}")),
        ("no op", base.replace("op = \"list-append\"\n", "")),
        ("a misspelt op", base.replace("list-append", "list-apend")),
        ("an unknown op", base.replace("list-append", "delete")),
        ("no item", base.replace("item = \"{gpu}\"\n", "")),
        ("text for a list", base.replace(r#"sep = ";""#, "sep = \";\"\ntext = \"x\"")),
        ("a blank separator", base.replace(r#"sep = ";""#, r#"sep = " ""#)),
        ("an item with the separator", base.replace(r#"item = "{gpu}""#, r#"item = "{gpu};x""#)),
        (
            "an insertion without already",
            patch_text("p", INSERT).replace("already = '''^new line$'''\n", ""),
        ),
        (
            "an insertion that is not found again",
            patch_text("p", INSERT).replace("^new line$", "^other line$"),
        ),
        ("an insertion at two places", patch_text("p", INSERT).replace("expect = 1", "expect = 2")),
        ("a value without its group", patch_text("p", REPLACE).replace("(?P<value>", "(?:")),
    ]
}

fn part_cases(base: &str) -> Cases {
    vec![
        ("an assert without a condition", format!("{base}{}", "[[assert]]\nfiles = [\"f\"]\n")),
        (
            "an assert with both conditions",
            format!("{base}{}", "[[assert]]\nfiles = [\"f\"]\nmatches = 'a'\nabsent = 'b'\n"),
        ),
        (
            "a count without a pattern",
            format!("{base}{}", "[[assert]]\nfiles = [\"f\"]\nabsent = 'b'\ncount = 1\n"),
        ),
        (
            "a count of zero",
            format!("{base}{}", "[[assert]]\nfiles = [\"f\"]\nmatches = 'b'\ncount = 0\n"),
        ),
        (
            "a probe of an unknown kind",
            format!("{base}{}", "[[probe]]\nname = \"x\"\nfiles = [\"f\"]\nkind = \"shell\"\n"),
        ),
        (
            "a probe without its script",
            format!(
                "{base}{}",
                "[[probe]]\nname = \"x\"\nfiles = [\"f\"]\nkind = \"cmake-script\"\n"
            ),
        ),
        (
            "a probe with another's key",
            format!(
                "{base}{}",
                "[[probe]]\nname = \"x\"\nfiles = [\"f\"]\nkind = \"python-compile\"\nscript = \"x\"\n"
            ),
        ),
        (
            "a macro that is an option",
            format!(
                "{base}{}",
                "[[probe]]\nname = \"x\"\nfiles = [\"f\"]\nkind = \"cpp-macro\"\ndefines = [\"A -o /tmp/x\"]\n"
            ),
        ),
        (
            "a function that is an expression",
            format!(
                "{base}{}",
                "[[probe]]\nname = \"x\"\nfiles = [\"f\"]\nkind = \"python-call\"\nfunctions = [\"f()\"]\ncall = \"f()\"\n"
            ),
        ),
        (
            "two probes of one name",
            format!(
                "{base}{}",
                "[[probe]]\nname = \"x\"\nfiles = [\"f\"]\nkind = \"python-compile\"\n[[probe]]\nname = \"x\"\nfiles = [\"f\"]\nkind = \"python-compile\"\n"
            ),
        ),
        ("a patch that requires itself", format!("{base}{}", "[relations]\nrequires = [\"p\"]\n")),
        (
            "a patch that requires its rival",
            format!("{base}{}", "[relations]\nrequires = [\"q\"]\nconflicts = [\"q\"]\n"),
        ),
        (
            "a test of an unknown verdict",
            format!("{base}{}", "[[test]]\nname = \"t\"\nverdict = \"aplied(1)\"\n"),
        ),
        (
            "a test for an invalid target",
            format!(
                "{base}{}",
                "[[test]]\nname = \"t\"\ngpu = \"rdna3\"\nverdict = \"applied(1)\"\n"
            ),
        ),
        (
            "a test with a file outside",
            format!(
                "{base}{}",
                "[[test]]\nname = \"t\"\nverdict = \"applied(1)\"\n[test.given]\n\"../f\" = \"\"\n"
            ),
        ),
        (
            "a test with a number as file",
            format!(
                "{base}{}",
                "[[test]]\nname = \"t\"\nverdict = \"applied(1)\"\n[test.given]\nf = 1\n"
            ),
        ),
        (
            "several mistakes",
            base.replace("id = \"p\"", "id = \"P\"")
                .replace("expect = 1", "expect = 0")
                .replace("sep = \";\"", "seb = \";\""),
        ),
    ]
}

#[test]
fn malformed_patches_are_refused_with_their_place() {
    let mut report = String::new();
    let base = patch_text("p", APPEND);
    let cases =
        [head_cases(&base), place_cases(&base), op_cases(&base), part_cases(&base)].concat();
    assert!(cases.len() >= 60);
    for (name, text) in &cases {
        let error = parse_patch("p.toml", text).expect_err(name);
        for problem in &error.problems {
            assert!(
                !problem.help.is_empty() && problem.message.contains('`'),
                "{name}: {problem:?}"
            );
            assert!(!problem.message.contains(char::is_control), "{name}: {:?}", problem.message);
        }
        writeln!(report, "# {name}\n{error}\n").unwrap();
    }
    insta::assert_snapshot!(report);
    testkit::gate_passed(8, cases.len());
}

#[test]
fn a_huge_file_is_refused_unread() {
    let error = parse_patch("p.toml", &"#".repeat(5 << 20)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "p.toml:1:1: the file is `5242880` bytes long (a data file has at most 4194304 bytes (4 MiB); is it the right file?)"
    );
}
