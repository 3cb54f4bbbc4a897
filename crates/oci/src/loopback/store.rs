//! The content of the loopback registry, and its uploads.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use futures_util::future::BoxFuture;
use hyper::body::Incoming;
use names::{Digest, Hasher};
use tempfile::TempPath;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _, BufWriter};

/// The maximum size of a blob in memory, in bytes.
const MEMORY_CAP: u64 = 256 << 20;
/// The buffer size for reading and writing files, in bytes.
const PIECE: usize = 256 << 10;

/// The bytes of a blob, as a stream.
pub type BlobStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// Provides the bytes of a claimed blob if they are requested.
pub type BlobSource =
    Arc<dyn Fn(Digest) -> BoxFuture<'static, io::Result<BlobStream>> + Send + Sync>;

/// A blob that was uploaded or added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredBlob {
    /// It is in memory.
    Memory(Bytes),
    /// It is a file in the spool folder, which is deleted with the registry.
    File {
        /// The file.
        path: PathBuf,
        /// Its size, in bytes.
        size: u64,
    },
}

/// Counters of the data received over HTTP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Received {
    /// Complete blobs that were uploaded.
    pub blobs: u64,
    /// Bytes of blobs, including those of failed uploads.
    pub blob_bytes: u64,
    /// Bytes of manifests.
    pub manifest_bytes: u64,
    /// How often the registry answered that it already has a claimed blob.
    pub already_there: u64,
}

/// A blob that the registry has, or only claims to have.
#[derive(Clone)]
pub(super) enum Blob {
    Memory(Bytes),
    File(Arc<TempPath>, u64),
    Claimed(u64, Option<BlobSource>),
}

#[derive(Default)]
pub(super) struct Store {
    /// The folder for uploads. If `None`, they are kept in memory.
    pub(super) spool: Option<PathBuf>,
    /// Why the folder did not accept an upload.
    pub(super) spool_failure: Option<io::Error>,
    pub(super) blobs: BTreeMap<Digest, Blob>,
    /// Manifests by repository and digest, with their media types.
    pub(super) manifests: BTreeMap<(String, Digest), (String, Bytes)>,
    pub(super) tags: BTreeMap<(String, String), Digest>,
    pub(super) uploads: BTreeMap<u64, Upload>,
    pub(super) uploads_begun: u64,
    pub(super) received: Received,
}

impl Blob {
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(_, size) | Self::Claimed(size, _) => *size,
        }
    }

    pub(super) fn stored(&self) -> Option<StoredBlob> {
        match self {
            Self::Memory(bytes) => Some(StoredBlob::Memory(bytes.clone())),
            Self::File(path, size) => {
                Some(StoredBlob::File { path: path.to_path_buf(), size: *size })
            }
            Self::Claimed(..) => None,
        }
    }
}

impl Store {
    /// Adds a blob. Existing bytes are kept, because a reader may still be using their file.
    pub(super) fn keep(&mut self, digest: &Digest, blob: Blob) {
        let has_bytes = |existing: &Blob| !matches!(existing, Blob::Claimed(..));
        if !self.blobs.get(digest).is_some_and(has_bytes) {
            self.blobs.insert(digest.clone(), blob);
        }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("blobs", &self.blobs.len()).finish_non_exhaustive()
    }
}

/// An upload in progress. Its digest is computed as it arrives.
pub(super) struct Upload {
    hash: Hasher,
    length: u64,
    sink: Sink,
}

enum Sink {
    Memory(BytesMut),
    File(BufWriter<tokio::fs::File>, TempPath),
}

/// Why an upload failed.
pub(super) enum UploadError {
    /// The body is incomplete or too large.
    Body,
    /// The spool folder cannot be written.
    Spool(io::Error),
    /// The bytes do not match the digest.
    Digest,
}

impl Upload {
    /// Starts an upload into a folder, or into memory.
    pub(super) fn begin(spool: Option<&Path>) -> io::Result<Self> {
        let sink = match spool {
            None => Sink::Memory(BytesMut::new()),
            Some(folder) => {
                let (file, path) =
                    tempfile::Builder::new().prefix("blob-").tempfile_in(folder)?.into_parts();
                let file = tokio::fs::File::from_std(file);
                Sink::File(BufWriter::with_capacity(PIECE, file), path)
            }
        };
        Ok(Self { hash: Hasher::new(), length: 0, sink })
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Reads a body. `count` is called for each chunk.
    pub(super) async fn take(
        &mut self,
        mut body: Incoming,
        count: impl Fn(usize),
    ) -> Result<(), UploadError> {
        use http_body_util::BodyExt as _;
        while let Some(frame) = body.frame().await {
            let Ok(bytes) = frame.map_err(|_| UploadError::Body)?.into_data() else { continue };
            count(bytes.len());
            self.hash.update(&bytes);
            self.length += bytes.len() as u64;
            match &mut self.sink {
                Sink::Memory(_) if self.length > MEMORY_CAP => return Err(UploadError::Body),
                Sink::Memory(held) => held.extend_from_slice(&bytes),
                Sink::File(file, _) => file.write_all(&bytes).await.map_err(UploadError::Spool)?,
            }
        }
        Ok(())
    }

    /// Completes an upload whose bytes must have this digest.
    pub(super) async fn finish(self, digest: &Digest) -> Result<Blob, UploadError> {
        if Digest::from_sha256(self.hash.finish()) != *digest {
            return Err(UploadError::Digest);
        }
        match self.sink {
            Sink::Memory(bytes) => Ok(Blob::Memory(bytes.freeze())),
            Sink::File(mut file, path) => {
                file.flush().await.map_err(UploadError::Spool)?;
                Ok(Blob::File(Arc::new(path), self.length))
            }
        }
    }
}

/// Returns the bytes of a blob from `begin` on. Returns `None` for a claimed blob that has no
/// source or is not read from its start.
pub(super) async fn open(
    blob: &Blob,
    digest: &Digest,
    begin: u64,
) -> io::Result<Option<BlobStream>> {
    match blob {
        Blob::Memory(bytes) => {
            let bytes = bytes.slice(usize::try_from(begin).map_err(io::Error::other)?..);
            Ok(Some(Box::pin(futures_util::stream::iter([Ok(bytes)]))))
        }
        Blob::File(path, _) => {
            let mut opened = tokio::fs::File::open(path.as_ref()).await?;
            opened.seek(io::SeekFrom::Start(begin)).await?;
            // Keeps `path` alive, because the file is deleted when `path` is dropped.
            let state = (opened, Arc::clone(path));
            Ok(Some(Box::pin(futures_util::stream::try_unfold(state, |(mut file, kept)| async {
                let mut piece = BytesMut::with_capacity(PIECE);
                let length = file.read_buf(&mut piece).await?;
                Ok((length > 0).then(|| (piece.freeze(), (file, kept))))
            }))))
        }
        Blob::Claimed(_, Some(source)) if begin == 0 => source(digest.clone()).await.map(Some),
        Blob::Claimed(..) => Ok(None),
    }
}
