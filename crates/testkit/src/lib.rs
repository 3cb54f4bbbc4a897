//! Test support: a real registry on loopback, a proxy that causes faults, images to push, and more.
//!
//! - [`DebianRegistry`] runs Debian's `docker-registry`, a real registry.
//! - [`FaultProxy`] is a proxy in front of it that records every request and causes faults on
//!   request.
//! - [`ForwardProxy`] is a proxy between clients and all servers, with or without a password.
//! - [`fuzz()`] calls a function with many randomly changed inputs, [`fuzz_some`] with fewer.
//! - [`gate_cases`] and [`gate_passed`] count the cases of `cargo xtask gates`.
//! - [`GitDaemon`] and [`GitHttp`] are real git servers for the repositories of a [`GitFolder`].
//! - [`newer_package`] and [`buildx`] provide programs of newer Debian releases.
//! - [`Guest`] runs commands in a copy of this machine or in another release of Debian. A
//!   [`Machine`] is a guest that keeps running, with its release's podman and docker.
//! - [`PodmanStore`] and [`Dockerd`] are real engines with their own stores, and [`busybox_root`]
//!   is a base image for them.
//! - [`EngineProxy`] breaks connections to an engine, and hides docker's BuildKit.
//! - [`releases()`] returns real release archives from the package index that pip uses.
//! - [`TERMINAL_PAYLOADS`] are strings that control a terminal.
//! - [`RandomImage`] creates the same image from the same seed and pushes it.
//!
//! Everything uses plain threads and blocking sockets, so it works in tests with any async runtime
//! and can send messages that no HTTP library would send. Errors panic: a test that cannot be set
//! up has failed.

mod engine_proxy;
mod engines;
mod fault;
mod forward_proxy;
mod fuzz;
mod gate;
mod git_server;
mod guest;
mod http;
mod image;
mod machine;
mod newer;
mod payloads;
mod proxy;
mod registry;
mod releases;
mod spoil;
mod tls;
mod tokens;

pub use engine_proxy::EngineProxy;
pub use engines::{Dockerd, PodmanStore, busybox_root, kill_with_children, parent_of};
pub use fault::{Answer, Fault, RuleBuilder};
pub use forward_proxy::ForwardProxy;
pub use fuzz::{
    Corpus, LONGEST, MOST_MEMORY, Random, fuzz, fuzz_part, fuzz_some, peak_memory, processor_time,
    reset_peak_memory, runs,
};
pub use gate::{gate_cases, gate_passed};
pub use git_server::{GitDaemon, GitFolder, GitHttp};
pub use guest::{AS_ORDINARY_USER, Guest, ORDINARY_USER};
pub use image::{Flavour, PushedBlob, PushedImage, RandomImage};
pub use machine::{Machine, User};
pub use newer::{buildx, newer_package};
pub use payloads::TERMINAL_PAYLOADS;
pub use proxy::{FaultProxy, Recorded, Server};
pub use registry::{DebianRegistry, shared_registry};
pub use releases::{Release, python_index, releases, releases_cache};
pub use tls::authority_der;
pub use tokens::{Auth, Bearer};
