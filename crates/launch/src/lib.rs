//! Starts containers for `run` and `smoke`, finds engines, reads the state of the machine, and
//! cleans up after interrupted runs.
//!
//! `engines` finds the engine and tests it. `machine` reads the state of the machine, and finds the
//! data files to check it against. `prepare` defines the container of a track, `additions` reads
//! the caller's variables and volumes, `session` starts the container and connects it to its
//! caller, and `smoke` tests a track's image level by level. `clean` removes leftovers of
//! interrupted runs, in engines and on disk. `doctor` checks the machine, `variables` lists the
//! environment variables for a GPU. `gpu_use` knows what programs on a GPU need and cannot do;
//! `products` and `release` read the names of GPUs and ROCm releases. `known` describes known failures.
//!
//! The crate prints nothing: it passes each message for the user as a [`Notice`] to a function of
//! the caller.

pub mod additions;
pub mod clean;
pub mod doctor;
pub mod engines;
mod gpu_use;
pub mod known;
pub mod machine;
mod notice;
pub mod prepare;
mod products;
mod release;
pub mod session;
pub mod smoke;
pub mod variables;

pub use notice::Notice;
