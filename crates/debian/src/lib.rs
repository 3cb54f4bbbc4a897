//! Turns a list of Debian packages with hashes into a root file system and a local package source.
//!
//! The main items, in the order of use:
//! - [`Mirrors`] lists the servers for packages. It can be read from apt's own sources.
//! - [`resolve()`] asks apt which packages a set needs, and returns them as a
//!   [`pins::PackageLock`].
//! - [`fetch()`] downloads the package files of a lock by their hashes.
//! - [`write_local_source`] makes a package source from these files, from which apt installs
//!   without a network.
//! - [`write_root`] and [`DOCKERFILE`] are the input from which a container engine makes a root
//!   file system.
//!
//! Only [`resolve()`] runs programs: `apt-get` and `apt-cache`, with a separate configuration, so
//! that the machine's configuration is neither read nor changed. The caller provides the search
//! path and the environment variables of these programs ([`Programs`]). This crate reads no
//! environment variables and prints nothing.
//!
//! Every future may be dropped. This kills the programs that it started.

#![cfg_attr(
    test,
    expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")
)]

mod apt;
mod bootstrap;
mod deb;
mod fetch;
mod index;
mod local;
mod mirror;
mod old;
mod program;
mod resolve;

pub use bootstrap::{DOCKERFILE, WriteRootError, write_root};
pub use deb::{DebError, open_data};
pub use fetch::{FetchError, FetchedPackage, fetch};
pub use index::IndexError;
pub use local::{LocalSource, LocalSourceError, write_local_source};
pub use mirror::{Mirror, MirrorError, Mirrors};
pub use old::{OldPackages, OldPackagesError};
pub use program::{ProgramError, Programs};
pub use resolve::{Resolve, ResolveError, WantedSet, resolve};
