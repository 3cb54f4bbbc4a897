//! Release archives: downloaded by hash, opened as a tree.
//!
//! Start at [`fetch`] and [`Archive::tree`]. The cache contains an archive as published, under its
//! SHA-256, and it is hashed before anything reads it. When it is opened for the first time, it is
//! unpacked into a single file next to it ([`unpacked`]); paths from the archive are never created
//! on disk. A repository (`.git`) inside a release is left out.

mod download;
#[cfg(test)]
mod fuzz;
mod reader;
mod unpacked;

use std::fs::File;
use std::io::{self, BufReader, Read, SeekFrom};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use names::Sha256;

pub(crate) use download::fetch;

use crate::address::SourceUrl;
use crate::error::{Failure, SourceError};
use crate::text;
use crate::tree::Tree;

/// A release archive.
#[derive(Debug, Clone)]
pub struct ArchiveSource {
    /// The project, for messages.
    pub project: String,
    /// Its version, for messages.
    pub version: String,
    /// The expected hash of the archive.
    pub sha256: Sha256,
    /// The URL to download it from, which the caller has looked up in an index. If `None`, only the
    /// cache is searched.
    pub url: Option<SourceUrl>,
}

/// An archive in the cache.
#[derive(Debug, Clone)]
pub struct Archive {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Its hash.
    pub sha256: Sha256,
    /// Its size.
    pub size: u64,
    /// The number of bytes received over the network; 0 if it was cached.
    pub received: u64,
}

/// The limits for the content of an archive.
#[derive(Debug, Clone, Copy)]
pub struct ArchiveLimits {
    /// The number of entries, including directories.
    pub entries: u64,
    /// The size of the unpacked archive, in bytes.
    pub bytes: u64,
    /// The maximum ratio of content size to archive size. It applies only to content above 64 MiB,
    /// because small archives of zeros are harmless.
    pub ratio: u64,
}

impl Default for ArchiveLimits {
    /// 500,000 entries, 8 GiB, 100 times: ten times the values of the largest source archives in
    /// use.
    fn default() -> Self {
        Self { entries: 500_000, bytes: 8 << 30, ratio: 100 }
    }
}

/// Below this size the ratio does not apply.
const HARMLESS: u64 = 64 << 20;

impl ArchiveSource {
    /// Returns the name for messages.
    pub(crate) fn name(&self) -> String {
        text::clean(&format!("{} {}", self.project, self.version))
    }
}

impl Archive {
    /// Returns the path of the file, for archives that are not unpacked, such as wheels.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the content of the archive without its single top directory, or only the content of
    /// `subdirectory` in it. The first call blocks while it unpacks the archive.
    ///
    /// # Errors
    /// Fails if the file is not a tar or compressed tar, if it is damaged or larger than `limits`,
    /// if it contains a device, a path or link that leaves its root, or the same path twice, or if
    /// there is no such subdirectory.
    pub fn tree(
        &self,
        limits: &ArchiveLimits,
        subdirectory: Option<&str>,
    ) -> Result<Tree, SourceError> {
        let open = || -> Result<Tree, Failure> {
            let most = limits.bytes.min(HARMLESS.max(self.size.saturating_mul(limits.ratio)));
            let limits = ArchiveLimits { bytes: most, ..*limits };
            let tree = unpacked::open(&self.path, &limits)?.without_top()?;
            let tree = match subdirectory {
                Some(path) => tree.subdirectory(path)?,
                None => tree,
            };
            tree.check_archive_links()?;
            Ok(tree)
        };
        open().map_err(|failure| failure.at("open the archive", &self.name))
    }
}

/// Reads a tar, compressed or not, into a tree whose contents are stored in `spool`.
fn read_tree(
    mut file: impl Read + io::Seek,
    spool: File,
    limits: &ArchiveLimits,
) -> Result<Tree, Failure> {
    let mut start = [0; 262];
    let count = read_up_to(&mut file, &mut start).map_err(|error| {
        Failure::fatal(crate::ErrorKind::Disk, "it cannot be read").because(&error)
    })?;
    file.seek(SeekFrom::Start(0)).map_err(|error| {
        Failure::fatal(crate::ErrorKind::Disk, "it cannot be read").because(&error)
    })?;
    let source = BufReader::with_capacity(256 << 10, file);
    match &start[..count] {
        [0x1f, 0x8b, ..] => reader::read(MultiGzDecoder::new(source), spool, limits),
        [b'P', b'K', ..] => Err(Failure::refused("it is a zip archive, not a tar")),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            Err(Failure::refused("it is compressed with zstd, not gzip"))
        }
        [0xfd, b'7', b'z', ..] | [b'B', b'Z', b'h', ..] => {
            Err(Failure::refused("it is compressed with xz or bzip2, not gzip"))
        }
        whole if whole.get(257..262) == Some(b"ustar") => reader::read(source, spool, limits),
        _ => Err(Failure::refused("it is neither a tar nor a gzip-compressed tar")),
    }
}

fn read_up_to(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match file.read(&mut buffer[count..])? {
            0 => break,
            more => count += more,
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests;
