//! Builds with `docker buildx bake` instead of an engine of this machine.
//!
//! Bake has no way to ask this program for a base or to give it a result. So the two meet in a
//! folder: this program writes the context and the base of each step that is ready to be built, and
//! bake writes the image of the step beside them, as an OCI archive. The next run takes the image.
//! Names of folders and archives contain the step's key, so nothing is taken for other inputs.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ::sources::Tree;
use futures_util::TryStreamExt as _;
use names::Digest;
use oci::LayoutImage;
use oci::client::RegistryClient;
use oci::loopback::StoredBlob;
use oci::media::{Document, OCI_MANIFEST};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use super::BuildEnv;
use super::build::{Instructions, RawBuild, Ready};
use super::sink::{Sink, source_of};
use super::store::StoredImage;
use crate::ExecuteError;

/// The name that the build argument `BASE` has in a Dockerfile for bake.
const BASE: &str = "base";

/// A folder in which steps wait for bake.
#[derive(Debug)]
pub struct Bake {
    folder: PathBuf,
    waiting: Mutex<Vec<BakeTarget>>,
    taken: Mutex<Vec<String>>,
}

/// A step that waits for bake. All paths are relative to the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BakeTarget {
    /// Its name in the file for bake.
    pub name: String,
    /// The folder of the context. The Dockerfile is in it.
    pub context: String,
    /// The folder and the digest of the base, an OCI layout.
    pub base: Option<(String, Digest)>,
    /// The build arguments.
    pub args: BTreeMap<String, String>,
    /// Whether RUN may use the network.
    pub network: bool,
    /// The OCI archive that bake must write.
    pub archive: String,
}

impl Bake {
    /// Creates the value for a folder, which need not exist.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), waiting: Mutex::default(), taken: Mutex::default() }
    }

    /// Returns the steps that wait for bake, by name. A run adds them.
    pub fn waiting(&self) -> Vec<BakeTarget> {
        let mut all = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// Removes the contexts and archives of the steps that a run has finished.
    ///
    /// # Errors
    /// Fails if one of them cannot be removed.
    pub fn remove_taken(&self) -> io::Result<()> {
        for name in self.taken.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            remove(&self.folder.join(&name))?;
            remove(&self.archive(&name))?;
        }
        Ok(())
    }

    fn archive(&self, name: &str) -> PathBuf {
        self.folder.join(archive_name(name))
    }
}

fn archive_name(name: &str) -> String {
    format!("{name}.tar")
}

/// Removes a file or a folder, if it exists.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl BuildEnv {
    /// Returns what bake has built. If bake has not built it yet, writes what it needs, and returns
    /// `None`.
    pub(super) async fn bake_image(
        &self,
        bake: &Bake,
        instructions: &Instructions<'_>,
        ready: Ready,
        sink: &Sink,
        client: &RegistryClient,
    ) -> Result<Option<RawBuild>, ExecuteError> {
        let archive = bake.archive(&instructions.name);
        // Bake makes an empty file before it builds, and also if it only prints its targets.
        if archive.symlink_metadata().is_ok_and(|found| found.len() > 0) {
            let raw = tokio::task::block_in_place(|| taken(instructions, &archive, sink))?;
            let mut taken = bake.taken.lock().unwrap_or_else(PoisonError::into_inner);
            taken.push(instructions.name.clone());
            return Ok(Some(raw));
        }
        let target = self.write_target(&bake.folder, instructions, ready, client).await?;
        bake.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(target);
        Ok(None)
    }

    /// Writes the context and the base of a step, even if they are there: somebody may have changed
    /// them. A folder with that name is complete, because it is written under another name first.
    async fn write_target(
        &self,
        folder: &Path,
        Instructions { name, network, epoch, .. }: &Instructions<'_>,
        Ready { mut build_args, offered, context, .. }: Ready,
        client: &RegistryClient,
    ) -> Result<BakeTarget, ExecuteError> {
        let failed = |error| {
            ExecuteError::disk(format!("writing into `{}` failed", folder.display()), error)
        };
        let whole = folder.join(name);
        let base = offered.as_ref().map(|offered| {
            build_args.insert("BASE".to_owned(), BASE.to_owned());
            (format!("{name}/base"), Digest::of(&offered.made.manifest_bytes))
        });
        let part = folder.join(format!(".{name}.part"));
        let write = async {
            remove(&part)?;
            fs::create_dir_all(&part)?;
            tokio::task::block_in_place(|| unpack(&context, *epoch, &part.join("context")))?;
            if let Some(offered) = &offered {
                self.write_layout(&part.join("base"), &offered.made, client).await?;
            }
            remove(&whole)?;
            fs::rename(&part, &whole)
        };
        write.await.map_err(failed)?;
        Ok(BakeTarget {
            name: name.clone(),
            context: format!("{name}/context"),
            base,
            args: build_args,
            network: *network,
            archive: archive_name(name),
        })
    }

    /// Writes an image as an OCI layout, with all its layers.
    async fn write_layout(
        &self,
        layout: &Path,
        image: &StoredImage,
        client: &RegistryClient,
    ) -> io::Result<()> {
        let blobs = layout.join("blobs/sha256");
        fs::create_dir_all(&blobs)?;
        for bytes in [&image.manifest_bytes, &image.config] {
            fs::write(blobs.join(Digest::of(bytes).hex()), bytes)?;
        }
        for layer in &image.manifest.layers {
            let source = source_of(layer, image.remote.as_ref(), &self.store, client);
            let mut stream = source(layer.digest.clone()).await?;
            let file = tokio::fs::File::create(blobs.join(layer.digest.hex())).await?;
            let mut file = tokio::io::BufWriter::new(file);
            while let Some(piece) = stream.try_next().await? {
                file.write_all(&piece).await?;
            }
            file.flush().await?;
        }
        let media_type = image.manifest.json.get("mediaType").and_then(|value| value.as_str());
        let manifest = json!({
            "mediaType": media_type.unwrap_or(OCI_MANIFEST),
            "digest": Digest::of(&image.manifest_bytes),
            "size": image.manifest_bytes.len(),
        });
        let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
        fs::write(layout.join("index.json"), index.to_string())?;
        fs::write(layout.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)
    }
}

/// Writes a tree into a new folder.
fn unpack(tree: &Tree, epoch: u64, folder: &Path) -> io::Result<()> {
    let mut file = BufWriter::new(tempfile::tempfile()?);
    tree.write_tar(epoch, &mut file).map_err(io::Error::other)?;
    file.flush()?;
    let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    io::Seek::rewind(&mut file)?;
    fs::create_dir(folder)?;
    let mut archive = tar::Archive::new(BufReader::new(file));
    archive.set_preserve_permissions(true);
    archive.unpack(folder)
}

/// Takes the layers that bake added to a base out of its archive.
fn taken(
    instructions: &Instructions<'_>,
    archive: &Path,
    sink: &Sink,
) -> Result<RawBuild, ExecuteError> {
    let image = LayoutImage::read(archive).map_err(|error| ExecuteError::baked(archive, error))?;
    let Ok(Document::Manifest(manifest)) = Document::parse(&image.manifest, None) else {
        return Err(instructions.wrong("does not have an image manifest"));
    };
    let new = instructions.new_layers(&image.config, &manifest)?;
    let mut layers = Vec::new();
    for layer in new {
        let from = image.layer(&layer.digest);
        let from = from.map_err(|error| ExecuteError::baked(archive, error))?;
        let mut from = from.ok_or_else(|| instructions.wrong("lacks a layer"))?;
        let path = sink.spool().join(layer.digest.hex());
        let copied = File::create(&path).and_then(|mut file| io::copy(&mut from, &mut file));
        let size = copied.map_err(|error| {
            ExecuteError::disk(
                format!("copying a layer out of `{}` failed", archive.display()),
                error,
            )
        })?;
        layers.push(StoredBlob::File { path, size });
    }
    Ok(RawBuild { config: image.config, layers })
}
