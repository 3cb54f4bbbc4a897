//! The content of an entry: its location in a tar, and a reader that fills holes with zeros.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use crate::sparse::Segment;

/// The location of an entry's content.
#[derive(Debug, Clone, Default)]
pub struct Content {
    /// Where its data starts in the tar.
    pub offset: u64,
    /// The amount of stored data, in bytes.
    pub stored: u64,
    /// The size including holes, in bytes.
    pub size: u64,
    /// The stored parts, if the file is sparse.
    pub(crate) map: Option<Box<[Segment]>>,
}

impl Content {
    /// Returns the number of stored parts of a sparse file.
    pub fn parts(&self) -> usize {
        self.map.as_ref().map_or(0, |map| map.len())
    }
}

/// Reads the content from the current position of the input.
#[derive(Debug)]
pub struct Expanded<'a, R> {
    input: &'a mut R,
    content: &'a Content,
    position: u64,
    segment: usize,
}

impl<'a, R: Read> Expanded<'a, R> {
    /// Starts to read `content`, whose first byte is the next one of `input`.
    pub fn new(input: &'a mut R, content: &'a Content) -> Self {
        Self { input, content, position: 0, segment: 0 }
    }

    /// Returns the length of the current run of data or hole, and whether it is stored.
    fn run(&mut self) -> (u64, bool) {
        let Some(map) = &self.content.map else {
            return (self.content.size - self.position, true);
        };
        while let Some(part) = map.get(self.segment) {
            if self.position < part.offset {
                return (part.offset - self.position, false);
            }
            let end = part.offset + part.length;
            if self.position < end {
                return (end - self.position, true);
            }
            self.segment += 1;
        }
        (self.content.size - self.position, false)
    }
}

impl<R: Read> Read for Expanded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (run, is_stored) = self.run();
        let length = usize::try_from(run).unwrap_or(usize::MAX).min(buffer.len());
        if length == 0 {
            return Ok(0);
        }
        let count = if is_stored {
            self.input.read(&mut buffer[..length])?
        } else {
            buffer[..length].fill(0);
            length
        };
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.position += count as u64;
        Ok(count)
    }
}

/// An input that can skip bytes.
pub trait Skip: Read {
    /// Skips this many bytes.
    ///
    /// # Errors
    /// Fails if there are fewer.
    fn skip(&mut self, count: u64) -> io::Result<()>;
}

impl<S: Skip> Skip for &mut S {
    fn skip(&mut self, count: u64) -> io::Result<()> {
        (**self).skip(count)
    }
}

/// An input that can only be read forward.
#[derive(Debug)]
pub struct Forward<R>(pub R);

impl<R: Read> Read for Forward<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<R: Read> Skip for Forward<R> {
    fn skip(&mut self, count: u64) -> io::Result<()> {
        match io::copy(&mut (&mut self.0).take(count), &mut io::sink())? {
            skipped if skipped == count => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// An input that can be read at any position.
#[derive(Debug)]
pub struct Seekable<R> {
    inner: BufReader<R>,
    position: u64,
    end: u64,
}

impl<R: Read + Seek> Seekable<R> {
    /// Wraps an input and moves to its start, which must be the start of the tar.
    ///
    /// # Errors
    /// Fails if the input cannot be read.
    pub fn new(mut inner: R) -> io::Result<Self> {
        let end = inner.seek(SeekFrom::End(0))?;
        inner.seek(SeekFrom::Start(0))?;
        Ok(Self { inner: BufReader::with_capacity(32 << 10, inner), position: 0, end })
    }

    /// Moves to a position, without rereading buffered data.
    ///
    /// # Errors
    /// Fails if the position is after the end of the input.
    pub fn seek_to(&mut self, position: u64) -> io::Result<()> {
        if position > self.end {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // Both positions are inside the input, whose length fits in an `i64`.
        let step = i64::try_from(position).map_err(io::Error::other)?
            - i64::try_from(self.position).map_err(io::Error::other)?;
        self.inner.seek_relative(step)?;
        self.position = position;
        Ok(())
    }
}

impl<R: Read + Seek> Read for Seekable<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl<R: Read + Seek> Skip for Seekable<R> {
    fn skip(&mut self, count: u64) -> io::Result<()> {
        let position = self.position.checked_add(count);
        self.seek_to(position.ok_or(io::ErrorKind::UnexpectedEof)?)
    }
}
