//! Loads a finished image into the engine.

use engine::{Engine, EngineError};
use names::ImageRef;
use oci::DerivedImage;
use record::OutputState;

use super::BuildEnv;
use super::build::TRANSFER;
use crate::ExecuteError;

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
        let pulled = engine.pull(offered, true, TRANSFER).await.map_err(failed)?;
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
