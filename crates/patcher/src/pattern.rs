//! Regular expressions with limits on time and memory.

use std::ops::Range;

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::hir::{Hir, HirKind};

/// The longest accepted pattern. The longest pattern in this project has 300 bytes.
pub const MAX_PATTERN_BYTES: usize = 4096;

/// The memory limit of a compiled pattern. Patterns in this project need at most 30 kB.
const MAX_COMPILED_BYTES: usize = 256 * 1024;

/// A compiled pattern. `^` and `$` match at the start and end of each line; classes such as `\w`
/// are ASCII.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    regex: Regex,
}

impl Pattern {
    /// Compiles a pattern. The error is one line with the reason why it cannot be used.
    pub(crate) fn new(source: &str) -> Result<Self, String> {
        if source.len() > MAX_PATTERN_BYTES {
            return Err(format!(
                "the pattern has {} bytes; the maximum is {MAX_PATTERN_BYTES}",
                source.len()
            ));
        }
        let built = RegexBuilder::new(source)
            .multi_line(true)
            .unicode(false)
            .size_limit(MAX_COMPILED_BYTES)
            .dfa_size_limit(MAX_COMPILED_BYTES)
            .nest_limit(50)
            .build();
        match built {
            Ok(regex) => Ok(Self { regex }),
            Err(regex::Error::CompiledTooBig(limit)) => {
                Err(format!("the pattern needs more than {limit} bytes when compiled"))
            }
            Err(error) => {
                let text = error.to_string();
                let reason = text.lines().last().unwrap_or_default();
                Err(reason.trim_start_matches("error: ").to_owned())
            }
        }
    }

    /// Returns whether the pattern has a group of that name.
    pub(crate) fn has_group(&self, name: &str) -> bool {
        self.regex.capture_names().flatten().any(|group| group == name)
    }

    /// Returns whether the pattern matches anywhere in `bytes`.
    pub(crate) fn is_in(&self, bytes: &[u8]) -> bool {
        self.regex.is_match(bytes)
    }

    /// Returns how often the pattern matches; counting stops at `limit`.
    pub(crate) fn count(&self, bytes: &[u8], limit: usize) -> usize {
        self.regex.find_iter(bytes).take(limit).count()
    }

    /// Returns the first `limit` matches, each with the range of the group `name`.
    ///
    /// Finding all matches takes quadratic time on hostile input, so there is always a limit.
    pub(crate) fn find(&self, bytes: &[u8], name: &str, limit: usize) -> Vec<Match> {
        let matches = self.regex.captures_iter(bytes).take(limit);
        matches
            .filter_map(|captures| {
                let whole = captures.get(0)?.range();
                Some(Match { whole, group: captures.name(name).map(|group| group.range()) })
            })
            .collect()
    }
}

/// A place where a pattern matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Match {
    pub(crate) whole: Range<usize>,
    pub(crate) group: Option<Range<usize>>,
}

/// Returns whether the pattern matches the empty string. Such an anchor does not mark a place.
pub(crate) fn matches_nothing(source: &str) -> bool {
    syntax(source).is_some_and(|hir| hir.properties().minimum_len() == Some(0))
}

/// Returns the literal texts in a pattern, in order, to search for a near miss.
pub(crate) fn literals(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(hir) = syntax(source) {
        collect(&hir, &mut found);
    }
    found
}

fn syntax(source: &str) -> Option<Hir> {
    let mut parser = regex_syntax::ParserBuilder::new()
        .multi_line(true)
        .unicode(false)
        .utf8(false)
        .nest_limit(50)
        .build();
    parser.parse(source).ok()
}

/// Adds the literal texts in an expression to `found`. The parser's `nest_limit` bounds the depth
/// of the recursion.
fn collect(hir: &Hir, found: &mut Vec<String>) {
    match hir.kind() {
        HirKind::Literal(literal) => found.push(String::from_utf8_lossy(&literal.0).into_owned()),
        HirKind::Repetition(repetition) => collect(&repetition.sub, found),
        HirKind::Capture(capture) => collect(&capture.sub, found),
        HirKind::Concat(parts) => parts.iter().for_each(|part| collect(part, found)),
        HirKind::Alternation(parts) => parts.iter().take(1).for_each(|part| collect(part, found)),
        HirKind::Empty | HirKind::Class(_) | HirKind::Look(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costly_patterns_are_refused() {
        for source in [
            "(a{1000}){1000}",
            "(?:a|b|c|d|e){9999}",
            &"a".repeat(5000),
            &"(".repeat(100),
            r"[\w-\x{ff}",
        ] {
            assert!(Pattern::new(source).is_err(), "{source}");
        }
        assert!(Pattern::new("(?=look)").unwrap_err().contains("look-around"));
        assert!(Pattern::new(r"(a)\1").unwrap_err().contains("backreferences"));
    }

    #[test]
    fn lines_have_ends_and_matches_have_a_limit() {
        let pattern = Pattern::new("^(?P<list>x+)$").unwrap();
        let found = pattern.find(b"x\nxx\nyx\nxxx", "list", 2);
        assert_eq!(found.len(), 2);
        assert_eq!(found[1], Match { whole: 2..4, group: Some(2..4) });
        assert_eq!(pattern.count(b"x\nxx\nyx\nxxx", 9), 3);
        assert!(matches_nothing("x*") && !matches_nothing("x"));
    }

    #[test]
    fn literals_are_what_a_reader_would_look_for() {
        let found = literals(r#"^[ \t]*set\([ \t]*HIP_ARCHS[ \t]+"(?P<list>gfx[0-9a-f]+)"#);
        assert_eq!(found, ["set(", "HIP_ARCHS", "\"", "gfx"]);
    }

    #[test]
    fn refusals_are_one_line_with_the_reason() {
        for (source, reason) in [
            ("(a", "unclosed group"),
            ("a\\", "incomplete escape sequence, reached end of pattern prematurely"),
            ("a{2,1}", "invalid repetition count range, the start must be <= the end"),
            ("(a{1000}){1000}", "the pattern needs more than 262144 bytes when compiled"),
        ] {
            assert_eq!(Pattern::new(source).unwrap_err(), reason, "{source}");
        }
        let longest = "a".repeat(MAX_PATTERN_BYTES);
        assert!(Pattern::new(&longest).is_ok());
        assert_eq!(
            Pattern::new(&format!("{longest}a")).unwrap_err(),
            "the pattern has 4097 bytes; the maximum is 4096"
        );
    }

    #[test]
    fn groups_are_bytes_and_classes_are_ascii() {
        assert!(!Pattern::new(r"^\w$").unwrap().is_in("\u{e4}".as_bytes()));
        assert!(Pattern::new("^..$").unwrap().is_in("\u{e4}".as_bytes()));
        assert!(Pattern::new(r"\xff").unwrap().is_in(b"a\xffb"));
        let pattern = Pattern::new("(?P<list>a)|(?P<value>b)").unwrap();
        assert!(pattern.has_group("list") && pattern.has_group("value"));
        assert!(!pattern.has_group("lis") && !pattern.has_group(""));
        let found = pattern.find(b"ba", "list", 9);
        assert_eq!(found[0], Match { whole: 0..1, group: None });
        assert_eq!(found[1], Match { whole: 1..2, group: Some(1..2) });
        assert_eq!((pattern.count(b"abab", 3), pattern.count(b"abab", 4)), (3, 4));
        assert_eq!(pattern.find(b"abab", "", 3).len(), 3);
    }

    #[test]
    fn an_anchor_of_optional_parts_matches_nothing() {
        for source in ["", "a?", "(?:a|b*)", "^", "^$", "(a*)(b*)", r"\b"] {
            assert!(matches_nothing(source), "{source}");
        }
        for source in ["a", "a+", "(?:a|b)", "^a$", "a*b", "("] {
            assert!(!matches_nothing(source), "{source}");
        }
    }

    #[test]
    fn literals_of_repetitions_groups_and_the_first_alternative_count() {
        assert_eq!(literals("(?:one|two)three"), ["one", "three"]);
        assert_eq!(literals("(?P<list>ab)(?:cd)*[xyz]"), ["ab", "cd"]);
        assert_eq!(literals("("), Vec::<String>::new());
    }
}
