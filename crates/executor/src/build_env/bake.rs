//! Builds with `docker buildx bake` instead of an engine on this machine.
//!
//! Bake has no way to ask this program for a base or to give it a result. So the two exchange files
//! in a folder: this program writes the context and the base of each step that is ready to be
//! built, and bake writes the image of the step next to them, as an OCI archive. The next run reads
//! the image. The names of folders and archives contain the step's key, so an image is never used
//! for different inputs.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, BufReader, BufWriter};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::sources::{Tree, WriteTarError};
use futures_util::TryStreamExt as _;
use names::Digest;
use oci::LayoutImage;
use oci::client::{RegistryClient, RegistryError};
use oci::loopback::StoredBlob;
use oci::media::{Document, OCI_MANIFEST};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::task::block_in_place;

use super::BuildEnv;
use super::build::{Instructions, RawBuild, Ready};
use super::sink::{Origin, Sink, source_of};
use super::store::StoredImage;
use crate::{BlobCache, ExecuteError};

/// The folder that this program and bake share, and the steps that wait for bake.
#[derive(Debug)]
pub struct Bake {
    folder: PathBuf,
    waiting: Mutex<Vec<BakeTarget>>,
}

/// A step that waits for bake. All paths are relative to the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BakeTarget {
    /// Its name in the bake file.
    pub name: String,
    /// The folder of the context. The Dockerfile is in it.
    pub context: String,
    /// The base.
    pub base: Option<BakeBase>,
    /// The build arguments.
    pub args: BTreeMap<String, String>,
    /// Whether RUN may use the network.
    pub network: bool,
    /// The OCI archive that bake must write.
    pub archive: String,
}

/// The base of a step, as an OCI layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BakeBase {
    /// Its name in the Dockerfile. No stage has this name, because bake would replace the stage
    /// with this context.
    pub name: String,
    /// The folder.
    pub layout: String,
    /// The digest of its manifest.
    pub digest: Digest,
}

impl Bake {
    /// Creates a value for a folder, which need not exist yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), waiting: Mutex::default() }
    }

    /// Returns the steps that wait for bake, sorted by name. They are added during a run.
    pub fn waiting(&self) -> Vec<BakeTarget> {
        let mut all = self.targets().clone();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    fn targets(&self) -> MutexGuard<'_, Vec<BakeTarget>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the context and the archive of a step whose result has been stored.
    pub(crate) fn remove(&self, name: &str) {
        let name = safe(name);
        for path in [self.folder.join(&name), self.folder.join(archive_name(&name))] {
            if let Err(error) = remove(&path) {
                tracing::warn!(%error, path = %path.display(), "cannot remove what bake has built");
            }
        }
    }
}

/// Replaces every character that is not allowed in the name of a target.
fn safe(name: &str) -> String {
    let safe = |one: char| if one.is_ascii_alphanumeric() || one == '-' { one } else { '_' };
    name.chars().map(safe).collect()
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
    /// Returns the image that bake has built for a step. If bake has not built it yet, writes the
    /// files that bake needs, and returns `None`.
    pub(super) async fn bake_image(
        &self,
        bake: &Bake,
        instructions: &Instructions<'_>,
        ready: Ready,
        sink: &Sink,
        client: &RegistryClient,
    ) -> Result<Option<RawBuild>, ExecuteError> {
        let name = safe(&instructions.name);
        let archive = bake.folder.join(archive_name(&name));
        // Bake creates an empty file before it builds, and even if it only prints its targets.
        if archive.symlink_metadata().is_ok_and(|found| found.len() > 0) {
            return block_in_place(|| taken(instructions, &archive, sink)).map(Some);
        }
        // Another plan may have the same step.
        if !bake.targets().iter().any(|target| target.name == name) {
            let target = self.write_target(&bake.folder, name, instructions, ready, client).await?;
            bake.targets().push(target);
        }
        Ok(None)
    }

    /// Writes the context and the base of a step, even if they already exist, because somebody may
    /// have changed them. The folder gets its final name only when it is complete.
    async fn write_target(
        &self,
        folder: &Path,
        name: String,
        Instructions { step, network, epoch, .. }: &Instructions<'_>,
        Ready { mut build_args, offered, context, .. }: Ready,
        client: &RegistryClient,
    ) -> Result<BakeTarget, ExecuteError> {
        // Bake changes other characters to their canonical composition (NFC).
        if let Some((argument, _)) = build_args.iter().find(|(_, value)| !value.is_ascii()) {
            return Err(ExecuteError::bake_argument(step, argument));
        }
        let failed = |error| {
            ExecuteError::disk(format!("writing into `{}` failed", folder.display()), error)
        };
        let (whole, part) = (folder.join(&name), folder.join(format!(".{name}.part")));
        remove(&part).and_then(|()| fs::create_dir_all(&part)).map_err(failed)?;
        block_in_place(|| unpack(&context, *epoch, &part)).map_err(|error| match error {
            WriteTarError::Source(error) => ExecuteError::source(error),
            WriteTarError::Writer(error) => failed(error),
        })?;
        let base = offered.as_ref().map(|offered| {
            let digest = Digest::of(&offered.made.manifest_bytes);
            let base = format!("build-pipeline-base-{}", &digest.hex()[..12]);
            build_args.insert("BASE".to_owned(), base.clone());
            BakeBase { name: base, layout: format!("{name}/base"), digest }
        });
        if let Some(offered) = &offered {
            let written = self.write_layout(&part.join("base"), &offered.made, client).await;
            written.map_err(|error| match error.downcast::<RegistryError>() {
                Ok(error) => ExecuteError::registry(
                    format!("step `{step}`: fetching the base failed"),
                    error,
                ),
                Err(error) => failed(error),
            })?;
        }
        remove(&whole).and_then(|()| fs::rename(&part, &whole)).map_err(failed)?;
        Ok(BakeTarget {
            context: format!("{name}/{CONTEXT}"),
            base,
            args: build_args,
            network: *network,
            archive: archive_name(&name),
            name,
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
        let cache = BlobCache::none();
        let origin = Origin { store: &self.store, client, cache: &cache, transfer: None };
        for layer in &image.manifest.layers {
            let source = source_of(layer, image.remote.as_ref(), origin);
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

/// The folder of a context.
const CONTEXT: &str = "context";

/// Writes a tree into a new folder in `part`. Every file and folder gets the time `epoch`.
fn unpack(tree: &Tree, epoch: u64, part: &Path) -> Result<(), WriteTarError> {
    let mut file = BufWriter::new(tempfile::tempfile_in(part).map_err(WriteTarError::Writer)?);
    tree.write_tar(epoch, &mut file)?;
    let unpack = || {
        let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        io::Seek::rewind(&mut file)?;
        let folder = part.join(CONTEXT);
        fs::create_dir(&folder)?;
        fs::set_permissions(&folder, Permissions::from_mode(0o755))?;
        let mut archive = tar::Archive::new(BufReader::new(file));
        archive.set_preserve_permissions(true);
        archive.unpack(&folder)?;
        set_times(&folder, UNIX_EPOCH + Duration::from_secs(epoch))
    };
    unpack().map_err(WriteTarError::Writer)
}

/// Sets the time of a folder and of the folders in it.
fn set_times(folder: &Path, time: SystemTime) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            set_times(&entry.path(), time)?;
        }
    }
    File::open(folder)?.set_modified(time)
}

/// Extracts from bake's archive the layers that bake added to a base.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::build_env::offered::Offered;
    use crate::tests::support::{EPOCH, build_env, client, image, keep, tar_of};

    #[test]
    fn what_bake_has_built_is_removed_and_nothing_else() {
        for (name, wanted) in [("build-1", "build-1"), ("a.b/c d", "a_b_c_d"), ("ü_", "__")] {
            assert_eq!(safe(name), wanted);
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let bake = Bake::new(folder.path());
        bake.remove("absent");
        for name in ["a_b", "other"] {
            fs::create_dir_all(at(name).join("context")).unwrap();
            fs::write(at(&archive_name(name)), "image").unwrap();
        }
        std::os::unix::fs::symlink(at("other"), at("link")).unwrap();
        bake.remove("a.b");
        bake.remove("link");
        let left =
            ["a_b", "a_b.tar", "link", "other/context", "other.tar"].map(|name| at(name).exists());
        assert_eq!(left, [false, false, false, true, true]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_step_waits_for_bake_with_its_context_and_its_base() {
        let folder = tempfile::tempdir().unwrap();
        let (build_env, bake) = (build_env(folder.path()), Bake::new(folder.path().join("bake")));
        let tar = tar_of(&[("a", "text")]);
        keep(&build_env.store, &tar);
        let (base, client) = (image(&[&tar]), client());
        let sink = Sink::start(&build_env.store).await.unwrap();
        let args = |value: &str| BTreeMap::from([("A".to_owned(), value.to_owned())]);
        let build = async |value: &str| {
            let args = args(value);
            let instructions = Instructions {
                step: "build",
                name: "build.1".to_owned(),
                path: "Dockerfile",
                dockerfile: "FROM scratch\n",
                base: Some(&base),
                args: &args,
                network: true,
                epoch: EPOCH,
                is_fresh: false,
            };
            let mut context = Tree::new();
            context.put_file("sub/file", b"text".to_vec()).unwrap();
            let offered = Some(Offered::new(&base, false).unwrap());
            let (text, build_args) = (String::new(), args.clone());
            let ready = Ready { text, build_args, offered, context };
            build_env.bake_image(&bake, &instructions, ready, &sink, &client).await
        };
        let error = build("ü").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Dockerfile);
        assert!(error.to_string().contains("step `build`: bake may change the build argument `A`"));
        assert!(bake.waiting().is_empty() && !bake.folder.exists());
        // Two plans with the same step wait for one target.
        for _ in 0..2 {
            assert!(build("1").await.unwrap().is_none());
        }
        let [target] = &bake.waiting()[..] else { panic!("one target") };
        let found = target.base.as_ref().unwrap();
        let layout = LayoutImage::read(&bake.folder.join(&found.layout)).unwrap();
        assert_eq!((&layout.manifest_digest, &*layout.absent_layers), (&found.digest, &[][..]));
        assert_eq!(
            (&*target.name, &*target.archive, target.network),
            ("build_1", "build_1.tar", true)
        );
        let wanted = [args("1"), [("BASE".to_owned(), found.name.clone())].into()];
        assert_eq!(target.args, wanted.into_iter().flatten().collect());
        let time = UNIX_EPOCH + Duration::from_secs(EPOCH);
        for name in ["", "sub", "sub/file"] {
            let path = bake.folder.join(&target.context).join(name);
            assert_eq!(fs::metadata(path).unwrap().modified().unwrap(), time, "{name}");
        }
        let entries = fs::read_dir(&bake.folder).unwrap().count();
        assert_eq!(entries, 1, "nothing unfinished is left");
        // An empty archive is not an image yet. For any other invalid file, the error says what to
        // do.
        let archive = bake.folder.join("build_1.tar");
        fs::write(&archive, "").unwrap();
        assert!(build("1").await.unwrap().is_none());
        fs::write(&archive, "no image").unwrap();
        let error = build("1").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Target);
        assert!(error.to_string().contains("wait if bake is still running"), "{error}");
    }
}
