//! One container engine: podman or docker, and the way to it.

use std::path::PathBuf;
use std::time::Duration;

use names::{Builder, EngineKind, ImageRef};

use crate::attach::{self, Attached};
use crate::build::{BuildRequest, Built, OnEvent, RunId};
use crate::clean::{self, Leftover};
use crate::client::{Client, EngineInfo};
use crate::container::{self, ContainerRequest};
use crate::docker::{Docker, DockerBuilder};
use crate::error::EngineError;
use crate::image::{ImageId, Inspect};
use crate::podman::Podman;
use crate::probe::{self, Capabilities};
use crate::service::ServiceSettings;
use crate::wire::ByteStream;

/// A container engine.
///
/// Podman and docker differ in how they are reached and in how they build. All other calls are the
/// same. Every call fails with [`EngineError::Unreachable`] if no engine answers.
#[derive(Debug)]
pub struct Engine(Inner);

#[derive(Debug)]
enum Inner {
    Podman(Box<Podman>),
    Docker(Box<Docker>),
}

impl Engine {
    /// Uses podman over services that this crate starts. Nothing is started yet.
    pub fn podman(settings: ServiceSettings) -> Self {
        Self(Inner::Podman(Box::new(Podman::private(settings))))
    }

    /// Uses podman at a socket. A build that is cancelled may continue to the end of its `RUN`.
    /// Nothing is sent yet.
    pub fn podman_at(socket: PathBuf) -> Self {
        Self(Inner::Podman(Box::new(Podman::at(socket))))
    }

    /// Uses the docker daemon at a socket, which builds with `builder`. Nothing is sent yet.
    pub fn docker_at(socket: PathBuf, builder: DockerBuilder) -> Self {
        Self(Inner::Docker(Box::new(Docker::at(socket, builder))))
    }

    /// Returns which engine it is.
    pub fn kind(&self) -> EngineKind {
        match &self.0 {
            Inner::Podman(_) => EngineKind::Podman,
            Inner::Docker(_) => EngineKind::Docker,
        }
    }

    /// Returns what builds images in it.
    pub fn builder(&self) -> Builder {
        match &self.0 {
            Inner::Podman(_) => Builder::Podman,
            Inner::Docker(docker) => docker.builder().into(),
        }
    }

    /// Returns whether cancelling a build ends its `RUN`.
    pub fn can_cancel(&self) -> bool {
        match &self.0 {
            Inner::Podman(podman) => podman.can_cancel(),
            Inner::Docker(_) => true,
        }
    }

    /// Returns whether it knows `RUN --mount=type=cache`, a folder that outlives a build.
    pub fn has_cache_mounts(&self) -> bool {
        self.builder() != Builder::Classic
    }

    /// Returns a connection. Podman's service is started for it if there is none.
    ///
    /// # Errors
    /// No engine answers, or podman's service does not start.
    pub async fn client(&self) -> Result<Client, EngineError> {
        match &self.0 {
            Inner::Podman(podman) => podman.client().await,
            Inner::Docker(docker) => docker.client().await,
        }
    }

    /// Stops the services that this value started, and waits until they are gone. A build that is
    /// under way keeps its own service.
    pub async fn stop(&self) {
        match &self.0 {
            Inner::Podman(podman) => podman.stop().await,
            Inner::Docker(_) => {}
        }
    }

    /// Builds an image from a context, which is a tar stream.
    ///
    /// It succeeded if the stream named an image and an inspect finds that image with the label of
    /// this run. HTTP 200 and an orderly end mean nothing.
    ///
    /// # Errors
    /// The build failed, or nobody knows how it ended.
    pub async fn build(
        &self,
        request: &BuildRequest,
        context: ByteStream,
        on_event: OnEvent<'_>,
    ) -> Result<Built, EngineError> {
        match &self.0 {
            Inner::Podman(podman) => podman.build(request, context, on_event).await,
            Inner::Docker(docker) => docker.build(request, context, on_event).await,
        }
    }

    /// Finds out what the engine is and, by a tiny `RUN`, what it can do on this machine.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] and [`EngineError::Runtime`] are answers of the engine: it does
    /// not have its builder, or it cannot start containers. Any other failure was tried several
    /// times, and says nothing about what the engine has.
    pub async fn probe(&self) -> Result<Capabilities, EngineError> {
        probe::probe(self).await
    }

    /// Asks what the engine says of itself.
    ///
    /// # Errors
    /// No engine answers, or its answer makes no sense.
    pub async fn info(&self) -> Result<EngineInfo, EngineError> {
        self.client().await?.info().await
    }

    /// Asks for the version, which is quick.
    ///
    /// # Errors
    /// No engine answers, or its answer makes no sense.
    pub async fn version(&self) -> Result<String, EngineError> {
        self.client().await?.version().await
    }

    /// Inspects an image by ID, name, or name and digest.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] if the engine has no such image.
    pub async fn inspect(&self, name: &str) -> Result<Inspect, EngineError> {
        self.client().await?.inspect(name).await
    }

    /// Gives an image one more name, which has a tag.
    ///
    /// # Errors
    /// The engine has no such image, or refuses the name.
    pub async fn tag(&self, image: &ImageId, name: &ImageRef) -> Result<(), EngineError> {
        self.client().await?.tag(image, name).await
    }

    /// Removes an image, or one of its names. It is no error if there is none.
    ///
    /// # Errors
    /// The engine refuses, because something uses the image.
    pub async fn remove_image(&self, name: &str) -> Result<(), EngineError> {
        self.client().await?.remove_image(name, false).await
    }

    /// Pushes an image to a loopback registry of this program, over plain HTTP, within `limit`.
    ///
    /// # Errors
    /// The push failed, or took longer.
    pub async fn push(
        &self,
        image: &ImageId,
        to: &ImageRef,
        limit: Duration,
    ) -> Result<(), EngineError> {
        self.client().await?.push(image, to, limit).await
    }

    /// Pulls an image by digest within `limit`. `is_plain` allows plain HTTP, for loopback.
    ///
    /// # Errors
    /// The pull failed, or took longer.
    pub async fn pull(
        &self,
        name: &ImageRef,
        is_plain: bool,
        limit: Duration,
    ) -> Result<Inspect, EngineError> {
        self.client().await?.pull(name, is_plain, limit).await
    }

    /// Loads an image archive within `limit`, and returns the names or IDs that it brought.
    ///
    /// # Errors
    /// The engine does not take the archive, or loading took longer.
    pub async fn load(
        &self,
        archive: ByteStream,
        limit: Duration,
    ) -> Result<Vec<String>, EngineError> {
        self.client().await?.load(archive, limit).await
    }

    /// Returns the size of the cache of docker's BuildKit, in bytes. podman has no such cache.
    ///
    /// # Errors
    /// The engine does not answer.
    pub async fn build_cache(&self) -> Result<u64, EngineError> {
        self.client().await?.build_cache().await
    }

    /// Lists what is left in the engine of a run, or of all runs, those under way included.
    ///
    /// # Errors
    /// The engine cannot list its containers or images.
    pub async fn leftovers(&self, run: Option<&RunId>) -> Result<Vec<Leftover>, EngineError> {
        if let Inner::Podman(podman) = &self.0 {
            podman.settle().await;
        }
        clean::leftovers(&self.client().await?, run).await
    }

    /// Removes all that is left of a run and ends what still runs of it; nothing else is touched.
    /// Returns what it was.
    ///
    /// # Errors
    /// The engine refuses to remove something.
    pub async fn clean(&self, run: &RunId) -> Result<Vec<Leftover>, EngineError> {
        if let Inner::Podman(podman) = &self.0 {
            podman.quieten().await;
        }
        clean::clean(&self.client().await?, run).await
    }

    /// Removes the bases that runs have offered to the engine, and what was built on them, but for
    /// what [`Engine::clean`] removes. No run may be under way. Returns what it was.
    ///
    /// # Errors
    /// The engine refuses to remove something.
    pub async fn clean_bases(&self) -> Result<Vec<Leftover>, EngineError> {
        clean::clean_bases(&self.client().await?).await
    }

    /// Creates a container and returns its ID.
    ///
    /// # Errors
    /// The engine refuses the request.
    pub async fn create_container(
        &self,
        request: &ContainerRequest,
    ) -> Result<String, EngineError> {
        container::create(&self.client().await?, request).await
    }

    /// Attaches to a container that was created and not yet started.
    ///
    /// # Errors
    /// The engine has no such container.
    pub async fn attach(&self, id: &str, has_terminal: bool) -> Result<Attached, EngineError> {
        attach::attach(&self.client().await?, id, has_terminal).await
    }

    /// Sends a signal, such as `SIGTERM`, to a container that runs.
    ///
    /// # Errors
    /// The container does not run.
    pub async fn signal_container(&self, id: &str, name: &str) -> Result<(), EngineError> {
        container::signal(&self.client().await?, id, name).await
    }

    /// Tells a container with a terminal its rows and columns.
    ///
    /// # Errors
    /// The container does not run.
    pub async fn resize_container(&self, id: &str, size: (u16, u16)) -> Result<(), EngineError> {
        container::resize(&self.client().await?, id, size).await
    }

    /// Starts a container.
    ///
    /// # Errors
    /// The engine cannot start it.
    pub async fn start_container(&self, id: &str) -> Result<(), EngineError> {
        container::start(&self.client().await?, id).await
    }

    /// Waits until a container that was started has ended, and returns its exit status.
    ///
    /// # Errors
    /// The engine has no such container.
    pub async fn wait_for_container(&self, id: &str) -> Result<i64, EngineError> {
        container::wait(&self.client().await?, id).await
    }

    /// Removes a container, a running one too. It is no error if there is none.
    ///
    /// # Errors
    /// The engine refuses.
    pub async fn remove_container(&self, id: &str) -> Result<(), EngineError> {
        clean::remove_container(&self.client().await?, id).await
    }

    /// Returns the OCI runtimes to try, in their order; `None` is the engine's default. A runtime
    /// that the caller chose is the only one.
    pub(crate) fn runtimes(&self) -> &'static [Option<&'static str>] {
        match &self.0 {
            Inner::Podman(podman) if podman.may_choose_runtime() => {
                &[None, Some("crun"), Some("runc")]
            }
            Inner::Podman(_) | Inner::Docker(_) => &[None],
        }
    }

    /// Returns the same podman with another OCI runtime, if its service can be told to use one.
    pub(crate) fn with_runtime(&self, runtime: &str) -> Option<Self> {
        match &self.0 {
            Inner::Podman(podman) => podman.with_runtime(runtime).map(Self::podman),
            Inner::Docker(_) => None,
        }
    }
}
