//! What can be typed behind `bump`.

use clap::{Args, ValueEnum};

/// Look up a new value for a pin, check it, and write it into versions.toml
#[derive(Debug, Args)]
pub(crate) struct Bump {
    /// The pin, as versions.toml names it
    #[arg(value_name = "PIN")]
    pub(crate) pin: String,
    /// A version, tag, branch, whole commit or digest, or `latest`: the newest release, for an image the newest tag of the same form, for branches and other tags what the name stands for now
    #[arg(value_name = "VALUE", default_value = "latest")]
    pub(crate) value: String,
    #[command(flatten)]
    pub(crate) accept: Accept,
    /// Print the difference and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Say by the exit code alone whether the bump would succeed; write nothing
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) check: bool,
    /// The form of the result; github is the title and body of a pull request
    #[arg(long, value_enum, default_value_t = BumpFormat::Text)]
    pub(crate) format: BumpFormat,
    #[command(flatten)]
    pub(crate) index: Index,
}

/// What is refused unless it was said to be fine.
#[derive(Debug, Args)]
pub(crate) struct Accept {
    /// Take an older version than the one that is pinned
    #[arg(long)]
    pub(crate) allow_downgrade: bool,
    /// Take what a tag or release is now although it was something else when it was pinned
    #[arg(long)]
    pub(crate) accept_moved: bool,
    /// Write the pin although patches do not fit the new source
    #[arg(long)]
    pub(crate) accept_broken_patches: bool,
}

/// Where archives are looked up.
#[derive(Debug, Args)]
pub(crate) struct Index {
    /// Look archives up on this Python index [default: that of uv or pip on this machine]
    #[arg(long = "index", value_name = "URL", env = "BUILD_PIPELINE_INDEX")]
    pub(crate) url: Option<String>,
}

/// The form of the result of a bump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BumpFormat {
    /// For reading
    Text,
    /// For programs
    Json,
    /// Title, empty line, body of a pull request
    Github,
}
