//! An image that was named on the command line: a track's under `dist/`, a layout or archive, or a
//! reference on a registry.

use std::path::Path;

use bytes::Bytes;
use executor::SortedLayer;
use names::{Digest, ImageRef};
use oci::LayoutImage;
use oci::client::RegistryClient;
use oci::media::{CONFIG_CAP, Descriptor, Document, Manifest};
use pins::Track;
use record::verify::Documents;

use crate::environment;
use crate::error::{CommandError, registry_code, registry_hints};
use crate::exit_code::ExitCode;
use crate::project::Project;

/// An image whose manifest and config were read and have the digests they are named by.
pub(crate) struct Image {
    /// What people call it.
    pub(crate) name: String,
    pub(crate) manifest_digest: Digest,
    pub(crate) manifest: Bytes,
    pub(crate) config: Bytes,
    /// Its layers, lowest first.
    pub(crate) layers: Vec<Descriptor>,
    place: Place,
}

/// Where the layers of an image lie.
enum Place {
    Files(Box<LayoutImage>),
    Registry(Box<ImageRef>),
}

impl Image {
    /// Reads the image that was named. A track's, or one that was built under this name, is looked
    /// for in the project around `folder`.
    pub(crate) async fn find(
        target: &str,
        folder: &Path,
        client: &RegistryClient,
    ) -> Result<Self, CommandError> {
        if let Some(track) = Track::from_name(target) {
            return Self::of_track(track, &Project::find(folder)?);
        }
        let path = folder.join(target);
        if path.exists() {
            return Ok(Self { name: target.to_owned(), ..Self::at(&path)? });
        }
        let built = Project::find(folder).map(|project| project.root.join("dist").join(target));
        if let Some(built) = built.ok().filter(|path| !target.contains('/') && path.exists()) {
            return Self::at(&built);
        }
        match target.parse::<ImageRef>() {
            Ok(reference) => Self::on_registry(reference, client).await,
            Err(error) => Err(CommandError::new(
                ExitCode::Input,
                format!("`{target}` is no track, no file and no image reference"),
            )
            .hint(format!("{error}"))
            .hint(
                "name a track, a folder such as `dist/locked-spoof`, an archive, or `HOST/NAME:TAG`",
            )),
        }
    }

    fn of_track(track: Track, project: &Project) -> Result<Self, CommandError> {
        let name = track.name();
        let path = project.root.join("dist").join(name);
        if path.exists() {
            return Self::at(&path);
        }
        let rehearsed = format!("rehearsal-{name}");
        let told = CommandError::new(
            ExitCode::Input,
            format!("there is no image of track `{name}` at `{}`", path.display()),
        );
        Err(match project.root.join("dist").join(&rehearsed).exists() {
            true => {
                told.hint(format!("there is a rehearsed one: `build-pipeline verify {rehearsed}`"))
            }
            false => told.hint(format!("`build-pipeline --track {name}` builds it")),
        })
    }

    /// Reads the image of a layout or archive.
    pub(crate) fn at(path: &Path) -> Result<Self, CommandError> {
        let image = LayoutImage::read(path).map_err(|error| {
            let code = match &error {
                oci::LayoutError::Integrity { .. } => ExitCode::Integrity,
                _ => ExitCode::Input,
            };
            let told = CommandError::from_chain(code, &error);
            match code {
                ExitCode::Integrity => told.hint(
                    "the file was changed or damaged after it was written; remove it and build again",
                ),
                _ => told.hint("name an OCI image layout or an archive of one"),
            }
        })?;
        let name = path.display().to_string();
        let layers = manifest(&name, &image.manifest, None)?.layers;
        Ok(Self {
            name,
            manifest_digest: image.manifest_digest.clone(),
            manifest: image.manifest.clone(),
            config: image.config.clone(),
            layers,
            place: Place::Files(Box::new(image)),
        })
    }

    async fn on_registry(
        reference: ImageRef,
        client: &RegistryClient,
    ) -> Result<Self, CommandError> {
        let failed = |error: oci::client::RegistryError| {
            let told = CommandError::caused(
                registry_code(error.kind()),
                format!("reading `{reference}` failed"),
                &error,
            );
            registry_hints(told, error.kind())
        };
        let fetched = client.manifest(&reference).await.map_err(failed)?;
        let name = reference.to_string();
        let parsed = manifest(&name, &fetched.bytes, Some(&fetched.media_type))?;
        let config = &parsed.config;
        let config = client
            .blob(&reference.repository, &config.digest, config.size, CONFIG_CAP)
            .await
            .map_err(failed)?;
        oci::read_config(&config).map_err(|error| {
            let what = format!("the config of `{name}` cannot be used");
            CommandError::caused(ExitCode::Input, what, &error)
        })?;
        Ok(Self {
            name,
            manifest_digest: fetched.digest,
            manifest: fetched.bytes,
            config,
            layers: parsed.layers,
            place: Place::Registry(Box::new(reference)),
        })
    }

    pub(crate) fn documents(&self) -> Documents<'_> {
        Documents { manifest: &self.manifest, config: &self.config }
    }

    /// Returns how many layers were there and were checked.
    pub(crate) fn layers_checked(&self) -> usize {
        match &self.place {
            Place::Files(image) => image.present_layers.len(),
            Place::Registry(_) => 0,
        }
    }

    /// Reads what is in a layer, sorted by path. One that a thin layout leaves where it is comes from
    /// the base that the image names. Returns nothing where none is named.
    pub(crate) async fn entries(
        &self,
        number: usize,
        client: &RegistryClient,
    ) -> Result<Option<SortedLayer>, CommandError> {
        // The other image has more layers.
        let Some(layer) = self.layers.get(number) else { return Ok(Some(SortedLayer::default())) };
        let diff_id = self.diff_id(number);
        let folder = environment::cache_folder().map(|folder| folder.join("work"));
        let base;
        let reference = match &self.place {
            Place::Registry(reference) => reference,
            Place::Files(image) => {
                let what = format!("reading layer `{}` of `{}` failed", layer.digest, self.name);
                let opened = image.layer(&layer.digest).map_err(|error| {
                    CommandError::caused(ExitCode::Failed, what.clone(), &error)
                })?;
                if let Some(opened) = opened {
                    let read = || SortedLayer::read(opened, diff_id.as_ref(), folder.as_deref());
                    let read = tokio::task::block_in_place(read);
                    return read.map(Some).map_err(|error| {
                        CommandError::caused(ExitCode::Integrity, what, &error)
                            .hint("the layer is damaged; build or copy the image again")
                    });
                }
                let Some(named) = self.base() else { return Ok(None) };
                base = named;
                &base
            }
        };
        let from = (client, reference);
        let read = SortedLayer::read_remote(from, layer, diff_id.as_ref(), folder.as_deref());
        read.await.map(Some).map_err(|error| CommandError::from(&error))
    }

    /// Returns the digest that the config gives for the content of a layer.
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

/// Returns the name that the image of a plan has in an engine. Nothing can be pulled by it by
/// mistake: both engines take `localhost` for this machine.
pub(crate) fn name_in_engine(plan: &str) -> String {
    format!("localhost/build-pipeline/{plan}:latest")
}

/// Reads a manifest, which must not be an index.
fn manifest(name: &str, bytes: &[u8], media_type: Option<&str>) -> Result<Manifest, CommandError> {
    match Document::parse(bytes, media_type) {
        Ok(Document::Manifest(parsed)) => Ok(parsed),
        Ok(Document::Index(_)) => Err(CommandError::new(
            ExitCode::Differs,
            format!("`{name}` is an index, and build-pipeline makes single manifests"),
        )
        .hint("name the image that `build-pipeline --push` made, or one manifest by its digest")),
        Err(error) => Err(CommandError::caused(
            ExitCode::Failed,
            format!("`{name}` is not an image of ours"),
            &error,
        )),
    }
}
