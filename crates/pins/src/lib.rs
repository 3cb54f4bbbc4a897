//! Parses the files under `versions/` into typed pins, or reports exactly where they are wrong.
//!
//! Start at [`parse_versions`], which reads the text, and [`PinChange`], which edits it. A *pin* is
//! a name with a digest, a full commit or a hash, together with the tag or git ref that it came
//! from (for people). A pin without a verified value is [`Pinned::Unresolved`]:
//! the value is never invented, and a build that needs it is refused.
//!
//! [`listing`] shows pins to people and programs. [`forms`] describes the keys of the files, and
//! [`schema()`] turns a form into a JSON schema.
//!
//! This crate does not use files, the network, the environment or a clock. It takes text, and
//! returns values or a list of [`Problem`]s with spans; all problems are reported at once.

#![cfg_attr(
    test,
    expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")
)]

mod built;
mod change;
mod checks;
pub mod compat;
mod environment;
mod files;
pub mod form;
pub mod forms;
mod gpus;
mod hashes;
mod known;
mod limits;
pub mod listing;
mod package_lock;
pub mod patterns;
mod places;
mod problem;
mod python;
pub mod reader;
mod releases;
pub mod rows;
mod schema;
mod syntax;
#[cfg(test)]
mod tests;
mod tracks;
mod variables;
mod versions;

pub use built::{Stage, Variant, Variants};
pub use change::{ChangeError, Changed, NewValue, PinChange};
pub use compat::{Compat, parse_compat, parse_compat_over};
pub use environment::{refused_variable, unknown_ollama_variable};
pub use files::{NamedFiles, Owner, TrackFile, check_destination, is_system_folder, named_files};
pub use gpus::{Gpu, Gpus, parse_gpus};
pub use known::Known;
pub use limits::{Advice, Limit};
pub use package_lock::{
    FromSuites, LockedPackage, PUBLIC_ARCHIVE, PUBLIC_SECURITY, PackageLock, PackageSet,
    SuiteIndex, WantedPackages, parse_package_lock, parse_wanted_packages,
};
pub use places::pin_lines;
pub use problem::{ParseError, Problem};
pub use python::{
    LockedProject, ParsePythonLockError, PythonLock, PythonSet, PythonSets, RequirementLine,
    RequirementsError, Wheel, normalised, parse_python, parse_python_with, python_lock_path,
    requirements, requirements_lock_path,
};
pub use releases::{ParseReleasesError, Releases};
pub use schema::schema;
pub use tracks::{
    Base, Build, Disk, ImageSettings, References, Track, Tracks, parse_tracks, parse_tracks_with,
    secrets::{SECRET_HELP, secret_lines},
};
pub use variables::{OVERRIDE, Setting, Variable, When};
pub use versions::{
    ArchivePin, Facts, ImagePin, ManifestKind, PinKind, Pinned, Pins, Release, SourcePin,
    has_built_in, parse_versions,
};
