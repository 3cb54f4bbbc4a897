//! Validated strings that identify sources: git refs, and paths inside a tree.

use std::fmt;
use std::str::FromStr;

use crate::text;

/// The maximum length of a path inside a tree, in bytes, as in Linux.
const MAX_PATH: usize = 4096;
/// The maximum length of a file or directory name, in bytes, as in common file systems.
const MAX_NAME: usize = 255;

/// Why a string is not a valid git ref, path or URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text} {why}")]
pub struct ParseSourceError {
    /// The given text, sanitised for display.
    text: String,
    /// The reason.
    why: String,
}

impl ParseSourceError {
    pub(crate) fn new(text: &str, why: impl Into<String>) -> Self {
        Self { text: text::quoted(text), why: why.into() }
    }
}

/// The name of a tag or branch, short (`v0.11.0`) or full (`refs/tags/v0.11.0`), or `HEAD`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GitRef(String);

impl GitRef {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the full names that this can refer to. The first one that exists is used. Tags come
    /// first, as in git.
    pub(crate) fn candidates(&self) -> Vec<String> {
        let name = &self.0;
        if name.starts_with("refs/") || name == "HEAD" {
            vec![name.clone()]
        } else {
            vec![format!("refs/tags/{name}"), format!("refs/heads/{name}")]
        }
    }
}

impl FromStr for GitRef {
    type Err = ParseSourceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |why: &str| Err(ParseSourceError::new(text, why));
        if matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return refuse("is a commit, not a tag or branch");
        }
        if text.contains("..") {
            return refuse("is a range of commits, not a tag or branch");
        }
        let is_part =
            |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
        let is_valid = text.len() <= 201
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._/+-".contains(&b))
            && !text.ends_with('.')
            && text.split('/').all(is_part);
        if is_valid {
            Ok(Self(text.to_owned()))
        } else {
            refuse(
                "is not a valid tag or branch name; use letters, digits and `.` `_` `/` `+` `-`, with a letter or digit first and at most 201 characters",
            )
        }
    }
}

impl fmt::Display for GitRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for GitRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A path inside a tree: relative, UTF-8, without `.` and `..`, and without control characters.
///
/// No part of it is `.git` in any letter case, because a tree that contains a repository could run
/// commands when someone works in it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreePath(Box<str>);

impl TreePath {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns this path, followed by a slash and `name`.
    pub(crate) fn join(&self, name: &Self) -> Result<Self, ParseSourceError> {
        let text = format!("{self}/{name}");
        // All other rules hold for both parts, and therefore for the joined path.
        if text.len() <= MAX_PATH { Ok(Self(text.into())) } else { text.parse() }
    }

    /// Returns the parent directories of the path, outermost first.
    pub(crate) fn parents(&self) -> impl Iterator<Item = &str> {
        self.0.match_indices('/').map(|(end, _)| &self.0[..end])
    }

    /// Parses a path from bytes, as in trees and archives.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, ParseSourceError> {
        match std::str::from_utf8(bytes) {
            Ok(text) => text.parse(),
            Err(_) => {
                let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_PATH)]);
                Err(ParseSourceError::new(&shown, "is a path that is not UTF-8"))
            }
        }
    }
}

impl FromStr for TreePath {
    type Err = ParseSourceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |why: &str| Err(ParseSourceError::new(text, why));
        if text.len() > MAX_PATH {
            return refuse("is a path of more than 4096 bytes");
        }
        if text.starts_with('/') {
            return refuse("is an absolute path");
        }
        if text.chars().any(char::is_control) {
            return refuse("is a path with control characters");
        }
        for part in text.split('/') {
            match part {
                ".." => return refuse("is a path that leaves its root"),
                "" | "." => return refuse("is a path with an empty part or a `.`"),
                _ if part.len() > MAX_NAME => {
                    return refuse("is a path with a part of more than 255 bytes");
                }
                _ if part.eq_ignore_ascii_case(".git") => {
                    return refuse("is a path into a git repository");
                }
                _ => {}
            }
        }
        Ok(Self(text.into()))
    }
}

impl std::borrow::Borrow<str> for TreePath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn refs() {
        for text in ["v0.11.0", "main", "HEAD", "refs/tags/v1", "rocm-7.2.x", "a/b+c_d", "0"] {
            assert_eq!(text.parse::<GitRef>().unwrap().as_str(), text);
        }
        let long = "x".repeat(202);
        for text in [
            "",
            "-x",
            "--upload-pack=x",
            "a..b",
            "a@{1}",
            "a b",
            "a:b",
            "a~1",
            "a^{}",
            "a\0",
            "a\n",
            "/a",
            "a/",
            "a//b",
            "a/.b",
            ".a",
            "a.lock",
            "a.lock/b",
            "a.",
            "é",
            "*",
            "a?",
            "a[",
            "a\\b",
            "01efc7ef781391e744ed08c3292817a773d654e6",
            &long,
        ] {
            assert!(text.parse::<GitRef>().is_err(), "{text:?}");
        }
        assert_eq!("a".parse::<GitRef>().unwrap().candidates(), ["refs/tags/a", "refs/heads/a"]);
        assert_eq!("HEAD".parse::<GitRef>().unwrap().candidates(), ["HEAD"]);
    }

    #[test]
    fn paths() {
        for text in ["a", "a/b", ".github/x", "a b/ü", "..a", "a..", ".gitmodules", "a\\b", "-x"] {
            assert_eq!(text.parse::<TreePath>().unwrap().as_str(), text);
        }
        let (long, longer) = ("x".repeat(256), "x/".repeat(2049));
        for text in [
            "",
            "/",
            "/a",
            "a/",
            "a//b",
            ".",
            "./a",
            "a/./b",
            "..",
            "../a",
            "a/..",
            "a/../b",
            "a\0b",
            "a\nb",
            "a\u{1b}",
            "a\u{9b}",
            ".git",
            ".git/hooks/x",
            "a/.GIT/config",
            &long,
            &longer,
        ] {
            assert!(text.parse::<TreePath>().is_err(), "{text:?}");
        }
        assert!(TreePath::from_bytes(b"a\xff").is_err());
        let path: TreePath = "a/b/c".parse().unwrap();
        assert_eq!(path.parents().collect::<Vec<_>>(), ["a", "a/b"]);
    }

    #[test]
    fn messages_are_fit_to_be_shown() {
        let error = "a\u{1b}]0;x".parse::<TreePath>().unwrap_err();
        assert_eq!(error.to_string(), "`a ]0;x` is a path with control characters");
    }

    proptest! {
        #[test]
        fn accepted_refs_are_harmless(text in "\\PC{0,40}|[a-z./@{~^:-]{0,12}") {
            if let Ok(name) = text.parse::<GitRef>() {
                prop_assert_eq!(name.as_str(), text.as_str());
                let has = |part| text.contains(part);
                prop_assert!(!text.starts_with('-') && !has("..") && !has("@{"), "{}", text);
                prop_assert!(text.bytes().all(|b| b.is_ascii_graphic() && !b" ~^:?*[\\".contains(&b)));
            }
        }

        #[test]
        fn accepted_paths_stay_inside(text in "[a-c./\\\\]{0,12}|\\PC{0,40}") {
            if let Ok(path) = text.parse::<TreePath>() {
                let mut depth = 0;
                for part in path.as_str().split('/') {
                    depth += if part == ".." { -1 } else { 1 };
                    prop_assert!(depth > 0 && !part.is_empty());
                }
            }
        }
    }
}
