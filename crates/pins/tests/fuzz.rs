//! Fuzzes the data files: each one is parsed, or refused with positions that exist in the file.

#![expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")]

use pins::{
    ParseError, parse_compat, parse_gpus, parse_package_lock, parse_tracks, parse_versions,
};
use testkit::{Corpus, fuzz_some};

/// Bytes that have a meaning in data files.
const WORDS: [&[u8]; 28] = [
    b"\n[source.a]\n",
    b"\n[image.a]\n",
    b"\n[[stage]]\n",
    b"\"",
    b"'",
    b"'''",
    b"\"\"\"",
    b" = ",
    b".",
    b"[",
    b"]",
    b"{",
    b"}",
    b"#",
    b",",
    b"\\u001b",
    b"\\",
    b"\r\n",
    b"1.5",
    b"-1",
    b"2026-02-29",
    b"99999999999999999999",
    b"true",
    b"unresolved",
    b"https://",
    b"\xef\xbb\xbf",
    b"\xc3\xbc",
    b"\xff",
];

/// Returns the tables of a file, each after the first lines of the file.
fn tables(head: &str, text: &str) -> Vec<Vec<u8>> {
    let begin = text.find("\n[").expect("a table");
    let tables = text[begin..].split("\n\n").filter(|table| table.contains('['));
    tables.map(|table| format!("{head}{}\n", table.trim_start()).into_bytes()).collect()
}

/// Checks the rules that every refusal must follow.
fn check(text: &str, error: &ParseError) {
    assert!(!error.problems.is_empty(), "{text}");
    for problem in &error.problems {
        assert!(text.get(problem.span.clone()).is_some(), "{problem:?} in {text}");
        let line = text.split('\n').nth(problem.line - 1).expect("the line is there");
        assert!(problem.column <= line.chars().count() + 1, "{problem:?} in {text}");
        let shown = format!("{}{}", problem.message, problem.help);
        assert!(!shown.contains(char::is_control), "{shown}");
    }
}

/// Fuzzes one kind of file.
fn run<T>(seed: u64, mut inputs: Vec<Vec<u8>>, parse: impl Fn(&str) -> Result<T, ParseError>) {
    let (mut good, mut runs) = (0, 0);
    // A table that depends on others is left out.
    inputs.retain(|input| parse(&String::from_utf8_lossy(input)).is_ok());
    assert!(!inputs.is_empty(), "the corpus itself is good");
    fuzz_some(&Corpus { inputs, words: &WORDS, seed }, |bytes, _| {
        runs += 1;
        let text = String::from_utf8_lossy(&bytes);
        match parse(&text) {
            Ok(_) => good += 1,
            Err(error) => check(&text, &error),
        }
    });
    assert!(good * 50 > runs, "only {good} of {runs} were accepted");
}

#[test]
fn fuzzed_versions_are_read_or_refused() {
    let text = include_str!("../../../versions/versions.toml");
    let inputs = tables("schema = 1\nsource-date-epoch = 1795132800\n", text);
    run(0x5eed_0012, inputs, |text| parse_versions("versions.toml", text));
}

#[test]
fn fuzzed_tables_of_gpus_and_facts_are_read_or_refused() {
    let gpus = tables("schema = 1\n", include_str!("../../../versions/gpus.toml"));
    let compat = tables("schema = 1\n", include_str!("../../../versions/compat.toml"));
    run(0x5eed_0013, [gpus, compat].concat(), |text| {
        parse_gpus("gpus.toml", text).map(drop).or_else(|_| parse_compat("a", text).map(drop))
    });
}

#[test]
fn fuzzed_tracks_are_read_or_refused() {
    let text = include_str!("../../../versions/tracks.toml");
    let official = text.split("\n\n").find(|table| table.starts_with("[official]"));
    let inputs = vec![format!("schema = 1\ngpu = \"gfx1151\"\n{}\n", official.expect("official"))];
    let inputs = inputs.into_iter().map(String::into_bytes).collect();
    run(0x5eed_0014, inputs, |text| parse_tracks("tracks.toml", text));
}

#[test]
fn fuzzed_package_locks_are_read_or_refused() {
    let text = include_str!("../../../versions/locks/debian.toml");
    // A few packages are enough for syntax mutations.
    let end = text.match_indices("\n  {").nth(3).map_or(text.len(), |(at, _)| at);
    let inputs = vec![format!("{}\n]\n", &text[..end]).into_bytes()];
    run(0x5eed_0015, inputs, |text| parse_package_lock("debian.toml", text));
}
