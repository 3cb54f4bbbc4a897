//! Ranges of releases, as the compatibility table writes them.
//!
//! Start at [`Releases`]. A bound includes every release that starts with it, because tables write
//! `7.1` for both 7.1.0 and 7.1.1.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// The text is not a range of releases.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a range of releases; write `7.2.1 to 7.2.4`, `7.1`, `20260110 or newer` or `0.20 or older`"
)]
pub struct ParseReleasesError(String);

/// A range of releases: `7.2.1 to 7.2.4`, `7.1`, `20260110 or newer`, `0.20 or older`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Releases {
    text: String,
    from: Option<Release>,
    to: Option<Release>,
}

/// A release as numbers: its dotted parts, and the stamp of a pre-release.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Release {
    numbers: Vec<u64>,
    /// `a20260609` sorts before the release itself, `post1` after it.
    stamp: Option<(Stage, u64)>,
}

/// The stage of a release, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Dev,
    Alpha,
    Beta,
    Candidate,
    Final,
    Post,
}

impl FromStr for Releases {
    type Err = ParseReleasesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = || ParseReleasesError(text.to_owned());
        let release = |part: &str| Release::read(part).ok_or_else(refuse);
        let (from, to) = if let Some((from, to)) = text.split_once(" to ") {
            (Some(release(from)?), Some(release(to)?))
        } else if let Some(from) = text.strip_suffix(" or newer") {
            (Some(release(from)?), None)
        } else if let Some(to) = text.strip_suffix(" or older") {
            (None, Some(release(to)?))
        } else {
            (Some(release(text)?), Some(release(text)?))
        };
        if let (Some(from), Some(to)) = (&from, &to)
            && from.compare(to) == Ordering::Greater
        {
            return Err(refuse());
        }
        Ok(Self { text: text.to_owned(), from, to })
    }
}

impl fmt::Display for Releases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Releases {
    /// Returns whether the range contains `release`. A leading `v` and a trailing `+…` are ignored;
    /// a text that is not a release is in no range.
    pub fn contains(&self, release: &str) -> bool {
        let Some(release) = Release::read(release) else { return false };
        self.from.as_ref().is_none_or(|from| release.compare(from) != Ordering::Less)
            && self.to.as_ref().is_none_or(|to| release.compare(to) != Ordering::Greater)
    }
}

impl Releases {
    /// Returns whether every release of the range is older than `release`.
    pub fn end_before(&self, release: &str) -> bool {
        let (Some(to), Some(release)) = (&self.to, Release::read(release)) else { return false };
        release.compare(to) == Ordering::Greater
    }

    /// Returns whether the range contains any release that starts with `prefix`: `7.2` means all
    /// releases 7.2.*, so `7.2.1 or newer` may contain it. A text that is not a release is in no
    /// range.
    pub fn may_contain(&self, prefix: &str) -> bool {
        let Some(prefix) = Release::read(prefix) else { return false };
        self.from.as_ref().is_none_or(|from| prefix.compare_common(from) != Ordering::Less)
            && self.to.as_ref().is_none_or(|to| prefix.compare_common(to) != Ordering::Greater)
    }
}

impl Release {
    /// Parses `7.14.0a20260608`, `v0.11.1rc2`, `2.11.0+rocm7.14.0`, `20251125`.
    fn read(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let text = text.split('+').next().unwrap_or_default();
        if text.len() > 100 {
            return None;
        }
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
        let (release, stamp) = text.split_at(end);
        // `0.10.2.post1` has a dot before the stamp.
        let release = if stamp.is_empty() { release } else { release.trim_end_matches('.') };
        let numbers: Option<Vec<u64>> = release.split('.').map(|part| part.parse().ok()).collect();
        Some(Self { numbers: numbers?, stamp: read_stamp(stamp)? })
    }

    /// Compares with a bound: only as many numbers as the bound has, and the stamp only if the
    /// bound has one.
    fn compare(&self, bound: &Self) -> Ordering {
        let at = |index: usize| self.numbers.get(index).copied().unwrap_or(0);
        let own: Vec<u64> = (0..bound.numbers.len()).map(at).collect();
        own.cmp(&bound.numbers).then_with(|| self.compare_stamp(bound))
    }

    /// Compares only the numbers that both have. Used for a prefix such as `7.2`, which means all
    /// releases that start with it.
    fn compare_common(&self, bound: &Self) -> Ordering {
        let both = self.numbers.len().min(bound.numbers.len());
        let is_whole = self.numbers.len() >= bound.numbers.len();
        self.numbers[..both]
            .cmp(&bound.numbers[..both])
            .then_with(|| if is_whole { self.compare_stamp(bound) } else { Ordering::Equal })
    }

    fn compare_stamp(&self, bound: &Self) -> Ordering {
        let stage = |stamp: Option<(Stage, u64)>| stamp.unwrap_or((Stage::Final, 0));
        match bound.stamp {
            Some(_) => stage(self.stamp).cmp(&stage(bound.stamp)),
            None => Ordering::Equal,
        }
    }
}

/// Parses the text after the numbers of a release; an empty string means no stamp.
fn read_stamp(text: &str) -> Option<Option<(Stage, u64)>> {
    if text.is_empty() {
        return Some(None);
    }
    let letters = text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len());
    let (name, number) = text.split_at(letters);
    let stage = match name {
        "dev" => Stage::Dev,
        "a" | "alpha" => Stage::Alpha,
        "b" | "beta" => Stage::Beta,
        "rc" => Stage::Candidate,
        "post" => Stage::Post,
        _ => return None,
    };
    // `2.13.0a0.dev1` is so rare that its first number is enough.
    let number = number.split('.').next().unwrap_or_default();
    Some(Some((stage, if number.is_empty() { 0 } else { number.parse().ok()? })))
}

/// Compares two kernel releases by their numbers in order: `6.17.0-19.19~24.04.2` is newer than
/// `6.17.0-19-generic`. Extra numbers in one of them are ignored.
pub(crate) fn is_kernel_at_least(release: &str, since: &str) -> bool {
    let numbers = |text: &str| -> Vec<u64> {
        let parts = text.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
        parts.map(|part| part.parse().unwrap_or(u64::MAX)).collect()
    };
    let (own, since) = (numbers(release), numbers(since));
    let both = own.len().min(since.len());
    !own.is_empty() && own[..both] >= since[..both]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_what_begins_with_its_bounds_and_all_between() {
        for (range, inside, outside) in [
            (
                "7.2.1 to 7.2.4",
                &["7.2.1", "7.2.3", "7.2.4", "7.2.4.1", "v7.2.2"][..],
                &["7.2.0", "7.2", "7.2.5", "7.20.1", "7.3", "x", ""][..],
            ),
            ("7.1", &["7.1", "7.1.0", "7.1.1", "7.1.1rc2"], &["7.10", "7.11", "7.0.2", "7.2.1"]),
            (
                "7.11 to 7.14.1",
                &["7.11.0", "7.12", "7.14.0", "7.14.1", "7.14.0a20260608"],
                &["7.10.9", "7.14.2", "7.9", "10.0"],
            ),
            (
                "7.14.0a20260609 to 7.14.0a20260612",
                &["7.14.0a20260609", "7.14.0a20260610", "7.14.0a20260612"],
                &["7.14.0a20260608", "7.14.0a20260613", "7.14.0", "7.14.0rc1", "7.14.1a20260610"],
            ),
            ("20260110 or newer", &["20260110", "20260501"], &["20251125", "20251111"]),
            ("0.20 or older", &["0.20.3", "0.10.2", "0.6.6.post1"], &["0.21.0", "1.0"]),
            ("2.11 or newer", &["2.11.0+rocm7.14.0", "2.12", "3"], &["2.9.1", "2.10.0"]),
        ] {
            let parsed: Releases = range.parse().unwrap();
            assert_eq!(parsed.to_string(), range);
            for release in inside {
                assert!(parsed.contains(release), "{range} has {release}");
            }
            for release in outside {
                assert!(!parsed.contains(release), "{range} does not contain {release}");
            }
        }
    }

    #[test]
    fn a_short_release_means_all_that_start_with_it() {
        for (range, inside, outside) in [
            ("7.2.1 or newer", &["7", "7.2", "7.2.1", "7.3", "10"][..], &["7.1", "7.2.0", "6"][..]),
            ("7.2.1 to 7.2.4", &["7", "7.2", "7.2.4"], &["7.3", "7.1", "8"]),
            ("10 or newer", &["10", "10.1", "10.0.0", "11"], &["7.14", "9"]),
            ("6.4", &["6", "6.4", "6.4.1"], &["7", "6.3", "x", ""]),
        ] {
            let parsed: Releases = range.parse().unwrap();
            for release in inside {
                assert!(parsed.may_contain(release), "{range} may have {release}");
            }
            for release in outside {
                assert!(!parsed.may_contain(release), "{range} cannot have {release}");
            }
        }
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in
            ["", "to", "7.2.4 to 7.2.1", "7..1", ".7", "7.x", ">=7.2", "7.1 or more", "7.1-2"]
        {
            assert!(text.parse::<Releases>().is_err(), "{text}");
        }
    }

    #[test]
    fn kernels_are_compared_by_their_numbers() {
        for (release, since, is_at_least) in [
            ("6.18.4", "6.18.4", true),
            ("6.18.4-200.fc43.x86_64", "6.18.4", true),
            ("6.18.10-1-amd64", "6.18.4", true),
            ("7.0.0-12-generic", "6.18.4", true),
            ("6.18.3-arch1-1", "6.18.4", false),
            ("6.17.0-19-generic", "6.18.4", false),
            ("6.17.0-19.19~24.04.2", "6.17.0-19.19~24.04.2", true),
            ("6.17.0-19.19~24.04.1", "6.17.0-19.19~24.04.2", false),
            ("6.17.0-20.20~24.04.1", "6.17.0-19.19~24.04.2", true),
            ("6.17.0-14.14~24.04.1", "6.17.0-19.19~24.04.2", false),
            ("6.14.0-1018-oem", "6.14.0-1018", true),
            ("6.14.0-1017-oem", "6.14.0-1018", false),
            ("", "6.18.4", false),
        ] {
            assert_eq!(is_kernel_at_least(release, since), is_at_least, "{release} ≥ {since}");
        }
    }
}
