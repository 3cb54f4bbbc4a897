//! Turns a list of Debian packages with hashes into a root file system and a local package source.
//!
//! In the order of use:
//! - [`Mirrors`] lists the servers for packages. It reads apt's own sources.
//! - [`resolve()`] asks apt which packages a set needs, and returns them as a
//!   [`pins::PackageLock`].
//! - [`fetch()`] downloads the package files of a lock by their hashes.
//! - [`write_local_source`] makes a package source from them, from which apt installs without a
//!   network.
//! - [`write_root`] and [`DOCKERFILE`] are the input from which a container engine makes a root
//!   file system.
//!
//! Only [`resolve()`] runs programs: `apt-get` and `apt-cache`, with a separate configuration, so
//! that the machine's is not read and not changed. The caller provides their location and variables
//! ([`Programs`]). This crate reads no environment variables and prints nothing.
//!
//! Every future may be dropped. The programs that it started are then ended.

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
