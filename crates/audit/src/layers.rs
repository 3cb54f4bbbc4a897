//! Reads layers and other tar archives as streams.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::PathBuf;

use gpu_code::{HEAD, Spool, is_candidate};
use seal::{Entry, EntryPath, Index, Kind, LayerVisitor, Listing};

use crate::files::{FileCode, Found, Scanned, head, scan};

/// The GPU code in the files of layers. Later layers may hide files of earlier ones.
#[derive(Debug, Default)]
pub struct Layers {
    /// The files that are visible in all layers together.
    view: Index,
    /// The paths that are hard links to a file.
    links: BTreeSet<EntryPath>,
    /// The results for the files of all layers.
    scanned: Vec<Scanned>,
    /// The index of the result for the file at each path.
    results: BTreeMap<EntryPath, usize>,
}

/// A layer that is being read.
#[derive(Debug, Default)]
pub struct Layer {
    listing: Listing,
    /// The results, in the order of the listing, with the index of the entry.
    scanned: Vec<(usize, EntryPath, Scanned)>,
    current: Option<Current>,
    /// The folder for temporary files.
    folder: Option<PathBuf>,
}

/// A file whose content is being read.
#[derive(Debug)]
enum Current {
    /// It is kept, or there are not yet enough bytes to decide.
    Kept(Spool),
    /// It cannot contain GPU code.
    Skipped,
}

impl Layer {
    /// Creates an empty layer. `folder` is for temporary files.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, ..Self::default() }
    }

    /// Returns what the layer contains.
    pub fn listing(&self) -> &Listing {
        &self.listing
    }

    /// Returns the files with code, or data about code, for AMD GPUs.
    pub fn files(&self) -> impl Iterator<Item = (&EntryPath, &FileCode)> {
        self.scanned
            .iter()
            .filter_map(|(_, path, scanned)| Some((path, scanned.as_ref().ok()?.as_ref()?)))
    }

    /// Returns the files that may contain code but cannot be read, and why.
    pub fn unreadable(&self) -> impl Iterator<Item = (&EntryPath, String)> {
        self.scanned
            .iter()
            .filter_map(|(_, path, scanned)| Some((path, scanned.as_ref().err()?.to_string())))
    }

    /// Returns whether the layer has an entry at a path.
    pub fn contains(&self, path: &str) -> bool {
        let mut entries = self.listing.entries.iter();
        entries.any(|(one, _)| one.as_bytes() == path.as_bytes())
    }
}

impl LayerVisitor for Layer {
    fn wants_hashes(&self) -> bool {
        false
    }

    fn content(&mut self, path: &EntryPath, part: &[u8]) -> io::Result<()> {
        let folder = self.folder.as_deref();
        let current = self.current.get_or_insert_with(|| Current::Kept(Spool::new(folder)));
        let Current::Kept(spool) = current else { return Ok(()) };
        let is_decided = spool.size() >= HEAD as u64;
        spool.push(part)?;
        if !is_decided && spool.size() >= HEAD as u64 && !is_kept(path, spool)? {
            *current = Current::Skipped;
        }
        Ok(())
    }

    fn entry(&mut self, path: EntryPath, entry: Entry) -> io::Result<()> {
        // For a file shorter than `HEAD` bytes, nothing has been decided yet.
        if let Some(Current::Kept(spool)) = self.current.take()
            && is_kept(&path, &spool)?
        {
            let scanned = scan(&path.to_string(), &spool);
            if !matches!(scanned, Ok(None)) {
                self.scanned.push((self.listing.entries.len(), path.clone(), scanned));
            }
        }
        self.listing.entries.push((path, entry));
        Ok(())
    }
}

fn is_kept(path: &EntryPath, spool: &Spool) -> io::Result<bool> {
    Ok(is_candidate(&path.to_string(), &head(spool)?))
}

impl Layers {
    /// Adds a layer on top of the others.
    pub fn add(&mut self, layer: Layer) {
        let Layer { listing, scanned, .. } = layer;
        let links = listing.entries.iter().filter(|(_, entry)| entry.kind == Kind::Hardlink);
        let links = links.filter_map(|(path, entry)| {
            let target = EntryPath::parse(&entry.link).ok()?;
            // The layer with the link may remove a file of a lower layer.
            let below = self.view.get(&target).and(self.results.get(&target)).copied();
            Some((path.clone(), target, below))
        });
        let links: Vec<_> = links.collect();
        self.view.apply(&listing);
        let mut scanned = scanned.into_iter().peekable();
        for (number, (path, entry)) in listing.entries.into_iter().enumerate() {
            let result = scanned.next_if(|(of, ..)| *of == number);
            if entry.kind == Kind::Hardlink {
                self.links.insert(path);
                continue;
            }
            self.links.remove(&path);
            self.results.remove(&path);
            if let Some((.., result)) = result {
                self.results.insert(path, self.scanned.len());
                self.scanned.push(result);
            }
        }
        for (path, target, below) in links {
            let is_here = self.view.get(&target).is_some();
            let result = if is_here { self.results.get(&target).copied() } else { below };
            match result {
                Some(number) => self.results.insert(path, number),
                None => self.results.remove(&path),
            };
        }
    }

    /// Returns the GPU code in the files that are visible in all layers together.
    pub fn finish(self) -> Found {
        let mut found = Found::default();
        let mut seen = HashSet::new();
        let files = self.view.iter().filter(|(_, entry)| entry.kind == Kind::File);
        let (links, first): (Vec<_>, Vec<_>) =
            files.map(|(path, _)| path).partition(|path| self.links.contains(*path));
        for path in first.into_iter().chain(links) {
            found.count(&path.to_string());
            let Some(number) = self.results.get(path) else { continue };
            // A hard link counts only if the original path of the file is hidden.
            let is_new = seen.insert(number);
            if !is_new && self.links.contains(path) {
                continue;
            }
            if let Some(scanned) = self.scanned.get(*number) {
                found.add(path.to_string(), scanned.clone());
            }
        }
        found
    }
}
