//! Versions: the part of PEP 440 that the release names of the patched projects use.
//!
//! `pep440_rs` is not used: its repository is archived (the code continues inside uv), and some
//! versions here do not come from Python packages (`b9010`, `v0.20.0-rc1`). The order is PEP 440's
//! total order, so `<0.11.1` contains `0.11.1rc1`: a patch is also tried on a release candidate,
//! and the candidate's source decides whether it applies.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// A version as upstream spells it, with PEP 440's order. The local part (`+rocm7.14`) is ignored.
#[derive(Debug, Clone)]
pub struct Version {
    text: String,
    key: Key,
}

/// The derived order of these fields is the order of PEP 440 ("Summary of permitted suffixes and
/// relative ordering").
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    epoch: u64,
    /// Without trailing zeros: `1.0` and `1.0.0` are the same release.
    release: Vec<u64>,
    pre: Pre,
    post: Option<u64>,
    dev: Dev,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Pre {
    /// Only `.devN` follows the release, so it sorts before every pre-release.
    DevOnly,
    Alpha(u64),
    Beta(u64),
    Candidate(u64),
    /// A final release, or a post-release of a final release.
    Final,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Dev {
    Numbered(u64),
    No,
}

/// The reason why a text is not a version or a version range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseVersionError {
    /// The text is not a version.
    #[error(
        "`{0}` is not a version; versions look like `0.11.1`, `0.6.6.post1`, `0.20.0rc1` or `b9010`"
    )]
    Version(String),
    /// A part of a range has no operator.
    #[error("`{0}` has no operator; a range is `*` or comma-separated parts like `>=0.9.0`")]
    Operator(String),
    /// Two parts of a range limit the same side.
    #[error("`{0}` limits the same side twice; a range has at most one lower and one upper bound")]
    Twice(String),
    /// The range contains no version.
    #[error("`{0}` contains no version; the lower bound is above the upper one")]
    Empty(String),
}

/// No released version is longer than this.
const MAX_VERSION: usize = 100;

impl FromStr for Version {
    type Err = ParseVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = || ParseVersionError::Version(text.to_owned());
        if text.len() > MAX_VERSION {
            return Err(refuse());
        }
        let lower = text.to_ascii_lowercase();
        let key = build_number(&lower).or_else(|| parse_key(&lower)).ok_or_else(refuse)?;
        Ok(Self { text: text.to_owned(), key })
    }
}

/// Parses a build number of llama.cpp, for example `b9010`.
fn build_number(text: &str) -> Option<Key> {
    let digits = text.strip_prefix('b').filter(|digits| is_digits(digits))?;
    Some(Key {
        epoch: 0,
        release: vec![digits.parse().ok()?],
        pre: Pre::Final,
        post: None,
        dev: Dev::No,
    })
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn parse_key(text: &str) -> Option<Key> {
    let (public, local) = match text.split_once('+') {
        Some((public, local)) => (public, Some(local)),
        None => (text, None),
    };
    let is_local = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
    };
    if local.is_some_and(|local| !is_local(local)) {
        return None;
    }
    let public = public.strip_prefix('v').unwrap_or(public);
    let (epoch, rest) = match public.split_once('!') {
        Some((epoch, rest)) if is_digits(epoch) => (epoch.parse().ok()?, rest),
        Some(_) => return None,
        None => (0, public),
    };
    let (release, rest) = release(rest)?;
    let mut suffix = Suffix(rest);
    let pre = suffix.take(&[
        ("alpha", 'a'),
        ("beta", 'b'),
        ("preview", 'c'),
        ("pre", 'c'),
        ("rc", 'c'),
        ("a", 'a'),
        ("b", 'b'),
        ("c", 'c'),
    ])?;
    let post = suffix.take(&[("post", 'p'), ("rev", 'p'), ("r", 'p')])?;
    let dev = suffix.take(&[("dev", 'd')])?;
    if !suffix.0.is_empty() {
        return None;
    }
    let post = post.map(|(_, number)| number);
    let pre = match (pre, post, &dev) {
        (Some(('a', number)), ..) => Pre::Alpha(number),
        (Some(('b', number)), ..) => Pre::Beta(number),
        (Some((_, number)), ..) => Pre::Candidate(number),
        (None, None, Some(_)) => Pre::DevOnly,
        (None, ..) => Pre::Final,
    };
    let dev = dev.map_or(Dev::No, |(_, number)| Dev::Numbered(number));
    Some(Key { epoch, release, pre, post, dev })
}

/// Splits `0.11.1rc1` into `[0, 11, 1]` and `rc1`.
fn release(text: &str) -> Option<(Vec<u64>, &str)> {
    let mut numbers = Vec::new();
    let mut rest = text;
    loop {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        numbers.push(rest[..end].parse().ok()?);
        rest = &rest[end..];
        match rest.strip_prefix('.') {
            Some(next) if next.starts_with(|c: char| c.is_ascii_digit()) => rest = next,
            _ => break,
        }
    }
    while numbers.last() == Some(&0) {
        numbers.pop();
    }
    Some((numbers, rest))
}

/// Parses the suffixes after the release numbers, from left to right.
struct Suffix<'t>(&'t str);

impl Suffix<'_> {
    /// Takes one part such as `.post1`. An outer `None` means a malformed number.
    fn take(&mut self, words: &[(&str, char)]) -> Option<Option<(char, u64)>> {
        let text = self.0.strip_prefix(['.', '-', '_']).unwrap_or(self.0);
        let Some((rest, letter)) =
            words.iter().find_map(|(word, letter)| Some((text.strip_prefix(word)?, *letter)))
        else {
            return Some(None);
        };
        let rest = rest.strip_prefix(['.', '-', '_']).unwrap_or(rest);
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number = if end == 0 { 0 } else { rest[..end].parse().ok()? };
        self.0 = &rest[end..];
        Some(Some((letter, number)))
    }
}

impl Version {
    /// Returns the version as it was spelt.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether this is a pre-release or a development release: `0.11.1rc1`, `1.0.dev3`.
    pub fn is_pre_release(&self) -> bool {
        self.key.pre != Pre::Final || self.key.dev != Dev::No
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Version {}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn a_version_is_shown_as_it_was_written() {
        for text in ["v0.20.0", "7.14.0a20260609", "b9010"] {
            assert_eq!(version(text).to_string(), text);
        }
    }

    #[test]
    fn a_version_has_at_most_100_characters() {
        for length in [MAX_VERSION, MAX_VERSION + 1, MAX_VERSION + 2] {
            let rest = ".1".repeat(49);
            let parsed = ("1".repeat(length - rest.len()) + &rest).parse::<Version>();
            assert_eq!(parsed.is_ok(), length == MAX_VERSION, "{length}");
        }
    }

    #[test]
    fn versions_are_in_the_order_of_pep_440() {
        let ordered = [
            "0",
            "0.6.6.dev1",
            "0.6.6a1.dev2",
            "0.6.6a1",
            "0.6.6b2",
            "0.6.6rc1",
            "0.6.6",
            "0.6.6.post1.dev3",
            "0.6.6.post1",
            "0.7",
            "0.10.2rc1",
            "0.10.2",
            "0.11.0",
            "0.20.0-rc2",
            "v0.20.0",
            "7.14.0a20260609",
            "7.14.0",
            "b9010",
            "1!0.1",
        ];
        for pair in ordered.windows(2) {
            assert!(version(pair[0]) < version(pair[1]), "{} < {}", pair[0], pair[1]);
        }
    }

    #[test]
    fn spellings_of_one_version_are_equal() {
        for (a, b) in [
            ("1.0", "1"),
            ("0.0", "0"),
            ("v0.20.0rc1", "0.20.0-RC.1"),
            ("2.8.0+rocm7.14", "2.8"),
            ("1.0.post", "1.0-r0"),
            ("1.0alpha1", "1.0a1"),
            ("1.0pre1", "1.0c1"),
            ("1.0-dev3", "1.0.dev3"),
            ("1.0_DEV-3", "1.0dev3"),
            ("1.0-dev", "1.0.dev0"),
            ("1.0rc1-dev2", "1.0rc1.dev2"),
        ] {
            assert_eq!(version(a), version(b));
        }
    }

    #[test]
    fn pre_releases_and_development_releases_are_no_final_releases() {
        for text in [
            "0.11.1rc1",
            "0.20.0-rc2",
            "1.0a1",
            "1.0-dev",
            "1.0.dev3",
            "1.0rc1-dev2",
            "1.post1-dev",
        ] {
            assert!(version(text).is_pre_release(), "{text}");
        }
        for text in ["0.11.1", "v0.20.0", "1.0.post1", "1.0-r2", "1.0+dev", "b9010"] {
            assert!(!version(text).is_pre_release(), "{text}");
        }
        for (earlier, later) in [("1.0-dev", "1.0a1"), ("1.0-dev", "1.0"), ("0.9", "1.0-dev")] {
            assert!(version(earlier) < version(later), "{earlier} < {later}");
        }
    }

    #[test]
    fn other_texts_are_no_versions() {
        for text in [
            "",
            "v",
            "main",
            "0.11.1-12-gabc",
            "1..0",
            "1.0+",
            "1.0+a b",
            "b",
            "bb1",
            "1!",
            "!1",
            "b+1",
            "+1!1.0",
            "1.0.post1.post2",
            "99999999999999999999999",
            "１.0",
            "0.1 ",
            &"1".repeat(101),
        ] {
            assert!(text.parse::<Version>().is_err(), "{text:?}");
        }
    }
}
