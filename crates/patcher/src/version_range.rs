//! Ranges of versions, and a check that several of them cover a range without gaps or overlaps.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Bound;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use names::{ParseVersionError, Version};

/// A contiguous range of versions: `>=0.9.0, <0.11.1`, `==0.10.2`, or `*` for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionRange {
    lower: Bound<Version>,
    upper: Bound<Version>,
}

/// The position of a version relative to a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// Before the lower bound.
    Below,
    /// In the range.
    Inside,
    /// After the upper bound.
    Above,
}

impl FromStr for VersionRange {
    type Err = ParseVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut range = Self::all();
        if text.trim() == "*" {
            return Ok(range);
        }
        for part in text.split(',').map(str::trim) {
            let end = part.find(|c: char| !matches!(c, '<' | '>' | '=')).unwrap_or(part.len());
            let version = || part[end..].trim().parse::<Version>();
            let (lower, upper) = match &part[..end] {
                ">=" => (Bound::Included(version()?), Bound::Unbounded),
                ">" => (Bound::Excluded(version()?), Bound::Unbounded),
                "<=" => (Bound::Unbounded, Bound::Included(version()?)),
                "<" => (Bound::Unbounded, Bound::Excluded(version()?)),
                "==" => (Bound::Included(version()?), Bound::Included(version()?)),
                _ => return Err(ParseVersionError::Operator(part.to_owned())),
            };
            for (side, bound) in [(&mut range.lower, lower), (&mut range.upper, upper)] {
                match (&*side, &bound) {
                    (_, Bound::Unbounded) => {}
                    (Bound::Unbounded, _) => *side = bound,
                    _ => return Err(ParseVersionError::Twice(text.to_owned())),
                }
            }
        }
        if range.is_empty() { Err(ParseVersionError::Empty(text.to_owned())) } else { Ok(range) }
    }
}

impl VersionRange {
    /// Returns the range that contains every version.
    pub fn all() -> Self {
        Self { lower: Bound::Unbounded, upper: Bound::Unbounded }
    }

    /// Returns the position of `version`.
    pub fn position(&self, version: &Version) -> Position {
        let is_below = match &self.lower {
            Bound::Included(lower) => version < lower,
            Bound::Excluded(lower) => version <= lower,
            Bound::Unbounded => false,
        };
        let is_above = match &self.upper {
            Bound::Included(upper) => version > upper,
            Bound::Excluded(upper) => version >= upper,
            Bound::Unbounded => false,
        };
        match (is_below, is_above) {
            (true, _) => Position::Below,
            (false, true) => Position::Above,
            (false, false) => Position::Inside,
        }
    }

    /// Returns whether the range has a lower bound.
    pub fn has_lower(&self) -> bool {
        self.lower != Bound::Unbounded
    }

    /// Returns whether the range has an upper bound.
    pub fn has_upper(&self) -> bool {
        self.upper != Bound::Unbounded
    }

    fn is_empty(&self) -> bool {
        match (&self.lower, &self.upper) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(lower), Bound::Included(upper)) => lower > upper,
            (
                Bound::Included(lower) | Bound::Excluded(lower),
                Bound::Included(upper) | Bound::Excluded(upper),
            ) => lower >= upper,
        }
    }

    /// Returns the first gap or overlap if `parts` do not cover every version in `self` once.
    pub(crate) fn division_fault(&self, parts: &[&Self]) -> Option<String> {
        let mut parts = parts.to_vec();
        parts.sort_by(|a, b| compare_lower(&a.lower, &b.lower));
        let first = parts.first()?;
        if compare_lower(&first.lower, &self.lower) == Ordering::Greater {
            return Some(format!("no count for the versions below `{first}`"));
        }
        for pair in parts.windows(2) {
            match meets(&pair[0].upper, &pair[1].lower) {
                Ordering::Equal => {}
                Ordering::Less => {
                    return Some(format!("no count between `{}` and `{}`", pair[0], pair[1]));
                }
                Ordering::Greater => {
                    return Some(format!("`{}` and `{}` overlap", pair[0], pair[1]));
                }
            }
        }
        let last = parts.last()?;
        let reaches = match (&last.upper, &self.upper) {
            (Bound::Unbounded, _) => true,
            (_, Bound::Unbounded) => false,
            (Bound::Included(a), Bound::Included(b) | Bound::Excluded(b))
            | (Bound::Excluded(a), Bound::Excluded(b)) => a >= b,
            (Bound::Excluded(a), Bound::Included(b)) => a > b,
        };
        if reaches { None } else { Some(format!("no count for the versions above `{last}`")) }
    }
}

fn compare_lower(a: &Bound<Version>, b: &Bound<Version>) -> Ordering {
    match (a, b) {
        (Bound::Unbounded, Bound::Unbounded) => Ordering::Equal,
        (Bound::Unbounded, _) => Ordering::Less,
        (_, Bound::Unbounded) => Ordering::Greater,
        (Bound::Included(a), Bound::Included(b)) | (Bound::Excluded(a), Bound::Excluded(b)) => {
            a.cmp(b)
        }
        (Bound::Included(a), Bound::Excluded(b)) => a.cmp(b).then(Ordering::Less),
        (Bound::Excluded(a), Bound::Included(b)) => a.cmp(b).then(Ordering::Greater),
    }
}

/// Returns `Equal` if the next range starts exactly where the last one ends, `Less` if there is a
/// gap between them, and `Greater` if they overlap.
fn meets(upper: &Bound<Version>, next_lower: &Bound<Version>) -> Ordering {
    match (upper, next_lower) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => Ordering::Greater,
        (Bound::Included(a), Bound::Excluded(b)) | (Bound::Excluded(a), Bound::Included(b)) => {
            a.cmp(b)
        }
        (Bound::Included(a), Bound::Included(b)) => a.cmp(b).then(Ordering::Greater),
        (Bound::Excluded(a), Bound::Excluded(b)) => a.cmp(b).then(Ordering::Less),
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lower = match &self.lower {
            Bound::Included(version) => Some((">=", version)),
            Bound::Excluded(version) => Some((">", version)),
            Bound::Unbounded => None,
        };
        let upper = match &self.upper {
            Bound::Included(version) => Some(("<=", version)),
            Bound::Excluded(version) => Some(("<", version)),
            Bound::Unbounded => None,
        };
        match (lower, upper) {
            (None, None) => f.write_str("*"),
            (Some((">=", lower)), Some(("<=", upper))) if lower == upper => write!(f, "=={lower}"),
            (Some((a, lower)), Some((b, upper))) => write!(f, "{a}{lower}, {b}{upper}"),
            (Some((operator, version)), None) | (None, Some((operator, version))) => {
                write!(f, "{operator}{version}")
            }
        }
    }
}

impl Serialize for VersionRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn positions_are_those_of_the_bounds() {
        let range: VersionRange = ">=0.9.0, <0.11.1".parse().unwrap();
        for (text, position) in [
            ("0.8.5.post1", Position::Below),
            ("0.9.0rc1", Position::Below),
            ("0.9", Position::Inside),
            ("0.11.0", Position::Inside),
            ("0.11.1rc1", Position::Inside),
            ("0.11.1", Position::Above),
            ("0.33.0", Position::Above),
        ] {
            assert_eq!(range.position(&version(text)), position, "{text}");
        }
        assert_eq!(
            "==0.10.2".parse::<VersionRange>().unwrap().position(&version("0.10.2")),
            Position::Inside
        );
        assert_eq!(
            ">0.9".parse::<VersionRange>().unwrap().position(&version("0.9.0")),
            Position::Below
        );
        assert_eq!(
            "<=0.9".parse::<VersionRange>().unwrap().position(&version("0.9.0")),
            Position::Inside
        );
    }

    #[test]
    fn ranges_print_as_they_are_read_and_bad_ones_are_refused() {
        for text in ["*", ">=0.9.0, <0.11.1", "==0.10.2", ">1", "<=2.0rc1"] {
            assert_eq!(text.parse::<VersionRange>().unwrap().to_string(), text);
        }
        for text in
            ["", "0.9", "=0.9", "~=0.9", ">=0.9,", ">=1, >2", "<1, >1", ">1, <1", "==1, ==1", ">=x"]
        {
            assert!(text.parse::<VersionRange>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn divisions_have_neither_gaps_nor_overlaps() {
        let fault = |whole: &str, parts: &[&str]| {
            let parts: Vec<VersionRange> = parts.iter().map(|part| part.parse().unwrap()).collect();
            whole.parse::<VersionRange>().unwrap().division_fault(&parts.iter().collect::<Vec<_>>())
        };
        assert_eq!(fault("*", &["<0.20", ">=0.20"]), None);
        assert_eq!(fault("*", &["*"]), None);
        assert_eq!(fault(">=0.5, <0.30", &[">=0.20, <0.30", ">=0.5, <0.20"]), None);
        assert_eq!(fault("*", &["<=0.20", ">=0.20"]).unwrap(), "`<=0.20` and `>=0.20` overlap");
        assert_eq!(
            fault("*", &["<0.20", ">0.20"]).unwrap(),
            "no count between `<0.20` and `>0.20`"
        );
        assert_eq!(fault("*", &["<0.20"]).unwrap(), "no count for the versions above `<0.20`");
        assert_eq!(fault("*", &[">=0.20"]).unwrap(), "no count for the versions below `>=0.20`");
        assert_eq!(fault("<=0.20", &["<0.20"]).unwrap(), "no count for the versions above `<0.20`");
        assert_eq!(fault("<=0.20", &["<0.21"]), None);
    }

    /// Every kind of bound, on both sides of a division.
    #[test]
    fn neighbours_meet_only_where_one_side_includes_the_bound() {
        let fault = |whole: &str, parts: &[&str]| {
            let parts: Vec<VersionRange> = parts.iter().map(|part| part.parse().unwrap()).collect();
            whole.parse::<VersionRange>().unwrap().division_fault(&parts.iter().collect::<Vec<_>>())
        };
        assert_eq!(fault("*", &["<=1", ">1"]), None);
        assert_eq!(fault("*", &["<1", "==1", ">1"]), None);
        assert_eq!(fault("*", &[">1", "==1", "<1"]), None, "the order does not matter");
        assert_eq!(fault("*", &["<1", ">=1.1"]).unwrap(), "no count between `<1` and `>=1.1`");
        assert_eq!(fault("*", &["<=1", ">1.1"]).unwrap(), "no count between `<=1` and `>1.1`");
        assert_eq!(fault("*", &["<=1.1", ">1"]).unwrap(), "`<=1.1` and `>1` overlap");
        assert_eq!(fault("*", &["*", ">1"]).unwrap(), "`*` and `>1` overlap");
        assert_eq!(fault("*", &[">=1", "*"]).unwrap(), "`*` and `>=1` overlap");
        assert_eq!(fault("*", &["<2", ">=1, <3", ">=3"]).unwrap(), "`<2` and `>=1, <3` overlap");
        // A range that includes its bound starts before one that does not.
        for parts in [["<1", ">1", ">=1"], ["<1", ">=1", ">1"]] {
            assert_eq!(fault("*", &parts).unwrap(), "`>=1` and `>1` overlap");
        }
    }

    #[test]
    fn a_division_reaches_both_ends_of_the_range() {
        let fault = |whole: &str, part: &str| {
            let part: VersionRange = part.parse().unwrap();
            whole.parse::<VersionRange>().unwrap().division_fault(&[&part])
        };
        for (whole, part) in [
            (">=1", ">=1"),
            (">1", ">=1"),
            (">1", ">1"),
            (">=1", ">=0.9"),
            (">=1", "*"),
            ("<=1", "<=1"),
            ("<1", "<=1"),
            ("<1", "<1"),
            ("<=1", "<1.1"),
            ("<=1", "<=1.1"),
        ] {
            assert_eq!(fault(whole, part), None, "{whole} {part}");
        }
        for (whole, part, told) in [
            (">=1", ">1", "no count for the versions below `>1`"),
            (">=1", ">=1.1", "no count for the versions below `>=1.1`"),
            ("*", ">=0", "no count for the versions below `>=0`"),
            ("<=1", "<1", "no count for the versions above `<1`"),
            ("<1", "<=0.9", "no count for the versions above `<=0.9`"),
            ("<1.1", "<1", "no count for the versions above `<1`"),
            (">=1", "<2", "no count for the versions above `<2`"),
        ] {
            let found = fault(whole, part);
            assert_eq!(found.as_deref(), Some(told), "{whole} {part}");
        }
    }

    #[test]
    fn a_range_that_no_version_is_in_is_refused_with_its_rule() {
        let refused = |text: &str| text.parse::<VersionRange>().unwrap_err();
        assert!(matches!(refused(">=2, <1"), ParseVersionError::Empty(text) if text == ">=2, <1"));
        for text in [">1, <1", ">=1, <1", ">1, <=1", ">=1.1, <=1"] {
            assert!(matches!(refused(text), ParseVersionError::Empty(_)), "{text}");
        }
        assert_eq!(">=1, <=1".parse::<VersionRange>().unwrap().to_string(), "==1");
        assert!(matches!(refused("==1, <2"), ParseVersionError::Twice(_)));
        assert!(matches!(refused("=>1"), ParseVersionError::Operator(part) if part == "=>1"));
        let spaced: VersionRange = " < 2 ,>=  1 ".parse().unwrap();
        assert_eq!(spaced.to_string(), ">=1, <2");
        assert_eq!(" * ".parse::<VersionRange>().unwrap(), VersionRange::all());
    }

    #[test]
    fn a_range_knows_its_sides() {
        let sides = |text: &str| {
            let range: VersionRange = text.parse().unwrap();
            (range.has_lower(), range.has_upper())
        };
        assert_eq!(sides("*"), (false, false));
        assert_eq!((sides(">1"), sides(">=1")), ((true, false), (true, false)));
        assert_eq!((sides("<1"), sides("<=1")), ((false, true), (false, true)));
        assert_eq!((sides("==1"), sides(">1, <2")), ((true, true), (true, true)));
    }
}
