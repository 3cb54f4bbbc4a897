//! What can be typed behind `build-pipeline patch`. It holds no logic.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::cli::Format;

/// Patch a source or installed tree, or say why not
#[derive(Debug, Args)]
pub(crate) struct Patch {
    #[command(subcommand)]
    pub(crate) command: PatchCommand,
}

/// The commands behind `patch`.
#[derive(Debug, Subcommand)]
pub(crate) enum PatchCommand {
    /// Say what each patch would do to a tree, and do nothing
    Check(Check),
    /// Print what would change as a unified diff
    Diff(Check),
    /// Patch a tree: every file or none
    Apply(Apply),
    /// Take back what was applied to a tree
    Revert(Revert),
    /// Say what a component's patches make of many versions, and which can be retired
    Audit(Audit),
    /// Say what the `sed -i` lines of Dockerfiles and scripts do to a tree
    LintSed(LintSed),
    /// Print a hook for a package manager that applies the patches anew after upgrades
    Hook(Hook),
}

/// A component of a tree
#[derive(Debug, Args)]
#[command(disable_version_flag = true)]
pub(crate) struct Check {
    /// A folder of `patches/`, for example vllm
    pub(crate) component: String,
    #[command(flatten)]
    pub(crate) options: Options,
}

/// What is patched, and how strictly.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The tree; without one, the source of a pin is fetched
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Patch the source of this pin [default: the one called as the component]
    #[arg(long, value_name = "PIN", conflicts_with = "root")]
    pub(crate) pin: Option<String>,
    /// The version of the tree [default: what the pin or the tree's packaging says]
    #[arg(long)]
    pub(crate) version: Option<String>,
    /// Patch for this GPU target
    #[arg(long, value_name = "GFX")]
    pub(crate) gpu: Option<String>,
    /// Take these patches and no others (repeatable)
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Fail also where upstream has a patch by now, or a probe was not run
    #[arg(long)]
    pub(crate) strict: bool,
    /// Do not run the patches' probes (cmake, preprocessor, python3)
    #[arg(long)]
    pub(crate) no_probes: bool,
    /// The form of the report
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// Patch a tree: every file or none
#[derive(Debug, Args)]
#[command(disable_version_flag = true)]
pub(crate) struct Apply {
    /// A folder of `patches/`, for example vllm
    #[arg(required_unless_present = "when", conflicts_with = "when")]
    pub(crate) component: Option<String>,
    #[command(flatten)]
    pub(crate) options: Options,
    /// Find out what is installed under --root, and on which GPU, and choose the patches by that
    #[arg(long, value_enum, value_name = "WHEN", conflicts_with_all = ["version", "only", "pin"])]
    pub(crate) when: Option<When>,
    /// Write the patched source of a pin here, as a canonical tar; `-` is standard output
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["root", "when", "write"])]
    pub(crate) output: Option<PathBuf>,
    /// Look for the GPU in this system [default: /]
    #[arg(long, value_name = "DIR", requires = "when")]
    pub(crate) host_root: Option<PathBuf>,
    /// Write also into a directory of the system or of installed packages
    #[arg(long)]
    pub(crate) write: bool,
    /// Write nothing, only say what would be
    #[arg(long, conflicts_with = "write")]
    pub(crate) dry_run: bool,
}

/// How patches are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// By what is installed, and by the GPU
    Auto,
}

/// Take back what was applied to a tree
#[derive(Debug, Args)]
pub(crate) struct Revert {
    /// The component [default: all that were applied to, also to Python packages under --root]
    pub(crate) component: Option<String>,
    /// The tree
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// The form of the report
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// Say what a component's patches make of many versions, and which can be retired
#[derive(Debug, Args)]
pub(crate) struct Audit {
    /// A folder of `patches/`, for example vllm
    pub(crate) component: String,
    /// Unpacked releases: each says its version, or is called by it [default: all pins of the component]
    #[arg(value_name = "DIR")]
    pub(crate) trees: Vec<PathBuf>,
    /// Fetch the releases of these versions from the Python index, for example `>=0.9, <0.12` or `*`
    #[arg(long, value_name = "RANGE", conflicts_with = "trees")]
    pub(crate) releases: Option<String>,
    /// Patch for this GPU target
    #[arg(long, value_name = "GFX")]
    pub(crate) gpu: Option<String>,
    /// Do not run the patches' probes (cmake, preprocessor, python3)
    #[arg(long)]
    pub(crate) no_probes: bool,
    /// The form of the report
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// Say what the `sed -i` lines of Dockerfiles and scripts do to a tree
#[derive(Debug, Args)]
pub(crate) struct LintSed {
    /// Dockerfiles and shell scripts
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Run the lines on copies of this tree's files; without a tree only their words are judged
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Run the lines on copies of the files of this pin's source
    #[arg(long, value_name = "PIN", conflicts_with = "root")]
    pub(crate) pin: Option<String>,
    /// The GPU target of the patches that are named instead
    #[arg(long, value_name = "GFX")]
    pub(crate) gpu: Option<String>,
    /// The form of the report
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// Print a hook for a package manager that applies the patches anew after upgrades
#[derive(Debug, Args)]
pub(crate) struct Hook {
    /// The package manager
    #[arg(value_enum)]
    pub(crate) manager: Manager,
    /// The tree that is patched
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
    /// Patch for this GPU target [default: what is there when the hook runs]
    #[arg(long, value_name = "GFX")]
    pub(crate) gpu: Option<String>,
}

/// A package manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Manager {
    /// Debian, Ubuntu
    Apt,
    /// Fedora
    Dnf,
    /// openSUSE
    Zypper,
}
