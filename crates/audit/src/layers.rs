//! Reads layers and other tar archives as streams.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
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
    /// The SHA-256 of the content of hard links to files in lower layers. The layer with the link
    /// may remove the file.
    linked: BTreeMap<EntryPath, [u8; 32]>,
    /// The results by the SHA-256 of the content. They can depend on a file's name, so the same
    /// content can have several results.
    scanned: HashMap<[u8; 32], Vec<(EntryPath, Scanned)>>,
}

/// A layer that is being read.
#[derive(Debug, Default)]
pub struct Layer {
    listing: Listing,
    scanned: Vec<([u8; 32], EntryPath, Scanned)>,
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
        if let (Some(Current::Kept(spool)), Some(sha256)) = (self.current.take(), entry.sha256) {
            // For a file shorter than `HEAD` bytes, nothing has been decided yet.
            if is_kept(&path, &spool)? {
                let scanned = scan(&path.to_string(), &spool);
                if !matches!(scanned, Ok(None)) {
                    self.scanned.push((sha256, path.clone(), scanned));
                }
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
        let links = layer.listing.entries.iter().filter(|(_, entry)| entry.kind == Kind::Hardlink);
        for (path, entry) in links {
            let target = EntryPath::parse(&entry.link).ok();
            let content = target.and_then(|target| self.view.get(&target)?.sha256);
            self.linked.extend(content.map(|content| (path.clone(), content)));
        }
        self.view.apply(&layer.listing);
        for (path, entry) in layer.listing.entries {
            if entry.kind == Kind::Hardlink {
                self.links.insert(path);
            } else {
                self.links.remove(&path);
            }
        }
        for (sha256, path, scanned) in layer.scanned {
            self.scanned.entry(sha256).or_default().push((path, scanned));
        }
    }

    /// Returns the GPU code in the files that are visible in all layers together.
    pub fn finish(self) -> Found {
        let mut found = Found::default();
        let mut seen = HashSet::new();
        let files = || self.view.iter().filter(|(_, entry)| entry.kind == Kind::File);
        let (links, first): (Vec<_>, Vec<_>) =
            files().partition(|(path, _)| self.links.contains(*path));
        for (path, entry) in first.into_iter().chain(links) {
            found.count(&path.to_string());
            let linked = || self.linked.get(path).filter(|_| self.links.contains(path)).copied();
            let Some(sha256) = entry.sha256.or_else(linked) else { continue };
            // A hard link counts only if the original path of the file is hidden.
            let is_new = seen.insert(sha256);
            if !is_new && self.links.contains(path) {
                continue;
            }
            let results = self.scanned.get(&sha256);
            let result = results.and_then(|results| {
                results.iter().find(|(name, _)| name == path).or(results.first())
            });
            if let Some((_, scanned)) = result {
                found.add(path.to_string(), scanned.clone());
            }
        }
        found
    }
}
