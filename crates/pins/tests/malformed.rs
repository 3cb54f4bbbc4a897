//! Malformed data files: one small text per case, and all messages in one snapshot.
//!
//! To add a case, add it to one of the tables and review `snapshots/malformed__*.snap`. A message
//! is good if a person needs nothing else to act on it: file, line, column, the value, and the next
//! step.

#![expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

use std::fmt::Write as _;

use pins::{
    ParseError, References, parse_compat, parse_gpus, parse_package_lock, parse_python_with,
    parse_tracks, parse_tracks_with, parse_versions,
};

use testkit::{gate_cases, gate_passed};

mod malformed_cases;
use malformed_cases::compat::COMPAT;
use malformed_cases::gpus::GPUS;
use malformed_cases::locks::LOCKS;
use malformed_cases::python::PYTHON;
use malformed_cases::toml::TOML;
use malformed_cases::tracks::TRACKS;
use malformed_cases::variables::VARIABLES;
use malformed_cases::versions::VERSIONS;

/// The first lines of the cases of `versions.toml`, except where a case tests them.
const HEAD: &str = "schema = 1\nsource-date-epoch = 1795132800\n";

/// Three images, a source and an archive that the tracks in the cases can use.
const PINS: &str = "schema = 1
source-date-epoch = 1795132800
source.vllm = { url = 'https://github.com/vllm-project/vllm', commit = 'unresolved' }
image.vllm-openai-rocm = { repository = 'docker.io/a/a', tag = 'a', digest = 'unresolved' }
image.ollama = { repository = 'docker.io/a/a', tag = 'a', digest = 'unresolved' }
";

/// Returns the text of a case and its messages in readable form.
fn render(name: &str, text: &str, error: &ParseError) -> String {
    let mut rendered = format!("━━ {name}\n");
    for (number, line) in text.lines().enumerate() {
        let mut line: String =
            line.escape_debug().collect::<String>().replace("\\\"", "\"").replace("\\'", "'");
        if line.chars().count() > 160 {
            line = line.chars().take(160).collect::<String>() + "…";
        }
        writeln!(rendered, "{:>4} │ {line}", number + 1).unwrap();
    }
    for problem in &error.problems {
        let pins::Problem { line, column, message, help, .. } = problem;
        writeln!(rendered, "{}:{line}:{column}: {message}\n    help: {help}", error.file).unwrap();
    }
    rendered
}

/// Checks the rules that every message must follow.
fn check_rules(name: &str, text: &str, error: &ParseError) {
    assert!(!error.problems.is_empty(), "{name}");
    for problem in &error.problems {
        let pins::Problem { span, line, column, message, help } = problem;
        let all = format!("{message} {help}");
        assert!(
            message.contains('`') || message.starts_with("the end of"),
            "{name}: no value: {message}"
        );
        assert!(help.len() > 8, "{name}: no help: {help}");
        assert!(!message.ends_with('.') && !help.ends_with('.'), "{name}: full stop: {all}");
        for dump in [
            "Some(", "None", "Err(", "Ok(", "Error {", " { ", "Os {", "\u{1b}", "DeValue",
            "Spanned",
        ] {
            assert!(!message.contains(dump), "{name}: dump: {message}");
        }
        assert!(!all.contains(char::is_control), "{name}: control character: {all}");
        let line_text = text.split('\n').nth(line - 1).unwrap();
        let before: String =
            line_text.trim_start_matches('\u{feff}').chars().take(column - 1).collect();
        assert!(
            before.chars().count() == column - 1,
            "{name}: column {column} is not on line {line}"
        );
        assert!(text.get(span.clone()).is_some(), "{name}");
    }
    let printed = error.to_string();
    assert_eq!(printed.lines().count(), error.problems.len(), "{name}");
    assert!(printed.lines().all(|line| line.starts_with(&format!("{}:", error.file))), "{name}");
}

/// Parses all `cases` and returns all messages.
fn answers<T: std::fmt::Debug>(
    cases: &[(&str, &str)],
    head: &str,
    parse: impl Fn(&str) -> Result<T, ParseError>,
) -> String {
    let mut rendered = String::new();
    for (name, body) in cases {
        let text = format!("{head}{body}");
        let error = match parse(&text) {
            Ok(value) => panic!("{name} was accepted: {value:?}"),
            Err(error) => error,
        };
        check_rules(name, &text, &error);
        rendered += &render(name, &text, &error);
        rendered.push('\n');
    }
    rendered
}

#[test]
fn toml_that_is_none() {
    insta::assert_snapshot!(answers(TOML, "", |text| parse_versions("versions.toml", text)));
}

#[test]
fn versions() {
    insta::assert_snapshot!(answers(VERSIONS, HEAD, |text| parse_versions("versions.toml", text)));
}

#[test]
fn gpus() {
    insta::assert_snapshot!(answers(GPUS, "schema = 1\n", |text| parse_gpus("gpus.toml", text)));
}

#[test]
fn tracks() {
    let pins = parse_versions("versions.toml", PINS).unwrap();
    insta::assert_snapshot!(answers(TRACKS, "schema = 1\n", |text| {
        parse_tracks_with("tracks.toml", text, References { pins: Some(&pins), tracks: None })
    }));
}

/// The head of a track.
const TITLE: &str = "title = \"t\"\ndescription = \"d\"\n";

/// Returns the messages about a `tracks.toml`, each with its line.
fn about_tracks(text: &str) -> Vec<String> {
    let pins = parse_versions("versions.toml", PINS).unwrap();
    let text = format!("schema = 1\ngpu = \"gfx1151\"\n{text}");
    let known = References { pins: Some(&pins), tracks: None };
    let error = parse_tracks_with("tracks.toml", &text, known).unwrap_err();
    check_rules("tracks", &text, &error);
    error.problems.iter().map(|one| format!("{}: {}", one.line, one.message)).collect()
}

#[test]
fn a_cycle_of_tracks_is_reported_once_and_only_for_its_members() {
    let on = |name: &str, base: &str| format!("[{name}]\n{TITLE}track = \"{base}\"\n");
    let own = format!("{}{}", on("aa", "bb"), on("bb", "cc"));
    let cycle = "3: track `aa` is based on itself, through `bb` and `cc`";
    let three = own.clone() + &on("cc", "aa");
    assert_eq!(about_tracks(&three), [cycle]);
    // Tracks outside the cycle, at any distance and in any order.
    let outside = three.clone() + &on("xx", "aa") + &on("yy", "xx") + &on("zz", "cc");
    assert_eq!(about_tracks(&outside), [cycle]);
    let before = on("a0", "aa") + &three;
    assert_eq!(about_tracks(&before), ["7: track `aa` is based on itself, through `bb` and `cc`"]);
    // Two cycles, and a track that is its own base.
    let two = three.clone() + &on("one", "one") + &on("pp", "qq") + &on("qq", "pp");
    let says = [
        cycle,
        "15: track `one` is based on itself",
        "19: track `pp` is based on itself, through `qq`",
    ];
    assert_eq!(about_tracks(&two), says);
    // A variant closes the cycle; another variant of the same track does not.
    let stage = |variant: &str, base: &str| {
        format!(
            "[cc.variants.{variant}]\n{base}\n[[cc.variants.{variant}.stage]]\n\
             name = \"s\"\ndockerfile = \"D\"\n"
        )
    };
    let head = format!("{own}[cc]\n{TITLE}variant = \"a\"\n");
    let closed =
        format!("{head}{}{}", stage("a", "track = \"aa\""), stage("b", "base = \"ollama\""));
    assert_eq!(about_tracks(&closed), [cycle]);
    let open = format!("{head}{}{}", stage("a", "base = \"ollama\""), stage("b", "track = \"aa\""));
    assert_eq!(about_tracks(&open), ["11: track `cc` is based on itself, through `aa` and `bb`"]);
}

#[test]
fn a_cycle_of_package_sets_is_reported_once_and_only_for_its_members() {
    let head = "schema = 1\nsuite = 'trixie'\narchitecture = 'amd64'\nchecked = 2026-11-21\n";
    let sets = [("aa", "bb"), ("bb", "cc"), ("cc", "aa"), ("one", "one"), ("xx", "aa")];
    let set = |(name, on): (&str, &str)| {
        format!("[set.{name}]\non = ['{on}']\nwanted = ['?essential']\npackages = []\n")
    };
    let error = parse_package_lock("a.toml", &(head.to_owned() + &sets.map(set).concat()));
    let problems = error.unwrap_err().problems;
    let messages: Vec<_> = problems.iter().map(|one| one.message.as_str()).collect();
    let says =
        ["`[set.aa]` depends on itself, through `bb` and `cc`", "`[set.one]` depends on itself"];
    assert_eq!(messages, says);
}

#[test]
fn no_problem_of_a_track_hides_another_one() {
    // Problems and their messages, ordered so that each could hide those after it.
    let stage = |more: &str| format!("[[tool.variants.v.stage]]\n{more}\n");
    let stages = [
        stage("name = \"a\"\ndockerfile = \"/a\""),
        stage("name = \"b\"\ndockerfile = \"b\"\nargs = { BASE = \"x\" }"),
        stage("name = \"b\"\ndockerfile = \"b\"\nsources = { x = \"nope\" }"),
        stage("name = \"d\"\ndockerfile = \"d\"\npackages = 1\nfiles = [\"/etc\"]"),
    ]
    .concat();
    let says_stages = [
        "`/a` is an absolute path",
        "`BASE` is set automatically",
        "two stages are called `b`",
        "`nope` is not a pin of kind",
        "`packages` is the number `1`, but should be an array",
        "`/etc` is outside the project",
    ];
    let head = format!("[tool]\n{TITLE}");
    let cycle = format!("[aa]\n{TITLE}track = \"bb\"\n[bb]\n{TITLE}track = \"aa\"\n");
    let says_cycle = "track `aa` is based on itself, through `bb`";
    for (text, says) in [
        (String::new(), vec!["`base` is missing from `[….variants.v]`"]),
        ("base = \"nope\"\n".to_owned(), vec!["`nope` is not an image"]),
        ("packages = \"No Name\"\n".to_owned(), vec!["`No Name` is not a name"]),
        ("packages = 1\n".to_owned(), vec!["`packages` is the number `1`, but should be text"]),
        ("track = \"gone\"\n".to_owned(), vec!["is based on `gone`, which is not a track"]),
        (
            "base = 1\ntrack = \"gone\"\n".to_owned(),
            vec!["`base` is the number", "more than one of", "based on `gone`, which is not"],
        ),
        (
            "base = \"ollama\"\ngpu-code = 1\nslim = [1]\nother = 1\n".to_owned(),
            vec![
                "`gpu-code` is the number",
                "an item of `slim` is the number",
                "`other` is not a key",
            ],
        ),
    ] {
        // A wrong key of the track, a default variant that does not exist, a letter that two
        // tracks have, another wrong track, and a cycle.
        let text = format!(
            "{head}variant = \"w\"\nrehearsal = \"r\"\ncolour = \"red\"\nletter = \"A\"\n\
             [tool.variants.v]\n{text}{stages}[other]\n{TITLE}letter = \"A\"\nuser = \"a b\"\n{cycle}"
        );
        let messages = about_tracks(&text);
        let others = [
            "`w` is not one of the variants",
            "`r` is not one of the variants",
            "`colour` is not a key of",
            "tracks `tool` and `other` have the same letter",
            "tracks `other` and `tool` have the same letter",
            "`a b` is not a user",
            "`base` is missing from `[other]`",
            says_cycle,
        ];
        let says: Vec<&str> = says.into_iter().chain(says_stages).chain(others).collect();
        for wanted in &says {
            let count = messages.iter().filter(|message| message.contains(wanted)).count();
            assert_eq!(count, 1, "{wanted}\n{messages:#?}");
        }
        assert_eq!(messages.len(), says.len(), "{messages:#?}");
    }
}

#[test]
fn package_locks() {
    let head = "schema = 1\nsuite = 'trixie'\narchitecture = 'amd64'\nchecked = 2026-11-21\n";
    insta::assert_snapshot!(answers(LOCKS, head, |text| parse_package_lock("a.toml", text)));
    let heads = [("the head of a lock", "schema = 1\nsuite = 'Trixie'\nchecked = '2026-11-21'\n")];
    insta::assert_snapshot!(answers(&heads, "", |text| parse_package_lock("a.toml", text)));
}

#[test]
fn python() {
    let pins = parse_versions("versions.toml", PINS).unwrap();
    insta::assert_snapshot!(answers(PYTHON, "schema = 1\n", |text| {
        parse_python_with("python.toml", text, &pins)
    }));
}

#[test]
fn variables() {
    insta::assert_snapshot!(answers(VARIABLES, "schema = 1\n", |text| {
        parse_gpus("gpus.toml", text)
    }));
}

#[test]
fn compat() {
    insta::assert_snapshot!(answers(COMPAT, "schema = 1\n", |text| {
        parse_compat("compat.toml", text)
    }));
}

#[test]
fn there_are_enough_cases_and_no_name_occurs_twice() {
    let all = [TOML, VERSIONS, GPUS, TRACKS, LOCKS, COMPAT, VARIABLES, PYTHON].concat();
    let mut names: Vec<_> = all.into_iter().map(|(name, _)| name).collect();
    assert!(names.len() >= 280, "{}", names.len());
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
    gate_passed(8, all);
}

/// A parser that returns only whether, and where, it refuses a text.
type Parse = Box<dyn Fn(&str) -> Result<(), ParseError>>;

/// The project's real files, each with its parser.
fn real_files() -> Vec<(&'static str, Parse)> {
    let versions = include_str!("../../../versions/versions.toml");
    let pins = std::rc::Rc::new(parse_versions("versions.toml", versions).unwrap());
    let same = std::rc::Rc::clone(&pins);
    vec![
        (versions, Box::new(|text| parse_versions("versions.toml", text).map(drop))),
        (
            include_str!("../../../versions/gpus.toml"),
            Box::new(|text| parse_gpus("gpus.toml", text).map(drop)),
        ),
        (
            include_str!("../../../versions/tracks.toml"),
            Box::new(move |text| {
                parse_tracks_with(
                    "tracks.toml",
                    text,
                    References { pins: Some(&pins), tracks: None },
                )
                .map(drop)
            }),
        ),
        (
            include_str!("../../../versions/compat.toml"),
            Box::new(|text| parse_compat("compat.toml", text).map(drop)),
        ),
        (
            include_str!("../../../versions/python.toml"),
            Box::new(move |text| parse_python_with("python.toml", text, &same).map(drop)),
        ),
        (
            include_str!("../../../versions/locks/debian.toml"),
            Box::new(|text| parse_package_lock("debian.toml", text).map(drop)),
        ),
    ]
}

/// Returns copies of a line of a file with one typing error each: a wrong key, an invalid value, or
/// an unclosed string.
fn mistyped(line: &str) -> Vec<String> {
    let Some((key, value)) = line.split_once(" = ") else { return Vec::new() };
    // Skips a list whose items are on the following lines.
    if key.starts_with(['#', ' ', '{']) || value.ends_with('[') {
        return Vec::new();
    }
    let (first, rest) = key.split_at(key.find('.').unwrap_or(key.len()));
    let first = first.trim_matches('"');
    let mut all = vec![format!("\"!{first}\"{rest} = {value}"), format!("{key} = 1.5")];
    if value.ends_with('"') && !value.ends_with("\"\"\"") {
        all.push(line[..line.len() - 1].to_owned());
    }
    all
}

#[test]
fn every_line_of_our_own_files_that_is_mistyped_is_named() {
    let mut cases = Vec::new();
    let files = real_files();
    for (file, (text, parse)) in files.iter().enumerate() {
        parse(text).unwrap();
        for (number, line) in text.lines().enumerate() {
            cases.extend(mistyped(line).into_iter().map(|wrong| (file, number, wrong)));
        }
    }
    let wanted = gate_cases(100, cases.len());
    let step = cases.len() / wanted;
    let chosen: Vec<_> = cases.into_iter().step_by(step).collect();
    for (file, number, wrong) in &chosen {
        let (text, parse) = &files[*file];
        let mut lines: Vec<&str> = text.lines().collect();
        lines[*number] = wrong;
        let text = lines.join("\n") + "\n";
        let error = parse(&text).expect_err(wrong);
        check_rules(wrong, &text, &error);
        let key = wrong.split(' ').next().unwrap().trim_matches(['!', '"']);
        let is_named = |problem: &pins::Problem| {
            // A changed key is also missing from its table; in that case the message names it.
            problem.line == number + 1 || problem.message.contains(&format!("`{key}`"))
        };
        assert!(error.problems.iter().any(is_named), "line {}: {wrong}\n{error}", number + 1);
    }
    assert!(chosen.len() >= wanted, "{}", chosen.len());
    gate_passed(8, chosen.len());
}

#[test]
fn a_file_over_four_mebibytes_is_refused() {
    let text = format!("schema = 1\n#{}", "x".repeat(4 << 20));
    for error in [
        parse_versions("versions.toml", &text).unwrap_err(),
        parse_gpus("gpus.toml", &text).unwrap_err(),
        parse_tracks("tracks.toml", &text).unwrap_err(),
        parse_compat("compat.toml", &text).unwrap_err(),
    ] {
        assert_eq!(error.problems[0].message, "the file is `4194316` bytes long");
        check_rules("too long", &text, &error);
    }
    let just_fits =
        format!("schema = 1\nsource-date-epoch = 1795132800\n#{}", "x".repeat((4 << 20) - 43));
    assert_eq!(just_fits.len(), 4 << 20);
    assert!(parse_versions("versions.toml", &just_fits).is_ok());
}
