//! The arguments of `export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use export::Writer;
use names::Secret;

use crate::cli::build::Subject;

/// A CI system, or bake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BuildSystem {
    /// GitHub Actions
    Github,
    /// GitLab CI
    Gitlab,
    /// Tekton Pipelines
    Tekton,
    /// docker buildx bake, for builders on other machines. Write the build contexts of all ready
    /// steps to a folder, and import the images that bake has written to it
    Bake,
}

impl BuildSystem {
    /// Returns how jobs are written; `None` for bake, which has no jobs.
    pub(crate) fn writer(self) -> Option<Writer> {
        match self {
            Self::Github => Some(export::GITHUB),
            Self::Gitlab => Some(export::GITLAB),
            Self::Tekton => Some(export::TEKTON),
            Self::Bake => None,
        }
    }

    /// Returns the name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// Returns the values of `system` that write jobs, which need a store and an installed tool.
fn with_jobs() -> impl Iterator<Item = (&'static str, String)> {
    let systems = BuildSystem::value_variants().iter();
    systems.filter(|system| system.writer().is_some()).map(|system| ("system", system.name()))
}

// Write the steps of tracks as a workflow for a CI system
#[derive(Debug, Args)]
#[command(
    after_help = "Each job runs one step with `build-pipeline step run KEY`, or writes one image with `build-pipeline build`. Jobs take the results of other jobs from the store by their digests. The workflow depends only on the plans and on these options.\n\n`export bake` is different: it writes a folder from which `docker buildx bake` builds the steps that are ready, and imports the images that bake has built. Run both commands alternately until all steps are finished.\n\nExample: build-pipeline export github vulkan --store registry:ghcr.io/me/steps --install ./install.sh -o .github/workflows/images.yml"
)]
pub(crate) struct Export {
    /// The CI system, or bake
    #[arg(value_enum)]
    pub(crate) system: BuildSystem,
    /// The tracks, given by name or letter; same as --track
    #[arg(value_name = "TRACK", value_delimiter = ',')]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) subject: Subject,
    /// The store through which jobs share finished steps: registry:HOST/NAME, or dir:PATH if all
    /// jobs share that folder; required except for bake
    #[arg(long = "store", value_name = "STORE", required_if_eq_any = with_jobs())]
    pub(crate) stores: Vec<Secret>,
    /// Push the images to a registry. {track}, {gpu} and {version} are replaced with the values of
    /// each image, {date} with today's date
    #[arg(long, value_name = "REF")]
    pub(crate) push: Option<Secret>,
    /// The shell command that installs build-pipeline on a runner; required except for bake
    #[arg(long, value_name = "COMMAND", required_if_eq_any = with_jobs())]
    pub(crate) install: Option<String>,
    /// Where jobs run: a runner label for GitHub Actions [default: ubuntu-24.04], or a container
    /// image for GitLab and Tekton [default: debian:13]
    #[arg(long, value_name = "WHERE")]
    pub(crate) runs_on: Option<String>,
    /// Write the workflow to this file [default: print it]; for bake, write to this folder, which is
    /// required
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Check that the file exists and is up to date, and write nothing
    #[arg(long, requires = "output")]
    pub(crate) check: bool,
}
