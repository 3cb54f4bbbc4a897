//! The input of `audit`: finds it by the name that the user gave, and reads its files.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek as _};
use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use audit::{Found, Layer, Layers, head, scan};
use executor::visit_layer;
use failure::{Failure, Kind};
use gpu_code::{Spool, is_candidate};
use names::GfxVersion;
use oci::client::RegistryClient;
use pins::OVERRIDE;
use rayon::prelude::*;
use rustix::fs::{Mode, OFlags};

use crate::environment::work_folder;
use crate::image::{Image, check_links, is_of_machine, machine_failure, place_of, track_of};
use crate::kinds::{PathKind, refuse_others};

/// The maximum number of files of a folder that are read at once. Each of them may need memory for
/// decompressed code.
const MOST_THREADS: usize = 4;

/// Something that can be audited.
#[derive(Debug)]
pub enum Input {
    /// An image: in a layout, in an archive, or on a registry.
    Image(Box<Image>),
    /// A folder.
    Folder(PathBuf),
    /// A Debian package.
    Deb(PathBuf),
    /// A Python wheel, or another zip archive.
    Zip(PathBuf),
    /// A tar, which may be compressed with gzip or zstd.
    Tar(PathBuf),
    /// A single file.
    File(PathBuf),
}

impl Input {
    /// Finds an input by its name: a track, a path, or the reference of an image.
    ///
    /// # Errors
    /// There is nothing with this name, or it is neither a file nor a folder.
    pub async fn find(text: &str, folder: &Path, client: &RegistryClient) -> Result<Self, Failure> {
        if text.is_empty() {
            return Err(Failure::new(Kind::Input, "the name of the input is empty"));
        }
        let path = folder.join(text);
        let is_image = place_of(text).is_some() || track_of(text, folder)?.is_some();
        let metadata = std::fs::metadata(&path);
        if !is_image {
            check_links(text, &path)?;
        }
        if metadata.is_err() && !is_image && looks_like_a_path(text) {
            let what = format!("there is no file or folder `{text}`");
            return Err(Failure::new(Kind::Input, what)
                .hint("to specify an image in a registry, use `HOST/NAME:TAG`"));
        }
        let Some(metadata) = metadata.ok().filter(|_| !is_image) else {
            return Ok(Self::Image(Box::new(Image::to_be_read(text, folder, client).await?)));
        };
        // The content of these files says nothing about GPU code.
        let images = [PathKind::Layout, PathKind::Archive];
        refuse_others(&path, text, "a file with GPU code", &images)?;
        if metadata.is_dir() {
            let is_layout = path.join("oci-layout").exists();
            if !is_layout && path.join("manifest.json").exists() {
                return Err(foreign_image(text));
            }
            return Ok(if is_layout {
                Self::Image(Box::new(Image::at_to_be_read(&path)?))
            } else {
                Self::Folder(path)
            });
        }
        if !metadata.is_file() {
            let what = format!("`{text}` is neither a file nor a folder");
            return Err(Failure::new(Kind::Input, what)
                .hint("pass an image, a folder, a tar, a wheel, a Debian package, a library or a kernel file"));
        }
        Self::of_file(path)
    }

    /// Detects the kind of a file from its first bytes.
    fn of_file(path: PathBuf) -> Result<Self, Failure> {
        let failed = |error: io::Error| unreadable(&path, &error);
        let mut file = open(&path).map_err(failed)?;
        let mut head = [0; 512];
        let mut length = 0;
        while length < head.len() {
            match file.read(&mut head[length..]).map_err(failed)? {
                0 => break,
                count => length += count,
            }
        }
        let head = &head[..length];
        // A zip archive without files starts with the end of its directory.
        if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") {
            return Ok(Self::Zip(path));
        }
        if head.starts_with(b"!<arch>\ndebian-binary") {
            return Ok(Self::Deb(path));
        }
        if head.starts_with(&[0x1f, 0x8b]) || head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            return Ok(Self::Tar(path));
        }
        let unread: [(&[u8], &str, &str); 4] = [
            (b"\xfd7zXZ\0", "compressed with xz", "decompress it first: `unxz FILE`"),
            (b"BZh", "compressed with bzip2", "decompress it first: `bunzip2 FILE`"),
            (b"\xed\xab\xee\xdb", "an RPM package", "unpack it first: `rpm2cpio FILE | cpio -id`"),
            (b"!<arch>\n", "an `ar` archive", "unpack it first: `ar x FILE`"),
        ];
        if let Some((_, what, next)) = unread.iter().find(|(magic, ..)| head.starts_with(magic)) {
            let what = format!("`{}` is {what}, which build-pipeline cannot read", path.display());
            return Err(Failure::new(Kind::Input, what).hint(*next));
        }
        if head.get(257..262) != Some(b"ustar") {
            let name = path.to_string_lossy();
            // An empty tar consists of zeros, and old tars have no magic.
            if name.ends_with(".tar") {
                return Ok(Self::Tar(path));
            }
            let kind = PACKAGES.iter().find(|(end, _)| name.ends_with(end));
            return match kind {
                None => Ok(Self::File(path)),
                Some((_, kind)) => {
                    let what = format!("`{}` is not {kind}", path.display());
                    Err(Failure::new(Kind::Integrity, what)
                        .hint("the file is damaged, or something else was fetched; fetch it again"))
                }
            };
        }
        file.rewind().map_err(failed)?;
        let names = names_at_the_top(file).map_err(failed)?;
        if names.contains("oci-layout") {
            return Ok(Self::Image(Box::new(Image::at_to_be_read(&path)?)));
        }
        if names.contains("manifest.json") {
            return Err(foreign_image(&path.display().to_string()));
        }
        Ok(Self::Tar(path))
    }

    /// Returns the GPU that the image was made for, according to its label.
    pub fn gpu(&self) -> Option<String> {
        let labels = self.config()?.get("Labels")?.clone();
        Some(labels.get(plan::labels::GPU)?.as_str()?.to_owned())
    }

    /// Returns the GPU version that the image makes ROCm see.
    ///
    /// # Errors
    /// The HSA runtime would not start with this value.
    pub fn forced(&self) -> Result<Option<GfxVersion>, Failure> {
        let Self::Image(image) = self else { return Ok(None) };
        let Some(value) = oci::variable(&image.config, OVERRIDE) else { return Ok(None) };
        value.parse().map(Some).map_err(|error| {
            let what =
                format!("the image sets {OVERRIDE} to a value that keeps ROCm from starting");
            Failure::caused(Kind::Failed, what, &error).hint(format!(
                "build the image without this variable; until then, `-e {OVERRIDE}=VERSION` replaces its value"
            ))
        })
    }

    fn config(&self) -> Option<serde_json::Value> {
        let Self::Image(image) = self else { return None };
        Some(oci::read_config(&image.config).ok()?.get("config")?.clone())
    }

    /// Reads all files, and returns the GPU code in them. `tell` gets a progress message for
    /// each layer of an image.
    ///
    /// # Errors
    /// The input cannot be read completely or is damaged. A damaged file with GPU code is part of
    /// the result.
    pub async fn read(
        &self,
        client: &RegistryClient,
        tell: &dyn Fn(&str),
    ) -> Result<Found, Failure> {
        match self {
            Self::Image(image) => read_image(image, client, tell).await,
            Self::Folder(path) => read_folder(path),
            Self::Deb(path) => {
                let data = debian::open_data(path).map_err(|error| unreadable(path, &error))?;
                read_tar(path, data)
            }
            Self::Zip(path) => read_zip(path),
            Self::Tar(path) => {
                read_tar(path, open(path).map_err(|error| unreadable(path, &error))?)
            }
            Self::File(path) => {
                let mut found = Found::default();
                found.count(&path.display().to_string());
                let file = open(path).and_then(Spool::of_file);
                let file = file.map_err(|error| unreadable(path, &error))?;
                let name = path.display().to_string();
                found.add(name.clone(), scan(&name, &file));
                Ok(found)
            }
        }
    }
}

/// File name extensions of packages and archives, and what such a file must be.
const PACKAGES: [(&str, &str); 6] = [
    (".deb", "a Debian package"),
    (".tar.gz", "compressed with gzip"),
    (".tar.zst", "compressed with zstd"),
    (".tgz", "compressed with gzip"),
    (".whl", "a wheel"),
    (".zip", "a zip archive"),
];

/// Returns whether a name that was not found looks like a path.
fn looks_like_a_path(text: &str) -> bool {
    let ends =
        [".co", ".deb", ".gz", ".hsaco", ".kpack", ".rpm", ".so", ".tar", ".whl", ".zip", ".zst"];
    text.starts_with(['/', '.', '~'])
        || text.contains("://")
        || ends.iter().any(|end| text.ends_with(end))
}

fn foreign_image(name: &str) -> Failure {
    Failure::new(Kind::Input, format!("`{name}` is an image, but not in OCI format"))
        .hint("convert it: `skopeo copy docker-archive:FILE oci-archive:OTHER`, or `skopeo copy dir:FOLDER oci:OTHER`")
}

fn unreadable(path: &Path, error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::caused(Kind::Input, format!("reading `{}` failed", path.display()), error)
}

/// Opens a file without blocking: between a check and the opening, somebody could replace it with a
/// FIFO.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
    }
}

/// Returns the names of the files at the top of a tar.
fn names_at_the_top(file: File) -> io::Result<BTreeSet<String>> {
    let mut archive = tar::Archive::new(file);
    let mut names = BTreeSet::new();
    for entry in archive.entries_with_seek()? {
        // A damaged tar is reported when it is read.
        let Ok(entry) = entry else { break };
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let mut parts = name.split('/').filter(|part| !matches!(*part, "" | "."));
        if let (Some(top), None) = (parts.next(), parts.next()) {
            names.insert(top.to_owned());
        }
    }
    Ok(names)
}

async fn read_image(
    image: &Image,
    client: &RegistryClient,
    tell: &dyn Fn(&str),
) -> Result<Found, Failure> {
    image.check_rehearsal("rehearse it again with `--with-layers`")?;
    let mut layers = Layers::default();
    for number in 0..image.layers.len() {
        tell(&format!("reading layer {} of {}", number + 1, image.layers.len()));
        let read = |reader: Box<dyn Read + Send>, diff_id: Option<names::Digest>| {
            let mut layer = Layer::new(work_folder());
            visit_layer(reader, diff_id.as_ref(), &mut layer)?;
            Ok(layer)
        };
        match image.read_layer(number, client, read).await? {
            Some(layer) => layers.add(layer),
            None => {
                let what = format!("`{}` does not contain its layer {}", image.name, number + 1);
                return Err(Failure::new(Kind::Input, what).hint(
                    "use the image in its registry, or build the image with `--with-layers`",
                ));
            }
        }
    }
    Ok(layers.finish())
}

fn read_tar(path: &Path, tar: impl Read) -> Result<Found, Failure> {
    let mut layer = Layer::new(work_folder());
    visit_layer(tar, None, &mut layer).map_err(|error| {
        let what = format!("reading `{}` failed", path.display());
        crate::image::layer_failure(what, &error, "the file is damaged; fetch or create it again")
    })?;
    if layer.contains("oci-layout") || layer.contains("manifest.json") {
        let what = format!("`{}` is a compressed archive of an image", path.display());
        return Err(Failure::new(Kind::Input, what).hint("decompress it first"));
    }
    let mut layers = Layers::default();
    layers.add(layer);
    Ok(layers.finish())
}

fn read_folder(folder: &Path) -> Result<Found, Failure> {
    let mut seen = BTreeSet::new();
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    let mut found = Found::default();
    for entry in walkdir::WalkDir::new(folder).sort_by_file_name() {
        let entry = entry.map_err(|error| unreadable(folder, &error))?;
        if !entry.file_type().is_file() {
            continue;
        }
        let path = entry.path();
        let name = path.strip_prefix(folder).unwrap_or(path).display().to_string();
        found.count(&name);
        // A file with several hard links is read once.
        let is_known = entry
            .metadata()
            .is_ok_and(|file| file.nlink() > 1 && !seen.insert((file.dev(), file.ino())));
        if !is_known {
            files.push((name, entry.into_path()));
        }
    }
    let read = |(name, path): (String, PathBuf)| {
        let scan = || -> io::Result<_> {
            let spool = Spool::of_file(open(&path)?)?;
            let is_kept = is_candidate(&name, &head(&spool)?);
            Ok(if is_kept { scan(&name, &spool) } else { Ok(None) })
        };
        let result = scan().unwrap_or_else(|error| Err(error.to_string()));
        (name, result)
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.min(MOST_THREADS)).build();
    let pool = pool.map_err(|error| {
        Failure::caused(Kind::Machine, "the threads that read files cannot be started", &error)
    })?;
    let results: Vec<_> = pool.install(|| files.into_par_iter().map(read).collect());
    for (name, result) in results {
        found.add(name, result);
    }
    Ok(found)
}

fn read_zip(path: &Path) -> Result<Found, Failure> {
    let what = format!("reading `{}` failed", path.display());
    let damaged = |error: audit::ZipError| match &error {
        audit::ZipError::UnsupportedArchive(_) => {
            Failure::caused(Kind::Input, what.clone(), &error)
                .hint("unpack it, and pass the folder")
        }
        audit::ZipError::Io(cause) if is_of_machine(cause) => machine_failure(what.clone(), &error),
        _ => Failure::caused(Kind::Integrity, what.clone(), &error)
            .hint("the file is damaged; fetch it again"),
    };
    let file = open(path).map_err(|error| unreadable(path, &error))?;
    let mut found = Found::default();
    let archive = io::BufReader::new(file);
    found.add_zip("", archive, work_folder().as_deref()).map_err(damaged)?;
    Ok(found)
}
