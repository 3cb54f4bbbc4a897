//! Builds, pushes, loads, inspects and runs images with podman or docker, and removes this tool's
//! leftovers.
//!
//! Where to start:
//! - [`Engine`] is podman or docker, with one method for each operation that both support.
//! - [`Engine::build`] judges a build by its stream *and* by inspecting the image that it names.
//! - [`discover()`] tries the sockets in order, and reports why it skipped some.
//! - [`Engine::probe`] determines with a tiny `RUN` what an engine can really do here. A connection
//!   failure is retried, and never counts as a response from the engine.
//!
//! An engine is reached only through its socket, never through its command line: a killed `podman
//! build` can leave a store in which podman cannot list any image. This crate reads no environment
//! variables and prints nothing. Engine output is returned unsanitised; callers sanitise it before
//! printing.
//!
//! Futures may be dropped at any point; this is how a build is cancelled. On docker, the `RUN` ends
//! with the connection. podman continues to the end of the `RUN`, so each podman build gets its own
//! `podman system service`, which is stopped together with everything that it runs. If the user
//! named a socket, the `RUN` cannot be stopped.

#![cfg_attr(
    test,
    expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")
)]

mod attach;
mod build;
mod buildkit;
mod clean;
mod client;
mod container;
mod dialect;
mod discover;
mod docker;
mod dockerfile;
mod engine;
mod error;
#[cfg(test)]
mod fuzz;
mod image;
mod lines;
mod outside;
mod podman;
mod portable;
mod probe;
mod records;
mod retry;
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
pub use outside::{Outside, check_inputs, check_triggers};
pub use portable::{
    NotOnBase, NotPortable, check_base, check_dockerfile, has_health_check, portable_dockerfile,
    unclear_owners,
};
pub use probe::{Capabilities, RunProbe};
pub use retry::{Retries, retried};
pub use service::{ServiceSettings, abandoned, sweep};
pub use transcript::{BuildEvent, StepMarker};
pub use wire::ByteStream;
