//! The arguments of `step`.

use clap::{Args, Subcommand};
use names::Secret;

use crate::cli::build::{StoreArgs, Subject};
use crate::cli::values::{AskedEngine, Format, engine_names, number};

// List the steps of tracks with their keys, run one, or clean a shared folder
#[derive(Debug, Args)]
pub(crate) struct StepArguments {
    #[command(subcommand)]
    pub(crate) command: StepCommand,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum StepCommand {
    /// List the steps of tracks with their keys, and where their results are
    List(StepList),
    /// Run one step, unless its result exists, and print the digest of the result
    Run(StepRun),
    /// Clean up a shared folder: remove the steps that no run has used for some time
    Clean(StepClean),
}

// List the steps of tracks with their keys, and where their results are
#[derive(Debug, Args)]
pub(crate) struct StepList {
    /// The tracks, given by name or letter; same as --track [default: all tracks that can be
    /// planned without contacting a registry]
    #[arg(value_name = "TRACK", value_delimiter = ',')]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) subject: Subject,
    /// Also look for the results in registry:HOST/NAME or dir:PATH (repeatable) [default: `store` in
    /// config.toml]
    #[arg(long = "store", value_name = "STORE")]
    pub(crate) stores: Vec<Secret>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

// Run one step, unless its result exists, and print the digest of the result
#[derive(Debug, Args)]
#[command(
    after_help = "Steps that this step depends on are taken from the stores or, failing that, also run. Exit code 0 means that the result exists and is in every writable store."
)]
pub(crate) struct StepRun {
    /// The key of the step, or at least its first 8 digits
    #[arg(value_name = "KEY")]
    pub(crate) key: String,
    #[command(flatten)]
    pub(crate) subject: Subject,
    #[command(flatten)]
    pub(crate) stores: StoreArgs,
    /// Engine that runs Dockerfiles
    #[arg(long, value_parser = engine_names(), default_value = "auto", env = "BUILD_PIPELINE_ENGINE")]
    pub(crate) engine: AskedEngine,
}

// Clean up a shared folder: remove the steps that no run has used for some time
#[derive(Debug, Args)]
#[command(
    after_help = "A run that takes a step from a folder records the use, unless the value of `--store` ends in `,ro`. For a registry, use the registry's own retention rules for tags: the tag of each step is its key."
)]
pub(crate) struct StepClean {
    /// The store: dir:PATH
    #[arg(long = "store", value_name = "STORE", required = true)]
    pub(crate) stores: Vec<Secret>,
    /// Remove steps that no run has used for this many days
    #[arg(long, value_name = "DAYS", value_parser = number::<u32>)]
    pub(crate) unused_for: u32,
    /// List what would be removed, without removing it
    #[arg(long)]
    pub(crate) dry_run: bool,
}
