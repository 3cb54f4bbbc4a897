//! Test support: a real registry on loopback, a proxy that makes it fail, images to put into it.
//!
//! - [`DebianRegistry`] runs the `docker-registry` of Debian; nothing is more like a registry.
//! - [`FaultProxy`] stands in front of it, writes down every request and misbehaves as told.
//! - [`GitDaemon`] and [`GitHttp`] are real git servers for the repositories of a [`GitFolder`].
//! - [`PodmanStore`] and [`Dockerd`] are real engines with stores of their own, and
//!   [`busybox_root`] is a base for them.
//! - [`RandomImage`] makes the same image from the same seed and pushes it.
//!
//! All of it is plain threads and blocking sockets, so that it works in tests of any runtime and
//! can send what no HTTP library would. Mistakes panic: a test that cannot be set up has failed.

mod engines;
mod fault;
mod git_server;
mod http;
mod image;
mod proxy;
mod registry;
mod spoil;
mod tls;
mod tokens;

pub use engines::{Dockerd, PodmanStore, busybox_root};
pub use fault::{Answer, Fault, RuleBuilder};
pub use git_server::{GitDaemon, GitFolder, GitHttp};
pub use image::{Flavour, PushedBlob, PushedImage, RandomImage};
pub use proxy::{FaultProxy, Recorded, Server};
pub use registry::{DebianRegistry, shared_registry};
pub use tls::authority_der;
pub use tokens::{Auth, Bearer};
