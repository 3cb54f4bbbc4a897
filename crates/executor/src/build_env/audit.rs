//! Checks that images, and the wheels for them, have code for a GPU.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::PathBuf;

use audit::{AuditReport, Found, Layer, Layers, VerdictName};
use gpu_code::Wish;
use names::GpuTarget;
use oci::client::RegistryClient;

use super::store::StoredImage;
use super::{BuildEnv, Wheels};
use crate::layers::{LayerError, read_base_layer, visit_layer};
use crate::{BlobCache, ExecuteError};

impl BuildEnv {
    /// Reads all layers of an image, and fails if they contain no code for this GPU. Returns a
    /// summary for users.
    pub(crate) async fn audit(
        &self,
        image: &StoredImage,
        gpu: &GpuTarget,
        client: &RegistryClient,
        cache: &BlobCache,
    ) -> Result<String, ExecuteError> {
        let mut layers = Layers::default();
        for layer in &image.manifest.layers {
            let work = self.store.work()?;
            let visitor = match (self.store.blob(&layer.digest), &image.remote) {
                (Some(path), _) => {
                    let file = File::open(&path).map_err(|error| {
                        ExecuteError::disk(format!("opening `{}` failed", path.display()), error)
                    })?;
                    tokio::task::block_in_place(|| read_layer(work, file))
                        .map_err(ExecuteError::layer)?
                }
                (None, Some(remote)) => {
                    let read = move |reader| read_layer(work.clone(), reader);
                    read_base_layer(client, cache, remote, layer, read).await?
                }
                (None, None) => {
                    let what = format!("the layer `{}` is not in the store", layer.digest);
                    return Err(ExecuteError::capture(what));
                }
            };
            layers.add(visitor);
        }
        let report = read_report(layers.finish(), gpu)?;
        if !report.is_usable() {
            return Err(lacks("the image contains", &report));
        }
        Ok(summary(&report))
    }

    /// Reads wheels, and fails if they contain GPU code, but none for this GPU. Returns a summary
    /// for users.
    pub(crate) fn audit_wheels(
        &self,
        wheels: &Wheels,
        gpu: &GpuTarget,
    ) -> Result<String, ExecuteError> {
        let work = self.store.work()?;
        let mut found = Found::default();
        for (name, archive) in wheels.files() {
            let failed = |error| {
                let what = format!("opening `{}` failed", archive.path().display());
                ExecuteError::disk(what, error)
            };
            let file = BufReader::new(File::open(archive.path()).map_err(failed)?);
            found
                .add_zip(&format!("{name}/"), file, Some(&work))
                .map_err(|error| ExecuteError::wheel(name, error))?;
        }
        let report = read_report(found, gpu)?;
        match report.verdict {
            VerdictName::HostOnly => return Ok("the wheels contain no GPU code".to_owned()),
            VerdictName::Unreadable => {
                return Ok("the wheels do not name the GPUs that their code is for".to_owned());
            }
            _ => {}
        }
        if !report.is_usable() {
            return Err(lacks("the wheels contain", &report));
        }
        Ok(summary(&report))
    }
}

/// Returns the report for a GPU. Fails if a file is damaged.
/// Returns what a layer contains. `work` is for temporary files.
fn read_layer(work: PathBuf, reader: impl Read) -> Result<Layer, LayerError> {
    let mut visitor = Layer::new(Some(work));
    visit_layer(reader, None, &mut visitor)?;
    Ok(visitor)
}

fn read_report(found: Found, gpu: &GpuTarget) -> Result<AuditReport, ExecuteError> {
    let wish = Wish { gpu: gpu.clone(), forced: None, spoof: None };
    let report = AuditReport::new(String::new(), found, &wish);
    if let Some(damaged) = report.unreadable.first() {
        let (path, why) = (&damaged.path, &damaged.why);
        return Err(ExecuteError::gpu_code(format!("`{path}` is damaged: {why}")));
    }
    Ok(report)
}

/// Returns the error for files without code for the GPU. `contain` is the subject and the verb of
/// its message.
fn lacks(contain: &str, report: &AuditReport) -> ExecuteError {
    let found: Vec<&str> = report.targets.iter().map(|one| &*one.target).collect();
    let only = match &*found {
        [] => String::new(),
        found => format!(", only for {}", found.join(", ")),
    };
    ExecuteError::gpu_code(format!("{contain} no code for {}{only}", report.gpu))
}

fn summary(report: &AuditReport) -> String {
    let usable = |verdict| matches!(verdict, VerdictName::Native | VerdictName::Generic);
    let parts = report.parts.iter().filter(|part| usable(part.verdict)).count();
    format!("{parts} of {} parts with GPU code have code for {}", report.parts.len(), report.gpu)
}
