//! The root directory that a machine is read from, and the file `recorded` with facts that cannot
//! be stored as files.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The maximum number of bytes read from one file. The largest one is dpkg's status file.
const LONGEST_FILE: u64 = 32 << 20;

/// A directory that takes the place of `/`.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    path: PathBuf,
    /// The lines of `recorded`, if the root is not `/`.
    recorded: String,
}

impl Root {
    /// Opens a root. A recorded machine contains a file `recorded` with device nodes, the user,
    /// free space and variables, which cannot be stored as files.
    pub(crate) fn new(path: &Path) -> Self {
        let mut root = Self { path: path.to_owned(), recorded: String::new() };
        if !root.is_this_machine() {
            root.recorded = root.text("recorded").unwrap_or_default();
        }
        root
    }

    /// Returns whether it is the root of the running machine.
    pub(crate) fn is_this_machine(&self) -> bool {
        self.path == Path::new("/")
    }

    /// Returns whether the machine was recorded. If so, no fact of the running machine may be used.
    pub(crate) fn is_recorded(&self) -> bool {
        !self.recorded.is_empty()
    }

    /// Returns the text after `key` in the lines of `recorded` that start with it.
    pub(crate) fn recorded<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        let lines = self.recorded.lines();
        lines.filter_map(move |line| line.strip_prefix(key)?.strip_prefix(' ')).map(str::trim)
    }

    /// Returns the full path of `path`, which is relative to the root.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.path.join(path)
    }

    /// Returns the text of a file, if it exists and is readable.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        let mut bytes = Vec::new();
        let path = self.path(path);
        // In a copy of a system, reading a FIFO would block.
        if !fs::metadata(&path).ok()?.is_file() {
            return None;
        }
        let file = fs::File::open(path).ok()?;
        file.take(LONGEST_FILE).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the text of a one-line file, without surrounding white space.
    pub(crate) fn line(&self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        Some(text.trim().to_owned()).filter(|line| !line.is_empty())
    }

    /// Returns the number in a file, in decimal or as `0x…`.
    pub(crate) fn number(&self, path: &str) -> Option<u64> {
        let line = self.line(path)?;
        match line.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => line.parse().ok(),
        }
    }

    /// Returns the names in a directory, sorted; none if it cannot be read.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Returns whether `path` exists.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.path(path).symlink_metadata().is_ok()
    }

    /// Returns the last part of a link's target.
    pub(crate) fn link_name(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }
}
