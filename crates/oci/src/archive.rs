//! Writes an image and all its layers as one tar file (`oci-archive`), and reads such files. docker
//! loads them as `docker-archive`.
//!
//! The archive depends only on the image: the order of entries is fixed, and times and owners are
//! zero. Layers are streamed into the file from wherever the caller has them, and none is held in
//! memory.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use atomic_write_file::AtomicWriteFile;
use bytes::Bytes;
use names::Digest;
use serde_json::json;

use crate::DerivedImage;
use crate::files::{self, hash};
use crate::layout::{LayoutError, LayoutFiles, MARKER, Place, index_text, read_capped};
use crate::media::Descriptor;

/// An archive that is being written. Nothing appears at its path before [`ArchiveWriter::finish`].
#[derive(Debug)]
pub struct ArchiveWriter {
    path: PathBuf,
    file: AtomicWriteFile,
}

/// Refuses to replace anything except an OCI archive or an empty file. Links are followed. Devices,
/// FIFOs and sockets are refused.
fn check_replaced(path: &Path) -> Result<(), LayoutError> {
    let read = |source| LayoutError::Read { path: path.to_owned(), source };
    let found = match fs::metadata(path) {
        // If nothing can be written there, the write itself reports it.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(());
        }
        found => found.map_err(read)?,
    };
    if found.is_file() && (found.len() == 0 || is_archive(path).map_err(read)?) {
        return Ok(());
    }
    Err(LayoutError::NotAnArchive(path.to_owned()))
}

/// Returns whether a file starts like an OCI archive: with a tar header (POSIX.1-1988, ustar) of
/// one of the entries of an OCI image layout.
fn is_archive(path: &Path) -> io::Result<bool> {
    let mut header = Vec::new();
    files::open(path)?.take(512).read_to_end(&mut header)?;
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
    /// Fails if the file cannot be written.
    pub fn begin(path: &Path, image: &DerivedImage, name: &str) -> Result<Self, LayoutError> {
        let write = |source| LayoutError::Write { path: path.to_owned(), source };
        // Otherwise this would be noticed only after all layers have been copied.
        if path.is_dir() {
            return Err(write(io::ErrorKind::IsADirectory.into()));
        }
        check_replaced(path)?;
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(write)?;
        }
        let file = AtomicWriteFile::open(path).map_err(write)?;
        let mut archive = Self { path: path.to_owned(), file };
        archive.add("oci-layout", MARKER.as_bytes())?;
        archive.add("index.json", index_text(image, name).as_bytes())?;
        archive.add("manifest.json", docker_text(image, name).as_bytes())?;
        archive.add(&blob_name(&image.manifest_digest), &image.manifest)?;
        archive.add(&blob_name(&image.config_digest), &image.config)?;
        Ok(archive)
    }

    fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), LayoutError> {
        self.header(name, bytes.len() as u64)?;
        self.write(bytes)?;
        self.pad(bytes.len() as u64)
    }

    /// Starts the entry of a layer. [`ArchiveWriter::write`] writes its bytes in chunks.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn begin_layer(&mut self, layer: &Descriptor) -> Result<(), LayoutError> {
        self.header(&blob_name(&layer.digest), layer.size)
    }

    /// Writes a chunk of the current entry.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn write(&mut self, piece: &[u8]) -> Result<(), LayoutError> {
        self.file
            .write_all(piece)
            .map_err(|source| LayoutError::Write { path: self.path.clone(), source })
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
        self.file.commit().map_err(|source| LayoutError::Write { path: self.path, source })
    }

    fn header(&mut self, name: &str, size: u64) -> Result<(), LayoutError> {
        let mut header = tar::Header::new_ustar();
        let named = header.set_path(name);
        named.map_err(|source| LayoutError::Write { path: self.path.clone(), source })?;
        header.set_size(size);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_cksum();
        self.write(header.as_bytes())
    }

    /// Pads the entry of `size` bytes to a whole block.
    fn pad(&mut self, size: u64) -> Result<(), LayoutError> {
        let rest = (512 - size % 512) % 512;
        self.write(&[0; 512][..usize::try_from(rest).unwrap_or(0)])
    }
}

fn blob_name(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// The maximum number of entries in an archive. An image of 127 layers, the most that overlayfs
/// mounts, has about 135 in docker's own layout.
const ENTRY_CAP: usize = 10_000;

/// The position and digest of each file in an archive. No content is kept in memory.
pub(crate) struct ArchiveFiles {
    path: PathBuf,
    files: BTreeMap<String, ArchivedFile>,
}

struct ArchivedFile {
    begin: u64,
    size: u64,
    digest: Digest,
}

impl ArchiveFiles {
    /// Reads an archive once, from start to end.
    pub(crate) fn scan(path: &Path) -> Result<Self, LayoutError> {
        let scan = || {
            let mut files = BTreeMap::new();
            let mut archive = tar::Archive::new(io::BufReader::new(files::open(path)?));
            for (number, entry) in archive.entries()?.enumerate() {
                if number == ENTRY_CAP {
                    let message = format!("the archive has more than {ENTRY_CAP} entries");
                    return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
                }
                let mut entry = entry?;
                if !entry.header().entry_type().is_file() {
                    continue;
                }
                let name = String::from_utf8_lossy(&entry.path_bytes())
                    .trim_start_matches("./")
                    .to_owned();
                let (begin, size) = (entry.raw_file_position(), entry.size());
                files.insert(name, ArchivedFile { begin, size, digest: hash(&mut entry)? });
            }
            Ok(Self { path: path.to_owned(), files })
        };
        scan().map_err(|source| LayoutError::Read { path: path.to_owned(), source })
    }
}

impl LayoutFiles for ArchiveFiles {
    fn small_file(&self, name: &str) -> Result<Bytes, LayoutError> {
        let read = || {
            let found = self.files.get(name).ok_or(io::ErrorKind::NotFound)?;
            let mut file = files::open(&self.path)?;
            file.seek(io::SeekFrom::Start(found.begin))?;
            read_capped(file.take(found.size))
        };
        read().map_err(|source| LayoutError::Read { path: self.path.join(name), source })
    }

    fn blob_digest(&self, digest: &Digest) -> Result<Option<Digest>, LayoutError> {
        Ok(self.files.get(&blob_name(digest)).map(|file| file.digest.clone()))
    }

    fn place(&self, digest: &Digest) -> Option<Place> {
        let ArchivedFile { begin, size, .. } = self.files.get(&blob_name(digest))?;
        Some(Place { file: self.path.clone(), begin: *begin, size: *size })
    }
}
