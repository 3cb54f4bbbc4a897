//! Release archives: downloaded by hash, opened as a tree.
//!
//! Start at [`fetch`] and [`Archive::tree`]. An archive lies in the cache as it was published,
//! under its SHA-256, and is hashed before anything reads it. Opening one for the first time
//! unpacks it into one file beside ([`unpacked`]); no path of an archive is ever made on disk. A
//! repository (`.git`) that a release brings along is left out.

mod blocks;
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
    /// What the archive's bytes must hash to.
    pub sha256: Sha256,
    /// Where it is downloaded from. Whoever asks has looked it up in an index; without it only
    /// the cache is asked.
    pub url: Option<SourceUrl>,
}

/// An archive that is in the cache now.
#[derive(Debug, Clone)]
pub struct Archive {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Its hash.
    pub sha256: Sha256,
    /// Its size.
    pub size: u64,
    /// How many bytes came by the network; none where it was cached.
    pub received: u64,
}

/// What an archive may hold at the most.
#[derive(Debug, Clone, Copy)]
pub struct ArchiveLimits {
    /// Entries, directories included.
    pub entries: u64,
    /// Bytes of the unpacked archive.
    pub bytes: u64,
    /// How many times larger than the archive its content may be. Counted only above 64 MiB,
    /// since small archives of zeros harm nobody.
    pub ratio: u64,
}

impl Default for ArchiveLimits {
    /// 500,000 entries, 8 GiB, 100 times: the largest source archives in use stay ten times below.
    fn default() -> Self {
        Self { entries: 500_000, bytes: 8 << 30, ratio: 100 }
    }
}

/// Below this size the ratio does not count.
const HARMLESS: u64 = 64 << 20;

impl ArchiveSource {
    /// Returns the name that messages use.
    pub(crate) fn name(&self) -> String {
        text::clean(&format!("{} {}", self.project, self.version))
    }
}

impl Archive {
    /// Returns where the archive lies; for those that are used as they are, such as wheels.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what is in the archive: without the one top directory that source archives have,
    /// and of that only `subdirectory`, if one is given. Blocks while it
    /// unpacks, the first time.
    ///
    /// # Errors
    /// The file is no tar or compressed tar, is damaged, larger than `limits`, or holds a path or
    /// link that leaves it, a device, or the same path twice; or there is no such subdirectory.
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

/// Reads a tar, compressed or not, into a tree whose contents lie in `spool`.
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
        _ => Err(Failure::refused("it is neither a tar nor a tar compressed with gzip")),
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
