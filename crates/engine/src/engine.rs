//! One container engine, podman or docker, and the connection to it.

use std::path::PathBuf;
use std::time::Duration;

use names::{Builder, EngineKind, ImageRef};

use crate::attach::{self, Attached};
use crate::build::{BuildRequest, Built, OnEvent, RunId};
use crate::clean::{self, Leftover};
use crate::client::{Client, EngineInfo};
use crate::container::{self, ContainerRequest};
use crate::dialect::Dialect;
use crate::docker::{Docker, DockerBuilder};
use crate::error::EngineError;
use crate::image::{ImageId, Inspect};
use crate::podman::{Libpod, Podman};
use crate::probe::{self, Capabilities};
use crate::retry::Retries;
use crate::service::ServiceSettings;
use crate::wire::ByteStream;

/// A container engine.
///
/// podman and docker differ in how this tool reaches them and in how they build. All other calls
/// are the same. Every call fails with [`EngineError::Unreachable`] if no engine answers, or with
/// [`EngineError::Service`] if this tool's podman service does not start.
#[derive(Debug)]
pub struct Engine(Inner);

/// All dialects.
pub(crate) const DIALECTS: [&dyn Dialect; 3] =
    [&Libpod, &DockerBuilder::Classic, &DockerBuilder::BuildKit];

#[derive(Debug)]
enum Inner {
    Podman(Box<Podman>),
    Docker(Box<Docker>),
}

impl Engine {
    /// Uses podman through services that this crate starts. Nothing is started yet.
    pub fn podman(settings: ServiceSettings) -> Self {
        Self(Inner::Podman(Box::new(Podman::private(settings))))
    }

    /// Uses podman at a socket. A cancelled build may continue to the end of its `RUN`. Nothing is
    /// sent yet.
    pub fn podman_at(socket: PathBuf) -> Self {
        Self(Inner::Podman(Box::new(Podman::at(socket))))
    }

    /// Uses the docker daemon at a socket, which builds with `builder`. Nothing is sent yet.
    pub fn docker_at(socket: PathBuf, builder: DockerBuilder) -> Self {
        Self(Inner::Docker(Box::new(Docker::at(socket, builder))))
    }

    /// Uses the engine at a socket. docker builds with `builder`, by default with BuildKit. Nothing
    /// is sent yet.
    pub fn at(kind: EngineKind, socket: PathBuf, builder: Option<DockerBuilder>) -> Self {
        match kind {
            EngineKind::Podman => Self::podman_at(socket),
            EngineKind::Docker => {
                Self::docker_at(socket, builder.unwrap_or(DockerBuilder::BuildKit))
            }
        }
    }

    /// Returns the same engine with the builder to use if its own is not available.
    pub fn fallback(&self) -> Option<Self> {
        match &self.0 {
            Inner::Docker(docker) if docker.builder() == DockerBuilder::BuildKit => {
                Some(Self::docker_at(docker.socket().to_owned(), DockerBuilder::Classic))
            }
            Inner::Podman(_) | Inner::Docker(_) => None,
        }
    }

    /// Returns the builder that a build would use, given the version of the engine's API and the
    /// docker builder that the user selected. docker 18.09 (API 1.39) introduced BuildKit.
    pub fn expected_builder(&self, api_version: &str, selected: Option<DockerBuilder>) -> Builder {
        let minor = api_version.strip_prefix("1.").and_then(|minor| minor.parse::<u32>().ok());
        match (&self.0, selected) {
            (Inner::Docker(_), Some(selected)) => selected.into(),
            (Inner::Docker(_), None) if minor.is_some_and(|minor| minor < 39) => Builder::Classic,
            (Inner::Docker(_), None) => Builder::BuildKit,
            (Inner::Podman(_), _) => self.builder(),
        }
    }

    /// Returns what the engine and its builder do differently.
    pub(crate) fn dialect(&self) -> &'static dyn Dialect {
        match &self.0 {
            Inner::Podman(_) => &Libpod,
            Inner::Docker(docker) => docker.dialect(),
        }
    }

    /// Returns the kind of the engine.
    pub fn kind(&self) -> EngineKind {
        self.dialect().kind()
    }

    /// Returns the builder of this engine.
    pub fn builder(&self) -> Builder {
        self.dialect().builder()
    }

    /// Returns whether cancelling a build stops its `RUN`.
    pub fn can_cancel(&self) -> bool {
        match &self.0 {
            Inner::Podman(podman) => podman.can_cancel(),
            Inner::Docker(_) => true,
        }
    }

    /// Returns whether it supports `RUN --mount=type=cache`, a folder that persists between builds.
    pub fn has_cache_mounts(&self) -> bool {
        self.dialect().has_cache_mounts()
    }

    /// Returns a connection. Starts podman's service first if necessary.
    ///
    /// # Errors
    /// Fails if no engine answers or podman's service does not start.
    pub async fn client(&self) -> Result<Client, EngineError> {
        match &self.0 {
            Inner::Podman(podman) => podman.client().await,
            Inner::Docker(docker) => docker.client().await,
        }
    }

    /// Stops the services that this value started, and waits until they have ended. A running build
    /// keeps its own service.
    pub async fn stop(&self) {
        match &self.0 {
            Inner::Podman(podman) => podman.stop().await,
            Inner::Docker(_) => {}
        }
    }

    /// Builds an image from a context, given as a tar stream.
    ///
    /// The build succeeded if the stream names an image, and `inspect` finds that image with the
    /// label of this run. HTTP 200 and an orderly end of the stream prove nothing.
    ///
    /// # Errors
    /// Fails if the build failed or if its outcome is unknown.
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

    /// Determines which engine this is and, with a tiny `RUN`, what it can do on this machine.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] and [`EngineError::Runtime`] mean that the engine itself
    /// reports that its builder is missing or that it cannot start containers. Any other failure
    /// has been retried several times, and does not show what the engine can do.
    pub async fn probe(&self) -> Result<Capabilities, EngineError> {
        probe::probe(self).await
    }

    /// Returns the facts that the engine reports about itself.
    ///
    /// # Errors
    /// Fails if no engine answers or the response is invalid.
    pub async fn info(&self) -> Result<EngineInfo, EngineError> {
        self.client().await?.info().await
    }

    /// Returns the engine's version. This is faster than [`Engine::info`].
    ///
    /// # Errors
    /// Fails if no engine answers or the response is invalid.
    pub async fn version(&self) -> Result<String, EngineError> {
        self.client().await?.version().await
    }

    /// Inspects an image by ID, name, or name and digest.
    ///
    /// # Errors
    /// Returns [`EngineError::NotFound`] if the engine does not have the image.
    pub async fn inspect(&self, name: &str) -> Result<Inspect, EngineError> {
        self.client().await?.inspect(name).await
    }

    /// Adds a name to an image. The name must have a tag.
    ///
    /// # Errors
    /// Fails if the engine does not have the image or refuses the name.
    pub async fn tag(&self, image: &ImageId, name: &ImageRef) -> Result<(), EngineError> {
        self.client().await?.tag(image, name).await
    }

    /// Removes an image, or one of its names. Succeeds if there is no such image.
    ///
    /// # Errors
    /// Fails if the engine refuses because the image is in use.
    pub async fn remove_image(&self, name: &str) -> Result<(), EngineError> {
        self.client().await?.remove_image(name, false).await
    }

    /// Pushes an image over plain HTTP to one of this tool's loopback registries, within `limit`.
    ///
    /// # Errors
    /// Fails if the push fails or takes longer.
    pub async fn push(
        &self,
        image: &ImageId,
        to: &ImageRef,
        limit: Duration,
    ) -> Result<(), EngineError> {
        let client = self.client().await?;
        let mut retries = Retries::default();
        loop {
            match client.push(image, to, limit).await {
                Err(error) if retries.follow(&error).await => {}
                end => return end,
            }
        }
    }

    /// Pulls an image by digest within `limit`. `is_plain` allows plain HTTP, for loopback
    /// registries.
    ///
    /// # Errors
    /// Fails if the pull fails or takes longer.
    pub async fn pull(
        &self,
        name: &ImageRef,
        is_plain: bool,
        limit: Duration,
    ) -> Result<Inspect, EngineError> {
        let client = self.client().await?;
        let mut retries = Retries::default();
        loop {
            match client.pull(name, is_plain, limit).await {
                Err(error) if retries.follow(&error).await => {}
                end => return end,
            }
        }
    }

    /// Loads an image archive within `limit`, and returns the names or IDs of the loaded images.
    ///
    /// # Errors
    /// Fails if the engine refuses the archive or loading takes longer.
    pub async fn load(
        &self,
        archive: ByteStream,
        limit: Duration,
    ) -> Result<Vec<String>, EngineError> {
        self.client().await?.load(archive, limit).await
    }

    /// Returns the size of BuildKit's cache in docker, in bytes. podman does not have such a cache.
    ///
    /// # Errors
    /// Fails if the engine does not answer.
    pub async fn build_cache(&self) -> Result<u64, EngineError> {
        self.client().await?.build_cache().await
    }

    /// Lists what one run or all runs, including active ones, have left in the engine. First
    /// removes images that a killed podman did not finish.
    ///
    /// # Errors
    /// Fails if the engine cannot list its containers or images, or remove an unfinished image.
    pub async fn leftovers(&self, run: Option<&RunId>) -> Result<Vec<Leftover>, EngineError> {
        if let Inner::Podman(podman) = &self.0 {
            podman.settle().await;
        }
        clean::leftovers(&self.client().await?, run).await
    }

    /// Stops and removes everything that a run left in the engine, and nothing else. Returns what
    /// was removed.
    ///
    /// # Errors
    /// Fails if the engine refuses to remove something.
    pub async fn clean(&self, run: &RunId) -> Result<Vec<Leftover>, EngineError> {
        if let Inner::Podman(podman) = &self.0 {
            podman.quieten().await;
        }
        clean::clean(&self.client().await?, run).await
    }

    /// Removes the bases that runs offered to the engine and the images built on them, except those
    /// that [`Engine::clean`] removes. Call this only if no run is active. Returns what was
    /// removed.
    ///
    /// # Errors
    /// Fails if the engine refuses to remove something.
    pub async fn clean_bases(&self) -> Result<Vec<Leftover>, EngineError> {
        clean::clean_bases(&self.client().await?).await
    }

    /// Creates a container and returns its ID.
    ///
    /// # Errors
    /// Fails if the engine refuses the request.
    pub async fn create_container(
        &self,
        request: &ContainerRequest,
    ) -> Result<String, EngineError> {
        container::create(&self.client().await?, request).await
    }

    /// Attaches to a container that has been created but not started.
    ///
    /// # Errors
    /// Fails if the engine does not have the container.
    pub async fn attach(&self, id: &str, has_terminal: bool) -> Result<Attached, EngineError> {
        attach::attach(&self.client().await?, id, has_terminal).await
    }

    /// Sends a signal, such as `SIGTERM`, to a running container.
    ///
    /// # Errors
    /// Fails if the container is not running.
    pub async fn signal_container(&self, id: &str, name: &str) -> Result<(), EngineError> {
        container::signal(&self.client().await?, id, name).await
    }

    /// Sets the size of a container's terminal, in rows and columns.
    ///
    /// # Errors
    /// Fails if the container is not running.
    pub async fn resize_container(&self, id: &str, size: (u16, u16)) -> Result<(), EngineError> {
        container::resize(&self.client().await?, id, size).await
    }

    /// Starts a container.
    ///
    /// # Errors
    /// Fails if the engine cannot start it.
    pub async fn start_container(&self, id: &str) -> Result<(), EngineError> {
        container::start(&self.client().await?, id).await
    }

    /// Waits until a started container has ended, and returns its exit status.
    ///
    /// # Errors
    /// Fails if the engine does not have the container.
    pub async fn wait_for_container(&self, id: &str) -> Result<i64, EngineError> {
        container::wait(&self.client().await?, id).await
    }

    /// Removes a container, even if it is running. Succeeds if there is no such container.
    ///
    /// # Errors
    /// Fails if the engine refuses.
    pub async fn remove_container(&self, id: &str) -> Result<(), EngineError> {
        clean::remove_container(&self.client().await?, id).await
    }

    /// Returns the OCI runtimes to try, in order; `None` is the engine's default. If the caller
    /// chose a runtime, only that one is tried.
    pub(crate) fn runtimes(&self) -> &'static [Option<&'static str>] {
        match &self.0 {
            Inner::Podman(podman) if podman.may_choose_runtime() => {
                &[None, Some("crun"), Some("runc")]
            }
            Inner::Podman(_) | Inner::Docker(_) => &[None],
        }
    }

    /// Returns the same podman with a different OCI runtime, if its service can be configured.
    pub(crate) fn with_runtime(&self, runtime: &str) -> Option<Self> {
        match &self.0 {
            Inner::Podman(podman) => podman.with_runtime(runtime).map(Self::podman),
            Inner::Docker(_) => None,
        }
    }
}
