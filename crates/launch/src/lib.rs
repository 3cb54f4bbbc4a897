//! What `run` and `smoke` start: the engine, the machine and containers, and cleaning up after
//! them.
//!
//! `engines` finds the engine and tests it. `machine` looks at the machine, and finds the data files
//! for that. `prepare` decides what the container of a track gets, `additions` reads what its caller
//! adds, `session` starts it and connects
//! it to its caller, and `smoke` tries a track's image level by level. `clean` removes what
//! interrupted runs left behind, in engines and on disk. `known` describes known failures.
//!
//! The crate prints nothing: what a person should know meanwhile is a [`Notice`] for a function of
//! the caller.

pub mod additions;
pub mod clean;
pub mod engines;
pub mod known;
pub mod machine;
mod notice;
pub mod prepare;
pub mod session;
pub mod smoke;

pub use notice::Notice;
