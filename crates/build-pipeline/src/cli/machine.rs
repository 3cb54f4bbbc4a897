//! The arguments of `run`, `smoke`, `clean`, `doctor`, `env` and `diagnose`.

use std::path::PathBuf;

use clap::builder::{
    NonEmptyStringValueParser, PossibleValue, PossibleValuesParser, TypedValueParser,
};
use clap::{Args, ValueEnum};
use names::{EngineKind, Secret};

use crate::cli::values::{AskedEngine, Format, engine_names, positive};

// Run a track's image with only the privileges it needs, or print a file that runs it
#[derive(Debug, Args)]
#[command(
    after_help = "The exit code is that of the command in the container, or 0 with --detach. HF_TOKEN is passed to the container if it is set. versions/run.toml defines the devices, port and folders of each track."
)]
pub(crate) struct Run {
    /// The track, given by name or letter
    #[arg(value_name = "TRACK")]
    pub(crate) track: String,
    #[command(flatten)]
    pub(crate) given: Given,
    /// Print a file that starts the container, instead of starting it
    #[arg(long, value_enum, value_name = "FORM")]
    pub(crate) print: Option<PrintForm>,
    /// Show what would be started, and exit
    #[arg(long, conflicts_with = "print")]
    pub(crate) dry_run: bool,
    /// Send standard input to the command even if it is not a terminal
    #[arg(short, long)]
    pub(crate) interactive: bool,
    /// Run the image even if it has no code for this machine's GPU, or if another project built it
    #[arg(long)]
    pub(crate) force: bool,
    /// Start this program instead of the image's entrypoint
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) entrypoint: Option<String>,
    #[command(flatten)]
    pub(crate) additions: Additions,
    /// Publish the track's port at this address and port [default: the same port on 127.0.0.1]
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    pub(crate) publish: Option<String>,
    /// Mount this folder at /work, the working directory [default: the current folder if the track
    /// sets `work = true` in versions/run.toml, as `trainer` does; otherwise none]
    #[arg(long, value_name = "DIR")]
    pub(crate) work: Option<std::path::PathBuf>,
    /// The command in the container [default: the image's own]
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

// What `run` adds to a container.
#[derive(Debug, Args)]
pub(crate) struct Additions {
    /// Set a variable in the container; without a value, use the value from your environment
    /// (repeatable)
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<Secret>,
    /// Set the variables in this file, one NAME=VALUE per line (repeatable)
    #[arg(long, value_name = "FILE")]
    pub(crate) env_file: Vec<PathBuf>,
    /// Mount a folder or file from the host (repeatable)
    #[arg(long, value_name = "HOST:CONTAINER[:ro]")]
    pub(crate) volume: Vec<String>,
    /// Start the container in the background, and print its name
    #[arg(short, long, conflicts_with = "interactive")]
    pub(crate) detach: bool,
}

/// A file format for a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PrintForm {
    /// A script for a POSIX shell
    Shell,
    /// A unit for podman's systemd generator
    Quadlet,
    /// A compose file
    Compose,
    /// A manifest for distrobox assemble
    Distrobox,
}

// Options that `run` and `smoke` share.
#[derive(Debug, Args)]
pub(crate) struct Given {
    /// The image to run, by its name in the engine [default:
    /// localhost/build-pipeline/TRACK:latest, or TRACK-GFX:latest if --gpu is not the project's
    /// default target]
    #[arg(long, value_name = "IMAGE", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) image: Option<String>,
    /// The GPU target or a product, such as "RX 7900 XTX" [default: this machine's, else the one in
    /// tracks.toml]
    #[arg(long, value_name = "GFX")]
    pub(crate) gpu: Option<String>,
    /// The engine that starts the container
    #[arg(long, value_parser = engine_names(), default_value = "auto", env = "BUILD_PIPELINE_ENGINE")]
    pub(crate) engine: AskedEngine,
    /// The models folder [default: the one in versions/run.toml]
    #[arg(long, value_name = "DIR")]
    pub(crate) models: Option<PathBuf>,
    /// Start the container without a GPU: programs use the CPU or a software device
    #[arg(long)]
    pub(crate) no_gpu: bool,
    /// The container's network
    #[arg(long, value_enum, default_value_t = NetworkChoice::Own)]
    pub(crate) network: NetworkChoice,
    /// Look for device nodes and the GPU in the system whose root is this folder [default: /]
    #[arg(long, value_name = "DIR")]
    pub(crate) host_root: Option<PathBuf>,
}

/// The network of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NetworkChoice {
    /// Its own network, with the track's port published
    Own,
    /// The host's network
    Host,
    /// No network
    None,
}

// Smoke-test a track's image, from an import to a served token
#[derive(Debug, Args)]
#[command(
    after_help = "Each level runs in a container like the one `run` starts. Testing stops at the first level that fails. The exit code is 0 if nothing failed, 1 if a level failed, and 3 if the level that --level names could not run. The levels are defined in versions/run.toml, and their scripts are in versions/smoke."
)]
pub(crate) struct Smoke {
    /// The track, given by name or letter
    #[arg(value_name = "TRACK")]
    pub(crate) track: String,
    #[command(flatten)]
    pub(crate) given: Given,
    /// The last level to run [default: all levels of the track]
    #[arg(long, value_enum)]
    pub(crate) level: Option<LevelChoice>,
    /// The model to serve: a name that the image's server accepts, or a file in the models folder
    /// or its subfolders
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// A level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LevelChoice {
    /// Check that the image's programs start
    Import,
    /// Check that the programs find the GPU
    Device,
    /// Check that the GPU computes correct results
    Compute,
    /// Check that the server returns a token
    Serve,
}

// Clean up after interrupted runs, in engines and on disk
#[derive(Debug, Args)]
#[command(
    after_help = "Removes only containers and images that this tool's runs left in engines, and files in the tool's own folders. Images that you named are kept. Running builds are not touched. If podman keeps layers of a killed build, build-pipeline creates an image for them, with the label `io.github.build-pipeline.adopted`. `clean` removes this image when it is an hour old; until then, another program may be about to use the layers. The exit code is 0 if everything was removed or nothing was left, and 1 if something could not be removed or an engine did not answer."
)]
pub(crate) struct Clean {
    /// List what would be removed, without removing it. Exception: unfinished images of a killed
    /// podman are removed even so, because podman may be unable to list anything while they exist
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Also remove cached blobs, sources, finished steps, compiler caches, and the uv that `lock`
    /// installed with its cache, which can be fetched or built again
    #[arg(long)]
    pub(crate) cache: bool,
    /// Clean only this engine and the disk [default: all available engines and the disk]
    #[arg(long, value_parser = only())]
    pub(crate) engine: Option<Only>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// The engine to clean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Only {
    Engine(EngineKind),
    /// Clean only the disk, not an engine.
    None,
}

/// Returns the parser for the value of `--engine`.
pub(crate) fn only() -> impl TypedValueParser<Value = Only> {
    let kinds = EngineKind::ALL.map(|kind| PossibleValue::new(kind.as_str()).help(kind.as_str()));
    let none = PossibleValue::new("none").help("Clean only the disk, not an engine");
    PossibleValuesParser::new(kinds.into_iter().chain([none]))
        .map(|text| text.parse().map_or(Only::None, Only::Engine))
}

// Check this machine for problems and show how to fix them
#[derive(Debug, Args)]
#[command(
    after_help = "The exit code is 0 if there is nothing worse than a note, 1 if there is a warning, and 3 if something does not work."
)]
pub(crate) struct Doctor {
    /// Check what this track's image needs; TRACK is a name or letter (repeatable) [default:
    /// the tracks that need no engine]
    #[arg(short, long = "track", value_name = "TRACK", value_delimiter = ',')]
    pub(crate) tracks: Vec<String>,
    /// The GPU target of the images [default: the one in tracks.toml]
    #[arg(long, value_name = "GFX")]
    pub(crate) gpu: Option<String>,
    /// Check whether the GPU has enough memory for this model: a .gguf file, or a folder with
    /// config.json and .safetensors files
    #[arg(long, value_name = "PATH")]
    pub(crate) model: Option<PathBuf>,
    /// The length of the context, in tokens [default: the longest that the model supports]
    #[arg(long, value_name = "TOKENS", requires = "model", value_parser = positive::<u64>)]
    pub(crate) context: Option<u64>,
    /// Check the system whose root is this folder [default: /]
    #[arg(long, value_name = "DIR")]
    pub(crate) host_root: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

// Print environment variables for a GPU, for `eval "$(build-pipeline env)"`
#[derive(Debug, Args)]
#[command(
    after_help = "Without --gpu, the tool uses this machine's GPU. If there are several GPUs, it prefers the one that images are built for, then one that is not integrated into the CPU, and hides GPUs with other targets. HSA_OVERRIDE_GFX_VERSION is set only with --spoof, or for a GPU that may lack native code in the ROCm release of the programs (--rocm). LD_LIBRARY_PATH and DEVICE_LIB_PATH are not set: programs, wheels and the compiler find their own ROCm, and break if these variables point to a different one. A warning says what the programs (--for) cannot do on the GPU with that release, and what to use. In WSL2, --gpu is required. versions/gpus.toml and --format json explain each variable."
)]
pub(crate) struct Env {
    /// The GPU target or a product, such as "RX 7900 XTX" [default: this machine's, or else the
    /// one in tracks.toml]
    #[arg(long, value_name = "GFX")]
    pub(crate) gpu: Option<String>,
    /// The ROCm release of the programs; X.Y means all releases X.Y.*, and X means X.0
    #[arg(long, value_name = "X.Y")]
    pub(crate) rocm: Option<String>,
    /// Print only what this program reads, and warn about what it cannot do on the GPU, such as
    /// vllm, sglang, pytorch, llama.cpp or ollama [default: all variables, and warnings for the
    /// programs of the tracks]
    #[arg(long = "for", value_name = "PROGRAM")]
    pub(crate) program: Option<String>,
    /// Also set HSA_OVERRIDE_GFX_VERSION, so that ROCm sees another GPU; AMD does not support this
    #[arg(long)]
    pub(crate) spoof: bool,
    /// Output format: shell for eval, dotenv for --env-file, json for programs
    #[arg(long, value_enum, default_value_t = EnvFormat::Shell)]
    pub(crate) format: EnvFormat,
    /// Add variables that matter only during compilation
    #[arg(long)]
    pub(crate) build: bool,
    /// Add variables that help to locate faults but make programs slow; never put them into an
    /// image
    #[arg(long)]
    pub(crate) debug: bool,
    /// Look for the GPU in the system whose root is this folder [default: /]
    #[arg(long, value_name = "DIR")]
    pub(crate) host_root: Option<PathBuf>,
}

/// The output format of an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EnvFormat {
    /// Lines for a POSIX shell
    Shell,
    /// Lines for `podman run --env-file`
    Dotenv,
    /// For programs, with the purpose and source of each variable
    Json,
}

// Find known failures in a log
#[derive(Debug, Args)]
#[command(
    after_help = "The exit code is 1 if the log shows a known failure, and 0 if it shows none, only harmless ones, or only ones that need an AMD GPU while nothing in the log names a GPU. The known failures are in versions/failures.toml."
)]
pub(crate) struct Diagnose {
    /// The log of a build or a run; `-` for standard input
    #[arg(value_name = "LOG", default_value = "-")]
    pub(crate) log: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}
