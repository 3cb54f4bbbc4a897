//! Gzip whose bytes depend on nothing but the content and `seal/1`.
//!
//! The content is cut every [`MEMBER`] bytes; each part is a gzip member of its own (RFC 1952,
//! section 2.2: a file is a sequence of members), compressed by libdeflate at [`LEVEL`]. So the
//! bytes are the same for any number of threads and any size of writes, and the whole is hashed
//! while it is made.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use libdeflater::{CompressionLvl, Compressor};
use names::{Digest, Hasher};

/// How much content is in a member, in bytes.
pub const MEMBER: usize = 1 << 20;
/// The level of compression: libdeflate's default.
const LEVEL: i32 = 6;
/// How many members may wait for each thread. What waits is held in memory.
const WAITING: usize = 2;

/// What was written.
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

/// A member on its way: the content, and where the compressed bytes go.
struct Job {
    content: Arc<Vec<u8>>,
    done: SyncSender<io::Result<Vec<u8>>>,
}

/// Takes the content of a gzip file and writes the file.
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

/// Writes a gzip file to `out`, of the content that `feed` writes, compressed by `threads` threads.
/// Besides, one thread hashes the content; `feed` runs on the caller's.
///
/// # Errors
/// What `feed` returns, or that the file cannot be written.
pub fn gzip<W: Write, T, E: From<io::Error>>(
    out: W,
    threads: NonZeroUsize,
    feed: impl FnOnce(&mut Gzip<W>) -> Result<T, E>,
) -> Result<(T, Compressed), E> {
    thread::scope(|scope| {
        let most_waiting = threads.get().saturating_mul(WAITING);
        let (jobs, queue) = sync_channel(most_waiting);
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..threads.get() {
            let queue = Arc::clone(&queue);
            scope.spawn(move || work(&queue));
        }
        drop(queue);
        let (hashes, contents) = sync_channel::<Arc<Vec<u8>>>(WAITING);
        let hasher = scope.spawn(move || {
            let mut hasher = Hasher::new();
            contents.iter().for_each(|content| hasher.update(&*content));
            hasher
        });
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
    // A level in 1..=12 is always one.
    let mut compressor = Compressor::new(CompressionLvl::new(LEVEL).unwrap_or_default());
    loop {
        // A poisoned lock means that another worker panicked: the caller sees its member missing.
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
        // Nobody waits for it any more where writing has failed meanwhile.
        drop(job.done.send(bytes));
    }
}

fn gone() -> io::Error {
    io::Error::other("a thread that compresses or hashes is gone")
}

impl<W: Write> Gzip<W> {
    /// Fills the content up from `fill`, which gets room for at most `most` bytes and returns how
    /// many it used. Saves a copy over [`Write`].
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

    /// Returns how much content there is so far, in bytes.
    pub(crate) fn content_size(&self) -> u64 {
        self.content_size + self.current.len() as u64
    }

    /// Hands the current member on.
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

    /// Writes the member that is first in order.
    fn write_first(&mut self) -> io::Result<()> {
        let Some(first) = self.waiting.pop_front() else { return Ok(()) };
        let bytes = first.recv().map_err(|_| gone())??;
        self.digest.update(&bytes);
        self.size += bytes.len() as u64;
        self.out.write_all(&bytes)
    }

    /// Writes all that is left. Content of no bytes is one empty member.
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
