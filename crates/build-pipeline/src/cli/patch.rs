//! The arguments of `patch`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::cli::values::Format;

// Patch a source tree or an installed system, or report why a patch does not apply
#[derive(Debug, Args)]
pub(crate) struct Patch {
    #[command(subcommand)]
    pub(crate) command: PatchCommand,
}

// The subcommands of `patch`.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum PatchCommand {
    /// Show what each patch would do to a tree, without changing it
    Check(Check),
    /// Print the changes as a unified diff
    Diff(Check),
    /// Patch a tree: all files or none
    Apply(Apply),
    /// Undo the patches in a tree
    Revert(Revert),
    /// Try a component's patches on many versions, and list the patches that can be retired
    Audit(Audit),
    /// Show what the `sed -i` lines of Dockerfiles and scripts do to a tree
    LintSed(LintSed),
    /// Print a package manager hook that applies the patches again after upgrades
    Hook(Hook),
}

// Try the patches of a component on a tree
#[derive(Debug, Args)]
#[command(disable_version_flag = true)]
pub(crate) struct Check {
    /// The component: the name of a folder in `patches/`, for example vllm
    pub(crate) component: String,
    #[command(flatten)]
    pub(crate) options: Options,
}

// What to patch, and how strictly.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The tree to patch [default: the source of a pin, which is fetched for this]
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Patch the source of this pin [default: the pin with the component's name, or else the only
    /// pin that uses its patches]
    #[arg(long, value_name = "PIN", conflicts_with = "root")]
    pub(crate) pin: Option<String>,
    /// The version of the tree [default: the one in the pin or in the tree's files]
    #[arg(long)]
    pub(crate) version: Option<String>,
    /// Patch for this GPU target
    #[arg(long, value_name = "GFX")]
    pub(crate) gpu: Option<String>,
    /// Use only these patches (repeatable)
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Also fail if upstream already contains a patch, or if a probe did not run
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) probes: ProbeOptions,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

// How to run the probes of patches.
#[derive(Debug, Args)]
pub(crate) struct ProbeOptions {
    /// Do not run the patches' probes (cmake, preprocessor, python3)
    #[arg(long)]
    pub(crate) no_probes: bool,
    /// Run probes with all your permissions if they cannot be confined; they execute code from the
    /// tree
    #[arg(long, conflicts_with = "no_probes")]
    pub(crate) unconfined_probes: bool,
}

// Patch a tree: all files or none
#[derive(Debug, Args)]
#[command(disable_version_flag = true)]
pub(crate) struct Apply {
    /// The component: the name of a folder in `patches/`, for example vllm
    #[arg(required_unless_present = "when", conflicts_with = "when")]
    pub(crate) component: Option<String>,
    #[command(flatten)]
    pub(crate) options: Options,
    /// Detect the GPU and the packages installed under --root, and choose patches to match
    #[arg(long, value_enum, value_name = "WHEN", conflicts_with_all = ["version", "only", "pin"])]
    pub(crate) when: Option<When>,
    /// Write the patched source of a pin to this file, as a canonical tar; `-` is standard output
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["root", "when", "write"])]
    pub(crate) output: Option<PathBuf>,
    /// Look for the GPU in the system whose root is this folder [default: /]
    #[arg(long, value_name = "DIR", requires = "when")]
    pub(crate) host_root: Option<PathBuf>,
    /// Also write to system directories and installed packages
    #[arg(long)]
    pub(crate) write: bool,
    /// Write nothing; only show the changes
    #[arg(long, conflicts_with = "write")]
    pub(crate) dry_run: bool,
}

/// How to choose patches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// Choose patches based on the installed packages and the GPU
    Auto,
}

// Undo the patches in a tree
#[derive(Debug, Args)]
pub(crate) struct Revert {
    /// The component [default: all patched components, including Python packages under --root]
    pub(crate) component: Option<String>,
    /// The tree
    #[arg(long, value_name = "DIR")]
    pub(crate) root: PathBuf,
    /// Also write to system directories and installed packages
    #[arg(long)]
    pub(crate) write: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

// Try a component's patches on many versions, and list the patches that can be retired
#[derive(Debug, Args)]
pub(crate) struct Audit {
    /// The component: the name of a folder in `patches/`, for example vllm
    pub(crate) component: String,
    /// Unpacked releases; the version of each is read from its files, or else from its folder name
    /// [default: all pins of the component]
    #[arg(value_name = "DIR")]
    pub(crate) trees: Vec<PathBuf>,
    /// Fetch the releases in this version range from the package index, for example `>=0.9, <0.12`
    /// or `*`
    #[arg(long, value_name = "RANGE", conflicts_with = "trees")]
    pub(crate) releases: Option<String>,
    /// Patch for this GPU target
    #[arg(long, value_name = "GFX")]
    pub(crate) gpu: Option<String>,
    #[command(flatten)]
    pub(crate) probes: ProbeOptions,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

// Show what the `sed -i` lines of Dockerfiles and scripts do to a tree
#[derive(Debug, Args)]
pub(crate) struct LintSed {
    /// Dockerfiles and shell scripts
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Run the `sed -i` lines on copies of this tree's files; without a tree, only the text of the
    /// lines is checked
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Run the `sed -i` lines on copies of the files in this pin's source
    #[arg(long, value_name = "PIN", conflicts_with = "root")]
    pub(crate) pin: Option<String>,
    /// The GPU target of the suggested patches
    #[arg(long, value_name = "GFX")]
    pub(crate) gpu: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

// Print a hook for a package manager that applies the patches again after upgrades
#[derive(Debug, Args)]
pub(crate) struct Hook {
    /// The package manager
    #[arg(value_enum)]
    pub(crate) manager: Manager,
    /// The tree to patch [default: /; for pip and uv, the virtual environment that they change]
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Patch for this GPU target [default: the GPU that is present when the hook runs]
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
    /// pip has no hooks, so this prints a shell function that runs pip and then applies the patches
    Pip,
    /// uv has no hooks, so this prints a shell function that runs uv and then applies the patches
    Uv,
}
