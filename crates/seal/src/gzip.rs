//! Writes gzip files whose bytes depend only on the content and on `seal/1`.
//!
//! The content is split every [`MEMBER`] bytes. Each part is a separate gzip member (RFC 1952,
//! section 2.2: a file is a sequence of members), compressed by libdeflate at [`LEVEL`]. So the
//! bytes do not depend on the number of threads or the sizes of the writes. The whole file is
//! hashed while it is written.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use libdeflater::{CompressionLvl, Compressor};
use names::{Digest, Hasher};

/// The amount of content in a member, in bytes.
pub const MEMBER: usize = 1 << 20;
/// The compression level: libdeflate's default.
const LEVEL: i32 = 6;
/// How many members may wait for each thread. Waiting members are held in memory.
const WAITING: usize = 2;

/// The digests and sizes of a gzip file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compressed {
    /// The digest of the content.
    pub diff_id: Digest,
    /// The size of the content, in bytes.
    pub content_size: u64,
    /// The digest of the gzip file.
    pub digest: Digest,
    /// The size of the gzip file, in bytes.
    pub size: u64,
}

/// A member in progress: the content, and the channel for the compressed bytes.
struct Job {
    content: Arc<Vec<u8>>,
    done: SyncSender<io::Result<Vec<u8>>>,
}

/// Compresses the bytes that are written to it into a gzip file.
pub struct Gzip<W> {
    out: W,
    digest: Hasher,
    size: u64,
    content_size: u64,
    current: Vec<u8>,
    jobs: SyncSender<Job>,
    hashes: SyncSender<Arc<Vec<u8>>>,
    waiting: VecDeque<Receiver<io::Result<Vec<u8>>>>,
    most_waiting: usize,
}

impl<W> std::fmt::Debug for Gzip<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gzip").field("content_size", &self.content_size).finish_non_exhaustive()
    }
}

/// Writes a gzip file to `out` from the content that `feed` writes, compressed by `threads`
/// threads. One more thread hashes the content; `feed` runs on the caller's thread.
///
/// # Errors
/// Returns the error of `feed`, or an error if the file cannot be written.
pub fn gzip<W: Write, T, E: From<io::Error>>(
    out: W,
    threads: NonZeroUsize,
    feed: impl FnOnce(&mut Gzip<W>) -> Result<T, E>,
) -> Result<(T, Compressed), E> {
    thread::scope(|scope| {
        let most_waiting = threads.get().saturating_mul(WAITING);
        let (jobs, queue) = sync_channel(most_waiting);
        let queue = Arc::new(Mutex::new(queue));
        for number in 0..threads.get() {
            let own = Arc::clone(&queue);
            match thread::Builder::new().spawn_scoped(scope, move || work(&own)) {
                Ok(_) => {}
                // One thread is enough, but slower.
                Err(_) if number > 0 => break,
                Err(error) => return Err(error.into()),
            }
        }
        drop(queue);
        let (hashes, contents) = sync_channel::<Arc<Vec<u8>>>(WAITING);
        let hasher = thread::Builder::new().spawn_scoped(scope, move || {
            let mut hasher = Hasher::new();
            contents.iter().for_each(|content| hasher.update(&*content));
            hasher
        })?;
        let mut gzip = Gzip {
            out,
            digest: Hasher::new(),
            size: 0,
            content_size: 0,
            current: Vec::with_capacity(MEMBER),
            jobs,
            hashes,
            waiting: VecDeque::new(),
            most_waiting,
        };
        let value = feed(&mut gzip)?;
        let (digest, size, content_size) = gzip.finish()?;
        let diff_id = hasher.join().map_err(|_| gone())?;
        let diff_id = Digest::from_sha256(diff_id.finish());
        let digest = Digest::from_sha256(digest.finish());
        Ok((value, Compressed { diff_id, content_size, digest, size }))
    })
}

/// Compresses members until there are no more.
fn work(queue: &Mutex<Receiver<Job>>) {
    // Levels in 1..=12 are always valid.
    let mut compressor = Compressor::new(CompressionLvl::new(LEVEL).unwrap_or_default());
    loop {
        // A poisoned lock means that another worker panicked. The caller notices the missing
        // member.
        let Ok(job) = queue.lock().map_err(|_| ()).and_then(|jobs| jobs.recv().map_err(|_| ()))
        else {
            break;
        };
        let mut bytes = vec![0; compressor.gzip_compress_bound(job.content.len())];
        let length = compressor.gzip_compress(&job.content, &mut bytes);
        let bytes = length.map_err(io::Error::other).map(|length| {
            bytes.truncate(length);
            bytes
        });
        // If writing has failed in the meantime, nothing receives the member.
        drop(job.done.send(bytes));
    }
}

fn gone() -> io::Error {
    io::Error::other("a compression or hashing thread stopped unexpectedly")
}

impl<W: Write> Gzip<W> {
    /// Appends content from `fill`, which gets space for at most `most` bytes and returns how many
    /// it used. This saves a copy compared with [`Write`].
    pub(crate) fn fill(
        &mut self,
        most: usize,
        fill: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let start = self.current.len();
        let end = start.saturating_add(most).min(MEMBER);
        self.current.resize(end, 0);
        let count = match fill(&mut self.current[start..]) {
            Ok(count) => count,
            Err(error) => {
                self.current.truncate(start);
                return Err(error);
            }
        };
        self.current.truncate(start + count);
        if self.current.len() == MEMBER {
            self.submit()?;
        }
        Ok(count)
    }

    /// Returns the size of the content so far, in bytes.
    pub(crate) fn content_size(&self) -> u64 {
        self.content_size + self.current.len() as u64
    }

    /// Passes the current member to a worker.
    fn submit(&mut self) -> io::Result<()> {
        let content = Arc::new(std::mem::replace(&mut self.current, Vec::with_capacity(MEMBER)));
        self.content_size += content.len() as u64;
        if self.waiting.len() == self.most_waiting {
            self.write_first()?;
        }
        self.hashes.send(Arc::clone(&content)).map_err(|_| gone())?;
        let (done, result) = sync_channel(1);
        self.jobs.send(Job { content, done }).map_err(|_| gone())?;
        self.waiting.push_back(result);
        Ok(())
    }

    /// Writes the first waiting member.
    fn write_first(&mut self) -> io::Result<()> {
        let Some(first) = self.waiting.pop_front() else { return Ok(()) };
        let bytes = first.recv().map_err(|_| gone())??;
        self.digest.update(&bytes);
        self.size += bytes.len() as u64;
        self.out.write_all(&bytes)
    }

    /// Writes everything that is left. Empty content becomes one empty member.
    fn finish(mut self) -> io::Result<(Hasher, u64, u64)> {
        if !self.current.is_empty() || self.content_size == 0 {
            self.submit()?;
        }
        while !self.waiting.is_empty() {
            self.write_first()?;
        }
        self.out.flush()?;
        Ok((self.digest, self.size, self.content_size))
    }
}

impl<W: Write> Write for Gzip<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = MEMBER - self.current.len();
        let count = room.min(bytes.len());
        self.current.extend_from_slice(&bytes[..count]);
        if self.current.len() == MEMBER {
            self.submit()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
