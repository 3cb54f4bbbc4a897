//! Determines the changes of a layer relative to the layers below, and the form in which they are
//! written.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek};

use names::Hasher;

use crate::entry::{Entry, Kind};
use crate::error::SealError;
use crate::index::Index;
use crate::path::EntryPath;
use crate::pyc;
use crate::report::Report;
use crate::sealer::Rules;
use crate::upper::{Node, Upper, link_target};
use tar_stream::Seekable;

/// The entries to write, by their paths in the tar.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) nodes: BTreeMap<EntryPath, Node>,
    /// The times that Python sources had during the build.
    pub(crate) built: Vec<(EntryPath, i64)>,
}

/// Determines the changes of a layer.
pub(crate) struct Differ<'a, R> {
    pub(crate) rules: &'a Rules,
    pub(crate) view: &'a Index,
    pub(crate) inputs: &'a mut [Seekable<R>],
    pub(crate) report: &'a mut Report,
}

/// The largest device number in a tar header.
const MAX_DEVICE: u32 = 0o777_7777;

impl<R: Read + Seek> Differ<'_, R> {
    /// Returns the changes of a layer, which must contain all parent directories
    /// ([`imply_parents`]).
    pub(crate) fn changes(&mut self, mut upper: Upper) -> Result<Changes, SealError> {
        self.report.xattrs = std::mem::take(&mut upper.xattrs);
        let whiteouts = self.whiteouts(&upper);
        self.scrub(&mut upper.nodes);
        let unchanged = self.unchanged(&mut upper.nodes)?;
        self.report.unchanged = unchanged.len() as u64;

        let kept = upper.nodes.keys().filter(|path| !unchanged.contains(path));
        let parents: BTreeSet<EntryPath> = parents(kept.chain(&whiteouts));
        let mut changes = Changes::default();
        let mut carriers = BTreeMap::new();
        for (path, mut node) in upper.nodes {
            if path.as_bytes().ends_with(b".py") {
                changes.built.push((path.clone(), node.entry.mtime));
            }
            if unchanged.contains(&path) && !parents.contains(&path) {
                continue;
            }
            if node.is_shared && !node.entry.is_directory() {
                let carrier = carriers.entry(node.inode()).or_insert_with(|| path.clone());
                if *carrier != path {
                    node.entry.kind = Kind::Hardlink;
                    node.entry.link = carrier.as_bytes().into();
                }
            }
            self.seal_entry(&path, &mut node.entry)?;
            changes.nodes.insert(path, node);
        }
        for path in parents {
            let lower = || self.view.get(&path).filter(|entry| entry.is_directory());
            changes.nodes.entry(path.clone()).or_insert_with(|| {
                let mut entry = lower().cloned().unwrap_or_else(Entry::implied_directory);
                entry.mtime = self.rules.epoch.cast_signed();
                Node::bare(entry)
            });
        }
        for hidden in whiteouts {
            let whiteout = Node::bare(Entry::new(Kind::Whiteout));
            changes.nodes.insert(hidden.whiteout(), whiteout);
        }
        Ok(changes)
    }

    /// Returns the paths that need a whiteout. Opaque directories are expanded, and paths that do
    /// not exist in the layers below are left out.
    fn whiteouts(&mut self, upper: &Upper) -> BTreeSet<EntryPath> {
        let mut hidden = BTreeSet::new();
        let mut emptied: BTreeSet<&EntryPath> = BTreeSet::new();
        for path in upper.whiteouts.union(&upper.opaques) {
            let is_void = |above: &EntryPath| {
                hidden.contains(above)
                    || upper.nodes.get(above).is_some_and(|node| !node.entry.is_directory())
            };
            if path.ancestors().any(|above| is_void(&above) || emptied.contains(&above)) {
                continue;
            }
            let is_directory = match upper.nodes.get(path) {
                Some(node) if node.entry.is_directory() => true,
                // A non-directory replaces everything that was there.
                Some(_) => continue,
                None => !upper.whiteouts.contains(path),
            };
            if is_directory {
                emptied.insert(path);
                self.hide_below(upper, path, &mut hidden);
            } else if self.view.get(path).is_some() {
                hidden.insert(path.clone());
            } else {
                self.report.idle_whiteouts += 1;
            }
        }
        hidden
    }

    /// Hides everything that the layers below have in a directory and that the layer does not
    /// create again.
    fn hide_below(&self, upper: &Upper, directory: &EntryPath, hidden: &mut BTreeSet<EntryPath>) {
        let mut done: Option<&EntryPath> = None;
        for path in self.view.below(directory) {
            if done.is_some_and(|done| path.is_below(done)) {
                continue;
            }
            match upper.nodes.get(path) {
                Some(node) if node.entry.is_directory() => {}
                Some(_) => done = Some(path),
                None => {
                    hidden.insert(path.clone());
                    done = Some(path);
                }
            }
        }
    }

    /// Drops the paths on the scrub list. The layers below show through, as if nothing had been
    /// written there.
    fn scrub(&mut self, nodes: &mut BTreeMap<EntryPath, Node>) {
        let mut last: Option<(EntryPath, usize)> = None;
        let mut scrubbed: BTreeMap<usize, Vec<EntryPath>> = BTreeMap::new();
        nodes.retain(|path, _| {
            if let Some((above, glob)) = &last
                && path.is_below(above)
            {
                scrubbed.entry(*glob).or_default().push(path.clone());
                return false;
            }
            let Some(glob) = self.rules.scrub.iter().position(|glob| glob.matches(path)) else {
                return true;
            };
            scrubbed.entry(glob).or_default().push(path.clone());
            last = Some((path.clone(), glob));
            false
        });
        let by_pattern = scrubbed.into_iter();
        let by_pattern = by_pattern.map(|(at, paths)| (self.rules.scrub[at].to_string(), paths));
        self.report.scrubbed = by_pattern.collect();
    }

    /// Returns the paths whose entries are the same in the layers below, and sets the new times for
    /// bytecode.
    fn unchanged(
        &mut self,
        nodes: &mut BTreeMap<EntryPath, Node>,
    ) -> Result<BTreeSet<EntryPath>, SealError> {
        let mut unchanged = BTreeSet::new();
        for (path, node) in nodes.iter_mut() {
            let is_bytecode = node.entry.kind == Kind::File && pyc::source_of(path).is_some();
            if !is_bytecode && self.is_unchanged(path, node)? {
                unchanged.insert(path.clone());
            }
        }
        for (path, source) in bytecode(nodes) {
            let patch = self.bytecode(nodes, &unchanged, &path, &source)?;
            let Some(node) = nodes.get_mut(&path) else { continue };
            node.patch = patch;
            if self.is_unchanged(&path, node)? {
                unchanged.insert(path);
            }
        }
        // All paths of one file are kept or dropped together: engines that unpack every layer
        // separately cannot unpack a link into a layer below.
        let shared = |(_, node): &(&EntryPath, &Node)| node.is_shared;
        let changed = nodes.iter().filter(shared).filter(|(path, _)| !unchanged.contains(path));
        let changed: BTreeSet<_> = changed.map(|(_, node)| node.inode()).collect();
        for (path, _) in nodes.iter().filter(shared).filter(|(_, n)| changed.contains(&n.inode())) {
            unchanged.remove(path);
        }
        Ok(unchanged)
    }

    /// Returns whether the layers below have the same entry, apart from its time. Content is read
    /// only if everything else is equal.
    fn is_unchanged(&mut self, path: &EntryPath, node: &mut Node) -> Result<bool, SealError> {
        if node.entry.kind == Kind::Hardlink {
            let target = link_target(path, node)?;
            let file = self.view.get(&target).filter(|entry| !entry.is_directory());
            let Some(file) = file else {
                return Err(SealError::Link { path: path.clone(), target });
            };
            // A link has the metadata of its file.
            let link = std::mem::take(&mut node.entry.link);
            node.entry = Entry { kind: Kind::Hardlink, link, ..file.clone() };
            let same = |lower: &Entry| lower.has_same_metadata(file) && lower.sha256 == file.sha256;
            return Ok(file.sha256.is_some() && self.view.get(path).is_some_and(same));
        }
        let Some(lower) = self.view.get(path).filter(|e| e.has_same_metadata(&node.entry)) else {
            return Ok(false);
        };
        if node.entry.kind != Kind::File {
            return Ok(true);
        }
        let mut hasher = Hasher::new();
        node.read(path, self.inputs, |part| hasher.update(part))?;
        let sha256 = hasher.finish();
        node.entry.sha256 = Some(sha256);
        Ok(lower.sha256 == Some(sha256))
    }

    /// Returns the new time for the header of a bytecode file, or `None` if the header stays
    /// unchanged.
    fn bytecode(
        &mut self,
        nodes: &BTreeMap<EntryPath, Node>,
        unchanged: &BTreeSet<EntryPath>,
        path: &EntryPath,
        source: &EntryPath,
    ) -> Result<Option<u32>, SealError> {
        let counts = &mut self.report.bytecode;
        let lower = self.view.known(source).filter(|known| known.entry.kind == Kind::File);
        // The source's time at compilation, its size, and its time in the image.
        let found = match nodes.get(source) {
            Some(node) if node.entry.kind == Kind::File => {
                let sealed = lower.filter(|_| unchanged.contains(source));
                let sealed = sealed.map(|known| known.entry.mtime);
                let sealed = sealed.unwrap_or_else(|| self.rules.clamp(node.entry.mtime));
                Some((node.entry.mtime, node.entry.size, sealed))
            }
            Some(_) => None,
            None => lower.map(|known| (known.built, known.entry.size, known.entry.mtime)),
        };
        let (Some((built, size, sealed)), Some(node)) = (found, nodes.get(path)) else {
            counts.unchecked.push(path.clone());
            return Ok(None);
        };
        let mut head = Vec::with_capacity(pyc::HEADER);
        node.read_start(path, self.inputs, &mut head)?;
        let head = <[u8; pyc::HEADER]>::try_from(head);
        let low = |value: i64| u32::try_from(value.rem_euclid(1 << 32)).unwrap_or_default();
        match head.map_or(pyc::Header::Other, |head| pyc::header(&head)) {
            pyc::Header::Other => counts.unchecked.push(path.clone()),
            pyc::Header::Hashed => counts.valid += 1,
            pyc::Header::Timed { mtime, size: stated } => {
                // In layers, podman rounds times to the nearest second, but Python truncates them.
                let is_timely = mtime == low(built) || mtime == low(built.saturating_sub(1));
                if !is_timely || u64::from(stated) != size % (1 << 32) {
                    counts.stale.push(path.clone());
                } else if mtime == low(sealed) {
                    counts.valid += 1;
                } else {
                    counts.patched += 1;
                    return Ok(Some(low(sealed)));
                }
            }
        }
        Ok(None)
    }

    /// Sets the time of an entry, and records or refuses devices.
    fn seal_entry(&mut self, path: &EntryPath, entry: &mut Entry) -> Result<(), SealError> {
        entry.mtime = match entry.kind {
            Kind::Directory => self.rules.epoch.cast_signed(),
            _ => self.rules.clamp(entry.mtime),
        };
        if matches!(entry.kind, Kind::Character | Kind::Block) {
            if entry.device.0.max(entry.device.1) > MAX_DEVICE {
                return Err(SealError::Device(path.clone()));
            }
            self.report.devices.push(path.clone());
        }
        Ok(())
    }
}

/// Adds the directories that unpacking would create, and refuses paths whose parent is not a
/// directory.
pub(crate) fn imply_parents(upper: &mut Upper, view: &Index) -> Result<(), SealError> {
    let mut seen = BTreeSet::new();
    let mut implied = Vec::new();
    for path in upper.nodes.keys() {
        for above in path.ancestors() {
            if !seen.insert(above.clone()) {
                break;
            }
            let there = match upper.nodes.get(&above) {
                Some(node) => Some(&node.entry),
                None if is_hidden(upper, &above) => None,
                None => view.get(&above),
            };
            match there {
                Some(entry) if entry.is_directory() => {}
                Some(_) => return Err(SealError::NoDirectory { path: path.clone(), above }),
                None => implied.push(above),
            }
        }
    }
    let bare = || Node::bare(Entry::implied_directory());
    upper.nodes.extend(implied.into_iter().map(|path| (path, bare())));
    Ok(())
}

/// Returns whether the layer hides the content of the layers below at a path.
fn is_hidden(upper: &Upper, path: &EntryPath) -> bool {
    let is_emptied =
        |above: &EntryPath| upper.opaques.contains(above) || upper.whiteouts.contains(above);
    upper.whiteouts.contains(path)
        || upper.opaques.contains(&EntryPath::root())
        || path.ancestors().any(|above| is_emptied(&above))
}

/// Returns all parent directories of the paths.
fn parents<'a>(paths: impl Iterator<Item = &'a EntryPath>) -> BTreeSet<EntryPath> {
    let mut parents = BTreeSet::new();
    for path in paths {
        for above in path.ancestors() {
            if !parents.insert(above) {
                break;
            }
        }
    }
    parents
}

/// Returns the files that are named like Python bytecode, and the paths of their sources.
fn bytecode(nodes: &BTreeMap<EntryPath, Node>) -> Vec<(EntryPath, EntryPath)> {
    let files = nodes.iter().filter(|(_, node)| node.entry.kind == Kind::File);
    files.filter_map(|(path, _)| Some((path.clone(), pyc::source_of(path)?))).collect()
}
