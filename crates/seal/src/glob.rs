//! Path patterns for scrub lists.

use std::fmt;
use std::str::FromStr;

use crate::path::EntryPath;

/// A pattern of paths in an image. `*` and `?` match characters within a component, and the
/// component `**` matches any number of components, including none. A pattern that matches a
/// directory includes everything in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Glob(String);

/// The error for a string that is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a pattern for a path in the image: write a relative path without the components `.` and `..`, and without `[`"
)]
pub struct ParseGlobError(String);

impl FromStr for Glob {
    type Err = ParseGlobError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_component =
            |part: &str| !matches!(part, "" | "." | "..") && (part == "**" || !part.contains("**"));
        // In other pattern languages, brackets mean a set. They are refused to avoid confusion.
        if !text.contains(['[', '\0']) && text.split('/').all(is_component) {
            Ok(Self(text.to_owned()))
        } else {
            Err(ParseGlobError(text.to_owned()))
        }
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Glob {
    /// Returns whether the pattern matches the path itself.
    pub fn matches(&self, path: &EntryPath) -> bool {
        let parts: Vec<&[u8]> = self.0.split('/').map(str::as_bytes).collect();
        let names: Vec<&[u8]> = path.as_bytes().split(|byte| *byte == b'/').collect();
        wild(
            &parts,
            &names,
            |part| *part == b"**",
            |part, name| {
                wild(part, name, |sign| *sign == b'*', |sign, byte| *sign == b'?' || sign == byte)
            },
        )
    }
}

/// Matches a pattern in which some items match any number of items. Only the last such item is ever
/// retried, so the time is limited by the product of both lengths.
fn wild<P, T>(
    pattern: &[P],
    items: &[T],
    is_any: impl Fn(&P) -> bool,
    fits: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut retry = None;
    while from < items.len() {
        match pattern.get(at) {
            Some(sign) if is_any(sign) => {
                retry = Some((at + 1, from));
                at += 1;
            }
            Some(sign) if fits(sign, &items[from]) => {
                at += 1;
                from += 1;
            }
            _ => {
                let Some((after, start)) = retry else { return false };
                retry = Some((after, start + 1));
                (at, from) = (after, start + 1);
            }
        }
    }
    pattern[at..].iter().all(is_any)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        let path = EntryPath::parse(path.as_bytes()).unwrap();
        pattern.parse::<Glob>().unwrap().matches(&path)
    }

    #[test]
    fn patterns_match_what_they_say() {
        assert!(matches("etc/hosts", "etc/hosts"));
        assert!(!matches("etc/hosts", "etc/hosts2"));
        assert!(matches("var/cache/apt/*.bin", "var/cache/apt/pkgcache.bin"));
        assert!(!matches("var/*/apt", "var/lib/x/apt"));
        assert!(!matches("var/*", "var"));
        assert!(matches("**/*.log", "a.log"));
        assert!(matches("**/*.log", "var/x/a.log"));
        assert!(matches("root/.cache/**", "root/.cache/pip/x"));
        assert!(matches("a/**/b/*/c", "a/x/b/y/b/z/c"));
        assert!(!matches("a/**/b", "a/x/bb"));
        assert!(matches("*a*a*b", "aaaaab"));
        assert!(!matches("*a*a*b", "aaaaac"));
        assert!(matches("dnf.?pm.log*", "dnf.rpm.log.1"));
    }

    #[test]
    fn a_pattern_that_could_mean_something_else_is_refused() {
        for text in ["", "/etc", "etc/", "a//b", "../x", "./x", "a**", "[ab]"] {
            assert_eq!(text.parse::<Glob>(), Err(ParseGlobError(text.to_owned())));
        }
    }
}
