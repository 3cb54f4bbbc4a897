//! Reads a tar once from start to end: names go into a tree, contents into a single file.
//!
//! No file is created under a name from the archive, so names cannot do any harm here. Names are
//! still checked, to protect programs that unpack the trees that this crate writes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::sync::Arc;

use super::ArchiveLimits;
use super::blocks::{BLOCK, Extension, Header, Kind, MAX_EXTENSION, damaged};
use crate::error::{ErrorKind, Failure};
use crate::git_ref::TreePath;
use crate::text;
use crate::tree::{Content, Mode, Tree, refusal};

/// Counts the bytes that are read, and stops at the limit.
struct Metered<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Metered<R> {
    fn failure(&self, error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => damaged("it ends too early"),
            _ if self.left == 0 => too_large(),
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                Failure::fatal(ErrorKind::Integrity, "its compression is damaged").because(error)
            }
            _ => Failure::fatal(ErrorKind::Disk, "it cannot be read").because(error),
        }
    }

    /// Fills a buffer. Returns false if the tar ended before its first byte.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<bool, Failure> {
        let mut count = 0;
        while count < buffer.len() {
            match self.read(&mut buffer[count..]) {
                Ok(0) if count == 0 => return Ok(false),
                Ok(0) => return Err(damaged("it ends too early")),
                Ok(more) => count += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failure(&error)),
            }
        }
        Ok(true)
    }

    fn fill_whole(&mut self, buffer: &mut [u8]) -> Result<(), Failure> {
        match buffer.is_empty() || self.fill(buffer)? {
            true => Ok(()),
            false => Err(damaged("it ends too early")),
        }
    }

    /// Reads a small part and its padding.
    fn part(&mut self, size: u64) -> Result<Vec<u8>, Failure> {
        if size > MAX_EXTENSION {
            return Err(Failure::refused("a name or PAX header is larger than 1 MiB"));
        }
        let size = usize::try_from(size).map_err(|_| too_large())?;
        let mut bytes = vec![0; size.next_multiple_of(BLOCK)];
        self.fill_whole(&mut bytes)?;
        bytes.truncate(size);
        Ok(bytes)
    }
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            // At this point only the end is allowed.
            return match self.inner.read(&mut [0])? {
                0 => Ok(0),
                _ => Err(io::Error::other("too large")),
            };
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.inner.read(&mut buffer[..most])?;
        self.left -= count as u64;
        Ok(count)
    }
}

pub(super) fn too_large() -> Failure {
    Failure::refused("its content exceeds the size limit, so it may be a decompression bomb")
}

pub(super) fn too_many(most: u64) -> Failure {
    Failure::refused(format!("it has more than {most} entries"))
}

/// The state of the reader.
struct Reading {
    tree: Tree,
    /// The files that hard links may refer to.
    files: BTreeMap<TreePath, (Mode, Content)>,
    directories: std::collections::BTreeSet<TreePath>,
    spool: Arc<File>,
    offset: u64,
}

/// Reads a tar into a tree whose contents are stored in `spool`.
pub(super) fn read(
    source: impl Read,
    spool: File,
    limits: &ArchiveLimits,
) -> Result<Tree, Failure> {
    let mut source = Metered { inner: source, left: limits.bytes };
    let mut reading = Reading {
        tree: Tree::new(),
        files: BTreeMap::new(),
        directories: std::collections::BTreeSet::new(),
        spool: Arc::new(spool),
        offset: 0,
    };
    let mut extension = Extension::default();
    let mut entries = 0;
    let mut block = [0; BLOCK];
    loop {
        if !source.fill(&mut block)? || block == [0; BLOCK] {
            break;
        }
        entries += 1;
        if entries > limits.entries {
            return Err(too_many(limits.entries));
        }
        let mut header = Header::parse(&block)?;
        match header.kind {
            Kind::Pax => extension.add_pax(&source.part(header.size)?, false)?,
            Kind::GlobalPax => Extension::default().add_pax(&source.part(header.size)?, true)?,
            Kind::LongName => extension.path = Some(long(source.part(header.size)?)),
            Kind::LongLink => extension.link = Some(long(source.part(header.size)?)),
            Kind::File | Kind::Hardlink | Kind::Symlink | Kind::Directory => {
                std::mem::take(&mut extension).apply(&mut header)?;
                reading.entry(&mut source, &header)?;
            }
        }
    }
    if extension != Extension::default() {
        return Err(damaged("there is an extension header at its end"));
    }
    // After the end only zeros are allowed, because other readers might continue there.
    while source.fill(&mut block[..1])? {
        if block[0] != 0 {
            return Err(Failure::refused("there is data after the end of the tar"));
        }
    }
    Ok(reading.tree)
}

/// Returns a GNU long name without the trailing NULs.
fn long(mut name: Vec<u8>) -> Vec<u8> {
    while name.last() == Some(&0) {
        name.pop();
    }
    name
}

impl Reading {
    fn entry(&mut self, source: &mut Metered<impl Read>, header: &Header) -> Result<(), Failure> {
        // Readers disagree on whether content follows.
        if header.kind != Kind::File && header.size != 0 {
            let path = text::quoted_bytes(&header.path);
            return Err(Failure::refused(format!("{path} is not a file but has content")));
        }
        let path = match inner_path(&header.path)? {
            Inner::Path(path) => path,
            Inner::Root if header.kind == Kind::Directory => return Ok(()),
            Inner::Root => {
                return Err(Failure::refused("the root of the archive is not a directory"));
            }
            Inner::Repository if header.kind == Kind::File => {
                return self.content(source, header.size, false);
            }
            Inner::Repository => return Ok(()),
        };
        if self.directories.contains(&path) && header.kind != Kind::Directory {
            let path = text::quoted(path.as_str());
            return Err(Failure::refused(format!("{path} is both a directory and something else")));
        }
        match header.kind {
            Kind::Directory => {
                // A directory may occur twice, but not in place of something else.
                let blocker = path.parents().chain([path.as_str()]);
                if let Some(file) = blocker.into_iter().find(|p| self.tree.mode(p).is_some()) {
                    let file = text::quoted(file);
                    let detail = format!("{file} is both a directory and something else");
                    return Err(Failure::refused(detail));
                }
                self.directories.insert(path);
                Ok(())
            }
            Kind::Symlink => {
                let target = Content::Bytes(header.link.as_slice().into());
                self.tree.add(path, Mode::Symlink, target)
            }
            Kind::Hardlink => {
                let file = match inner_path(&header.link)? {
                    Inner::Path(target) => self.files.get(&target).cloned(),
                    Inner::Root | Inner::Repository => None,
                };
                let Some((mode, content)) = file else {
                    let path = text::quoted(path.as_str());
                    let target = text::quoted_bytes(&header.link);
                    return Err(Failure::refused(format!(
                        "the hard link {path} refers to {target}, which is not an earlier file"
                    )));
                };
                self.files.insert(path.clone(), (mode, content.clone()));
                self.tree.add(path, mode, content)
            }
            _ => {
                let mode = if header.is_executable { Mode::Executable } else { Mode::File };
                let (file, offset) = (Arc::clone(&self.spool), self.offset);
                let content = Content::Span { file, offset, size: header.size };
                // The name first: no content is read for refused entries.
                self.tree.add(path.clone(), mode, content.clone())?;
                self.files.insert(path, (mode, content));
                self.content(source, header.size, true)
            }
        }
    }

    /// Reads the content of a file and its padding, and stores it if it is wanted.
    fn content(
        &mut self,
        source: &mut Metered<impl Read>,
        size: u64,
        is_kept: bool,
    ) -> Result<(), Failure> {
        let mut left = size;
        let mut buffer = vec![0; usize::try_from(size.min(128 << 10)).unwrap_or(BLOCK)];
        while left > 0 {
            let count = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            source.fill_whole(&mut buffer[..count])?;
            left -= count as u64;
            if is_kept {
                (&*self.spool).write_all(&buffer[..count]).map_err(|error| {
                    Failure::disk("written", std::path::Path::new("the unpacked archive"), &error)
                })?;
                self.offset += count as u64;
            }
        }
        let over = usize::try_from(size % BLOCK as u64).unwrap_or_default();
        let padding = if over == 0 { 0 } else { BLOCK - over };
        source.fill_whole(&mut [0; BLOCK][..padding])
    }
}

/// The location of an entry in an archive.
enum Inner {
    Path(TreePath),
    /// The root of the archive.
    Root,
    /// Inside a `.git`. Some releases contain one; it is left out, as in folders.
    Repository,
}

/// Returns the path of an entry without a leading `./` and a trailing slash.
fn inner_path(bytes: &[u8]) -> Result<Inner, Failure> {
    let mut rest = bytes;
    while let Some(inner) = rest.strip_prefix(b"./") {
        rest = inner;
    }
    let rest = rest.strip_suffix(b"/").unwrap_or(rest);
    let is_repository = |part: &[u8]| part.eq_ignore_ascii_case(b".git");
    match rest {
        b"." | b"" if !bytes.starts_with(b"/") && !bytes.is_empty() => Ok(Inner::Root),
        rest if rest.split(|byte| *byte == b'/').any(is_repository) => {
            // Even a path that is left out must be valid.
            let renamed = rest.split(|byte| *byte == b'/').map(|part| match is_repository(part) {
                true => b"git",
                false => part,
            });
            let renamed = renamed.collect::<Vec<_>>().join(&b'/');
            TreePath::from_bytes(&renamed).map(|_| Inner::Repository).map_err(refusal)
        }
        rest => TreePath::from_bytes(rest).map(Inner::Path).map_err(refusal),
    }
}
