//! The content of an entry: where it lies in a tar, and reading it with holes as zeros.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use super::sparse::Segment;

/// Where the content of an entry lies.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    /// Where its data begins in the tar.
    pub(crate) offset: u64,
    /// How much data is stored, in bytes.
    pub(crate) stored: u64,
    /// How much that is with the holes, in bytes.
    pub(crate) size: u64,
    /// The parts that are stored, if not all of it.
    pub(super) map: Option<Box<[Segment]>>,
}

/// Reads the content at the place where the input stands.
pub(crate) struct Expanded<'a, R> {
    input: &'a mut R,
    content: &'a Content,
    position: u64,
    segment: usize,
}

impl<'a, R: Read> Expanded<'a, R> {
    pub(crate) fn new(input: &'a mut R, content: &'a Content) -> Self {
        Self { input, content, position: 0, segment: 0 }
    }

    /// Returns how many bytes follow of one sort, and whether they are stored.
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
        let count = match is_stored {
            true => self.input.read(&mut buffer[..length])?,
            false => {
                buffer[..length].fill(0);
                length
            }
        };
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.position += count as u64;
        Ok(count)
    }
}

/// An input that can leave bytes out.
pub(crate) trait Skip: Read {
    /// Leaves out as many bytes; fewer there are an error.
    fn skip(&mut self, count: u64) -> io::Result<()>;
}

impl<S: Skip> Skip for &mut S {
    fn skip(&mut self, count: u64) -> io::Result<()> {
        (**self).skip(count)
    }
}

/// An input that only goes forward.
pub(crate) struct Forward<R>(pub(crate) R);

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

/// An input in which any place can be read.
pub(crate) struct Seekable<R> {
    inner: BufReader<R>,
    position: u64,
    end: u64,
}

impl<R: Read + Seek> Seekable<R> {
    /// Takes an input; its start is where the tar begins.
    pub(crate) fn new(mut inner: R) -> io::Result<Self> {
        let end = inner.seek(SeekFrom::End(0))?;
        inner.seek(SeekFrom::Start(0))?;
        Ok(Self { inner: BufReader::with_capacity(32 << 10, inner), position: 0, end })
    }

    /// Goes to a place. What is in the buffer already is not read again.
    pub(crate) fn seek_to(&mut self, position: u64) -> io::Result<()> {
        if position > self.end {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // Both lie in the input, whose length fits a signed number.
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
