//! The arguments of `bump`, `outdated`, `lock`, `pins` and `lint`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use names::Secret;

use crate::cli::values::Format;

// Look up a new value for a pin, check it, and write it to versions.toml
#[derive(Debug, Args)]
pub(crate) struct Bump {
    /// The name of the pin in versions.toml; omit it with --all or --unresolved
    #[arg(value_name = "PIN", required_unless_present_any = ["all", "unresolved"])]
    pub(crate) pin: Option<String>,
    /// A version, tag, branch, full commit or digest [default: `latest`; for an unresolved pin, its
    /// recorded tag, branch or version]. `latest` means the newest release; for an image, the
    /// newest tag that matches the pinned tag's pattern. For a pin that follows a branch or a
    /// non-version tag, it means the commit or image that the branch or tag points to now
    #[arg(value_name = "VALUE")]
    pub(crate) value: Option<String>,
    #[command(flatten)]
    pub(crate) many: ManyPins,
    #[command(flatten)]
    pub(crate) accept: Accept,
    /// Print the diff, or one line per pin, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Write nothing and print no report; the exit code shows whether the bump would succeed
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) check: bool,
    /// Copy the pinned input to registry:HOST/NAME or dir:PATH, so that it stays available if
    /// upstream deletes it
    #[arg(long, value_name = "PLACE", conflicts_with_all = ["dry_run", "check"])]
    pub(crate) mirror_to: Option<Secret>,
    /// Output format; github prints the title and body of a pull request
    #[arg(long, value_enum, default_value_t = BumpFormat::Text)]
    pub(crate) format: BumpFormat,
    #[command(flatten)]
    pub(crate) index: Index,
}

// The options of `bump` that select many pins.
#[derive(Debug, Args)]
pub(crate) struct ManyPins {
    /// Bump every pin in the project's versions.toml to its newest value, except held pins and sets
    /// of packages; print one line per pin
    #[arg(long, conflicts_with_all = ["pin", "value", "check", "format", "unresolved"])]
    pub(crate) all: bool,
    /// Resolve every unresolved pin in the project's versions.toml, and every one that its tracks
    /// use, from the recorded tag, branch or version; print one line per pin
    #[arg(long, conflicts_with_all = ["pin", "value", "check", "format"])]
    pub(crate) unresolved: bool,
}

// Write a new project: pins, a README and, with --track, a track
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The folder [default: the current one]
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Add a track with this name
    #[arg(long, value_name = "NAME")]
    pub(crate) track: Option<String>,
    /// The image that the track is based on
    #[arg(long, value_name = "REF", requires = "track", conflicts_with = "from")]
    pub(crate) base: Option<String>,
    /// Base the new track on this built-in track [default: the first track that `build-pipeline`
    /// lists]
    #[arg(long, value_name = "TRACK", requires = "track")]
    pub(crate) from: Option<String>,
    /// Add a file that makes this CI system build and verify the image (comma-separated); without
    /// --track, also in an existing project
    #[arg(long, value_name = "SYSTEM", value_enum, value_delimiter = ',', requires = "install")]
    pub(crate) ci: Vec<CiSystem>,
    /// The shell command that installs build-pipeline in CI
    #[arg(long, value_name = "COMMAND", requires = "ci")]
    pub(crate) install: Option<String>,
}

/// A CI system for which `init` writes a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CiSystem {
    /// GitHub Actions
    Github,
    /// GitLab CI
    Gitlab,
}

// Changes that are refused unless an option allows them.
#[derive(Debug, Args)]
pub(crate) struct Accept {
    /// Accept a version older than the pinned one
    #[arg(long)]
    pub(crate) allow_downgrade: bool,
    /// Accept a tag or release that changed since it was pinned
    #[arg(long)]
    pub(crate) accept_moved: bool,
    /// Write the pin even if patches do not apply to the new source
    #[arg(long)]
    pub(crate) accept_broken_patches: bool,
}

// Where to look up archives and wheels.
#[derive(Debug, Args)]
pub(crate) struct Index {
    /// The Python package index for archives and wheels [default: the one that pip uses, or PyPI]
    #[arg(long = "index", value_name = "URL", env = "BUILD_PIPELINE_INDEX")]
    pub(crate) url: Option<String>,
}

/// The output format of a bump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BumpFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// Title, empty line and body of a pull request
    Github,
}

// Check whether pinned inputs changed upstream: newer, moved, rewritten, yanked, vanished
#[derive(Debug, Args)]
pub(crate) struct Outdated {
    /// Check only these pins
    #[arg(value_name = "PIN")]
    pub(crate) pins: Vec<String>,
    /// Output format; github annotates the pins in a workflow's log
    #[arg(long, value_enum, default_value_t = OutdatedFormat::Text)]
    pub(crate) format: OutdatedFormat,
    #[command(flatten)]
    pub(crate) index: Index,
}

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutdatedFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// Annotations for GitHub Actions
    Github,
}

// Look up Debian and Python packages again, and lock them with their hashes
#[derive(Debug, Args)]
pub(crate) struct Lock {
    /// The locks; a track selects all locks that it uses [default: all locks]
    #[arg(value_name = "LOCK|TRACK")]
    pub(crate) names: Vec<String>,
    /// Print the changes and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Check that each lock matches the current requirements; make no requests and write nothing
    #[arg(long, visible_alias = "locked", conflicts_with = "dry_run")]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) trust: Trust,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) index: Index,
}

// Changes that are refused unless an option allows them.
#[derive(Debug, Args)]
pub(crate) struct Trust {
    /// Accept a file whose hash changed although its name and version did not
    #[arg(long)]
    pub(crate) accept_moved: bool,
    /// Accept expired Debian package indexes, such as those of a dated snapshot mirror
    #[arg(long)]
    pub(crate) snapshot: bool,
}

// Print the pins
#[derive(Debug, Args)]
pub(crate) struct PinsArgs {
    #[command(subcommand)]
    pub(crate) command: PinsCommand,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum PinsCommand {
    /// Print one pin, or one line for each pin
    Show(ShownPins),
    /// Print all pins in a format that other programs can read
    Export {
        /// Output format; env is a file for `source` and `--env-file`
        #[arg(long, value_enum, default_value_t = ExportFormat::Env)]
        format: ExportFormat,
    },
}

// What `pins show` prints.
#[derive(Debug, Args)]
pub(crate) struct ShownPins {
    /// The pin
    #[arg(value_name = "PIN")]
    pub(crate) pin: Option<String>,
    /// Print where each pin and each row of the other data files comes from: build-pipeline's own
    /// data, a line of the project's file, or `--set`
    #[arg(long)]
    pub(crate) origin: bool,
    /// Override an image pin, like `build --set`
    #[arg(long, value_name = "PIN=VALUE", requires = "origin")]
    pub(crate) set: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// The output format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Lines of NAME=value
    Env,
    /// For programs
    Json,
}

// Find wrong, stale and dangerous settings in pins, Dockerfiles, scripts, environment and compose
// files, Kubernetes manifests, quadlets, systemd units and CI workflows
#[derive(Debug, Args)]
pub(crate) struct Lint {
    /// Files, and folders; in folders, files of known kinds that git does not ignore [default: the
    /// project's pins, tracks, python.toml and dockerfiles/]
    #[arg(value_name = "FILE|DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// Output format; github annotates lines in a workflow's log, sarif is for code scanning
    #[arg(long, value_enum, default_value_t = LintFormat::Text)]
    pub(crate) format: LintFormat,
    /// Check all files against the rules for this GPU target [default: the one that a file names;
    /// for a file in the project's folder that names none, the project's]
    #[arg(long, value_name = "GFX")]
    pub(crate) gpu: Option<String>,
    /// Treat warnings as errors
    #[arg(long)]
    pub(crate) strict: bool,
}

/// The output format of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LintFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// Annotations for GitHub Actions
    Github,
    /// SARIF 2.1.0
    Sarif,
}
