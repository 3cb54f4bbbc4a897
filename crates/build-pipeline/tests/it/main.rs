//! Runs the program as people do and checks its output, its files and its exit codes.
//!
//! There is one test binary, because each one links all dependencies of the program. `dsl` creates
//! projects and runs commands in them; each other module tests one promise to the user.

#![expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod at_once;
mod audit;
mod bake;
mod build;
mod built;
mod bump;
mod bundle;
mod clean;
mod config;
mod conformance;
mod damage;
mod determinism;
mod diff;
mod dsl;
mod engine_first;
mod engines;
mod exports;
mod failures;
mod flips;
mod full_disk;
mod gpus;
mod hosts;
mod input;
mod interrupts;
mod inventory;
mod kills;
mod kinds;
mod lint;
mod lock;
mod locks;
mod machine;
mod machines;
mod matrix;
mod messages;
mod mirrors;
mod mistakes;
mod old_and_new;
mod outdated;
mod outside;
mod own_files;
mod own_project;
mod patch;
mod patch_installed;
mod patch_pinned;
mod patch_probes;
mod patch_sed;
mod patch_trees;
mod patched_builds;
mod payloads;
mod pins;
mod plans;
mod progress;
mod projects;
mod proxies;
mod push;
mod recipe;
mod records;
mod replaced;
mod resume;
mod rollback;
mod run;
mod schemas;
mod secrets;
mod signals;
mod site;
mod slim;
mod slim_track;
mod smoke;
mod source;
mod status;
mod stores;
mod targets;
mod tutorial;
mod undelivered;
#[path = "../../../host/tests/it/unfold.rs"]
mod unfold;
mod usable;
mod verify;
mod walk;
