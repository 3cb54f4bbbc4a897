//! Writes a finished image to the requested outputs.
//!
//! Layers are transferred only where their bytes are needed: into a full layout or an archive, into
//! an engine that lacks them, or to a registry that does not have them and cannot mount them. They
//! are streamed, and checked on the way.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use names::{Digest, ImageRef, Repository};
use oci::archive::{self, ArchiveWriter};
use oci::client::{RegistryClient, RegistryError};
use oci::media::{Descriptor, OCI_MANIFEST};
use oci::{DerivedImage, LayoutError, LocalBlobs, layout};
use record::{OutputOutcome, OutputState};
use tokio::task::{JoinHandle, block_in_place};

use crate::build_env::{Origin, StoredImage};
use crate::copy::{LayerCopy, copy_into_files};
use crate::place::{LayerSource, LayerTarget, Placed, Transfer, distinct};
use crate::run::Run;
use crate::{BaseImage, Event, ExecuteError, Output, Settings};

/// The digest that a target tag points to, requested in advance.
pub(crate) enum Target {
    /// The registry has not answered yet.
    Asked(JoinHandle<Result<Option<Digest>, RegistryError>>),
    /// The registry's answer; `None` if it has no such tag.
    Found(Option<Digest>),
    /// Not a tag on a registry.
    Unknown,
}

/// Asks every target registry, in the background, which digest the tag points to.
pub(crate) fn ask_for_targets(settings: &Settings) -> Vec<Target> {
    let ask = |output: &Output| match output {
        Output::Registry { reference } if reference.tag.is_some() => {
            let (client, reference) = (settings.client.clone(), reference.clone());
            Target::Asked(tokio::spawn(async move { client.target_digest(&reference).await }))
        }
        Output::Registry { .. }
        | Output::Layout { .. }
        | Output::Archive { .. }
        | Output::Engine { .. } => Target::Unknown,
    };
    settings.outputs.iter().map(ask).collect()
}

/// Writes an image to all outputs, one after another.
pub(crate) async fn deliver(
    run: &Run,
    base: &BaseImage,
    image: &DerivedImage,
    targets: Vec<Target>,
) -> Result<(), ExecuteError> {
    // The repositories that already have the image.
    let mut pushed = Vec::new();
    for (output, target) in run.settings.outputs.iter().zip(targets) {
        let name = output.to_string();
        // This state remains if the output is never completed.
        let begun = OutputOutcome {
            output: name.clone(),
            state: OutputState::Interrupted,
            layers_copied: 0,
            layer_bytes_copied: 0,
            layers_mounted: 0,
        };
        run.progress().outputs.push(begun);
        (run.on_event)(Event::OutputBegun {
            output: name.clone(),
            layer_bytes: match output {
                Output::Layout { with_layers: false, .. } => 0,
                _ => distinct(&image.layers).iter().map(|layer| layer.size).sum(),
            },
        });
        let mut delivery = Delivery {
            run,
            base,
            image,
            transfer: Transfer::new(name.clone(), Arc::clone(&run.on_event)),
            placed: Placed::default(),
            pushed: &pushed,
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
            layers_copied: delivery.placed.copied,
            layer_bytes_copied: delivery.transfer.bytes(),
            layers_mounted: delivery.placed.mounted,
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
        if let Output::Registry { reference } = output {
            pushed.push(reference.repository.clone());
        }
    }
    Ok(())
}

/// An output that is being written.
struct Delivery<'a> {
    run: &'a Run,
    base: &'a BaseImage,
    image: &'a DerivedImage,
    transfer: Transfer,
    placed: Placed,
    /// The repositories that have the image already.
    pushed: &'a [Repository],
}

impl Delivery<'_> {
    fn client(&self) -> &RegistryClient {
        &self.run.settings.client
    }

    fn source(&self) -> &Repository {
        &self.base.image.repository
    }

    fn writing(&self, source: LayoutError) -> ExecuteError {
        ExecuteError::layout(format!("writing `{}` failed", self.transfer.output), source)
    }

    fn pushing(&self, source: RegistryError) -> ExecuteError {
        ExecuteError::registry(format!("pushing to `{}` failed", self.transfer.output), source)
    }

    async fn engine(&mut self, name: &ImageRef) -> Result<OutputState, ExecuteError> {
        let Some(build_env) = &self.run.settings.build_env else {
            return Err(ExecuteError::plan(format!("`{}` needs an engine", self.transfer.output)));
        };
        let made = StoredImage::new(self.image, Some(self.base.image.clone()))?;
        let sink = self.run.sink().await?;
        let cache = &self.run.settings.cache;
        let transfer = Some(&self.transfer);
        let origin = Origin { store: &build_env.store, client: self.client(), cache, transfer };
        let offered = sink.offer(&self.run.plan.name, &made, origin)?;
        let engine = self.run.engine(&self.transfer.output)?;
        let loaded = build_env.load(engine, self.image, &offered, name, sink, origin).await;
        self.placed.copied = self.transfer.received();
        loaded
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
            // The base's layers stay in its registry. Damaged local copies are removed.
            let is_own = |layer: &Descriptor| {
                self.base.own_layers.iter().any(|own| own.digest == layer.digest)
            };
            let elsewhere = lacking.extract_if(.., |layer| !is_own(layer));
            let here = elsewhere.map(|layer| layout::blob_path(path, &layer.digest));
            let damaged: Vec<_> = here.filter(|file| file.is_file()).collect();
            if !damaged.is_empty() {
                layout::check_target(path, name).map_err(|e| self.writing(e))?;
            }
            for file in damaged {
                let removed = std::fs::remove_file(&file);
                removed
                    .map_err(|source| self.writing(LayoutError::Write { path: file, source }))?;
            }
        }
        if with_layers {
            let is_here = |layer: &&Descriptor| !lacking.contains(layer);
            let here = distinct(&self.image.layers).into_iter().filter(is_here);
            here.for_each(|layer| self.transfer.has(layer));
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
        let mut verified = self.run.settings.verified.of(&layout::blobs_folder(path));
        let mut lacking = Vec::new();
        for layer in distinct(&self.image.layers) {
            let file = layout::blob_path(path, &layer.digest);
            if !block_in_place(|| verified.has(&file, &layer.digest, layer.size)) {
                lacking.push(layer.clone());
            }
            // Lets a signal stop the run between two layers.
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
        let local = self.with_kept(self.local(path));
        let copy = |layer: Descriptor| {
            let file = layout::blob_path(path, &layer.digest);
            let copy = LayerCopy {
                client: self.client().clone(),
                repository: Some(self.source().clone()),
                local: local.clone(),
                transfer: self.transfer.clone(),
                layer,
            };
            (copy, file)
        };
        let copies = lacking.into_iter().map(copy).collect();
        copy_into_files(copies, &self.run.copies, |how| self.placed.add(Some(how))).await
    }

    /// Returns where layers may be on this machine, except in the output itself.
    fn local(&self, output: &Path) -> LocalBlobs {
        let nearby: Vec<PathBuf> =
            self.run.settings.nearby.iter().filter(|path| *path != output).cloned().collect();
        self.local_in(&nearby)
    }

    /// Returns the layers in layouts and archives, and those in this machine's store.
    fn local_in(&self, nearby: &[PathBuf]) -> LocalBlobs {
        let mut local = block_in_place(|| LocalBlobs::find(nearby));
        if let Some(build_env) = &self.run.settings.build_env {
            for layer in &self.image.layers {
                if let Some(file) = build_env.store.blob(&layer.digest) {
                    local.add_file(layer, file);
                }
            }
        }
        local
    }

    /// Adds the layers that this run has kept while an engine or a step read them.
    fn with_kept(&self, mut local: LocalBlobs) -> LocalBlobs {
        for (layer, file) in self.run.settings.cache.complete(&self.image.layers) {
            local.add_file(layer, file);
        }
        local
    }

    async fn archive(&mut self, path: &Path) -> Result<OutputState, ExecuteError> {
        let (name, verified) = (&self.run.plan.name, &self.run.settings.verified);
        if block_in_place(|| archive::holds(path, self.image, name, verified)) {
            archive::remove_unfinished(path);
            return Ok(OutputState::UpToDate);
        }
        let begun = block_in_place(|| ArchiveWriter::begin(path, self.image, name));
        let mut archive = begun.map_err(|e| self.writing(e))?;
        // The archive that is replaced may have some of the layers.
        let mut nearby = self.run.settings.nearby.clone();
        nearby.push(path.to_owned());
        let local = self.with_kept(self.local_in(&nearby));
        let mut written: Vec<&Digest> = Vec::new();
        for layer in &self.image.layers {
            // A manifest may list a layer twice, but its blob is stored once.
            if written.contains(&&layer.digest) {
                continue;
            }
            written.push(&layer.digest);
            let copy = LayerCopy {
                client: self.client().clone(),
                repository: Some(self.source().clone()),
                local: local.clone(),
                transfer: self.transfer.clone(),
                layer: layer.clone(),
            };
            archive.begin_layer(layer).map_err(|e| self.writing(e))?;
            let how = copy.into_archive(&mut archive).await?;
            archive.end_layer(layer).map_err(|e| self.writing(e))?;
            self.placed.add(Some(how));
        }
        block_in_place(|| archive.finish()).map_err(|e| self.writing(e))?;
        Ok(OutputState::Written)
    }

    async fn registry(
        &mut self,
        reference: &ImageRef,
        target: Target,
    ) -> Result<OutputState, ExecuteError> {
        let found = match target {
            Target::Asked(asked) => match asked.await {
                Ok(answer) => answer.map_err(|e| self.pushing(e))?,
                Err(_) => None,
            },
            Target::Found(found) => found,
            Target::Unknown => None,
        };
        if found.as_ref() == Some(&self.image.manifest_digest) {
            return Ok(OutputState::UpToDate);
        }
        let repository = &reference.repository;
        let locations = self.client().locations(self.source());
        // A repository that served the base's manifest also has its layers, because the registry
        // checked that when the manifest was pushed. If another repository may have served the
        // manifest, every layer must be checked.
        let has_served = !self.base.was_cached
            && self.base.own_layers.is_empty()
            && locations == std::slice::from_ref(repository);
        if !has_served {
            self.layers_to(repository).await?;
        }
        let config = self
            .client()
            .push_blob(repository, &self.image.config_digest, self.image.config.clone())
            .await;
        config.map_err(|e| self.pushing(e))?;
        let named = match &reference.tag {
            Some(_) => reference.clone(),
            None => repository.at(&self.image.manifest_digest),
        };
        let pushed =
            self.client().push_manifest(&named, OCI_MANIFEST, self.image.manifest.clone()).await;
        pushed.map_err(|e| self.pushing(e))?;
        Ok(OutputState::Written)
    }

    async fn layers_to(&mut self, repository: &Repository) -> Result<(), ExecuteError> {
        let repository_of_base = Some(self.source().clone());
        let copies = self.pushed.to_vec();
        let files = self.local_in(&[]);
        let cache = self.run.settings.cache.clone();
        let source = LayerSource { files, repository: repository_of_base, copies, cache };
        let client = &self.run.settings.client;
        let target = LayerTarget { client, repository, transfer: &self.transfer };
        target.place(&self.image.layers, &source, &mut self.placed).await
    }
}
