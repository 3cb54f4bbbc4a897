//! Checks which GPUs an image contains code for.

use std::fs::File;

use audit::{AuditReport, Layer, Layers, VerdictName};
use gpu_code::Wish;
use names::GpuTarget;
use oci::client::RegistryClient;

use super::BuildEnv;
use super::store::StoredImage;
use crate::ExecuteError;
use crate::layers::{read_remote_layer, visit_layer};

impl BuildEnv {
    /// Reads all layers of an image, and fails if they contain no code for a GPU. Returns what was
    /// found, as text for users.
    pub(crate) async fn audit(
        &self,
        image: &StoredImage,
        gpu: &GpuTarget,
        client: &RegistryClient,
    ) -> Result<String, ExecuteError> {
        let mut layers = Layers::default();
        for layer in &image.manifest.layers {
            let mut visitor = Layer::new(Some(self.store.work()?));
            let visitor = match (self.store.blob(&layer.digest), &image.remote) {
                (Some(path), _) => {
                    let file = File::open(&path).map_err(|error| {
                        ExecuteError::disk(format!("opening `{}` failed", path.display()), error)
                    })?;
                    let read = || visit_layer(file, None, &mut visitor);
                    tokio::task::block_in_place(read).map_err(ExecuteError::layer)?;
                    visitor
                }
                (None, Some(remote)) => {
                    let read = |reader| visit_layer(reader, None, &mut visitor).map(|()| visitor);
                    read_remote_layer(client, remote, layer, read).await?
                }
                (None, None) => {
                    let what = format!("the layer `{}` is not in the store", layer.digest);
                    return Err(ExecuteError::capture(what));
                }
            };
            layers.add(visitor);
        }
        let wish = Wish { gpu: gpu.clone(), forced: None, spoof: None };
        let report = AuditReport::new(String::new(), layers.finish(), &wish);
        if let Some(damaged) = report.unreadable.first() {
            let (path, why) = (&damaged.path, &damaged.why);
            return Err(ExecuteError::gpu_code(format!("`{path}` is damaged: {why}")));
        }
        if !report.is_usable() {
            let found: Vec<&str> = report.targets.iter().map(|one| &*one.target).collect();
            let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
            let what = format!("the image contains no code for {gpu}; its targets: {found}");
            return Err(ExecuteError::gpu_code(what));
        }
        let usable = |verdict| matches!(verdict, VerdictName::Native | VerdictName::Generic);
        let parts = report.parts.iter().filter(|part| usable(part.verdict)).count();
        Ok(format!("{parts} of {} parts with GPU code have code for {gpu}", report.parts.len()))
    }
}
