//! Reports of problems: places, limits, quoting, and the advice for text that is not TOML.

use crate::problem::{
    Report, code, floor_char, is_unprintable, list, named, nearest, quote, wrong,
};
use crate::rows::{Rows, rows_of};
use crate::{parse_versions, pin_lines};

#[test]
fn a_report_keeps_500_problems_and_counts_the_rest() {
    let report = |count: usize| {
        let mut report = Report::new("f", "text");
        for number in 0..count {
            assert_eq!(report.is_full().is_some(), number >= 500);
            report.add(&(0..1), wrong(format!("{number}"), "help"));
        }
        assert_eq!(report.problem_count(), count.min(500));
        report.finish(Ok(())).unwrap_err().problems
    };
    let full = report(500);
    assert_eq!((full.len(), full[499].help.as_str()), (500, "help"));
    let more = report(502);
    assert_eq!(more.len(), 500);
    assert_eq!(more[499].help, "help; at least 2 more problems are not shown");
    assert_eq!(more[498].help, "help");
}

#[test]
fn problems_are_in_file_order_and_one_is_enough_to_refuse() {
    let mut report = Report::new("f.toml", "ab\ncd\n");
    report.add(&(4..5), wrong("second", "b"));
    report.add(&(0..2), wrong("first", "a"));
    report.add(&(4..4), wrong("between", "c"));
    let error = report.finish(Ok(1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "f.toml:1:1: first (a)\nf.toml:2:2: between (c)\nf.toml:2:2: second (b)"
    );
    assert_eq!(Report::new("f", "").finish_option(Some(1)), Ok(1));
}

#[test]
fn a_place_is_never_inside_a_character_or_after_the_text() {
    let text = "aä\nb";
    let all: Vec<usize> = (0..8).map(|at| floor_char(text, at)).collect();
    assert_eq!(all, [0, 1, 1, 3, 4, 5, 5, 5]);
    let mut report = Report::new("f", text);
    report.add(&(2..2), wrong("m", "h"));
    report.add(&(90..99), wrong("m", "h"));
    let problems = report.finish(Ok(())).unwrap_err().problems;
    let places: Vec<_> =
        problems.iter().map(|one| (one.line, one.column, one.span.clone())).collect();
    assert_eq!(places, [(1, 2, 1..1), (2, 2, 5..5)]);
    let report = Report::new("f", text);
    assert_eq!((report.line(0), report.line(3), report.line(4)), (1, 1, 2));
}

#[test]
fn quoted_text_is_at_most_80_characters_and_shows_what_is_invisible() {
    assert_eq!(quote(&"ä".repeat(80)), format!("`{}`", "ä".repeat(80)));
    assert_eq!(quote(&"ä".repeat(81)), format!("`{}…`", "ä".repeat(80)));
    assert_eq!(quote("a\r\n\tb\u{7f}\u{200b}\u{feff}"), "`a\\r\\n\\tb\\u007f\\u200b\\ufeff`");
    assert_eq!((code('\u{1b}').as_str(), code('\u{e0001}').as_str()), ("\\u001b", "\\U000e0001"));
    assert_eq!(
        (named(' ').as_str(), named('ä').as_str(), named('\n').as_str()),
        ("a space", "`ä`", "`\\n`")
    );
    for character in [
        '\0', '\u{7f}', '\u{85}', '\u{200b}', '\u{200f}', '\u{2028}', '\u{202e}', '\u{2060}',
        '\u{2069}', '\u{feff}',
    ] {
        assert!(is_unprintable(character), "{character:?}");
    }
    for character in
        ['a', ' ', 'ä', '\u{200a}', '\u{2010}', '\u{2027}', '\u{202f}', '\u{205f}', '\u{206a}', '…']
    {
        assert!(!is_unprintable(character), "{character:?}");
    }
}

#[test]
fn the_nearest_name_may_differ_by_one_and_a_quarter_of_its_length() {
    assert_eq!(nearest("ab", ["abc"]), Some("abc"), "one change is always close");
    assert_eq!(nearest("xy", ["abc"]), None);
    assert_eq!(nearest("abXY", ["abcd"]), Some("abcd"), "two changes of four characters");
    assert_eq!(nearest("aXYZ", ["abcd"]), None);
    assert_eq!(nearest("abdc", ["abcd", "abcx"]), Some("abcd"), "a swap is one change");
    assert_eq!(nearest("ab", ["abd", "abc"]), Some("abc"), "equally close names are sorted");
    assert_eq!(nearest("A_B", ["a-b"]), Some("a-b"));
    let long = "a".repeat(100);
    assert_eq!(nearest(&long, [long.as_str()]), Some(long.as_str()));
    let longer = "a".repeat(101);
    assert_eq!(nearest(&longer, [longer.as_str()]), None);
}

#[test]
fn a_list_of_names_is_a_phrase() {
    assert_eq!(list([]), "");
    assert_eq!(list(["a"]), "`a`");
    assert_eq!(list(["a", "b"]), "`a` and `b`");
    assert_eq!(list(["a", "b", "c"]), "`a`, `b` and `c`");
}

fn told(text: &str) -> Vec<(usize, String)> {
    let error = parse_versions("f", text).unwrap_err();
    error.problems.iter().map(|one| (one.line, one.message.clone())).collect()
}

#[test]
fn a_key_that_is_defined_twice_is_told_with_its_first_line() {
    let text = "schema = 1\nsource-date-epoch = 1\n[image.a]\ntag = '1'\n[image.b]\ntag = '1'\ntag = '2'\n[image.a]\n";
    assert_eq!(
        told(text),
        [
            (7, "`tag` is defined twice, first on line 6".to_owned()),
            (8, "`a` is defined twice, first on line 3".to_owned())
        ]
    );
    // The same key in another table is not the first one.
    let top = "a = 1\n[t]\nb = 1\na = 1\na = 2\n";
    assert_eq!(told(top)[0], (5, "`a` is defined twice, first on line 4".to_owned()));
    let first = "\u{feff}a = 1\nb = 1\na = 2\n";
    assert_eq!(told(first)[0], (3, "`a` is defined twice, first on line 1".to_owned()));
}

#[test]
fn mistakes_in_toml_are_told_once_for_each_line_and_at_most_twenty_times() {
    let lines = |count: usize| "a b c\n".repeat(count);
    let places =
        |count: usize| told(&lines(count)).into_iter().map(|(line, _)| line).collect::<Vec<_>>();
    assert_eq!(places(3), [1, 2, 3]);
    assert_eq!(places(20).len(), 20);
    assert_eq!(places(21).len(), 20);
}

#[test]
fn text_that_is_not_toml_is_described_by_the_line_that_a_person_wrote() {
    for (text, message) in [
        ("note\n", "`note` is not a table header or `key = value`"),
        ("a =\n", "`a =` has no value"),
        ("a = word\n", "`word` is text without quotes"),
        ("a = \"b\n", "the quoted text in `a = \"b` has no closing quote"),
        ("a = 'b\n", "the quoted text in `a = 'b` has no closing quote"),
        ("[a\n", "the table header `[a` is not closed"),
        ("a = \"1\" 2\n", "`2` follows a complete value"),
        ("a = 01\n", "the number in `a = 01` starts with a zero"),
        ("a = 1\n[a.b]\n", "`a` is already a value, so it cannot also be a table"),
        ("a = \"\\q\"\n", "`a = \"\\q\"` has an invalid backslash before `q\"`"),
    ] {
        assert_eq!(told(text)[0].1, message, "{text:?}");
    }
}

#[test]
fn rows_and_pins_have_the_lines_of_their_names() {
    let text = "schema = 1\nbuilt-in = true\nremove = ['a.x',\n 'b.y', 3]\nalone = 1\n\n[a.one]\n[b]\ntwo.x = 1\n[c.three]\n[c.four]\n";
    let rows = rows_of(text, &["a", "b", "alone"]);
    let lines: Vec<_> = rows.lines.iter().map(|(name, line)| (name.as_str(), *line)).collect();
    assert_eq!(lines, [("a.one", 7), ("alone", 5), ("b.two", 9), ("c", 10)]);
    let removed: Vec<_> = rows.removed.iter().map(|(name, line)| (name.as_str(), *line)).collect();
    assert_eq!(removed, [("a.x", 3), ("b.y", 4)]);
    assert_eq!(rows_of("schema = 2\n[a.b]\n", &["a"]), Rows::default(), "a newer file");
    let pins = "schema = 1\n[archive.z]\n[other.y]\n[image]\nBad_name = 1\nx = 1\n[release.w]\n[source.v]\n";
    let lines: Vec<_> =
        pin_lines(pins).into_iter().map(|(name, line)| (name.to_string(), line)).collect();
    let expected = [("v", 8), ("w", 7), ("x", 6), ("z", 2)];
    assert_eq!(lines, expected.map(|(name, line)| (name.to_owned(), line)));
}
