//! Putting a finished image into the engine.

use engine::{Engine, EngineError};
use names::ImageRef;
use oci::DerivedImage;
use record::OutputState;

use super::Workshop;
use super::build::TRANSFER;
use crate::ExecuteError;

impl Workshop {
    /// Has the engine pull an image from where it is `offered` on loopback, and gives it a name.
    /// Layers that the engine has it does not ask for. An image that it has under this name is left.
    pub(crate) async fn load(
        &self,
        engine: &Engine,
        image: &DerivedImage,
        offered: &ImageRef,
        name: &ImageRef,
    ) -> Result<OutputState, ExecuteError> {
        let failed = |error| ExecuteError::engine(format!("loading `{name}` failed"), error);
        // docker calls an image by its manifest where containerd keeps it, else by its config.
        let is_it = |id: &str| {
            id == image.config_digest.to_string() || id == image.manifest_digest.to_string()
        };
        match engine.inspect(&name.to_string()).await {
            Ok(found) if is_it(found.id.as_str()) => return Ok(OutputState::UpToDate),
            Ok(_) | Err(EngineError::NotFound { .. }) => {}
            Err(error) => return Err(failed(error)),
        }
        // The name on loopback is removed when the run ends; the other keeps the image.
        self.names.lock().await.push(offered.to_string());
        let pulled = engine.pull(offered, true, TRANSFER).await.map_err(failed)?;
        if !is_it(pulled.id.as_str()) {
            return Err(ExecuteError::capture(format!(
                "the engine made another image of `{name}`: `{}`, not `{}`",
                pulled.id, image.config_digest
            )));
        }
        engine.tag(&pulled.id, name).await.map_err(failed)?;
        Ok(OutputState::Written)
    }
}
