//! Reads the entries of a tar. Lengths alone determine where the next header is.
//!
//! The input may be hostile: every allocation has a limit, and input that tar readers interpret
//! differently is refused.

use std::collections::BTreeMap;
use std::io::{self, Read};

use crate::BLOCK;
use crate::block::{self, Block, Dialect, Field};
use crate::content::{Content, Expanded, Skip};
use crate::error::{Failed, Fault, TarError};
use crate::pax::{self, Overrides, Xattrs};
use crate::sparse;

/// The maximum size of an extended header or long name, in bytes (the same as in Go).
pub(crate) const MAX_EXTENSION: usize = 1 << 20;

/// An entry: its names, and its location in the tar. The other fields are parsed on demand, because
/// not every caller needs them to be valid.
#[derive(Debug)]
pub struct Entry {
    /// Its type. `b'0'` is a file and `b'5'` a directory, in every dialect.
    pub kind: u8,
    /// Its path, unchanged.
    pub path: Vec<u8>,
    /// The target of a link, unchanged.
    pub link: Vec<u8>,
    /// The size according to its headers. Only files have content.
    pub size: u64,
    /// The location of its content.
    pub content: Content,
    /// The position of its header.
    pub offset: u64,
    block: Block,
    globals: Overrides,
    own: Overrides,
}

impl Entry {
    /// Returns the permission bits with setuid, setgid and sticky. Some tars put the file type
    /// above them.
    ///
    /// # Errors
    /// Fails if the field is not a number.
    pub fn mode(&self) -> Result<u32, TarError> {
        Ok(u32::try_from(self.field(block::MODE, "mode")? & 0o7777).unwrap_or_default())
    }

    /// Returns the owner.
    ///
    /// # Errors
    /// Fails if the field is not a 32-bit number.
    pub fn uid(&self) -> Result<u32, TarError> {
        self.owner(self.own.uid.or(self.globals.uid), block::UID, "owner")
    }

    /// Returns the group.
    ///
    /// # Errors
    /// Fails if the field is not a 32-bit number.
    pub fn gid(&self) -> Result<u32, TarError> {
        self.owner(self.own.gid.or(self.globals.gid), block::GID, "group")
    }

    /// Returns the time of the last change, in seconds since 1970.
    ///
    /// # Errors
    /// Fails if the field is not a number.
    pub fn mtime(&self) -> Result<i64, TarError> {
        match self.own.mtime.or(self.globals.mtime) {
            Some(mtime) => Ok(mtime),
            None => self.field(block::MTIME, "time"),
        }
    }

    /// Returns the major and minor number of a device.
    ///
    /// # Errors
    /// Fails if a field is not a 32-bit number.
    pub fn device(&self) -> Result<(u32, u32), TarError> {
        if self.block.dialect() == Dialect::V7 {
            return Ok((0, 0));
        }
        let number = |field| self.owner(None, field, "device number");
        Ok((number(block::MAJOR)?, number(block::MINOR)?))
    }

    /// Returns the extended attributes.
    pub fn xattrs(&self) -> Xattrs {
        let mut xattrs = self.globals.xattrs.clone();
        xattrs.extend(self.own.xattrs.clone());
        xattrs
    }

    /// Returns the error for a fault of this entry.
    pub fn error(&self, fault: Fault) -> TarError {
        TarError::of(Some(&self.path), self.offset, fault)
    }

    fn field(&self, place: Field, what: &'static str) -> Result<i64, TarError> {
        let number = block::number(&self.block.0[place]);
        number.ok_or_else(|| self.error(Fault::Number(what)))
    }

    fn owner(&self, pax: Option<u64>, place: Field, what: &'static str) -> Result<u32, TarError> {
        let number = match pax {
            Some(pax) => u32::try_from(pax).ok(),
            None => u32::try_from(self.field(place, what)?).ok(),
        };
        number.ok_or_else(|| self.error(Fault::Number(what)))
    }
}

/// Reads the entries of a tar one by one.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    is_strict: bool,
    position: u64,
    /// The unread data of the current entry, in bytes. `padding` is the padding of its last block.
    data_left: u64,
    padding: u64,
    globals: BTreeMap<Vec<u8>, Vec<u8>>,
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

impl<R: Skip> Reader<R> {
    /// Reads a tar in the same way as Go's archive/tar.
    pub fn new(input: R) -> Self {
        Self {
            input,
            is_strict: false,
            position: 0,
            data_left: 0,
            padding: 0,
            globals: BTreeMap::new(),
            is_done: false,
        }
    }

    /// Reads a tar, and also refuses what Go accepts but other readers interpret differently: sizes
    /// that contradict each other, ambiguous numbers, names that are not UTF-8, sparse files, and
    /// data after the end. Old types are returned unchanged. Only name, link and size are read from
    /// extended headers.
    pub fn strict(input: R) -> Self {
        Self { is_strict: true, ..Self::new(input) }
    }

    /// Returns the next entry. Skips the unread content of the last one.
    ///
    /// # Errors
    /// Fails if the tar is damaged, truncated or ambiguous.
    #[expect(clippy::should_implement_trait, reason = "the content is read between two entries")]
    pub fn next(&mut self) -> Result<Option<Entry>, TarError> {
        let start = self.position + self.data_left + self.padding;
        let mut name = None;
        self.next_or_fault(&mut name).map_err(|failed| {
            self.is_done = true;
            failed.at(name.as_deref(), start)
        })
    }

    fn next_or_fault(&mut self, name: &mut Option<Vec<u8>>) -> Result<Option<Entry>, Failed> {
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
                kind if kind == b'x' || kind == b'X' && !self.is_strict => {
                    let bytes = self.extension(&block)?;
                    before.overrides = Overrides::default();
                    for (key, value) in self.records(&bytes)? {
                        before.overrides.set(key, value)?;
                    }
                }
                b'g' => {
                    let bytes = self.extension(&block)?;
                    let records = self.records(&bytes)?;
                    pax::keep_globals(&mut self.globals, &records)?;
                    continue;
                }
                b'L' => before.name = Some(up_to_nul(self.extension(&block)?)),
                b'K' => before.link = Some(up_to_nul(self.extension(&block)?)),
                _ => {
                    *name = Some(before.path(&block));
                    return self.entry(block, before, start).map(Some);
                }
            }
            before.is_some = true;
        }
    }

    fn records<'b>(&self, bytes: &'b [u8]) -> Result<Vec<pax::Record<'b>>, Fault> {
        if self.is_strict { pax::strict_records(bytes) } else { pax::records(bytes) }
    }

    /// Creates an entry from its header and the headers in front of it.
    fn entry(&mut self, block: Block, before: Before, offset: u64) -> Result<Entry, Failed> {
        let path = before.path(&block);
        let Before { overrides: own, link, .. } = before;
        let link = link.or_else(|| own.link.clone());
        let link = link.unwrap_or_else(|| block.text(block::LINK).to_vec());
        let mut globals = Overrides::default();
        for (key, value) in &self.globals {
            globals.set(key, value)?;
        }
        let is_file = match block.0[block::TYPE] {
            0 | b'0' => true,
            b'7' | b'S' => !self.is_strict,
            _ => false,
        };
        let kind = match block.0[block::TYPE] {
            // In v7, a directory is a file whose name ends with `/`.
            kind if is_file && path.ends_with(b"/") && kind != b'S' && !own.sparse.is_some() => {
                b'5'
            }
            _ if is_file => b'0',
            kind => kind,
        };
        let size = self.size(&block, &own)?;
        let mut content = Content::default();
        // Links, devices, directories and FIFOs have no data, whatever their size field says (as in
        // Go). The data of an unknown type is skipped.
        let has_data = !(b'1'..=b'6').contains(&kind);
        if has_data && size > i64::MAX as u64 - BLOCK as u64 {
            return Err(Fault::Number("size").into());
        }
        if kind == b'0' {
            content = self.content(&block, &own, size)?;
        } else if has_data {
            (self.data_left, self.padding) = (size, size.wrapping_neg() % BLOCK as u64);
        }
        Ok(Entry { kind, path, link, size, content, offset, block, globals, own })
    }

    /// Returns the size of an entry according to its headers.
    fn size(&self, block: &Block, own: &Overrides) -> Result<u64, Fault> {
        let size = block::number(&block.0[block::SIZE]).and_then(|size| u64::try_from(size).ok());
        if self.is_strict {
            for (field, what) in [(block::SIZE, "size"), (block::MODE, "mode")] {
                if !block::is_unambiguous(&block.0[field]) {
                    return Err(Fault::Number(what));
                }
            }
            // A reader that does not support PAX would continue at a different position
            // (CVE-2025-62518).
            let size = size.ok_or(Fault::Number("size"))?;
            if own.size.is_some_and(|own| size != 0 && size != own) {
                return Err(Fault::Sizes);
            }
        }
        own.size.or(size).ok_or(Fault::Number("size"))
    }

    /// Locates the content of a file, and sets `data_left`.
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

    /// Passes the content of the last entry to `take`, in chunks. `failed` converts an I/O error of
    /// the input to the caller's error type.
    ///
    /// # Errors
    /// Fails if the input ends too early, or if `take` fails. Nothing can be read after that.
    pub fn read<E>(
        &mut self,
        content: &Content,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
        failed: impl FnOnce(io::Error) -> E,
    ) -> Result<(), E> {
        let mut buffer = vec![0; content.size.min(64 << 10) as usize];
        let mut expanded = Expanded::new(&mut self.input, content);
        // If reading stops early, the position is unknown.
        self.is_done = true;
        loop {
            match expanded.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => take(&buffer[..count])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
        self.is_done = false;
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

    /// Reads a header. Returns `None` at the end: after blocks of zeros, or at the end of the
    /// input.
    fn header(&mut self) -> Result<Option<Block>, Failed> {
        let Some(block) = self.block_or_end()? else { return Ok(None) };
        if block.is_zero() && self.is_strict {
            return self.zeros_to_the_end().map(|()| None);
        }
        if block.is_zero() {
            return match self.block_or_end()? {
                Some(second) if !second.is_zero() => Err(Fault::LoneZeros.into()),
                _ => Ok(None),
            };
        }
        if block.has_right_sum() { Ok(Some(block)) } else { Err(Fault::Checksum.into()) }
    }

    /// Checks that only zeros follow the end, because other readers might read on.
    fn zeros_to_the_end(&mut self) -> Result<(), Failed> {
        let mut buffer = [0; BLOCK];
        loop {
            match self.input.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) if buffer[..count].iter().any(|byte| *byte != 0) => {
                    return Err(Fault::TrailingData.into());
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads the bytes of an extended header or long name.
    fn extension(&mut self, block: &Block) -> Result<Vec<u8>, Failed> {
        let size = self.size(block, &Overrides::default())?;
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

fn up_to_nul(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.truncate(end);
    bytes
}
