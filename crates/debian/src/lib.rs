//! Turns a list of Debian packages with hashes into a root file system and a local package source.
//!
//! In the order of use:
//! - [`Mirrors`] says where packages are downloaded from: it reads apt's own sources.
//! - [`resolve()`] asks apt which packages a set needs, and makes a [`pins::PackageLock`] of it.
//! - [`fetch()`] downloads the package files of a lock by their hashes.
//! - [`write_local_source`] makes a package source of them that apt installs from without a network.
//! - [`bootstrap()`] makes a root file system of it, the same bytes each time.
//!
//! Programs are run: `apt-get` and `apt-cache` in a configuration of their own that neither reads
//! nor changes the machine's, `dpkg-deb`, and `mmdebstrap`. Where they lie and which variables they
//! get is an argument ([`Programs`]). This crate reads no environment and prints nothing.
//!
//! Every future may be dropped: what it started is ended, and no file stands half written.

mod apt;
mod bootstrap;
mod fetch;
mod local;
mod mirror;
mod program;
mod resolve;

pub use bootstrap::{Bootstrap, BootstrapError, Mode, RootFilesystem, bootstrap};
pub use fetch::{FetchError, FetchedPackage, fetch};
pub use local::{LocalSource, LocalSourceError, write_local_source};
pub use mirror::{Mirror, MirrorError, Mirrors};
pub use program::{ProgramError, Programs};
pub use resolve::{Resolve, ResolveError, WantedSet, resolve};
