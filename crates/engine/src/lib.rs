//! Asks podman or docker to build, push, load, inspect and run, and removes what is ours.
//!
//! Where to start:
//! - [`Engine`] is podman or docker, with one method for each thing that both can do.
//! - [`Engine::build`] judges a build by its stream *and* by an inspect of the image it names.
//! - [`discover()`] tries the sockets in their order, and says why it passed some over.
//! - [`Engine::probe`] finds out by a tiny `RUN` what an engine can really do here. A failure of the
//!   connection is tried again, and is never taken for an answer of the engine.
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
mod engine;
mod error;
#[cfg(test)]
mod fuzz;
mod image;
mod lines;
mod podman;
mod portable;
mod probe;
mod records;
mod service;
mod specgen;
mod transcript;
mod unfinished;
mod wire;

pub use attach::{Attached, ContainerInput, ContainerOutput, Output};
pub use build::{
    BASE_LABEL, BASE_VALUE, BuildRequest, Built, CONTAINER_LABEL, NAMESPACE, Network, OnEvent,
    RUN_LABEL, RunId,
};
pub use clean::{Leftover, LeftoverKind};
pub use client::{Client, EngineInfo};
pub use container::{ContainerRequest, Device, Mount, PublishedPort};
pub use discover::{
    Address, Candidate, Chosen, Discovery, PassedOver, Surroundings, Trouble, candidates, discover,
};
pub use docker::DockerBuilder;
pub use dockerfile::without_cache_mounts;
pub use engine::Engine;
pub use error::{EngineError, RunFailure};
pub use image::{ImageId, Inspect};
pub use lines::{LINE_CAP, Line, LineAssembler};
pub use portable::{
    NotPortable, check_dockerfile, has_health_check, portable_dockerfile, unclear_owners,
};
pub use probe::{Capabilities, RunProbe, retried};
pub use service::{ServiceSettings, abandoned, sweep};
pub use transcript::{BuildEvent, StepMarker};
pub use wire::ByteStream;
