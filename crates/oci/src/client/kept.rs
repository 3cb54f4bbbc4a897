//! Blobs as streams that also save what they have read to disk.
//!
//! A registry or an engine that receives a blob forgets it if the transfer is interrupted. With the
//! copy on disk, the next transfer reads the beginning from there, and only the rest from the
//! source. Beginning and rest are checked together.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use names::{Digest, Repository};
use net::lock;

use super::blob::subject;
use super::check::Check;
use super::error::{ErrorKind, Failure, RegistryError, Subject};
use super::stream::{Opening, Pieces, transferred};
use super::{BlobStream, RegistryClient};
use crate::local::{Place, part_of, try_open_part};

/// The beginning of a blob on disk. It grows while the blob is streamed, and is kept if the
/// transfer is interrupted. Its file is locked.
///
/// It is an aid, not a result: if the disk is full, the blob is streamed without it.
#[derive(Debug)]
pub struct KeptPart {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    length: u64,
    /// Whether nothing more is written, because a write failed or the file was removed.
    is_closed: bool,
}

impl KeptPart {
    /// Opens the unfinished file of a blob that belongs at `path`, or creates it.
    ///
    /// Returns `None` if the file cannot be written, if another transfer uses it, or if the free
    /// disk space is less than `room` times the size of the missing part.
    pub fn open(path: &Path, size: u64, room: u64) -> Option<Self> {
        fs::create_dir_all(path.parent()?).ok()?;
        let file = try_open_part(path).ok()?;
        let found = file.metadata().ok()?.len();
        let part = Self {
            path: part_of(path),
            state: Mutex::new(State { file, length: found, is_closed: false }),
        };
        if found > size {
            part.clear();
        }
        let disk = rustix::fs::fstatvfs(&lock(&part.state).file).ok()?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        (free >= size.saturating_sub(part.length()).saturating_mul(room)).then_some(part)
    }

    /// Returns how much of the blob is on disk, in bytes.
    pub fn length(&self) -> u64 {
        lock(&self.state).length
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file, because the blob has arrived.
    pub fn remove(&self) {
        lock(&self.state).is_closed = true;
        drop(fs::remove_file(&self.path));
    }

    /// Adds the part of a piece that is not on disk yet. `begin` is its position in the blob.
    fn add(&self, begin: u64, piece: &[u8]) {
        let mut state = lock(&self.state);
        let known = usize::try_from(state.length.saturating_sub(begin)).unwrap_or(usize::MAX);
        let Some(new) = piece.get(known..).filter(|new| !new.is_empty()) else { return };
        if state.is_closed || state.length < begin {
            return;
        }
        match state.file.write_all_at(new, state.length) {
            Ok(()) => state.length += new.len() as u64,
            Err(error) => {
                tracing::info!(%error, path = %self.path.display(), "cannot keep a layer");
                state.is_closed = true;
                state.empty();
            }
        }
    }

    /// Empties the file, because it is damaged.
    fn clear(&self) {
        lock(&self.state).empty();
    }
}

impl State {
    fn empty(&mut self) {
        self.is_closed |= self.file.set_len(0).is_err();
        self.length = 0;
    }
}

impl Drop for KeptPart {
    fn drop(&mut self) {
        if self.length() == 0 {
            drop(fs::remove_file(&self.path));
        }
    }
}

impl RegistryClient {
    /// Like [`Self::blob_stream`], but reads the beginning of the blob from `part`, and writes the
    /// rest to it.
    ///
    /// If the part turns out to be damaged, the stream fails and empties it. A push then starts
    /// over by itself.
    ///
    /// # Errors
    /// Fails if no location has the blob. Later failures are items of the stream.
    pub async fn kept_blob(
        &self,
        repository: &Repository,
        digest: &Digest,
        size: u64,
        part: Arc<KeptPart>,
    ) -> Result<BlobStream, RegistryError> {
        open_kept(self.clone(), repository.clone(), digest.clone(), size, part).await
    }
}

fn open_kept(
    client: RegistryClient,
    repository: Repository,
    digest: Digest,
    size: u64,
    part: Arc<KeptPart>,
) -> Opening {
    Box::pin(async move {
        let kept = part.length();
        let mut check = Check::new(&digest, size);
        let pieces = if kept == 0 {
            transferred(client.clone(), &repository, check).await?
        } else {
            check.is_continued = true;
            continued(client.clone(), repository.clone(), Arc::clone(&part), kept, check)
        };
        let pieces = keeping(pieces, Arc::clone(&part), kept > 0, size);
        let wanted = digest.clone();
        let reopen = move || {
            let (client, repository) = (client.clone(), repository.clone());
            open_kept(client, repository, wanted.clone(), size, Arc::clone(&part))
        };
        Ok(BlobStream::reopened_by(digest, size, pieces, Arc::new(reopen)))
    })
}

/// Writes the pieces of a blob to its part. Empties the part if the complete blob is wrong.
fn keeping(pieces: Pieces, part: Arc<KeptPart>, is_continued: bool, size: u64) -> Pieces {
    let mut position = 0;
    Box::pin(pieces.map(move |piece| match piece {
        Ok(piece) => {
            part.add(position, &piece);
            position += piece.len() as u64;
            Ok(piece)
        }
        // A response that ends too early is also an error of this kind, but says nothing about what
        // arrived. The last piece was held back.
        Err(error) if error.kind() == ErrorKind::Integrity && position + LAST >= size => {
            part.clear();
            Err(if is_continued { error.worth_reopening() } else { error })
        }
        Err(error) => Err(error),
    }))
}

/// An upper limit for the size of a piece of a blob, in bytes.
const LAST: u64 = 1 << 20;

type Source = tokio_util::io::ReaderStream<crate::local::Part>;

/// Where the next piece comes from.
enum Stage {
    File(Source, Box<Check>),
    Registry(Pieces),
    Ended,
}

/// A blob whose beginning is read from a part.
struct Continued {
    stage: Stage,
    client: RegistryClient,
    repository: Repository,
    about: Subject,
    part: Arc<KeptPart>,
}

/// Returns the pieces of a blob whose first `kept` bytes are in a part.
fn continued(
    client: RegistryClient,
    repository: Repository,
    part: Arc<KeptPart>,
    kept: u64,
    check: Check,
) -> Pieces {
    let about = subject("read the blob", &repository, &check.digest);
    let place = Place { file: part.path.clone(), begin: 0, size: kept };
    let opened = place.stream(0);
    let mut blob = Continued { stage: Stage::Ended, client, repository, about, part };
    match opened {
        Ok(source) => blob.stage = Stage::File(source, Box::new(check)),
        Err(error) => return Box::pin(stream::iter([Err(blob.unreadable(&error))])),
    }
    Box::pin(stream::unfold(blob, |mut blob| async move { Some((blob.next().await?, blob)) }))
}

impl Continued {
    async fn next(&mut self) -> Option<Result<Bytes, RegistryError>> {
        loop {
            match std::mem::replace(&mut self.stage, Stage::Ended) {
                Stage::Ended => return None,
                Stage::Registry(mut pieces) => {
                    let piece = pieces.next().await;
                    self.stage = Stage::Registry(pieces);
                    return piece;
                }
                Stage::File(mut source, mut check) => match source.next().await {
                    Some(Err(error)) => return Some(Err(self.unreadable(&error))),
                    Some(Ok(read)) => match check.take(read) {
                        Ok(piece) => {
                            self.stage = Stage::File(source, check);
                            if let Some(piece) = piece {
                                return Some(Ok(piece));
                            }
                        }
                        Err(failure) => return Some(Err(self.failed(failure))),
                    },
                    None if check.seen < check.size => {
                        let rest = transferred(self.client.clone(), &self.repository, *check);
                        match rest.await {
                            Ok(pieces) => self.stage = Stage::Registry(pieces),
                            Err(error) => return Some(Err(error)),
                        }
                    }
                    None => {
                        let last = check.finish().map_err(|failure| self.failed(failure));
                        return last.transpose();
                    }
                },
            }
        }
    }

    fn failed(&self, failure: Failure) -> RegistryError {
        RegistryError::unasked(&self.about, &self.part.path.display().to_string(), failure)
    }

    /// Returns the error for a part that cannot be read, and empties the part if its file is at
    /// fault. While the program exits, a read fails without a system error.
    fn unreadable(&self, error: &io::Error) -> RegistryError {
        let failure = Failure::fatal(ErrorKind::Protocol, "it cannot be read").because(error);
        let failed = self.failed(failure);
        if error.raw_os_error().is_none() {
            return failed;
        }
        self.part.clear();
        failed.worth_reopening()
    }
}
