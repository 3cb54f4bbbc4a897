//! Turns the text of the files under `versions/` into typed pins, or says exactly where they are wrong.
//!
//! Start at [`parse_versions`]; [`PinChange`] goes the other way and edits the text. A *pin* is a name bound to a digest, a full commit or a hash,
//! together with the tag or git ref it came from (for readers). A pin whose value nobody could
//! verify is [`Pinned::Unresolved`]: it is never invented, and a build that needs it is refused.
//!
//! This crate knows no files, no network, no environment and no clock. Text goes in, values or a
//! list of [`Problem`]s with spans come out; where two values are wrong, both are reported.

mod built;
mod change;
mod checks;
pub mod compat;
mod environment;
mod gpus;
mod hashes;
mod package_lock;
mod places;
mod problem;
mod python;
pub mod reader;
mod releases;
mod syntax;
mod tracks;
mod variables;
mod versions;

pub use built::{BuiltSettings, Stage, Variant, VariantBase};
pub use change::{ChangeError, Changed, NewValue, PinChange};
pub use compat::{Compat, parse_compat};
pub use environment::{refused_variable, unknown_ollama_variable};
pub use gpus::{Gpu, Gpus, parse_gpus};
pub use package_lock::{
    LockedPackage, PackageLock, PackageSet, WantedPackages, parse_package_lock,
    parse_wanted_packages,
};
pub use places::pin_lines;
pub use problem::{ParseError, Problem};
pub use python::{
    LockedProject, ParsePythonLockError, PythonLock, PythonSet, PythonSets, RequirementLine,
    RequirementsError, Wheel, normalised, parse_python, parse_python_with, python_lock_path,
    requirements, requirements_lock_path,
};
pub use releases::{ParseReleasesError, Releases};
pub use tracks::{Track, TrackSettings, Tracks, parse_tracks, parse_tracks_with};
pub use variables::{OVERRIDE, Setting, Variable, When};
pub use versions::{
    ArchivePin, Facts, ImagePin, ManifestKind, PinKind, Pinned, Pins, Release, SourcePin,
    parse_versions,
};
