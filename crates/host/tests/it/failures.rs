//! Tests the catalogue of known failures on logs: each failure is recognised, and clean logs match
//! none.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Read};

use host::failures::{Failures, parse_failures};

const CATALOGUE: &str = include_str!("../../../../versions/failures.toml");
const FAILING: &str = include_str!("../logs/failing.txt");
const CLEAN: &str = include_str!("../logs/clean.txt");

fn catalogue() -> Failures {
    parse_failures("versions/failures.toml", CATALOGUE).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the logs of a file, with their names.
fn logs(text: &str) -> Vec<(&str, &str)> {
    text.split("━━ ").skip(1).map(|log| log.split_once('\n').unwrap()).collect()
}

fn names(failures: &Failures, log: &[u8]) -> Vec<String> {
    let found = failures.diagnose(log).unwrap().found;
    found.into_iter().map(|one| one.failure.name.clone()).collect()
}

#[test]
fn every_failure_is_recognised_in_its_log_and_no_other() {
    let failures = catalogue();
    let mut covered = BTreeSet::new();
    for (name, log) in logs(FAILING) {
        assert_eq!(names(&failures, log.as_bytes()), [name], "{log}");
        covered.insert(name);
    }
    assert_eq!(covered, failures.names().collect(), "each failure has a log");
    assert!(covered.len() >= 28, "{}", covered.len());
}

#[test]
fn no_clean_log_is_accused() {
    let failures = catalogue();
    let clean = logs(CLEAN);
    assert!(clean.len() >= 20, "{}", clean.len());
    for (name, log) in clean {
        assert_eq!(names(&failures, log.as_bytes()), [""; 0], "{name}");
    }
}

#[test]
fn all_that_a_log_shows_is_told_in_its_order_with_lines() {
    let failures = catalogue();
    let log = "one\ntwo\ndouble free or corruption (!prev)\r\nfour\n\
        RuntimeError: operator torchvision::nms does not exist\ndouble free or corruption (!prev)";
    let all = failures.diagnose(log.as_bytes()).unwrap();
    assert_eq!((all.lines, all.bytes), (6, log.len() as u64));
    let told: Vec<_> = all
        .found
        .iter()
        .map(|one| (one.failure.name.as_str(), one.lines[0].number, one.count))
        .collect();
    assert_eq!(told, [("double-free-at-exit", 3, 2), ("torchvision-nms", 5, 1)]);
    assert_eq!(all.found[0].lines[0].text, "double free or corruption (!prev)");
}

/// Returns a text in pieces of changing sizes.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = (self.1 * 7 + 3) % 97 + 1;
        let length = self.1.min(self.0.len()).min(buffer.len());
        buffer[..length].copy_from_slice(&self.0[..length]);
        self.0 = &self.0[length..];
        Ok(length)
    }
}

#[test]
fn how_a_log_arrives_changes_nothing() {
    let failures = catalogue();
    let whole = failures.diagnose(FAILING.as_bytes()).unwrap();
    assert_eq!(whole.found.len(), failures.names().count());
    assert_eq!(failures.diagnose(Pieces(FAILING.as_bytes(), 1)).unwrap(), whole);
    let windows = FAILING.replace('\n', "\r\n");
    let found = failures.diagnose(windows.as_bytes()).unwrap().found;
    assert_eq!(found.len(), whole.found.len());
}

#[test]
fn long_lines_colours_and_rubbish_hide_nothing() {
    let failures = catalogue();
    let fault = "Memory access fault by GPU node-1 (Agent handle: 0x5)";
    let long = format!("{}{fault}{}", "x".repeat(600_000), "y".repeat(600_000));
    assert_eq!(names(&failures, long.as_bytes()), ["memory-access-fault"]);
    let coloured = "\x1b[1;31mMemory access \x1b[0mfault by GPU node-1\n";
    assert_eq!(names(&failures, coloured.as_bytes()), ["memory-access-fault"]);
    let mut rubbish: Vec<u8> = (0..=255).cycle().take(3_000_000).collect();
    rubbish.extend_from_slice(b"\n\xff\xfe Memory access fault by GPU node-1 \xff\n\0");
    assert_eq!(names(&failures, &rubbish), ["memory-access-fault"]);
    assert_eq!(names(&failures, b""), [""; 0]);
}

#[test]
fn a_fault_at_any_place_of_a_large_log_is_found() {
    let failures = catalogue();
    let line = "[1422/2610] Building HIP object CMakeFiles/_C.dir/csrc/attention/attention.hip.o\n";
    for before in (12_900..13_300).step_by(7) {
        let log = format!(
            "{}clang++: error: unable to execute command: Killed\n{line}",
            line.repeat(before)
        );
        let all = failures.diagnose(log.as_bytes()).unwrap();
        assert_eq!(all.found.len(), 1, "{before}");
        assert_eq!(all.found[0].lines[0].number, before as u64 + 1);
        assert_eq!(all.lines, before as u64 + 2);
    }
}

#[test]
fn a_wrong_catalogue_is_answered_with_places() {
    let cases = [
        ("unknown table", "[failures.a]\n"),
        ("name", "[failure.A]\nany = ['abcdef']\ncause = 'a'\nfix = ['b']\nevidence = 'c'\n"),
        ("nothing in it", "[failure.a]\n"),
        (
            "any and all",
            "[failure.a]\nany = ['abcdef']\nall = ['abcdef']\ncause = 'a'\nfix = ['b']\nevidence = 'c'\n",
        ),
        (
            "not a pattern",
            "[failure.a]\nany = ['abcdef(']\ncause = 'a'\nfix = ['b']\nevidence = 'c'\n",
        ),
        (
            "look-around",
            "[failure.a]\nany = ['abcdef(?=x)']\ncause = 'a'\nfix = ['b']\nevidence = 'c'\n",
        ),
        (
            "no fixed text",
            "[failure.a]\nany = ['[a-z]+ (ab|abcdef)']\ncause = 'a'\nfix = ['b']\nevidence = 'c'\n",
        ),
        (
            "too large",
            "[failure.a]\nany = ['abcdef[a-z]{1000}{1000}']\ncause = 'a'\nfix = ['b']\nevidence = 'c'\n",
        ),
        ("newer", "schema = 2\n"),
    ];
    let mut answers = String::new();
    for (name, body) in cases {
        let head = if body.starts_with("schema") { "" } else { "schema = 1\n" };
        let error = parse_failures("failures.toml", &format!("{head}{body}")).unwrap_err();
        writeln!(answers, "━━ {name}\n{error}").unwrap();
    }
    insta::assert_snapshot!(answers);
}
