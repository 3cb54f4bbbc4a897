//! Makes a layer from files: the contract `files/1`.
//!
//! The layer has exactly the given entries, sorted by path components, with the headers and the
//! compression of `seal/1`. The time of every entry is the epoch. Owner names are empty, and the
//! mode of symbolic links is 0777. No entries are added for parent directories: they belong to the
//! layers below, which this contract does not read. So the same entries with the same content give
//! the same bytes on every machine.
//!
//! Golden digests in the tests protect every byte. If any byte changes, the contract becomes
//! `files/2`.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::num::NonZeroUsize;

use names::Hasher;
use tar_stream::{BLOCK, MAX_OCTAL, TarError, padding};

use crate::entry::{Entry, Kind};
use crate::error::SealError;
use crate::gzip::{Compressed, Gzip, gzip};
use crate::header::write_header;
use crate::listing::Listing;
use crate::path::EntryPath;
use crate::sealer::SealedLayer;

/// Writes a layer as a gzip file. `open` returns the content of a file and is called once for each,
/// in order. The listing of the result has the SHA-256 of every file.
///
/// # Errors
/// Fails if the epoch does not fit in a tar header, if a file cannot be read or does not have the
/// size in its entry, or if the result cannot be written.
pub fn layer_of_files<R: Read>(
    entries: BTreeMap<EntryPath, Entry>,
    epoch: u64,
    threads: NonZeroUsize,
    out: impl Write,
    mut open: impl FnMut(&EntryPath) -> io::Result<R>,
) -> Result<SealedLayer, SealError> {
    if epoch > MAX_OCTAL {
        return Err(SealError::Epoch(epoch));
    }
    let (listing, written) = gzip(out, threads, |gzip| {
        let mut listing = Listing::default();
        for (path, mut entry) in entries {
            entry.mtime = epoch.cast_signed();
            entry.normalise();
            write_header(gzip, path.as_bytes(), &entry)?;
            if entry.kind == Kind::File {
                let failed = |error| TarError::unreadable(Some(path.as_bytes()), 0, error);
                let content = open(&path).map_err(failed)?;
                entry.sha256 = Some(write_content(gzip, content, &path, entry.size)?);
            }
            listing.entries.push((path, entry));
        }
        gzip.write_all(&[0; 2 * BLOCK])?;
        Ok::<_, SealError>(listing)
    })?;
    let Compressed { diff_id, content_size, digest, size } = written;
    Ok(SealedLayer { diff_id, tar_size: content_size, digest, size, listing })
}

/// Writes the content of a file, and zeros up to the next block. Returns the content's SHA-256.
fn write_content<W: Write>(
    gzip: &mut Gzip<W>,
    content: impl Read,
    path: &EntryPath,
    size: u64,
) -> Result<[u8; 32], SealError> {
    let unreadable = |error| SealError::from(TarError::unreadable(Some(path.as_bytes()), 0, error));
    // One more byte is requested to notice a file that is longer.
    let mut content = content.take(size.saturating_add(1));
    let (mut hasher, mut found) = (Hasher::new(), 0_u64);
    let mut piece = vec![0; 1 << 16];
    loop {
        let count = match content.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(unreadable(error)),
        };
        found += count as u64;
        if found > size {
            break;
        }
        let part = piece.get(..count).unwrap_or_default();
        hasher.update(part);
        gzip.write_all(part)?;
    }
    if found != size {
        let why = "the size of the file changed while it was read";
        return Err(unreadable(io::Error::new(io::ErrorKind::InvalidData, why)));
    }
    gzip.write_all(padding(gzip.content_size()))?;
    Ok(hasher.finish())
}
