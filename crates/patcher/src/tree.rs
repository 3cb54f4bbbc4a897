//! How file contents are read: paths that cannot leave a tree, and the tree itself.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The largest accepted file. The largest file that a patch of this project changes has 200 kB.
pub const MAX_FILE_BYTES: usize = 4 * 1024 * 1024;

/// The largest accepted total size of all files in one run.
pub const MAX_TOTAL_BYTES: usize = 64 * 1024 * 1024;

/// The path of a file inside a tree: relative, with `/` between its parts, and never outside the
/// tree.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct TreePath(String);

/// The reason why a text is not the path of a file inside a tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} is not a path inside a tree; {reason}", crate::reader::quote(text))]
pub struct ParseTreePathError {
    /// The given text.
    pub text: String,
    /// The rule that it breaks.
    pub reason: &'static str,
}

impl FromStr for TreePath {
    type Err = ParseTreePathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match fault(text) {
            Some(reason) => Err(ParseTreePathError { text: text.to_owned(), reason }),
            None => Ok(Self(text.to_owned())),
        }
    }
}

fn fault(text: &str) -> Option<&'static str> {
    let mut parts = text.split('/');
    if text.len() > 1024 {
        Some("it is longer than 1,024 bytes")
    } else if text.chars().any(|c| c.is_control() || matches!(c, '\\' | ':')) {
        Some("it must not contain control characters, `\\` or `:`")
    } else if text.starts_with('/') {
        Some("it must be relative to the root of the tree")
    } else if parts.clone().any(|part| matches!(part, "" | "." | "..")) {
        Some("it must not contain empty parts, `.` or `..`")
    } else if parts.any(|part| part.eq_ignore_ascii_case(".git")) {
        Some("patches cannot change files inside `.git`")
    } else {
        None
    }
}

impl TreePath {
    /// Returns the path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for TreePath {
    type Error = ParseTreePathError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<TreePath> for String {
    fn from(path: TreePath) -> Self {
        path.0
    }
}

impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A source of contents: git objects, an archive, a directory, or memory.
///
/// An implementation for a directory must not follow symbolic links in any part of the path; it
/// returns [`Unreadable`] for them.
pub trait Tree {
    /// Returns the content of the file at `path`, or `None` if nothing exists there.
    ///
    /// # Errors
    /// Fails if the path exists, but cannot be read as a regular file.
    fn read(&self, path: &TreePath) -> Result<Option<Vec<u8>>, Unreadable>;
}

/// The reason why a path cannot be patched, for example `it is a symbolic link`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub String);

impl Tree for BTreeMap<TreePath, Vec<u8>> {
    fn read(&self, path: &TreePath) -> Result<Option<Vec<u8>>, Unreadable> {
        Ok(self.get(path).cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_inside() {
        for text in ["CMakeLists.txt", "csrc/rocm/attention.cu", "a b/ü", ".github/x", "..a/b.."] {
            assert!(text.parse::<TreePath>().is_ok(), "{text:?}");
        }
        let long = "a/".repeat(600) + "b";
        for text in [
            "",
            "/etc/passwd",
            "../x",
            "a/../../x",
            "a/./b",
            "a//b",
            "a/",
            "a\\..\\b",
            "C:/x",
            "a\0b",
            "a\nb",
            ".git/config",
            "sub/.GIT/hooks/x",
            "..",
            ".",
            &long,
            "a\u{1b}[0m",
        ] {
            assert!(text.parse::<TreePath>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_rule_that_a_path_breaks_is_told() {
        let longest = "a".repeat(1024);
        assert_eq!(longest.parse::<TreePath>().unwrap().as_str(), longest);
        let relative = "it must be relative to the root of the tree";
        let parts = "it must not contain empty parts, `.` or `..`";
        let characters = "it must not contain control characters, `\\` or `:`";
        let git = "patches cannot change files inside `.git`";
        for (text, reason) in [
            (format!("{longest}a").as_str(), "it is longer than 1,024 bytes"),
            ("/a", relative),
            ("", parts),
            ("a/", parts),
            ("a//b", parts),
            ("./a", parts),
            ("a/..", parts),
            ("a:b", characters),
            ("a\\b", characters),
            ("a\tb", characters),
            (".git", git),
            ("a/.Git/b", git),
        ] {
            let error = text.parse::<TreePath>().unwrap_err();
            assert_eq!((error.text.as_str(), error.reason), (text, reason));
        }
        assert_eq!(
            "/a".parse::<TreePath>().unwrap_err().to_string(),
            "`/a` is not a path inside a tree; it must be relative to the root of the tree"
        );
    }

    #[test]
    fn a_path_is_checked_when_it_is_read_from_json() {
        let path: TreePath = serde_json::from_str("\"a/b\"").unwrap();
        assert_eq!(serde_json::to_string(&path).unwrap(), "\"a/b\"");
        assert_eq!(format!("{path} {path:?}"), "a/b \"a/b\"");
        for text in ["\"../a\"", "\"/a\"", "\"\"", "1"] {
            assert!(serde_json::from_str::<TreePath>(text).is_err(), "{text}");
        }
    }
}
