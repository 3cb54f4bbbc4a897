//! Asks podman or docker to build, push, load, inspect and run, and removes what is ours.
//!
//! Where to start:
//! - [`Engine`] is what both can do; [`Podman`] and [`Docker`] are the two.
//! - [`Engine::build`] judges a build by its stream *and* by an inspect of the image it names.
//! - [`discover()`] says which sockets to try, and why the others were passed over.
//! - [`Engine::probe`] finds out by a tiny `RUN` what an engine can really do here.
//!
//! An engine is reached over its socket only, never through its command line: a `podman build`
//! that is killed may leave a store in which no image can be listed any more. This crate reads no
//! environment and prints nothing. Texts of an engine are handed on as they came; whoever shows
//! them cleans them.
//!
//! Futures may be dropped at any point, and that is how a build is cancelled. On docker the `RUN`
//! ends with the connection. podman goes on to the end of the `RUN`, so there each build has a
//! `podman system service` of its own, which is ended with all that it runs; where the user named a
//! socket, podman cannot be made to stop.

mod attach;
mod build;
mod buildkit;
mod clean;
mod client;
mod container;
mod discover;
mod docker;
mod dockerfile;
mod error;
mod image;
mod lines;
mod podman;
mod probe;
mod records;
mod service;
mod specgen;
mod transcript;
mod wire;

use std::time::Duration;

use names::ImageRef;

pub use attach::{Attached, ContainerInput, ContainerOutput, Output};
pub use build::{BuildRequest, Built, CONTAINER_LABEL, Network, OnEvent, RUN_LABEL, RunId};
pub use clean::{Leftover, LeftoverKind};
pub use client::{Client, EngineInfo};
pub use container::{ContainerRequest, Device, Mount, PublishedPort};
pub use discover::{Address, Candidate, Discovery, PassedOver, Surroundings, candidates, discover};
pub use docker::{Docker, DockerBuilder};
pub use dockerfile::without_cache_mounts;
pub use error::{EngineError, RunFailure};
pub use image::{ImageId, Inspect};
pub use lines::{LINE_CAP, Line, LineAssembler};
pub use podman::Podman;
pub use probe::{Capabilities, RunProbe};
pub use service::{ServiceSettings, abandoned, sweep};
pub use transcript::{BuildEvent, StepMarker};
pub use wire::ByteStream;

/// Which engine it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// podman, over its own API and its docker-compatible one.
    Podman,
    /// docker.
    Docker,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        })
    }
}

/// A container engine.
///
/// The two differ in how they are reached and in how they build; all else is provided.
/// Every method fails with [`EngineError::Unreachable`] where no engine answers.
pub trait Engine: Send + Sync {
    /// Returns which engine it is.
    fn kind(&self) -> Kind;

    /// Returns a connection; podman's service is started for it where there is none.
    fn client(&self) -> impl Future<Output = Result<Client, EngineError>> + Send;

    /// Builds an image of a context, which is a tar stream.
    ///
    /// It succeeded if the stream named an image and an inspect finds that image with the label of
    /// this run. HTTP 200 and an orderly end mean nothing.
    fn build(
        &self,
        request: &BuildRequest,
        context: ByteStream,
        on_event: OnEvent<'_>,
    ) -> impl Future<Output = Result<Built, EngineError>> + Send;

    /// Returns whether it knows `RUN --mount=type=cache`, a folder that outlives a build.
    fn has_cache_mounts(&self) -> bool {
        true
    }

    /// Finds out what the engine is and, by a tiny `RUN`, what it can do on this machine.
    fn probe(&self) -> impl Future<Output = Result<Capabilities, EngineError>> + Send;

    /// Asks what the engine says of itself.
    fn info(&self) -> impl Future<Output = Result<EngineInfo, EngineError>> + Send {
        async { self.client().await?.info().await }
    }

    /// Asks for the version, which is quick.
    fn version(&self) -> impl Future<Output = Result<String, EngineError>> + Send {
        async { self.client().await?.version().await }
    }

    /// Inspects an image by ID, name, or name and digest.
    fn inspect(&self, name: &str) -> impl Future<Output = Result<Inspect, EngineError>> + Send {
        async { self.client().await?.inspect(name).await }
    }

    /// Gives an image one more name, which has a tag.
    fn tag(
        &self,
        image: &ImageId,
        name: &ImageRef,
    ) -> impl Future<Output = Result<(), EngineError>> + Send {
        async { self.client().await?.tag(image, name).await }
    }

    /// Removes an image, or one of its names. One that is not there is no error.
    fn remove_image(&self, name: &str) -> impl Future<Output = Result<(), EngineError>> + Send {
        async { self.client().await?.remove_image(name, false).await }
    }

    /// Pushes an image to a registry of ours on loopback, over plain HTTP, within `limit`.
    fn push(
        &self,
        image: &ImageId,
        to: &ImageRef,
        limit: Duration,
    ) -> impl Future<Output = Result<(), EngineError>> + Send {
        async move { self.client().await?.push(image, to, limit).await }
    }

    /// Pulls an image by digest within `limit`. `is_plain` allows plain HTTP, for loopback.
    fn pull(
        &self,
        name: &ImageRef,
        is_plain: bool,
        limit: Duration,
    ) -> impl Future<Output = Result<Inspect, EngineError>> + Send {
        async move { self.client().await?.pull(name, is_plain, limit).await }
    }

    /// Loads an image archive within `limit`, and returns the names or IDs it brought.
    fn load(
        &self,
        archive: ByteStream,
        limit: Duration,
    ) -> impl Future<Output = Result<Vec<String>, EngineError>> + Send {
        async move { self.client().await?.load(archive, limit).await }
    }

    /// Lists what is left in the engine of a run, or of all runs, those under way included.
    fn leftovers(
        &self,
        run: Option<&RunId>,
    ) -> impl Future<Output = Result<Vec<Leftover>, EngineError>> + Send {
        async move { clean::leftovers(&self.client().await?, run).await }
    }

    /// Removes all that is left of a run and ends what still runs of it; nothing else is touched.
    /// Returns what it was.
    fn clean(
        &self,
        run: &RunId,
    ) -> impl Future<Output = Result<Vec<Leftover>, EngineError>> + Send {
        async { clean::clean(&self.client().await?, run).await }
    }

    /// Creates a container and returns its ID.
    fn create_container(
        &self,
        request: &ContainerRequest,
    ) -> impl Future<Output = Result<String, EngineError>> + Send {
        async { container::create(&self.client().await?, request).await }
    }

    /// Attaches to a container that was created and not yet started.
    fn attach(
        &self,
        id: &str,
        has_terminal: bool,
    ) -> impl Future<Output = Result<Attached, EngineError>> + Send {
        async move { attach::attach(&self.client().await?, id, has_terminal).await }
    }

    /// Sends a signal, such as `SIGTERM`, to a container that runs.
    fn signal_container(
        &self,
        id: &str,
        name: &str,
    ) -> impl Future<Output = Result<(), EngineError>> + Send {
        async move { container::signal(&self.client().await?, id, name).await }
    }

    /// Tells a container with a terminal its rows and columns.
    fn resize_container(
        &self,
        id: &str,
        size: (u16, u16),
    ) -> impl Future<Output = Result<(), EngineError>> + Send {
        async move { container::resize(&self.client().await?, id, size).await }
    }

    /// Starts a container.
    fn start_container(&self, id: &str) -> impl Future<Output = Result<(), EngineError>> + Send {
        async { container::start(&self.client().await?, id).await }
    }

    /// Waits until a container that was started has ended, and returns its exit status.
    fn wait_for_container(
        &self,
        id: &str,
    ) -> impl Future<Output = Result<i64, EngineError>> + Send {
        async { container::wait(&self.client().await?, id).await }
    }

    /// Hands each line a container says to `on_line`, until the container ends.
    fn container_log(
        &self,
        id: &str,
        on_line: &mut (dyn FnMut(Line) + Send),
    ) -> impl Future<Output = Result<(), EngineError>> + Send {
        async move { container::logs(&self.client().await?, id, on_line).await }
    }

    /// Removes a container, a running one too. One that is not there is no error.
    fn remove_container(&self, id: &str) -> impl Future<Output = Result<(), EngineError>> + Send {
        async { clean::remove_container(&self.client().await?, id).await }
    }
}
