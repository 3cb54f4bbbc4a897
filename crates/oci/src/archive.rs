//! Writes an image and all its layers as one tar file (`oci-archive`), and reads such files. docker
//! loads them as `docker-archive`.
//!
//! The archive depends only on the image: the order of entries is fixed, and times and owners are
//! zero. Layers are streamed into the file and never held in memory as a whole.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use names::Digest;
use serde_json::json;

use crate::agreement::{Names, check_docker};
use crate::client::Prefix;
use crate::files::{self, hash};
use crate::layout::{
    CheckLayers, LayoutError, LayoutFiles, LayoutImage, MARKER, index_text, read_capped,
};
use crate::local::{Place, open_part, part_of};
use crate::media::{Descriptor, MANIFEST_CAP, Manifest};
use crate::{DerivedImage, Verified};

/// An archive that is being written. Nothing appears at its path before [`ArchiveWriter::finish`].
///
/// An interrupted writer leaves its layers in a file next to the archive ([`part_of`]). A new
/// writer of the same archive continues with this file: it compares each write with the file's
/// content, and truncates the file where they differ. If a write fails, the file is removed.
#[derive(Debug)]
pub struct ArchiveWriter {
    path: PathBuf,
    part: PathBuf,
    file: File,
    /// The number of bytes written or compared.
    position: u64,
    /// The number of bytes in the file.
    length: u64,
    /// The start of the current layer.
    layer: u64,
    is_wanted: bool,
}

/// What an archive of this tool contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// An image.
    Image,
    /// The inputs of tracks.
    Bundle,
}

impl std::fmt::Display for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Image => "an archive of an image",
            Self::Bundle => "a bundle",
        })
    }
}

/// Checks that an archive with the given content may be written at `path`: there is nothing yet, or
/// there is an empty file or an archive that this tool wrote with the same kind of content, which
/// will be replaced.
///
/// # Errors
/// Fails if there is something else, or if the file cannot be read.
pub fn check_target(path: &Path, content: Content) -> Result<(), LayoutError> {
    if path.is_dir() {
        let source = io::ErrorKind::IsADirectory.into();
        return Err(LayoutError::Write { path: path.to_owned(), source });
    }
    check_replaced(path, content)
}

/// Refuses to replace anything except an archive of this tool with this content, or an empty file.
/// Links are followed. Devices, FIFOs and sockets are refused.
fn check_replaced(path: &Path, wanted: Content) -> Result<(), LayoutError> {
    let read = |source| LayoutError::Read { path: path.to_owned(), source };
    let found = match fs::metadata(path) {
        // If the path cannot be written, the write reports it.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(());
        }
        found => found.map_err(read)?,
    };
    if found.is_file() && (found.len() == 0 || is_ours(path).map_err(read)?) {
        return match content_of(path).filter(|content| *content != wanted) {
            Some(other) => {
                Err(LayoutError::OtherArchive { path: path.to_owned(), found: other, wanted })
            }
            None => Ok(()),
        };
    }
    if found.is_file() && is_archive(path).map_err(read)? {
        return Err(LayoutError::ForeignArchive(path.to_owned()));
    }
    Err(LayoutError::NotAnArchive(path.to_owned()))
}

/// Returns whether a file starts with a complete tar block: a header whose checksum is correct, or
/// zeros, as in an empty tar.
///
/// # Errors
/// The file cannot be read.
pub fn is_tar(path: &Path) -> io::Result<bool> {
    let Ok(block) = <[u8; 512]>::try_from(first_block(path)?) else { return Ok(false) };
    let header = tar::Header::from_byte_slice(&block);
    let fields = block.iter().enumerate().map(|(at, byte)| match at {
        148..156 => u32::from(b' '),
        _ => u32::from(*byte),
    });
    Ok(block == [0; 512] || header.cksum().is_ok_and(|sum| sum == fields.sum::<u32>()))
}

/// Returns whether a file starts like the archives of [`ArchiveWriter`]. Other tools write other
/// times, owners or orders.
///
/// # Errors
/// The file cannot be read.
pub fn is_ours(path: &Path) -> io::Result<bool> {
    let header = header_of("oci-layout", MARKER.len() as u64)?;
    Ok(first_block(path)? == header.as_bytes())
}

/// Returns what an archive of this tool contains. `None` if it is too damaged to tell. A bundle
/// with a damaged index is not taken for an image.
pub fn content(path: &Path) -> Option<Content> {
    let mut archive = tar::Archive::new(files::open(path).ok()?);
    // In an image, docker's file follows the index.
    let third = archive.entries_with_seek().ok()?.nth(2)?.ok()?;
    let is_image = *third.path_bytes() == *b"manifest.json";
    content_of(path).filter(|content| is_image == (*content == Content::Image))
}

/// Returns what an archive of this tool contains, according to its index. `None` if it is too
/// damaged to tell.
fn content_of(path: &Path) -> Option<Content> {
    let mut archive = tar::Archive::new(files::open(path).ok()?);
    // The index is the second entry of all archives of this tool.
    let index = archive.entries().ok()?.nth(1)?.ok()?;
    let index: serde_json::Value = serde_json::from_slice(&read_capped(index).ok()?).ok()?;
    let entries = index.get("manifests")?.as_array()?;
    let is_artifact = |entry: &serde_json::Value| entry.get("artifactType").is_some();
    Some(if entries.iter().any(is_artifact) { Content::Bundle } else { Content::Image })
}

fn first_block(path: &Path) -> io::Result<Vec<u8>> {
    let mut block = Vec::new();
    files::open(path)?.take(512).read_to_end(&mut block)?;
    Ok(block)
}

/// Returns whether a file starts like an OCI archive: with a ustar header (POSIX.1-1988) for an
/// entry of an OCI image layout.
///
/// # Errors
/// The file cannot be read.
pub fn is_archive(path: &Path) -> io::Result<bool> {
    let header = first_block(path)?;
    let starts = [b"oci-layout".as_slice(), b"index.json", b"blobs/"];
    let has_name = starts.iter().any(|start| header.starts_with(start));
    Ok(has_name && header.get(257..262) == Some(b"ustar".as_slice()))
}

/// Returns the text of `manifest.json`, from which docker without the containerd store loads the
/// archive (`docker-archive`). Config and layers are the blobs of the layout.
fn docker_text(image: &DerivedImage, name: &str) -> String {
    let layers = image.layers.iter().map(|layer| blob_name(&layer.digest));
    let entry = json!({
        "Config": blob_name(&image.config_digest),
        "RepoTags": [format!("localhost/build-pipeline/{name}:latest")],
        "Layers": layers.collect::<Vec<_>>(),
    });
    json!([entry]).to_string()
}

impl ArchiveWriter {
    /// Starts the archive at `path` and writes everything except the layers.
    ///
    /// # Errors
    /// Fails if the file cannot be written, or if something other than an archive is at `path`.
    pub fn begin(path: &Path, image: &DerivedImage, name: &str) -> Result<Self, LayoutError> {
        let mut archive = Self::open(path, Content::Image)?;
        archive.add("index.json", index_text(image, name).as_bytes())?;
        archive.add("manifest.json", docker_text(image, name).as_bytes())?;
        archive.add_blob(&image.manifest)?;
        archive.add_blob(&image.config)?;
        archive.expect_layers();
        Ok(archive)
    }

    /// Starts the archive at `path` with the `oci-layout` file.
    pub(crate) fn open(path: &Path, content: Content) -> Result<Self, LayoutError> {
        let write = |source| LayoutError::Write { path: path.to_owned(), source };
        check_target(path, content)?;
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(write)?;
        }
        // A symbolic link is kept, and its target is replaced.
        let path = match fs::symlink_metadata(path) {
            Ok(found) if found.is_symlink() => fs::canonicalize(path).map_err(write)?,
            _ => path.to_owned(),
        };
        let file = open_part(&path)?;
        // A replaced archive keeps its permissions. Until the archive is complete, the next run of
        // the same user must be able to continue it.
        if let Ok(replaced) = fs::metadata(&path) {
            let mut permissions = replaced.permissions();
            permissions.set_mode(permissions.mode() | 0o200);
            file.set_permissions(permissions).map_err(write)?;
        }
        let length = file.metadata().map_err(write)?.len();
        let part = part_of(&path);
        let mut archive =
            Self { path, part, file, position: 0, length, layer: 0, is_wanted: false };
        archive.add("oci-layout", MARKER.as_bytes())?;
        Ok(archive)
    }

    /// Declares that only layers follow. If an earlier writer left layers, the unfinished file is
    /// kept.
    pub(crate) fn expect_layers(&mut self) {
        self.is_wanted = self.length > self.position;
    }

    /// Adds a blob that is in memory.
    pub(crate) fn add_blob(&mut self, bytes: &[u8]) -> Result<(), LayoutError> {
        self.add(&blob_name(&Digest::of(bytes)), bytes)
    }

    pub(crate) fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), LayoutError> {
        self.header(name, bytes.len() as u64)?;
        self.write(bytes)?;
        self.pad(bytes.len() as u64)
    }

    /// Starts the entry of a layer. [`ArchiveWriter::write`] writes its bytes in chunks.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn begin_layer(&mut self, layer: &Descriptor) -> Result<(), LayoutError> {
        self.header(&blob_name(&layer.digest), layer.size)?;
        self.layer = self.position;
        Ok(())
    }

    /// Reads the beginning of the current layer that an earlier writer left, and keeps it in the
    /// file. The caller checks it together with the rest.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn keep_beginning(&mut self, layer: &Descriptor) -> Result<Prefix, LayoutError> {
        let kept = self.length.saturating_sub(self.position).min(layer.size);
        let mut beginning = Part { file: &self.file, position: self.position, left: kept };
        let prefix = Prefix::read(&mut beginning).map_err(|source| self.reading(source))?;
        self.position += kept;
        Ok(prefix)
    }

    /// Restarts the current layer, and discards the part that an earlier writer left behind.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn restart_layer(&mut self) -> Result<(), LayoutError> {
        self.position = self.layer;
        self.truncate()
    }

    /// Writes a chunk of the current entry.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn write(&mut self, piece: &[u8]) -> Result<(), LayoutError> {
        let end = self.position + piece.len() as u64;
        if end <= self.length {
            let mut found = vec![0; piece.len()];
            let read = self.file.read_exact_at(&mut found, self.position);
            read.map_err(|source| self.reading(source))?;
            if found == piece {
                self.position = end;
                return Ok(());
            }
        }
        if self.length > self.position {
            self.truncate()?;
        }
        let written = self.file.write_all_at(piece, self.position);
        written.map_err(|source| self.writing(source))?;
        (self.position, self.length) = (end, end);
        if self.layer > 0 {
            self.is_wanted = true;
        }
        Ok(())
    }

    fn truncate(&mut self) -> Result<(), LayoutError> {
        self.length = self.position;
        self.file.set_len(self.length).map_err(|source| self.writing(source))
    }

    fn reading(&self, source: io::Error) -> LayoutError {
        LayoutError::Read { path: self.part.clone(), source }
    }

    /// Returns the error for a failed write. The unfinished file will be removed, because the disk
    /// may be full.
    fn writing(&mut self, source: io::Error) -> LayoutError {
        self.is_wanted = false;
        LayoutError::Write { path: self.path.clone(), source }
    }

    /// Ends the entry of a layer.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn end_layer(&mut self, layer: &Descriptor) -> Result<(), LayoutError> {
        self.pad(layer.size)
    }

    /// Completes the archive, syncs it and moves it into place.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn finish(mut self) -> Result<(), LayoutError> {
        self.write(&[0; 1024])?;
        self.truncate()?;
        let finish = || {
            if let Ok(replaced) = fs::metadata(&self.path) {
                self.file.set_permissions(replaced.permissions())?;
            }
            self.file.sync_all()?;
            fs::rename(&self.part, &self.path)?;
            let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        };
        match finish() {
            Ok(()) => {
                self.is_wanted = true;
                Ok(())
            }
            Err(source) => Err(self.writing(source)),
        }
    }

    fn header(&mut self, name: &str, size: u64) -> Result<(), LayoutError> {
        let header = header_of(name, size).map_err(|source| self.writing(source))?;
        self.write(header.as_bytes())
    }

    /// Pads the entry of `size` bytes to a whole block.
    fn pad(&mut self, size: u64) -> Result<(), LayoutError> {
        let rest = (512 - size % 512) % 512;
        self.write(&[0; 512][..usize::try_from(rest).unwrap_or(0)])
    }
}

impl Drop for ArchiveWriter {
    fn drop(&mut self) {
        if !self.is_wanted
            && let Err(error) = fs::remove_file(&self.part)
        {
            tracing::debug!(path = %self.part.display(), %error, "cannot remove an unfinished archive");
        }
    }
}

/// Returns the header of an entry. It depends only on the name and the size.
pub(crate) fn header_of(name: &str, size: u64) -> io::Result<tar::Header> {
    let mut header = tar::Header::new_ustar();
    header.set_path(name)?;
    header.set_size(size);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_cksum();
    Ok(header)
}

/// A part of a file, read without changing the file's current position.
struct Part<'a> {
    file: &'a File,
    position: u64,
    left: u64,
}

impl io::Read for Part<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.file.read_at(&mut buffer[..most], self.position)?;
        self.position += count as u64;
        self.left -= count as u64;
        Ok(count)
    }
}

/// Removes the unfinished file that an interrupted writer of another image left next to a complete
/// archive, unless another run is writing it.
pub fn remove_unfinished(path: &Path) {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let part = part_of(&path);
    // A file that cannot be removed only wastes space.
    if fs::symlink_metadata(&part).is_ok_and(|found| found.is_file())
        && let Ok(_lock) = open_part(&path)
    {
        let removed = fs::remove_file(&part);
        tracing::debug!(path = %part.display(), ok = removed.is_ok(), "removed an unfinished archive");
    }
}

/// Finds the blobs of an archive without reading them.
pub(crate) fn blobs_of(path: &Path) -> io::Result<BTreeMap<Digest, Place>> {
    let mut blobs = BTreeMap::new();
    let mut archive = tar::Archive::new(files::open(path)?);
    for entry in archive.entries_with_seek()?.take(ENTRY_CAP) {
        // The entries before a damaged header are still useful.
        let Ok(entry) = entry else { break };
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let hex = name.trim_start_matches("./").strip_prefix("blobs/sha256/");
        let digest = hex.and_then(|hex| format!("sha256:{hex}").parse().ok());
        if let Some(digest) = digest.filter(|_| entry.header().entry_type().is_file()) {
            let (begin, size) = (entry.raw_file_position(), entry.size());
            blobs.insert(digest, Place { file: path.to_owned(), begin, size });
        }
    }
    Ok(blobs)
}

/// Returns a file of at most 4 MiB from an archive, without reading other files. Returns `None` if
/// there is no such file, or if `path` is not an archive.
pub(crate) fn small_file(path: &Path, name: &str) -> io::Result<Option<Bytes>> {
    let mut archive = tar::Archive::new(files::open(path)?);
    for entry in archive.entries_with_seek()?.take(ENTRY_CAP) {
        let Ok(entry) = entry else { return Ok(None) };
        if &*entry.path_bytes() == name.as_bytes() {
            return read_capped(entry).map(Some);
        }
    }
    Ok(None)
}

/// Returns whether the archive at `path` contains exactly this image under this name, with all its
/// layers. The archive may be large, so it is read only if it has changed since the last check.
pub fn holds(path: &Path, image: &DerivedImage, name: &str, verified: &Verified) -> bool {
    let mut known = verified.of(path);
    // The digest of the image does not cover its name.
    let key = Digest::of(format!("{}\n{name}", image.manifest_digest).as_bytes());
    if known.is_known(&key) {
        return true;
    }
    let read = LayoutImage::read(path);
    let holds = read.is_ok_and(|found| {
        found.manifest_digest == image.manifest_digest
            && found.name.as_deref() == Some(name)
            && found.absent_layers.is_empty()
    });
    if holds {
        known.learn(&key);
        known.save();
    }
    holds
}

/// Returns what programs would read differently in an archive, if anything. Damaged entries are
/// reported by the caller, which reads them.
pub(crate) fn disagreement(path: &Path) -> io::Result<Option<String>> {
    let mut names = Names::default();
    let mut archive = tar::Archive::new(files::open(path)?);
    for (number, entry) in archive.entries_with_seek()?.enumerate() {
        if number == ENTRY_CAP {
            return Err(too_many());
        }
        let Ok(mut entry) = entry else { return Ok(None) };
        if let Err(what) = names.add(&mut entry) {
            return Ok(Some(what));
        }
    }
    Ok(names.finish(archive.into_inner()).err())
}

fn too_many() -> io::Error {
    let message = format!("the archive has more than {ENTRY_CAP} entries");
    io::Error::new(io::ErrorKind::FileTooLarge, message)
}

pub(crate) fn blob_name(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// The maximum number of entries in an archive. An image of 127 layers, the most that docker's
/// storage drivers support, has about 135 in docker's own layout.
const ENTRY_CAP: usize = 10_000;

/// The position and digest of each file in an archive. No content is kept in memory.
pub(crate) struct ArchiveFiles {
    path: PathBuf,
    files: BTreeMap<String, ArchivedFile>,
}

struct ArchivedFile {
    begin: u64,
    size: u64,
    /// `None` if it was not hashed yet.
    digest: Option<Digest>,
}

impl ArchiveFiles {
    /// Reads an archive once, from start to end.
    pub(crate) fn scan(path: &Path, check: CheckLayers) -> Result<Self, LayoutError> {
        let failed = |source| LayoutError::Read { path: path.to_owned(), source };
        if !is_tar(path).map_err(failed)? {
            let wrong = io::Error::new(io::ErrorKind::InvalidData, "it is not a tar archive");
            return Err(failed(wrong));
        }
        let ambiguous = |what| LayoutError::Ambiguous { path: path.to_owned(), what };
        let (mut files, mut names) = (BTreeMap::new(), Names::default());
        let file = files::open(path).map_err(failed)?;
        let mut archive = tar::Archive::new(io::BufReader::new(file));
        for (number, entry) in archive.entries().map_err(failed)?.enumerate() {
            if number == ENTRY_CAP {
                return Err(failed(too_many()));
            }
            let mut entry = entry.map_err(failed)?;
            let Some(name) = names.add(&mut entry).map_err(ambiguous)? else { continue };
            let (begin, size) = (entry.raw_file_position(), entry.size());
            let is_hashed = check == CheckLayers::Now || size <= MANIFEST_CAP;
            let digest = is_hashed.then(|| hash(&mut entry)).transpose().map_err(failed)?;
            files.insert(name, ArchivedFile { begin, size, digest });
        }
        names.finish(archive.into_inner()).map_err(ambiguous)?;
        Ok(Self { path: path.to_owned(), files })
    }

    fn open(&self, found: &ArchivedFile) -> io::Result<impl io::Read + use<>> {
        let mut file = files::open(&self.path)?;
        file.seek(io::SeekFrom::Start(found.begin))?;
        Ok(file.take(found.size))
    }
}

impl LayoutFiles for ArchiveFiles {
    fn names(&self) -> Result<Vec<String>, LayoutError> {
        Ok(self.files.keys().cloned().collect())
    }

    fn small_file(&self, name: &str) -> Result<Bytes, LayoutError> {
        let read = || {
            let found = self.files.get(name).ok_or(io::ErrorKind::NotFound)?;
            read_capped(self.open(found)?)
        };
        read().map_err(|source| LayoutError::Read { path: self.path.join(name), source })
    }

    fn blob_digest(&self, digest: &Digest) -> Result<Option<Digest>, LayoutError> {
        let Some(found) = self.files.get(&blob_name(digest)) else { return Ok(None) };
        let hashed = match &found.digest {
            Some(known) => Ok(known.clone()),
            None => self.open(found).and_then(hash),
        };
        hashed.map(Some).map_err(|source| LayoutError::Read { path: self.path.clone(), source })
    }

    fn place(&self, digest: &Digest) -> Option<Place> {
        let ArchivedFile { begin, size, .. } = self.files.get(&blob_name(digest))?;
        Some(Place { file: self.path.clone(), begin: *begin, size: *size })
    }

    /// All names were checked when the archive was read.
    fn check_place(&self, _: &Digest) -> Result<(), LayoutError> {
        Ok(())
    }

    fn check_docker(&self, image: &Manifest) -> Result<(), LayoutError> {
        if !self.files.contains_key("manifest.json") {
            return Ok(());
        }
        let bytes = self.small_file("manifest.json")?;
        let content = |name: &str| self.files.get(name).and_then(|found| found.digest.clone());
        check_docker(&bytes, image, content)
            .map_err(|what| LayoutError::Ambiguous { path: self.path.clone(), what })
    }
}
