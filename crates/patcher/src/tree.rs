//! How the contents of files are read: paths that cannot leave a tree, and the tree itself.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Files larger than this are refused. The largest file any patch of ours touches has 200 kB.
pub const MAX_FILE_BYTES: usize = 4 * 1024 * 1024;

/// All files of one run together may not be larger than this.
pub const MAX_TOTAL_BYTES: usize = 64 * 1024 * 1024;

/// The path of a file inside a tree: relative, `/` between its parts, and no way out.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct TreePath(String);

/// Why a text is not the path of a file inside a tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} is not a path inside a tree; {reason}", crate::reader::quote(text))]
pub struct ParseTreePathError {
    /// The text that was given.
    pub text: String,
    /// The rule it breaks.
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
        Some("it may not hold control characters, `\\` or `:`")
    } else if text.starts_with('/') {
        Some("it must be relative to the root of the tree")
    } else if parts.clone().any(|part| matches!(part, "" | "." | "..")) {
        Some("it may not hold empty parts, `.` or `..`")
    } else if parts.any(|part| part.eq_ignore_ascii_case(".git")) {
        Some("nothing inside `.git` is patched")
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

/// Where contents come from: git objects, an archive, a directory, or memory.
///
/// An implementation over a directory must not follow symbolic links, in no part of the path: it
/// answers [`Unreadable`] for them.
pub trait Tree {
    /// Returns the content of the file at `path`, or `None` where there is none.
    ///
    /// # Errors
    /// There is something, and it cannot be read as a regular file.
    fn read(&self, path: &TreePath) -> Result<Option<Vec<u8>>, Unreadable>;
}

/// Why what stands at a path cannot be patched, for example `it is a symbolic link`.
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
}
