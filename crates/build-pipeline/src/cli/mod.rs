//! Defines the command line. Contains no logic.

mod build;
mod bundle;
mod export;
mod machine;
mod patch;
mod pins;
mod step;
mod values;

use std::path::PathBuf;
use std::sync::OnceLock;

use clap::{Args, Parser, Subcommand, ValueEnum};
use names::Secret;
use oci::client::RegistryClient;
use project::mirrors::Mirrors;
use terminal::reporter::Progress;

pub(crate) use self::build::*;
pub(crate) use self::bundle::*;
pub(crate) use self::export::*;
pub(crate) use self::machine::*;
pub(crate) use self::patch::*;
pub(crate) use self::pins::*;
pub(crate) use self::step::*;
pub(crate) use self::values::*;

/// The text that `--version` prints. Release builds add their commit and its date.
const VERSION: &str = match option_env!("BUILD_PIPELINE_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// Build reproducible container images for AMD gfx1151 (Strix Halo)
#[derive(Debug, Parser)]
#[command(
    name = "build-pipeline",
    version = VERSION,
    propagate_version = true,
    disable_help_subcommand = true
)]
#[command(
    after_help = "`build-pipeline help exit-codes` lists the exit codes, and `build-pipeline help environment` lists the environment variables."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(flatten)]
    pub(crate) build: Build,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

// Options of every command.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Run as if started in this folder
    #[arg(
        short = 'C',
        long,
        global = true,
        value_name = "DIR",
        env = "BUILD_PIPELINE_DIRECTORY",
        help_heading = "Global options"
    )]
    pub(crate) directory: Option<PathBuf>,
    /// Use TO as a mirror of FROM. FROM is a registry, with or without a path (docker.io/rocm); a
    /// URL prefix of git repositories, package indexes or Debian mirrors; or `all`, if TO is a copy
    /// made by `mirror`. For a URL prefix, FROM is never used as a fallback
    #[arg(
        id = "mirror",
        long = "mirror",
        global = true,
        value_name = "FROM=TO",
        env = "BUILD_PIPELINE_MIRROR",
        value_delimiter = ',',
        hide_env_values = true,
        help_heading = "Global options"
    )]
    pub(crate) mirror_rules: Vec<Secret>,
    /// Contact only the targets of mirror rules, and the locations in `old-packages` of config.toml
    #[arg(
        long,
        global = true,
        env = "BUILD_PIPELINE_MIRROR_ONLY",
        value_parser = clap::builder::FalseyValueParser::new(),
        help_heading = "Global options"
    )]
    pub(crate) mirror_only: bool,
    /// Take every input from this bundle, and contact only the targets of mirror rules and the
    /// locations in `old-packages` of config.toml (repeatable)
    #[arg(
        id = "bundles",
        long = "bundle",
        global = true,
        value_name = "FILE",
        help_heading = "Global options"
    )]
    pub(crate) bundles: Vec<PathBuf>,
    /// How to show progress
    #[arg(long, global = true, value_parser = values::progress(), default_value = "auto", env = "BUILD_PIPELINE_PROGRESS", help_heading = "Global options")]
    pub(crate) progress: Progress,
    /// When to colour messages
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, env = "BUILD_PIPELINE_COLOR", help_heading = "Global options")]
    pub(crate) color: Color,
    /// Print only warnings, errors and the result
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub(crate) quiet: bool,
    /// Print more details; repeat it (`-vv`) to log every request
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Global options")]
    pub(crate) verbose: u8,
    /// The mirrors from the command line and the user's configuration
    #[arg(skip)]
    pub(crate) mirror: Mirrors,
    /// The registry client, once a command needs it
    #[arg(skip)]
    pub(crate) client: OnceLock<RegistryClient>,
    /// The complete command, without secrets, for records and locks
    #[arg(skip)]
    pub(crate) words: Vec<String>,
    /// The name of the command
    #[arg(skip)]
    pub(crate) command: String,
    /// The values that come from environment variables
    #[arg(skip)]
    pub(crate) variables: Vec<FromVariable>,
}

/// A value of an option that comes from an environment variable.
#[derive(Debug, Clone)]
pub(crate) struct FromVariable {
    /// The option and its value as they appear in messages, for example `--engine docker`.
    pub(crate) options: Vec<String>,
    /// The variable with the value.
    pub(crate) variable: String,
}

/// The commands.
#[derive(Debug, Subcommand)]
// Only the arguments of the command that runs are built. A doc comment on their struct would then
// replace the description of the command, so these structs have ordinary comments.
#[command(defer = true)]
pub(crate) enum Command {
    /// Write a new project: pins, a README and, with --track, a track
    Init(Init),
    /// Build an image (the default command)
    Build(BuildArgs),
    /// Print the full plan
    Plan(PlanArgs),
    /// Check an image against the plan and the pins
    Verify(Verify),
    /// Compare two images file by file
    Diff(Diff),
    /// Find out which GPUs an image, folder, package or file contains code for
    Audit(AuditCode),
    /// Write a copy of an image that keeps only the GPU code you need
    Slim(Slim),
    /// List the steps of tracks with their keys, run one, or clean a shared folder
    Step(StepArguments),
    /// Write the steps of tracks as a workflow for a CI system
    Export(Export),
    /// Push a finished image to registries
    Push(Push),
    /// Add tags to an image on a registry
    Tag(Tag),
    /// Write all inputs of tracks into one file, for machines without a network
    Bundle(Bundle),
    /// Copy all inputs of tracks to your own registry or folder
    Mirror(Mirror),
    /// Patch a source tree or an installed system, or report why a patch does not apply
    Patch(Patch),
    /// Look up a new value for a pin, check it, and write it to versions.toml
    Bump(Bump),
    /// Check whether pinned inputs changed upstream: newer, moved, rewritten, yanked, vanished
    Outdated(Outdated),
    /// Look up Debian and Python packages again, and lock them with their hashes
    Lock(Lock),
    /// Find wrong, stale and dangerous settings in pins, Dockerfiles, scripts, environment and
    /// compose files, Kubernetes manifests, quadlets, systemd units and CI workflows
    Lint(Lint),
    /// Explain a rule of `lint`, or list which inputs of a track changed since its last build
    Explain(Explain),
    /// Print the pins for people, programs or shells
    Pins(PinsArgs),
    /// Print one line per track: its state, its last build, and where the image is
    Status(StatusArgs),
    /// List past builds, or show one record
    Records(Records),
    /// Run a track's image with only the privileges it needs, or print a file that runs it
    Run(Run),
    /// Smoke-test a track's image, from an import to a served token
    Smoke(Smoke),
    /// Clean up after interrupted runs, in engines and on disk
    Clean(Clean),
    /// Check this machine for problems and show how to fix them
    Doctor(Doctor),
    /// Print environment variables for a GPU, for `eval "$(build-pipeline env)"`
    Env(Env),
    /// Find known failures in a log
    Diagnose(Diagnose),
    /// Print the JSON schema of a document
    Schema(SchemaArgs),
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write man pages to a folder
    Man {
        /// The folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Explain a command or a topic: exit-codes, environment
    Help {
        /// A command or a topic
        topic: Option<String>,
    },
}

// Print a JSON schema
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// The document
    #[arg(value_enum)]
    pub(crate) document: Document,
}

/// A document that has a JSON schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Document {
    /// `plan --format json`: a plan, or an array of plans if there are several
    Plan,
    /// `build --format json`
    Build,
    /// `pins show --format json` and `pins export --format json`
    Pins,
    /// `pins show PIN --format json`
    Pin,
    /// `records RECORD --format json`
    Record,
    /// `records --format json`
    Records,
    /// A line of `--progress json`
    Event,
    /// `verify --format json`
    Verify,
    /// `diff --format json` and `verify --slimmed-from IMAGE --format json`
    Diff,
    /// `audit --format json`
    Audit,
    /// `slim --format json`
    Slim,
    /// `push --format json` and `tag --format json`
    Push,
    /// `status --format json`
    Status,
    /// `step list --format json`
    Steps,
    /// `bump --format json`
    Bump,
    /// `outdated --format json`
    Outdated,
    /// `lint --format json`
    Lint,
    /// `explain TRACK --format json`
    Explain,
    /// `lock --format json`
    Lock,
    /// `pins show --origin --format json`
    PinsOrigin,
    /// The file versions/versions.toml
    Versions,
    /// The file versions/tracks.toml
    Tracks,
    /// The file versions/gpus.toml
    Gpus,
    /// The file versions/run.toml
    Run,
    /// The file versions/python.toml
    Python,
    /// The files versions/locks/NAME.toml
    PackageLock,
    /// The file versions/compat.toml
    Compat,
    /// The file versions/failures.toml
    Failures,
    /// The file versions/lint.toml
    LintRules,
    /// The files patches/COMPONENT/ID.toml
    PatchFile,
    /// The file ~/.config/build-pipeline/config.toml
    Config,
    /// `patch check|diff|apply --format json`
    Patch,
    /// `patch audit --format json`
    PatchAudit,
    /// `patch lint-sed --format json`
    PatchLintSed,
    /// `patch revert --format json`
    PatchRevert,
    /// `doctor --format json`
    Doctor,
    /// `env --format json`
    Env,
    /// `smoke --format json`
    Smoke,
    /// `diagnose --format json`
    Diagnose,
    /// `clean --format json`
    Clean,
}
