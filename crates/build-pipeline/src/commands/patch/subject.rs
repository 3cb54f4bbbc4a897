//! Finds what is patched: the tree, its version, the patches, the GPU target.

use std::collections::BTreeMap;
use std::path::Path;

use patcher::{PatchSet, Subject, Tree, TreePath, Version};
use pins::{GpuTarget, Sha256};

use crate::commands::patch::args::Options;
use crate::error::CommandError;
use crate::exit_code::ExitCode;
use crate::patching::directory::Directory;
use crate::patching::ledger::Ledger;
use crate::patching::{patches, version};
use crate::project::Project;

/// Everything that must be known before a patch is tried.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) component: String,
    pub(crate) set: PatchSet,
    pub(crate) gpu: GpuTarget,
    pub(crate) version: Option<version::Found>,
    pub(crate) ledger: Ledger,
    pub(crate) directory: Directory,
    base: BTreeMap<TreePath, Sha256>,
}

impl Prepared {
    /// Prepares the patches of a component for the tree that `options` name.
    pub(crate) fn new(
        here: &Path,
        project: &Project,
        component: &str,
        options: &Options,
    ) -> Result<Self, CommandError> {
        let all = patches::read(project, component)?;
        let set = patches::select(all, &options.only)?;
        let directory = tree_of(here, component, options.root.as_deref())?;
        let gpu = gpu(project, options.gpu.as_deref())?;
        let version = version_of(&directory, component, &set, options)?;
        Self::in_directory(component, set, gpu, version, directory)
    }

    /// Prepares a set of patches for a directory.
    pub(crate) fn in_directory(
        component: &str,
        set: PatchSet,
        gpu: GpuTarget,
        version: Option<version::Found>,
        directory: Directory,
    ) -> Result<Self, CommandError> {
        let ledger = Ledger::read(&directory)?;
        let base = version::untouched(&directory, component, set.patches());
        Ok(Self { component: component.to_owned(), set, gpu, version, ledger, directory, base })
    }

    /// Reads again what another run may have changed before the tree was locked, and removes what a
    /// killed one left.
    pub(crate) fn refresh(&mut self) -> Result<(), CommandError> {
        let edits = self.set.patches().iter().flat_map(|patch| &patch.edits);
        self.directory.sweep(edits.flat_map(|edit| &edit.files));
        self.ledger = Ledger::read(&self.directory)?;
        self.directory.sweep(self.ledger.files());
        self.base = version::untouched(&self.directory, &self.component, self.set.patches());
        Ok(())
    }

    /// Returns what is known about the tree.
    pub(crate) fn subject(&self) -> Subject<'_> {
        Subject {
            gpu: &self.gpu,
            version: self.version.as_ref().map(|found| &found.version),
            build_env: None,
            is_pristine: false,
            base: &self.base,
            receipts: &self.ledger.receipts,
        }
    }

    /// Returns the tree.
    pub(crate) fn tree(&self) -> &dyn Tree {
        &self.directory
    }
}

/// Opens the tree of a component. This is the place where pinned sources come in: without `--root`
/// the tree will be that of the component's pin.
fn tree_of(here: &Path, component: &str, root: Option<&Path>) -> Result<Directory, CommandError> {
    match root {
        Some(root) => open(here, root),
        None => {
            Err(CommandError::new(ExitCode::Input, format!("no tree of `{component}` was named"))
                .hint("write `--root DIR`; pinned sources are not fetched in this version"))
        }
    }
}

/// Opens a directory that was named on the command line.
pub(crate) fn open(here: &Path, root: &Path) -> Result<Directory, CommandError> {
    Directory::open(&here.join(root)).map_err(|error| {
        CommandError::caused(
            ExitCode::Input,
            format!("`{}` cannot be opened as a directory", root.display()),
            &error,
        )
        .hint("name the folder that the sources were unpacked into, or that packages are installed in")
    })
}

/// Reads `--gpu`, or takes the project's target.
pub(crate) fn gpu(project: &Project, asked: Option<&str>) -> Result<GpuTarget, CommandError> {
    match asked {
        None => project.default_gpu(),
        Some(text) => text.parse().map_err(|error| {
            CommandError::from_chain(ExitCode::Input, &error)
                .hint("a target looks like `gfx1151`; `versions/gpus.toml` lists some")
        }),
    }
}

fn version_of(
    tree: &Directory,
    component: &str,
    set: &PatchSet,
    options: &Options,
) -> Result<Option<version::Found>, CommandError> {
    if let Some(text) = &options.version {
        let version = text.parse::<Version>().map_err(|error| {
            CommandError::from_chain(ExitCode::Input, &error).hint("write `--version 0.11.0`")
        })?;
        return Ok(Some(version::Found { version, from: "--version".to_owned() }));
    }
    match version::detect(tree, component) {
        None if version::is_needed(set.patches()) => Err(CommandError::new(
            ExitCode::Input,
            format!(
                "`{}` does not say which version of `{component}` it is",
                tree.path().display()
            ),
        )
        .hint("name it with `--version VERSION`")),
        found => Ok(found),
    }
}
