//! An image given on the command line: a track (the image of its last build), a layout or archive,
//! or a registry reference.

mod claim;

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use executor::{LayerError, LayerSource, SortedLayer, checked};
use failure::{Failure, Kind, nearest, registry_hints, registry_kind};
use names::{Digest, ImageRef, ParseImageRefError, Platform, TrackName};
use oci::client::RegistryClient;
use oci::media::{CONFIG_CAP, Descriptor, Document, Manifest, OCI_MANIFEST};
use oci::{LayoutError, LayoutImage};
use pins::Tracks;
use record::verify::Documents;
use record::{BuildRecord, OutputState};
use seal::SealError;

use self::claim::{no_image, not_the_last};
use crate::folder::Project;
use crate::kinds::{PathKind, refuse_others};
use crate::{environment, state};

/// An image whose manifest and config were read and match their digests.
#[derive(Debug)]
pub struct Image {
    /// The name shown to people.
    pub name: String,
    /// The digest of its manifest.
    pub manifest_digest: Digest,
    /// The text of its manifest.
    pub manifest: Bytes,
    /// The media type of its manifest.
    pub media_type: String,
    /// The text of its config.
    pub config: Bytes,
    /// The layers, lowest first.
    pub layers: Vec<Descriptor>,
    /// The ID of the record of the build that wrote the image, if the image was found through a
    /// record.
    pub record: Option<String>,
    place: Place,
}

/// Refuses a file or folder that is known not to contain an image. `shown` is its path as the user
/// wrote it.
fn check_kind(path: &Path, shown: &str) -> Result<(), Failure> {
    refuse_others(path, shown, "an image", &[PathKind::Layout, PathKind::Archive])
}

/// Returns the next step for an image that does not match its digests.
fn repair(path: &Path) -> &'static str {
    // A folder does not show which tool wrote it.
    if path.is_file() && !oci::archive::is_ours(path).unwrap_or(false) {
        return "another tool wrote this archive: write it again with that tool, or get it again from where it came from";
    }
    "the image was changed or damaged after it was written; if build-pipeline built it, build it again, which replaces what is damaged; otherwise get it again from where it came from"
}

/// Reads a layout or an archive.
type ReadLayout = fn(&Path) -> Result<LayoutImage, LayoutError>;

/// Where to find the layers of an image.
#[derive(Debug)]
enum Place {
    Folder(PathBuf, Box<LayoutImage>),
    Archive(PathBuf, Box<LayoutImage>),
    Registry(Box<ImageRef>),
}

impl Image {
    /// Reads the given image. Searches the project around `folder` for a track's image, or for an
    /// image that was built under this name.
    ///
    /// # Errors
    /// Nothing has this name, or the image cannot be read.
    pub async fn find(
        target: &str,
        folder: &Path,
        client: &RegistryClient,
    ) -> Result<Self, Failure> {
        Self::find_with(target, folder, client, None, LayoutImage::read).await
    }

    /// Reads the given image like [`Image::find`]. If the reference names an index in a registry,
    /// reads the image for x86-64 Linux in that index.
    ///
    /// # Errors
    /// Nothing has this name, the image cannot be read, or it does not support this platform.
    pub async fn of_platform(
        target: &str,
        folder: &Path,
        client: &RegistryClient,
    ) -> Result<Self, Failure> {
        let platform = Platform::linux_amd64();
        Self::find_with(target, folder, client, Some(&platform), LayoutImage::read).await
    }

    /// Reads the given image like [`Image::of_platform`], but does not check the layers of a layout
    /// or archive. [`Image::read_layer`] checks them.
    ///
    /// # Errors
    /// Fails like [`Image::of_platform`].
    pub async fn to_be_read(
        target: &str,
        folder: &Path,
        client: &RegistryClient,
    ) -> Result<Self, Failure> {
        let platform = Platform::linux_amd64();
        Self::find_with(target, folder, client, Some(&platform), LayoutImage::open).await
    }

    async fn find_with(
        target: &str,
        folder: &Path,
        client: &RegistryClient,
        platform: Option<&Platform>,
        read: ReadLayout,
    ) -> Result<Self, Failure> {
        let target = match place_of(target) {
            Some(NamedPlace::Path(path)) => {
                check_kind(&folder.join(path), path)?;
                return Ok(Self {
                    name: target.to_owned(),
                    ..Self::of_layout(&folder.join(path), read)?
                });
            }
            Some(NamedPlace::Registry(reference)) => {
                return Self::on_registry(reference, client, platform).await;
            }
            None => target,
        };
        let track = track_of(target, folder)?;
        let path = folder.join(target);
        if track.is_none() {
            check_links(target, &path)?;
        }
        if track.is_none() && path.exists() {
            check_kind(&path, target)?;
            return Ok(Self { name: target.to_owned(), ..Self::of_layout(&path, read)? });
        }
        if !target.contains('/')
            && let Ok(project) = Project::find(folder)
        {
            let last = state::last_build(&project.root, target);
            if let Some(record) = &last
                && let Some(image) =
                    Self::of_record(record, &project, client, platform, read).await?
            {
                return Ok(image);
            }
            let built = project.root.join("dist").join(target);
            if built.exists() {
                let image = Self::of_layout(&built, read)?;
                return match (last, track) {
                    (Some(record), _) if !image.is_of(&record) => {
                        Err(not_the_last(&record, &built))
                    }
                    (None, Some(track)) if !image.is_of_track(&track) => {
                        Err(image.of_another_track(&track))
                    }
                    _ => Ok(image),
                };
            }
            if let Some(track) = track {
                return Err(last.map_or_else(
                    || no_image(&track, &project),
                    |record| not_the_last(&record, &built),
                ));
            }
        }
        match target.parse::<ImageRef>() {
            Ok(reference) => Self::on_registry(reference, client, platform).await,
            Err(error) => {
                let tracks = Project::find(folder).and_then(|project| project.tracks());
                Err(unknown(target, tracks.ok().as_ref(), &error))
            }
        }
    }

    /// Reads the image that a build wrote: from the first output on disk that still contains it, or
    /// else from a registry. `None` if none of its outputs is on disk or in a registry.
    ///
    /// # Errors
    /// An image cannot be read, or all outputs now contain other images.
    async fn of_record(
        record: &BuildRecord,
        project: &Project,
        client: &RegistryClient,
        platform: Option<&Platform>,
        read: ReadLayout,
    ) -> Result<Option<Self>, Failure> {
        let is_whole = |state| matches!(state, OutputState::Written | OutputState::UpToDate);
        let written = record.outputs.iter().filter(|one| is_whole(one.state));
        let (mut remote, mut other) = (None, None);
        for outcome in written {
            match place_of(&outcome.output) {
                Some(NamedPlace::Path(path)) => {
                    let path = state::output_path(record, &project.root, path);
                    if path.exists() {
                        match Self::of_layout(&path, read)?.claimed(record, project) {
                            Ok(image) => return Ok(Some(image)),
                            Err(image) => drop(other.get_or_insert(*image)),
                        }
                    }
                }
                Some(NamedPlace::Registry(reference)) => {
                    // An image that was pushed without a tag can be found only by its digest.
                    let digest = record.image.as_ref().map(|image| image.manifest_digest.clone());
                    let digest = digest.filter(|_| reference.tag.is_none());
                    remote.get_or_insert(ImageRef {
                        digest: digest.or(reference.digest),
                        ..reference
                    });
                }
                None => {}
            }
        }
        let image = match (remote, other) {
            (Some(reference), None) => Self::on_registry(reference, client, platform).await?,
            (Some(reference), Some(other)) => {
                Self::on_registry(reference, client, platform).await.unwrap_or(other)
            }
            (None, Some(other)) => other,
            (None, None) => return Ok(None),
        };
        let claimed = image.claimed(record, project);
        claimed.map(Some).map_err(|found| found.is_not_of(record))
    }

    /// Reads the image in a layout or archive.
    ///
    /// # Errors
    /// There is no image, or it does not match its digests.
    pub fn at(path: &Path) -> Result<Self, Failure> {
        Self::of_layout(path, LayoutImage::read)
    }

    /// Reads the image in a layout or archive, but does not check its layers.
    /// [`Image::read_layer`] checks them.
    ///
    /// # Errors
    /// There is no image, or its manifest or config does not match its digest.
    pub fn at_to_be_read(path: &Path) -> Result<Self, Failure> {
        Self::of_layout(path, LayoutImage::open)
    }

    fn of_layout(path: &Path, read: ReadLayout) -> Result<Self, Failure> {
        check_kind(path, &path.display().to_string())?;
        let image = read(path).map_err(|error| {
            let code = match &error {
                LayoutError::Integrity { .. } | LayoutError::Ambiguous { .. } => Kind::Integrity,
                // A file that starts as an archive was cut off, or cannot be read at all.
                LayoutError::Read { source, .. }
                    if !is_of_machine(source)
                        && path.is_file()
                        && oci::archive::is_archive(path).unwrap_or(false) =>
                {
                    Kind::Integrity
                }
                _ => Kind::Input,
            };
            let told = Failure::from_chain(code, &error);
            match code {
                Kind::Integrity => told.hint(repair(path)),
                _ => told.hint("pass an OCI image layout or an archive of one"),
            }
        })?;
        let name = path.display().to_string();
        let Manifest { layers, json, .. } = manifest(&name, &image.manifest, None)?;
        // Only Docker manifests must contain the media type (image specification, "mediaType").
        let media_type = json.get("mediaType").and_then(|text| text.as_str());
        let media_type = media_type.unwrap_or(OCI_MANIFEST).to_owned();
        Ok(Self {
            name,
            manifest_digest: image.manifest_digest.clone(),
            manifest: image.manifest.clone(),
            media_type,
            config: image.config.clone(),
            layers,
            record: None,
            place: if path.is_dir() {
                Place::Folder(path.to_owned(), Box::new(image))
            } else {
                Place::Archive(path.to_owned(), Box::new(image))
            },
        })
    }

    async fn on_registry(
        mut reference: ImageRef,
        client: &RegistryClient,
        platform: Option<&Platform>,
    ) -> Result<Self, Failure> {
        let failed = |asked: &ImageRef, error: oci::client::RegistryError| {
            let told = Failure::caused(
                registry_kind(error.kind()),
                format!("reading `{asked}` failed"),
                &error,
            );
            registry_hints(told, &error)
        };
        if reference.tag.is_none() && reference.digest.is_none() {
            let what = format!("`{reference}` names a repository, not an image");
            return Err(Failure::new(Kind::Input, what)
                .hint(format!("add a tag or a digest, for example `{reference}:latest`")));
        }
        let mut fetched = client.manifest(&reference).await.map_err(|e| failed(&reference, e))?;
        let name = reference.to_string();
        if let Some(platform) = platform
            && let Ok(Document::Index(index)) =
                Document::parse(&fetched.bytes, Some(&fetched.media_type))
        {
            let chosen = index.choose(platform).map_err(|error| {
                Failure::caused(Kind::Input, format!("cannot use `{name}`"), &error)
            })?;
            reference.digest = Some(chosen.digest.clone());
            fetched = client.manifest(&reference).await.map_err(|e| failed(&reference, e))?;
        }
        let parsed = manifest(&name, &fetched.bytes, Some(&fetched.media_type))?;
        let config = &parsed.config;
        let config = client
            .blob(&reference.repository, &config.digest, config.size, CONFIG_CAP)
            .await
            .map_err(|error| failed(&reference, error))?;
        oci::read_config(&config).map_err(|error| {
            let what = format!("cannot use the config of `{name}`");
            Failure::caused(Kind::Input, what, &error)
        })?;
        Ok(Self {
            name,
            manifest_digest: fetched.digest,
            manifest: fetched.bytes,
            media_type: fetched.media_type,
            config,
            layers: parsed.layers,
            record: None,
            place: Place::Registry(Box::new(reference)),
        })
    }

    /// Returns the manifest and the config, for comparisons.
    pub fn documents(&self) -> Documents<'_> {
        Documents { manifest: &self.manifest, config: &self.config }
    }

    /// Returns where the layers are. Layers that a thin layout lacks are in the repository of the
    /// base that the image names.
    pub fn layer_source(&self) -> LayerSource {
        match &self.place {
            Place::Folder(_, image) | Place::Archive(_, image) => LayerSource {
                files: image.blobs(),
                repository: self.base().map(|base| base.repository),
                ..LayerSource::default()
            },
            Place::Registry(reference) => {
                let repository = Some(reference.repository.clone());
                LayerSource { repository, ..LayerSource::default() }
            }
        }
    }

    /// Returns the size of the layers in bytes. A layer that is listed twice counts once.
    pub fn distinct_layer_bytes(&self) -> u64 {
        let sizes: BTreeMap<_, _> =
            self.layers.iter().map(|layer| (&layer.digest, layer.size)).collect();
        sizes.values().sum()
    }

    /// Returns the layers that a layout or archive lacks. An image in a registry lacks none.
    pub fn absent_layers(&self) -> &[Digest] {
        match &self.place {
            Place::Folder(_, image) | Place::Archive(_, image) => &image.absent_layers,
            Place::Registry(_) => &[],
        }
    }

    /// Returns the content of the layout or archive. `None` if the image is in a registry.
    pub fn layout(&self) -> Option<&LayoutImage> {
        match &self.place {
            Place::Folder(_, image) | Place::Archive(_, image) => Some(image),
            Place::Registry(_) => None,
        }
    }

    /// Returns the layout or archive that contains the image. `None` if it is in a registry.
    pub fn path(&self) -> Option<&Path> {
        match &self.place {
            Place::Folder(path, _) | Place::Archive(path, _) => Some(path),
            Place::Registry(_) => None,
        }
    }

    /// Returns whether the image is in an archive, which other tools can read only if it contains
    /// all layers.
    pub fn is_archive(&self) -> bool {
        matches!(self.place, Place::Archive(..))
    }

    /// Refuses a rehearsed image without its layers. No registry has the layers of a stand-in.
    ///
    /// # Errors
    /// The image is a rehearsal and lacks layers.
    pub fn check_rehearsal(&self, hint: &str) -> Result<(), Failure> {
        if !self.is_rehearsal() || self.absent_layers().is_empty() {
            return Ok(());
        }
        let what = format!("`{}` does not contain the layers of its stand-in", self.name);
        Err(Failure::new(Kind::Input, what).hint(hint))
    }

    /// Returns whether the image was rehearsed: built on a stand-in for its base.
    pub fn is_rehearsal(&self) -> bool {
        self.label(plan::labels::REHEARSAL).as_deref() == Some("true")
    }

    /// Returns the value of a label of the image.
    pub fn label(&self, key: &str) -> Option<String> {
        let config = oci::read_config(&self.config).ok()?;
        Some(config.get("config")?.get("Labels")?.get(key)?.as_str()?.to_owned())
    }

    /// Returns the number of layers that are present, which [`Image::find`] has checked. 0 for an
    /// image in a registry.
    pub fn layers_checked(&self) -> usize {
        match &self.place {
            Place::Folder(_, image) | Place::Archive(_, image) => image.present_layers.len(),
            Place::Registry(_) => 0,
        }
    }

    /// Reads the entries of a layer, sorted by path. Returns `None` if the location of the layer is
    /// unknown.
    ///
    /// # Errors
    /// The layer cannot be read or is damaged.
    pub async fn entries(
        &self,
        number: usize,
        client: &RegistryClient,
    ) -> Result<Option<SortedLayer>, Failure> {
        // When two images are compared, the other one may have more layers.
        if number >= self.layers.len() {
            return Ok(Some(SortedLayer::default()));
        }
        let folder = environment::work_folder();
        let read = move |reader, diff_id: Option<Digest>| {
            SortedLayer::read(reader, diff_id.as_ref(), folder.as_deref())
        };
        self.read_layer(number, client, read).await
    }

    /// Reads a layer with `read`, which must read it to its end. `read` takes the stored bytes and,
    /// if the layer is compressed, the digest of its content. A layer that a thin layout lacks is
    /// read from the base that the image names. If the image names none, returns `None`.
    ///
    /// # Errors
    /// The layer cannot be found or read, or is damaged.
    pub async fn read_layer<T: Send + 'static>(
        &self,
        number: usize,
        client: &RegistryClient,
        read: impl FnOnce(Box<dyn Read + Send>, Option<Digest>) -> Result<T, LayerError>
        + Send
        + 'static,
    ) -> Result<Option<T>, Failure> {
        let Some(layer) = self.layers.get(number) else {
            let why = format!("the image has no layer {}", number + 1);
            return Err(Failure::new(Kind::Bug, why));
        };
        // The digest of the bytes is checked anyway.
        let diff_id = self.diff_id(number).filter(|content| *content != layer.digest);
        let base;
        let reference = match &self.place {
            Place::Registry(reference) => reference,
            Place::Folder(_, image) | Place::Archive(_, image) => {
                let what = format!("reading layer `{}` of `{}` failed", layer.digest, self.name);
                let opened = image
                    .layer(&layer.digest)
                    .map_err(|error| Failure::caused(Kind::Failed, what.clone(), &error))?;
                if let Some(opened) = opened {
                    let wanted = layer.digest.clone();
                    let read = || {
                        let bytes = checked(opened, wanted).map_err(LayerError::Read)?;
                        read(Box::new(bytes), diff_id)
                    };
                    return tokio::task::block_in_place(read).map(Some).map_err(|error| {
                        let next = "the layer is damaged; build or copy the image again";
                        layer_failure(what, &error, next)
                    });
                }
                let Some(named) = self.base() else { return Ok(None) };
                base = named;
                &base
            }
        };
        let read = executor::read_remote_layer(client, reference, layer, |r| read(r, diff_id));
        read.await.map(Some).map_err(|error| Failure::from(&error))
    }

    /// Returns the digest of the layer's content according to the config.
    fn diff_id(&self, number: usize) -> Option<Digest> {
        let config = oci::read_config(&self.config).ok()?;
        let diff_ids = config.get("rootfs")?.get("diff_ids")?.as_array()?;
        diff_ids.get(number)?.as_str()?.parse().ok()
    }

    /// Returns the base that the image names (image specification, "annotations").
    fn base(&self) -> Option<ImageRef> {
        let manifest: serde_json::Value = serde_json::from_slice(&self.manifest).ok()?;
        let annotations = manifest.get("annotations")?;
        annotations.get("org.opencontainers.image.base.name")?.as_str()?.parse().ok()
    }
}

/// The hint if an output cannot be written.
pub(crate) const SPACE: &str = "check the free space and the permissions of the output folder and of `~/.cache/build-pipeline/work` (`XDG_CACHE_HOME` replaces `~/.cache`, `cache` in config.toml replaces `~/.cache/build-pipeline`)";

/// Returns the error for a layer or a tar that cannot be read. `next` is the hint if it is damaged.
pub(crate) fn layer_failure(what: String, error: &LayerError, next: &str) -> Failure {
    match error {
        LayerError::Read(cause) if is_of_machine(cause) => machine_failure(what, error),
        LayerError::New(SealError::Write(cause)) => {
            Failure::caused(Kind::Machine, "writing a new layer failed", cause).hint(SPACE)
        }
        _ => Failure::caused(Kind::Integrity, what, error).hint(next),
    }
}

/// Returns whether an error is caused by this machine, and not by the data that is read.
pub(crate) fn is_of_machine(error: &io::Error) -> bool {
    use io::ErrorKind::{
        AlreadyExists, NotADirectory, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem,
        StorageFull,
    };
    matches!(
        error.kind(),
        AlreadyExists
            | NotADirectory
            | PermissionDenied
            | QuotaExceeded
            | ReadOnlyFilesystem
            | StorageFull
    )
}

pub(crate) fn machine_failure(what: String, error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::caused(Kind::Machine, what, error).hint(
        "large files are kept in `~/.cache/build-pipeline/work` while they are read; `XDG_CACHE_HOME` replaces `~/.cache`, and `cache` in config.toml replaces `~/.cache/build-pipeline`",
    )
}

/// The place of an image whose name has the form of a value of `--output`.
pub(crate) enum NamedPlace<'a> {
    /// `oci:DIR` or `oci-archive:FILE`.
    Path(&'a str),
    /// `registry:REF`.
    Registry(ImageRef),
}

/// Returns the place that a name describes, if it starts with `oci:`, `oci-archive:` or
/// `registry:`.
pub(crate) fn place_of(name: &str) -> Option<NamedPlace<'_>> {
    let path = ["oci:", "oci-archive:"].iter().find_map(|kind| name.strip_prefix(kind));
    if let Some(path) = path.filter(|path| !path.is_empty()) {
        return Some(NamedPlace::Path(path));
    }
    // In `registry:PORT/NAME`, `registry` is a host. A port is not a valid start of a reference.
    name.strip_prefix("registry:")?.parse().ok().map(NamedPlace::Registry)
}

/// Returns the error for a name that is not an image. Suggests a track with a similar name, or else
/// lists the kinds of name that are accepted.
fn unknown(name: &str, tracks: Option<&Tracks>, why: &ParseImageRefError) -> Failure {
    let what = format!("`{name}` is not a track, file or image reference");
    let told = Failure::new(Kind::Input, what);
    let known = tracks.into_iter().flat_map(|all| all.tracks.keys().map(TrackName::as_str));
    let rehearsed =
        name.strip_prefix("rehearsal-").filter(|track| known.clone().any(|one| one == *track));
    if let Some(track) = rehearsed {
        return told.hint(format!(
            "`build-pipeline --track {track} --rehearse` makes the rehearsed image"
        ));
    }
    if !name.contains('/')
        && let Some(near) = nearest(name, known.clone())
    {
        return told.hint(format!("did you mean `{near}`?"));
    }
    let told = if let ParseImageRefError::ShortName { suggestion, .. } = why
        && name.contains('/')
    {
        let dist =
            name.strip_prefix("dist/").filter(|track| known.clone().any(|one| one == *track));
        let told = match dist {
            Some(track) => told.hint(format!(
                "`{name}` does not exist; `build-pipeline --track {track}` writes an image there"
            )),
            None => told.hint(format!("there is no folder or file `{name}`")),
        };
        told.hint(format!("an image on Docker Hub is `{suggestion}`"))
    } else if name.starts_with("engine:") || name == "engine" {
        told.hint(
            "build-pipeline does not read images in an engine; build the image with `--output oci:DIR` as well",
        )
    } else {
        told.hint(why.to_string())
    };
    told.hint("pass a track, a folder such as `dist/official`, an archive, or `HOST/NAME:TAG`")
}

/// Refuses a dangling symbolic link. Otherwise, its name would be mistaken for an image reference.
pub(crate) fn check_links(name: &str, path: &Path) -> Result<(), Failure> {
    match std::fs::metadata(path) {
        Err(error) if path.is_symlink() => {
            let what = format!("`{name}` is a dangling symbolic link");
            Err(Failure::caused(Kind::Input, what, &error).hint("repair or remove the link"))
        }
        _ => Ok(()),
    }
}

/// Returns the track that a name on the command line refers to, if it is the name of a track.
/// `folder` is in the project.
///
/// # Errors
/// One of the project's data files is wrong.
pub(crate) fn track_of(name: &str, folder: &Path) -> Result<Option<TrackName>, Failure> {
    let (Ok(name), Ok(project)) = (name.parse::<TrackName>(), Project::find(folder)) else {
        return Ok(None);
    };
    Ok(project.tracks()?.tracks.contains_key(&name).then_some(name))
}

/// Returns the name of a plan's image in an engine. It cannot be pulled by mistake: in both
/// engines, `localhost` is this machine.
pub fn name_in_engine(plan: &str) -> String {
    format!("localhost/build-pipeline/{plan}:latest")
}

/// Parses a manifest, which must not be an index.
fn manifest(name: &str, bytes: &[u8], media_type: Option<&str>) -> Result<Manifest, Failure> {
    match Document::parse(bytes, media_type) {
        Ok(Document::Manifest(parsed)) => Ok(parsed),
        Ok(Document::Index(_)) => Err(Failure::new(
            Kind::Differs,
            format!("`{name}` is an index, but build-pipeline needs a single manifest"),
        )
        .hint(
            "pass the image that `build-pipeline --push` wrote, or a single manifest by its digest",
        )),
        Err(error) => Err(Failure::caused(
            Kind::Failed,
            format!("cannot parse the manifest of `{name}`"),
            &error,
        )),
    }
}
