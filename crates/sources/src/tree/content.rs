//! The location of a file's content, and how to read it.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use super::folder::Folder;
use crate::error::{ErrorKind, Failure};
use crate::git::ObjectStore;
use crate::git_ref::TreePath;
use names::Hasher;

/// The location of some content. Cheap to clone.
#[derive(Clone)]
pub(crate) enum Content {
    /// In memory.
    Bytes(Arc<[u8]>),
    /// An object of the git cache.
    Object { store: Arc<ObjectStore>, id: git2::Oid },
    /// A part of an unpacked archive.
    Span { file: Arc<File>, offset: u64, size: u64 },
    /// A file in a local folder.
    Folder { folder: Arc<Folder>, path: TreePath, size: u64 },
    /// A link in a local folder.
    FolderLink { folder: Arc<Folder>, path: TreePath },
}

impl Content {
    /// Reads all of the content.
    pub(crate) fn read(&self) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        self.pass(&mut |size, reader| {
            bytes.reserve(usize::try_from(size.min(64 << 20)).unwrap_or_default());
            reader.read_to_end(&mut bytes).map(|_| ())
        })?;
        Ok(bytes)
    }

    /// Returns the size in bytes. Only links in folders have to be read for this.
    pub(crate) fn size(&self) -> Result<u64, Failure> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.len() as u64),
            Self::Object { store, id } => store.size(*id),
            Self::Span { size, .. } | Self::Folder { size, .. } => Ok(*size),
            Self::FolderLink { .. } => Ok(self.read()?.len() as u64),
        }
    }

    pub(crate) fn sha256(&self) -> Result<[u8; 32], Failure> {
        let mut hasher = Hasher::new();
        let mut buffer = vec![0; 64 << 10];
        self.pass(&mut |_, reader| loop {
            match reader.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => hasher.update(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        })?;
        Ok(hasher.finish())
    }

    /// Passes the size and the bytes to a consumer.
    pub(crate) fn pass(
        &self,
        consume: &mut dyn FnMut(u64, &mut dyn Read) -> io::Result<()>,
    ) -> Result<(), PassError> {
        let mut whole =
            |bytes: &[u8]| consume(bytes.len() as u64, &mut &*bytes).map_err(PassError::Consumer);
        match self {
            Self::Bytes(bytes) => whole(bytes),
            Self::Object { store, id } => {
                let object = store.blob(*id).map_err(PassError::Content)?;
                whole(object.data())
            }
            Self::FolderLink { folder, path } => {
                whole(&folder.read_link(path).map_err(PassError::Content)?)
            }
            Self::Span { file, offset, size } => {
                let mut reader = Exact::new(Span { file, offset: *offset }, *size);
                consume(*size, &mut reader).map_err(PassError::Consumer)
            }
            Self::Folder { folder, path, size } => {
                let file = folder.open(path).map_err(PassError::Content)?;
                let mut reader = Exact::new(&file, *size);
                consume(*size, &mut reader).map_err(PassError::Consumer)?;
                match (&file).read(&mut [0]) {
                    Ok(0) => Ok(()),
                    Ok(_) => Err(PassError::Content(changed())),
                    Err(error) => Err(PassError::Content(unreadable(&error))),
                }
            }
        }
    }
}

/// The error of [`Content::pass`]: which side failed.
#[derive(Debug)]
pub(crate) enum PassError {
    /// The content cannot be read.
    Content(Failure),
    /// The consumer's own error, or a read error that the consumer returned.
    Consumer(io::Error),
}

impl From<PassError> for Failure {
    /// Converts the error for consumers that cannot fail themselves.
    fn from(error: PassError) -> Self {
        match error {
            PassError::Content(failure) => failure,
            PassError::Consumer(error) => unreadable(&error),
        }
    }
}

fn unreadable(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => changed(),
        _ => Failure::fatal(ErrorKind::Disk, "it cannot be read").because(error),
    }
}

fn changed() -> Failure {
    Failure::fatal(ErrorKind::Integrity, "it changed while it was being read")
}

/// Reads a file from an offset, without changing the position of other readers.
struct Span<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for Span<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// Reads exactly the given number of bytes, and fails if there are fewer.
struct Exact<R> {
    inner: R,
    left: u64,
}

impl<R> Exact<R> {
    fn new(inner: R, left: u64) -> Self {
        Self { inner, left }
    }
}

impl<R: Read> Read for Exact<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        match self.inner.read(&mut buffer[..most])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.left -= count as u64;
                Ok(count)
            }
        }
    }
}
