//! Defines the command line. It contains no logic.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use names::{EngineKind, Secret};
use pins::Track;

/// Build reproducible containers for AMD gfx1151 (Strix Halo)
#[derive(Debug, Parser)]
#[command(
    name = "build-pipeline",
    version,
    propagate_version = true,
    disable_help_subcommand = true
)]
#[command(
    after_help = "`build-pipeline help exit-codes` lists the exit codes, `build-pipeline help environment` the variables."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(flatten)]
    pub(crate) build: Build,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Options of every command.
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
    /// Read a registry, a part of it, or the git repositories and package indexes below a URL from
    /// another place
    #[arg(
        long,
        global = true,
        value_name = "FROM=TO",
        env = "BUILD_PIPELINE_MIRROR",
        value_delimiter = ',',
        hide_env_values = true,
        help_heading = "Global options"
    )]
    pub(crate) mirror: Vec<Secret>,
    /// How to show progress
    #[arg(long, global = true, value_enum, default_value_t = Progress::Auto, env = "BUILD_PIPELINE_PROGRESS", help_heading = "Global options")]
    pub(crate) progress: Progress,
    /// When to colour messages
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, env = "BUILD_PIPELINE_COLOR", help_heading = "Global options")]
    pub(crate) color: Color,
    /// Print more details; give it twice to log every request
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Global options")]
    pub(crate) verbose: u8,
    /// The complete command, without secrets, for records and locks
    #[arg(skip)]
    pub(crate) words: Vec<String>,
}

/// How to show progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Progress {
    /// Live lines on a terminal, plain lines elsewhere
    Auto,
    /// Live lines
    Tty,
    /// One line per step
    Plain,
    /// One JSON object per line
    Json,
}

/// When to colour messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Returns a parser for the names of all tracks, with their letters as aliases.
pub(crate) fn track_names() -> PossibleValuesParser {
    let name = |track: Track| {
        let letter = track.letter();
        PossibleValue::new(track.name())
            .aliases([letter.to_string(), letter.to_ascii_lowercase().to_string()])
            .help(format!("track {letter}"))
    };
    PossibleValuesParser::new(Track::ALL.map(name))
}

/// The image to build.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct Subject {
    /// Build this track, given by name or letter (repeatable)
    #[arg(short, long = "track", value_name = "TRACK", value_delimiter = ',', value_parser = track_names())]
    pub(crate) tracks: Vec<String>,
    /// Build this variant of a track that an engine builds, such as debian
    #[arg(long, value_name = "VARIANT")]
    pub(crate) variant: Option<String>,
    /// Use another value for a pin: a digest, or a tag to resolve now (repeatable)
    #[arg(long = "set", value_name = "PIN=VALUE")]
    pub(crate) set: Vec<String>,
    /// Build the image for this GPU target
    #[arg(long, value_name = "GFX")]
    pub(crate) gpu: Option<String>,
    /// Make ROCm see this GPU version: x.y.z, `off`, or `auto` for the value in gpus.toml
    #[arg(long, value_name = "VERSION")]
    pub(crate) spoof: Option<String>,
    /// Build on small stand-in bases that the tool generates; needs no network, and the image
    /// cannot be published
    #[arg(long)]
    pub(crate) rehearse: bool,
    /// Label the image with the commit that last changed its input files; its digest then depends
    /// on git history
    #[arg(long)]
    pub(crate) label_revision: bool,
}

/// Build an image (the default command)
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct Build {
    #[command(flatten)]
    pub(crate) subject: Subject,
    /// Write the image to oci:DIR, oci-archive:FILE, registry:REF, engine or engine:NAME
    /// (repeatable) [default: oci:dist/TRACK]
    #[arg(short, long = "output", value_name = "OUTPUT")]
    pub(crate) outputs: Vec<Secret>,
    /// Push the image to a registry; same as --output registry:REF
    #[arg(long, value_name = "REF")]
    pub(crate) push: Vec<Secret>,
    /// Load the image into podman or docker; same as --output engine
    #[arg(long)]
    pub(crate) load: bool,
    #[command(flatten)]
    pub(crate) steps: StepArgs,
    /// Copy the base's layers into oci:DIR too; by default they stay in the base's registry
    #[arg(long)]
    pub(crate) with_layers: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Print the plan and exit
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How long to wait for another run that writes the same image
    #[arg(long, value_name = "SECONDS", env = "BUILD_PIPELINE_LOCK_TIMEOUT")]
    pub(crate) lock_timeout: Option<u64>,
}

/// How steps are executed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct StepArgs {
    /// Engine that runs Dockerfiles and receives images
    #[arg(long, value_parser = engine_names(), default_value = "auto", env = "BUILD_PIPELINE_ENGINE")]
    pub(crate) engine: AskedEngine,
    /// Run all steps again, even those that an earlier run finished
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Keep the last good state of a failed RUN as an image for debugging
    #[arg(long)]
    pub(crate) keep_failed: bool,
}

/// The engine that the command line names; `None` for `auto`.
pub(crate) type AskedEngine = Option<EngineKind>;

/// Returns the parser of `--engine`.
pub(crate) fn engine_names() -> impl TypedValueParser<Value = AskedEngine> {
    let auto = PossibleValue::new("auto")
        .help("The engine that the environment names, else podman, else docker");
    let kinds = EngineKind::ALL.map(|kind| PossibleValue::new(kind.as_str()).help(kind.as_str()));
    PossibleValuesParser::new([auto].into_iter().chain(kinds)).map(|text| text.parse().ok())
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Build an image (the default command)
    Build(Build),
    /// Print the full plan
    Plan(PlanArgs),
    /// Check an image against the plan and the pins
    Verify(Verify),
    /// Compare two images file by file
    Diff(Diff),
    /// Patch a source tree or an installed system, or report why a patch does not fit
    Patch(crate::commands::patch::args::Patch),
    /// Look up a new value for a pin, check it, and write it into versions.toml
    Bump(crate::commands::bump::args::Bump),
    /// Check whether pinned inputs changed upstream: newer, moved, rewritten, yanked, vanished
    Outdated(crate::commands::outdated::Outdated),
    /// Look up Debian and Python packages again, and lock them with their hashes
    Lock(crate::commands::lock::Lock),
    /// Find wrong, stale and dangerous settings in pins, Dockerfiles, scripts, environment and
    /// compose files
    Lint(crate::commands::lint::Lint),
    /// Explain a rule of `lint`, or list the inputs of a track that changed since its last build
    Explain(crate::commands::explain::Explain),
    /// Print the pins for people, programs or shells
    Pins(crate::commands::pins::PinsArgs),
    /// List past builds, or show one record
    Records(Records),
    /// Start a track's image with only the rights it needs, or write a file that does
    Run(crate::commands::run::Run),
    /// Smoke-test a track's image, from an import to a served token
    Smoke(crate::commands::smoke::Smoke),
    /// Clean up after interrupted runs, in engines and on disk
    Clean(crate::commands::clean::Clean),
    /// Check this machine for problems and show how to fix them
    Doctor(crate::commands::doctor::Doctor),
    /// Print environment variables for a GPU, for `eval "$(build-pipeline env)"`
    Env(crate::commands::env::Env),
    /// Find known failures in a log
    Diagnose(crate::commands::diagnose::Diagnose),
    /// Print the JSON schema of a document
    Schema(SchemaArgs),
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write manual pages into a folder
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

/// Print the full plan
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) subject: Subject,
    /// Output format: tree for people, json for programs (its SHA-256 is the plan digest), dot and
    /// mermaid for diagrams
    #[arg(long, value_enum, default_value_t = PlanFormat::Tree)]
    pub(crate) format: PlanFormat,
}

/// The output format of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlanFormat {
    /// For people
    Tree,
    /// The canonical JSON text of the plan
    Json,
    /// Graphviz
    Dot,
    /// Mermaid flowchart
    Mermaid,
}

/// Check an image against the plan and the pins
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// A track (its image under dist/), a layout folder, an archive, or a registry reference
    #[arg(value_name = "IMAGE|TRACK")]
    pub(crate) target: String,
    /// Build the image again from scratch and compare every byte
    #[arg(long)]
    pub(crate) rebuild: bool,
    /// Engines that build the image again, one after the other
    #[arg(long, value_parser = engine_names(), value_delimiter = ',', default_value = "auto", requires = "rebuild")]
    pub(crate) engine: Vec<AskedEngine>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// Compare two images file by file
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// A track (its image under dist/), a layout folder, an archive, or a registry reference
    #[arg(value_name = "A")]
    pub(crate) left: String,
    /// The other image
    #[arg(value_name = "B")]
    pub(crate) right: String,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// List past builds, or show one record
#[derive(Debug, Args)]
pub(crate) struct Records {
    /// Show this record; the end of its name is enough
    #[arg(value_name = "RECORD")]
    pub(crate) record: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// An output format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

/// Print a JSON schema
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// The document
    #[arg(value_enum)]
    pub(crate) document: Document,
}

/// A document that has a JSON schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Document {
    /// `plan --format json`
    Plan,
    /// `records RECORD --format json`
    Record,
    /// A line of `--progress json`
    Event,
    /// `verify --format json`
    Verify,
    /// `diff --format json`
    Diff,
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
    /// The file versions/versions.toml
    Versions,
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
