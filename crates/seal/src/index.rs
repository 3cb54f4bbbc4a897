//! The merged view: what an image's layers, laid over each other, show at every path.

use std::collections::BTreeMap;

use crate::entry::{Entry, Kind};
use crate::listing::Listing;
use crate::path::EntryPath;

/// What the layers so far show. Made from the listings of the base's layers, lowest first.
#[derive(Debug, Clone, Default)]
pub struct Index {
    paths: BTreeMap<EntryPath, Known>,
}

/// What stands at a path.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) entry: Entry,
    /// The time that the engine showed while it built on this, which is what Python wrote into
    /// bytecode. Another one than the entry's where the layer was sealed.
    pub(crate) built: i64,
}

impl Index {
    /// Returns the view of no layers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lays a layer over those before (OCI image-spec, layer.md, "Applying Changesets"):
    /// whiteouts hide what lies below and never what stands in the same layer.
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
            // A link to nowhere is a file of unknown content: nothing is ever equal to it.
            let file = target.map_or_else(
                || Entry { link: Box::default(), ..Entry { kind: Kind::File, ..entry.clone() } },
                |known| known.entry.clone(),
            );
            self.make_parents(path);
            self.put(path, file);
        }
    }

    /// Returns how many paths there are.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Returns whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Returns what stands at a path.
    pub fn get(&self, path: &EntryPath) -> Option<&Entry> {
        self.paths.get(path).map(|known| &known.entry)
    }

    pub(crate) fn known(&self, path: &EntryPath) -> Option<&Known> {
        self.paths.get(path)
    }

    /// Notes the time that the engine shows for a path.
    pub(crate) fn set_built(&mut self, path: &EntryPath, built: i64) {
        if let Some(known) = self.paths.get_mut(path) {
            known.built = built;
        }
    }

    /// Returns all that lies in a directory, however deep, in order.
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

/// Returns the keys of a map that lie in a directory, in order.
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

/// Removes all keys of a map that lie in a directory.
pub(crate) fn remove_below<T>(map: &mut BTreeMap<EntryPath, T>, directory: &EntryPath) {
    let doomed: Vec<EntryPath> = below(map, directory).cloned().collect();
    for path in doomed {
        map.remove(&path);
    }
}
