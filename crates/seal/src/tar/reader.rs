//! Reads the entries of a tar, guided only by lengths.
//!
//! The input may be hostile: every allocation has a limit, and anything on which tar readers
//! disagree is refused.

use std::collections::BTreeMap;
use std::io::{self, Read};

use super::BLOCK;
use super::block::{self, Block, Dialect, Field};
use super::content::{Content, Expanded, Skip};
use super::pax::{self, Overrides};
use super::sparse;
use crate::entry::{Entry, Kind};
use crate::path::{EntryPath, MAX_PATH, PathError, escaped};

/// The maximum size of an extended header or long name, in bytes (the same as in Go).
pub(super) const MAX_EXTENSION: usize = 1 << 20;

/// Why a tar cannot be read: the fault, the entry, and the position in the tar.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the tar at byte {offset}{}: {fault}", in_entry(.entry))]
pub struct TarError {
    /// The entry, if its name is known.
    entry: Option<String>,
    /// The position of its header.
    offset: u64,
    /// The fault.
    fault: Fault,
    /// The error of the input.
    #[source]
    source: Option<io::Error>,
}

fn in_entry(entry: &Option<String>) -> String {
    entry.as_ref().map(|entry| format!(", entry `{entry}`")).unwrap_or_default()
}

/// Returns a name for a message. A hostile name may have a million bytes.
fn named(name: &[u8]) -> String {
    match name.get(..200) {
        Some(start) if name.len() > 200 => format!("{}…", escaped(start)),
        _ => escaped(name),
    }
}

impl TarError {
    /// Returns the error for an entry whose name is not valid in a layer.
    pub(crate) fn of_name(path: &EntryPath, offset: u64) -> Self {
        Self { entry: Some(named(path.as_bytes())), offset, fault: Fault::Name, source: None }
    }

    /// Returns the error for an input that cannot be read.
    pub(crate) fn unreadable(path: Option<&EntryPath>, offset: u64, error: io::Error) -> Self {
        let fault = Fault::of(&error);
        Self { entry: path.map(|path| named(path.as_bytes())), offset, fault, source: Some(error) }
    }

    /// Returns the position of the entry in the tar, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

/// The faults of a tar.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("it ends in the middle of an entry; it was truncated")]
    Truncated,
    #[error("cannot read the input")]
    Unreadable,
    #[error("the checksum of a header is wrong; this is not a tar, or it is damaged")]
    Checksum,
    #[error("there is a single block of zeros between entries")]
    LoneZeros,
    #[error("its {0} is not a number, or is out of range")]
    Number(&'static str),
    #[error("its type `{}` is not valid in an image layer", escaped(&[*.0]))]
    Type(u8),
    #[error("a PAX header has a record whose length is wrong")]
    Pax,
    #[error("the PAX record `{0}` has an invalid value")]
    PaxValue(String),
    #[error("a global PAX header sets `{0}`, which is only valid for a single entry")]
    Global(String),
    #[error("an extended header has {0} bytes, more than the limit of {MAX_EXTENSION}")]
    LongExtension(u64),
    #[error("there is no entry after a header that describes the next one")]
    Dangling,
    #[error("the sparse file {0}")]
    Sparse(&'static str),
    #[error("{0}")]
    Path(PathError),
    #[error("the target of its link is not a valid path")]
    Link,
    #[error("names, links and attributes of the entries need more than {} MiB", .0 >> 20)]
    TooMany(u64),
    #[error("its name is not valid in a layer: `.wh.` is the prefix of whiteouts")]
    Name,
}

impl Fault {
    fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Truncated,
            _ => Self::Unreadable,
        }
    }
}

/// An entry and its location.
#[derive(Debug)]
pub(crate) struct Located {
    pub(crate) path: EntryPath,
    pub(crate) entry: Entry,
    pub(crate) content: Content,
    /// The position of its header.
    pub(crate) offset: u64,
}

/// Reads the entries of a tar one by one.
pub(crate) struct TarReader<R> {
    input: R,
    position: u64,
    /// How much of the current entry has not been read: data, and the padding of its last block.
    data_left: u64,
    padding: u64,
    globals: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The memory for the entries so far, in bytes, and its limit.
    held: u64,
    is_done: bool,
}

/// The information in front of an entry's header.
#[derive(Default)]
struct Before {
    overrides: Overrides,
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    is_some: bool,
}

/// The memory limit for all entries of a layer, in bytes: enough for several million entries.
const MAX_HELD: u64 = 2 << 30;

impl<R: Skip> TarReader<R> {
    pub(crate) fn new(input: R) -> Self {
        Self {
            input,
            position: 0,
            data_left: 0,
            padding: 0,
            globals: BTreeMap::new(),
            held: 0,
            is_done: false,
        }
    }

    /// Returns the next entry. Skips the unread content of the last one.
    pub(crate) fn next(&mut self) -> Result<Option<Located>, TarError> {
        let start = self.position + self.data_left + self.padding;
        let mut name = None;
        self.next_or_fault(&mut name).map_err(|Failed { fault, source }| {
            self.is_done = true;
            TarError { entry: name.map(|name| named(&name)), offset: start, fault, source }
        })
    }

    fn next_or_fault(&mut self, name: &mut Option<Vec<u8>>) -> Result<Option<Located>, Failed> {
        if self.is_done {
            return Ok(None);
        }
        self.finish_entry()?;
        let start = self.position;
        let mut before = Before::default();
        loop {
            let Some(block) = self.header()? else {
                self.is_done = true;
                return if before.is_some { Err(Fault::Dangling.into()) } else { Ok(None) };
            };
            match block.0[block::TYPE] {
                b'x' | b'X' => {
                    let bytes = self.extension(&block)?;
                    before.overrides = Overrides::default();
                    for (key, value) in pax::records(&bytes)? {
                        before.overrides.set(key, value)?;
                    }
                }
                b'g' => {
                    let bytes = self.extension(&block)?;
                    pax::keep_globals(&mut self.globals, &bytes)?;
                    continue;
                }
                b'L' => before.name = Some(up_to_nul(self.extension(&block)?)),
                b'K' => before.link = Some(up_to_nul(self.extension(&block)?)),
                kind => {
                    *name = Some(before.path(&block));
                    let located = self.entry(&block, kind, before, start)?;
                    self.hold(&located)?;
                    return Ok(Some(located));
                }
            }
            before.is_some = true;
        }
    }

    /// Creates an entry from its header and the headers in front of it.
    fn entry(
        &mut self,
        block: &Block,
        kind: u8,
        before: Before,
        offset: u64,
    ) -> Result<Located, Failed> {
        let raw = before.path(block);
        let link = before.link.clone().or_else(|| before.overrides.link.clone());
        let link = link.unwrap_or_else(|| block.text(block::LINK).to_vec());
        let mut all = Overrides::default();
        for (key, value) in &self.globals {
            all.set(key, value)?;
        }
        let own = before.overrides;
        let kind = match kind {
            // In v7, a directory is a file whose name ends with `/`.
            0 | b'0' | b'7' if raw.ends_with(b"/") && !own.sparse.is_some() => Kind::Directory,
            0 | b'0' | b'7' | b'S' => Kind::File,
            b'1' => Kind::Hardlink,
            b'2' => Kind::Symlink,
            b'3' => Kind::Character,
            b'4' => Kind::Block,
            b'5' => Kind::Directory,
            b'6' => Kind::Fifo,
            other => return Err(Fault::Type(other).into()),
        };
        let mut entry = Entry::new(kind);
        let field = |place: Field, what| block::number(&block.0[place]).ok_or(Fault::Number(what));
        let owner = |given: Option<u64>, place: Field, what: &'static str| match given {
            Some(given) => u32::try_from(given).map_err(|_| Fault::Number(what)),
            None => u32::try_from(field(place, what)?).map_err(|_| Fault::Number(what)),
        };
        // Only permission bits count: some tars put the file type above them.
        entry.mode = u32::try_from(field(block::MODE, "mode")? & 0o7777).unwrap_or_default();
        entry.uid = owner(own.uid.or(all.uid), block::UID, "owner")?;
        entry.gid = owner(own.gid.or(all.gid), block::GID, "group")?;
        entry.mtime = match own.mtime.or(all.mtime) {
            Some(mtime) => mtime,
            None => field(block::MTIME, "time")?,
        };
        entry.xattrs = all.xattrs;
        entry.xattrs.extend(own.xattrs.clone());
        if matches!(kind, Kind::Character | Kind::Block) && block.dialect() != Dialect::V7 {
            entry.device = (
                owner(None, block::MAJOR, "device number")?,
                owner(None, block::MINOR, "device number")?,
            );
        }
        if matches!(kind, Kind::Symlink | Kind::Hardlink) {
            entry.link = checked_link(kind, &link)?;
        }
        // Entries of other types have no data, whatever their size field says (as in Go).
        let size = match own.size {
            Some(size) => size,
            None => {
                u64::try_from(field(block::SIZE, "size")?).map_err(|_| Fault::Number("size"))?
            }
        };
        let mut content = Content::default();
        if kind == Kind::File {
            if size > i64::MAX as u64 - BLOCK as u64 {
                return Err(Fault::Number("size").into());
            }
            content = self.content(block, &own, size)?;
            entry.size = content.size;
        }
        let path = EntryPath::parse(&raw).map_err(Fault::Path)?;
        Ok(Located { path, entry, content, offset })
    }

    /// Finds the content of a file, and sets how much is left to read.
    fn content(&mut self, block: &Block, own: &Overrides, stored: u64) -> Result<Content, Failed> {
        self.padding = stored.wrapping_neg() % BLOCK as u64;
        let mut content = Content { offset: 0, stored, size: stored, map: None };
        if block.0[block::TYPE] == b'S' {
            let padding = std::mem::take(&mut self.padding);
            let (map, size) = sparse::old_gnu(block, || self.block())?;
            self.padding = padding;
            content.map = Some(map.into());
            content.size = size;
        } else if own.sparse.is_some() {
            let map = match (own.sparse.major, own.sparse.minor) {
                (Some(1), Some(0)) => {
                    let (map, taken) = sparse::in_data(|| self.block())?;
                    let left = stored.checked_sub(taken);
                    content.stored =
                        left.ok_or(Fault::Sparse("has a map that is longer than its data"))?;
                    map
                }
                (None | Some(0), _) => own.sparse.map.clone(),
                _ => return Err(Fault::Sparse("has a map of an unknown version").into()),
            };
            content.map = Some(map.into());
            content.size = own.sparse.size.ok_or(Fault::Sparse("has no size"))?;
        }
        if let Some(map) = &content.map {
            sparse::check(map, content.stored, content.size)?;
        }
        content.offset = self.position;
        self.data_left = content.stored;
        Ok(content)
    }

    /// Counts the memory that an entry needs.
    fn hold(&mut self, located: &Located) -> Result<(), Failed> {
        let map = located.content.map.as_ref().map_or(0, |map| map.len() * 16);
        let xattrs: usize =
            located.entry.xattrs.iter().map(|(name, value)| name.len() + value.len() + 64).sum();
        let own = located.path.as_bytes().len() + located.entry.link.len() + xattrs + map + 256;
        self.held += own as u64;
        if self.held > MAX_HELD { Err(Fault::TooMany(MAX_HELD).into()) } else { Ok(()) }
    }

    /// Passes the content of the last entry to `take`, in chunks.
    pub(crate) fn read(
        &mut self,
        located: &Located,
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), TarError> {
        let mut buffer = vec![0; located.content.size.min(64 << 10) as usize];
        let mut content = Expanded::new(&mut self.input, &located.content);
        loop {
            match content.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => take(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.is_done = true;
                    return Err(TarError::unreadable(Some(&located.path), located.offset, error));
                }
            }
        }
        self.position += std::mem::take(&mut self.data_left);
        Ok(())
    }

    /// Skips the rest of an entry.
    fn finish_entry(&mut self) -> Result<(), Failed> {
        let rest = self.data_left + self.padding;
        if rest > 0 {
            self.input.skip(rest)?;
        }
        self.position += rest;
        (self.data_left, self.padding) = (0, 0);
        Ok(())
    }

    /// Reads a header. Returns `None` at the end: after two blocks of zeros, or at the end of the
    /// input.
    fn header(&mut self) -> Result<Option<Block>, Failed> {
        let Some(block) = self.block_or_end()? else { return Ok(None) };
        if block.is_zero() {
            return match self.block_or_end()? {
                Some(second) if !second.is_zero() => Err(Fault::LoneZeros.into()),
                _ => Ok(None),
            };
        }
        if block.has_right_sum() { Ok(Some(block)) } else { Err(Fault::Checksum.into()) }
    }

    /// Reads the bytes of an extended header or long name.
    fn extension(&mut self, block: &Block) -> Result<Vec<u8>, Failed> {
        let size = block::number(&block.0[block::SIZE]).and_then(|size| u64::try_from(size).ok());
        let size = size.ok_or(Fault::Number("size"))?;
        if size > MAX_EXTENSION as u64 {
            return Err(Fault::LongExtension(size).into());
        }
        let length = usize::try_from(size).unwrap_or(MAX_EXTENSION);
        let mut bytes = vec![0; length.next_multiple_of(BLOCK)];
        self.input.read_exact(&mut bytes)?;
        self.position += bytes.len() as u64;
        bytes.truncate(length);
        Ok(bytes)
    }

    fn block(&mut self) -> Result<Block, Fault> {
        match self.block_or_end() {
            Ok(Some(block)) => Ok(block),
            Ok(None) => Err(Fault::Truncated),
            Err(failed) => Err(failed.fault),
        }
    }

    /// Reads a block. Returns `None` at the end of the input.
    fn block_or_end(&mut self) -> Result<Option<Block>, Failed> {
        let mut block = [0; BLOCK];
        let mut filled = 0;
        while filled < BLOCK {
            match self.input.read(&mut block[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(Fault::Truncated.into()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.position += BLOCK as u64;
        Ok(Some(Block(block)))
    }
}

impl Before {
    /// Returns the unparsed path: GNU's long name, PAX, or the header's.
    fn path(&self, block: &Block) -> Vec<u8> {
        let sparse = self.overrides.sparse.name.clone();
        let pax = sparse.or_else(|| self.overrides.path.clone());
        self.name.clone().or(pax).unwrap_or_else(|| block.path())
    }
}

/// A fault, and the error of the input if that is the cause.
struct Failed {
    fault: Fault,
    source: Option<io::Error>,
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Self { fault, source: None }
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self { fault: Fault::of(&error), source: Some(error) }
    }
}

fn up_to_nul(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.truncate(end);
    bytes
}

fn checked_link(kind: Kind, link: &[u8]) -> Result<Box<[u8]>, Fault> {
    if kind == Kind::Hardlink {
        let target = EntryPath::parse(link).map_err(|_| Fault::Link)?;
        return match target.is_root() {
            true => Err(Fault::Link),
            false => Ok(target.as_bytes().into()),
        };
    }
    match link.is_empty() || link.len() > MAX_PATH || link.contains(&0) {
        true => Err(Fault::Link),
        false => Ok(link.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Forward, Ustar, pax_record};
    use super::*;

    /// Returns an entry without data.
    fn bare(kind: u8, name: &str, link: &[u8]) -> Vec<u8> {
        Ustar { kind, link, name: name.as_bytes(), ..Ustar::default() }.block().to_vec()
    }

    fn extension(kind: u8, data: &[u8]) -> Vec<u8> {
        let size = data.len() as u64;
        let mut bytes = Ustar { kind, name: b"x", size, ..Ustar::default() }.block().to_vec();
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        bytes
    }

    fn records(records: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut data = Vec::new();
        records.iter().for_each(|(key, value)| pax_record(&mut data, key, value));
        data
    }

    #[test]
    fn the_memory_for_all_entries_is_limited() {
        let mut tar = bare(b'0', "file", b"");
        tar.extend(bare(b'2', "link", &[b'a'; 90]));
        let attribute = records(&[(b"SCHILY.xattr.user.name", &[b'v'; 1000])]);
        tar.extend(extension(b'x', &attribute));
        tar.extend(bare(b'0', "attribute", b""));
        let map = records(&[(b"GNU.sparse.size", b"9"), (b"GNU.sparse.map", b"0,0,1,0,2,0")]);
        tar.extend(extension(b'x', &map));
        tar.extend(bare(b'0', "sparse", b""));
        // Names, links, attributes, maps, and a constant for the rest all count.
        let sizes = [4, 4 + 90, 9 + 9 + 1000 + 64, 6 + 3 * 16].map(|size| size + 256);
        let mut reader = TarReader::new(Forward(&tar[..]));
        for (number, size) in sizes.into_iter().enumerate() {
            let before = reader.held;
            assert!(reader.next().unwrap().is_some());
            assert_eq!(reader.held - before, size, "entry {number}");
        }
        let all: u64 = sizes.iter().sum();
        for (held, wanted) in [(MAX_HELD - all, 4), (MAX_HELD - all + 1, 3)] {
            let mut reader = TarReader::new(Forward(&tar[..]));
            reader.held = held;
            let mut read = 0;
            let end = loop {
                match reader.next() {
                    Ok(Some(_)) => read += 1,
                    Ok(None) => break "end".to_owned(),
                    Err(error) => break error.to_string(),
                }
            };
            assert_eq!(read, wanted);
            let is_full = end.ends_with("of the entries need more than 2048 MiB");
            assert_eq!(is_full, wanted == 3, "{end}");
        }
    }

    #[test]
    fn long_names_and_extended_headers_are_limited() {
        for kind in *b"xXgLK" {
            let tar = |size: usize| {
                let mut data = vec![b'a'; size];
                if matches!(kind, b'x' | b'X' | b'g') {
                    data = Vec::new();
                    let value = vec![b'a'; size - b"1048576 comment=\n".len()];
                    pax_record(&mut data, b"comment", &value);
                    assert_eq!(data.len(), size);
                }
                let mut tar = extension(kind, &data);
                tar.extend(bare(b'0', "file", b""));
                tar
            };
            let read = |tar: &[u8]| {
                let end = TarReader::new(Forward(tar)).next().map(|_| ());
                end.map_or_else(|error| error.to_string(), |()| "read".to_owned())
            };
            let fits = read(&tar(MAX_EXTENSION));
            let wanted = if kind == b'L' { "its path has 1048576 bytes" } else { "read" };
            assert!(fits.contains(wanted), "{fits}");
            let refused = read(&tar(MAX_EXTENSION + 1));
            assert!(refused.contains("has 1048577 bytes, more than the limit of 1048576"));
        }
    }

    #[test]
    fn what_global_headers_set_is_limited_together() {
        let one = |name: &[u8], size: usize| {
            let key = [b"SCHILY.xattr.".as_slice(), name].concat();
            extension(b'g', &records(&[(key.as_slice(), vec![b'v'; size].as_slice())]))
        };
        let half = (MAX_EXTENSION >> 1) - b"SCHILY.xattr.a".len();
        let read = |tars: &[Vec<u8>]| {
            let tar = [tars.concat(), bare(b'0', "file", b"")].concat();
            let end = TarReader::new(Forward(&tar[..])).next().map(|_| ());
            end.map_err(|error| error.to_string())
        };
        assert_eq!(read(&[one(b"a", half), one(b"b", half)]), Ok(()));
        // Later values replace earlier ones.
        assert_eq!(read(&[one(b"a", half), one(b"a", half), one(b"b", half)]), Ok(()));
        let refused = read(&[one(b"a", half), one(b"b", half + 1)]).unwrap_err();
        assert!(refused.contains("has 1048577 bytes, more than the limit of 1048576"));
    }
}
