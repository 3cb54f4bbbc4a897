//! Checks that no symbolic link of a tree points outside it.
//!
//! Links are resolved as a file system would resolve them, including other links on the path: a
//! link that looks harmless may go up from the target of another link. A dangling link is allowed
//! if its target would be inside the tree.
//!
//! A link with an absolute target is only data: its target is a path in the image that will contain
//! the tree. This tool does not follow links when it reads, writes or patches files, and engines
//! resolve them inside their copy of the context. Archives must not contain such links: no tool
//! that makes source archives writes them, and other programs that unpack archives would follow
//! them.

use super::{Entry, Mode, Tree};
use crate::error::Failure;
use crate::git_ref::TreePath;
use crate::text;

/// The maximum number of links on one path, as in Linux.
const MAX_FOLLOWED: usize = 40;
/// The maximum length of a target.
const MAX_TARGET: usize = 4095;

impl Tree {
    /// Checks all links. Absolute targets are allowed.
    pub(crate) fn check_links(&self) -> Result<(), Failure> {
        self.links().try_for_each(|(path, _)| self.check_link(path))
    }

    /// Checks all links of a tree that comes from an archive. Absolute targets are refused.
    pub(crate) fn check_archive_links(&self) -> Result<(), Failure> {
        for (path, entry) in self.links() {
            if entry.content.read()?.starts_with(b"/") {
                let path = text::quoted(path.as_str());
                return Err(Failure::refused(format!(
                    "the symbolic link {path} has an absolute target"
                )));
            }
        }
        self.check_links()
    }

    fn links(&self) -> impl Iterator<Item = (&TreePath, &Entry)> {
        self.entries().filter(|(_, entry)| entry.mode == Mode::Symlink)
    }

    fn check_link(&self, path: &TreePath) -> Result<(), Failure> {
        let refuse = |why: &str| {
            Failure::refused(format!("the symbolic link {} {why}", text::quoted(path.as_str())))
        };
        // The current directory, and the remaining components in reverse order.
        let mut here: Vec<String> = Vec::new();
        let mut ahead: Vec<String> = path.as_str().rsplit('/').map(str::to_owned).collect();
        let mut followed = 0;
        while let Some(part) = ahead.pop() {
            match part.as_str() {
                "" | "." => continue,
                ".." => {
                    here.pop().ok_or_else(|| refuse("points outside the tree"))?;
                    continue;
                }
                _ => here.push(part),
            }
            let Some(entry) = self.entry(&here.join("/")) else { continue };
            if entry.mode != Mode::Symlink {
                continue;
            }
            followed += 1;
            if followed > MAX_FOLLOWED {
                // A loop has no target.
                return Ok(());
            }
            let target = entry.content.read()?;
            if target.is_empty() || target.len() > MAX_TARGET || target.contains(&0) {
                return Err(refuse("has a target that is not valid for a link"));
            }
            let target = std::str::from_utf8(&target)
                .map_err(|_| refuse("has a target that is not UTF-8"))?;
            if target.chars().any(char::is_control) {
                return Err(refuse("has a target with control characters"));
            }
            if target.starts_with('/') {
                return Ok(());
            }
            here.pop();
            ahead.extend(target.rsplit('/').map(str::to_owned));
        }
        Ok(())
    }
}
