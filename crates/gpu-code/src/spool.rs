//! A file's bytes, in memory or on disk.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// The largest file that is held in memory, in bytes. Larger ones go to an unnamed temporary file.
const HELD: usize = 64 << 20;

/// The bytes of a file, which can be read at any position.
#[derive(Debug)]
pub struct Spool {
    place: Place,
    size: u64,
    folder: Option<PathBuf>,
}

#[derive(Debug)]
enum Place {
    Memory(Vec<u8>),
    Disk(File),
}

impl Spool {
    /// Creates an empty spool. `folder` is for the temporary file, if the content is large.
    pub fn new(folder: Option<&Path>) -> Self {
        Self { place: Place::Memory(Vec::new()), size: 0, folder: folder.map(Path::to_owned) }
    }

    /// Creates a spool that reads an open file in place.
    ///
    /// # Errors
    /// Fails if the size of the file cannot be read.
    pub fn of_file(file: File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        Ok(Self { place: Place::Disk(file), size, folder: None })
    }

    /// Adds bytes at the end.
    ///
    /// # Errors
    /// Fails if the temporary file cannot be written.
    pub fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Place::Memory(held) = &mut self.place {
            if held.len() + bytes.len() <= HELD {
                held.extend_from_slice(bytes);
                self.size += bytes.len() as u64;
                return Ok(());
            }
            let mut file = match &self.folder {
                Some(folder) => {
                    std::fs::create_dir_all(folder)?;
                    tempfile::tempfile_in(folder)?
                }
                None => tempfile::tempfile()?,
            };
            file.write_all(held)?;
            self.place = Place::Disk(file);
        }
        if let Place::Disk(file) = &mut self.place {
            file.write_all(bytes)?;
        }
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// Returns the number of bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    /// Fails if there are fewer bytes ([`io::ErrorKind::UnexpectedEof`]), or if they cannot be
    /// read.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match &self.place {
            Place::Disk(file) => file.read_exact_at(buffer, offset),
            Place::Memory(bytes) => {
                let from = usize::try_from(offset).ok().and_then(|start| bytes.get(start..));
                let part = from.and_then(|from| from.get(..buffer.len()));
                buffer.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }
}

/// Reads a spool from its start.
#[derive(Debug)]
pub struct SpoolReader {
    spool: Spool,
    position: u64,
}

impl Spool {
    /// Returns a reader for the whole content.
    pub fn into_reader(self) -> SpoolReader {
        SpoolReader { spool: self, position: 0 }
    }
}

impl Read for SpoolReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.spool.size - self.position).unwrap_or(usize::MAX);
        let count = left.min(buffer.len());
        self.spool.read_at(self.position, &mut buffer[..count])?;
        self.position += count as u64;
        Ok(count)
    }
}

impl From<Vec<u8>> for Spool {
    fn from(bytes: Vec<u8>) -> Self {
        let size = bytes.len() as u64;
        Self { place: Place::Memory(bytes), size, folder: None }
    }
}
