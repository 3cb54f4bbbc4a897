//! Loads a finished image into the engine, and makes the engine pull what is offered to it.

use engine::{Engine, EngineError, Inspect};
use names::ImageRef;
use oci::DerivedImage;
use oci::media::Descriptor;
use record::OutputState;

use super::BuildEnv;
use super::build::TRANSFER;
use crate::{BlobCache, ExecuteError};

impl BuildEnv {
    /// Makes the engine pull an image from `offered` on loopback, and gives the image a name. The
    /// engine requests only the layers that it lacks. If it already has the image under this name,
    /// nothing is done.
    pub(crate) async fn load(
        &self,
        engine: &Engine,
        image: &DerivedImage,
        offered: &ImageRef,
        name: &ImageRef,
        cache: &BlobCache,
    ) -> Result<OutputState, ExecuteError> {
        let failed = |error| ExecuteError::engine(format!("loading `{name}` failed"), error);
        // docker identifies an image by its manifest if containerd stores it, otherwise by its
        // config.
        let is_it = |id: &str| {
            id == image.config_digest.to_string() || id == image.manifest_digest.to_string()
        };
        match engine.inspect(&name.to_string()).await {
            Ok(found) if is_it(found.id.as_str()) => return Ok(OutputState::UpToDate),
            Ok(_) | Err(EngineError::NotFound { .. }) => {}
            Err(error) => return Err(failed(error)),
        }
        // The loopback name is removed when the run ends. The other name keeps the image.
        self.names.lock().await.push(offered.to_string());
        let pulled = pull(engine, offered, &image.layers, cache).await.map_err(failed)?;
        if !is_it(pulled.id.as_str()) {
            return Err(ExecuteError::capture(format!(
                "the engine turned `{name}` into a different image: `{}`, not `{}`",
                pulled.id, image.config_digest
            )));
        }
        engine.tag(&pulled.id, name).await.map_err(failed)?;
        Ok(OutputState::Written)
    }
}

/// Makes the engine pull an image from the loopback registry. If a pull is interrupted, the engine
/// discards what it has received, so the beginnings of the layers are kept until it has the image.
pub(super) async fn pull(
    engine: &Engine,
    offered: &ImageRef,
    layers: &[Descriptor],
    cache: &BlobCache,
) -> Result<Inspect, EngineError> {
    let partial = cache.partial(layers);
    let mut pulled = engine.pull(offered, true, TRANSFER).await;
    // If a damaged beginning was found, it has been removed, and another attempt may succeed.
    if pulled.is_err() && cache.partial(layers).len() < partial.len() {
        pulled = engine.pull(offered, true, TRANSFER).await;
    }
    if pulled.is_ok() {
        cache.remove_parts(layers);
    }
    pulled
}
