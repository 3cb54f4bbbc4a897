//! A snapshot of a tree of files, independent of where they are stored.
//!
//! Start at [`Tree`]. It is a sorted map from paths to modes and locations of content: objects in
//! the git cache, parts of an archive, files in a folder, or bytes in memory. Creating a tree reads
//! no content, and nothing is ever checked out. A tree contains files, executables and symbolic
//! links; directories exist only if they are not empty. [`Tree::write_tar`] writes its canonical
//! tar, which is the same for the same content, whatever its origin.

mod content;
mod folder;
mod links;
mod write;

use std::collections::{BTreeMap, btree_map as map};
use std::fmt;

use names::Sha256;

pub(crate) use content::Content;
pub use write::{TarSummary, WriteTarError};

use crate::error::{ErrorKind, Failure, SourceError};
use crate::git_ref::TreePath;
use crate::text;
use names::Hasher;

/// The maximum number of entries in a tree; the largest pinned source has about 60,000.
pub(crate) const MAX_ENTRIES: usize = 2_000_000;

/// The kind of an entry in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// A file.
    File,
    /// An executable file.
    Executable,
    /// A symbolic link. Its content is its target.
    Symlink,
}

/// The entry at a path.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) mode: Mode,
    pub(crate) content: Content,
}

/// A tree of files.
#[derive(Clone, Default)]
pub struct Tree {
    entries: BTreeMap<TreePath, Entry>,
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").field("entries", &self.entries.len()).finish()
    }
}

impl Tree {
    /// Returns an empty tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of files and links.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the tree is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns all paths with their modes, in byte order.
    pub fn paths(&self) -> impl Iterator<Item = (&TreePath, Mode)> {
        self.entries.iter().map(|(path, entry)| (path, entry.mode))
    }

    /// Returns the mode of a path, or `None` if there is no file or link at this path.
    pub fn mode(&self, path: &str) -> Option<Mode> {
        self.entries.get(path).map(|entry| entry.mode)
    }

    /// Returns the size of a file's content in bytes.
    ///
    /// # Errors
    /// Fails if there is no such path, or if its content is damaged.
    pub fn size(&self, path: &str) -> Result<u64, SourceError> {
        let failed = |failure: Failure| failure.at("read", text::clean(path));
        self.entry_at(path).and_then(|entry| entry.content.size()).map_err(failed)
    }

    /// Returns whether there is anything below `path`.
    pub fn has_directory(&self, path: &str) -> bool {
        path.parse::<TreePath>().is_ok_and(|path| self.is_directory(&path))
    }

    fn entry_at(&self, path: &str) -> Result<&Entry, Failure> {
        self.entries
            .get(path)
            .ok_or_else(|| Failure::fatal(ErrorKind::NotFound, "there is no such file in the tree"))
    }

    /// Returns the content of a file, or the target of a link. Links are not followed.
    ///
    /// # Errors
    /// Fails if there is no such path, or if its content is damaged.
    pub fn read_file(&self, path: &str) -> Result<Vec<u8>, SourceError> {
        let failed = |failure: Failure| failure.at("read", text::clean(path));
        self.entry_at(path).and_then(|entry| entry.content.read()).map_err(failed)
    }

    /// Puts `bytes` at `path`. An existing file keeps its mode, and a new one is a plain file.
    ///
    /// # Errors
    /// Fails if the path is not valid, is a link or a directory, or is below a file.
    pub fn put_file(&mut self, path: &str, bytes: impl Into<Vec<u8>>) -> Result<(), SourceError> {
        let mode = self.mode(path).unwrap_or(Mode::File);
        self.put(path, mode, bytes.into()).map_err(|failure| failure.at("put", text::clean(path)))
    }

    fn put(&mut self, path: &str, mode: Mode, bytes: Vec<u8>) -> Result<(), Failure> {
        let path: TreePath = path.parse().map_err(refusal)?;
        if mode == Mode::Symlink {
            return Err(Failure::refused("there is a symbolic link at this path"));
        }
        self.entries.remove(&path);
        self.add(path, mode, Content::Bytes(bytes.into()))
    }

    /// Removes a path. Returns whether it existed.
    pub fn remove(&mut self, path: &str) -> bool {
        self.entries.remove(path).is_some()
    }

    /// Adds all entries of another tree below `path`.
    ///
    /// # Errors
    /// Fails if the path is not valid, or if something exists there already.
    pub fn mount(&mut self, path: &str, tree: Self) -> Result<(), SourceError> {
        let mount = |this: &mut Self| {
            let base: TreePath = path.parse().map_err(refusal)?;
            for (relative, entry) in tree.entries {
                let joined = base.join(&relative).map_err(refusal)?;
                this.add(joined, entry.mode, entry.content)?;
            }
            Ok(())
        };
        mount(self).map_err(|failure: Failure| failure.at("mount", text::clean(path)))
    }

    /// Returns the content of the directory `path`, with paths relative to it.
    ///
    /// # Errors
    /// Fails if there is no such directory.
    pub fn subdirectory(&self, path: &str) -> Result<Self, SourceError> {
        let select = || {
            let base: TreePath = path.trim_end_matches('/').parse().map_err(refusal)?;
            let prefix = format!("{base}/");
            // In byte order, other names may come in between, such as `a-b` before `a/b`.
            let below = self.entries.range::<TreePath, _>(&base..);
            let below = below.take_while(|(found, _)| found.as_str().starts_with(base.as_str()));
            let mut entries = BTreeMap::new();
            for (found, entry) in below {
                if let Some(rest) = found.as_str().strip_prefix(&prefix) {
                    entries.insert(rest.parse().map_err(refusal)?, entry.clone());
                }
            }
            if entries.is_empty() {
                Err(Failure::fatal(ErrorKind::NotFound, "there is no such directory in the tree"))
            } else {
                Ok(Self { entries })
            }
        };
        select().map_err(|failure| failure.at("open the directory", text::clean(path)))
    }

    /// Returns the SHA-256 of all paths, modes and contents, independent of where they are stored.
    ///
    /// # Errors
    /// Fails if some content is damaged.
    pub fn digest(&self) -> Result<Sha256, SourceError> {
        let mut hasher = Hasher::new();
        hasher.update(b"build-pipeline tree/1\n");
        for (path, entry) in &self.entries {
            let content = entry.content.sha256().map_err(|failure| failure.at("read", path))?;
            let mode = match entry.mode {
                Mode::File => 'f',
                Mode::Executable => 'x',
                Mode::Symlink => 'l',
            };
            hasher.update(format!("{mode} {} {path}\n", text::hex(&content)));
        }
        crate::sha256_of(hasher.finish()).map_err(|failure| failure.at("hash", "a tree"))
    }

    /// Adds an entry. Refuses a path that is already in use.
    pub(crate) fn add(
        &mut self,
        path: TreePath,
        mode: Mode,
        content: Content,
    ) -> Result<(), Failure> {
        if self.entries.len() >= MAX_ENTRIES {
            return Err(Failure::refused(format!("there are more than {MAX_ENTRIES} entries")));
        }
        if let Some(file) = path.parents().find(|parent| self.entries.contains_key(*parent)) {
            let (path, file) = (text::quoted(path.as_str()), text::quoted(file));
            return Err(Failure::refused(format!(
                "{path} is below {file}, which is not a directory"
            )));
        }
        if self.is_directory(&path) {
            let path = text::quoted(path.as_str());
            return Err(Failure::refused(format!("{path} is both a directory and something else")));
        }
        match self.entries.entry(path) {
            map::Entry::Vacant(place) => {
                place.insert(Entry { mode, content });
                Ok(())
            }
            map::Entry::Occupied(place) => {
                let shown = text::quoted(place.key().as_str());
                Err(Failure::refused(format!("{shown} occurs twice")))
            }
        }
    }

    /// Returns whether there is anything below `path`.
    pub(crate) fn is_directory(&self, path: &TreePath) -> bool {
        let prefix = format!("{path}/");
        // The search starts at the prefix, which is not itself a valid path.
        let from = (std::ops::Bound::Included(prefix.as_str()), std::ops::Bound::Unbounded);
        let next = self.entries.range::<str, _>(from).next();
        next.is_some_and(|(found, _)| found.as_str().starts_with(&prefix))
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&TreePath, &Entry)> {
        self.entries.iter()
    }

    pub(crate) fn entry(&self, path: &str) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// Removes the single directory that contains everything.
    pub(crate) fn without_top(self) -> Result<Self, Failure> {
        let top = self.entries.keys().next().and_then(|path| path.as_str().split('/').next());
        let Some(prefix) = top.map(|top| format!("{top}/")) else { return Ok(self) };
        let mut entries = BTreeMap::new();
        for (path, entry) in self.entries {
            let rest = path.as_str().strip_prefix(&prefix).ok_or_else(|| {
                let (path, directory) = (text::quoted(path.as_str()), text::quoted(&prefix));
                Failure::refused(format!(
                    "{path} is not in {directory}, so there is no single top directory"
                ))
            })?;
            entries.insert(rest.parse().map_err(refusal)?, entry);
        }
        Ok(Self { entries })
    }
}

/// Turns an invalid path into a refusal.
pub(crate) fn refusal(error: crate::git_ref::ParseSourceError) -> Failure {
    Failure::refused(error.to_string())
}

#[cfg(test)]
mod tests;
