//! The command line: what can be typed. It holds no logic.

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

/// What every command understands.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Work as if started in this folder
    #[arg(
        short = 'C',
        long,
        global = true,
        value_name = "DIR",
        env = "BUILD_PIPELINE_DIRECTORY",
        help_heading = "Global options"
    )]
    pub(crate) directory: Option<PathBuf>,
    /// Read a registry, a part of it, or the git repositories and indexes below a url from elsewhere
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
    /// Say more; twice for every request
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Global options")]
    pub(crate) verbose: u8,
    /// The words of the whole command, without secrets, for records and locks
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
    /// One line a step
    Plain,
    /// One JSON object a line
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

/// Returns the names of all tracks, with their letters as other names.
pub(crate) fn track_names() -> PossibleValuesParser {
    let name = |track: Track| {
        let letter = track.letter();
        PossibleValue::new(track.name())
            .aliases([letter.to_string(), letter.to_ascii_lowercase().to_string()])
            .help(format!("track {letter}"))
    };
    PossibleValuesParser::new(Track::ALL.map(name))
}

/// What is built.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct Subject {
    /// Build this track; its letter will do (repeatable)
    #[arg(short, long = "track", value_name = "TRACK", value_delimiter = ',', value_parser = track_names())]
    pub(crate) tracks: Vec<String>,
    /// Build this variant of a track that an engine builds, for example debian
    #[arg(long, value_name = "VARIANT")]
    pub(crate) variant: Option<String>,
    /// Use another value for a pin: a digest, or a tag that is resolved now (repeatable)
    #[arg(long = "set", value_name = "PIN=VALUE")]
    pub(crate) set: Vec<String>,
    /// Make the image for this GPU target
    #[arg(long, value_name = "GFX")]
    pub(crate) gpu: Option<String>,
    /// Pretend this GPU version: x.y.z, `off`, or `auto` for what gpus.toml says
    #[arg(long, value_name = "VERSION")]
    pub(crate) spoof: Option<String>,
    /// Build on small stand-in bases made on the fly: no network, nothing to publish
    #[arg(long)]
    pub(crate) rehearse: bool,
    /// Label the image with the commit that last changed its files; its digest then depends on git history
    #[arg(long)]
    pub(crate) label_revision: bool,
}

/// Build an image (the default command)
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct Build {
    #[command(flatten)]
    pub(crate) subject: Subject,
    /// Put the image here: oci:DIR, oci-archive:FILE, registry:REF, engine or engine:NAME (repeatable) [default: oci:dist/TRACK]
    #[arg(short, long = "output", value_name = "OUTPUT")]
    pub(crate) outputs: Vec<Secret>,
    /// Push the image to a registry; the same as --output registry:REF
    #[arg(long, value_name = "REF")]
    pub(crate) push: Vec<Secret>,
    /// Put the image into podman or docker; the same as --output engine
    #[arg(long)]
    pub(crate) load: bool,
    #[command(flatten)]
    pub(crate) steps: StepArgs,
    /// Copy the base's layers into oci:DIR too; without it they stay where they are
    #[arg(long)]
    pub(crate) with_layers: bool,
    /// The form of the summary
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Print the plan and stop
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Wait this many seconds for another run that writes the same image
    #[arg(long, value_name = "SECONDS", env = "BUILD_PIPELINE_LOCK_TIMEOUT")]
    pub(crate) lock_timeout: Option<u64>,
}

/// How steps are carried out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct StepArgs {
    /// Which engine runs Dockerfiles and takes images
    #[arg(long, value_parser = engine_names(), default_value = "auto", env = "BUILD_PIPELINE_ENGINE")]
    pub(crate) engine: AskedEngine,
    /// Carry out every step, also those that an earlier run finished
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Where a RUN fails, leave what there was before it as an image, to look around in
    #[arg(long)]
    pub(crate) keep_failed: bool,
}

/// The engine that the command line asks for; `auto` is none.
pub(crate) type AskedEngine = Option<EngineKind>;

/// Returns the parser of `--engine`.
pub(crate) fn engine_names() -> impl TypedValueParser<Value = AskedEngine> {
    let auto =
        PossibleValue::new("auto").help("What the environment names, else podman, else docker");
    let kinds = EngineKind::ALL.map(|kind| PossibleValue::new(kind.as_str()).help(kind.as_str()));
    PossibleValuesParser::new([auto].into_iter().chain(kinds)).map(|text| text.parse().ok())
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Build an image (the default command)
    Build(Build),
    /// Print what would be done, in full
    Plan(PlanArgs),
    /// Prove that an image is what plan and pins say
    Verify(Verify),
    /// Say in what two images differ, down to the file
    Diff(Diff),
    /// Patch a source or installed tree, or say why not
    Patch(crate::commands::patch::args::Patch),
    /// Look up a new value for a pin, check it, and write it into versions.toml
    Bump(crate::commands::bump::args::Bump),
    /// Ask what became of the pins: newer, moved, rewritten, yanked, vanished
    Outdated(crate::commands::outdated::Outdated),
    /// Look Debian and Python packages up anew, and write them with their hashes
    Lock(crate::commands::lock::Lock),
    /// Find wrong, stale and dangerous advice in pins, Dockerfiles, scripts, environment and compose files
    Lint(crate::commands::lint::Lint),
    /// Explain a rule of `lint`, or which inputs of a track changed since it was built
    Explain(crate::commands::explain::Explain),
    /// Print the pins: for reading, for programs, for shells
    Pins(crate::commands::pins::PinsArgs),
    /// List what was built, or show one record
    Records(Records),
    /// Start the image of a track with just the rights it needs, or write a file that does
    Run(crate::commands::run::Run),
    /// Try the image of a track out: from an import to a served token
    Smoke(crate::commands::smoke::Smoke),
    /// Remove what runs that were broken off left behind, in engines and on disk
    Clean(crate::commands::clean::Clean),
    /// Look at this machine and say what is not right, with the commands that repair it
    Doctor(crate::commands::doctor::Doctor),
    /// Print the environment that a GPU wants, for `eval "$(build-pipeline env)"`
    Env(crate::commands::env::Env),
    /// Recognise known failures in a log
    Diagnose(crate::commands::diagnose::Diagnose),
    /// Print a JSON schema of what the commands print
    Schema(SchemaArgs),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a folder
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

/// Print what would be done, in full
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) subject: Subject,
    /// The form: tree for reading, json for programs (its SHA-256 is the plan digest), dot and mermaid for drawing
    #[arg(long, value_enum, default_value_t = PlanFormat::Tree)]
    pub(crate) format: PlanFormat,
}

/// The form of a printed plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlanFormat {
    /// For reading
    Tree,
    /// The plan's canonical text
    Json,
    /// Graphviz
    Dot,
    /// Mermaid flowchart
    Mermaid,
}

/// Prove that an image is what plan and pins say
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// A track (its image under dist/), a layout folder, an archive, or a reference on a registry
    #[arg(value_name = "IMAGE|TRACK")]
    pub(crate) target: String,
    /// Build it again from nothing, and compare every byte
    #[arg(long)]
    pub(crate) rebuild: bool,
    /// Which engines build it again, one after the other
    #[arg(long, value_parser = engine_names(), value_delimiter = ',', default_value = "auto", requires = "rebuild")]
    pub(crate) engine: Vec<AskedEngine>,
    /// The form
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// Say in what two images differ, down to the file
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// A track (its image under dist/), a layout folder, an archive, or a reference on a registry
    #[arg(value_name = "A")]
    pub(crate) left: String,
    /// The other image, named in the same way
    #[arg(value_name = "B")]
    pub(crate) right: String,
    /// The form
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// List what was built, or show one record
#[derive(Debug, Args)]
pub(crate) struct Records {
    /// Show this record; the end of its name will do
    #[arg(value_name = "RECORD")]
    pub(crate) record: Option<String>,
    /// The form
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// The form of a result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For reading
    #[default]
    Text,
    /// For programs
    Json,
}

/// Print a JSON schema
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Which document
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
