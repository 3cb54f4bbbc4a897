//! Makes Python check bytecode before its source is patched.
//!
//! Python uses bytecode with an unchecked hash (PEP 552) even if its source has changed, so a patch
//! of the source would do nothing. With a checked hash, Python compiles a changed source again.

use patcher::{FileChange, Tree as _, TreePath};

use crate::directory::Directory;
use crate::replace::Replacement;
use crate::rooted::Rooted as _;

/// The folder with the bytecode of a folder's modules (PEP 3147).
const CACHE: &str = "__pycache__";
/// The flags in the header: the end of the magic number, then a little-endian word.
const FLAGS: std::ops::Range<usize> = 2..8;
/// The flags of a hash that Python does not check.
const UNCHECKED: &[u8] = b"\r\n\x01\0\0\0";
/// The flags of a hash that Python checks.
const CHECKED: &[u8] = b"\r\n\x03\0\0\0";

/// A bytecode file with its old and new contents.
#[derive(Debug)]
pub(crate) struct Bytecode {
    path: TreePath,
    old: Vec<u8>,
    new: Vec<u8>,
}

impl Bytecode {
    /// Returns the change for [`Directory::replace`].
    pub(crate) fn replacement(&self) -> Replacement<'_> {
        Replacement { path: &self.path, old: &self.old, new: &self.new }
    }
}

/// Returns the unchecked bytecode of changed files, with the flags of a checked hash. Restoring the
/// sources makes it valid again, so that no receipt lists it.
pub(crate) fn checked(tree: &Directory, files: &[FileChange]) -> Vec<Bytecode> {
    files.iter().flat_map(|file| of_source(tree, file.path.as_str())).collect()
}

/// Returns the unchecked bytecode of one source.
fn of_source(tree: &Directory, source: &str) -> Vec<Bytecode> {
    let (folder, file) = source.rsplit_once('/').unwrap_or(("", source));
    let Some(module) = file.strip_suffix(".py") else { return Vec::new() };
    let folder = if folder.is_empty() { CACHE.to_owned() } else { format!("{folder}/{CACHE}") };
    let cache = folder.parse().ok().and_then(|path| tree.inside(&path));
    let names = cache.map(|cache| cache.names()).unwrap_or_default();
    let is_its = |name: &String| {
        let rest = name.strip_prefix(module).and_then(|rest| rest.strip_prefix('.'));
        rest.is_some_and(|rest| rest.ends_with(".pyc"))
    };
    let read = |name: String| {
        let path = format!("{folder}/{name}").parse().ok()?;
        let old = tree.read(&path).ok().flatten()?;
        let mut new = old.clone();
        let flags = new.get_mut(FLAGS).filter(|flags| *flags == UNCHECKED)?;
        flags.copy_from_slice(CHECKED);
        Some(Bytecode { path, old, new })
    };
    names.into_iter().filter(is_its).filter_map(read).collect()
}
