//! The arguments of `bump`.

use clap::{Args, ValueEnum};

/// Look up a new value for a pin, check it, and write it into versions.toml
#[derive(Debug, Args)]
pub(crate) struct Bump {
    /// The pin's name in versions.toml
    #[arg(value_name = "PIN")]
    pub(crate) pin: String,
    /// A version, tag, branch, full commit or digest. `latest` is the newest release; for images,
    /// the newest tag with the same pattern; for branches and other tags, the current target
    #[arg(value_name = "VALUE", default_value = "latest")]
    pub(crate) value: String,
    #[command(flatten)]
    pub(crate) accept: Accept,
    /// Print the diff and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Report only by exit code whether the bump would succeed; write nothing
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) check: bool,
    /// Output format; github prints the title and body of a pull request
    #[arg(long, value_enum, default_value_t = BumpFormat::Text)]
    pub(crate) format: BumpFormat,
    #[command(flatten)]
    pub(crate) index: Index,
}

/// Changes that are refused unless they are explicitly allowed.
#[derive(Debug, Args)]
pub(crate) struct Accept {
    /// Accept an older version than the pinned one
    #[arg(long)]
    pub(crate) allow_downgrade: bool,
    /// Accept a tag or release that changed since it was pinned
    #[arg(long)]
    pub(crate) accept_moved: bool,
    /// Write the pin even if patches do not fit the new source
    #[arg(long)]
    pub(crate) accept_broken_patches: bool,
}

/// Where to look up archives.
#[derive(Debug, Args)]
pub(crate) struct Index {
    /// Look up archives on this Python index [default: that of uv or pip on this machine]
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
