//! Reads, checks and lists layers, wherever they are stored.

use std::io::{self, BufRead as _, BufReader, Read};
use std::slice;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use flate2::read::MultiGzDecoder;
use names::{Digest, Hasher, ImageRef};
use oci::client::{BlobStream, RegistryClient, RegistryError};
use oci::media::Descriptor;
use seal::{Entries, LayerVisitor, Listing, SealError, TarError};
use tokio::task::block_in_place;

use crate::place::ROOM;
use crate::{BlobCache, ExecuteError};

/// The first bytes of compressed data (RFC 1952 and RFC 8878).
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The buffer size for reading layers, in bytes.
pub(crate) const PIECE: usize = 256 << 10;
/// The number of pieces that may be queued for hashing.
const PIECES_AHEAD: usize = 8;

/// Why a layer cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// It is not a tar.
    #[error(transparent)]
    Tar(#[from] TarError),
    /// The layer, or a temporary file for its entries, cannot be read or written.
    #[error("cannot read the whole layer")]
    Read(#[source] io::Error),
    /// A new layer cannot be made from it.
    #[error(transparent)]
    New(SealError),
    /// There is data after the end of the tar.
    #[error("there is data after the end of the layer's tar")]
    Trailing,
    /// Its content does not match the digest in the config.
    #[error("the layer's content is `{found}`, but the image's config specifies `{wanted}`")]
    DiffId {
        /// The digest in the config.
        wanted: Digest,
        /// The actual digest.
        found: Digest,
    },
}

impl From<SealError> for LayerError {
    fn from(error: SealError) -> Self {
        match error {
            SealError::Tar(error) => Self::Tar(error),
            other => Self::New(other),
        }
    }
}

/// Lists a layer, which may be compressed with gzip or zstd.
///
/// # Errors
/// Fails if the layer cannot be read completely, is not a tar, or does not match `diff_id`.
pub(crate) fn list_layer(
    reader: impl Read,
    diff_id: Option<&Digest>,
) -> Result<Listing, LayerError> {
    let mut listing = Listing::default();
    visit_layer(reader, diff_id, &mut |path, entry| {
        listing.entries.push((path, entry));
        Ok(())
    })?;
    Ok(listing)
}

/// Reads a whole layer, and passes its entries to `visitor`. The layer may be compressed with gzip
/// or zstd.
///
/// # Errors
/// Fails if the layer cannot be read completely, is not a tar, or does not match `diff_id`, or if
/// the visitor fails.
pub fn visit_layer(
    reader: impl Read,
    diff_id: Option<&Digest>,
    visitor: &mut impl LayerVisitor,
) -> Result<(), LayerError> {
    read_layer(reader, diff_id, |tar| {
        let mut entries = Entries::of_layer(tar).hashed(visitor.wants_hashes());
        loop {
            let mut taken = Ok(());
            let next = entries.next_with(|path, part| {
                if taken.is_ok() {
                    taken = visitor.content(path, part);
                }
            })?;
            taken.map_err(LayerError::Read)?;
            let Some((path, entry)) = next else { return Ok(()) };
            visitor.entry(path, entry).map_err(LayerError::Read)?;
        }
    })
}

/// Passes the tar of a layer to `read`. The layer may be compressed with gzip or zstd.
///
/// # Errors
/// Fails if `read` fails, if there is data after the tar, or if the tar does not match `diff_id`.
pub fn read_layer<T>(
    reader: impl Read,
    diff_id: Option<&Digest>,
    read: impl FnOnce(&mut dyn Read) -> Result<T, LayerError>,
) -> Result<T, LayerError> {
    let mut reader = BufReader::with_capacity(PIECE, reader);
    let start = reader.fill_buf().map_err(LayerError::Read)?;
    if start.starts_with(&GZIP) {
        read_tar(MultiGzDecoder::new(reader), diff_id, read)
    } else if start.starts_with(&ZSTD) {
        let reader = zstd::Decoder::with_buffer(reader).map_err(LayerError::Read)?;
        read_tar(reader, diff_id, read)
    } else {
        read_tar(reader, diff_id, read)
    }
}

fn read_tar<T>(
    tar: impl Read,
    diff_id: Option<&Digest>,
    read: impl FnOnce(&mut dyn Read) -> Result<T, LayerError>,
) -> Result<T, LayerError> {
    let hashing = diff_id.map(|_| Hashing::start()).transpose().map_err(LayerError::Read)?;
    let mut tar = Hashed { tar, hashing };
    let value = read(&mut tar)?;
    // Tars are padded with zeros. Checksums and digests are only verified at the end.
    let mut piece = vec![0; PIECE];
    loop {
        match tar.read(&mut piece).map_err(LayerError::Read)? {
            0 => break,
            count if piece.iter().take(count).any(|byte| *byte != 0) => {
                return Err(LayerError::Trailing);
            }
            _ => {}
        }
    }
    let found = tar.hashing.map(Hashing::finish).transpose().map_err(LayerError::Read)?;
    match diff_id.cloned().zip(found).filter(|(wanted, found)| wanted != found) {
        None => Ok(value),
        Some((wanted, found)) => Err(LayerError::DiffId { wanted, found }),
    }
}

/// Hashes the data that passes through, if its digest matters.
struct Hashed<R> {
    tar: R,
    hashing: Option<Hashing>,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.tar.read(buffer)?;
        if let Some(hashing) = &mut self.hashing {
            hashing.update(&buffer[..count]);
        }
        Ok(count)
    }
}

/// Hashes data on another thread, because the thread that reads a layer also hashes its files.
struct Hashing {
    piece: Vec<u8>,
    pieces: SyncSender<Vec<u8>>,
    thread: JoinHandle<Digest>,
}

impl Hashing {
    fn start() -> io::Result<Self> {
        let (pieces, received) = sync_channel::<Vec<u8>>(PIECES_AHEAD);
        let thread = std::thread::Builder::new().spawn(move || {
            let mut hasher = Hasher::new();
            for piece in received {
                hasher.update(&piece);
            }
            Digest::from_sha256(hasher.finish())
        })?;
        Ok(Self { piece: Vec::with_capacity(PIECE), pieces, thread })
    }

    fn update(&mut self, bytes: &[u8]) {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            let full = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE));
            // This fails only if the thread panicked, which `finish` reports.
            drop(self.pieces.send(full));
        }
    }

    fn finish(self) -> io::Result<Digest> {
        drop(self.pieces.send(self.piece));
        drop(self.pieces);
        self.thread.join().map_err(|_| io::Error::other("the hashing thread panicked"))
    }
}

/// Returns a reader that fails at the end if the data does not match `wanted`.
///
/// # Errors
/// Fails if the thread that hashes the data cannot be started.
pub fn checked(reader: impl Read, wanted: Digest) -> io::Result<impl Read> {
    Ok(Checked { reader, wanted, hashing: Some(Hashing::start()?) })
}

struct Checked<R> {
    reader: R,
    wanted: Digest,
    /// `None` after the end.
    hashing: Option<Hashing>,
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        if count > 0 || buffer.is_empty() {
            if let Some(hashing) = &mut self.hashing {
                hashing.update(&buffer[..count]);
            }
            return Ok(count);
        }
        let found = self.hashing.take().map(Hashing::finish).transpose()?;
        match found.filter(|found| *found != self.wanted) {
            None => Ok(0),
            Some(found) => {
                let message = format!("its content has the digest `{found}`");
                Err(io::Error::new(io::ErrorKind::InvalidData, message))
            }
        }
    }
}

/// Reads a layer from a registry with `read`. Transfers the whole layer.
///
/// # Errors
/// Fails if the layer cannot be fetched or does not match its digest, or if `read` fails.
pub async fn read_remote_layer<T: Send + 'static>(
    client: &RegistryClient,
    image: &ImageRef,
    layer: &Descriptor,
    read: impl FnOnce(Box<dyn Read + Send>) -> Result<T, LayerError> + Send + 'static,
) -> Result<T, ExecuteError> {
    let stream = client.blob_stream(&image.repository, &layer.digest, layer.size).await;
    read_stream(stream.map_err(|error| unreadable(image, error))?, read).await
}

/// Like [`read_remote_layer`], but keeps the layer in `cache`, and does not transfer what is there
/// or near the outputs. If such a copy is damaged, it is not used again, and `read` is called again.
pub(crate) async fn read_base_layer<T: Send + 'static>(
    client: &RegistryClient,
    cache: &BlobCache,
    image: &ImageRef,
    layer: &Descriptor,
    read: impl Fn(Box<dyn Read + Send>) -> Result<T, LayerError> + Clone + Send + 'static,
) -> Result<T, ExecuteError> {
    let opened = cache.stream(client, &image.repository, layer, ROOM).await;
    let (stream, part) = opened.map_err(|error| unreadable(image, error))?;
    let kept = part.as_ref().map_or(0, |part| part.length());
    match (read_stream(stream, read.clone()).await, part) {
        (Err(error), Some(part)) if kept > 0 => {
            tracing::info!(%error, "a kept layer cannot be read");
            // A damaged part was emptied. The registry may also have failed.
            if part.length() == 0 {
                cache.damaged.add(part.path());
            }
            part.remove();
            read_remote_layer(client, image, layer, read).await
        }
        (Err(_), None) if block_in_place(|| client.has_damaged_copy(slice::from_ref(layer))) => {
            // This ends, because each damaged copy is reported only once.
            Box::pin(read_base_layer(client, cache, image, layer, read)).await
        }
        (result, _) => result,
    }
}

fn unreadable(image: &ImageRef, error: RegistryError) -> ExecuteError {
    ExecuteError::registry(format!("reading a layer of `{image}` failed"), error)
}

async fn read_stream<T: Send + 'static>(
    stream: BlobStream,
    read: impl FnOnce(Box<dyn Read + Send>) -> Result<T, LayerError> + Send + 'static,
) -> Result<T, ExecuteError> {
    let stream = futures_util::TryStreamExt::map_err(stream, io::Error::other);
    let reader = tokio_util::io::StreamReader::new(Box::pin(stream));
    let reader = tokio_util::io::SyncIoBridge::new(reader);
    let read = tokio::task::spawn_blocking(move || read(Box::new(reader))).await;
    let read = read.map_err(|error| {
        ExecuteError::plan(format!("an internal thread stopped unexpectedly: {error}"))
    })?;
    read.map_err(ExecuteError::layer)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::tests::support::{client, layer, tar_of};

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap()
    }

    #[test]
    fn a_layer_is_read_in_every_compression_and_must_match_its_digest() {
        let (tar, other) = (tar_of(&[("a", "one"), ("b", "two")]), Digest::of(b"other"));
        let zstd = zstd::encode_all(&*tar, 0).unwrap();
        for layer in [&tar, &gzip(&tar), &zstd] {
            for diff_id in [None, Some(&Digest::of(&tar))] {
                let listing = list_layer(&**layer, diff_id).unwrap();
                let paths = listing.entries.iter().map(|(path, _)| path.to_string());
                assert_eq!(paths.collect::<Vec<_>>(), ["a", "b"]);
            }
            let error = list_layer(&**layer, Some(&other)).unwrap_err();
            let LayerError::DiffId { wanted, found } = &error else { panic!("{error:?}") };
            assert_eq!((wanted, found), (&other, &Digest::of(&tar)));
        }
        // The checksum at the end of compressed data is read too.
        for mut layer in [gzip(&tar), zstd] {
            layer.truncate(layer.len() - 1);
            assert!(list_layer(&*layer, None).is_err());
        }
        let failing = &mut |_, _| Err(io::Error::other("no space"));
        let error = visit_layer(&*tar, None, failing).unwrap_err();
        assert!(matches!(&error, LayerError::Read(_)), "{error:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_layer_of_a_base_is_transferred_once_and_a_damaged_copy_is_replaced() {
        let tar = gzip(&tar_of(&[("a", "one")]));
        let registry = oci::loopback::LoopbackRegistry::start().await.unwrap();
        let digest = registry.add_blob(tar.clone().into());
        let layer = Descriptor { digest: digest.clone(), ..layer("a", tar.len() as u64) };
        let image: ImageRef = format!("{}/base@{digest}", registry.host()).parse().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let cache = BlobCache::new(folder.path().to_owned());
        let layers = [layer.clone()];
        let kept = || cache.complete(&layers).map(|(_, file)| file).next();
        let read = async || {
            let list = |reader| Ok(list_layer(reader, None)?.entries.len());
            read_base_layer(&client(), &cache, &image, &layer, list).await
        };
        assert_eq!(read().await.unwrap(), 1);
        let file = kept().unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), tar);
        for damage in [0, tar.len() / 2, tar.len() - 1] {
            let mut bytes = tar.clone();
            bytes[damage] ^= 1;
            std::fs::write(&file, bytes).unwrap();
            assert_eq!(read().await.unwrap(), 1, "{damage}");
            assert_eq!(kept(), None, "{damage}");
            // A beginning is continued.
            std::fs::write(&file, &tar[..tar.len() / 2]).unwrap();
            assert_eq!(read().await.unwrap(), 1);
            assert_eq!(std::fs::read(kept().unwrap()).unwrap(), tar);
        }
        drop(registry);
        assert_eq!(read().await.unwrap(), 1, "the kept layer is enough");
        cache.remove_parts(&layers);
        assert!(read().await.is_err());
    }

    #[test]
    fn only_padding_may_follow_a_tar() {
        let tar = tar_of(&[("a", "one")]);
        for padding in [0, 1, 512, PIECE, 2 * PIECE + 1] {
            let padded = [&tar[..], &vec![0; padding]].concat();
            list_layer(&*padded, Some(&Digest::of(&padded))).unwrap();
            let longer = [&padded[..], b"x"].concat();
            let error = list_layer(&*longer, None).unwrap_err();
            assert!(matches!(error, LayerError::Trailing), "{padding}: {error:?}");
        }
    }

    #[test]
    fn a_checked_reader_fails_at_its_end_and_nowhere_else() {
        for size in [0, 1, PIECE - 1, PIECE, 2 * PIECE + 1] {
            let (bytes, mut read) = (vec![7; size], Vec::new());
            checked(&*bytes, Digest::of(&bytes)).unwrap().read_to_end(&mut read).unwrap();
            assert!(read == bytes);
            let mut reader = checked(&*bytes, Digest::of(b"other")).unwrap();
            reader.read_exact(&mut read).unwrap();
            assert_eq!(reader.read(&mut []).unwrap(), 0, "this is not the end");
            let error = reader.read(&mut [0]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(error.to_string().contains(Digest::of(&bytes).as_str()), "{error}");
        }
    }
}
