//! Writes images as OCI image layouts, and reads layouts and archives.
//!
//! A layout is *thin* if its layer blobs stay in the base's registry, which the image layout
//! specification allows ("the blobs directory MAY be missing referenced blobs"). Blobs are written
//! under their digests, and `index.json` last with one rename: readers see either the old image or
//! the new one, even after a kill.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use atomic_write_file::AtomicWriteFile;
use bytes::Bytes;
use names::{Digest, Platform};
use serde_json::{Value, json};

use crate::DerivedImage;
use crate::agreement::check_no_link;
use crate::archive::{Content, blob_name};
use crate::document::{self, read_config};
use crate::files::{self, hash};
use crate::local::{LocalBlobs, Place};
use crate::media::{
    Document, Manifest, MediaError, OCI_INDEX, OCI_MANIFEST, check_size, platform_of,
};

/// The content of the `oci-layout` file.
pub(crate) const MARKER: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;

/// Returns whether an `oci-layout` file has the only version that exists so far. Other tools may
/// format it differently.
fn is_marker(bytes: &[u8]) -> bool {
    let version = serde_json::from_slice::<Value>(bytes);
    version.is_ok_and(|all| all.get("imageLayoutVersion").is_some_and(|text| text == "1.0.0"))
}

/// The annotation that names an entry of `index.json` (image specification, "annotations").
pub(crate) const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// Why a layout cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// A file cannot be written.
    #[error("writing `{}` failed", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file cannot be read.
    #[error("reading `{}` failed", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The folder contains files, but is not a layout.
    #[error("`{}` contains files but is not an OCI image layout", .0.display())]
    NotALayout(PathBuf),
    /// The folder is for artifacts, but contains something else.
    #[error("`{}` contains something other than shared steps or copied inputs", .0.display())]
    NotArtifacts(PathBuf),
    /// There is a file at the path of the layout.
    #[error("`{}` is a file, not a folder", .0.display())]
    NotAFolder(PathBuf),
    /// The file is not an OCI archive, so it is not replaced.
    #[error("`{}` exists and is not an OCI archive", .0.display())]
    NotAnArchive(PathBuf),
    /// The file is an OCI archive of another tool, so it is not replaced.
    #[error("`{}` is an OCI archive that another tool wrote", .0.display())]
    ForeignArchive(PathBuf),
    /// The layout contains an image that another tool put there.
    #[error("`{}` contains the image `{image}`, which another tool put there", path.display())]
    Foreign {
        /// The layout.
        path: PathBuf,
        /// The image's name, or its digest if it has none.
        image: String,
    },
    /// The layout contains copied inputs or shared steps, so no image replaces them.
    #[error("`{}` contains `{name}`, which is not an image but a copy of inputs or a shared step", path.display())]
    NotAnImage {
        /// The layout.
        path: PathBuf,
        /// The name of the entry.
        name: String,
    },
    /// The layout contains several images, and a write would remove all of them.
    #[error("`{}` contains {count} images, and all of them would be removed", path.display())]
    Several {
        /// The layout.
        path: PathBuf,
        /// The number of images.
        count: usize,
    },
    /// The archive contains something other than what would be written, so it is not replaced.
    #[error("`{}` is {found}, not {wanted}", path.display())]
    OtherArchive {
        /// The archive.
        path: PathBuf,
        /// What it is.
        found: Content,
        /// What would be written.
        wanted: Content,
    },
    /// The layout contains no image, or several.
    #[error("`{}` contains {count} images, expected one", path.display())]
    Count {
        /// The layout.
        path: PathBuf,
        /// The number of images.
        count: usize,
    },
    /// Another run is writing the same file.
    #[error("another run is writing `{}`", .0.display())]
    Busy(PathBuf),
    /// A list or an archive would be longer than readers accept.
    #[error(
        "`{name}` would have {count} blobs, which is more than readers accept; write fewer tracks at once"
    )]
    TooMany {
        /// The list or the archive.
        name: String,
        /// The number of blobs.
        count: usize,
    },
    /// There is a folder in place of a blob.
    #[error("`{}` is a folder, expected a blob", .0.display())]
    NotABlob(PathBuf),
    /// A document in the layout is not valid.
    #[error("`{}` is not a layout that contains an image", path.display())]
    Document {
        /// The layout.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: MediaError,
    },
    /// The content of a blob does not match its name.
    #[error("blob `{digest}` of `{}` has the wrong content: its digest is `{found}`", path.display())]
    Integrity {
        /// The layout.
        path: PathBuf,
        /// The name of the blob.
        digest: Digest,
        /// The digest of its bytes.
        found: Digest,
    },
    /// Programs would find different images in it.
    #[error("programs disagree about the image in `{}`: {what}", path.display())]
    Ambiguous {
        /// The layout or archive.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Its `oci-layout` file is missing, or has a version that this tool does not support (image
    /// specification, "oci-layout file").
    #[error("`{}` has no valid file `oci-layout`, which must contain `{MARKER}`", .0.display())]
    NoMarker(PathBuf),
    /// A folder for copied inputs contains a link, through which a write would leave the folder.
    #[error("`{name}` in `{}` is a link", path.display())]
    Link {
        /// The folder.
        path: PathBuf,
        /// The link.
        name: String,
    },
    /// A required blob is missing.
    #[error("`{}` lacks blob `{digest}`", path.display())]
    Missing {
        /// The layout.
        path: PathBuf,
        /// The blob.
        digest: Digest,
    },
}

/// An image in a layout or archive, with a checked manifest and config.
#[derive(Debug, Clone)]
pub struct LayoutImage {
    /// Its name in `index.json`.
    pub name: Option<String>,
    /// Its platform in `index.json`.
    pub platform: Option<Platform>,
    /// The files and folders that neither `index.json` nor the image refers to.
    pub unused: Vec<String>,
    /// The manifest's digest.
    pub manifest_digest: Digest,
    /// The manifest's bytes.
    pub manifest: Bytes,
    /// The config's bytes.
    pub config: Bytes,
    /// The layers that are present. [`Self::read`] has checked their digests, [`Self::open`] only
    /// their sizes.
    pub present_layers: Vec<Digest>,
    /// The layers that are absent.
    pub absent_layers: Vec<Digest>,
    /// The locations of the layers that are present.
    places: BTreeMap<Digest, Place>,
}

/// Returns the path of a blob in a layout.
pub fn blob_path(layout: &Path, digest: &Digest) -> PathBuf {
    blobs_folder(layout).join(digest.hex())
}

/// Returns the text of `index.json` for one image.
pub(crate) fn index_text(image: &DerivedImage, name: &str) -> String {
    let index = json!({
        "schemaVersion": 2,
        "mediaType": OCI_INDEX,
        "manifests": [{
            "mediaType": OCI_MANIFEST,
            "digest": image.manifest_digest,
            "size": image.manifest.len(),
            "platform": { "architecture": "amd64", "os": "linux" },
            "annotations": { REF_NAME: name },
        }],
    });
    index.to_string()
}

/// Returns the folder of a layout that contains its blobs.
pub fn blobs_folder(layout: &Path) -> PathBuf {
    layout.join("blobs/sha256")
}

/// Returns whether the layout at `path` already contains exactly this image under this name, with
/// an intact manifest and config. Its layers are not checked.
pub fn holds(path: &Path, image: &DerivedImage, name: &str) -> bool {
    let is = |file: PathBuf, wanted: &[u8]| {
        !file.is_symlink()
            && files::open(&file).and_then(read_capped).is_ok_and(|found| found == wanted)
    };
    is(path.join("index.json"), index_text(image, name).as_bytes())
        && is(path.join("oci-layout"), MARKER.as_bytes())
        && is(blob_path(path, &image.manifest_digest), &image.manifest)
        && is(blob_path(path, &image.config_digest), &image.config)
}

/// Checks that the image `name` may be written as a layout at `path`: the path contains nothing
/// yet, the remains of an interrupted write, or a layout with at most one image, which will be
/// replaced. This image must be called `name` or made by this tool.
///
/// # Errors
/// Fails if `path` contains something else, or cannot be read.
pub fn check_target(path: &Path, name: &str) -> Result<(), LayoutError> {
    let read = |source| LayoutError::Read { path: path.to_owned(), source };
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory && path.exists() => {
            return Err(LayoutError::NotAFolder(path.to_owned()));
        }
        entries => entries.and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(read)?,
    };
    let blobs = fs::read_dir(blobs_folder(path)).into_iter().flatten().flatten();
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    if let Some(folder) = blobs.into_iter().find(is_folder) {
        return Err(LayoutError::NotABlob(folder.path()));
    }
    if path.join("oci-layout").is_file() {
        return check_entries(path, name);
    }
    // A run that was killed before its first rename leaves folders and blobs.
    let is_left_over = |file_name: &std::ffi::OsStr| {
        file_name == "blobs" || file_name.to_str().is_some_and(is_half_file)
    };
    if entries.iter().all(|entry| is_left_over(&entry.file_name())) && has_only_blobs(path) {
        Ok(())
    } else {
        Err(LayoutError::NotALayout(path.to_owned()))
    }
}

/// Returns whether a name in the root of a layout is that of a temporary file that was never
/// renamed because its writer was killed.
pub(crate) fn is_half_file(name: &str) -> bool {
    name.starts_with(".oci-layout.") || name.starts_with(".index.json.")
}

/// Checks that the layout contains at most one image, which is called `name` or was made by this
/// tool, and nothing else.
fn check_entries(path: &Path, name: &str) -> Result<(), LayoutError> {
    // The JSON is not parsed strictly, so that images with unusual documents are found too.
    let json = |file: PathBuf| -> Option<Value> {
        let bytes = files::open(&file).and_then(read_capped).ok()?;
        serde_json::from_slice(&bytes).ok()
    };
    let index = json(path.join("index.json")).unwrap_or_default();
    let entries = index.get("manifests").and_then(Value::as_array).into_iter().flatten();
    for entry in entries.clone() {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        let called = entry.get("annotations").and_then(|all| all.get(REF_NAME)?.as_str());
        let image = called.unwrap_or(text("digest")).to_owned();
        let digest = text("digest").parse::<Digest>().ok();
        let manifest = digest.and_then(|digest| json(blob_path(path, &digest))).unwrap_or_default();
        let annotations = manifest.get("annotations");
        let is_ours = annotations.is_some_and(|all| all.get(names::TRACK_LABEL).is_some());
        let is_artifact = |document: &Value| document.get("artifactType").is_some();
        if is_artifact(entry) || (is_artifact(&manifest) && !is_ours) {
            return Err(LayoutError::NotAnImage { path: path.to_owned(), name: image });
        }
        if called != Some(name) && !is_ours {
            return Err(LayoutError::Foreign { path: path.to_owned(), image });
        }
    }
    match entries.count() {
        0 | 1 => Ok(()),
        count => Err(LayoutError::Several { path: path.to_owned(), count }),
    }
}

/// Returns whether the `blobs` folder of a layout, if there is one, contains only blobs and the
/// temporary files of killed writes.
fn has_only_blobs(path: &Path) -> bool {
    let names = |folder: PathBuf| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let is_blob = |name: &String| {
        let name = name.strip_prefix('.').unwrap_or(name);
        name.get(..64).is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    names(path.join("blobs")).iter().all(|name| name == "sha256")
        && names(path.join("blobs/sha256")).iter().all(is_blob)
}

/// Writes the manifest, config and `index.json` of an image. Layer blobs are either already there
/// or stay absent.
///
/// Blobs of an earlier image that this one does not use are removed at the end.
///
/// # Errors
/// Fails if a file cannot be written (the earlier image is kept) or the blobs cannot be listed.
pub fn write(path: &Path, image: &DerivedImage, name: &str) -> Result<(), LayoutError> {
    let blobs = path.join("blobs/sha256");
    fs::create_dir_all(&blobs)
        .map_err(|source| LayoutError::Write { path: blobs.clone(), source })?;
    write_file(&blob_path(path, &image.config_digest), &image.config)?;
    write_file(&blob_path(path, &image.manifest_digest), &image.manifest)?;
    write_file(&path.join("oci-layout"), MARKER.as_bytes())?;
    write_file(&path.join("index.json"), index_text(image, name).as_bytes())?;

    remove_old_blobs(path, image)
}

/// Removes the blobs of a layout that the image does not use, such as those of an earlier image or
/// of a killed run.
///
/// # Errors
/// Fails if the folder of the blobs cannot be read.
pub fn remove_old_blobs(path: &Path, image: &DerivedImage) -> Result<(), LayoutError> {
    let blobs = path.join("blobs/sha256");
    let mut wanted: Vec<&str> = image.layers.iter().map(|layer| layer.digest.hex()).collect();
    wanted.extend([image.config_digest.hex(), image.manifest_digest.hex()]);
    clean(&blobs, |name| !wanted.contains(&name))?;
    clean(path, is_half_file)
}

/// Removes the files in a folder if `old` returns true for their names.
fn clean(folder: &Path, old: impl Fn(&str) -> bool) -> Result<(), LayoutError> {
    let entries = fs::read_dir(folder)
        .map_err(|source| LayoutError::Read { path: folder.to_owned(), source })?;
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(&old) {
            // A file that cannot be removed only wastes space.
            let removed = fs::remove_file(entry.path());
            tracing::debug!(path = %entry.path().display(), ok = removed.is_ok(), "removed an old file");
        }
    }
    Ok(())
}

/// Writes a file under a temporary name, syncs it and renames it. An identical file is left
/// unchanged, and a link is replaced.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), LayoutError> {
    let found = files::open(path).and_then(read_capped);
    if !path.is_symlink() && found.is_ok_and(|found| found == bytes) {
        return Ok(());
    }
    let write = || {
        let mut file = AtomicWriteFile::open(path)?;
        file.write_all(bytes)?;
        file.commit()
    };
    write().map_err(|source| LayoutError::Write { path: path.to_owned(), source })
}

impl LayoutImage {
    /// Reads the only image of a layout folder or of an archive, and checks every blob in it.
    ///
    /// # Errors
    /// Fails if there is no layout, if it does not contain exactly one image, if it has no valid
    /// `oci-layout` file, or if a blob does not match its name.
    pub fn read(path: &Path) -> Result<Self, LayoutError> {
        Self::of_path(path, CheckLayers::Now)
    }

    /// Reads the only image of a layout folder or of an archive like [`LayoutImage::read`], but
    /// checks only the sizes of the layers. The caller must check the digest of each layer that it
    /// reads.
    ///
    /// # Errors
    /// Fails like [`LayoutImage::read`], except for the content of a layer.
    pub fn open(path: &Path) -> Result<Self, LayoutError> {
        Self::of_path(path, CheckLayers::WhenRead)
    }

    fn of_path(path: &Path, check: CheckLayers) -> Result<Self, LayoutError> {
        if path.is_dir() {
            Self::from_files(path, &FolderFiles(path), check)
        } else {
            Self::from_files(path, &crate::archive::ArchiveFiles::scan(path, check)?, check)
        }
    }

    fn from_files(
        path: &Path,
        files: &dyn LayoutFiles,
        check: CheckLayers,
    ) -> Result<Self, LayoutError> {
        let unreadable = |source| LayoutError::Document { path: path.to_owned(), source };
        let index = files.small_file("index.json")?;
        let index = document::read(&index, document::MANIFEST)
            .map_err(|source| unreadable(MediaError::Document(source)))?;
        let entries =
            index.get("manifests").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let [entry] = entries else {
            return Err(LayoutError::Count { path: path.to_owned(), count: entries.len() });
        };
        let text = entry.get("digest").and_then(Value::as_str).unwrap_or_default();
        let manifest_digest: Digest = text.parse().map_err(|source| {
            unreadable(MediaError::Digest { field: "manifests[0]".to_owned(), source })
        })?;
        let name =
            entry.pointer("/annotations").and_then(|all| all.get(REF_NAME)).and_then(Value::as_str);
        check_marker(path, files)?;

        let blob = |digest: &Digest| {
            files.check_place(digest)?;
            let missing = || LayoutError::Missing { path: path.to_owned(), digest: digest.clone() };
            let found = files.blob_digest(digest)?.ok_or_else(missing)?;
            if found != *digest {
                return Err(LayoutError::Integrity {
                    path: path.to_owned(),
                    digest: digest.clone(),
                    found,
                });
            }
            let bytes = files.small_file(&format!("blobs/sha256/{}", digest.hex()))?;
            // The file was read again after it was hashed, so it is hashed again.
            match Digest::of(&bytes) {
                rehashed if rehashed == *digest => Ok(bytes),
                rehashed => {
                    let digest = digest.clone();
                    Err(LayoutError::Integrity { path: path.to_owned(), digest, found: rehashed })
                }
            }
        };
        let manifest = blob(&manifest_digest)?;
        // Other tools refuse a layout whose index has a wrong size for the manifest.
        let stated = entry.get("size").and_then(Value::as_u64).unwrap_or_default();
        check_size(&manifest_digest, stated, manifest.len() as u64).map_err(unreadable)?;
        let parsed = parse_manifest(&manifest).map_err(unreadable)?;
        let config = blob(&parsed.config.digest)?;
        parsed.config.check_size(config.len() as u64).map_err(unreadable)?;
        read_config(&config).map_err(|source| unreadable(MediaError::Config(source)))?;
        let (mut present_layers, mut absent_layers) = (Vec::new(), Vec::new());
        let mut places = BTreeMap::new();
        for layer in &parsed.layers {
            files.check_place(&layer.digest)?;
            let found = match check {
                CheckLayers::Now => files.blob_digest(&layer.digest)?,
                CheckLayers::WhenRead => files.place(&layer.digest).map(|_| layer.digest.clone()),
            };
            match found {
                None => absent_layers.push(layer.digest.clone()),
                Some(found) if found == layer.digest => {
                    let place = files.place(&found);
                    let size = place.as_ref().map_or(layer.size, |place| place.size);
                    layer.check_size(size).map_err(unreadable)?;
                    places.extend(place.map(|place| (found.clone(), place)));
                    present_layers.push(found);
                }
                Some(found) => {
                    let digest = layer.digest.clone();
                    return Err(LayoutError::Integrity { path: path.to_owned(), digest, found });
                }
            }
        }
        files.check_docker(&parsed)?;
        let name = name.map(str::to_owned);
        Ok(Self {
            name,
            platform: platform_of(entry),
            unused: unused(files.names()?, &manifest_digest, &parsed),
            manifest_digest,
            manifest,
            config,
            present_layers,
            absent_layers,
            places,
        })
    }

    /// Opens a layer that is present, without decompressing it. Returns `None` if it is absent.
    ///
    /// # Errors
    /// Fails if the file cannot be opened.
    pub fn layer(&self, digest: &Digest) -> Result<Option<impl io::Read + use<>>, LayoutError> {
        let Some(Place { file: path, begin, size }) = self.places.get(digest) else {
            return Ok(None);
        };
        let open = || {
            use io::{Read as _, Seek as _};
            let mut file = files::open(path)?;
            file.seek(io::SeekFrom::Start(*begin))?;
            Ok(Some(file.take(*size)))
        };
        open().map_err(|source| LayoutError::Read { path: path.clone(), source })
    }

    /// Returns the locations of the layers that are present.
    pub fn blobs(&self) -> LocalBlobs {
        LocalBlobs::of(self.places.clone())
    }
}

/// Parses bytes that must be an image manifest, not an index.
pub(crate) fn parse_manifest(bytes: &[u8]) -> Result<Manifest, MediaError> {
    match Document::parse(bytes, None)? {
        Document::Manifest(manifest) => Ok(manifest),
        Document::Index(_) => Err(MediaError::MediaType(OCI_INDEX.to_owned())),
    }
}

/// When the digests of the layers are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckLayers {
    Now,
    WhenRead,
}

/// Refuses a layout without a valid file `oci-layout`, as containerd does.
fn check_marker(path: &Path, files: &dyn LayoutFiles) -> Result<(), LayoutError> {
    let marker = match files.small_file("oci-layout") {
        Err(LayoutError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Bytes::new()
        }
        marker => marker?,
    };
    if is_marker(&marker) { Ok(()) } else { Err(LayoutError::NoMarker(path.to_owned())) }
}

/// Returns the names of the files that do not belong to an image.
fn unused(mut names: Vec<String>, manifest: &Digest, image: &Manifest) -> Vec<String> {
    let blobs = image.layers.iter().chain([&image.config]).map(|one| &one.digest);
    let mut used: BTreeSet<String> = blobs.chain([manifest]).map(blob_name).collect();
    used.extend(FIXED.map(str::to_owned));
    names.retain(|name| !used.contains(name));
    names
}

/// The files of a layout or an archive that are not blobs. docker reads the last two.
const FIXED: [&str; 4] = ["index.json", "oci-layout", "manifest.json", "repositories"];

/// The source of a layout's files: a folder or an archive.
pub(crate) trait LayoutFiles {
    /// Returns the names of all files, and of the folders that are not part of a layout.
    fn names(&self) -> Result<Vec<String>, LayoutError>;
    /// Returns the bytes of a file of at most 4 MiB.
    fn small_file(&self, name: &str) -> Result<Bytes, LayoutError>;
    /// Returns the digest of a blob's content, or `None` if it is absent.
    fn blob_digest(&self, digest: &Digest) -> Result<Option<Digest>, LayoutError>;
    /// Returns the location of a blob, if it is present.
    fn place(&self, digest: &Digest) -> Option<Place>;
    /// Fails if programs may find something else in place of a blob.
    fn check_place(&self, digest: &Digest) -> Result<(), LayoutError>;
    /// Fails if docker would load another image.
    fn check_docker(&self, image: &Manifest) -> Result<(), LayoutError>;
}

struct FolderFiles<'a>(&'a Path);

impl LayoutFiles for FolderFiles<'_> {
    fn names(&self) -> Result<Vec<String>, LayoutError> {
        let mut names = Vec::new();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            let path = self.0.join(&folder);
            let read = |source| LayoutError::Read { path: path.clone(), source };
            for entry in fs::read_dir(&path).map_err(read)? {
                let entry = entry.map_err(read)?;
                let name = format!("{folder}{}", entry.file_name().to_string_lossy());
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                match name.as_str() {
                    "blobs" | "blobs/sha256" if is_folder => folders.push(format!("{name}/")),
                    _ if is_folder => names.push(format!("{name}/")),
                    _ => names.push(name),
                }
            }
        }
        names.sort();
        Ok(names)
    }

    fn small_file(&self, name: &str) -> Result<Bytes, LayoutError> {
        check_no_link(self.0, name)?;
        let path = self.0.join(name);
        let read = || read_capped(files::open(&path)?);
        read().map_err(|source| LayoutError::Read { path: path.clone(), source })
    }

    fn blob_digest(&self, digest: &Digest) -> Result<Option<Digest>, LayoutError> {
        let path = blob_path(self.0, digest);
        match files::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(LayoutError::Read { path, source }),
            Ok(file) => hash(file).map(Some).map_err(|source| LayoutError::Read { path, source }),
        }
    }

    fn place(&self, digest: &Digest) -> Option<Place> {
        let file = blob_path(self.0, digest);
        let size = fs::metadata(&file).ok()?.len();
        Some(Place { file, begin: 0, size })
    }

    fn check_place(&self, digest: &Digest) -> Result<(), LayoutError> {
        check_no_link(self.0, &blob_name(digest))
    }

    /// No program loads a folder as `docker-archive`.
    fn check_docker(&self, _: &Manifest) -> Result<(), LayoutError> {
        Ok(())
    }
}

/// Reads everything, and fails if that is more than 4 MiB.
pub(crate) fn read_capped(reader: impl io::Read) -> io::Result<Bytes> {
    use io::Read as _;
    let mut bytes = Vec::new();
    reader.take(crate::media::MANIFEST_CAP + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > crate::media::MANIFEST_CAP {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 4 MiB"));
    }
    Ok(bytes.into())
}
