//! Tests properties that hold for every file, however it was mutated.

use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence, TestRunner};

use super::*;
use crate::revert;

static SET: LazyLock<PatchSet> =
    LazyLock::new(|| set(&[("a", APPEND), ("b", REPLACE), ("c", INSERT)]));

const LINES: [&str; 13] = [
    "list = \"a\"",
    "list = \"a;gfx1151\"",
    "list = \"gfx1151\"",
    "list = \"\"",
    "list=\"a\"",
    "switch on",
    "switch off",
    "end",
    "new line",
    "",
    "\u{e4}\u{f6}",
    "#",
    "\t end",
];

/// A file that contains `needed` in order, with other lines in between. It has any line endings,
/// with or without a byte order mark and a final newline, and sometimes one changed byte.
fn file(needed: &'static [&'static [&'static str]]) -> impl Strategy<Value = Vec<u8>> {
    let others = prop::collection::vec((0..LINES.len() * 3, any::<bool>()), needed.len() + 1);
    let chosen = prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), needed.len());
    let noise = prop::option::weighted(0.3, (any::<prop::sample::Index>(), any::<u8>()));
    (others, chosen, any::<(bool, bool)>(), noise).prop_map(
        |(others, chosen, (mark, newline), noise)| {
            let mut lines = Vec::new();
            for (index, (other, has_return)) in others.iter().enumerate() {
                // In two of three cases, nothing is in between.
                lines.extend(LINES.get(*other).map(|line| (*line, *has_return)));
                if let (Some(choices), Some((choice, has_return))) =
                    (needed.get(index), chosen.get(index))
                {
                    lines.push((choices[choice.index(choices.len())], *has_return));
                }
            }
            let mut file = if mark { b"\xef\xbb\xbf".to_vec() } else { Vec::new() };
            for (index, (line, has_return)) in lines.iter().enumerate() {
                file.extend_from_slice(line.as_bytes());
                if index + 1 < lines.len() || newline {
                    file.extend_from_slice(if *has_return { b"\r\n" } else { b"\n" });
                }
            }
            if let Some((at, byte)) = noise {
                let at = at.index(file.len());
                file[at] = byte;
            }
            file
        },
    )
}

/// The lines that the patches need: a list and a switch in `f`, an end in `g`.
const F: &[&[&str]] = &[&LINES_OF_LIST, &["switch on", "switch off"]];
const G: &[&[&str]] = &[&["end"]];
const LINES_OF_LIST: [&str; 4] =
    ["list = \"a\"", "list = \"a;gfx1151\"", "list = \"gfx1151\"", "list = \"\""];

/// Returns whether every character of `old` is still there, in order, with few new ones. Only the
/// switch is replaced.
fn is_kept(old: &[u8], new: &[u8]) -> bool {
    let plain = |file: &[u8]| String::from_utf8_lossy(file).replace("switch on", "switch off");
    let (old, new) = (plain(old), plain(new));
    let mut rest = new.chars();
    let added = new.len().saturating_sub(old.len());
    old.chars().all(|wanted| rest.any(|found| found == wanted)) && added <= "\r\n;gfx1151".len()
}

fn config() -> Config {
    // Like the crate, its tests write no files, so proptest saves no failing cases; it prints them.
    Config {
        cases: 10_000,
        failure_persistence: None::<Box<FileFailurePersistence>>.map(|it| it as _),
        ..Config::default()
    }
}

#[test]
fn edits_are_all_or_nothing_and_idempotent() {
    let edited = |(f, g): (Vec<u8>, Vec<u8>)| {
        let tree = files(&[("f", &f), ("g", &g)]);
        let outcome = run(&SET, &tree, None, &[]);
        prop_assert_eq!(outcome.ok, outcome.patches.iter().all(|patch| patch.ok));
        if !outcome.ok {
            prop_assert!(outcome.files.is_empty());
            return Ok(());
        }
        let after = patched(&tree, &outcome);
        for (path, old) in &tree {
            prop_assert!(is_kept(old, &after[path]), "{:?} {:?}", old, after[path]);
        }
        let second = run(&SET, &after, None, &[]);
        prop_assert!(second.ok && second.files.is_empty());
        prop_assert_eq!(verdicts(&second), ["already-present"; 3]);
        if let Some(receipt) = outcome.receipt() {
            let reverted = revert(&receipt, &after).unwrap();
            for file in &outcome.files {
                prop_assert_eq!(&reverted[&file.path], &tree[&file.path]);
            }
        }
        Ok(())
    };
    TestRunner::new(config()).run(&(file(F), file(G)), edited).unwrap();
    testkit::gate_passed(15, config().cases as usize);
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_text_makes_the_reader_panic(text in "(?s).{0,200}", at in any::<prop::sample::Index>()) {
        let whole = patch_text("p", APPEND);
        let at = at.index(whole.len());
        let Some((before, behind)) = whole.split_at_checked(at) else { return Ok(()) };
        drop(parse_patch("f", &text));
        drop(parse_patch("f", &format!("{before}{text}{behind}")));
    }
}
