//! Tables and their entries: types, places and what one report shows at once.

use crate::checks::line;
use crate::problem::{ParseError, Report, Reported};
use crate::reader::{Table, collect, document};

/// Reads a text as a table with `read`.
fn read<T>(
    text: &str,
    read: impl FnOnce(&mut Report<'_>, Table<'_>) -> Result<T, Reported>,
) -> Result<T, ParseError> {
    let mut report = Report::new("f", text);
    let value = document(&mut report).and_then(|entries| {
        let root = Table::root(&mut report, &entries)?;
        read(&mut report, root)
    });
    report.finish(value)
}

/// Returns each problem as `LINE:COLUMN: MESSAGE (HELP)`.
fn told<T>(result: Result<T, ParseError>) -> Vec<String> {
    let Err(error) = result else { return Vec::new() };
    error.to_string().lines().map(|line| line.trim_start_matches("f:").to_owned()).collect()
}

#[test]
fn a_file_has_the_schema_that_this_program_reads() {
    let schema = |text: &str| told(read(text, |_, _| Ok(())));
    assert_eq!(schema("schema = 1"), Vec::<String>::new());
    assert_eq!(
        schema("\nschema = 2"),
        [
            "2:10: schema `2` was made for a newer build-pipeline (this build-pipeline reads schema 1; update build-pipeline; nothing was changed)"
        ]
    );
    assert_eq!(schema("schema = 0"), ["1:10: schema `0` does not exist (write `schema = 1`)"]);
    assert_eq!(schema("schema = -1"), ["1:10: schema `-1` does not exist (write `schema = 1`)"]);
    assert_eq!(
        schema("schema = true"),
        ["1:10: `schema` is the boolean `true`, but should be a whole number (write `schema = 1`)"]
    );
    // A missing schema does not hide the rest.
    let both = told(read("a = 1", |report, root| root.optional(report, "a", line(9)).map(drop)));
    assert_eq!(both.len(), 2, "{both:?}");
    assert!(both[0].starts_with("1:1: `schema` is missing from the file"), "{both:?}");
}

#[test]
fn the_size_limit_of_a_file_is_inclusive() {
    let sized = |size: usize| format!("schema = 1\n#{}", "x".repeat(size - "schema = 1\n#".len()));
    assert_eq!(told(read(&sized(4 << 20), |_, _| Ok(()))), Vec::<String>::new());
    let large = told(read(&sized((4 << 20) + 1), |_, _| Ok(())));
    assert!(large[0].starts_with("1:1: the file is `4194305` bytes long"), "{large:?}");
}

#[test]
fn dates_are_days_without_quotes_that_exist() {
    let date = |value: &str| {
        let mut day = None;
        let text = format!("schema = 1\nd = {value}");
        let result = read(&text, |report, root| {
            day = root.date(report, "d")?;
            Ok(())
        });
        (day, told(result))
    };
    assert_eq!(date("2026-01-02"), (Some("2026-01-02".to_owned()), Vec::new()));
    let help = |value: &str| {
        let (day, told) = date(value);
        assert_eq!((day, told.len()), (None, 1));
        told[0].split_once(" (").unwrap().1.trim_end_matches(')').to_owned()
    };
    assert_eq!(help("\"2026-01-02\""), "write it without quotes: `d = 2026-01-02`");
    assert_eq!(help("\"soon\""), "write a date without quotes, for example `d = 2026-11-20`");
    assert_eq!(help("2026-01-02T10:00:00Z"), "write `d = 2026-01-02`");
    assert_eq!(help("10:00:00"), "write `d = 2026-11-20`");
    let absent = read("schema = 1", |report, root| root.date(report, "d"));
    assert_eq!(absent, Ok(None));
}

#[test]
fn a_text_has_no_edges_lines_or_invisible_characters() {
    let text = |value: &str| {
        let text = format!("schema = 1\na = {value}");
        read(&text, |report, root| root.required(report, "a", "a = \"x\"", line(9)))
            .map_err(|error| (error.problems[0].message.clone(), error.problems[0].help.clone()))
    };
    assert_eq!(text("\"b c\""), Ok("b c".to_owned()));
    for (value, message, help) in [
        ("\"\"", "`a` is empty: `\"\"`", "write a value, or remove the line"),
        ("\"b\\nc\"", "`a` has more than one line: `b\\nc`", "write it on one line"),
        (
            "\"b\\tc\"",
            "`a` contains an invisible character: `b\\tc`",
            "remove the character that the message shows with a backslash",
        ),
        ("\" b\"", "`a` has a space at its start or end: ` b`", "write `b`"),
        ("\"b \"", "`a` has a space at its start or end: `b `", "write `b`"),
        ("\"0123456789\"", "`0123456789` is 10 characters long", "shorten it to 9 characters"),
        ("7", "`a` is the number `7`, but should be text in quotes", "write it in quotes: `\"7\"`"),
        (
            "1.5",
            "`a` is the decimal number `1.5`, but should be text in quotes",
            "write it in quotes: `\"1.5\"`",
        ),
        (
            "12345678901",
            "`a` is the number `12345678901`, but should be text in quotes",
            "shorten it to 9 characters",
        ),
        (
            "[]",
            "`a` is the array `[]`, but should be text in quotes",
            "write a string in quotes, or remove the line",
        ),
    ] {
        assert_eq!(text(value), Err((message.to_owned(), help.to_owned())), "{value}");
    }
}

#[test]
fn flags_and_arrays_have_their_types_and_no_duplicates() {
    let flag = |value: &str| {
        let text = format!("schema = 1\n{value}");
        read(&text, |report, root| root.flag(report, "a"))
            .map_err(|error| error.problems[0].to_owned())
    };
    assert_eq!((flag("a = true"), flag("a = false"), flag("")), (Ok(true), Ok(false), Ok(false)));
    let wrong = flag("a = 1").unwrap_err();
    assert_eq!(wrong.message, "`a` is the number `1`, but should be `true` or `false`");
    let texts = |value: &str| {
        let text = format!("schema = 1\n{value}");
        let read = read(&text, |report, root| root.texts(report, "a", "x", line(9)));
        match read {
            Ok(texts) => (texts.join(" "), Vec::new()),
            error => (String::new(), told(error)),
        }
    };
    assert_eq!(texts("a = [\"c\", \"b\"]"), ("c b".to_owned(), Vec::new()));
    assert_eq!(texts(""), (String::new(), Vec::new()));
    assert_eq!(
        texts("a = \"b\"").1,
        ["2:5: `a` is the text `b`, but should be an array (write `a = [\"b\"]`)"]
    );
    // Every wrong item is reported at its own position.
    let many = texts("a = [\"b\", 1,\n\"b\", \"\"]").1;
    let starts = [
        "2:11: an item of `a` is the number `1`",
        "3:1: `b` is listed twice in `a`",
        "3:6: `a` is empty",
    ];
    assert_eq!(many.len(), starts.len(), "{many:?}");
    for (found, start) in many.iter().zip(starts) {
        assert!(found.starts_with(start), "{found}");
    }
}

#[test]
fn unknown_keys_are_told_with_the_nearest_or_all_known_ones() {
    let keys = |text: &str| {
        let text = format!("schema = 1\n{text}");
        told(read(&text, |report, root| {
            root.check_keys(report, &["schema", "table"]);
            let inner =
                root.get("table").map(|entry| entry.table(report, "`[table]`")).transpose()?;
            if let Some(inner) = inner {
                inner.check_keys(report, &["name"]);
            }
            Ok(())
        }))
    };
    assert_eq!(keys("table.name = 1"), Vec::<String>::new());
    assert_eq!(
        keys("tabel = 1"),
        [
            "2:1: `tabel` is not a key of the file (did you mean `table`? The keys are `schema` and `table`)"
        ]
    );
    assert_eq!(
        keys("x = {}"),
        ["2:1: `x` is not a key of the file (remove it; the keys are `schema` and `table`)"]
    );
    assert_eq!(
        keys("[table.other.x]\ny = 1"),
        [
            "2:8: `other` is not a key of `[table]` (a `.` in a header starts a nested table; in a name, write `-`)"
        ]
    );
    assert_eq!(
        keys("[table]\nother = 1"),
        ["3:1: `other` is not a key of `[table]` (remove it; the keys are `name`)"]
    );
}

#[test]
fn all_entries_are_read_before_the_first_failure_is_returned() {
    let text = "schema = 1\na = 1\nb = \"x\"\nc = 2\n";
    let mut seen = Vec::new();
    let result = read(text, |report, root| {
        let entries = root.entries().filter(|entry| entry.key != "schema");
        collect(report, entries, |report, entry| {
            seen.push(entry.key.to_owned());
            Ok((entry.key.to_owned(), entry.checked_text(report, line(9))?))
        })
    });
    assert_eq!(told(result).len(), 2);
    assert_eq!(seen, ["a", "b", "c"]);
}

#[test]
fn a_text_is_found_at_any_depth_by_its_key() {
    let text = "schema = 1\nname = \"top\"\n[a]\nb = [{ name = \"deep\" }, { other = \"x\" }]\n";
    let found = |key: &str, wanted: &str| {
        read(text, |_, root| Ok(root.find_text(key, wanted).map(|entry| entry.span))).unwrap()
    };
    assert_eq!(found("name", "top").map(|span| &text[span]), Some("\"top\""));
    assert_eq!(found("name", "deep").map(|span| &text[span]), Some("\"deep\""));
    assert_eq!((found("name", "x"), found("other", "deep")), (None, None));
}
