//! Runs the program as people do and looks at what it prints, writes and returns.
//!
//! One binary for all, because each links the whole program's dependencies. `dsl` makes projects
//! and runs commands in them; each other module is about one promise to the user.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod build;
mod built;
mod bump;
mod clean;
mod determinism;
mod dsl;
mod engine_first;
mod engines;
mod failures;
mod input;
mod lint;
mod lock;
mod machine;
mod matrix;
mod messages;
mod outdated;
mod patch;
mod patch_installed;
mod patch_pinned;
mod patch_sed;
mod patch_trees;
mod patched_builds;
mod pins;
mod plans;
mod recipe;
mod run;
mod schemas;
mod secrets;
mod signals;
mod smoke;
mod source;
mod tutorial;
#[path = "../../../host/tests/it/unfold.rs"]
mod unfold;
mod verify;
