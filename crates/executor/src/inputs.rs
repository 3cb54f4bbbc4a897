//! Collects everything that plans fetch, and copies it into a bundle, a folder or a registry.
//!
//! [`Collector`] runs only the steps that fetch, with the code that builds use, and writes a list
//! for each plan. [`Collected`] writes the lists and their blobs. A build that finds the blobs
//! there by their digests needs no server.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ::sources::{ArchiveSource, GitSource, Submodules};
use bytes::Bytes;
use names::{Digest, ImageRef, Repository, Sha256, Tag};
use oci::client::{BlobStream, RegistryClient};
use oci::inputs::{BundleIndex, INPUTS, InputBlob, InputFiles, InputKind, InputList, begin_bundle};
use oci::media::{Descriptor, EMPTY_CONFIG};
use oci::{
    ArtifactError, ArtifactFolder, ArtifactPlace, LayoutError, LocalBlobs, Verified, layout,
};
use plan::{Action, Input, ManifestKind, Plan, Platform, Step};
use tempfile::TempDir;
use tokio::task::block_in_place;
use tokio_util::task::TaskTracker;

use crate::copy::{LayerCopy, copy_into_files};
use crate::place::{LayerSource, LayerTarget, Placed, Transfer};
use crate::{BlobCache, BuildEnv, ExecuteError, fetch_base};

/// Collects everything that plans fetch.
#[derive(Debug)]
pub struct Collector<'a> {
    client: &'a RegistryClient,
    cache: &'a BlobCache,
    build_env: &'a BuildEnv,
    collected: Collected,
}

/// Everything that plans fetch: the lists, and where the blobs are.
#[derive(Debug)]
pub struct Collected {
    /// One list per plan.
    pub lists: Vec<InputList>,
    files: LocalBlobs,
    /// The repository of each layer. The layers stay there until they are copied.
    layers: BTreeMap<Digest, Repository>,
    /// Keeps the beginning of each layer while it is copied to a registry.
    cache: BlobCache,
    work: TempDir,
}

impl<'a> Collector<'a> {
    /// Creates a collector.
    ///
    /// # Errors
    /// Fails if the folder for temporary files cannot be created.
    pub fn new(
        client: &'a RegistryClient,
        cache: &'a BlobCache,
        build_env: &'a BuildEnv,
    ) -> Result<Self, ExecuteError> {
        let work = build_env.folder("inputs-")?;
        let (files, layers) = (LocalBlobs::default(), BTreeMap::new());
        let kept = cache.clone();
        let collected = Collected { lists: Vec::new(), files, layers, cache: kept, work };
        Ok(Self { client, cache, build_env, collected })
    }

    /// Returns what was collected.
    pub fn finish(self) -> Collected {
        self.collected
    }

    /// Fetches everything that a plan needs, except the layers of images, and lists it.
    /// `has_stand_in` is set if the base is a stand-in, which each rehearsal makes for itself.
    ///
    /// # Errors
    /// Fails if something cannot be fetched.
    pub async fn add_plan(&mut self, plan: &Plan, has_stand_in: bool) -> Result<(), ExecuteError> {
        let text = plan.canonical_text();
        let mut blobs = vec![self.text(InputKind::Plan, &plan.name, text.into())?];
        for step in &plan.steps {
            let is_stand_in = has_stand_in && matches!(step.action, Action::FetchBase { .. });
            if !is_stand_in {
                blobs.extend(self.step(plan, step).await?);
            }
        }
        self.add_list(&plan.name, blobs)
    }

    /// Fetches one input and lists it under its own name.
    ///
    /// # Errors
    /// Fails if the input cannot be fetched.
    pub async fn add_input(&mut self, name: &str, input: &Input) -> Result<(), ExecuteError> {
        let blobs = self.input(input, &Platform::linux_amd64()).await?;
        self.add_list(name, blobs)
    }

    fn add_list(&mut self, name: &str, blobs: Vec<InputBlob>) -> Result<(), ExecuteError> {
        let list = InputList::new(name, blobs);
        if list.is_too_long() {
            let count = list.blobs.len();
            let too_many = LayoutError::TooMany { name: list.track, count };
            return Err(ExecuteError::layout("listing the inputs failed".to_owned(), too_many));
        }
        self.collected.lists.push(list);
        Ok(())
    }

    async fn step(&mut self, plan: &Plan, step: &Step) -> Result<Vec<InputBlob>, ExecuteError> {
        let input = plan.input_of(step);
        match (&step.action, input) {
            (Action::FetchBase { platform, .. }, Some(input)) => self.input(input, platform).await,
            (Action::FetchSource { .. }, Some(input)) => {
                self.input(input, &Platform::linux_amd64()).await
            }
            (Action::FetchPackages { input: lock_path, sets }, Some(Input::Lock { digest })) => {
                let packages = self.build_env.fetch_packages(lock_path, digest, sets).await?;
                let mut blobs = vec![self.lock(lock_path, digest)?];
                for file in packages.files() {
                    let (locked, path) = (&file.package, file.path.clone());
                    let at = At { digest: digest_of(&locked.sha256)?, size: locked.size, path };
                    blobs.push(self.file(InputKind::Package, &locked.file, at));
                }
                Ok(blobs)
            }
            (Action::FetchWheels { input: lock_path }, Some(Input::Lock { digest })) => {
                let wheels = self.build_env.fetch_wheels(lock_path, digest).await?;
                let mut blobs = vec![self.lock(lock_path, digest)?];
                for (name, wheel) in wheels.files() {
                    let path = wheel.path().to_owned();
                    let at = At { digest: digest_of(&wheel.sha256)?, size: wheel.size, path };
                    blobs.push(self.file(InputKind::Wheel, name, at));
                }
                Ok(blobs)
            }
            _ => Ok(Vec::new()),
        }
    }

    async fn input(
        &mut self,
        input: &Input,
        platform: &Platform,
    ) -> Result<Vec<InputBlob>, ExecuteError> {
        match input {
            Input::Image { reference, manifest } => {
                self.image(reference, *manifest, platform).await
            }
            Input::Source { url, commit, .. } => {
                let bad = |_| ExecuteError::plan(format!("`{url}` is not a git address"));
                let url = url.parse().map_err(bad)?;
                let commit = commit.clone();
                self.git(&GitSource { url, commit, submodules: Submodules::All }).await
            }
            Input::Archive { project, version, sha256, .. } => {
                let source = ArchiveSource {
                    project: project.clone(),
                    version: version.clone(),
                    sha256: sha256.clone(),
                    url: None,
                };
                let archive = self.build_env.release(source).await.map_err(ExecuteError::source)?;
                let path = archive.path().to_owned();
                let at = At { digest: digest_of(sha256)?, size: archive.size, path };
                Ok(vec![self.file(InputKind::Archive, &format!("{project} {version}"), at)])
            }
            Input::Lock { .. } | Input::File { .. } => Ok(Vec::new()),
        }
    }

    /// Lists an image: its documents, which are fetched, and its layers, which are not.
    async fn image(
        &mut self,
        image: &ImageRef,
        kind: Option<ManifestKind>,
        platform: &Platform,
    ) -> Result<Vec<InputBlob>, ExecuteError> {
        let base = fetch_base(self.client, self.cache, image, kind, platform).await?;
        let repository = &image.repository;
        let top = base.index.as_ref().unwrap_or(&base.manifest_digest);
        let bytes = self.document(image, top).await?;
        let mut blobs = vec![self.text(InputKind::Manifest, &image.to_string(), bytes)?];
        if base.index.is_some() {
            let name = repository.at(&base.manifest_digest).to_string();
            let manifest = self.document(image, &base.manifest_digest).await?;
            blobs.push(self.text(InputKind::Manifest, &name, manifest)?);
        }
        let name = repository.to_string();
        blobs.push(self.text(InputKind::Config, &name, base.config.clone())?);
        for layer in &base.manifest.layers {
            self.collected.layers.insert(layer.digest.clone(), repository.clone());
            let (digest, size, name) = (layer.digest.clone(), layer.size, name.clone());
            blobs.push(InputBlob { kind: InputKind::Layer, digest, size, name, commit: None });
        }
        Ok(blobs)
    }

    async fn document(&self, image: &ImageRef, digest: &Digest) -> Result<Bytes, ExecuteError> {
        if let Some(bytes) = self.cache.get(digest) {
            return Ok(bytes);
        }
        let fetched = self.client.manifest(&image.repository.at(digest)).await;
        fetched.map(|fetched| fetched.bytes).map_err(|error| {
            ExecuteError::registry(format!("fetching the manifest of `{image}` failed"), error)
        })
    }

    async fn git(&mut self, source: &GitSource) -> Result<Vec<InputBlob>, ExecuteError> {
        let folder = self.collected.work.path().join("packs");
        std::fs::create_dir_all(&folder).map_err(|error| disk(&folder, error))?;
        let packs = self.build_env.sources.write_packs(source, &folder).await;
        let mut blobs = Vec::new();
        for pack in packs.map_err(ExecuteError::source)? {
            let measure = || {
                let file = oci::files::open(&pack.path)?;
                let size = file.metadata()?.len();
                Ok((oci::files::hash(file)?, size))
            };
            let (digest, size) = block_in_place(measure).map_err(|e| disk(&pack.path, e))?;
            let at = At { digest, size, path: pack.path };
            let blob = self.file(InputKind::Git, pack.url.as_str(), at);
            blobs.push(InputBlob { commit: Some(pack.commit), ..blob });
        }
        Ok(blobs)
    }

    fn lock(&mut self, path: &str, digest: &Digest) -> Result<InputBlob, ExecuteError> {
        let text = self.build_env.materials.file(path, digest)?.to_owned();
        self.text(InputKind::Lock, path, text.into())
    }

    /// Lists a text, and writes it into a temporary file.
    fn text(
        &mut self,
        kind: InputKind,
        name: &str,
        bytes: Bytes,
    ) -> Result<InputBlob, ExecuteError> {
        let digest = Digest::of(&bytes);
        let path = self.collected.work.path().join(digest.hex());
        std::fs::write(&path, &bytes).map_err(|error| disk(&path, error))?;
        Ok(self.file(kind, name, At { digest, size: bytes.len() as u64, path }))
    }

    fn file(&mut self, kind: InputKind, name: &str, at: At) -> InputBlob {
        let At { digest, size, path } = at;
        let blob = InputBlob { kind, digest, size, name: name.to_owned(), commit: None };
        self.collected.files.add_file(&blob.descriptor(), path);
        blob
    }
}

/// A blob in a file.
struct At {
    digest: Digest,
    size: u64,
    path: std::path::PathBuf,
}

fn digest_of(sha256: &Sha256) -> Result<Digest, ExecuteError> {
    let bad = |_| ExecuteError::plan(format!("`{sha256}` is not a digest"));
    format!("sha256:{sha256}").parse().map_err(bad)
}

fn disk(path: &Path, error: std::io::Error) -> ExecuteError {
    ExecuteError::disk(format!("writing `{}` failed", path.display()), error)
}

impl Collected {
    /// Returns the index of a bundle with everything that older bundles do not have.
    pub fn index(&self, since: &InputFiles) -> BundleIndex {
        BundleIndex { lists: self.lists.clone(), needs: since.ids().to_vec() }
    }

    /// Writes a bundle. An interrupted write is continued.
    ///
    /// # Errors
    /// Fails if a layer cannot be fetched or the file cannot be written.
    pub async fn write_bundle(
        &self,
        path: &Path,
        since: &InputFiles,
        client: &RegistryClient,
        transfer: &Transfer,
    ) -> Result<(), ExecuteError> {
        let failed = |error| writing(transfer, error);
        let index = self.index(since);
        let mut archive = block_in_place(|| begin_bundle(path, &index)).map_err(failed)?;
        for blob in index.blobs().into_iter().filter(|blob| !since.has(&blob.digest)) {
            let layer = blob.descriptor();
            archive.begin_layer(&layer).map_err(failed)?;
            self.copy(client, transfer, layer.clone()).into_archive(&mut archive).await?;
            archive.end_layer(&layer).map_err(failed)?;
        }
        block_in_place(|| archive.finish()).map_err(failed)
    }

    /// Copies everything into a folder. Blobs that are already there are kept.
    ///
    /// # Errors
    /// Fails if a layer cannot be fetched, or if the folder contains something else or cannot be
    /// written.
    pub async fn copy_to_folder(
        &self,
        folder: &Path,
        verified: &Verified,
        client: &RegistryClient,
        transfer: &Transfer,
    ) -> Result<(), ExecuteError> {
        let failed = |error| writing(transfer, error);
        let place = ArtifactFolder::new(folder.to_owned());
        place.check_no_link().map_err(failed)?;
        place.check(Some(INPUTS)).map_err(failed)?;
        let blobs = layout::blobs_folder(folder);
        std::fs::create_dir_all(&blobs).map_err(|error| disk(&blobs, error))?;
        let mut verified = verified.of(&blobs);
        let mut copies = Vec::new();
        for blob in self.index(&InputFiles::default()).blobs() {
            let file = layout::blob_path(folder, &blob.digest);
            if block_in_place(|| verified.has(&file, &blob.digest, blob.size)) {
                transfer.has(&blob.descriptor());
            } else {
                copies.push((self.copy(client, transfer, blob.descriptor()), file));
            }
            // Lets a signal stop the run between two blobs.
            tokio::task::yield_now().await;
        }
        verified.save();
        let running = TaskTracker::new();
        copy_into_files(copies, &running, |_| {}).await?;
        self.add_lists(&ArtifactPlace::Folder(place), client, transfer).await
    }

    /// Copies everything into a repository, and gives each list the tag of its track.
    ///
    /// # Errors
    /// Fails if a layer cannot be fetched or the registry refuses something.
    pub async fn copy_to_registry(
        &self,
        repository: &Repository,
        client: &RegistryClient,
        transfer: &Transfer,
    ) -> Result<(), ExecuteError> {
        let target = LayerTarget { client, repository, transfer };
        let index = self.index(&InputFiles::default());
        let mut from: BTreeMap<Option<&Repository>, Vec<Descriptor>> = BTreeMap::new();
        for blob in index.blobs() {
            from.entry(self.layers.get(&blob.digest)).or_default().push(blob.descriptor());
        }
        for (origin, blobs) in from {
            let source = LayerSource {
                files: self.files.clone(),
                repository: origin.cloned(),
                copies: Vec::new(),
                cache: self.cache.clone(),
            };
            target.place(&blobs, &source, &mut Placed::default()).await?;
        }
        self.add_lists(&ArtifactPlace::Registry(repository.clone()), client, transfer).await
    }

    /// Gives each list the tag of its track. The blobs are already there.
    async fn add_lists(
        &self,
        place: &ArtifactPlace,
        client: &RegistryClient,
        transfer: &Transfer,
    ) -> Result<(), ExecuteError> {
        let failed = |error| match error {
            ArtifactError::Folder(error) => writing(transfer, error),
            ArtifactError::Registry(error) => {
                ExecuteError::registry(format!("pushing to `{}` failed", transfer.output), error)
            }
        };
        let empty = BlobStream::of_bytes(Bytes::from_static(EMPTY_CONFIG));
        place.push(client, empty).await.map_err(failed)?;
        for list in &self.lists {
            let bad = |_| ExecuteError::plan(format!("`{}` cannot be a tag", list.track));
            let tag: Tag = list.track.parse().map_err(bad)?;
            place.push_manifest(client, &tag, list.to_manifest()).await.map_err(failed)?;
        }
        Ok(())
    }

    /// Returns the number of distinct blobs that older bundles do not have, and their total size.
    pub fn size(&self, since: &InputFiles) -> (usize, u64) {
        let index = self.index(since);
        let new: BTreeSet<_> = index
            .blobs()
            .into_iter()
            .filter(|blob| !since.has(&blob.digest))
            .map(|blob| (&blob.digest, blob.size))
            .collect();
        (new.len(), new.iter().map(|(_, size)| size).sum())
    }

    fn copy(&self, client: &RegistryClient, transfer: &Transfer, layer: Descriptor) -> LayerCopy {
        LayerCopy {
            client: client.clone(),
            repository: self.layers.get(&layer.digest).cloned(),
            local: self.files.clone(),
            transfer: transfer.clone(),
            layer,
        }
    }
}

fn writing(transfer: &Transfer, source: LayoutError) -> ExecuteError {
    ExecuteError::layout(format!("writing `{}` failed", transfer.output), source)
}
