//! Commits, digests and hashes: each kind of mistake has its own advice, and nothing is guessed.

use super::{message, refused};
use crate::Pinned;
use crate::hashes::{Lookup, commit, digest, sha256};

const LOOKUP: Lookup<'_> = Lookup { pin: "p", from: "https://a/b", under: Some("v1") };

fn digits(length: usize) -> String {
    "0123456789abcdef".chars().cycle().take(length).collect()
}

#[test]
fn whole_values_and_the_word_unresolved_are_read() {
    for length in [40, 64] {
        let text = digits(length);
        let Pinned::Resolved(read) = commit(&text, LOOKUP).unwrap() else { panic!("{text}") };
        assert_eq!(read.to_string(), text);
    }
    let hash = digits(64);
    let Pinned::Resolved(read) = sha256(&hash, LOOKUP).unwrap() else { panic!("{hash}") };
    assert_eq!(read.to_string(), hash);
    let whole = format!("sha256:{hash}");
    let Pinned::Resolved(read) = digest(&whole, LOOKUP).unwrap() else { panic!("{whole}") };
    assert_eq!(read.to_string(), whole);
    assert_eq!(commit("unresolved", LOOKUP).unwrap(), Pinned::Unresolved);
    assert_eq!(digest("unresolved", LOOKUP).unwrap(), Pinned::Unresolved);
    assert_eq!(sha256("unresolved", LOOKUP).unwrap(), Pinned::Unresolved);
}

#[test]
fn words_for_an_unknown_value_are_answered_with_unresolved() {
    for word in [
        "unknown",
        "TODO",
        "tbd",
        "none",
        "null",
        "latest",
        "Latest",
        "fixme",
        "?",
        "Unresolved",
        "unresolve",
        "unresloved",
        "unresolvedxx",
    ] {
        for (told, help) in [
            refused(commit(word, LOOKUP)),
            refused(digest(word, LOOKUP)),
            refused(sha256(word, LOOKUP)),
        ] {
            assert_eq!(told, format!("`{word}` is not a value that can be pinned"));
            assert!(
                help.starts_with("write `\"unresolved\"` until the value is known; "),
                "{help}"
            );
        }
    }
    // Three changes are too many.
    assert!(message(commit("unresol", LOOKUP)).contains("is not a commit, but a tag"));
}

#[test]
fn a_commit_that_is_cut_long_or_in_upper_case_is_not_completed() {
    let upper = digits(40).to_ascii_uppercase();
    for (text, told, help) in [
        (upper.clone(), "has upper-case digits", format!("write `{}`", digits(40))),
        (
            digits(39),
            "is a short commit; 1 of 40 digits is missing",
            format!(
                "`git rev-parse {}` in a clone of https://a/b prints the full commit; with `\"unresolved\"` in its place, `build-pipeline bump p v1` looks it up and writes it",
                digits(39)
            ),
        ),
        (
            digits(7),
            "is a short commit; 33 of 40 digits are missing",
            format!("`git rev-parse {}` in a clone", digits(7)),
        ),
        (
            format!("{}...", digits(12)),
            "is a short commit; 28 of 40 digits are missing",
            format!("`git rev-parse {}` in a clone", digits(12)),
        ),
        (
            format!("{}…", digits(12)),
            "is a short commit; 28 of 40 digits are missing",
            format!("`git rev-parse {}` in a clone", digits(12)),
        ),
        (digits(41), "has 41 digits; a commit has 40 (or 64)", "copy it again".to_owned()),
        (digits(63), "has 63 digits; a commit has 40 (or 64)", "copy it again".to_owned()),
        (digits(65), "has 65 digits; a commit has 40 (or 64)", "copy it again".to_owned()),
        (
            digits(6),
            "is not a commit, but a tag, branch or other name, which can move",
            "write it in `ref`, and write its commit here: 40 digits; ".to_owned(),
        ),
        (
            "main".to_owned(),
            "is not a commit, but a tag, branch or other name, which can move",
            "write it in `ref`".to_owned(),
        ),
        (
            format!("g{}", digits(7)),
            "is the output of `git describe`: a short commit after a `g`",
            format!("`git rev-parse {}` in a clone", digits(7)),
        ),
        (
            format!("g{}", digits(6)),
            "is not a commit, but a tag, branch or other name, which can move",
            "write it in `ref`".to_owned(),
        ),
    ] {
        let (said, advice) = refused(commit(&text, LOOKUP));
        assert_eq!(said, format!("`{text}` {told}"));
        assert!(advice.starts_with(&help), "{text}: {advice}");
    }
}

/// The commands in the advice must work as they are written.
#[test]
fn the_advice_names_the_ref_that_is_known_or_the_one_that_was_written() {
    let help =
        |text: &str, under: Option<&str>| refused(commit(text, Lookup { under, ..LOOKUP })).1;
    let asks = |name: &str| format!("`git ls-remote https://a/b {name} '{name}^{{}}'` prints it");
    assert!(help("main", Some("v1")).contains(&asks("v1")));
    assert!(help("main", None).contains(&asks("main")), "the name is a ref");
    assert!(help("todo", None).contains(&asks("TAG")), "the word is not a ref");
    assert!(help(&digits(6), None).contains(&asks("TAG")), "digits are not a ref");
    assert!(help("a b", None).contains(&asks("TAG")), "a space is not in a ref");
    assert!(
        refused(digest("x", Lookup { under: None, ..LOOKUP }))
            .1
            .contains("`skopeo inspect docker://https://a/b:TAG`")
    );
    assert!(
        refused(sha256("todo", Lookup { under: None, ..LOOKUP })).1.contains("https://a/b VERSION")
    );
}

#[test]
fn a_digest_needs_its_algorithm_and_all_its_digits() {
    let hash = digits(64);
    for (text, told, help) in [
        (
            format!("a/b@sha256:{hash}"),
            "is a full reference, not a digest",
            format!("write the part after the `@`: `sha256:{hash}`"),
        ),
        (hash.clone(), "has no algorithm prefix", format!("write `sha256:{hash}`")),
        (
            digits(12),
            "is not a digest",
            "a digest is `sha256:` and 64 digits, not an image ID; ".to_owned(),
        ),
        (hash.to_ascii_uppercase(), "is not a digest", "a digest is `sha256:`".to_owned()),
        (
            "v1".to_owned(),
            "is not a digest, but a tag or other name, which can move",
            "write it in `tag`".to_owned(),
        ),
        (
            format!("sha512:{}", digits(128)),
            "uses an algorithm other than sha256",
            "registries support only sha256".to_owned(),
        ),
        (
            format!("sha256:{}", hash.to_ascii_uppercase()),
            "has upper-case digits",
            format!("write `sha256:{hash}`"),
        ),
        (
            format!("sha256:{}", digits(63)),
            "is truncated; 1 of 64 digits is missing",
            "write the full value; ".to_owned(),
        ),
        (
            format!("sha256:{}…", digits(10)),
            "is truncated; 54 of 64 digits are missing",
            "write the full value; ".to_owned(),
        ),
        (
            format!("sha256:{}", digits(65)),
            "has 65 digits; a SHA-256 has 64",
            "copy it again".to_owned(),
        ),
        (
            format!("sha256:{}g", digits(63)),
            "contains `g` instead of a hexadecimal digit",
            "a SHA-256 has 64 digits".to_owned(),
        ),
    ] {
        let (said, advice) = refused(digest(&text, LOOKUP));
        assert!(said.ends_with(told), "{text}: {said}");
        assert!(advice.starts_with(&help), "{text}: {advice}");
    }
}

#[test]
fn a_hash_of_an_archive_has_only_digits() {
    let hash = digits(64);
    for prefix in ["sha256:", "sha256="] {
        assert_eq!(
            refused(sha256(&format!("{prefix}{hash}"), LOOKUP)).1,
            format!("the key already names the algorithm; write only the digits: `{hash}`")
        );
    }
    assert_eq!(refused(sha256(&hash.to_ascii_uppercase(), LOOKUP)).1, format!("write `{hash}`"));
    assert!(message(sha256(&digits(40), LOOKUP)).ends_with("24 of 64 digits are missing"));
    assert!(
        message(sha256("a b", LOOKUP)).ends_with("contains a space instead of a hexadecimal digit")
    );
    assert!(
        message(sha256("", LOOKUP)).ends_with("contains a space instead of a hexadecimal digit")
    );
    assert!(refused(sha256(&digits(40), LOOKUP)).1.contains("`build-pipeline bump p v1`"));
}
