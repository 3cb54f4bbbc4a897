//! A project's files, and everything that is derived from them: requests, plans, the history of
//! their files, records, locks, and where to fetch from.
//!
//! [`Project`] reads each file once, and [`prepare::prepare`] makes every plan from these files and
//! a [`request::Subject`]. `patches`, `python_locks` and `own_files` read further files, and
//! `advice` adds known facts about the pins of a plan. `recipe` asks git for the history of the
//! files. `owner` refuses a parent folder's project of another user. `lint_files` reads the files for
//! `lint`. `image` reads the image that the user named, and
//! `input` any other file or folder with GPU code. `kinds` recognises what a path leads to. `state` keeps records, `history` shows them, and
//! `locks` makes runs with the same output wait for each other. `outputs` reads `--output`, `push`
//! pushes images, and `steps` lists the steps of plans. `mirrors`, `registry`, `fetch` and
//! `rehearsal` determine where bytes come from, `config` reads the user's defaults, and `build_env`
//! sets up what the steps of a build need. Only `environment` reads environment variables.
//!
//! The crate prints nothing. Progress messages go to a callback of the caller.

#![cfg_attr(
    test,
    expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")
)]

pub mod advice;
pub mod build_env;
pub mod built_in;
pub mod clock;
pub mod config;
pub mod copies;
pub mod environment;
pub mod fetch;
mod folder;
pub mod history;
pub mod image;
pub mod input;
mod inside;
pub mod kinds;
pub mod lint_files;
mod lint_folder;
pub mod locks;
pub mod mirrors;
pub mod origin;
pub mod outputs;
mod own_files;
mod owner;
pub mod patches;
pub mod pins_file;
pub mod prepare;
pub mod push;
pub mod python_locks;
pub mod recipe;
pub mod registry;
pub mod rehearsal;
pub mod request;
pub mod runtime;
pub mod slim;
pub mod state;
pub mod steps;
pub mod stores;

pub use folder::{DATA_FILES, Project, read_bytes, read_named_text, read_text};
