//! The arguments of `bundle` and `mirror`.

use std::path::PathBuf;

use clap::Args;
use names::Secret;

use crate::cli::Subject;

// Write all inputs of tracks into one file, for machines without a network
#[derive(Debug, Args)]
#[command(
    after_help = "The file contains all images, git commits, archives, wheels, Debian packages and locks that the plans use. It is an OCI archive; a build checks the digest of every blob that it uses. If the command is interrupted, run it again to continue where it stopped.\n\nExample: build-pipeline bundle official vulkan -o inputs.tar, then build-pipeline build vulkan --bundle inputs.tar"
)]
#[command(mut_arg("tracks", |arg| arg.help("Bundle the inputs of this track, given by name or letter (repeatable)")))]
pub(crate) struct Bundle {
    /// The tracks, given by name or letter; same as --track
    #[arg(value_name = "TRACK", value_delimiter = ',')]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) subject: Subject,
    /// Write the bundle to this file
    #[arg(short, long, value_name = "FILE", required_unless_present = "check")]
    pub(crate) output: Option<PathBuf>,
    /// Leave out the blobs that this older bundle has; a build then needs both bundles (repeatable)
    #[arg(long, value_name = "OLD", requires = "output")]
    pub(crate) since: Vec<PathBuf>,
    /// Check every byte of these bundles, and of folders that `mirror` wrote; write nothing
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["names", "tracks", "output"])]
    pub(crate) check: Vec<PathBuf>,
}

// Copy all inputs of tracks to your own registry or folder
#[derive(Debug, Args)]
#[command(
    after_help = "Blobs that PLACE already has are not copied again. To build from the copy, use `--mirror all=PLACE`; with `--mirror-only`, the build reads nothing else.\n\nExample: build-pipeline mirror official --to registry:registry.example.org/ai/inputs"
)]
#[command(mut_arg("tracks", |arg| arg.help("Copy the inputs of this track, given by name or letter (repeatable)")))]
pub(crate) struct Mirror {
    /// The tracks, given by name or letter; same as --track
    #[arg(value_name = "TRACK", value_delimiter = ',')]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) subject: Subject,
    /// Copy to registry:HOST/NAME or dir:PATH (repeatable)
    #[arg(long, value_name = "PLACE", required = true)]
    pub(crate) to: Vec<Secret>,
}
