//! Loads a finished image into the engine, and makes the engine pull what is offered to it.

use engine::{Engine, EngineError, Inspect};
use names::ImageRef;
use oci::DerivedImage;
use oci::media::Descriptor;
use record::OutputState;
use tokio::task::block_in_place;

use super::BuildEnv;
use super::build::TRANSFER;
use super::sink::{Origin, Sink, Unread};
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
        sink: &Sink,
        origin: Origin<'_>,
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
        let pulled = pull(engine, offered, &image.layers, sink, origin).await;
        let pulled = pulled.map_err(|error| error.or_else(failed))?;
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

/// The most pulls of one image that are repeated because a layer can be read from elsewhere.
const PULLS: usize = 16;

/// Why the engine did not get an image from the loopback registry.
pub(super) enum PullError {
    /// A layer could not be read, so the engine is not at fault.
    Unread(Unread),
    /// The engine failed.
    Engine(EngineError),
}

impl PullError {
    /// Returns the error for a step or an output. `of_engine` is called if the engine failed.
    pub(super) fn or_else(self, of_engine: impl Fn(EngineError) -> ExecuteError) -> ExecuteError {
        match self {
            Self::Unread(unread) => unread.into_error(),
            Self::Engine(error) => of_engine(error),
        }
    }
}

/// Makes the engine pull an image from the loopback registry. If a pull is interrupted, the engine
/// discards what it has received, so the beginnings of the layers are kept until it has the image.
pub(super) async fn pull(
    engine: &Engine,
    offered: &ImageRef,
    layers: &[Descriptor],
    sink: &Sink,
    origin: Origin<'_>,
) -> Result<Inspect, PullError> {
    let (mut pulls, mut wrong) = (0, None);
    loop {
        pulls += 1;
        let partial = origin.cache.partial(layers).len();
        // A layer of an earlier pull says nothing about this one.
        drop(sink.take_unread(layers));
        let error = match engine.pull(offered, true, TRANSFER).await {
            Ok(pulled) => return Ok(pulled),
            Err(error) => error,
        };
        let unread = sink.take_unread(layers);
        if matches!(error, EngineError::DiskFull { .. }) {
            return Err(PullError::Engine(error));
        }
        // If a damaged beginning was found, it has been removed. If a mirror or a file on this
        // machine had wrong bytes, it is no longer used. In these cases, another attempt may succeed.
        let is_wrong = unread.as_ref().is_some_and(Unread::is_worth_reopening);
        let has_damage = block_in_place(|| origin.client.has_damaged_copy(layers));
        let may_pass = is_wrong || has_damage || origin.cache.partial(layers).len() < partial;
        if !may_pass || pulls == PULLS {
            // If no other location has the layer, the wrong bytes are more useful to know. docker
            // then continues with a range, and reports only that the blob is unknown.
            return Err(wrong.or(unread).map_or(PullError::Engine(error), PullError::Unread));
        }
        if is_wrong {
            wrong = wrong.or(unread);
        }
    }
}
