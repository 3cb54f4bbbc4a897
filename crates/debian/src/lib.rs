//! Turns a list of Debian packages with hashes into a root file system and a local package source.
//!
//! In the order of use:
//! - [`Mirrors`] says where packages are downloaded from: it reads apt's own sources.
//! - [`resolve()`] asks apt which packages a set needs, and makes a [`pins::PackageLock`] of it.
//! - [`fetch()`] downloads the package files of a lock by their hashes.
//! - [`write_local_source`] makes a package source of them that apt installs from without a network.
//! - [`write_root`] and [`DOCKERFILE`] are what a container engine makes a root file system of.
//!
//! Only [`resolve()`] runs programs: `apt-get` and `apt-cache`, with a configuration of their own
//! that neither reads nor changes the machine's. Where they are and which variables they get is an
//! argument ([`Programs`]). This crate reads no environment and prints nothing.
//!
//! Every future may be dropped: the programs that it started are ended.

mod apt;
mod bootstrap;
mod deb;
mod fetch;
mod local;
mod mirror;
mod program;
mod resolve;

pub use bootstrap::{DOCKERFILE, WriteRootError, write_root};
pub use deb::DebError;
pub use fetch::{FetchError, FetchedPackage, fetch};
pub use local::{LocalSource, LocalSourceError, write_local_source};
pub use mirror::{Mirror, MirrorError, Mirrors};
pub use program::{ProgramError, Programs};
pub use resolve::{Resolve, ResolveError, WantedSet, resolve};
