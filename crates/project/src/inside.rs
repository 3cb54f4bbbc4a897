//! Checks that a project's files are in its folder: a symbolic link must not point outside it.
//!
//! A plan records only the name and the content of such a file, and git records only the link.
//! Without this check, a cloned project could make an error message show any file of the machine.

use std::fs;
use std::io;
use std::path::Path;

use pins::reader::quote;

/// A path in the project points outside its folder.
#[derive(Debug)]
pub(crate) struct Outside {
    /// The link, as a path from the project's root.
    link: String,
    /// Where it points.
    target: String,
}

impl std::fmt::Display for Outside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { link, target } = self;
        write!(
            f,
            "{} is a symbolic link to {}, which is outside the project",
            quote(link),
            quote(target)
        )
    }
}

impl std::error::Error for Outside {}

impl Outside {
    /// Returns the reason if `error` comes from [`check`].
    pub(crate) fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

/// What to do about such a link.
pub(crate) const NEXT: &str =
    "replace the link with a copy; a project reads only files in its own folder";

/// Checks that no symbolic link on the path `name`, which is relative to `root`, points outside
/// `root`. A path that does not exist passes.
///
/// # Errors
/// A link points outside `root`.
pub(crate) fn check(root: &Path, name: &str) -> io::Result<()> {
    // If the root cannot be found, opening the file fails with a better message.
    let Ok(full_root) = fs::canonicalize(root) else { return Ok(()) };
    let ends = name.match_indices('/').map(|(end, _)| end).chain([name.len()]);
    for link in ends.filter_map(|end| name.get(..end)) {
        let path = root.join(link);
        let Ok(metadata) = fs::symlink_metadata(&path) else { return Ok(()) };
        if !metadata.is_symlink() {
            continue;
        }
        // A link to nothing, or to itself, cannot be opened either.
        let Ok(found) = fs::canonicalize(&path) else { return Ok(()) };
        if !found.starts_with(&full_root) {
            let target = fs::read_link(&path)?.display().to_string();
            return Err(io::Error::other(Outside { link: link.to_owned(), target }));
        }
    }
    Ok(())
}
