//! Reads a Debian package file: an `ar` archive with the members `debian-binary`, `control.tar` and
//! `data.tar`, the last two of which may be compressed. deb(5) is the specification.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use object::read::ReadCache;
use object::read::archive::ArchiveFile;

/// The maximum size of the file `control`: 1 MiB. Real files have less than 10 kB.
const MOST_CONTROL: u64 = 1 << 20;
/// The buffer size for reading members, in bytes.
const BUFFER: usize = 256 << 10;

/// An open package file.
#[derive(Debug)]
pub(crate) struct Deb {
    path: PathBuf,
    control: Member,
    data: Member,
}

/// The position of a member in the archive, and its compression.
#[derive(Debug)]
struct Member {
    offset: u64,
    size: u64,
    compression: Compression,
}

#[derive(Debug, Clone, Copy)]
enum Compression {
    None,
    Gzip,
    Xz,
    Zstd,
}

/// Why a package file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DebError {
    /// The file cannot be read, or its compressed data is damaged.
    #[error("cannot read the file")]
    Read(#[from] io::Error),
    /// It is not an `ar` archive.
    #[error("it is not a Debian package: it is not an `ar` archive")]
    NotAnArchive(#[source] object::read::Error),
    /// A member is missing.
    #[error("it is not a Debian package: it has no member `{0}`")]
    Missing(&'static str),
    /// A member is compressed with a format that is not supported.
    #[error("its member `{0}` has an unsupported compression; gzip, xz and zstd are supported")]
    Compression(String),
    /// The package contains a path that is not allowed.
    #[error("it contains the path `{0}`, which is not inside the root")]
    Path(String),
}

/// Returns the files of a package as a tar stream.
///
/// # Errors
/// Fails if the file cannot be read or is not a package.
pub fn open_data(path: &Path) -> Result<Box<dyn Read>, DebError> {
    Ok(Box::new(Deb::open(path)?.data()?))
}

impl Deb {
    /// Opens a package file and finds its members.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is not a package.
    pub(crate) fn open(path: &Path) -> Result<Self, DebError> {
        let cache = ReadCache::new(File::open(path)?);
        let archive = ArchiveFile::parse(&cache).map_err(DebError::NotAnArchive)?;
        let (mut control, mut data) = (None, None);
        for member in archive.members() {
            let member = member.map_err(DebError::NotAnArchive)?;
            let name = String::from_utf8_lossy(member.name()).into_owned();
            // GNU ar ends names with a slash, but dpkg does not.
            let name = name.trim_end_matches('/');
            let (slot, end) =
                match (name.strip_prefix("control.tar"), name.strip_prefix("data.tar")) {
                    (Some(end), _) => (&mut control, end),
                    (_, Some(end)) => (&mut data, end),
                    (None, None) => continue,
                };
            let compression = match end {
                "" => Compression::None,
                ".gz" => Compression::Gzip,
                ".xz" => Compression::Xz,
                ".zst" => Compression::Zstd,
                _ => return Err(DebError::Compression(name.to_owned())),
            };
            let (offset, size) = member.file_range();
            slot.get_or_insert(Member { offset, size, compression });
        }
        Ok(Self {
            path: path.to_owned(),
            control: control.ok_or(DebError::Missing("control.tar"))?,
            data: data.ok_or(DebError::Missing("data.tar"))?,
        })
    }

    /// Returns the text of the package's file `control`.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is missing, or is not text.
    pub(crate) fn control(&self) -> Result<String, DebError> {
        let mut archive = tar::Archive::new(self.read(&self.control)?);
        for entry in archive.entries()? {
            let entry = entry?;
            if matches!(&*entry.path_bytes(), b"./control" | b"control") {
                let mut text = String::new();
                entry.take(MOST_CONTROL).read_to_string(&mut text)?;
                return Ok(text);
            }
        }
        Err(DebError::Missing("control.tar: ./control"))
    }

    /// Returns the files of the package as a tar stream.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub(crate) fn data(&self) -> Result<impl Read + use<>, DebError> {
        self.read(&self.data)
    }

    fn read(&self, member: &Member) -> Result<Box<dyn Read>, DebError> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(member.offset))?;
        let packed = BufReader::with_capacity(BUFFER, file.take(member.size));
        Ok(match member.compression {
            Compression::None => Box::new(packed),
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(packed)),
            Compression::Xz => Box::new(lzma_rust2::XzReader::new(packed, true)),
            Compression::Zstd => Box::new(zstd::Decoder::with_buffer(packed)?),
        })
    }
}
