//! Copies a layer with changes to single files. Used by the contract `slim/1`.

use std::io::{self, Read, Write};
use std::num::NonZeroUsize;

use names::Hasher;
use tar_stream::{BLOCK, Forward, MAX_OCTAL, padding};

use crate::entry::{Entry, Kind};
use crate::error::SealError;
use crate::gzip::{Compressed, Gzip, gzip};
use crate::header::write_header;
use crate::layer::{LayerReader, Located, wrong_name};
use crate::listing::{Listing, listed};
use crate::path::{EntryPath, Role};
use crate::sealer::SealedLayer;

/// Decides which files of a layer change.
pub trait LayerEditor {
    /// Returns whether a file may change. If so, [`Self::content`] and then [`Self::replace`] are
    /// called for it.
    fn wants(&mut self, path: &EntryPath) -> bool;

    /// Takes a part of the content of a file that may change.
    ///
    /// # Errors
    /// Fails if the content cannot be stored.
    fn content(&mut self, part: &[u8]) -> io::Result<()>;

    /// Returns the replacement for the file.
    ///
    /// # Errors
    /// Fails if a temporary file cannot be read or written.
    fn replace(&mut self, path: &EntryPath) -> io::Result<Replacement>;
}

/// The replacement for a file of a layer.
pub enum Replacement {
    /// A file with this content, and its size in bytes.
    Content(u64, Box<dyn Read>),
    /// No entry.
    Nothing,
    /// A whiteout, which hides the file in the layers below.
    Whiteout,
}

impl std::fmt::Debug for Replacement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Content(size, _) => f.debug_tuple("Content").field(size).finish(),
            Self::Nothing => f.write_str("Nothing"),
            Self::Whiteout => f.write_str("Whiteout"),
        }
    }
}

/// Copies an uncompressed layer to a gzip file, and applies the changes of `editor`. Internal files
/// of aufs are left out. The entries keep their order and get the headers of `seal/1`, with all
/// extended attributes. Times before 1970 become 0.
///
/// # Errors
/// Fails if the tar is damaged, if the editor fails, or if the result cannot be written.
pub fn edit_layer(
    tar: impl Read,
    threads: NonZeroUsize,
    out: impl Write,
    editor: &mut impl LayerEditor,
) -> Result<SealedLayer, SealError> {
    let (listing, Compressed { diff_id, content_size, digest, size }) =
        gzip(out, threads, |gzip| {
            let mut reader = LayerReader::new(Forward(tar));
            let mut listing = Listing::default();
            while let Some(located) = reader.next()? {
                match located.path.role() {
                    Role::Bookkeeping => continue,
                    Role::Impossible => {
                        return Err(wrong_name(&located.path, located.offset).into());
                    }
                    Role::Plain | Role::Whiteout(_) | Role::Opaque(_) => {}
                }
                if let Some(written) = copy(gzip, &mut reader, located, editor)? {
                    listing.entries.extend(listed(written)?);
                }
            }
            gzip.write_all(&[0; 2 * BLOCK])?;
            Ok::<_, SealError>(listing)
        })?;
    Ok(SealedLayer { diff_id, tar_size: content_size, digest, size, listing })
}

/// Copies an entry, and returns the written one, or `None` if it was left out.
fn copy<R: Read, W: Write>(
    gzip: &mut Gzip<W>,
    reader: &mut LayerReader<Forward<R>>,
    mut located: Located,
    editor: &mut impl LayerEditor,
) -> Result<Option<Located>, SealError> {
    let mtime = located.entry.mtime;
    located.entry.mtime = mtime.clamp(0, MAX_OCTAL.cast_signed());
    let Located { path, entry, .. } = &mut located;
    let is_file = entry.kind == Kind::File && matches!(path.role(), Role::Plain);
    if is_file && editor.wants(path) {
        reader.try_read(&located, |part| editor.content(part))?;
        let (size, mut bytes) = match editor.replace(&located.path)? {
            Replacement::Content(size, bytes) => (size, bytes),
            Replacement::Nothing => return Ok(None),
            Replacement::Whiteout => {
                located.path = located.path.whiteout();
                located.entry = Entry::new(Kind::File);
                (0, Box::new(io::empty()) as Box<dyn Read>)
            }
        };
        located.entry.size = size;
        write_head(gzip, &located)?;
        let mut hashed = Hashed { out: gzip, hasher: Hasher::new() };
        let copied = io::copy(&mut bytes, &mut hashed)?;
        if copied != size {
            return Err(io::Error::other("the new content does not have the stated size").into());
        }
        located.entry.sha256 = Some(hashed.hasher.finish());
    } else {
        write_head(gzip, &located)?;
        let mut hashed = Hashed { out: gzip, hasher: Hasher::new() };
        reader.try_read(&located, |part| hashed.write_all(part))?;
        located.entry.sha256 = (located.entry.kind == Kind::File).then(|| hashed.hasher.finish());
    }
    gzip.write_all(padding(gzip.content_size()))?;
    Ok(Some(located))
}

fn write_head(out: &mut impl Write, located: &Located) -> io::Result<()> {
    let path = if located.path.is_root() { b"." } else { located.path.as_bytes() };
    write_header(out, path, &located.entry)
}

/// Passes bytes on to a writer, and hashes them.
struct Hashed<'a, W> {
    out: &'a mut W,
    hasher: Hasher,
}

impl<W: Write> Write for Hashed<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<R: Read> LayerReader<Forward<R>> {
    /// Passes the content of the last entry to `take`, in chunks.
    fn try_read(
        &mut self,
        located: &Located,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), SealError> {
        let mut refused = None;
        self.read(located, |part| {
            if refused.is_none() {
                refused = take(part).err();
            }
        })?;
        refused.map_or(Ok(()), |error| Err(SealError::Write(error)))
    }
}
