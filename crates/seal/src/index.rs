//! The merged view of an image's layers: the visible entry at every path.

use std::collections::BTreeMap;

use crate::entry::{Entry, Kind};
use crate::listing::Listing;
use crate::path::EntryPath;

/// The merged view of the layers applied so far. To create it, apply the listings of the base's
/// layers, lowest first.
#[derive(Debug, Clone, Default)]
pub struct Index {
    paths: BTreeMap<EntryPath, Known>,
}

/// The entry at a path.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) entry: Entry,
    /// The time that the engine showed for the path during later builds, and that Python wrote into
    /// bytecode. It differs from the entry's time if the layer was sealed.
    pub(crate) built: i64,
}

impl Index {
    /// Returns an empty view.
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies a layer on top of the previous ones (OCI image-spec, layer.md, "Applying
    /// Changesets"): whiteouts hide paths in the layers below, and never paths in the same layer.
    pub fn apply(&mut self, layer: &Listing) {
        for (path, entry) in &layer.entries {
            match entry.kind {
                Kind::Whiteout => self.remove(path),
                Kind::Opaque => self.remove_below(path),
                _ => {}
            }
        }
        let is_link = |entry: &Entry| entry.kind == Kind::Hardlink;
        let is_mark = |entry: &Entry| matches!(entry.kind, Kind::Whiteout | Kind::Opaque);
        let mut parent = None;
        for (path, entry) in layer.entries.iter().filter(|(path, _)| !path.is_root()) {
            if is_link(entry) || is_mark(entry) {
                continue;
            }
            if path.parent() != parent {
                self.make_parents(path);
                parent = path.parent();
            }
            let mut entry = entry.clone();
            entry.normalise();
            self.put(path, entry);
        }
        for (path, entry) in layer.entries.iter().filter(|(_, entry)| is_link(entry)) {
            let target = EntryPath::parse(&entry.link).ok();
            let target = target.and_then(|target| self.paths.get(&target));
            // A link without a target counts as a file of unknown content, never equal to
            // anything.
            let file = target.map_or_else(
                || Entry { link: Box::default(), ..Entry { kind: Kind::File, ..entry.clone() } },
                |known| known.entry.clone(),
            );
            self.make_parents(path);
            self.put(path, file);
        }
    }

    /// Returns the number of paths.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Returns whether there are no paths.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Returns the entry at a path.
    pub fn get(&self, path: &EntryPath) -> Option<&Entry> {
        self.paths.get(path).map(|known| &known.entry)
    }

    /// Returns all paths and their entries, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&EntryPath, &Entry)> {
        self.paths.iter().map(|(path, known)| (path, &known.entry))
    }

    pub(crate) fn known(&self, path: &EntryPath) -> Option<&Known> {
        self.paths.get(path)
    }

    /// Records the time that the engine shows for a path.
    pub(crate) fn set_built(&mut self, path: &EntryPath, built: i64) {
        if let Some(known) = self.paths.get_mut(path) {
            known.built = built;
        }
    }

    /// Returns all paths below a directory, at any depth, in order.
    pub(crate) fn below(&self, directory: &EntryPath) -> impl Iterator<Item = &EntryPath> {
        below(&self.paths, directory)
    }

    fn put(&mut self, path: &EntryPath, entry: Entry) {
        let is_directory = entry.is_directory();
        let built = entry.mtime;
        let old = self.paths.insert(path.clone(), Known { entry, built });
        if old.is_some_and(|old| old.entry.is_directory()) && !is_directory {
            self.remove_below(path);
        }
    }

    fn make_parents(&mut self, path: &EntryPath) {
        for parent in path.ancestors() {
            match self.paths.get(&parent) {
                Some(known) if known.entry.is_directory() => break,
                _ => {
                    let entry = Entry::implied_directory();
                    self.paths.insert(parent, Known { entry, built: 0 });
                }
            }
        }
    }

    fn remove(&mut self, path: &EntryPath) {
        self.paths.remove(path);
        self.remove_below(path);
    }

    fn remove_below(&mut self, path: &EntryPath) {
        remove_below(&mut self.paths, path);
    }
}

/// Returns the keys of a map that are below a directory, in order.
pub(crate) fn below<'a, T>(
    map: &'a BTreeMap<EntryPath, T>,
    directory: &EntryPath,
) -> impl Iterator<Item = &'a EntryPath> {
    use std::ops::Bound::{Excluded, Unbounded};
    let directory = directory.clone();
    map.range((Excluded(directory.clone()), Unbounded))
        .map(|(path, _)| path)
        .take_while(move |path| path.is_below(&directory))
}

/// Removes all keys of a map that are below a directory.
pub(crate) fn remove_below<T>(map: &mut BTreeMap<EntryPath, T>, directory: &EntryPath) {
    let doomed: Vec<EntryPath> = below(map, directory).cloned().collect();
    for path in doomed {
        map.remove(&path);
    }
}
