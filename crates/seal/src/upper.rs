//! The parsed layer to seal: headers in memory, content still in the tar.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Seek};

use tar_stream::{Content, Expanded, Seekable, TarError};

use crate::entry::{Entry, Kind};
use crate::error::SealError;
use crate::index::remove_below;
use crate::layer::{LayerReader, Located, wrong_name};
use crate::path::{EntryPath, Role, escaped};

/// How many hard links to hard links are followed if their file comes later in the tar.
const MAX_LINKS: usize = 64;

/// A path of the layer.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// The entry. It is a hard link only if the file is in a layer below.
    pub(crate) entry: Entry,
    pub(crate) content: Content,
    /// The index of the input that contains the content.
    pub(crate) input: usize,
    /// The position of the header. Together with the input, it is the same for all paths of one
    /// file.
    pub(crate) offset: u64,
    /// Whether the file has several paths.
    pub(crate) is_shared: bool,
    /// The new time for the header of Python bytecode.
    pub(crate) patch: Option<u32>,
}

impl Node {
    /// Returns the value that all paths of one file share.
    pub(crate) fn inode(&self) -> (usize, u64) {
        (self.input, self.offset)
    }

    /// Returns a node without content, for entries that are not in the tar.
    pub(crate) fn bare(entry: Entry) -> Self {
        let content = Content::default();
        Self { entry, content, input: 0, offset: 0, is_shared: false, patch: None }
    }

    /// Reads the content in chunks, with the time in the header of bytecode replaced.
    pub(crate) fn read<R: Read + Seek>(
        &self,
        path: &EntryPath,
        inputs: &mut [Seekable<R>],
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), TarError> {
        let failed = |error| TarError::unreadable(Some(path.as_bytes()), self.offset, error);
        let input = &mut inputs[self.input];
        input.seek_to(self.content.offset).map_err(failed)?;
        let mut content = Expanded::new(input, &self.content);
        let (mut buffer, mut position) = (vec![0; self.content.size.min(64 << 10) as usize], 0);
        loop {
            match content.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => {
                    self.patch_at(position, &mut buffer[..count]);
                    position += count as u64;
                    take(&buffer[..count]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Appends the start of the content to `head`, up to its capacity.
    pub(crate) fn read_start<R: Read + Seek>(
        &self,
        path: &EntryPath,
        inputs: &mut [Seekable<R>],
        head: &mut Vec<u8>,
    ) -> Result<(), TarError> {
        let failed = |error| TarError::unreadable(Some(path.as_bytes()), self.offset, error);
        let input = &mut inputs[self.input];
        input.seek_to(self.content.offset).map_err(failed)?;
        let most = head.capacity() as u64;
        Expanded::new(input, &self.content).take(most).read_to_end(head).map_err(failed)?;
        Ok(())
    }

    /// Writes the new time into `part`, the chunk of the content at `position`.
    pub(crate) fn patch_at(&self, position: u64, part: &mut [u8]) {
        let Some(patch) = self.patch else { return };
        for (at, byte) in crate::pyc::TIME.zip(patch.to_le_bytes()) {
            let place = (at as u64).checked_sub(position).and_then(|at| usize::try_from(at).ok());
            if let Some(place) = place.and_then(|place| part.get_mut(place)) {
                *place = byte;
            }
        }
    }
}

/// A parsed layer: its entries, and the paths that it hides.
#[derive(Debug, Default)]
pub(crate) struct Upper {
    pub(crate) nodes: BTreeMap<EntryPath, Node>,
    pub(crate) whiteouts: BTreeSet<EntryPath>,
    pub(crate) opaques: BTreeSet<EntryPath>,
    /// How often an extended attribute was dropped.
    pub(crate) xattrs: BTreeMap<String, u64>,
    /// Names of hard-linked files that a layer changed while other names of the same file stayed
    /// unchanged.
    pub(crate) broken_links: BTreeSet<EntryPath>,
}

impl Upper {
    /// Reads a layer; `number` is the index of the input. If a path has several entries, the last
    /// one is used.
    pub(crate) fn read<R: Read + Seek>(
        input: &mut Seekable<R>,
        number: usize,
    ) -> Result<Self, SealError> {
        let mut upper = Self::default();
        let mut reader = LayerReader::new(input);
        while let Some(located) = reader.next()? {
            match located.path.role() {
                Role::Plain if located.path.is_root() => {}
                Role::Plain => upper.add(located, number),
                Role::Whiteout(hidden) => drop(upper.whiteouts.insert(hidden)),
                Role::Opaque(directory) => drop(upper.opaques.insert(directory)),
                Role::Bookkeeping => {}
                Role::Impossible => return Err(wrong_name(&located.path, located.offset).into()),
            }
        }
        upper.resolve_forward_links()?;
        Ok(upper)
    }

    fn add(&mut self, located: Located, input: usize) {
        let Located { path, mut entry, content, offset } = located;
        for name in entry.normalise() {
            *self.xattrs.entry(escaped(&name)).or_default() += 1;
        }
        if entry.kind == Kind::Hardlink
            && let Ok(target) = EntryPath::parse(&entry.link)
            && let Some(node) = self.nodes.get_mut(&target)
            && !matches!(node.entry.kind, Kind::Hardlink | Kind::Directory)
        {
            // A link from a path to itself has no effect.
            if target != path {
                node.is_shared = true;
                let node = node.clone();
                self.nodes.insert(path, node);
            }
            return;
        }
        let node = Node { entry, content, input, offset, is_shared: false, patch: None };
        self.nodes.insert(path, node);
    }

    /// Resolves links that precede their file.
    fn resolve_forward_links(&mut self) -> Result<(), SealError> {
        let links = self.nodes.iter().filter(|(_, node)| node.entry.kind == Kind::Hardlink);
        let links: Vec<EntryPath> = links.map(|(path, _)| path.clone()).collect();
        for path in links {
            let mut target = path.clone();
            for _ in 0..MAX_LINKS {
                match self.nodes.get(&target) {
                    Some(node) if node.entry.kind == Kind::Hardlink => {
                        target = link_target(&path, node)?;
                    }
                    _ => break,
                }
            }
            match self.nodes.get_mut(&target) {
                Some(node) if matches!(node.entry.kind, Kind::Hardlink | Kind::Directory) => {
                    return Err(SealError::Link { path, target });
                }
                Some(node) => {
                    node.is_shared = true;
                    let node = node.clone();
                    self.nodes.insert(path, node);
                }
                // The file is in a layer below. A chain of links is shortened to its last target.
                None => {
                    if let Some(node) = self.nodes.get_mut(&path) {
                        node.entry.link = target.as_bytes().into();
                    }
                }
            }
        }
        Ok(())
    }

    /// Applies another layer on top of this one, so that both become one.
    pub(crate) fn fold(&mut self, mut above: Self) -> Result<(), SealError> {
        for (path, node) in &mut above.nodes {
            if node.entry.kind == Kind::Hardlink
                && let target = link_target(path, node)?
                && let Some(found) = self.nodes.get_mut(&target)
            {
                if found.entry.is_directory() {
                    return Err(SealError::Link { path: path.clone(), target });
                }
                found.is_shared = true;
                *node = found.clone();
            }
        }
        self.find_broken_links(&above);
        for path in above.whiteouts {
            self.nodes.remove(&path);
            remove_below(&mut self.nodes, &path);
            self.whiteouts.insert(path);
        }
        for path in above.opaques {
            remove_below(&mut self.nodes, &path);
            self.opaques.insert(path);
        }
        for (path, node) in above.nodes {
            let is_directory = node.entry.is_directory();
            let old = self.nodes.insert(path.clone(), node);
            match (old.is_some_and(|old| !old.entry.is_directory()), is_directory) {
                (_, false) => remove_below(&mut self.nodes, &path),
                // The file that was there already hid everything in the layers below.
                (true, true) => drop(self.opaques.insert(path)),
                _ => {}
            }
        }
        for (name, count) in above.xattrs {
            *self.xattrs.entry(name).or_default() += count;
        }
        Ok(())
    }
}

impl Upper {
    /// Records the hard links that the layer above replaces while another link to the same file
    /// remains.
    fn find_broken_links(&mut self, above: &Self) {
        let mut names: BTreeMap<(usize, u64), Vec<&EntryPath>> = BTreeMap::new();
        for (path, node) in self.nodes.iter().filter(|(_, node)| node.is_shared) {
            names.entry(node.inode()).or_default().push(path);
        }
        for paths in names.values() {
            let is_changed = |path: &&&EntryPath| {
                above.nodes.get(**path).is_some_and(|node| node.entry.kind == Kind::File)
            };
            let stays = |path: &&EntryPath| {
                !above.nodes.contains_key(*path) && !above.whiteouts.contains(*path)
            };
            if paths.iter().any(stays) {
                self.broken_links.extend(paths.iter().filter(is_changed).copied().cloned());
            }
        }
    }
}

/// Returns the target of a hard link.
pub(crate) fn link_target(path: &EntryPath, node: &Node) -> Result<EntryPath, SealError> {
    EntryPath::parse(&node.entry.link)
        .map_err(|_| SealError::Link { path: path.clone(), target: EntryPath::root() })
}
