//! Writes a finished image to the requested outputs.
//!
//! Layers are transferred only where their bytes are needed: into a full layout, into an archive,
//! or to a registry that does not have them and cannot mount them. They are streamed, and checked
//! on the way.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use atomic_write_file::AtomicWriteFile;
use futures_util::StreamExt as _;
use names::{Digest, ImageRef, Repository};
use oci::archive::ArchiveWriter;
use oci::client::{RegistryClient, RegistryError};
use oci::media::{Descriptor, OCI_MANIFEST};
use oci::{DerivedImage, LayoutError, layout};
use record::{OutputOutcome, OutputState};
use tokio::task::{JoinHandle, JoinSet, block_in_place};

use crate::build_env::StoredImage;
use crate::run::Run;
use crate::{BaseImage, Event, ExecuteError, Output, Settings};

/// How many layers are copied at once. More streams do not use a connection better, and registries
/// limit connections (podman and skopeo copy 6, docker 3).
const LAYERS_AT_ONCE: usize = 4;

/// The number of bytes of a layer between two progress reports.
const PROGRESS_STEP: u64 = 4 << 20;

/// The digest that a target tag points to, requested in advance.
pub(crate) type Target = Option<JoinHandle<Result<Option<Digest>, RegistryError>>>;

/// Asks every target registry in the background what the tag currently points to.
pub(crate) fn ask_for_targets(settings: &Settings) -> Vec<Target> {
    let ask = |output: &Output| match output {
        Output::Registry { reference } if reference.tag.is_some() => {
            let (client, reference) = (settings.client.clone(), reference.clone());
            Some(tokio::spawn(async move { client.manifest_digest(&reference).await }))
        }
        Output::Registry { .. }
        | Output::Layout { .. }
        | Output::Archive { .. }
        | Output::Engine { .. } => None,
    };
    settings.outputs.iter().map(ask).collect()
}

/// Writes an image to all outputs, one after the other.
pub(crate) async fn deliver(
    run: &Run,
    base: &BaseImage,
    image: &DerivedImage,
    targets: Vec<Target>,
) -> Result<(), ExecuteError> {
    for (output, target) in run.settings.outputs.iter().zip(targets) {
        let name = output.to_string();
        // The recorded state if this is never completed.
        let begun = OutputOutcome {
            output: name.clone(),
            state: OutputState::Interrupted,
            layers_copied: 0,
            layer_bytes_copied: 0,
            layers_mounted: 0,
        };
        run.progress().outputs.push(begun);
        (run.on_event)(Event::OutputBegun { output: name.clone() });
        let mut delivery = Delivery {
            run,
            base,
            image,
            output: &name,
            copied: 0,
            bytes: Arc::default(),
            mounted: 0,
        };
        let result = match output {
            Output::Layout { path, with_layers } => delivery.layout(path, *with_layers).await,
            Output::Archive { path } => delivery.archive(path).await,
            Output::Registry { reference } => delivery.registry(reference, target).await,
            Output::Engine { reference } => delivery.engine(reference).await,
        };
        let outcome = OutputOutcome {
            output: name.clone(),
            state: *result.as_ref().unwrap_or(&OutputState::Failed),
            layers_copied: delivery.copied,
            layer_bytes_copied: delivery.bytes.load(Ordering::Relaxed),
            layers_mounted: delivery.mounted,
        };
        let layer_bytes_copied = outcome.layer_bytes_copied;
        (run.on_event)(Event::OutputEnded {
            output: name,
            state: outcome.state,
            layer_bytes_copied,
        });
        let mut progress = run.progress();
        progress.outputs.pop();
        progress.outputs.push(outcome);
        drop(progress);
        result?;
    }
    Ok(())
}

/// An output that is being written.
struct Delivery<'a> {
    run: &'a Run,
    base: &'a BaseImage,
    image: &'a DerivedImage,
    output: &'a str,
    copied: usize,
    bytes: Arc<AtomicU64>,
    mounted: usize,
}

impl Delivery<'_> {
    fn client(&self) -> &RegistryClient {
        &self.run.settings.client
    }

    fn source(&self) -> &Repository {
        &self.base.image.repository
    }

    fn writing(&self, source: LayoutError) -> ExecuteError {
        ExecuteError::layout(format!("writing `{}` failed", self.output), source)
    }

    fn pushing(&self, source: RegistryError) -> ExecuteError {
        ExecuteError::registry(format!("pushing to `{}` failed", self.output), source)
    }

    async fn engine(&self, name: &ImageRef) -> Result<OutputState, ExecuteError> {
        let Some(build_env) = &self.run.settings.build_env else {
            return Err(ExecuteError::plan(format!("`{}` needs an engine", self.output)));
        };
        let made = StoredImage::new(self.image, Some(self.base.image.clone()))?;
        let sink = self.run.sink().await?;
        let offered = sink.offer(&self.run.plan.name, &made, &build_env.store, self.client())?;
        let engine = self.run.engine(self.output)?;
        build_env.load(engine, self.image, &offered, name).await
    }

    async fn layout(
        &mut self,
        path: &Path,
        with_layers: bool,
    ) -> Result<OutputState, ExecuteError> {
        let name = &self.run.plan.name;
        let holds = layout::holds(path, self.image, name);
        let mut lacking = self.lacking(path).await;
        if !with_layers {
            // They stay in the base's registry. A damaged local copy must not stay.
            let here = lacking.drain(..).map(|layer| layout::blob_path(path, &layer.digest));
            let damaged: Vec<_> = here.filter(|file| file.is_file()).collect();
            if !damaged.is_empty() {
                layout::check_target(path, name).map_err(|e| self.writing(e))?;
            }
            for path in damaged {
                let removed = std::fs::remove_file(&path);
                removed.map_err(|source| self.writing(LayoutError::Write { path, source }))?;
            }
        }
        if holds && lacking.is_empty() {
            layout::remove_old_blobs(path, self.image).map_err(|e| self.writing(e))?;
            return Ok(OutputState::UpToDate);
        }
        layout::check_target(path, name).map_err(|e| self.writing(e))?;
        self.layers_into(path, lacking).await?;
        layout::write(path, self.image, name).map_err(|e| self.writing(e))?;
        Ok(OutputState::Written)
    }

    /// Returns the layers that a layout lacks, and the damaged ones.
    async fn lacking(&self, path: &Path) -> Vec<Descriptor> {
        let mut layers: Vec<&Descriptor> = self.image.layers.iter().collect();
        layers.sort_by_key(|layer| &layer.digest);
        layers.dedup_by_key(|layer| &layer.digest);
        let mut verified = self.run.settings.verified.of(&layout::blobs_folder(path));
        let mut lacking = Vec::new();
        for layer in layers {
            let file = layout::blob_path(path, &layer.digest);
            if !block_in_place(|| verified.has(&file, &layer.digest, layer.size)) {
                lacking.push(layer.clone());
            }
            // Lets a signal end the run between two layers.
            tokio::task::yield_now().await;
        }
        verified.save();
        lacking
    }

    /// Copies layers into a layout, several at once.
    async fn layers_into(
        &mut self,
        path: &Path,
        lacking: Vec<Descriptor>,
    ) -> Result<(), ExecuteError> {
        if lacking.is_empty() {
            return Ok(());
        }
        let blobs = layout::blobs_folder(path);
        std::fs::create_dir_all(&blobs)
            .map_err(|source| self.writing(LayoutError::Write { path: blobs.clone(), source }))?;
        let mut copies = JoinSet::new();
        for layer in lacking {
            if copies.len() == LAYERS_AT_ONCE {
                self.one_copied(&mut copies).await?;
            }
            let (client, repository) = (self.client().clone(), self.source().clone());
            let file = layout::blob_path(path, &layer.digest);
            let (tick, writing) =
                (self.ticker(&layer), format!("writing `{}` failed", self.output));
            copies.spawn(async move {
                let fetching = |e| {
                    ExecuteError::registry(format!("fetching layer `{}` failed", layer.digest), e)
                };
                let mut stream = client
                    .blob_stream(&repository, &layer.digest, layer.size)
                    .await
                    .map_err(fetching)?;
                let failed = |source| {
                    ExecuteError::layout(
                        writing.clone(),
                        LayoutError::Write { path: file.clone(), source },
                    )
                };
                let mut blob = block_in_place(|| AtomicWriteFile::open(&file)).map_err(failed)?;
                while let Some(piece) = stream.next().await {
                    let piece = piece.map_err(fetching)?;
                    block_in_place(|| blob.write_all(&piece)).map_err(failed)?;
                    tick(piece.len() as u64);
                }
                block_in_place(|| blob.commit()).map_err(failed)
            });
        }
        while !copies.is_empty() {
            self.one_copied(&mut copies).await?;
        }
        Ok(())
    }

    async fn archive(&mut self, path: &Path) -> Result<OutputState, ExecuteError> {
        let begun = ArchiveWriter::begin(path, self.image, &self.run.plan.name);
        let mut archive = begun.map_err(|e| self.writing(e))?;
        let mut written: Vec<&Digest> = Vec::new();
        for layer in &self.image.layers {
            // A manifest may list a layer twice, but its blob is stored once.
            if written.contains(&&layer.digest) {
                continue;
            }
            written.push(&layer.digest);
            let fetching =
                |e| ExecuteError::registry(format!("fetching layer `{}` failed", layer.digest), e);
            let stream = self.client().blob_stream(self.source(), &layer.digest, layer.size).await;
            let mut stream = stream.map_err(fetching)?;
            let tick = self.ticker(layer);
            archive.begin_layer(layer).map_err(|e| self.writing(e))?;
            while let Some(piece) = stream.next().await {
                let piece = piece.map_err(fetching)?;
                block_in_place(|| archive.write(&piece)).map_err(|e| self.writing(e))?;
                tick(piece.len() as u64);
            }
            archive.end_layer(layer).map_err(|e| self.writing(e))?;
            self.copied += 1;
        }
        block_in_place(|| archive.finish()).map_err(|e| self.writing(e))?;
        Ok(OutputState::Written)
    }

    async fn registry(
        &mut self,
        reference: &ImageRef,
        target: Target,
    ) -> Result<OutputState, ExecuteError> {
        if let Some(asked) = target
            && let Ok(answer) = asked.await
            && answer.map_err(|e| self.pushing(e))? == Some(self.image.manifest_digest.clone())
        {
            return Ok(OutputState::UpToDate);
        }
        let target = &reference.repository;
        let locations = self.client().locations(self.source());
        let neighbours: Vec<&Repository> =
            locations.iter().filter(|place| place.registry() == target.registry()).collect();
        // A repository that served the base's manifest also has its layers, because the registry
        // checked that. A repository that might have served it must be asked for every layer.
        let has_served = !self.base.was_cached && locations == std::slice::from_ref(target);
        if !has_served {
            self.layers_to(target, &neighbours).await?;
        }
        let config = self
            .client()
            .push_blob(target, &self.image.config_digest, self.image.config.clone())
            .await;
        config.map_err(|e| self.pushing(e))?;
        let named = match &reference.tag {
            Some(_) => reference.clone(),
            None => target.at(&self.image.manifest_digest),
        };
        let pushed =
            self.client().push_manifest(&named, OCI_MANIFEST, self.image.manifest.clone()).await;
        pushed.map_err(|e| self.pushing(e))?;
        Ok(OutputState::Written)
    }

    /// Makes sure that the target has all layers: it has them already, mounts them from another
    /// repository, or receives a stream.
    async fn layers_to(
        &mut self,
        target: &Repository,
        neighbours: &[&Repository],
    ) -> Result<(), ExecuteError> {
        let mut layers: Vec<&Descriptor> = self.image.layers.iter().collect();
        layers.sort_by_key(|layer| &layer.digest);
        layers.dedup_by_key(|layer| &layer.digest);
        let mut copies = JoinSet::new();
        for layer in layers {
            if copies.len() == LAYERS_AT_ONCE {
                self.one_placed(&mut copies).await?;
            }
            let (client, layer, target) = (self.client().clone(), layer.clone(), target.clone());
            let may_have = neighbours.is_empty() || neighbours.contains(&&target);
            let neighbour = neighbours.iter().find(|place| ***place != target);
            let (source, neighbour) =
                (self.source().clone(), neighbour.map(|place| (*place).clone()));
            let (tick, output) = (self.ticker(&layer), self.output.to_owned());
            copies.spawn(async move {
                let pushing =
                    |e| ExecuteError::registry(format!("pushing to `{output}` failed"), e);
                if may_have && client.has_blob(&target, &layer.digest).await.map_err(pushing)? {
                    return Ok(Placed::There);
                }
                if let Some(from) = neighbour
                    && client.mount_blob(&target, &layer.digest, &from).await.map_err(pushing)?
                {
                    return Ok(Placed::Mounted);
                }
                let fetching = |e| {
                    ExecuteError::registry(format!("fetching layer `{}` failed", layer.digest), e)
                };
                let stream = client
                    .blob_stream(&source, &layer.digest, layer.size)
                    .await
                    .map_err(fetching)?;
                let counted = stream.inspect(move |piece| {
                    if let Ok(piece) = piece {
                        tick(piece.len() as u64);
                    }
                });
                client
                    .push_blob_stream(&target, &layer.digest, layer.size, counted)
                    .await
                    .map_err(pushing)?;
                Ok(Placed::Copied)
            });
        }
        while !copies.is_empty() {
            self.one_placed(&mut copies).await?;
        }
        Ok(())
    }

    async fn one_copied(
        &mut self,
        copies: &mut JoinSet<Result<(), ExecuteError>>,
    ) -> Result<(), ExecuteError> {
        joined(copies).await?;
        self.copied += 1;
        Ok(())
    }

    async fn one_placed(
        &mut self,
        copies: &mut JoinSet<Result<Placed, ExecuteError>>,
    ) -> Result<(), ExecuteError> {
        match joined(copies).await? {
            Some(Placed::Copied) => self.copied += 1,
            Some(Placed::Mounted) => self.mounted += 1,
            Some(Placed::There) | None => {}
        }
        Ok(())
    }

    /// Returns a function that counts the bytes of a layer and reports progress at intervals.
    fn ticker(&self, layer: &Descriptor) -> Ticker {
        let (progress, bytes) = (self.run.progress_of(self.output, layer), Arc::clone(&self.bytes));
        let done = AtomicU64::new(0);
        Box::new(move |more| {
            bytes.fetch_add(more, Ordering::Relaxed);
            let before = done.fetch_add(more, Ordering::Relaxed);
            if before / PROGRESS_STEP != (before + more) / PROGRESS_STEP {
                progress(before + more);
            }
        })
    }
}

/// Counts the transferred bytes of a layer.
type Ticker = Box<dyn Fn(u64) + Send + Sync>;

/// How the target got a layer.
enum Placed {
    There,
    Mounted,
    Copied,
}

/// Waits for one of the copies, while the others continue.
async fn joined<T: 'static>(
    copies: &mut JoinSet<Result<T, ExecuteError>>,
) -> Result<Option<T>, ExecuteError> {
    match copies.join_next().await {
        None => Ok(None),
        Some(Ok(result)) => result.map(Some),
        Some(Err(error)) => {
            Err(ExecuteError::plan(format!("a copy stopped unexpectedly: {error}")))
        }
    }
}

impl Run {
    /// Returns a function that reports the progress of copying a layer.
    fn progress_of(&self, output: &str, layer: &Descriptor) -> impl Fn(u64) + Send + Sync + use<> {
        let (on_event, output, layer, total) =
            (Arc::clone(&self.on_event), output.to_owned(), layer.digest.clone(), layer.size);
        move |done| {
            on_event(Event::LayerProgress {
                output: output.clone(),
                layer: layer.clone(),
                done,
                total,
            });
        }
    }
}
