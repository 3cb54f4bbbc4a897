//! Seals the layers of an image, lowest first.

use std::io::{self, Read, Seek, Write};
use std::num::NonZeroUsize;

use names::{Digest, Hasher};
use tar_stream::{BLOCK, Expanded, MAX_OCTAL, Seekable, TarError, padding};

use crate::changes::{Changes, Differ, imply_parents};
use crate::entry::Kind;
use crate::error::SealError;
use crate::glob::Glob;
use crate::gzip::{Compressed, Gzip, gzip};
use crate::header::write_header;
use crate::index::Index;
use crate::listing::Listing;
use crate::path::{EntryPath, Role};
use crate::report::Report;
use crate::upper::{Node, Upper};

/// The settings for sealing.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The latest time in the image, in seconds since 1970. Directories get this time, and files
    /// keep earlier times. It must not be after the start of the build, because otherwise times
    /// from the build would remain.
    pub epoch: u64,
    /// The paths to drop from layers: `/etc/hosts` and similar files from engines, logs, caches.
    pub scrub: Vec<Glob>,
    /// How many threads compress. The result does not depend on it.
    pub threads: NonZeroUsize,
}

impl Rules {
    /// Returns the time of a file in the image. Times before 1970 become 0, because ustar has no
    /// sign.
    pub(crate) fn clamp(&self, mtime: i64) -> i64 {
        mtime.clamp(0, self.epoch.cast_signed())
    }
}

/// Seals layers on top of a base, one after another.
#[derive(Debug)]
pub struct Sealer {
    rules: Rules,
    view: Index,
}

/// The result for a layer, or for several layers that were folded into one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The layer, or `None` if it changes nothing. In that case nothing was written.
    pub layer: Option<SealedLayer>,
    /// The report of dropped and changed entries.
    pub report: Report,
}

/// A sealed layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedLayer {
    /// The digest of the tar.
    pub diff_id: Digest,
    /// The size of the tar, in bytes.
    pub tar_size: u64,
    /// The digest of the gzip file that was written.
    pub digest: Digest,
    /// The size of the gzip file, in bytes.
    pub size: u64,
    /// The content of the layer.
    pub listing: Listing,
}

impl Sealer {
    /// Creates a sealer for layers that are based on `base`.
    ///
    /// # Errors
    /// Fails if the epoch does not fit in a tar header.
    pub fn new(rules: Rules, base: Index) -> Result<Self, SealError> {
        if rules.epoch > MAX_OCTAL {
            Err(SealError::Epoch(rules.epoch))
        } else {
            Ok(Self { rules, view: base })
        }
    }

    /// Returns the merged view of the base and the layers sealed so far.
    pub fn view(&self) -> &Index {
        &self.view
    }

    /// Seals the next layer: reads an uncompressed tar, twice if necessary, and writes a gzip file.
    /// Memory use grows with the number of entries, not with their size.
    ///
    /// # Errors
    /// Fails if the tar is damaged, if tar readers disagree on its meaning, or if the result cannot
    /// be written. The sealer is then unchanged, and the written data is unusable.
    pub fn layer(&mut self, tar: impl Read + Seek, out: impl Write) -> Result<Sealed, SealError> {
        self.squash(vec![tar], out)
    }

    /// Seals several layers as one, lowest first.
    ///
    /// # Errors
    /// Fails like [`Self::layer`].
    pub fn squash<R: Read + Seek>(
        &mut self,
        tars: Vec<R>,
        out: impl Write,
    ) -> Result<Sealed, SealError> {
        let (mut inputs, mut folded) = (Vec::with_capacity(tars.len()), Upper::default());
        for (number, tar) in tars.into_iter().enumerate() {
            let unreadable = |error| TarError::unreadable(None, 0, error);
            let mut input = Seekable::new(tar).map_err(unreadable)?;
            let upper = Upper::read(&mut input, number)?;
            match number {
                0 => folded = upper,
                _ => folded.fold(upper)?,
            }
            imply_parents(&mut folded, &self.view)?;
            inputs.push(input);
        }
        let broken_links = std::mem::take(&mut folded.broken_links).into_iter().collect();
        let mut report = Report { broken_links, ..Report::default() };
        let mut differ = Differ {
            rules: &self.rules,
            view: &self.view,
            inputs: &mut inputs,
            report: &mut report,
        };
        let Changes { nodes, built } = differ.changes(folded)?;
        let mut layer = None;
        if !nodes.is_empty() {
            let written = gzip(out, self.rules.threads, |gzip| {
                let mut listing = Listing::default();
                for (path, mut node) in nodes {
                    write_node(gzip, &path, &mut node, &mut inputs)?;
                    let path = match path.role() {
                        Role::Whiteout(hidden) => hidden,
                        _ => path,
                    };
                    listing.entries.push((path, node.entry));
                }
                gzip.write_all(&[0; 2 * BLOCK])?;
                Ok::<_, SealError>(listing)
            })?;
            let (listing, Compressed { diff_id, content_size, digest, size }) = written;
            self.view.apply(&listing);
            layer = Some(SealedLayer { diff_id, tar_size: content_size, digest, size, listing });
        }
        for (path, mtime) in built {
            self.view.set_built(&path, mtime);
        }
        Ok(Sealed { layer, report })
    }
}

/// Writes an entry: header, content, and zeros up to the next block.
fn write_node<R: Read + Seek, W: Write>(
    gzip: &mut Gzip<W>,
    path: &EntryPath,
    node: &mut Node,
    inputs: &mut [Seekable<R>],
) -> Result<(), SealError> {
    write_header(gzip, path.as_bytes(), &node.entry)?;
    if node.entry.kind != Kind::File {
        node.entry.sha256 = None;
        if node.entry.kind == Kind::Hardlink {
            node.entry.size = 0;
        }
        return Ok(());
    }
    let unreadable = |error| TarError::unreadable(Some(path.as_bytes()), node.offset, error);
    let input = &mut inputs[node.input];
    input.seek_to(node.content.offset).map_err(unreadable)?;
    let mut content = Expanded::new(input, &node.content);
    let mut hasher = Hasher::new();
    let (mut left, mut unread) = (node.content.size, None);
    while left > 0 {
        let position = node.content.size - left;
        let most = usize::try_from(left).unwrap_or(usize::MAX);
        let filled = gzip.fill(most, |part| match content.read(part) {
            Ok(count) => {
                node.patch_at(position, &mut part[..count]);
                hasher.update(&part[..count]);
                Ok(count)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => {
                unread = Some(error);
                Ok(0)
            }
        });
        left -= filled? as u64;
        if let Some(error) = unread {
            return Err(unreadable(error).into());
        }
    }
    node.entry.sha256 = Some(hasher.finish());
    gzip.write_all(padding(gzip.content_size()))?;
    Ok(())
}
