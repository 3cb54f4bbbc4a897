//! Copies a layer to disk: from a file on this machine if one contains it, else from a registry.
//!
//! The data of an interrupted copy is kept, and checked together with the rest.

use std::fs::{self, File};
use std::io::{self, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use futures_util::StreamExt as _;
use names::Repository;
use oci::archive::ArchiveWriter;
use oci::client::{BlobStream, ErrorKind, Prefix, RegistryClient, RegistryError};
use oci::media::Descriptor;
use oci::{LayoutError, LocalBlobs, open_part, part_of};
use tokio::task::{JoinSet, block_in_place};
use tokio_util::task::TaskTracker;

use crate::ExecuteError;
use crate::place::{How, LAYERS_AT_ONCE, Transfer, joined};

/// A layer to copy.
pub(crate) struct LayerCopy {
    pub(crate) client: RegistryClient,
    /// The repository that has it, unless it is only on this machine.
    pub(crate) repository: Option<Repository>,
    /// The files on this machine that may contain it.
    pub(crate) local: LocalBlobs,
    pub(crate) transfer: Transfer,
    pub(crate) layer: Descriptor,
}

/// Copies layers into files, several at once. `done` is called for each.
///
/// Each copy is spawned on `running`, so that the caller can wait for it. If one copy fails, the
/// others are stopped, but a stopped copy may keep running for a moment and write to a file that
/// the next run continues.
pub(crate) async fn copy_into_files(
    layers: Vec<(LayerCopy, PathBuf)>,
    running: &TaskTracker,
    mut done: impl FnMut(How),
) -> Result<(), ExecuteError> {
    let mut copies = JoinSet::new();
    for (copy, file) in layers {
        if copies.len() == LAYERS_AT_ONCE {
            joined(&mut copies).await?.map(&mut done);
        }
        copies.spawn(running.track_future(async move { copy.into_file(&file).await }));
    }
    while let Some(how) = joined(&mut copies).await? {
        done(how);
    }
    Ok(())
}

/// Where a layer is written to.
trait Sink {
    /// Returns the part of the layer that an earlier copy already wrote.
    fn beginning(&mut self, layer: &Descriptor) -> Result<Prefix, LayoutError>;
    /// Removes what was written.
    fn restart(&mut self) -> Result<(), LayoutError>;
    fn write(&mut self, piece: &[u8]) -> Result<(), LayoutError>;
}

impl LayerCopy {
    /// Writes the layer to a file, which appears when it is complete.
    pub(crate) async fn into_file(self, path: &Path) -> Result<How, ExecuteError> {
        let failed = |source| self.writing(LayoutError::Write { path: path.to_owned(), source });
        let mut sink = block_in_place(|| PartFile::open(path)).map_err(|e| self.writing(e))?;
        let how = self.copy(&mut sink).await?;
        block_in_place(|| sink.finish(path)).map_err(failed)?;
        Ok(how)
    }

    /// Writes the layer as the current entry of an archive.
    pub(crate) async fn into_archive(
        self,
        archive: &mut ArchiveWriter,
    ) -> Result<How, ExecuteError> {
        self.copy(archive).await
    }

    async fn copy(&self, sink: &mut impl Sink) -> Result<How, ExecuteError> {
        let Self { client, repository, local, layer, .. } = self;
        let mut beginning =
            block_in_place(|| sink.beginning(layer)).map_err(|e| self.writing(e))?;
        // Copying from this machine is faster than fetching the rest from the registry, and needs
        // no network.
        if beginning.length() < layer.size
            && let Some(stream) = local.layer(layer)
        {
            if beginning.length() > 0 {
                block_in_place(|| sink.restart()).map_err(|e| self.writing(e))?;
            }
            match self.write(stream, sink, &|_| {}).await? {
                Ok(()) => {
                    self.transfer.has(layer);
                    return Ok(How::There);
                }
                Err(error) if repository.is_none() => return Err(self.fetching(error)),
                // The file is damaged. The registry has the layer.
                Err(error) => {
                    tracing::info!(%error, layer = %layer.digest, "a layer on this machine is damaged");
                    block_in_place(|| sink.restart()).map_err(|e| self.writing(e))?;
                    let again = block_in_place(|| sink.beginning(layer));
                    beginning = again.map_err(|e| self.writing(e))?;
                }
            }
        }
        let kept = beginning.length();
        if kept == layer.size {
            self.transfer.has(layer);
        }
        let Some(repository) = repository else { return self.kept(beginning, sink).await };
        let rest = client.rest_of_blob(repository, &layer.digest, layer.size, beginning).await;
        let copied = match rest {
            Ok(stream) => {
                self.write(stream, sink, &self.transfer.ticker_after(layer, kept)).await?
            }
            Err(error) => Err(error),
        };
        match copied {
            Ok(()) if kept == layer.size => Ok(How::There),
            Ok(()) => Ok(How::Copied),
            // The part that an earlier copy left may be damaged. If a mirror sent wrong bytes, the
            // next location may have the right ones.
            Err(error)
                if error.kind() == ErrorKind::Integrity
                    && (kept > 0 || error.is_worth_reopening()) =>
            {
                block_in_place(|| sink.restart()).map_err(|e| self.writing(e))?;
                let whole = client.blob_stream(repository, &layer.digest, layer.size).await;
                let written = match whole {
                    Ok(stream) => self.write(stream, sink, &self.transfer.ticker(layer)).await?,
                    Err(later) => Err(later),
                };
                written.map(|()| How::Copied).map_err(|later| {
                    // If no other location has the layer, the wrong bytes are more useful to know.
                    let is_told = later.kind() == ErrorKind::Integrity || kept > 0;
                    self.fetching(if is_told { later } else { error })
                })
            }
            Err(error) => {
                if error.kind() == ErrorKind::Integrity {
                    block_in_place(|| sink.restart()).map_err(|e| self.writing(e))?;
                }
                Err(self.fetching(error))
            }
        }
    }

    /// Checks an earlier copy of a blob that is only on this machine, and copies the blob again if
    /// the copy is damaged.
    async fn kept(&self, beginning: Prefix, sink: &mut impl Sink) -> Result<How, ExecuteError> {
        if beginning.is(&self.layer) {
            return Ok(How::There);
        }
        block_in_place(|| sink.restart()).map_err(|e| self.writing(e))?;
        let missing =
            || ExecuteError::plan(format!("`{}` is not on this machine", self.layer.digest));
        let stream = self.local.layer(&self.layer).ok_or_else(missing)?;
        let copied = self.write(stream, sink, &|_| {}).await?;
        copied.map(|()| How::There).map_err(|error| self.fetching(error))
    }

    /// Writes a stream. The inner error comes from the stream.
    async fn write(
        &self,
        mut stream: BlobStream,
        sink: &mut impl Sink,
        tick: &(impl Fn(u64) + ?Sized),
    ) -> Result<Result<(), RegistryError>, ExecuteError> {
        while let Some(piece) = stream.next().await {
            let piece = match piece {
                Ok(piece) => piece,
                Err(error) => return Ok(Err(error)),
            };
            block_in_place(|| sink.write(&piece)).map_err(|e| self.writing(e))?;
            tick(piece.len() as u64);
        }
        Ok(Ok(()))
    }

    fn fetching(&self, source: RegistryError) -> ExecuteError {
        ExecuteError::registry(format!("fetching layer `{}` failed", self.layer.digest), source)
    }

    fn writing(&self, source: LayoutError) -> ExecuteError {
        ExecuteError::layout(format!("writing `{}` failed", self.transfer.output), source)
    }
}

impl Sink for ArchiveWriter {
    fn beginning(&mut self, layer: &Descriptor) -> Result<Prefix, LayoutError> {
        self.keep_beginning(layer)
    }

    fn restart(&mut self) -> Result<(), LayoutError> {
        self.restart_layer()
    }

    fn write(&mut self, piece: &[u8]) -> Result<(), LayoutError> {
        Self::write(self, piece)
    }
}

/// A blob that is being written next to its final place.
struct PartFile {
    part: PathBuf,
    file: File,
}

impl PartFile {
    fn open(path: &Path) -> Result<Self, LayoutError> {
        Ok(Self { part: part_of(path), file: open_part(path)? })
    }

    fn clear(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()
    }

    fn finish(self, path: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.part, path)?;
        match path.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }

    fn failed(&self, source: io::Error) -> LayoutError {
        // The disk may be full.
        drop(fs::remove_file(&self.part));
        LayoutError::Write { path: self.part.clone(), source }
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if self.file.metadata().is_ok_and(|found| found.len() == 0) {
            drop(fs::remove_file(&self.part));
        }
    }
}

impl Sink for PartFile {
    fn beginning(&mut self, layer: &Descriptor) -> Result<Prefix, LayoutError> {
        let mut read = || {
            if self.file.metadata()?.len() > layer.size {
                self.clear()?;
            }
            Prefix::read(&self.file)
        };
        read().map_err(|source| LayoutError::Read { path: self.part.clone(), source })
    }

    fn restart(&mut self) -> Result<(), LayoutError> {
        self.clear().map_err(|source| self.failed(source))
    }

    fn write(&mut self, piece: &[u8]) -> Result<(), LayoutError> {
        self.file.write_all(piece).map_err(|source| self.failed(source))
    }
}
