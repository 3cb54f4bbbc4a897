//! The arguments of `build`, `plan`, `verify`, `diff`, `records` and `explain`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use names::Secret;

use crate::cli::values::{AskedEngine, Format, engine_names, number, percent, positive, seconds};

// The image to build.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct Subject {
    /// The track, given by name or letter (repeatable)
    #[arg(short, long = "track", value_name = "TRACK", value_delimiter = ',')]
    pub(crate) tracks: Vec<String>,
    /// The variant of the track, such as debian or slim
    #[arg(long, value_name = "VARIANT")]
    pub(crate) variant: Option<String>,
    /// Override an image pin with a digest, or with a tag to resolve now (repeatable)
    #[arg(long = "set", value_name = "PIN=VALUE")]
    pub(crate) set: Vec<String>,
    /// The GPU target of the image (repeatable)
    #[arg(long = "gpu", value_name = "GFX", value_delimiter = ',')]
    pub(crate) gpus: Vec<String>,
    /// Make ROCm see this GPU version: x.y.z, `off`, or `auto` for the value in gpus.toml
    #[arg(long, value_name = "VERSION")]
    pub(crate) spoof: Option<String>,
    /// Keep only the code for the image's GPU; `--slim=GFX,GFX` also keeps the code for these GPUs,
    /// `--slim=off` keeps everything. Slimming needs no engine
    #[arg(long, value_name = "GFX", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(crate) slim: Option<String>,
    /// Build on generated stand-ins, without a network; if an engine builds the track, build its
    /// variant for rehearsals. The image can be pushed only to a registry on this machine
    #[arg(long)]
    pub(crate) rehearse: bool,
    /// Label the image with the commit that last changed its input files; its digest then depends
    /// on git history
    #[arg(long)]
    pub(crate) label_revision: bool,
}

// Build an image (the default command)
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct Build {
    #[command(flatten)]
    pub(crate) subject: Subject,
    /// Write the image to oci:DIR, oci-archive:FILE, registry:REF, engine or engine:NAME
    /// (repeatable) [default: `output` in config.toml, else oci:dist/TRACK]
    #[arg(short, long = "output", value_name = "OUTPUT")]
    pub(crate) outputs: Vec<Secret>,
    /// Push the image to a registry, like --output registry:REF (repeatable). {track}, {gpu} and
    /// {version} are replaced with the values of the image, {date} with today's date
    #[arg(long, value_name = "REF")]
    pub(crate) push: Vec<Secret>,
    /// Write the image's digest to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) digest_file: Option<PathBuf>,
    /// Load the image into the container engine; same as --output engine
    #[arg(long)]
    pub(crate) load: bool,
    #[command(flatten)]
    pub(crate) steps: StepArgs,
    #[command(flatten)]
    pub(crate) stores: StoreArgs,
    /// Also copy the base's layers into oci:DIR; by default they stay in the base's registry
    #[arg(long)]
    pub(crate) with_layers: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Print the plan and exit
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How long to wait for another run that writes the same image [default: 600]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, env = "BUILD_PIPELINE_LOCK_TIMEOUT")]
    pub(crate) lock_timeout: Option<u64>,
}

// Build an image (the default command)
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct BuildArgs {
    /// The tracks, given by name or letter; same as --track
    #[arg(value_name = "TRACK", value_delimiter = ',')]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) build: Build,
}

// How to run steps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct StepArgs {
    /// Engine that runs Dockerfiles and receives images
    #[arg(long, value_parser = engine_names(), default_value = "auto", env = "BUILD_PIPELINE_ENGINE")]
    pub(crate) engine: AskedEngine,
    /// Run all steps again, even those that an earlier run finished
    #[arg(long)]
    pub(crate) fresh: bool,
    /// If a RUN fails, keep the state before it as an image, for debugging
    #[arg(long)]
    pub(crate) keep_failed: bool,
}

// The shared stores of finished steps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct StoreArgs {
    /// Share finished steps with other machines through registry:HOST/NAME or dir:PATH; append
    /// `,ro` to a store to only read from it (repeatable) [default: `store` in config.toml]
    #[arg(id = "stores", long = "store", value_name = "STORE")]
    pub(crate) named: Vec<Secret>,
    /// Rebuild this percentage of the steps that a store has, and compare the results
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) store_verify: Option<u8>,
    /// Require the step KEY to have the result DIGEST, and refuse a store's entry with a different
    /// result (repeatable)
    #[arg(long = "result", value_name = "KEY=DIGEST")]
    pub(crate) results: Vec<String>,
}

// Print the full plan
#[derive(Debug, Args)]
#[command(mut_arg("tracks", |arg| arg.help("Plan this track, given by name or letter (repeatable)")))]
#[command(mut_arg("variant", |arg| arg.help("Plan this variant of the track, such as debian or slim")))]
#[command(mut_arg("gpus", |arg| arg.help("Plan an image for this GPU target (repeatable)")))]
pub(crate) struct PlanArgs {
    /// The tracks, given by name or letter; same as --track
    #[arg(value_name = "TRACK", value_delimiter = ',')]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) subject: Subject,
    /// Output format: tree for people, json for programs (for one image, its SHA-256 is the plan
    /// digest), dot and mermaid for diagrams
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

// Check an image against the plan and the pins
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// A track (the image of its last build), a layout folder, an archive, or a registry reference; also
    /// oci:DIR, oci-archive:FILE and registry:REF
    #[arg(value_name = "IMAGE|TRACK")]
    pub(crate) target: String,
    /// Build the image again from scratch and compare every byte
    #[arg(long)]
    pub(crate) rebuild: bool,
    /// Engines to rebuild the image with, one after another (comma-separated)
    #[arg(long, value_parser = engine_names(), value_delimiter = ',', default_value = "auto", requires = "rebuild")]
    pub(crate) engine: Vec<AskedEngine>,
    /// For an image that the command `slim` wrote from IMAGE: slim IMAGE again and compare every
    /// byte
    #[arg(long, value_name = "IMAGE", conflicts_with_all = ["rebuild", "stores"])]
    pub(crate) slimmed_from: Option<String>,
    /// Also compare the layers with the finished steps in registry:HOST/NAME or dir:PATH
    /// (repeatable) [default: `store` in config.toml]
    #[arg(long = "store", value_name = "STORE")]
    pub(crate) stores: Vec<Secret>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

// Compare two images file by file
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// A track (the image of its last build), a layout folder, an archive, or a registry reference; also
    /// oci:DIR, oci-archive:FILE and registry:REF
    #[arg(value_name = "A")]
    pub(crate) left: String,
    /// The other image
    #[arg(value_name = "B")]
    pub(crate) right: String,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

// Find out which GPUs an image, folder, package or file contains code for
#[derive(Debug, Args)]
#[command(
    after_help = "Inputs: an image, given as a track (the image of its last build), a layout folder, an archive, a registry reference, oci:DIR, oci-archive:FILE or registry:REF; or a folder, a tar, a wheel, a Debian package, a library or a kernel file.\n\nThe exit code is 0 if the GPU can run the code; 1 if it cannot, if this is unknown, or if there is no GPU code; 2 if the input cannot be read; 3 if there is no space for temporary files; and 6 if a file in the input is damaged."
)]
pub(crate) struct AuditCode {
    /// An image, folder, package, library or kernel file (all inputs are listed below)
    #[arg(value_name = "INPUT")]
    pub(crate) input: String,
    /// The GPU target [default: the one in the image's label, else this machine's,
    /// else the one in tracks.toml]
    #[arg(long, value_name = "GFX")]
    pub(crate) gpu: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

// Write a copy of an image that keeps only the GPU code you need
#[derive(Debug, Args)]
#[command(
    after_help = "Reads the layers twice, and needs no engine. Code that is kept does not change; the contract slim/1 defines the rules. `build-pipeline diff INPUT OUTPUT` lists the files that changed."
)]
pub(crate) struct Slim {
    /// The image: a track, a folder such as `dist/official`, an archive, or `HOST/NAME:TAG`; also
    /// oci:DIR, oci-archive:FILE and registry:REF
    #[arg(value_name = "IMAGE|TRACK")]
    pub(crate) input: String,
    /// Write the image to oci:DIR or oci-archive:FILE
    #[arg(short, long, value_name = "TO")]
    pub(crate) output: String,
    /// Keep the code for these GPU targets (comma-separated) [default: the one in the image's
    /// label, else this machine's, else the one in tracks.toml]
    #[arg(long, value_name = "GFX", value_delimiter = ',')]
    pub(crate) gpu: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

// Print one line per track: its state, its last build, and where the image is
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

// Push a finished image to registries
#[derive(Debug, Args)]
#[command(
    after_help = "A layer is transferred only if the registry does not have it and cannot mount it from another repository. In REF, {track}, {gpu} and {version} are replaced with the values of the image, and {date} with today's date in UTC.\n\nExample: build-pipeline push official registry.example.org/ai/{track}:{version} registry.example.org/ai/{track}:{date}"
)]
pub(crate) struct Push {
    /// The image: a track, a folder such as `dist/official`, an archive, or `HOST/NAME:TAG`; also
    /// oci:DIR, oci-archive:FILE and registry:REF
    #[arg(value_name = "IMAGE|TRACK")]
    pub(crate) image: String,
    /// Where to push the image: `HOST/NAME:TAG`; without a tag, it is pushed by digest (repeatable)
    #[arg(value_name = "REF", required = true)]
    pub(crate) targets: Vec<Secret>,
    /// Write the image's digest to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) digest_file: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

// Add tags to an image on a registry
#[derive(Debug, Args)]
pub(crate) struct Tag {
    /// The image: `HOST/NAME:TAG` or `HOST/NAME@sha256:…`
    #[arg(value_name = "IMAGE")]
    pub(crate) image: Secret,
    /// The new tags
    #[arg(value_name = "TAG", required = true)]
    pub(crate) tags: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

// List past builds, or show one record
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Records {
    /// Show this record, given by its name, or the start or end of the name
    #[arg(value_name = "RECORD")]
    pub(crate) record: Option<String>,
    /// Show the newest record
    #[arg(long, conflicts_with = "record")]
    pub(crate) last: bool,
    /// List only the N newest records
    #[arg(long, value_name = "N", value_parser = positive::<usize>, conflicts_with_all = ["record", "last"])]
    pub(crate) limit: Option<usize>,
    /// Include the builds of all projects, not only those of the current one
    #[arg(long)]
    pub(crate) all: bool,
    #[command(subcommand)]
    pub(crate) command: Option<RecordsCommand>,
    /// Output format
    #[arg(long, value_enum, default_value_t = RecordFormat::Text)]
    pub(crate) format: RecordFormat,
}

/// An output format of `records`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RecordFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// One record as SLSA provenance: an in-toto statement that `cosign` and others can sign
    Slsa,
    /// One record as an SBOM: what the image was made from, as CycloneDX 1.6 for scanners
    Cyclonedx,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum RecordsCommand {
    /// Remove old records of all projects, but keep those of running builds, and the newest and the
    /// last successful record of each image
    Prune(Prune),
}

// Which records to remove.
#[derive(Debug, Args)]
pub(crate) struct Prune {
    /// Remove all except the N newest records; this or --older-than is required
    #[arg(long, value_name = "N", value_parser = number::<usize>, required_unless_present = "older_than")]
    pub(crate) keep: Option<usize>,
    /// Remove records that are older than this many days
    #[arg(long, value_name = "DAYS", value_parser = number::<u32>, conflicts_with = "keep")]
    pub(crate) older_than: Option<u32>,
    /// List what would be removed, without removing it
    #[arg(long)]
    pub(crate) dry_run: bool,
}

// Explain a rule of `lint`, or list which inputs of a track changed since its last build
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The rule or track; without one, all rules are listed
    #[arg(value_name = "RULE|TRACK")]
    pub(crate) name: Option<String>,
    /// Explain this variant of the track
    #[arg(long, value_name = "VARIANT")]
    pub(crate) variant: Option<String>,
    /// Explain the track's rehearsal
    #[arg(long)]
    pub(crate) rehearse: bool,
    /// Output format for a track
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}
